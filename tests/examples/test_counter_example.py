"""The counter-example of appendix A: direct compression stalls, anchor and correction arrive."""

from __future__ import annotations

import numpy as np
import pytest

from examples import counter_example


def test_direct_compression_settles_away_from_the_minimum() -> None:
    weights = counter_example.descend("direct")
    assert weights.mean() < 0.9
    assert np.abs(weights - 1).mean() > 0.1


@pytest.mark.parametrize("exact_anchors", [True, False])
def test_anchor_and_correction_reach_it(exact_anchors: bool) -> None:
    weights = counter_example.descend("docofl", exact_anchors=exact_anchors)
    assert np.abs(weights - 1).mean() < (1e-6 if exact_anchors else 1e-3)


def test_main_prints_three_lines(capsys: pytest.CaptureFixture[str]) -> None:
    counter_example.main()
    assert capsys.readouterr().out.count("mean |w - 1|") == 3
