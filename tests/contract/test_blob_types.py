"""Frames may come in any buffer of bytes, and only in those."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from docofl_codec import Codec, CorruptFrameError, TruncatedFrameError, decode, inspect
from tests.helpers.data import SEED, Floats
from tests.helpers.frames import reseal

BUFFERS: dict[str, Callable[[bytes], Any]] = {
    "bytes": bytes,
    "bytearray": bytearray,
    "memoryview": memoryview,
    "memoryview of chars": lambda blob: memoryview(blob).cast("c"),
    "slice": lambda blob: memoryview(b"xyz" + blob + b"xyz")[3:-3],
    "strided": lambda blob: memoryview(bytes(b for byte in blob for b in (byte, 0)))[::2],
    "uint8": lambda blob: np.frombuffer(blob, np.uint8),
    "int8": lambda blob: np.frombuffer(blob, np.int8),
    "strided uint8": lambda blob: np.repeat(np.frombuffer(blob, np.uint8), 2)[::2],
}


@pytest.mark.parametrize("name", BUFFERS)
def test_buffers_of_bytes(codec: Codec, tensor: Floats, name: str) -> None:
    blob = codec.encode(tensor, seed=SEED)
    assert type(blob) is bytes
    buffer = BUFFERS[name](blob)
    assert inspect(buffer) == inspect(blob)
    assert np.array_equal(codec.decode(buffer), codec.decode(blob))
    assert bytes(buffer) == blob


def test_bytearray_can_be_resized_afterwards(codec: Codec, tensor: Floats) -> None:
    buffer = bytearray(codec.encode(tensor, seed=SEED))
    decode(buffer)  # type: ignore[arg-type]
    inspect(buffer)  # type: ignore[arg-type]
    buffer.append(0)


def test_refused_bytearrays_can_be_resized_too(codec: Codec, tensor: Floats) -> None:
    buffer = bytearray(codec.encode(tensor, seed=SEED))
    buffer[-1] ^= 1
    for _ in range(2):
        with pytest.raises(CorruptFrameError):
            decode(buffer)  # type: ignore[arg-type]
        buffer = bytearray(reseal(bytes(buffer)))
        buffer[-5] ^= 0xFF
    with pytest.raises(CorruptFrameError):
        codec.decode(buffer, out=np.empty_like(tensor))  # type: ignore[arg-type]
    buffer.append(0)


def test_result_does_not_refer_to_the_blob(codec: Codec, tensor: Floats) -> None:
    buffer = bytearray(codec.encode(tensor, seed=SEED))
    x_hat = np.asarray(decode(buffer))  # type: ignore[arg-type]
    before = x_hat.copy()
    buffer[:] = bytes(len(buffer))
    assert np.array_equal(x_hat, before)


@pytest.mark.parametrize("wrong", [None, "text", 7, [1, 2], object(), {}], ids=repr)
def test_other_types_are_refused(codec: Codec, wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"blob: found .*, expected bytes"):
        codec.decode(wrong)


def test_buffers_of_wider_items_are_refused(codec: Codec) -> None:
    wrong: Any = np.zeros(8, np.float32)
    with pytest.raises(TypeError, match="blob: found a buffer of 4-byte items, expected bytes"):
        codec.decode(wrong)


@pytest.mark.parametrize("empty", [b"", bytearray(), memoryview(b""), np.empty(0, np.uint8)])
def test_empty_buffers(codec: Codec, empty: Any) -> None:
    with pytest.raises(TruncatedFrameError):
        codec.decode(empty)
