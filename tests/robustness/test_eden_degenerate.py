"""Rows 14, 15 and 16 for EDEN: almost nothing, the extremes of float32, and outliers."""

from __future__ import annotations

import numpy as np
import pytest

from docofl_codec import Codec, Eden, InvalidInputError
from docofl_codec.reference.eden import theory_nmse
from tests.helpers.data import SEED, Floats, constant, denormal, huge, normal

CODECS: list[Codec] = [
    *(Eden(bits=bits) for bits in (0.1, 0.5, 1, 2.5, 8)),
    Eden(bits=1, scale="mse"),
    Eden(bits=2, entropy_coded=True),
    Eden(bits=16, entropy_coded=True),
]
FLOAT32 = np.finfo(np.float32)


def round_trip(codec: Codec, x: Floats, seed: int = SEED) -> Floats:
    x_hat = np.asarray(codec.decode(codec.encode(x, seed=seed)))
    assert (x_hat.shape, x_hat.dtype) == (x.shape, x.dtype)
    assert np.isfinite(x_hat).all()
    return x_hat


def nmse(x: Floats, x_hat: Floats) -> float:
    x64 = x.astype(np.float64)
    return float(np.sum((x64 - x_hat) ** 2) / np.sum(x64**2))


# Row 14 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS, ids=repr)
@pytest.mark.parametrize("shape", [(0, 3), (0,), (), (1,), (1, 1), (2,), (3,), (15,)], ids=str)
@pytest.mark.parametrize("value", [0.0, -0.0, 1.1, float(FLOAT32.max), 1e-45])
def test_fewer_than_16_values_are_exact(codec: Codec, shape: tuple[int, ...], value: float) -> None:
    x = np.full(shape, value, np.float32)
    assert round_trip(codec, x).tobytes() == x.tobytes()


@pytest.mark.parametrize("codec", CODECS, ids=repr)
@pytest.mark.parametrize("size", [16, 33, 5000, 70_000])
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zeros_are_exact(codec: Codec, size: int, zero: float) -> None:
    assert not round_trip(codec, np.full(size, zero, np.float32)).any()


@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_blocks_of_zeros_beside_others(codec: Codec) -> None:
    x = normal(3 * 32_768)
    x[32_768 : 2 * 32_768] = 0
    x_hat = round_trip(codec, x)
    assert not x_hat[32_768 : 2 * 32_768].any()
    assert x_hat[:32_768].any()
    assert x_hat[2 * 32_768 :].any()


# Row 15 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS, ids=repr)
@pytest.mark.parametrize("size", [16, 1000, 70_000])
def test_the_whole_range_of_float32(codec: Codec, size: int) -> None:
    """An error or a finite tensor."""
    x = np.tile(np.array([-FLOAT32.max, FLOAT32.max], np.float32), size // 2)
    try:
        blob = codec.encode(x, seed=SEED)
    except InvalidInputError:
        return
    assert np.isfinite(np.asarray(codec.decode(blob))).all()


def test_estimates_beyond_float32_are_a_clear_error() -> None:
    x = np.full(1000, FLOAT32.max, np.float32)
    for codec in (Eden(bits=1), Eden(bits=2, entropy_coded=True)):
        with pytest.raises(InvalidInputError, match="would be beyond float32"):
            codec.encode(x, seed=SEED)


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_huge_norms(bits: float) -> None:
    """Sums of squares are far beyond float32; only what is beyond it by itself is clamped."""
    x = huge(70_000)
    assert nmse(x / 1e38, round_trip(Eden(bits=bits), x) / 1e38) <= 1.02 * theory_nmse(bits)
    x *= np.float32(1e-2)
    found = round_trip(Eden(bits=bits), x) * np.float32(1e-36)
    assert nmse(x * np.float32(1e-36), found) == pytest.approx(theory_nmse(bits), rel=0.05)


@pytest.mark.parametrize("exponent", [-60, -19, 19, 60, 100])
@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_powers_of_two_change_the_scales_alone(codec: Codec, exponent: int) -> None:
    x, factor = normal(5000), np.float32(2.0**exponent)
    assert np.array_equal(round_trip(codec, x * factor), round_trip(codec, x) * factor)


@pytest.mark.parametrize("bits", [1, 2, 8])
def test_denormals_are_not_flushed(bits: float, isa: str) -> None:
    assert isa
    x = denormal(5000)
    error = round_trip(Eden(bits=bits), x).astype(np.float64) - x
    # Values are rounded to multiples of 2^-149, which are 1.4e-5 of the standard deviation.
    allowed = 1.1 * theory_nmse(bits) * np.sum(x.astype(np.float64) ** 2)
    assert np.sum(error**2) <= allowed + x.size * 2.0**-298


@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_the_least_denormals(codec: Codec) -> None:
    for value in (1e-45, 1e-44, 1e-40):
        round_trip(codec, np.full(1000, value, np.float32))
        x = np.zeros(1000, np.float32)
        x[7] = value
        round_trip(codec, x)


# Row 16 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [1, 2, 4])
@pytest.mark.parametrize("place", [0, 32_768, 98_303])
def test_one_value_of_1e30_among_unit_normals(bits: float, place: int) -> None:
    x = normal(100_000)
    x[place] = 1e30
    assert nmse(x, round_trip(Eden(bits=bits), x)) <= 1.2 * theory_nmse(bits)


@pytest.mark.parametrize("bits", [0.5, 1, 2, 4])
def test_adversarial_blocks(bits: float) -> None:
    """Spikes and constants, whose Hadamard transforms are far from normal, rotate as well."""
    one_spike, two_spikes = np.zeros((2, 32_768), np.float32)
    one_spike[11] = two_spikes[11] = two_spikes[20_000] = 1
    for x in (one_spike, two_spikes, constant(32_768)):
        codec = Eden(bits=bits)
        errors = [nmse(x, round_trip(codec, x, seed)) for seed in range(5)]
        assert np.mean(errors) == pytest.approx(theory_nmse(bits), rel=0.03)
