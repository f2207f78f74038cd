"""Row 11: decoding takes time linear in the declared size, whatever the bytes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import numpy as np
import pytest

from docofl_codec import CodecError, decode, ecuq, eden
from tests.helpers.data import SEED, normal
from tests.helpers.frames import (
    EcuqPayload,
    EdenPayload,
    code_table,
    explicit_levels,
    reseal,
    stream_sizes,
    uniform_levels,
)

BLOCK = 65_536
LONGEST_CODE = code_table([*range(1, 17), 16])


def longest_words(blocks: int) -> bytes:
    """Every word has 16 bits, too many for any table of a decoder."""
    return EcuqPayload(
        mode=1,
        coded_levels=17,
        levels=explicit_levels(*range(17)),
        table=LONGEST_CODE,
        directory=stream_sizes(*[BLOCK // 2] * 4) * blocks,
        blocks=b"\xff" * (2 * BLOCK * blocks),
    ).frame(blocks * BLOCK)


def only_outliers(blocks: int) -> bytes:
    """Every coordinate is listed."""
    pairs = np.zeros(BLOCK, np.dtype([("position", "<u2"), ("level", "<u4")]))
    pairs["position"] = np.arange(BLOCK)
    pairs["level"] = 9
    streams = bytes(BLOCK // 8)
    return EcuqPayload(
        mode=2,
        levels=uniform_levels(0, 10, 10),
        directory=(stream_sizes(*[BLOCK // 32] * 4) + BLOCK.to_bytes(4, "little")) * blocks,
        blocks=(streams + pairs.tobytes()) * blocks,
    ).frame(blocks * BLOCK)


def no_bits(blocks: int) -> bytes:
    """Code words without bits: next to no bytes for the coordinates."""
    return EcuqPayload(
        mode=1,
        coded_levels=1,
        levels=explicit_levels(1),
        table=b"",
        directory=stream_sizes(0, 0, 0, 0) * blocks,
        blocks=b"",
    ).frame(blocks * BLOCK)


def fails_at_the_end(blocks: int) -> bytes:
    """The padding of the last stream is wrong."""
    blob = bytearray(ecuq.encode(normal(blocks * BLOCK - 1), bits=2, threads=1))
    blob[-5] ^= 0x80
    return reseal(bytes(blob))


def few_words(blocks: int) -> bytes:
    """EDEN with words for one chunk in a rotation block."""
    count = 2 * blocks
    return EdenPayload(
        width=0, fraction=1, scales=(1.0,) * count, tail=(), words=bytes(2 * count)
    ).frame(blocks * BLOCK)


def overflowing(blocks: int) -> bytes:
    """EDEN with the largest scales: every result is clamped."""
    scales = (float(np.finfo(np.float32).max),) * (2 * blocks)
    return EdenPayload(
        width=8, scales=scales, tail=(), words=normal(blocks * BLOCK // 4).tobytes()
    ).frame(blocks * BLOCK)


def seconds(blob: bytes) -> float:
    """Return the best of several runs."""
    best = float("inf")
    for _ in range(7):
        start = time.perf_counter()
        with contextlib.suppress(CodecError):
            decode(blob, threads=1)
        best = min(best, time.perf_counter() - start)
    return best


@pytest.mark.parametrize(
    "make", [longest_words, only_outliers, no_bits, fails_at_the_end, few_words, overflowing]
)
def test_time_is_linear(make: Callable[[int], bytes]) -> None:
    small, large = make(1), make(8)
    assert seconds(large) < 8 * 4 * seconds(small)


@pytest.mark.parametrize("make", [longest_words, only_outliers])
def test_the_worst_bytes_are_not_much_worse_than_honest_ones(make: Callable[[int], bytes]) -> None:
    honest = ecuq.encode(normal(4 * BLOCK), bits=4)
    assert seconds(make(4)) < 50 * seconds(honest)


@pytest.mark.parametrize("make", [few_words, overflowing])
def test_the_worst_bytes_for_eden(make: Callable[[int], bytes]) -> None:
    honest = eden.encode(normal(4 * BLOCK), bits=4, seed=SEED)
    assert seconds(make(4)) < 20 * seconds(honest)


def test_tables_are_small_whatever_the_alphabet() -> None:
    """A frame of one coordinate with the largest table decodes in well under a millisecond."""
    blob = EcuqPayload(
        mode=1,
        coded_levels=256,
        levels=explicit_levels(*range(256)),
        table=code_table([8] * 256),
        blocks=b"\0",
    ).frame(1)
    assert decode(blob).tolist() == [0]
    assert seconds(blob) < 0.01
