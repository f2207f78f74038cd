"""Readers for bytes and bit fields, and a packer of code words.

Bit fields are filled from the least significant bit of the first byte (``docs/format.md``).
"""

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray


class ByteReader:
    """Reads fields from the front of ``data`` and never past its end.

    Parameters
    ----------
    data : bytes
        What to read.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    @property
    def remaining(self) -> int:
        """Number of bytes not read yet."""
        return len(self._data) - self.position

    def take(self, count: int, what: str) -> bytes:
        """Return the next ``count`` bytes; ``what`` names them in the error if some are missing."""
        if count > self.remaining:
            raise ValueError(
                f"truncated at byte {self.position}: {what} takes {count} bytes, "
                f"{self.remaining} are left"
            )
        self.position += count
        return self._data[self.position - count : self.position]

    def peek(self, count: int) -> bytes:
        """Return at most ``count`` of the next bytes and leave them to be read."""
        return self._data[self.position : self.position + count]

    def unpack(self, layout: str, what: str) -> tuple[Any, ...]:
        """Return little-endian fields in the notation of `struct`."""
        return struct.unpack("<" + layout, self.take(struct.calcsize("<" + layout), what))

    def byte(self, what: str) -> int:
        """Return the next byte."""
        return self.take(1, what)[0]

    def varint(self, what: str) -> int:
        """Return a minimal LEB128 number of at most 64 bits."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self.byte(what)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if byte == 0 and shift > 0:
                    raise ValueError(f"{what}: varint is not minimal")
                if value >= 1 << 64:
                    raise ValueError(f"{what}: varint exceeds 64 bits")
                return value
        raise ValueError(f"{what}: varint exceeds 64 bits")


class BitReader:
    """Reads bits from the front of ``data`` and never past its end.

    Parameters
    ----------
    data : bytes
        What to read.
    """

    def __init__(self, data: bytes) -> None:
        octets = np.frombuffer(data, np.uint8)
        self._bits: list[int] = np.unpackbits(octets, bitorder="little").tolist()
        self._position = 0

    def bit(self) -> int:
        """Return the next bit."""
        if self._position == len(self._bits):
            raise ValueError("truncated: bits are missing")
        self._position += 1
        return self._bits[self._position - 1]

    def field(self, width: int) -> int:
        """Return a field of ``width`` bits, the least significant one first."""
        return sum(self.bit() << shift for shift in range(width))

    def finish(self, what: str) -> int:
        """Skip the zero bits up to the next byte and return the number of bytes read.

        Raises
        ------
        ValueError
            When a padding bit is not zero.
        """
        end = -(-self._position // 8) * 8
        if any(self._bits[self._position : end]):
            raise ValueError(f"{what}: padding is not zero")
        return end // 8


def unpack_fields(data: bytes, count: int, width: int) -> NDArray[np.int64]:
    """Return ``count`` bit fields of one ``width``, followed by zero bits up to the byte.

    Raises
    ------
    ValueError
        When a padding bit is not zero.
    """
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    if bits[count * width :].any():
        raise ValueError("raw bits: padding is not zero")
    weights = np.int64(1) << np.arange(width, dtype=np.int64)
    fields: NDArray[np.int64] = bits[: count * width].reshape(count, width) @ weights
    return fields


def pack_fields(fields: NDArray[np.uint64], widths: NDArray[np.uint8]) -> bytes:
    """Concatenate bit fields of many widths.

    Neighbours are merged pairwise while every pair fits a word of 64 bits, which leaves
    a fraction of the fields to be placed one by one.

    Parameters
    ----------
    fields : ndarray of uint64
        The fields; bits beyond a field's width must be zero.
    widths : ndarray of uint8
        Their widths, 0 … 64.

    Returns
    -------
    bytes
        The fields in order, with zero bits up to the byte.
    """
    # 1. Merge. A field of 64 bits has a neighbour of none, so no shift needs 64.
    while fields.size > 1:
        if fields.size % 2:
            fields = np.append(fields, np.uint64(0))
            widths = np.append(widths, np.uint8(0))
        merged_widths = widths[0::2] + widths[1::2]
        if merged_widths.max() > 64:
            break
        fields = fields[0::2] | fields[1::2] << np.minimum(widths[0::2], np.uint8(63))
        widths = merged_widths

    # 2. Find each field's word and the bit in it.
    ends = np.cumsum(widths, dtype=np.int64)
    total_bits = int(ends[-1]) if ends.size else 0
    if total_bits == 0:
        return b""
    starts = ends - widths
    word = starts >> 6
    shift = (starts & 63).astype(np.uint8)

    # 3. Fields that start in one word are neighbours: OR each run of them. At most one of them
    #    goes on in the next word.
    words = np.zeros(total_bits // 64 + 2, np.uint64)
    first = np.concatenate(([0], np.flatnonzero(np.diff(word)) + 1))
    words[word[first]] = np.bitwise_or.reduceat(fields << shift, first)
    crossing = np.flatnonzero(shift + widths > 64)
    words[word[crossing] + 1] |= fields[crossing] >> (64 - shift[crossing])
    return words.astype("<u8").tobytes()[: -(-total_bits // 8)]
