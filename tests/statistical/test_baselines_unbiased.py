"""The baselines that say so are unbiased: errors of many seeds average out to nothing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from docofl_codec.baselines import QSGD, CountSketch, HadamardSQ, KashinSQ, RandK
from docofl_codec.baselines._base import Baseline
from tests.helpers.data import Floats, lognormal
from tests.statistical.test_eden_unbiased import five_sigma

NUM_SEEDS = 2000
SIZE = 200

UNBIASED: list[Baseline] = [
    HadamardSQ(bits=1),
    HadamardSQ(bits=2.5),
    KashinSQ(bits=2),
    QSGD(levels=3),
    QSGD(bits=2),
    RandK(fraction=0.1),
    CountSketch(bits=4, rows=1),
    CountSketch(bits=4, rows=3),
    CountSketch(bits=4, rows=4),
]


def deviations(codec: Baseline, x: Floats) -> npt.NDArray[np.float64]:
    """Return the mean error of each coordinate that has any, in standard errors."""
    errors = np.empty((NUM_SEEDS, x.size))
    for seed in range(NUM_SEEDS):
        errors[seed] = np.asarray(codec.decode(codec.encode(x, seed=seed)), np.float64) - x
    inexact = errors.std(axis=0) > 1e-6 * np.abs(x)
    errors = errors[:, inexact]
    result: npt.NDArray[np.float64] = errors.mean(axis=0) / (errors.std(axis=0) / NUM_SEEDS**0.5)
    return result


@pytest.mark.parametrize("codec", UNBIASED, ids=repr)
def test_mean_of_many_seeds_is_the_tensor(codec: Baseline) -> None:
    found = deviations(codec, lognormal(SIZE))
    assert found.size > SIZE // 2
    assert np.abs(found).max() < five_sigma(found.size)


def test_the_same_measure_finds_a_bias() -> None:
    found = deviations(RandK(fraction=0.1, unbiased=False), lognormal(SIZE))
    assert np.abs(found).max() > 2 * five_sigma(found.size)


@pytest.mark.parametrize("fraction", [0.1, 0.5])
def test_randk_error_is_that_of_the_theory(fraction: float) -> None:
    """The mean of NMSE over seeds is n / K - 1."""
    x = lognormal(2**14)
    x64 = x.astype(np.float64)
    codec = RandK(fraction=fraction)
    errors = [
        np.sum((np.asarray(codec.decode(codec.encode(x, seed=seed))) - x64) ** 2) / np.sum(x64**2)
        for seed in range(60)
    ]
    assert np.mean(errors) == pytest.approx(1 / fraction - 1, rel=0.03)
