"""Real bytes of every frame, by direction and kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

__all__ = ["Kind", "Ledger", "Link"]

Kind = Literal["anchor", "correction", "update"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class Link:
    """The speed of a connection, in bits a second."""

    downlink: float
    uplink: float


class Ledger:
    """What was sent in a run.

    Anchors are downloaded ahead of a round (offline), corrections in it (online); updates are
    uploads. An anchor counts for every client that downloads it.

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
    """

    def __init__(self, model_size: int) -> None:
        self.model_size = model_size
        self._bytes: Counter[Kind] = Counter()
        self._frames: Counter[Kind] = Counter()
        self._by_round: Counter[tuple[Kind, int]] = Counter()
        self._by_client: Counter[tuple[Kind, int]] = Counter()

    def record(self, kind: Kind, *, round_number: int, client: int, num_bytes: int) -> None:
        """Count a frame that went to or came from a client."""
        self._bytes[kind] += num_bytes
        self._frames[kind] += 1
        self._by_round[kind, round_number] += num_bytes
        self._by_client[kind, client] += num_bytes

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

    @property
    def downlink(self) -> int:
        """All bytes to clients."""
        return self._bytes["anchor"] + self._bytes["correction"]

    def ratio_to_float32(self, kind: Kind) -> float:
        """Return a kind's bytes over those of as many float32 vectors; 0 where there are none."""
        plain = 4 * self.model_size * self._frames[kind]
        return self._bytes[kind] / plain if plain else 0.0

    def online_seconds(self, links: Mapping[int, Link], round_number: int) -> float:
        """Estimate how long the transfers inside a round take its slowest client.

        Parameters
        ----------
        links : mapping of int to Link
            Of the clients of the round.
        round_number : int
            t. A client's correction and update are taken as the round's mean ones.
        """
        sizes = self.of_round(round_number)
        count = max(len(links), 1)
        down, up = sizes["correction"] / count, sizes["update"] / count
        seconds = (8 * down / link.downlink + 8 * up / link.uplink for link in links.values())
        return max(seconds, default=0.0)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` returned."""
        self.model_size = state["model_size"]
        self._bytes = Counter(state["bytes"])
        self._frames = Counter(state["frames"])
        self._by_round = Counter({(kind, n): size for kind, n, size in state["by_round"]})
        self._by_client = Counter({(kind, n): size for kind, n, size in state["by_client"]})

    def state(self) -> dict[str, Any]:
        """Return everything as JSON-ready values."""
        return {
            "model_size": self.model_size,
            "bytes": dict(self._bytes),
            "frames": dict(self._frames),
            "by_round": [[kind, number, size] for (kind, number), size in self._by_round.items()],
            "by_client": [[kind, number, size] for (kind, number), size in self._by_client.items()],
        }
