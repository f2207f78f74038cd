"""Row 21: the frame is never larger than the budget allows (docs/format.md, section 6)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docofl_codec import ecuq, inspect
from tests.helpers.data import DATA_SETS, Floats, layered, normal
from tests.property.strategies import budgets, structured, tensors


def largest_frame(x: Floats, bits: float) -> float:
    """Return the promised bound, in bytes."""
    return bits * x.size / 8 + 64 + 10 * x.ndim


@given(x=tensors, bits=budgets)
def test_bytes_never_exceed_the_budget(x: Floats, bits: float) -> None:
    blob = ecuq.encode(x, bits=bits)
    assert len(blob) <= largest_frame(x, bits)


@given(x=structured(), bits=budgets, tolerance=st.sampled_from([0.0, 0.001, 0.1, 1.0, 32.0]))
def test_whatever_the_tolerance(x: Floats, bits: float, tolerance: float) -> None:
    blob = ecuq.encode(x, bits=bits, tolerance=tolerance)
    assert len(blob) <= largest_frame(x, bits)


@pytest.mark.parametrize("bits", [0.01, 0.05, 0.3, 0.9, 1, 1.5, 2, 3, 4, 6, 8, 11, 16, 24, 32])
def test_every_data_set(data_set: Callable[[int], Floats], bits: float) -> None:
    for size in (1, 10, 100, 1000, 4096, 30_000):
        x = data_set(size)
        assert len(ecuq.encode(x, bits=bits)) <= largest_frame(x, bits), f"{size} values"


@pytest.mark.parametrize("bits", [0.01, 0.3, 1, 2, 4, 8, 12])
@pytest.mark.parametrize("name", ["normal", "layered", "outliers", "two_values", "lognormal"])
def test_many_blocks(name: str, bits: float) -> None:
    x = DATA_SETS[name](300_001)
    assert len(ecuq.encode(x, bits=bits)) <= largest_frame(x, bits)


@pytest.mark.parametrize("bits", [0.05, 1, 2, 4])
def test_a_tail_unlike_the_rest(bits: float) -> None:
    """Nothing that a sample of the beginning says holds at the end."""
    x = np.concatenate([np.float32(1e-3) * normal(150_000), np.float32(5) * normal(40_000)])
    assert len(ecuq.encode(x, bits=bits)) <= largest_frame(x, bits)


@pytest.mark.parametrize("ndim", [0, 1, 2, 8, 32])
def test_header_is_within_its_share(ndim: int) -> None:
    x = np.zeros((1,) * ndim, np.float32)
    assert len(ecuq.encode(x, bits=0.01)) <= largest_frame(x, 0.01)
    wide = np.empty((0,) + (2**15,) * min(ndim, 3), np.float32)
    assert len(ecuq.encode(wide, bits=0.01)) <= largest_frame(wide, 0.01)


@given(x=structured(5000), bits=budgets)
def test_entropy_rule_meets_its_budget(x: Floats, bits: float) -> None:
    info = inspect(ecuq.encode(x, bits=bits, budget="entropy"))
    assert info.entropy is not None
    assert info.entropy <= bits * (1 + 2**-23) + 1e-9


def test_the_promise_is_not_kept_by_waste() -> None:
    """The other side: what is left over is small (see test_budget_use.py for large tensors)."""
    x = layered(4000)
    for bits in (2, 4, 8):
        assert len(ecuq.encode(x, bits=bits)) > largest_frame(x, bits - 0.25) - 64


@pytest.mark.parametrize("name", ["normal", "layered", "outliers", "lognormal"])
@pytest.mark.parametrize("size", [2, 10, 3000, 300_001])
def test_a_budget_for_nothing_gives_the_mean(name: str, size: int) -> None:
    """Not the middle between the extremes, which may be far from all other values."""
    x = DATA_SETS[name](size).astype(np.float64)
    for sign in (1.0, -1.0):
        values = (sign * x).astype(np.float32)
        restored = np.asarray(ecuq.decode(ecuq.encode(values, bits=0.01)), np.float64)
        error = np.mean((restored - values) ** 2)
        assert error <= 1.01 * np.var(values, dtype=np.float64)


def test_a_budget_for_nothing_keeps_zeros() -> None:
    x = np.zeros(500, np.float32)
    x[::7] = np.arange(1, 73)
    assert np.all(ecuq.decode(ecuq.encode(x, bits=0.01)) == 0)


def test_a_budget_for_nothing_at_the_ends_of_a_dtype() -> None:
    """A level near the mean, too, where no grid could reach farther than the values."""
    rng = np.random.default_rng(0)
    far = np.abs(rng.normal(size=4000)).astype(np.float16)
    far[3] = 65504
    farther = np.abs(rng.normal(size=4000)).astype(np.float32)
    farther[3] = np.finfo(np.float32).max
    apart = (100 + 1e-3 * np.exp(1.5 * rng.normal(size=1500))).astype(np.float32)
    tiny = (1e-42 * np.exp(rng.normal(size=1500))).astype(np.float32)
    for x in (far, -far, farther, -farther, apart, -apart, tiny):
        for quality in ("fast", "best"):
            restored = np.asarray(ecuq.decode(ecuq.encode(x, bits=0.01, quality=quality)))
            error = np.mean((restored.astype(np.float64) - x) ** 2)
            assert error <= 1.02 * np.var(x, dtype=np.float64)


@pytest.mark.parametrize("bits", [0.69, 0.7, 0.71])
def test_grids_that_just_do_not_fit_are_not_the_last_word(bits: float) -> None:
    """With 0.7 bits three levels between the extremes fit a small sample, but not the tensor."""
    x = np.random.default_rng(5).standard_normal(3 * 65536 - 1).astype(np.float32)
    restored = np.asarray(ecuq.decode(ecuq.encode(x, bits=bits)))
    assert np.mean((restored - x) ** 2) < 0.55
