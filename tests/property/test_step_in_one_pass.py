"""A given step is coded in one pass over a large tensor, with the levels that two passes give."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from docofl_codec import InvalidInputError, ecuq, inspect
from docofl_codec.reference import decode_frame
from tests.helpers.data import DATA_SETS, Floats

Array = npt.NDArray[Any]

SIZE = 200_000
STEPS = (0.25, 0.375, 2.0**-5)  # of few bits: all their multiples are float32 numbers


def check_multiples(x: Array, x_hat: Array, step: float) -> None:
    """All values are multiples of the step, and the nearest but for the rounding of float32."""
    multiples = x_hat.astype(np.float64) / step
    assert np.array_equal(multiples, np.rint(multiples))
    assert np.abs(x.astype(np.float64) - x_hat.astype(np.float64)).max() <= 0.5001 * step


def took_one_pass(blob: bytes, x: Array, step: float) -> bool:
    """The grid then goes on far beyond the values."""
    levels = inspect(blob).num_levels
    return bool((levels or 0) > np.ptp(x.astype(np.float64)) / step + 2)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16], ids=str)
def test_values_are_the_nearest_multiples(dtype: npt.DTypeLike, step: float) -> None:
    x = DATA_SETS["normal"](SIZE).astype(dtype)
    blob = ecuq.encode(x, step=step)
    assert took_one_pass(blob, x, step)
    x_hat = np.asarray(ecuq.decode(blob))
    check_multiples(x, x_hat, step)
    assert np.array_equal(np.asarray(decode_frame(blob)[0]).astype(dtype), x_hat)
    for threads in (1, 2, 5):
        assert ecuq.encode(x, step=step, threads=threads) == blob


@pytest.mark.parametrize("centroids", [False, True])
def test_it_takes_no_more_bytes_than_two_passes(centroids: bool) -> None:
    """A step of many bits has two."""
    x = DATA_SETS["normal"](SIZE)
    for step in STEPS:
        one = ecuq.encode(x, step=step, centroids=centroids)
        two = ecuq.encode(x, step=step * (1 + 1e-5), centroids=centroids)
        assert took_one_pass(one, x, step)
        assert not took_one_pass(two, x, step)
        assert len(one) <= 1.003 * len(two)
        errors = [np.mean((x - np.asarray(ecuq.decode(blob))) ** 2) for blob in (one, two)]
        assert errors[0] == pytest.approx(errors[1], rel=2e-3)


def one_spike(x: Floats, value: float) -> Floats:
    """Return values of which one, that no sample sees, is another."""
    x = x.copy()
    x[101_003] = value
    return x


@pytest.mark.parametrize("value", [9.0, -17.3, 40.0, -1e4, 1e6, -1e-40])
def test_a_value_far_from_the_others(value: float) -> None:
    x = one_spike(DATA_SETS["normal"](SIZE), value)
    x_hat = np.asarray(ecuq.decode(ecuq.encode(x, step=0.5)))
    check_multiples(x, x_hat, 0.5)


def test_a_value_too_far_from_the_others() -> None:
    x = one_spike(DATA_SETS["normal"](SIZE), 3e38)
    with pytest.raises(InvalidInputError, match=r"step: found 0\.5, expected at least"):
        ecuq.encode(x, step=0.5)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite(value: float) -> None:
    x = one_spike(DATA_SETS["normal"](SIZE), value)
    with pytest.raises(InvalidInputError, match=r"found 1 value\(s\).*at flat index 101003"):
        ecuq.encode(x, step=0.5)


def test_a_float64_value_beyond_float32() -> None:
    x = DATA_SETS["normal"](SIZE).astype(np.float64)
    x[7] = 1e300
    with pytest.raises(InvalidInputError, match=r"not finite in float32.*at flat index 7"):
        ecuq.encode(x, step=0.5)


def test_values_of_one_sign_and_zeros() -> None:
    x = np.abs(DATA_SETS["normal"](SIZE))
    x[::3] = 0
    x_hat = np.asarray(ecuq.decode(ecuq.encode(x, step=0.75, centroids=True)))
    assert x_hat.min() == 0
    assert not np.any(x_hat[::3])
    assert np.abs(x - x_hat).max() <= 1.01 * 0.75


def test_values_far_from_zero_and_a_single_spike_among_zeros() -> None:
    far = DATA_SETS["normal"](SIZE) + np.float32(1e4)
    assert np.abs(np.asarray(ecuq.decode(ecuq.encode(far, step=0.5))) - far).max() <= 0.26
    zeros = one_spike(np.zeros(SIZE, np.float32), 3.0)
    assert np.array_equal(np.asarray(ecuq.decode(ecuq.encode(zeros, step=0.5))), zeros)
