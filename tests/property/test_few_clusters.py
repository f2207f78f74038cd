"""Values in a few places far apart: their levels lie beyond any window of 256."""

from __future__ import annotations

import numpy as np
import pytest

from docofl_codec import ecuq, inspect
from tests.helpers.data import Floats


def two_clusters(distance: float, size: int = 200_000) -> Floats:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(size) + distance * rng.integers(0, 2, size)
    return x.astype(np.float32)


def entropy(levels: Floats) -> float:
    shares = np.unique(levels, return_counts=True)[1] / levels.size
    return float(-(shares * np.log2(shares)).sum())


@pytest.mark.parametrize("distance", [100.0, 1000.0, 30_000.0])
@pytest.mark.parametrize("step", [0.125, 0.1])
def test_a_step(step: float, distance: float) -> None:
    """Empty levels in between are stored as raw bits at worst."""
    x = two_clusters(distance)
    bits = 8 * len(ecuq.encode(x, step=step)) / x.size
    assert bits <= max(entropy(np.rint(x / step)) + 1, np.log2(distance / step) - 5)


@pytest.mark.parametrize("distance", [100.0, 1000.0, 30_000.0])
@pytest.mark.parametrize("bits", [8, 10, 12, 16])
def test_a_budget_is_used(bits: float, distance: float) -> None:
    """But for a raw bit: where a cluster is within a bin, there is nothing between whole ones."""
    x = two_clusters(distance)
    blob = ecuq.encode(x, bits=bits)
    assert 8 * len(blob) / x.size >= bits - 1.1
    step = inspect(blob).step
    assert step is not None
    assert step <= distance * 2.0 ** (3 - bits)


@pytest.mark.parametrize("share", [1e-4, 1e-3, 5e-3])
def test_a_sparse_tensor_is_a_list_of_its_values(share: float) -> None:
    """One level needs no code words; bytes hardly depend on the step then."""
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(200_000) * (rng.random(200_000) < share)).astype(np.float32)
    nonzero = np.count_nonzero(x)
    for step in (0.5, 0.1, 1e-2, 1e-3, 1e-5, 1e-7):
        blob = ecuq.encode(x, step=step)
        assert len(blob) <= 6 * nonzero + 200
    blob = ecuq.encode(x, bits=max(0.01, 8 * (6 * nonzero + 200) / x.size))
    error = np.asarray(ecuq.decode(blob)) - x
    assert np.sum(error**2) <= 1e-4 * np.sum(x**2)


@pytest.mark.parametrize("size", [1000, 60_000, 1_000_000])
def test_two_values_of_a_mask_stay_exact_with_a_step(size: int) -> None:
    x = np.where(np.arange(size) % 7 < 3, 0, -1e9).astype(np.float32)
    blob = ecuq.encode(x, step=2.0**-7)
    assert inspect(blob).explicit_levels
    assert np.array_equal(np.asarray(ecuq.decode(blob)), x)
    assert 8 * len(blob) / x.size <= 1.1 + 8 * 64 / size


def test_few_values_of_a_coarse_step_share_its_levels() -> None:
    rng = np.random.default_rng(0)
    x = (rng.integers(0, 200, 100_000) / 200).astype(np.float32)
    blob = ecuq.encode(x, step=0.5)
    assert not inspect(blob).explicit_levels
    assert 8 * len(blob) / x.size <= 1.7


@pytest.mark.parametrize("bits", [3, 4, 6, 8])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rans_makes_use_of_its_budget(seed: int, bits: float) -> None:
    """With a finer step one of two clusters has no place among 128 levels."""
    rng = np.random.default_rng(seed)
    size = 20_001
    x = np.where(rng.random(size) < 0.3, -3, 7) + 0.01 * rng.standard_normal(size)
    x = x.astype(np.float32)
    huffman, rans = (
        np.mean((np.asarray(ecuq.decode(blob)) - x) ** 2)
        for blob in (
            ecuq.encode(x, bits=bits),
            ecuq.encode(x, bits=bits, coder="rans"),
        )
    )
    assert rans <= 1.1 * huffman
