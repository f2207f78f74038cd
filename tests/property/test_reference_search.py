"""With `budget="entropy"` the core finds what the printed algorithm finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docofl_codec import ecuq, inspect
from docofl_codec.reference import ecuq as reference
from tests.helpers.data import DATA_SETS, Floats, normal
from tests.property.strategies import budgets, tensors

tolerances = st.sampled_from([0.0, 0.001, 0.01, 0.1, 0.5])


def check_agreement(x: Floats, bits: float, tolerance: float = 0.1) -> None:
    expected = reference.ecuq(x, bits, tolerance)
    blob = ecuq.encode(x, bits=bits, budget="entropy", tolerance=tolerance)
    info = inspect(blob)
    assert info.num_levels == expected.num_levels
    assert (
        info.entropy == pytest.approx(expected.entropy, rel=1e-6, abs=1e-6) or info.explicit_levels
    )
    # By value: a mixture of -0 and +0 is a constant.
    assert np.array_equal(np.asarray(ecuq.decode(blob)), expected.values)


@given(x=tensors, bits=budgets, tolerance=tolerances)
def test_small_tensors(x: Floats, bits: float, tolerance: float) -> None:
    check_agreement(x, bits, tolerance)


@pytest.mark.parametrize("bits", [0.05, 0.6, 1, 1.5, 2, 3, 4, 5.7, 8, 11, 13])
@pytest.mark.parametrize("name", DATA_SETS)
def test_every_data_set(name: str, bits: float) -> None:
    check_agreement(DATA_SETS[name](5000), bits)
    check_agreement(DATA_SETS[name](5000), bits, 0.01)


# From 131,073 coordinates on the core lets a sample speak where it is sure.
@pytest.mark.parametrize("size", [131_072, 131_073, 190_000, 400_000])
@pytest.mark.parametrize("bits", [0.6, 2, 5.7])
@pytest.mark.parametrize("name", ["normal", "lognormal", "layered", "outliers", "mostly_zero"])
def test_large_tensors(name: str, bits: float, size: int) -> None:
    check_agreement(DATA_SETS[name](size), bits)


@pytest.mark.parametrize("bits", [9.5, 12])
def test_large_tensors_at_many_levels(bits: float) -> None:
    for name in ("normal", "lognormal", "outliers"):
        check_agreement(DATA_SETS[name](200_000), bits)


@pytest.mark.parametrize("bits", [0.5, 1, 2, 4])
@pytest.mark.parametrize("head", [131_072, 150_000, 300_000])
def test_large_tensors_with_an_unlike_tail(head: int, bits: float) -> None:
    """A sample must see all parts of a tensor, the last layer too."""
    tail = head // 3
    x = np.concatenate([np.float32(1e-3) * normal(head), np.float32(5) * normal(tail)])
    check_agreement(x, bits)


@pytest.mark.parametrize("bits", [2, 6])
def test_large_tensors_with_a_period(bits: float) -> None:
    """Neighbours that differ and a pattern of even length: the sample must not resonate."""
    size = 300_000
    x = normal(size)
    x[1::2] *= np.float32(1e-3)
    check_agreement(x, bits)
    check_agreement(np.where(np.arange(size) % 4 < 2, x, np.float32(0)), bits)


# The limit of infinitely many levels -------------------------------------------------------------


@pytest.mark.parametrize("bits", [0.5, 0.95, 1, 1.2, 3])
def test_values_closer_than_any_grid(bits: float) -> None:
    """Exact levels count only where their own entropy, coordinate by coordinate, fits."""
    x = np.zeros(1000, np.float32)
    x[1::2] = 1e-20
    x[-1] = 1
    check_agreement(x, bits)


@pytest.mark.parametrize("bits", [0.7, 1.4, 3])
def test_values_closer_than_any_grid_behind_the_sample(bits: float) -> None:
    x = np.zeros(250_000, np.float32)
    x[135_000:200_000] = 1e-20
    x[-1] = 1
    check_agreement(x, bits)


@pytest.mark.parametrize("count", [1, 2, 3, 255, 256, 257])
def test_few_distinct_values(count: int) -> None:
    x = normal(count)[np.arange(3000) % count]
    check_agreement(x, 12)


def test_mixed_zeros() -> None:
    check_agreement(np.array([0.0, -0.0, 0.0], np.float32), 2)
    check_agreement(np.array([0.0, -0.0, 1.0, 1.0] * 9, np.float32), 4)
    check_agreement(np.array([0.0, -0.0, 1.0, 1.0] * 9, np.float32), 1.2)
