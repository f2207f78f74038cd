"""Digits, fixed-width fields and sorted positions as bits (docs/format.md, section 9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from docofl_codec.errors import CorruptFrameError

__all__ = ["Words", "pack_positions", "position_bytes", "unpack_positions"]

Take = Callable[[int, str], bytes]

WORDS_PER_PIECE = 1 << 15  # a multiple of 8, so that pieces begin with a byte


def _packed(bits: npt.NDArray[Any]) -> bytes:
    return np.packbits(bits, bitorder="little").tobytes()


def _unpacked(packed: bytes, count: int, what: str) -> npt.NDArray[np.uint8]:
    bits = np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little")
    if bits[count:].any():
        raise CorruptFrameError(f"{what}: found other padding, expected zero bits")
    return bits[:count]


def plane_bytes(count: int, width: int) -> int:
    """Return the bytes of `count` fields of `width` bits."""
    return width * -(-count // 8)


def pack_planes(fields: npt.NDArray[Any], width: int) -> bytes:
    """Write bit p of every field, for p = 0 … width - 1."""
    return b"".join(_packed(fields >> fields.dtype.type(p) & 1) for p in range(width))


def unpack_planes(take: Take, count: int, width: int, what: str) -> npt.NDArray[np.uint64]:
    """Read what :func:`pack_planes` wrote."""
    fields = np.zeros(count, np.uint64)
    for p in range(width):
        plane = _unpacked(take(plane_bytes(count, 1), what), count, what)
        fields |= plane.astype(np.uint64) << np.uint64(p)
    return fields


@dataclass(frozen=True)
class Words:
    """Runs of `digits` digits below `base` as numbers of `width` bits, the first digit lowest."""

    base: int
    digits: int
    width: int

    @classmethod
    @lru_cache
    def of(cls, base: int) -> Words:
        """Return the words of at most 64 bits that take the fewest bits a digit, the largest."""
        words = [
            cls(base, digits, (base**digits - 1).bit_length())
            for digits in range(1, 65)
            if base**digits <= 1 << 64
        ]
        return min(reversed(words), key=lambda word: Fraction(word.width, word.digits))

    @property
    def bits(self) -> float:
        """Bits a digit."""
        return self.width / self.digits

    def pack(self, digits: npt.NDArray[np.uint64]) -> bytes:
        """Write digits; the last word is filled up with zeros."""
        count = -(-digits.size // self.digits)
        filled = np.zeros(count * self.digits, np.uint64)
        filled[: digits.size] = digits
        columns = filled.reshape(count, self.digits)
        words = np.zeros(count, np.uint64)
        for k in reversed(range(self.digits)):
            words = words * np.uint64(self.base) + columns[:, k]
        octets = words.astype("<u8").view(np.uint8).reshape(count, 8)
        return _packed(np.unpackbits(octets, axis=1, count=self.width, bitorder="little"))

    def num_bytes(self, count: int) -> int:
        """Return the bytes of `count` digits."""
        return -(-(-(-count // self.digits) * self.width) // 8)

    def unpack(self, take: Take, count: int) -> npt.NDArray[np.uint32]:
        """Read what :meth:`pack` wrote, for a base of at most 2^32."""
        packed = np.frombuffer(take(self.num_bytes(count), "words"), np.uint8)
        num_words = -(-count // self.digits)
        digits = np.empty((num_words, self.digits), np.uint32)
        for begin in range(0, num_words, WORDS_PER_PIECE):
            part = digits[begin : begin + WORDS_PER_PIECE]
            octets = packed[begin // 8 * self.width :][: WORDS_PER_PIECE // 8 * self.width]
            self._unpack_piece(octets, part)
        flat = digits.ravel()
        if flat[count:].any():
            raise self._refusal()
        return flat[:count]

    def _unpack_piece(self, octets: npt.NDArray[np.uint8], digits: npt.NDArray[np.uint32]) -> None:
        """Read words, one for each row of `digits`."""
        bits = np.zeros((len(digits), 64), np.uint8)
        found = _unpacked(octets.tobytes(), len(digits) * self.width, "words")
        bits[:, : self.width] = found.reshape(-1, self.width)
        words = np.packbits(bits, axis=1, bitorder="little").view("<u8").ravel().astype(np.uint64)
        for k in range(self.digits):
            words, digits[:, k] = np.divmod(words, np.uint64(self.base))
        if words.any():
            raise self._refusal()

    def _refusal(self) -> CorruptFrameError:
        return CorruptFrameError(f"words: expected digits below {self.base} and zeros after them")


def _upper_bits(count: int, size: int, low_bits: int) -> int:
    return count + ((size - 1) >> low_bits) + 1


def position_low_bits(count: int, size: int) -> int:
    """Return how many low bits of a position are written as they are."""
    return max((size // count).bit_length() - 1, 0)


def position_bytes(count: int, size: int) -> int:
    """Return the bytes of `count` of `size` positions."""
    if count == size:
        return 0
    low_bits = position_low_bits(count, size)
    return -(-_upper_bits(count, size, low_bits) // 8) + plane_bytes(count, low_bits)


def pack_positions(positions: npt.NDArray[np.int64], size: int) -> bytes:
    """Write increasing positions below `size` in the code of Elias and Fano.

    The upper parts are a bit vector: for position number k with upper part h, bit h + k is set.
    """
    count = positions.size
    if count == size:
        return b""
    low_bits = position_low_bits(count, size)
    upper = np.zeros(_upper_bits(count, size, low_bits), np.uint8)
    upper[(positions >> low_bits) + np.arange(count)] = 1
    return _packed(upper) + pack_planes(positions, low_bits)


def unpack_positions(take: Take, count: int, size: int) -> npt.NDArray[np.int64]:
    """Read what :func:`pack_positions` wrote."""
    what = "positions"
    if count == size:
        return np.arange(size)
    low_bits = position_low_bits(count, size)
    num_bits = _upper_bits(count, size, low_bits)
    ones = np.flatnonzero(_unpacked(take(-(-num_bits // 8), what), num_bits, what))
    if ones.size != count:
        raise CorruptFrameError(f"{what}: found {ones.size}, expected {count}")
    low = unpack_planes(take, count, low_bits, what).astype(np.int64)
    positions: npt.NDArray[np.int64] = (ones - np.arange(count)) << low_bits | low
    if positions[-1] >= size or (np.diff(positions) <= 0).any():
        raise CorruptFrameError(f"{what}: expected increasing numbers below {size}")
    return positions
