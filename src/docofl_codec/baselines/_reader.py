"""Reading the fields of a payload, and never past its end."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from docofl_codec.baselines._base import COORDINATES_PER_BYTE, Floats
from docofl_codec.errors import CorruptFrameError, TruncatedFrameError

__all__ = ["PayloadReader"]


class PayloadReader:
    """Takes fields from the front of a payload of `size` coordinates."""

    def __init__(self, payload: bytes, size: int) -> None:
        self._payload = payload
        self._size = size
        self._position = 0

    def take(self, count: int, what: str) -> bytes:
        """Return the next `count` bytes."""
        left = len(self._payload) - self._position
        if count > left:
            raise TruncatedFrameError(f"{what}: expected {count} bytes, found {left}")
        self._position += count
        return self._payload[self._position - count : self._position]

    def unpack(self, layout: str, what: str) -> tuple[Any, ...]:
        """Return little-endian fields in the notation of `struct`."""
        return struct.unpack("<" + layout, self.take(struct.calcsize("<" + layout), what))

    def floats(self, count: int, what: str) -> Floats:
        """Return finite float32 values."""
        values = np.frombuffer(self.take(4 * count, what), "<f4").astype(np.float32)
        if not np.isfinite(values).all():
            raise CorruptFrameError(f"{what}: found NaN or infinities, expected finite values")
        return values

    def rest(self) -> bytes:
        """Return all that is left, without taking it."""
        return self._payload[self._position :]

    def finish(self) -> None:
        """Check that nothing is left but the zero bytes that the size asks for."""
        filler = self.rest()
        needed = max(0, -(-self._size // COORDINATES_PER_BYTE) - self._position)
        if len(filler) != needed or any(filler):
            raise CorruptFrameError(
                f"end of payload: found {len(filler)} more bytes, expected {needed} of value 0"
            )
