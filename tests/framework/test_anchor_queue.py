"""The queue of anchors (algorithm 1): order, eviction, look-up."""

from __future__ import annotations

import numpy as np
import pytest

from docofl_codec import Identity, InvalidInputError
from docofl_codec.framework import AnchorQueue, StaleAnchorError

CODEC = Identity()


def frame(value: float) -> bytes:
    return CODEC.encode(np.full(3, value, dtype=np.float32))


def test_oldest_is_pushed_out() -> None:
    queue = AnchorQueue(3, CODEC.decode)
    for round_number in range(0, 50, 10):
        queue.enqueue(round_number, frame(round_number))
    assert [anchor.round for anchor in queue] == [20, 30, 40]
    assert [anchor.id for anchor in queue] == [2, 3, 4]
    assert queue.latest().round == 40
    assert len(queue) == queue.capacity == 3


def test_anchors_are_found_by_id_until_they_are_gone() -> None:
    queue = AnchorQueue(2, CODEC.decode)
    ids = [queue.enqueue(t, frame(t)).id for t in range(3)]
    assert queue.get(ids[1]).frame == frame(1)
    assert queue.get(ids[0]).vector[0] == 0  # of use until the end of the round
    queue.release()
    with pytest.raises(StaleAnchorError, match="found id 0, expected one of 1, 2"):
        queue.get(ids[0])
    with pytest.raises(StaleAnchorError, match="found id 77"):
        queue.get(77)


def test_empty_queue() -> None:
    with pytest.raises(StaleAnchorError, match="empty"):
        AnchorQueue(1, CODEC.decode).latest()


def test_capacity_is_checked() -> None:
    with pytest.raises(InvalidInputError, match="capacity"):
        AnchorQueue(0, CODEC.decode)


def test_an_anchor_is_decoded_once_as_long_as_it_is_the_one_in_use() -> None:
    decoded: list[bytes] = []

    def decode(blob: bytes) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        decoded.append(blob)
        return np.asarray(CODEC.decode(blob))

    queue = AnchorQueue(2, decode)
    first, second = queue.enqueue(0, frame(1)), queue.enqueue(1, frame(2))
    for _ in range(5):
        assert first.vector[0] == 1
    assert second.vector[0] == 2
    assert len(decoded) == 2
    assert first.vector[0] == 1


def test_state_comes_back() -> None:
    queue = AnchorQueue(2, CODEC.decode)
    for t in range(3):
        queue.enqueue(t, frame(t), bits=t, sample=np.full(1, t, dtype=np.float32))
    other = AnchorQueue(2, CODEC.decode)
    other.restore(queue.state())
    for ours, theirs in zip(other, queue, strict=True):
        assert (ours.id, ours.round, ours.frame) == (theirs.id, theirs.round, theirs.frame)
        assert ours.bits == theirs.bits == ours.sample[0]
    assert [a.vector[0] for a in other] == [1, 2]
    assert other.enqueue(3, frame(3)).id == 3
