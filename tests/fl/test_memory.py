"""Memory stays flat over the rounds of a run."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from benchmarks.fl_memory import WARM_UP, Growth, measure
from docofl_codec.fl import RunConfig
from docofl_codec.fl.runner import Runner

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

ROUNDS = 150
METRICS_BYTES = 5_000  # a round's metrics and its lines in the ledger


def is_flat(growth: Growth) -> bool:
    """Less than a quarter of a model a round, of which Python holds no more than metrics."""
    return (
        growth.resident < 0.25 * growth.rounds * growth.model_bytes
        and growth.traced < growth.rounds * METRICS_BYTES
    )


@pytest.mark.parametrize("codec", ["fedavg", "2,2,3"])
def test_memory_is_flat(codec: str) -> None:
    growth = measure(RunConfig(codec=codec, per_round=5, rounds=WARM_UP + ROUNDS))
    assert growth.rounds == ROUNDS
    assert is_flat(growth), growth


def test_a_vector_kept_every_other_round_is_noticed() -> None:
    kept = []

    def keep(runner: Runner) -> None:
        if runner.server.round % 2 == 0:
            kept.append(np.copy(runner.server.weights))

    growth = measure(RunConfig(per_round=5, rounds=WARM_UP + ROUNDS), on_round=keep)
    assert not is_flat(growth), growth
    # Resident memory may hardly grow where earlier tests have left free pages.
    assert growth.traced > growth.rounds * METRICS_BYTES
