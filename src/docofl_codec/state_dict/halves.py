"""Values at 16 bits: float16 where all are normal numbers of it, otherwise bfloat16."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from docofl_codec.state_dict.index import BFLOAT16, EXACT, FLOAT16
from docofl_codec.state_dict.tensors import Memory

__all__ = ["halve"]

LEAST, MOST = np.float32(2.0**-14), np.float32(65_504)


def halve(tensors: Sequence[Memory]) -> list[tuple[int, Memory]]:
    """Return store and values for each of some tensors that are not empty, all converted at once.

    float64 beyond float32 stays as it is.
    """
    if not tensors:
        return []
    with np.errstate(over="ignore"):
        values = np.concatenate([tensor.flat for tensor in tensors], dtype=np.float32)
        as_float16 = values.astype(np.float16)
    starts = np.cumsum([0, *(tensor.flat.size for tensor in tensors)])
    sizes = np.abs(values)
    largest = np.maximum.reduceat(sizes, starts[:-1])
    sizes[sizes == 0] = np.inf
    smallest = np.minimum.reduceat(sizes, starts[:-1])
    is_normal = (smallest >= LEAST) & ((largest <= MOST) | (largest == 0))
    as_bfloat16 = np.empty(0, np.uint16) if is_normal.all() else to_bfloat16(values)
    halves = []
    for number, tensor in enumerate(tensors):
        part = slice(starts[number], starts[number + 1])
        if is_normal[number]:
            halves.append((FLOAT16, Memory("float16", as_float16[part])))
        elif tensor.dtype == "float64" and not np.array_equal(
            np.isinf(values[part]), np.isinf(tensor.flat)
        ):
            halves.append((EXACT, tensor))
        else:
            halves.append((BFLOAT16, Memory("bfloat16", as_bfloat16[part])))
    return halves


def to_bfloat16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Round to nearest, ties to even; what is finite stays so, NaN stays NaN."""
    word = values.view(np.uint32)
    cut = word >> 16
    # NaN and infinities, and what would become infinite, are cut instead.
    rounds = (word & 0x7FFFFFFF) < 0x7F7F8000
    rounded = np.where(rounds, (word + 0x7FFF + (cut & 1)) >> 16, cut)
    nan = np.isnan(values)
    if nan.any():
        rounded[nan] |= 0x40
    return rounded.astype(np.uint16)
