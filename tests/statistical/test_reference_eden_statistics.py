"""EDEN's twin is as good as the theory says, and unbiased."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from docofl_codec.reference import eden
from tests.helpers.data import Floats, lognormal, normal


@pytest.mark.parametrize("bits", [0.5, 1, 1.5, 2, 2.5, 3, 4])
@pytest.mark.parametrize("data", [normal, lognormal])
def test_error_is_that_of_the_theory(data: Callable[[int], Floats], bits: float) -> None:
    x = data(2**15)
    errors = [eden.decode(eden.encode(x, bits, seed)) - x for seed in range(4)]
    found = np.mean([error @ error for error in errors]) / (x @ x)
    assert found == pytest.approx(eden.theory_nmse(bits), rel=0.02)


def deviations(
    x: Floats, bits: float, scale: Literal["unbiased", "mse"], num_seeds: int
) -> NDArray[np.float64]:
    """Return the mean error of each coordinate over many seeds, in standard errors."""
    decoded = [eden.decode(eden.encode(x, bits, seed, scale)) for seed in range(num_seeds)]
    errors = np.array(decoded, np.float64) - x
    result: NDArray[np.float64] = errors.mean(axis=0) / (errors.std(axis=0) / num_seeds**0.5)
    return result


def test_mean_of_many_seeds_is_the_vector() -> None:
    # Five sigma for the largest of all deviations, by Bonferroni.
    x = lognormal(256)
    limit = -NormalDist().inv_cdf(NormalDist().cdf(-5) / x.size)
    found = deviations(x, 1, "unbiased", 2000)
    assert np.abs(found).max() < limit
    assert float(np.mean(found**2)) == pytest.approx(1, abs=5 * (2 / x.size) ** 0.5)
    # The same measure finds the bias of the other scale.
    assert np.abs(deviations(x, 1, "mse", 200)).max() > 2 * limit
