"""Count-Sketch.

Charikar, Chen and Farach-Colton, "Finding Frequent Items in Data Streams", ICALP 2002.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from docofl_codec.baselines._base import (
    Baseline,
    Floats,
    check_range,
    payload_budget,
    to_finite_float32,
)
from docofl_codec.baselines._random import random_word, random_words
from docofl_codec.baselines._reader import PayloadReader
from docofl_codec.baselines._stochastic import PIECE, scale_down
from docofl_codec.baselines.hadamard import read_scale
from docofl_codec.codec import register_codec
from docofl_codec.errors import CorruptFrameError
from docofl_codec.frame import ForeignPayload, register_payload

__all__ = ["CountSketch"]

MAX_ROWS = 15
PARAMETER_BYTES = 15
FIRST_ROW_KEY = 16


@dataclass(frozen=True, kw_only=True)
class CountSketch(Baseline):
    """Sums of coordinates with random signs in random columns; decoded as medians over rows.

    Unbiased: the mean of the decoded tensor over seeds is the tensor.

    Parameters
    ----------
    bits : float, default 2
        The budget in bits a coordinate, 0 to 64:
        ``8 * len(blob) <= bits * size + 8 * (64 + 10 * ndim)``. The table's float32 entries take
        it all.
    rows : int, default 3
        Independent rows of the table, 1 to 15.
    threads : int, optional
        Threads of the checksum.
    """

    name: ClassVar[str] = "countsketch"
    codec_id: ClassVar[int] = 21
    bits: float = 2.0
    rows: int = 3

    def _check_options(self) -> None:
        check_range("bits", self.bits, 0, 64)
        check_range("rows", self.rows, 1, MAX_ROWS)

    def _payload(self, x: Floats, seed: int) -> bytes:
        y, exponent = scale_down(x)
        room = (payload_budget(self.bits, x.size) - PARAMETER_BYTES) // 4
        rows = min(int(self.rows), room)
        columns = min(room // rows, (1 << 32) - 1)
        table = np.zeros((rows, columns))
        for begin in range(0, x.size, PIECE):
            end = min(begin + PIECE, x.size)
            for row in range(rows):
                places, signs = _hash(seed, row, columns, begin, end)
                table[row] += np.bincount(places, weights=signs * y[begin:end], minlength=columns)
        header = struct.pack("<QhBI", seed, exponent, rows, columns)
        return header + to_finite_float32(table).astype("<f4").tobytes()


def _hash(
    seed: int, row: int, columns: int, begin: int, end: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the column and the sign of coordinates."""
    words = random_words(random_word(seed, FIRST_ROW_KEY + row), begin, end)
    places = ((words >> np.uint64(32)) * np.uint64(columns) >> np.uint64(32)).astype(np.int64)
    signs = 1.0 - 2.0 * (words & np.uint64(1)).astype(np.float64)
    return places, signs


def _read_parameters(reader: PayloadReader) -> tuple[int, int, int, int]:
    seed, exponent = read_scale(reader)
    rows, columns = reader.unpack("BI", "rows and columns")
    if not 1 <= rows <= MAX_ROWS or columns < 1:
        raise CorruptFrameError(f"table: found {rows} by {columns}, expected 1 to 15 by at least 1")
    return seed, exponent, rows, columns


def _decode(payload: bytes, size: int, threads: int) -> Floats:  # noqa: ARG001
    reader = PayloadReader(payload, size)
    seed, exponent, rows, columns = _read_parameters(reader)
    table = reader.floats(rows * columns, "table").reshape(rows, columns).astype(np.float64)
    reader.finish()
    x = np.empty(size, np.float32)
    piece = PIECE // (2 * rows)  # all rows' estimates are there at once
    for begin in range(0, size, piece):
        end = min(begin + piece, size)
        estimates = np.empty((rows, end - begin))
        for row in range(rows):
            places, signs = _hash(seed, row, columns, begin, end)
            estimates[row] = signs * table[row, places]
        x[begin:end] = to_finite_float32(np.ldexp(_median(estimates), exponent))
    return x


def _median(estimates: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the medians of columns; of an even number the mean of the two in the middle."""
    rows = estimates.shape[0]
    estimates.sort(axis=0)
    result: npt.NDArray[np.float64] = (estimates[(rows - 1) // 2] + estimates[rows // 2]) / 2
    return result


def _describe(payload: bytes, size: int) -> dict[str, Any]:
    seed, _, rows, columns = _read_parameters(PayloadReader(payload, size))
    return {"seed": seed, "sketch_shape": (rows, columns)}


register_codec(CountSketch)
register_payload(CountSketch.codec_id, ForeignPayload(_decode, _describe))
