"""Participation processes: equal chances for all, and windows as section 3.2 has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from docofl_codec import InvalidInputError
from docofl_codec.framework import (
    ConnectivityClasses,
    Loop,
    ParticipationProcess,
    TraceParticipation,
    UniformParticipation,
)
from docofl_codec.framework.participation import notified_at
from tests.framework.problems import exact_server, gradient_step

CLIENTS, PER_ROUND, ROUNDS = 40, 6, 4000
DAY = {client: [(client // 2, client // 2 + 3)] for client in range(0, CLIENTS, 2)}
PROCESSES: list[ParticipationProcess] = [
    UniformParticipation(CLIENTS, PER_ROUND, seed=1),
    UniformParticipation(CLIENTS, PER_ROUND, lead=7, seed=2),
    ConnectivityClasses(
        CLIENTS, PER_ROUND, weak=frozenset(range(10)), strong_window=1, weak_window=9, seed=3
    ),
    UniformParticipation(CLIENTS, PER_ROUND, lead=(2, 9), seed=4),
    TraceParticipation(CLIENTS, PER_ROUND, DAY, lead=2, max_lead=9, period=24, seed=5),
]


@pytest.mark.parametrize("process", PROCESSES, ids=repr)
def test_all_clients_have_the_same_chance(process: ParticipationProcess) -> None:
    counts = np.zeros(CLIENTS)
    for t in range(ROUNDS):
        clients = process.participants(t)
        assert len(clients) == PER_ROUND
        counts[list(clients)] += 1
    share = PER_ROUND / CLIENTS
    deviation = np.sqrt(ROUNDS * share * (1 - share))
    assert np.abs(counts - ROUNDS * share).max() < 5 * deviation


@pytest.mark.parametrize("process", PROCESSES, ids=repr)
def test_rounds_are_independent_of_each_other_and_of_the_order_of_questions(
    process: ParticipationProcess,
) -> None:
    first = [process.participants(t) for t in range(50)]
    assert [process.participants(t) for t in reversed(range(50))] == first[::-1]
    assert len({tuple(clients) for clients in first}) > 45


def test_windows_of_connectivity_classes() -> None:
    process = ConnectivityClasses(
        8, 8, weak=frozenset({1, 5}), strong_window=2, weak_window=10, seed=0
    )
    for t in (0, 3, 9, 10, 25):
        for client, told in process.participants(t).items():
            assert told == max(0, t - (10 if client in {1, 5} else 2))


def test_the_first_rounds_tell_weak_clients_later_than_they_should() -> None:
    """Section 3.2: before round T_w weakly connected clients cannot be told early enough."""
    process = ConnectivityClasses(
        8, 8, weak=frozenset({1, 5}), strong_window=2, weak_window=10, seed=0
    )
    windows = [t - process.participants(t)[1] for t in range(15)]
    assert windows == [*range(10), 10, 10, 10, 10, 10]
    assert [t - process.participants(t)[0] for t in range(5)] == [0, 1, 2, 2, 2]


def test_leads_are_drawn_from_their_range() -> None:
    process = UniformParticipation(30, 30, lead=(3, 6), seed=0)
    leads = [t - s for t in range(6, 200) for s in process.participants(t).values()]
    assert set(leads) == {3, 4, 5, 6}
    counts = np.bincount(leads)[3:]
    assert np.abs(counts / len(leads) - 0.25).max() < 0.02


def test_traces_decide_when_clients_are_told() -> None:
    trace = {0: [(0, 1), (4, 6), (20, 30)], 1: [(9, 10)]}
    process = TraceParticipation(3, 3, trace, lead=3, max_lead=12)
    told = {t: process.participants(t) for t in (2, 3, 8, 9, 16, 18, 24)}
    assert told[2][0] == 0  # two rounds instead of three
    assert told[3][0] == 0
    assert told[8][0] == told[9][0] == 5
    assert told[18][0] == 18  # its last opportunity is more than twelve rounds ago
    assert told[24][0] == 21
    assert told[9][1] == 9
    assert told[16][1] == 9
    assert told[16][2] == 16  # never reachable


def test_short_notice_is_better_than_none() -> None:
    process = TraceParticipation(1, 1, {0: [(7, 9)]}, lead=5)
    assert process.participants(10) == {0: 7}


def test_traces_repeat() -> None:
    process = TraceParticipation(1, 1, {0: [(2, 4)]}, lead=1, period=10)
    assert [process.participants(t)[0] for t in (4, 9, 11, 14, 23)] == [3, 3, 3, 13, 22]


def test_traces_are_read_from_csv(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("client,start,end\n1,9,10\n0,4,6\n0,0,1\n0,20,30\n")
    process = TraceParticipation.read(path, 3, 3, lead=3, max_lead=12)
    trace = {0: [(0, 1), (4, 6), (20, 30)], 1: [(9, 10)]}
    assert process == TraceParticipation(3, 3, trace, lead=3, max_lead=12)
    path.write_text("client,start,end\n1,9,10\n0,four,6\n")
    with pytest.raises(InvalidInputError, match="line 3"):
        TraceParticipation.read(path, 3, 3)


def test_another_trace_has_another_repr() -> None:
    """Checkpoints compare processes by it."""
    first = TraceParticipation(2, 1, {0: [(0, 1)]})
    assert repr(first) == repr(TraceParticipation(2, 1, {0: [(0, 1)]}))
    assert repr(first) != repr(TraceParticipation(2, 1, {0: [(0, 2)]}))


def test_an_own_process_needs_one_method_and_clients_that_nobody_told_still_join() -> None:
    class LastMinute:
        def participants(self, round_number: int) -> dict[int, int]:
            return {round_number % 3: -1}  # told before the run began, that is by nobody

    assert isinstance(LastMinute(), ParticipationProcess)
    server = exact_server(participation=LastMinute())
    loop = Loop(server, gradient_step)
    assert [loop.step().accepted for _ in range(4)] == [1] * 4
    assert server.ledger.num_frames("late_anchor") == 4


@pytest.mark.parametrize("process", PROCESSES, ids=repr)
def test_everybody_is_told_exactly_once(process: ParticipationProcess) -> None:
    told: dict[tuple[int, int], int] = {}
    for s in range(60):
        for client, rounds in notified_at(process, s, horizon=10).items():
            for t in rounds:
                assert (client, t) not in told
                told[client, t] = s
    for t in range(50):
        for client, s in process.participants(t).items():
            assert told[client, t] == s <= t


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: UniformParticipation(5, 6), "per_round"),
        (lambda: UniformParticipation(5, 0), "per_round"),
        (lambda: UniformParticipation(5, 1, lead=-1), "window"),
        (
            lambda: ConnectivityClasses(5, 1, weak=frozenset({5}), strong_window=0, weak_window=1),
            "weak: found client 5",
        ),
        (lambda: UniformParticipation(5, 1, lead=(4, 3)), "lead"),
        (lambda: TraceParticipation(5, 1, {0: [(3, 3)]}), "client 0: found 3 to 3"),
        (lambda: TraceParticipation(5, 1, {2: [(3, 5), (4, 6)]}), "client 2: found 4 to 6"),
        (lambda: TraceParticipation(5, 1, {0: [(3, 11)]}, period=10), "within the period"),
    ],
)
def test_bad_options(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(InvalidInputError, match=message):
        make()
