"""Anchors: older models, compressed once, that clients fetch before their round.

The queue Q of algorithm 1. The paper's symbols: V is `capacity`, y an anchor's model and ŷ, what a
client rebuilds from its frame, `vector`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from docofl_codec.errors import InvalidInputError
from docofl_codec.framework.errors import StaleAnchorError
from docofl_codec.framework.vectors import Vector, as_vector

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
    bits : float
        Its budget b_w; 0 where its codec has none.
    sample : ndarray of float32
        Some coordinates of the model itself, y, for diagnostics.
    """

    id: int
    round: int
    frame: bytes = field(repr=False)
    bits: float
    sample: Vector = field(repr=False)
    _decoded: Callable[[Anchor], Vector] = field(repr=False)

    @property
    def vector(self) -> Vector:
        """The frame decoded, ŷ. The queue keeps the one that was used last."""
        return self._decoded(self)


class AnchorQueue:
    """The latest anchors, oldest first.

    Anchors are kept as frames. Of their decoded vectors only the last one used is kept, so that
    memory does not grow with the capacity by more than the frames.

    Parameters
    ----------
    capacity : int
        V; one more pushes the oldest out. That one is still found by its id until `release`, as
        clients of the round in which it is pushed out may hold it.
    decode : callable
        From a frame to its model, a codec's :meth:`Codec.decode`.

    Attributes
    ----------
    next_id : int
        Of the next anchor.

    Examples
    --------
    >>> import numpy as np
    >>> from docofl_codec import Identity
    >>> queue = AnchorQueue(2, Identity().decode)
    >>> for t in (0, 10, 20):
    ...     anchor = queue.enqueue(t, Identity().encode(np.full(3, t, np.float32)))
    >>> [anchor.round for anchor in queue], queue.latest().id
    ([10, 20], 2)
    >>> queue.get(1).vector
    array([10., 10., 10.], dtype=float32)
    """

    def __init__(self, capacity: int, decode: Callable[[bytes], Any]) -> None:
        if capacity < 1:
            raise InvalidInputError(f"capacity: found {capacity}, expected at least 1")
        self._anchors: deque[Anchor] = deque(maxlen=capacity)
        self._decode = decode
        self._last_used: tuple[int, Vector] | None = None
        self._pushed_out: Anchor | None = None
        self.next_id = 0

    @property
    def capacity(self) -> int:
        """The most anchors that are kept."""
        assert self._anchors.maxlen is not None
        return self._anchors.maxlen

    def enqueue(
        self, round_number: int, frame: bytes, *, bits: float = 0.0, sample: Vector | None = None
    ) -> Anchor:
        """Add the anchor of a round; the oldest one is dropped from a full queue."""
        if sample is None:
            sample = np.empty(0, dtype=np.float32)
        anchor = Anchor(self.next_id, round_number, frame, bits, sample, self._vector)
        if len(self._anchors) == self.capacity:
            self._pushed_out = self._anchors[0]
        self._anchors.append(anchor)
        self.next_id += 1
        return anchor

    def release(self) -> None:
        """Forget the anchor that was pushed out, at the end of a round."""
        self._pushed_out = None

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
        for anchor in (self._pushed_out, *self._anchors):
            if anchor is not None and anchor.id == anchor_id:
                return anchor
        known = ", ".join(str(anchor.id) for anchor in self._anchors)
        raise StaleAnchorError(f"anchor: found id {anchor_id}, expected one of {known or 'none'}")

    def __len__(self) -> int:
        return len(self._anchors)

    def __iter__(self) -> Iterator[Anchor]:
        return iter(tuple(self._anchors))

    def state(self) -> dict[str, Any]:
        """Return everything that a checkpoint needs."""
        return {
            "next_id": self.next_id,
            "anchors": [
                {name: getattr(anchor, name) for name in ("id", "round", "frame", "bits", "sample")}
                for anchor in self
            ],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` returned."""
        anchors = [Anchor(**fields, _decoded=self._vector) for fields in state["anchors"]]
        self._anchors = deque(anchors, maxlen=self.capacity)
        self._last_used = self._pushed_out = None
        self.next_id = state["next_id"]

    def _vector(self, anchor: Anchor) -> Vector:
        if self._last_used is None or self._last_used[0] != anchor.id:
            self._last_used = None  # its memory is free before the next one is decoded
            self._last_used = anchor.id, as_vector(self._decode(anchor.frame), what="anchor")
        return self._last_used[1]
