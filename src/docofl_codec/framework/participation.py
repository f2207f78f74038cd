"""Who takes part in which round, and when each client is told (section 3.2 of the paper).

A process is a pure function of the round, so that it needs no state, can be asked in any order and
resumes by itself. Every process here gives all clients the same probability of taking part in any
round, P(i in P(t)) = S / N.
"""

from __future__ import annotations

import csv
import hashlib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, runtime_checkable

import numpy as np

from docofl_codec.errors import InvalidInputError
from docofl_codec.framework.seeds import derive_seed

__all__ = [
    "ConnectivityClasses",
    "ElasticParticipation",
    "ParticipationProcess",
    "TraceParticipation",
    "UniformParticipation",
    "notified_at",
]

Intervals = Sequence[tuple[int, int]]


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
    lead : int or pair of int, default 0
        t - s: rounds between notification and participation; a pair is drawn from, both ends
        included, for each client and round. The first rounds have less.
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
    lead: int | tuple[int, int] = 0
    seed: int = 0

    def __post_init__(self) -> None:
        _check(self.num_clients, self.per_round, self._bounds)
        if self._bounds[0] > self._bounds[1]:
            raise InvalidInputError(f"lead: found {self.lead}, expected the smaller number first")

    def participants(self, round_number: int) -> Mapping[int, int]:
        """Return the clients of a round with their notification rounds."""
        return _uniform(self.seed, round_number, self.num_clients, self.per_round, *self._bounds)

    @property
    def _bounds(self) -> tuple[int, int]:
        return self.lead if isinstance(self.lead, tuple) else (self.lead, self.lead)


class ElasticParticipation:
    """S of the clients that there are, uniformly at random, told some rounds ahead.

    For engines whose clients come and go. A round is planned from the clients of that moment; while
    they stay the same, this is :class:`UniformParticipation`.

    Parameters
    ----------
    lead : int or pair of int, default 0
        t - s, as for :class:`UniformParticipation`.
    seed : int, default 0
        Of the selection.

    Examples
    --------
    >>> process = ElasticParticipation(lead=2)
    >>> process.plan(5, clients=[0, 1, 2, 8], per_round=3)
    >>> process.participants(5)
    {0: 3, 2: 3, 8: 3}
    >>> process.complete(5, clients=[0, 1, 8], per_round=3)
    True
    >>> process.participants(5)
    {0: 3, 1: 5, 8: 3}
    """

    def __init__(self, *, lead: int | tuple[int, int] = 0, seed: int = 0) -> None:
        self._whole = UniformParticipation(1, 1, lead, seed)
        self._plans: dict[int, dict[int, int]] = {}

    @property
    def horizon(self) -> int:
        """The most rounds between notification and participation."""
        return self._whole._bounds[1]

    def plan(self, round_number: int, clients: Sequence[int], per_round: int) -> None:
        """Choose the clients of a round, unless that has been done."""
        if round_number in self._plans:
            return
        there = sorted(clients)
        chosen: Mapping[int, int] = {}
        if there and per_round > 0:
            per_round = min(per_round, len(there))
            process = replace(self._whole, num_clients=len(there), per_round=per_round)
            chosen = process.participants(round_number)
        self._plans[round_number] = {there[index]: told for index, told in chosen.items()}

    def complete(self, round_number: int, clients: Sequence[int], per_round: int) -> bool:
        """Replace clients of the current round that are gone; tell whether any had to be."""
        planned = self._plans.get(round_number, {})
        stay = {client: told for client, told in planned.items() if client in set(clients)}
        others = sorted(set(clients) - set(stay))
        missing = max(0, min(per_round - len(stay), len(others)))
        if missing:
            seed = derive_seed(self._whole.seed, "substitutes", round_number)
            generator = np.random.Generator(np.random.PCG64(seed))
            for index in generator.choice(len(others), missing, replace=False).tolist():
                stay[others[index]] = round_number
        self._plans[round_number] = dict(sorted(stay.items()))
        return stay != planned

    def participants(self, round_number: int) -> Mapping[int, int]:
        """Return the clients of a round with their notification rounds; none if not planned."""
        return self._plans.get(round_number, {})

    def forget(self, round_number: int) -> None:
        """Forget the rounds before a given one."""
        for old in [planned for planned in self._plans if planned < round_number]:
            del self._plans[old]

    def __repr__(self) -> str:
        lead, seed = self._whole.lead, self._whole.seed
        return f"{type(self).__name__}(lead={lead!r}, seed={seed!r})"


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


@dataclass(frozen=True)
class TraceParticipation:
    """S of N clients, uniformly at random, told when a trace says that they can be reached.

    Who takes part does not depend on the trace, so that no client is favoured; the trace decides
    how early a client learns of it, and so how old its anchor is. A client is told at its last
    opportunity that leaves it `lead` rounds; without one, at its first afterwards; without that,
    when its round begins.

    Parameters
    ----------
    num_clients, per_round : int
        N and S.
    reachable : mapping of int to sequence of (start, end)
        For each client the rounds start <= s < end in which it can be reached, in order. A client
        that is not in it is told when its round begins. An arrival in round s is ``(s, s + 1)``.
    lead : int, default 0
        The rounds that a client should have.
    max_lead : int, default 100
        The most that it may have.
    period : int, optional
        The trace repeats itself after so many rounds.
    seed : int, default 0
        Of the selection.

    Examples
    --------
    >>> nights = {0: [(0, 2)], 1: [(5, 7)]}
    >>> process = TraceParticipation(2, 2, nights, lead=3, period=10)
    >>> process.participants(14)
    {0: 11, 1: 6}
    """

    num_clients: int
    per_round: int
    reachable: Mapping[int, Intervals] = field(repr=False)
    lead: int = 0
    max_lead: int = 100
    period: int | None = None
    seed: int = 0
    digest: str = field(init=False)  # stands for the trace in repr

    def __post_init__(self) -> None:
        _check(self.num_clients, self.per_round, [self.lead, self.max_lead])
        end_of_all = self.period
        for client, intervals in self.reachable.items():
            before = 0
            for start, end in intervals:
                if not before <= start < end or (end_of_all is not None and end > end_of_all):
                    raise InvalidInputError(
                        f"reachable: client {client}: found {start} to {end}, expected intervals "
                        "in order, not empty and within the period"
                    )
                before = end
        text = repr([(client, list(self.reachable[client])) for client in sorted(self.reachable)])
        digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        object.__setattr__(self, "digest", digest)

    @classmethod
    def read(
        cls,
        path: Path | str,
        num_clients: int,
        per_round: int,
        *,
        lead: int = 0,
        max_lead: int = 100,
        period: int | None = None,
        seed: int = 0,
    ) -> TraceParticipation:
        """Read a trace from a CSV file with the columns ``client``, ``start`` and ``end``."""
        trace: dict[int, list[tuple[int, int]]] = {}
        with Path(path).open(newline="", encoding="utf-8") as file:
            for number, row in enumerate(csv.DictReader(file), start=2):
                try:
                    client, start, end = (int(row[name]) for name in ("client", "start", "end"))
                except (KeyError, TypeError, ValueError):
                    raise InvalidInputError(
                        f"{path}, line {number}: expected whole numbers in the columns client, "
                        "start and end"
                    ) from None
                trace.setdefault(client, []).append((start, end))
        ordered = {client: sorted(intervals) for client, intervals in trace.items()}
        return cls(num_clients, per_round, ordered, lead, max_lead, period, seed)

    def participants(self, round_number: int) -> Mapping[int, int]:
        """Return the clients of a round with their notification rounds."""
        chosen = _choose(self.seed, round_number, self.num_clients, self.per_round)
        return {client: self._told(client, round_number) for client in chosen}

    def _told(self, client: int, round_number: int) -> int:
        earliest = max(0, round_number - self.max_lead)
        wanted = round_number - self.lead
        intervals = self.reachable.get(client, ())
        if wanted >= earliest:
            found = self._last_reachable(intervals, wanted)
            if found is not None and found >= earliest:
                return found
        after = max(wanted + 1, earliest)
        return next(
            (s for s in range(after, round_number) if self._last_reachable(intervals, s) == s),
            round_number,
        )

    def _last_reachable(self, intervals: Intervals, round_number: int) -> int | None:
        """Return the last round up to a given one in which a client can be reached."""
        if not intervals:
            return None
        cycle, within = divmod(round_number, self.period) if self.period else (0, round_number)
        index = bisect_right(intervals, within, key=lambda interval: interval[0]) - 1
        if index >= 0:
            found = min(within, intervals[index][1] - 1)
        elif cycle > 0:
            cycle, found = cycle - 1, intervals[-1][1] - 1
        else:
            return None
        return cycle * (self.period or 0) + found


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
                told.setdefault(int(client), []).append(participation_round)
    return told


@lru_cache(maxsize=1024)
def _choose(seed: int, round_number: int, num_clients: int, per_round: int) -> tuple[int, ...]:
    generator = np.random.Generator(np.random.PCG64(derive_seed(seed, "clients", round_number)))
    return tuple(sorted(generator.choice(num_clients, per_round, replace=False).tolist()))


@lru_cache(maxsize=1024)
def _uniform(
    seed: int, round_number: int, num_clients: int, per_round: int, low: int, high: int
) -> Mapping[int, int]:
    chosen = _choose(seed, round_number, num_clients, per_round)
    leads = _draw_leads(seed, round_number, per_round, low, high)
    told = (max(0, round_number - lead) for lead in leads)
    return MappingProxyType(dict(zip(chosen, told, strict=True)))


def _draw_leads(seed: int, round_number: int, count: int, low: int, high: int) -> tuple[int, ...]:
    if low == high:
        return (low,) * count
    generator = np.random.Generator(np.random.PCG64(derive_seed(seed, "leads", round_number)))
    return tuple(generator.integers(low, high, size=count, endpoint=True).tolist())


def _check(num_clients: int, per_round: int, windows: Sequence[int]) -> None:
    if not 1 <= per_round <= num_clients:
        raise InvalidInputError(
            f"per_round: found {per_round}, expected 1 to num_clients = {num_clients}"
        )
    if min(windows) < 0:
        raise InvalidInputError(f"window: found {min(windows)}, expected 0 rounds or more")
