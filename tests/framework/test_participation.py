"""Participation processes: equal chances for all, and windows as section 3.2 has them."""

from __future__ import annotations

import numpy as np
import pytest

from docofl_codec import InvalidInputError
from docofl_codec.framework import ConnectivityClasses, ParticipationProcess, UniformParticipation
from docofl_codec.framework.participation import notified_at

CLIENTS, PER_ROUND, ROUNDS = 40, 6, 4000
PROCESSES: list[ParticipationProcess] = [
    UniformParticipation(CLIENTS, PER_ROUND, seed=1),
    UniformParticipation(CLIENTS, PER_ROUND, lead=7, seed=2),
    ConnectivityClasses(
        CLIENTS, PER_ROUND, weak=frozenset(range(10)), strong_window=1, weak_window=9, seed=3
    ),
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
    ],
)
def test_bad_options(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(InvalidInputError, match=message):
        make()
