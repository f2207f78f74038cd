"""Delayed gradients: updates that come late count less, and at most once."""

from __future__ import annotations

import numpy as np
import pytest

from docofl_codec import Identity
from docofl_codec.framework import SGD, Loop, UniformParticipation, Update, run
from tests.framework.problems import GOAL, SIZE, exact_server, gradient_step


def frame(value: float) -> bytes:
    return Identity().encode(np.full(SIZE, value, dtype=np.float32))


def test_late_updates_weigh_less() -> None:
    server = exact_server(
        participation=UniformParticipation(3, 3), max_delay=2, staleness_exponent=1.0
    )
    assert server.receive(Update(0, 0, frame(0))).accepted
    server.finish_round()
    assert server.receive(Update(0, 1, frame(1))).accepted
    assert server.receive(Update(1, 0, frame(7))).accepted  # a round late: half the weight
    report = server.finish_round()
    assert (report.accepted, report.missing) == (2, 2)
    assert np.allclose(server.weights, (1 + 0.5 * 7) / 1.5)


def test_late_duplicate_and_too_late_updates_are_dropped() -> None:
    server = exact_server(participation=UniformParticipation(4, 2), max_delay=1, quorum=9)
    first, second = sorted(server.participation.participants(0))
    outsider = next(i for i in range(4) if i not in (first, second))
    assert server.receive(Update(first, 0, frame(1))).accepted
    server.finish_round()
    assert server.receive(Update(first, 0, frame(1))).reason == "duplicate"
    assert server.receive(Update(second, 0, frame(1))).accepted
    assert server.receive(Update(second, 0, frame(1))).reason == "duplicate"
    assert server.receive(Update(outsider, 0, frame(1))).reason == "not asked"
    server.finish_round()
    assert server.receive(Update(second, 0, frame(1))).reason == "late"
    assert server.receive(Update(first, 3, frame(1))).reason == "late"  # a round to come


@pytest.mark.parametrize("max_delay", [0, 3])
def test_a_loop_with_slow_clients(max_delay: int) -> None:
    server = exact_server(
        participation=UniformParticipation(12, 6), max_delay=max_delay, optimizer=SGD(lr=0.5)
    )
    loop = Loop(server, gradient_step, delay=lambda client, _t: client % 4)
    accepted = 0
    for _ in range(60):
        accepted += loop.step().accepted
    assert np.abs(server.weights - GOAL).max() < 0.02
    sent = 60 * 6
    if max_delay:
        assert accepted + len(loop.on_the_way) == sent
    else:
        assert server.counters["dropped"] > sent / 2  # three of four are late


def test_no_delay_is_the_run_without_delays() -> None:
    plain, with_delays = exact_server(), exact_server(max_delay=5)
    for _ in run(plain, gradient_step, 10):
        pass
    for _ in run(with_delays, gradient_step, 10, delay=lambda *_: 0):
        pass
    assert plain.weights.tobytes() == with_delays.weights.tobytes()
