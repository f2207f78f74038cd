"""Row 22: EDEN is unbiased, as good as the theory says, and its errors average out."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import pytest

from docofl_codec import eden
from docofl_codec.reference.eden import theory_nmse
from tests.helpers.data import Floats, lognormal, normal

NUM_SEEDS = 10_000
SIZE = 500  # blocks of 256, 128, 64, 32 and 16 coordinates, and a tail of four


def deviations(
    x: Floats, bits: float, scale: eden.Scale = "unbiased", num_seeds: int = NUM_SEEDS
) -> npt.NDArray[np.float64]:
    """Return the mean error of each rotated coordinate over many seeds, in standard errors."""
    errors = np.empty((num_seeds, x.size), np.float32)
    for seed in range(num_seeds):
        eden.decode(
            eden.encode(x, bits=bits, seed=seed, scale=scale, threads=1),
            out=errors[seed],
            threads=1,
        )
    errors -= x
    rotated = errors[:, : x.size - x.size % 16].astype(np.float64)
    standard_errors = rotated.std(axis=0) / num_seeds**0.5
    result: npt.NDArray[np.float64] = rotated.mean(axis=0) / standard_errors
    return result


def five_sigma(count: int) -> float:
    """Return what the largest of so many deviations exceeds as rarely as one exceeds 5 sigma."""
    return -NormalDist().inv_cdf(NormalDist().cdf(-5) / count)


@pytest.mark.parametrize("bits", [0.5, 1, 2])
def test_mean_of_many_seeds_is_the_tensor(bits: float) -> None:
    found = deviations(lognormal(SIZE), bits)
    assert np.abs(found).max() < five_sigma(found.size)
    # All together: a small bias of every coordinate would show up here.
    assert float(np.mean(found**2)) == pytest.approx(1, abs=5 * (2 / found.size) ** 0.5)


def test_the_same_measure_finds_the_bias_of_the_other_scale() -> None:
    found = deviations(lognormal(SIZE), 1, scale="mse", num_seeds=300)
    assert np.abs(found).max() > 2 * five_sigma(found.size)


def nmse(x: Floats, x_hat: npt.NDArray[np.floating]) -> float:
    error = x_hat.astype(np.float64) - x
    return float(error @ error / np.sum(x.astype(np.float64) ** 2))


@pytest.mark.parametrize("bits", [0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("data", [normal, lognormal])
def test_error_is_that_of_the_theory(data: Callable[[int], Floats], bits: float) -> None:
    """Within 1 %. The wider the words, the more depends on a few large coordinates."""
    x = data(2**20)
    seeds = range(2 if bits < 3 else 12)
    found = [nmse(x, np.asarray(eden.decode(eden.encode(x, bits=bits, seed=s)))) for s in seeds]
    assert np.mean(found) == pytest.approx(theory_nmse(bits), rel=0.01)


@pytest.mark.parametrize("bits", [0.5, 1, 2])
def test_errors_average_out(bits: float) -> None:
    """The error of the mean of n frames is 1/n of that of one."""
    x = lognormal(2**17)
    frames = [eden.encode(x, bits=bits, seed=seed) for seed in range(100)]
    for count in (1, 10, 100):
        found = nmse(x, np.asarray(eden.decode_mean(frames[:count])))
        assert count * found == pytest.approx(theory_nmse(bits), rel=0.05)


def test_errors_of_entropy_coded_frames_average_out() -> None:
    """Each frame has a grid of its own, and so a theory of its own."""
    x = lognormal(2**17)
    frames = [eden.encode(x, bits=2, seed=seed, entropy_coded=True) for seed in range(100)]
    errors = [nmse(x, np.asarray(eden.decode(frame))) for frame in frames]
    for count in (10, 100):
        found = nmse(x, np.asarray(eden.decode_mean(frames[:count])))
        assert count * found == pytest.approx(np.mean(errors[:count]), rel=0.05)
