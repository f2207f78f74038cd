"""Real bytes of every frame, by direction and kind."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from docofl_codec.errors import InvalidInputError

__all__ = ["Kind", "Ledger", "Link"]

Kind = Literal["anchor", "late_anchor", "correction", "update"]
KINDS: tuple[Kind, ...] = get_args(Kind)
ONLINE: tuple[Kind, ...] = ("late_anchor", "correction")
DOWNLINK: tuple[Kind, ...] = ("anchor", *ONLINE)
NOBODY = -1  # all those who were not asked, or are gone


@dataclass(frozen=True)
class Link:
    """The speed of a connection, in bits a second."""

    downlink: float
    uplink: float

    def __post_init__(self) -> None:
        if not (self.downlink > 0 and self.uplink > 0):
            raise InvalidInputError(f"link: found {self}, expected speeds above 0")


class Ledger:
    """What was sent in a run.

    ===============  =========================================================================
    kind             what
    ===============  =========================================================================
    ``anchor``       downloaded ahead of the round: offline
    ``late_anchor``  an anchor downloaded in the round itself, because the client was told too
                     late or its own had been pushed out: online
    ``correction``   downloaded in the round: online
    ``update``       uploaded
    ===============  =========================================================================

    An anchor counts for every client that downloads it.

    Parameters
    ----------
    model_size : int
        d, the number of coordinates.

    Examples
    --------
    >>> ledger = Ledger(1000)
    >>> ledger.record("correction", round_number=0, client=3, num_bytes=250)
    >>> ledger.record("update", round_number=0, client=3, num_bytes=250)
    >>> ledger.total("correction"), ledger.ratio_to_float32("update")
    (250, 0.0625)
    >>> ledger.online_seconds({3: Link(downlink=1000, uplink=500)})
    6.0
    """

    def __init__(self, model_size: int) -> None:
        self.model_size = model_size
        self._bytes: Counter[Kind] = Counter()
        self._frames: Counter[Kind] = Counter()
        self._by_round: Counter[tuple[Kind, int]] = Counter()
        self._by_client: Counter[tuple[Kind, int]] = Counter()
        self._latest_round = 0
        self._latest: Counter[tuple[Kind, int]] = Counter()  # of that round, by client

    def record(self, kind: Kind, *, round_number: int, client: int, num_bytes: int) -> None:
        """Count a frame that went to or came from a client."""
        if round_number != self._latest_round:
            self._latest_round = round_number
            self._latest.clear()
        self._bytes[kind] += num_bytes
        self._frames[kind] += 1
        self._by_round[kind, round_number] += num_bytes
        self._by_client[kind, client] += num_bytes
        self._latest[kind, client] += num_bytes

    def total(self, kind: Kind | None = None) -> int:
        """Return the bytes of a kind, or of all."""
        return self._bytes[kind] if kind else sum(self._bytes.values())

    def num_frames(self, kind: Kind) -> int:
        """Return how many frames of a kind were sent."""
        return self._frames[kind]

    def of_round(self, round_number: int) -> dict[Kind, int]:
        """Return a round's bytes by kind."""
        return {kind: self._by_round[kind, round_number] for kind in KINDS}

    def of_client(self, client: int) -> dict[Kind, int]:
        """Return a client's bytes by kind."""
        return {kind: self._by_client[kind, client] for kind in KINDS}

    def retire(self, client: int) -> None:
        """Book the bytes of a client that is gone for good under -1, with others like it."""
        for kind in KINDS:
            size = self._by_client.pop((kind, client), 0)
            if size:
                self._by_client[kind, NOBODY] += size

    @property
    def downlink(self) -> int:
        """All bytes to clients."""
        return sum(self._bytes[kind] for kind in DOWNLINK)

    @property
    def online_downlink(self) -> int:
        """The bytes that clients had to wait for in their rounds."""
        return sum(self._bytes[kind] for kind in ONLINE)

    def ratio_to_float32(self, kind: Kind) -> float:
        """Return a kind's bytes over those of as many float32 vectors; 0 where there are none."""
        plain = 4 * self.model_size * self._frames[kind]
        return self._bytes[kind] / plain if plain else 0.0

    def online_seconds(self, links: Mapping[int, Link]) -> float:
        """Estimate how long the transfers inside the latest round took its slowest client.

        Parameters
        ----------
        links : mapping of int to Link
            Of the clients of the round, or of more.
        """
        seconds: defaultdict[int, float] = defaultdict(float)
        for (kind, client), size in self._latest.items():
            if client in links and kind != "anchor":
                link = links[client]
                seconds[client] += 8 * size / (link.uplink if kind == "update" else link.downlink)
        return max(seconds.values(), default=0.0)

    def state(self) -> dict[str, Any]:
        """Return everything that a checkpoint needs."""
        return {
            "model_size": self.model_size,
            "bytes": dict(self._bytes),
            "frames": dict(self._frames),
            "by_round": _rows(self._by_round),
            "by_client": _rows(self._by_client),
            "latest_round": self._latest_round,
            "latest": _rows(self._latest),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` returned."""
        self.model_size = state["model_size"]
        self._bytes = Counter(state["bytes"])
        self._frames = Counter(state["frames"])
        self._by_round = _counter(state["by_round"])
        self._by_client = _counter(state["by_client"])
        self._latest_round = state["latest_round"]
        self._latest = _counter(state["latest"])


def _rows(counter: Mapping[tuple[Kind, int], int]) -> list[list[Any]]:
    return [[kind, number, size] for (kind, number), size in counter.items()]


def _counter(rows: list[list[Any]]) -> Counter[tuple[Kind, int]]:
    return Counter({(kind, number): size for kind, number, size in rows})
