"""Targets for what the loop adds to the clients' training."""

from __future__ import annotations

import pytest

from benchmarks import fl_overhead


@pytest.mark.bench
def test_a_round_costs_little_more_than_its_training() -> None:
    """FedAvg takes at most 1.1 times plain torch, DoCoFL at most 5 % more than that."""
    trainer = fl_overhead.make_trainer()
    for _ in range(3):
        seconds = fl_overhead.measure(trainer)
        fedavg = seconds["fedavg"] / seconds["plain torch"]
        docofl = seconds["2,2,3"] / seconds["fedavg"]
        if fedavg <= 1.1 and docofl <= 1.05:
            break
    assert fedavg <= 1.1, f"FedAvg took {fedavg:.3f} of plain torch, target 1.1"
    assert docofl <= 1.05, f"DoCoFL took {docofl:.3f} of FedAvg, target 1.05"
    own = fl_overhead.measure_own(trainer)
    more = (own["2,2,3"] - own["fedavg"]) / seconds["fedavg"]
    assert more <= 0.05, f"DoCoFL's own work took {more:.3f} of a round, target 0.05"
