"""Stochastic quantization of coefficients, and the exponent that keeps them near 1.

Suresh et al., "Distributed Mean Estimation with Limited Communication", ICML 2017, section 2.2: a
coefficient between two levels of a uniform grid from the smallest to the largest one of its block
goes to one of them at random, such that its expectation is itself.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from docofl_codec.baselines._base import Floats, to_finite_float32
from docofl_codec.baselines._bits import Words
from docofl_codec.baselines._random import random_word, uniforms
from docofl_codec.baselines._reader import PayloadReader
from docofl_codec.errors import CorruptFrameError

__all__ = [
    "MAX_BITS",
    "MIN_BLOCK",
    "Levels",
    "block_slices",
    "dequantize",
    "quantize",
    "scale_down",
    "scale_up",
]

MAX_BLOCK = 32_768  # of a rotation (docs/format.md, section 4.1)
MIN_BLOCK = 16
MAX_BITS = 16
MAX_LEVELS = 1 << MAX_BITS
ROUNDING_KEY = 4
MAX_EXPONENT = 200
MAX_COEFFICIENT = 2.0**64
PIECE = 1 << 17  # coefficients a step, so that intermediate arrays stay in the cache


def scale_down(x: Floats) -> tuple[Floats, int]:
    """Return x / 2^e with magnitudes up to 1, and e."""
    exponent = math.frexp(float(np.abs(x).max()))[1]
    return np.ldexp(x.astype(np.float64), -exponent).astype(np.float32), exponent


def scale_up(y: Floats, exponent: int) -> Floats:
    """Undo :func:`scale_down`; magnitudes beyond float32 become its largest."""
    return to_finite_float32(np.ldexp(y.astype(np.float64), exponent))


def block_slices(size: int) -> Iterator[slice]:
    """Yield the rotation blocks of the first size - size % 16 coordinates."""
    begin = 0
    for block in (MAX_BLOCK, *(1 << k for k in range(14, 3, -1))):
        while size - begin >= block:
            yield slice(begin, begin + block)
            begin += block


@dataclass(frozen=True)
class Levels:
    """How many levels a coefficient has.

    Coefficient i has count + 1 levels if ⌊(i + 1) f / 2^16⌋ > ⌊i f / 2^16⌋, otherwise count.
    """

    count: int  # 2 to MAX_LEVELS
    fraction: int  # f, below 2^16

    @classmethod
    def for_bits(cls, bits: float) -> Levels:
        """Return the most levels that take at most `bits` bits on average."""
        low, high = 2, MAX_LEVELS + 1
        while high - low > 1:
            middle = (low + high) // 2
            if Words.of(middle).bits <= bits:
                low = middle
            else:
                high = middle
        if low == MAX_LEVELS:
            return cls(low, 0)
        mine, more = Words.of(low).bits, Words.of(low + 1).bits
        return cls(low, min(max(int((bits - mine) / (more - mine) * 2**16), 0), 2**16 - 1))

    @property
    def bits(self) -> float:
        """The mean number of bits of a coefficient."""
        bits = Words.of(self.count).bits
        if self.fraction:
            bits += (Words.of(self.count + 1).bits - bits) * self.fraction / 2**16
        return bits

    def num_more(self, size: int) -> int:
        """Return how many of the first `size` coefficients have one level more."""
        return size * self.fraction >> 16

    def has_more(self, begin: int, end: int) -> npt.NDArray[np.bool_]:
        """Tell which of the coefficients begin … end - 1 have one level more."""
        steps = np.arange(begin, end + 1, dtype=np.uint64) * np.uint64(self.fraction)
        more: npt.NDArray[np.bool_] = np.diff(steps >> np.uint64(16)) > 0
        return more

    def num_intervals(self, begin: int, end: int) -> npt.NDArray[np.float64]:
        """Return the number of levels less one of the coefficients begin … end - 1."""
        return np.where(self.has_more(begin, end), self.count, self.count - 1.0)


def _pieces(size: int) -> Iterator[tuple[int, int, list[slice]]]:
    """Yield runs of whole blocks: begin, end and the blocks relative to begin."""
    begin, end, blocks = 0, 0, []
    for block in block_slices(size):
        blocks.append(slice(block.start - begin, block.stop - begin))
        end = block.stop
        if end - begin >= PIECE:
            yield begin, end, blocks
            begin, blocks = end, []
    if blocks:
        yield begin, end, blocks


def _spread(values: Floats, blocks: list[slice]) -> npt.NDArray[np.float64]:
    return np.repeat(values.astype(np.float64), [block.stop - block.start for block in blocks])


def quantize(coefficients: Floats, levels: Levels, seed: int) -> bytes:
    """Write levels, ranges and words of whole rotation blocks."""
    size = coefficients.size
    ranges: list[float] = []
    places = np.empty(size, np.uint64)
    key = random_word(seed, ROUNDING_KEY)
    for begin, end, blocks in _pieces(size):
        piece = coefficients[begin:end]
        low = np.array([piece[block].min() for block in blocks], np.float32)
        high = np.array([piece[block].max() for block in blocks], np.float32)
        ranges.extend(np.stack([low, high], axis=1).ravel().tolist())
        span = high.astype(np.float64) - low
        inverse = np.divide(1.0, span, out=np.zeros_like(span), where=span > 0)
        intervals = levels.num_intervals(begin, end)
        place = (piece - _spread(low, blocks)) * np.repeat(
            inverse, [block.stop - block.start for block in blocks]
        )
        place *= intervals
        place += uniforms(key, begin, end)
        places[begin:end] = np.minimum(place, intervals)  # truncates
    more = levels.has_more(0, size)
    return b"".join(
        [
            struct.pack("<IH", levels.count, levels.fraction),
            struct.pack(f"<{len(ranges)}f", *ranges),
            Words.of(levels.count + 1).pack(places[more]) if levels.fraction else b"",
            Words.of(levels.count).pack(places[~more]),
        ]
    )


def read_levels(reader: PayloadReader) -> Levels:
    """Read the first fields of what :func:`quantize` wrote."""
    count, fraction = reader.unpack("IH", "levels")
    if not 2 <= count <= MAX_LEVELS or (count == MAX_LEVELS and fraction):
        raise CorruptFrameError(f"levels: found {count}, expected 2 to {MAX_LEVELS}")
    return Levels(count, fraction)


def dequantize(reader: PayloadReader, size: int) -> Floats:
    """Read what :func:`quantize` wrote for `size` coefficients."""
    levels = read_levels(reader)
    num_blocks = sum(1 for _ in block_slices(size))
    ranges = reader.floats(2 * num_blocks, "ranges").reshape(-1, 2)
    if (ranges[:, 0] > ranges[:, 1]).any() or (np.abs(ranges) > MAX_COEFFICIENT).any():
        raise CorruptFrameError("ranges: expected low <= high and magnitudes of at most 2^64")
    num_more = levels.num_more(size)
    more_places = np.empty(0, np.uint32)
    if levels.fraction:
        more_places = Words.of(levels.count + 1).unpack(reader.take, num_more)
    other_places = Words.of(levels.count).unpack(reader.take, size - num_more)
    coefficients = np.empty(size, np.float32)
    done = 0
    for begin, end, blocks in _pieces(size):
        mine = ranges[done : done + len(blocks)]
        done += len(blocks)
        low, high = _spread(mine[:, 0], blocks), _spread(mine[:, 1], blocks)
        more = levels.has_more(begin, end)
        first, last = levels.num_more(begin), levels.num_more(end)
        place = np.empty(end - begin)
        place[more] = more_places[first:last] / levels.count
        place[~more] = other_places[begin - first : end - last] / (levels.count - 1)
        coefficients[begin:end] = low + place * (high - low)
    return coefficients
