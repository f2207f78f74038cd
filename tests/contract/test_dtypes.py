"""Row 17: float16, bfloat16, float32 and float64 are accepted and restored; nothing else is."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from docofl_codec import Codec, Ecuq, Eden, Identity, InvalidInputError, decode, inspect
from tests.helpers.data import SEED, limits, normal
from tests.helpers.frames import payload_of

DTYPES: list[npt.DTypeLike] = [np.float16, np.float32, np.float64, ml_dtypes.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3, 5), (5000,)])
def test_dtype_is_restored(codec: Codec, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> None:
    x = normal(int(np.prod(shape))).reshape(shape).astype(dtype)
    before = x.tobytes()
    blob = codec.encode(x, seed=SEED)
    x_hat = codec.decode(blob)
    assert type(x_hat) is np.ndarray
    assert (x_hat.dtype, x_hat.shape) == (x.dtype, x.shape)
    assert inspect(blob).dtype == np.dtype(dtype).name
    assert x.tobytes() == before
    if isinstance(codec, Identity):
        assert x_hat.tobytes() == before


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "codec",
    [
        Ecuq(bits=2),
        Ecuq(bits=9),
        Ecuq(bits=3, budget="entropy"),
        Eden(bits=0.5),
        Eden(bits=3),
        Eden(bits=3, entropy_coded=True),
    ],
    ids=repr,
)
def test_lossy_codecs_work_on_the_float32_values(codec: Codec, dtype: npt.DTypeLike) -> None:
    x = normal(6000 + 7).astype(dtype)
    blob, blob32 = codec.encode(x, seed=SEED), codec.encode(x.astype(np.float32), seed=SEED)
    assert payload_of(blob) == payload_of(blob32)
    expected = np.asarray(decode(blob32)).astype(dtype)
    assert np.asarray(decode(blob)).tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_extreme_values_of_sixteen_bits_stay_finite(codec: Codec, dtype: npt.DTypeLike) -> None:
    x = normal(5000).astype(dtype)
    x[0], x[1] = limits(dtype).max, limits(dtype).min
    x_hat = np.asarray(codec.decode(codec.encode(x, seed=SEED))).astype(np.float32)
    assert np.isfinite(x_hat).all()


# The last is the least that rounds to infinity: half a step of float32 above its largest value.
@pytest.mark.parametrize("value", [3.5e38, -1e300, 2.0**128 - 2.0**103])
def test_float64_beyond_float32_is_refused(codec: Codec, value: float) -> None:
    x = np.array([1.0, value, 2.0])
    if isinstance(codec, Identity):
        assert np.array_equal(np.asarray(codec.decode(codec.encode(x, seed=SEED))), x)
    else:
        with pytest.raises(InvalidInputError, match=r"found 1 value.*flat index 1"):
            codec.encode(x)


def test_float64_that_rounds_into_float32_is_accepted(codec: Codec) -> None:
    limit = float(np.finfo(np.float32).max)
    x = np.array([np.nextafter(2.0**128 - 2.0**103, 0), -limit])
    assert np.isfinite(np.asarray(codec.decode(codec.encode(x, seed=SEED)))).all()


@pytest.mark.parametrize(
    "dtype",
    [
        np.int8,
        np.uint8,
        np.int32,
        np.int64,
        np.uint16,
        np.bool_,
        np.complex64,
        np.complex128,
        np.longdouble,
        np.object_,
        np.str_,
        np.dtype("datetime64[s]"),
        np.dtype([("x", np.float32)]),
        ml_dtypes.float8_e4m3fn,
    ],
    ids=str,
)
def test_other_dtypes_are_refused(codec: Codec, dtype: npt.DTypeLike) -> None:
    with pytest.raises(TypeError, match=r"tensor dtype: found .*, expected one of float32"):
        codec.encode(np.zeros(3, dtype))


@pytest.mark.parametrize("wrong", [[1.0, 2.0], 3.0, None, "x", b"1234", range(3), {}], ids=repr)
def test_other_types_are_refused(codec: Codec, wrong: Any) -> None:
    with pytest.raises(
        TypeError, match=r"tensor: found .*, expected a NumPy array or torch tensor"
    ):
        codec.encode(wrong)


def test_masked_arrays_are_refused(codec: Codec) -> None:
    x: Any = np.ma.masked_array(np.ones(3, np.float32), mask=[True, False, False])
    with pytest.raises(TypeError, match="masked"):
        codec.encode(x)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_numpy_scalars_become_arrays(codec: Codec, dtype: type[np.floating[Any]]) -> None:
    scalar: Any = dtype(1.5)
    x_hat = codec.decode(codec.encode(scalar, seed=SEED))
    assert (x_hat.shape, x_hat.dtype, x_hat.item()) == ((), np.dtype(dtype), 1.5)
