"""Who takes part in which round, and when each client is told (section 3.2 of the paper).

A process is a pure function of the round, so that it needs no state, can be asked in any order and
resumes by itself. Every process here gives all clients the same probability of taking part in any
round, P(i in P(t)) = S / N.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, runtime_checkable

import numpy as np

from docofl_codec.errors import InvalidInputError
from docofl_codec.framework.seeds import derive_seed

__all__ = ["ConnectivityClasses", "ParticipationProcess", "UniformParticipation", "notified_at"]


@runtime_checkable
class ParticipationProcess(Protocol):
    """The process P of algorithm 1."""

    def participants(self, round_number: int) -> Mapping[int, int]:
        """Return the clients of round t, each with its notification round s <= t."""
        ...


@dataclass(frozen=True)
class UniformParticipation:
    """S of N clients, uniformly at random, told some rounds ahead.

    Parameters
    ----------
    num_clients : int
        N.
    per_round : int
        S.
    lead : int, default 0
        t - s: rounds between notification and participation. The first rounds have less.
    seed : int, default 0
        Of the selection.

    Examples
    --------
    >>> process = UniformParticipation(100, 3, lead=5)
    >>> sorted(process.participants(7).values())
    [2, 2, 2]
    """

    num_clients: int
    per_round: int
    lead: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        _check(self.num_clients, self.per_round, [self.lead])

    def participants(self, round_number: int) -> Mapping[int, int]:
        """Return the clients of a round with their notification rounds."""
        chosen = _choose(self.seed, round_number, self.num_clients, self.per_round)
        return dict.fromkeys(chosen, max(0, round_number - self.lead))


@dataclass(frozen=True)
class ConnectivityClasses:
    """S of N clients, uniformly at random; weakly connected ones are told earlier.

    In the first T_w rounds weakly connected clients cannot be told early enough: their window is
    shorter, and the round may take longer, as the paper says.

    Parameters
    ----------
    num_clients, per_round : int
        N and S.
    weak : collection of int
        The weakly connected clients.
    strong_window, weak_window : int
        T_s and T_w, in rounds.
    seed : int, default 0
        Of the selection.

    Examples
    --------
    >>> process = ConnectivityClasses(
    ...     10, 10, weak=frozenset({3}), strong_window=1, weak_window=4
    ... )
    >>> process.participants(6)[3], process.participants(6)[0], process.participants(2)[3]
    (2, 5, 0)
    """

    num_clients: int
    per_round: int
    weak: frozenset[int]
    strong_window: int
    weak_window: int
    seed: int = 0

    def __post_init__(self) -> None:
        _check(self.num_clients, self.per_round, [self.strong_window, self.weak_window])
        outside = [client for client in self.weak if not 0 <= client < self.num_clients]
        if outside:
            raise InvalidInputError(
                f"weak: found client {outside[0]}, expected 0 to {self.num_clients - 1}"
            )

    def participants(self, round_number: int) -> Mapping[int, int]:
        """Return the clients of a round with their notification rounds."""
        chosen = _choose(self.seed, round_number, self.num_clients, self.per_round)
        return {
            client: max(
                0,
                round_number - (self.weak_window if client in self.weak else self.strong_window),
            )
            for client in chosen
        }


def notified_at(
    process: ParticipationProcess, round_number: int, horizon: int
) -> dict[int, list[int]]:
    """Return the clients that are told in a round, with the rounds that they are told of.

    Parameters
    ----------
    process : ParticipationProcess
        Of the run.
    round_number : int
        s.
    horizon : int
        The most rounds between notification and participation.
    """
    told: dict[int, list[int]] = {}
    for participation_round in range(round_number, round_number + horizon + 1):
        for client, notification_round in process.participants(participation_round).items():
            if notification_round == round_number:
                told.setdefault(client, []).append(participation_round)
    return told


@lru_cache(maxsize=1024)
def _choose(seed: int, round_number: int, num_clients: int, per_round: int) -> tuple[int, ...]:
    generator = np.random.Generator(np.random.PCG64(derive_seed(seed, "clients", round_number)))
    return tuple(sorted(generator.choice(num_clients, per_round, replace=False).tolist()))


def _check(num_clients: int, per_round: int, windows: Sequence[int]) -> None:
    if not 1 <= per_round <= num_clients:
        raise InvalidInputError(
            f"per_round: found {per_round}, expected 1 to num_clients = {num_clients}"
        )
    if min(windows) < 0:
        raise InvalidInputError(f"window: found {min(windows)}, expected 0 rounds or more")
