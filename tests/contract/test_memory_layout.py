"""Row 18: arrays of any layout in memory give the frame of their contiguous copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from docofl_codec import Codec
from tests.helpers.data import SEED, normal

Array = npt.NDArray[Any]


def strided(x: Array) -> Array:
    return np.repeat(x, 3, axis=1)[:, ::3]


def reversed_rows(x: Array) -> Array:
    return np.ascontiguousarray(x[::-1])[::-1]


def reversed_everything(x: Array) -> Array:
    return np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]


def fortran(x: Array) -> Array:
    return np.asfortranarray(x)


def big_endian(x: Array) -> Array:
    y: Array = x.astype(x.dtype.newbyteorder(">"))
    return y


def read_only(x: Array) -> Array:
    y: Array = x.copy()
    y.flags.writeable = False
    return y


def unaligned(x: Array) -> Array:
    memory = np.empty(x.nbytes + 1, np.uint8)[1:]
    y = memory.view(x.dtype).reshape(x.shape)
    y[...] = x
    assert not y.flags.aligned
    return y


def broadcast(x: Array) -> Array:
    """The first row again and again, with a stride of zero."""
    return np.broadcast_to(x[:1], x.shape)


def subclass(x: Array) -> Array:
    y: Array = x.view(np.recarray)
    return y


LAYOUTS = [
    strided,
    reversed_rows,
    reversed_everything,
    fortran,
    big_endian,
    read_only,
    unaligned,
    broadcast,
    subclass,
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_frame_of_the_contiguous_copy(
    codec: Codec, layout: Callable[[Array], Array], dtype: npt.DTypeLike
) -> None:
    x = layout(normal(60 * 80).reshape(60, 80).astype(dtype))
    contiguous = np.array(x, dtype, order="C")
    before = x.tobytes()
    assert codec.encode(x, seed=SEED) == codec.encode(contiguous, seed=SEED)
    assert x.tobytes() == before


def test_result_is_contiguous_native_and_writeable(codec: Codec) -> None:
    x = big_endian(fortran(normal(12).reshape(3, 4)))
    x_hat = np.asarray(codec.decode(codec.encode(x, seed=SEED)))
    assert x_hat.flags.c_contiguous
    assert x_hat.flags.writeable
    assert x_hat.flags.owndata
    assert x_hat.dtype.isnative
