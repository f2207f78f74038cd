"""The demonstration prints a row for each budget, and what a user would look at."""

from __future__ import annotations

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("rich")

from examples import demo  # noqa: E402


def test_main(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "REPEATS", 2)
    demo.main()
    out = capsys.readouterr().out
    assert "test accuracy" in out
    rows = [line for line in out.splitlines() if " x " in line]
    assert len(rows) == len(demo.BUDGETS)
