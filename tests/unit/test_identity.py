"""The identity codec keeps every bit."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from docofl_codec import CorruptFrameError, Identity, InvalidInputError, decode
from tests.helpers.data import limits
from tests.helpers.frames import FLOAT16, FLOAT32, FLOAT64, IDENTITY, make_frame

DTYPES: list[npt.DTypeLike] = [np.float16, np.float32, np.float64, ml_dtypes.bfloat16]


def every_kind_of_value(dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    info = limits(dtype)
    values = [0.0, -0.0, 1.0, -1.5, info.max, info.min, info.tiny, info.smallest_subnormal]
    return np.array(values, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_are_kept(dtype: npt.DTypeLike) -> None:
    x = every_kind_of_value(dtype)
    x_hat = np.asarray(Identity().decode(Identity().encode(x)))
    assert x_hat.dtype == x.dtype
    assert x_hat.tobytes() == x.tobytes()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_all_finite_values_of_sixteen_bits(dtype: npt.DTypeLike) -> None:
    patterns = np.arange(2**16, dtype=np.uint16).view(dtype)
    x = patterns[np.isfinite(patterns.astype(np.float32))]
    assert np.asarray(decode(Identity().encode(x))).tobytes() == x.tobytes()


@pytest.mark.parametrize("threads", [1, 3])
def test_payload_is_the_memory_of_the_tensor(threads: int) -> None:
    x = np.arange(70_000, dtype=np.float32)
    expected = make_frame(x.tobytes(), x.shape, codec=IDENTITY)
    assert Identity(threads=threads).encode(x) == expected


def test_float64_beyond_float32_is_kept() -> None:
    x = np.array([1e300, -1e-300, 5e-324])
    assert np.asarray(decode(Identity().encode(x))).tobytes() == x.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_non_finite_values_are_refused(dtype: npt.DTypeLike, bad: float) -> None:
    x = np.zeros(10_000, dtype)
    x[[17, 9999]] = bad
    with pytest.raises(InvalidInputError, match=r"found 2 value.*at flat index 17"):
        Identity().encode(x)


def test_large_float64_values_are_not_counted_as_bad() -> None:
    with pytest.raises(InvalidInputError, match=r"found 1 value.*at flat index 1"):
        Identity().encode(np.array([1e300, np.nan]))


@pytest.mark.parametrize(
    ("dtype", "layout"), [(FLOAT32, "<f4"), (FLOAT64, "<f8"), (FLOAT16, "<f2")]
)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_non_finite_frames_are_refused(dtype: int, layout: str, bad: float) -> None:
    payload = np.array([1, bad], layout).tobytes()
    with pytest.raises(CorruptFrameError, match="identity payload"):
        decode(make_frame(payload, [2], codec=IDENTITY, dtype=dtype))


@pytest.mark.parametrize("size", [0, 7, 9, 16])
def test_payload_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(CorruptFrameError, match="identity payload"):
        decode(make_frame(bytes(size), [2], codec=IDENTITY))
