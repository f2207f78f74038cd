"""Row 21: |x - x_hat| is at most half a step, or a step where levels lie at means.

Plus a hundredth of a step for levels that lie where float32 has none, and the dtype's rounding.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given

from docofl_codec import ecuq, inspect
from docofl_codec.ecuq import Budget
from tests.helpers.data import DATA_SETS, Floats, limits
from tests.property.strategies import budgets, tensors


def rounding(x: npt.NDArray[Any]) -> float:
    """Return the distance of neighbouring numbers of the dtype at the largest magnitude in x."""
    largest = np.abs(x.astype(np.float64)).max()
    info = limits(x.dtype)
    return float(max(largest * float(info.eps), float(info.smallest_subnormal)))


def check_bound(x: npt.NDArray[Any], blob: bytes) -> None:
    if x.size == 0:
        return
    info = inspect(blob)
    assert info.step is not None
    x_hat = np.asarray(ecuq.decode(blob))
    error = np.abs(x_hat.astype(np.float64) - x.astype(np.float64)).max()
    if info.explicit_levels:
        assert error == 0
    else:
        assert error <= (1.01 if info.centroids else 0.51) * info.step + rounding(x)


@given(x=tensors, bits=budgets)
def test_byte_budget(x: Floats, bits: float) -> None:
    check_bound(x, ecuq.encode(x, bits=bits))


@given(x=tensors, bits=budgets)
def test_entropy_budget(x: Floats, bits: float) -> None:
    check_bound(x, ecuq.encode(x, bits=bits, budget="entropy"))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
@pytest.mark.parametrize("bits", [1, 2, 4, 8, 14])
@pytest.mark.parametrize("name", ["normal", "lognormal", "ramp"])
def test_other_dtypes(name: str, bits: float, dtype: npt.DTypeLike) -> None:
    x = DATA_SETS[name](3000).astype(dtype)
    check_bound(x, ecuq.encode(x, bits=bits))


@pytest.mark.parametrize(
    ("bits", "budget"),
    [
        *((bits, "bytes") for bits in (0.3, 1, 2, 4, 8, 12, 16, 24, 32)),
        *((bits, "entropy") for bits in (1, 3, 10)),
    ],
)
@pytest.mark.parametrize("name", DATA_SETS)
def test_many_blocks(name: str, bits: float, budget: Budget) -> None:
    x = DATA_SETS[name](70_000)
    check_bound(x, ecuq.encode(x, bits=bits, budget=budget))


@given(x=tensors, bits=budgets)
def test_result_is_finite_and_hardly_beyond_the_range(x: Floats, bits: float) -> None:
    """A level may lie half a step beyond the last value, but never on the other side of zero."""
    blob = ecuq.encode(x, bits=bits)
    x_hat = np.asarray(ecuq.decode(blob))
    if x.size:
        beyond = 0.51 * float(inspect(blob).step or 0)
        assert np.isfinite(x_hat).all()
        assert float(x.min()) - beyond <= float(x_hat.min())
        assert float(x_hat.max()) <= float(x.max()) + beyond
        assert x.min() < 0 or x_hat.min() >= 0
        assert x.max() > 0 or x_hat.max() <= 0


@given(x=tensors, bits=budgets)
def test_centres_without_a_byte_budget(x: Floats, bits: float) -> None:
    """A step and the paper's rule promise half a step."""
    assert not inspect(ecuq.encode(x, bits=bits, budget="entropy")).centroids
    if x.size and x.min() < x.max():
        step = (float(x.max()) - float(x.min())) / 9
        assert not inspect(ecuq.encode(x, step=step)).centroids
