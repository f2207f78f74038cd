"""Rows 14 and 15: tensors with almost nothing in them, and with the extremes of float32."""

from __future__ import annotations

import numpy as np
import pytest

from docofl_codec import Codec, Ecuq, Identity, ecuq, inspect
from docofl_codec.ecuq import Quality
from tests.helpers.data import Floats, denormal, huge

CODECS: list[Codec] = [
    *(Ecuq(bits=bits) for bits in (0.05, 0.5, 1, 2, 4, 8, 16, 32)),
    Ecuq(bits=2, budget="entropy"),
    *(Ecuq(bits=bits, quality="best") for bits in (0.05, 0.5, 2, 8)),
    *(Ecuq(bits=bits, coder="rans") for bits in (0.05, 0.5, 2, 8)),
    Identity(),
]
FLOAT32 = np.finfo(np.float32)
QUALITIES: tuple[Quality, Quality] = ("fast", "best")


def round_trip(codec: Codec, x: Floats) -> Floats:
    x_hat = np.asarray(codec.decode(codec.encode(x)))
    assert (x_hat.shape, x_hat.dtype) == (x.shape, x.dtype)
    return x_hat


# Row 14 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS, ids=repr)
@pytest.mark.parametrize("shape", [(0, 3), (0,), (3, 0, 2), (), (1,), (1, 1)], ids=str)
def test_shapes(codec: Codec, shape: tuple[int, ...]) -> None:
    x = np.full(shape, 1.1, np.float32)
    assert round_trip(codec, x).tobytes() == x.tobytes()


@pytest.mark.parametrize("codec", CODECS, ids=repr)
@pytest.mark.parametrize(
    "value",
    [
        0.0,
        -0.0,
        1.1,
        -3e38,
        float(FLOAT32.max),
        float(FLOAT32.tiny),
        float(FLOAT32.smallest_subnormal),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 5000, 70_000])
def test_constants(codec: Codec, value: float, size: int) -> None:
    x = np.full(size, value, np.float32)
    assert round_trip(codec, x).tobytes() == x.tobytes()


@pytest.mark.parametrize("quality", QUALITIES)
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("pair", [(0.0, 1.0), (-7.3, 7.3), (1.0, 1.0000001), (0.0, 1e-45)])
def test_two_values_are_exact_where_bits_allow(
    bits: float, pair: tuple[float, float], quality: Quality
) -> None:
    for count in (300, 3000):
        x = np.array(pair * count, np.float32)
        assert round_trip(Ecuq(bits=bits, quality=quality), x).tobytes() == x.tobytes()


def test_two_values_with_too_few_bits() -> None:
    x = np.array([0.0, 1.0] * 5000, np.float32)[np.random.default_rng(0).permutation(10_000)]
    info = inspect(ecuq.encode(x, bits=0.5))
    assert (info.explicit_levels, info.num_levels) == (False, 1)


# Row 15 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS, ids=repr)
@pytest.mark.parametrize("size", [2, 1000, 70_000])
def test_the_whole_range_of_float32(codec: Codec, size: int) -> None:
    x = np.tile(np.array([-FLOAT32.max, FLOAT32.max], np.float32), size // 2)
    x_hat = round_trip(codec, x)
    assert np.isfinite(x_hat).all()
    assert np.isfinite(inspect(codec.encode(x)).step or 0.0)


@pytest.mark.parametrize("bits", [2, 8, 16])
def test_denormals_are_not_flushed(bits: float, isa: str) -> None:
    assert isa
    x = denormal(5000)
    blob = ecuq.encode(x, bits=bits)
    x_hat = np.asarray(ecuq.decode(blob))
    step = inspect(blob).step
    assert step is not None
    assert step > 0
    assert np.abs(x_hat.astype(np.float64) - x).max() <= 0.51 * step + 1.5e-45
    assert np.count_nonzero(x_hat) > 4000


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_denormals_of_the_best_quality(bits: float, isa: str) -> None:
    """The error is no larger than that of the other quality."""
    assert isa
    x = denormal(5000)
    errors = []
    for quality in QUALITIES:
        x_hat = np.asarray(ecuq.decode(ecuq.encode(x, bits=bits, quality=quality)))
        # At 1 bit most values are nearest to the level at zero.
        assert np.count_nonzero(x_hat) > (500 if bits <= 1 else 1000)
        errors.append(np.sum((x_hat.astype(np.float64) - x) ** 2))
    assert errors[1] <= errors[0]


@pytest.mark.parametrize("bits", [0.5, 2, 8])
@pytest.mark.parametrize("size", [2000, 140_000])
def test_values_all_over_float32(bits: float, size: int) -> None:
    """Ranges beyond float32, with enough values in between to be coded by rANS."""
    x = huge(size)
    x[:2] = -FLOAT32.max, FLOAT32.max
    x_hat = round_trip(Ecuq(bits=bits, quality="best"), x)
    assert np.isfinite(x_hat).all()
    scaled = x.astype(np.float64) / float(FLOAT32.max)
    error = x_hat.astype(np.float64) / float(FLOAT32.max) - scaled
    assert np.sum(error**2) <= np.sum(scaled**2)


def test_all_subnormal_values_of_a_small_set() -> None:
    x = np.arange(200, dtype=np.uint32).view(np.float32).repeat(20)
    assert round_trip(Ecuq(bits=12), x).tobytes() == x.tobytes()
    assert round_trip(Identity(), x).tobytes() == x.tobytes()


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_denormals_of_other_dtypes(dtype: type[np.float16] | type[np.float64]) -> None:
    x = np.array([0, 1, 2, 3, 100] * 50) * float(np.finfo(np.float16).smallest_subnormal)
    y = x.astype(dtype)
    assert np.array_equal(np.asarray(ecuq.decode(ecuq.encode(y, bits=8))), y)
