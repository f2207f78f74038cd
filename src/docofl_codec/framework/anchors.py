"""Anchors: older models, compressed once, that clients fetch before their round.

The queue Q of algorithm 1. The paper's symbols: V is `capacity`, y an anchor's model and ŷ, what a
client rebuilds from its frame, `vector`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from docofl_codec.errors import InvalidInputError
from docofl_codec.framework.errors import StaleAnchorError
from docofl_codec.framework.vectors import Vector

__all__ = ["Anchor", "AnchorQueue"]


@dataclass(frozen=True, eq=False)
class Anchor:
    """A compressed model.

    Attributes
    ----------
    id : int
        Counts the deployments of a run.
    round : int
        The round whose model it is.
    frame : bytes
        C_w(w_t), what clients download.
    vector : ndarray of float32
        The frame decoded, kept once for all corrections.
    """

    id: int
    round: int
    frame: bytes
    vector: Vector


class AnchorQueue:
    """The latest anchors, oldest first.

    Parameters
    ----------
    capacity : int
        V; one more pushes the oldest out.

    Attributes
    ----------
    next_id : int
        Of the next anchor.

    Examples
    --------
    >>> import numpy as np
    >>> queue = AnchorQueue(2)
    >>> for t in (0, 10, 20):
    ...     anchor = queue.enqueue(t, b"frame", np.zeros(3, np.float32))
    >>> [anchor.round for anchor in queue], queue.latest().id
    ([10, 20], 2)
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise InvalidInputError(f"capacity: found {capacity}, expected at least 1")
        self._anchors: deque[Anchor] = deque(maxlen=capacity)
        self.next_id = 0

    @property
    def capacity(self) -> int:
        """The most anchors that are kept."""
        assert self._anchors.maxlen is not None
        return self._anchors.maxlen

    def enqueue(self, round_number: int, frame: bytes, vector: Vector) -> Anchor:
        """Add the anchor of a round; the oldest one is dropped from a full queue."""
        anchor = self.restore(self.next_id, round_number, frame, vector)
        self.next_id += 1
        return anchor

    def restore(self, anchor_id: int, round_number: int, frame: bytes, vector: Vector) -> Anchor:
        """Add an anchor that has an id already."""
        anchor = Anchor(anchor_id, round_number, frame, vector)
        self._anchors.append(anchor)
        return anchor

    def clear(self) -> None:
        """Drop all anchors."""
        self._anchors.clear()

    def latest(self) -> Anchor:
        """Return the newest anchor (``Q.top()`` in algorithm 2)."""
        if not self._anchors:
            raise StaleAnchorError("anchor: found an empty queue, expected a deployed anchor")
        return self._anchors[-1]

    def get(self, anchor_id: int) -> Anchor:
        """Return an anchor by its id.

        Raises
        ------
        StaleAnchorError
            Where it was pushed out, or never was.
        """
        for anchor in self._anchors:
            if anchor.id == anchor_id:
                return anchor
        known = ", ".join(str(anchor.id) for anchor in self._anchors)
        raise StaleAnchorError(f"anchor: found id {anchor_id}, expected one of {known or 'none'}")

    def __len__(self) -> int:
        return len(self._anchors)

    def __iter__(self) -> Iterator[Anchor]:
        return iter(tuple(self._anchors))
