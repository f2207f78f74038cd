"""Constants are exact, and so are tensors of at most 256 different values where the bits allow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docofl_codec import ecuq, inspect
from docofl_codec.ecuq import Budget
from tests.helpers.data import Floats
from tests.property.strategies import any_float, budgets

both_budgets = st.sampled_from(["bytes", "entropy"])


def is_exact(x: Floats, blob: bytes) -> bool:
    return np.asarray(ecuq.decode(blob)).tobytes() == x.tobytes()


@given(value=any_float, size=st.integers(1, 100_000), bits=budgets, budget=both_budgets)
def test_constants(value: float, size: int, bits: float, budget: Budget) -> None:
    x = np.full(size, value, np.float32)
    blob = ecuq.encode(x, bits=bits, budget=budget)
    assert is_exact(x, blob)
    assert inspect(blob).num_levels == 1


@given(
    values=st.lists(
        any_float, min_size=2, max_size=256, unique_by=lambda v: np.float32(v).tobytes()
    ),
    size=st.integers(20_000, 40_000),
    seed=st.integers(0, 2**32),
)
def test_at_most_256_values(values: list[float], size: int, seed: int) -> None:
    palette = np.array(values, np.float32)
    x = palette[np.random.default_rng(seed).integers(0, palette.size, size)]
    if not np.ptp(x.astype(np.float64)):
        x[0] = 7
    # At most 8 bits of code, 1 KiB of values and a code table of less than that.
    blob = ecuq.encode(x, bits=9)
    assert inspect(blob).explicit_levels
    assert is_exact(x, blob)


@pytest.mark.parametrize("size", [1000, 5000, 70_000, 200_000])
def test_two_values(size: int) -> None:
    x = np.where(np.random.default_rng(size).random(size) < 0.5, 1.25, -3e-7).astype(np.float32)
    assert is_exact(x, ecuq.encode(x, bits=1.1))


def test_a_rare_value_behind_the_sample() -> None:
    """The set of different values is taken from the whole tensor."""
    x = np.zeros(500_000, np.float32)
    x[::3] = 1
    x[499_999] = 1e-30
    x[333_333] = -0.0
    assert is_exact(x, ecuq.encode(x, bits=2))


def test_257_values_are_too_many() -> None:
    x = np.arange(257, dtype=np.float32).repeat(200)
    blob = ecuq.encode(x, bits=12)
    assert inspect(blob).explicit_levels is False


def test_not_exact_where_the_bits_do_not_allow_it() -> None:
    palette = np.random.default_rng(0).standard_normal(200, dtype=np.float32)
    x = palette[np.random.default_rng(1).integers(0, 200, 20_000)]
    blob = ecuq.encode(x, bits=3)
    assert inspect(blob).explicit_levels is False
    assert not is_exact(x, blob)


def test_signs_of_zero_are_kept_beside_other_values() -> None:
    x = np.tile(np.array([0.0, -0.0, 1.0], np.float32), 500)
    assert is_exact(x, ecuq.encode(x, bits=4))
