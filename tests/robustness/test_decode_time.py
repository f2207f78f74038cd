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
from tests.helpers.rans_frames import RansPayload, rans_stream, rans_table

BLOCK = 65_536
LONGEST_CODE = code_table([*range(1, 17), 16])
RANS_BLOCK = 131_072
UNEVEN = [4095, 1]


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


def uneven_symbols(symbol: int, mode: int, blocks: int) -> bytes:
    """Only frequent symbols, of next to no bits, or only rare ones, of 12."""
    return RansPayload(
        mode=mode,
        tables=rans_table(UNEVEN),
        stream=rans_stream(UNEVEN, [symbol] * RANS_BLOCK, lanes=32),
        num_blocks=blocks,
    ).frame(blocks * RANS_BLOCK)


def frequent_symbols(blocks: int) -> bytes:
    return uneven_symbols(0, 0, blocks)


def rare_symbols(blocks: int) -> bytes:
    return uneven_symbols(1, 0, blocks)


def dependent_symbols(blocks: int) -> bytes:
    return uneven_symbols(1, 1, blocks)


def only_rans_outliers(blocks: int) -> bytes:
    """Every coordinate is listed."""
    outliers = np.zeros(RANS_BLOCK, np.dtype([("low", "<u2"), ("high", "u1"), ("value", "<f4")]))
    outliers["low"] = np.arange(RANS_BLOCK) & 0xFFFF
    outliers["high"] = np.arange(RANS_BLOCK) >> 16
    return RansPayload(
        mode=8,
        tables=rans_table(UNEVEN),
        stream=rans_stream(UNEVEN, [0] * RANS_BLOCK, lanes=32),
        outliers=outliers.tobytes(),
        num_blocks=blocks,
    ).frame(blocks * RANS_BLOCK)


def rans_fails_at_the_end(blocks: int) -> bytes:
    """A state of the last block does not end where it began."""
    blob = bytearray(ecuq.encode(normal(blocks * RANS_BLOCK), bits=2, quality="best", threads=1))
    blob[-5] ^= 0x80
    return reseal(bytes(blob))


RANS = [
    frequent_symbols,
    rare_symbols,
    dependent_symbols,
    only_rans_outliers,
    rans_fails_at_the_end,
]


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


@pytest.mark.parametrize("make", RANS)
def test_time_is_linear_for_rans(make: Callable[[int], bytes]) -> None:
    small, large = make(1), make(8)
    assert seconds(large) < 8 * 4 * seconds(small)


@pytest.mark.parametrize("make", RANS[:4])
def test_the_worst_bytes_for_rans(make: Callable[[int], bytes]) -> None:
    assert np.asarray(decode(make(2))).size == 2 * RANS_BLOCK
    honest = ecuq.encode(normal(2 * RANS_BLOCK), bits=4, quality="best")
    assert seconds(make(2)) < 50 * seconds(honest)


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
