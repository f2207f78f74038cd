"""The queue of anchors (algorithm 1): order, eviction, look-up."""

from __future__ import annotations

import numpy as np
import pytest

from docofl_codec import InvalidInputError
from docofl_codec.framework import AnchorQueue, StaleAnchorError

VECTOR = np.zeros(2, dtype=np.float32)


def test_oldest_is_pushed_out() -> None:
    queue = AnchorQueue(3)
    for round_number in range(0, 50, 10):
        queue.enqueue(round_number, b"", VECTOR)
    assert [anchor.round for anchor in queue] == [20, 30, 40]
    assert [anchor.id for anchor in queue] == [2, 3, 4]
    assert queue.latest().round == 40
    assert len(queue) == queue.capacity == 3


def test_anchors_are_found_by_id_until_they_are_gone() -> None:
    queue = AnchorQueue(2)
    ids = [queue.enqueue(t, b"frame %d" % t, VECTOR).id for t in range(3)]
    assert queue.get(ids[1]).frame == b"frame 1"
    with pytest.raises(StaleAnchorError, match="found id 0, expected one of 1, 2"):
        queue.get(ids[0])
    with pytest.raises(StaleAnchorError, match="found id 77"):
        queue.get(77)


def test_empty_queue() -> None:
    with pytest.raises(StaleAnchorError, match="empty"):
        AnchorQueue(1).latest()


def test_capacity_is_checked() -> None:
    with pytest.raises(InvalidInputError, match="capacity"):
        AnchorQueue(0)
