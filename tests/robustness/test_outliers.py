"""Row 16: a few values that are huge beside the rest."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from docofl_codec import ecuq, inspect
from docofl_codec.ecuq import Budget
from tests.helpers.data import Floats, normal, outliers
from tests.helpers.processes import LIMIT_MEMORY, can_limit_memory, run_python


def check_bound_and_budget(x: Floats, bits: float, budget: Budget = "bytes") -> int:
    """Check the promises and return the number of levels."""
    blob = ecuq.encode(x, bits=bits, budget=budget)
    info = inspect(blob)
    assert info.num_levels is not None
    assert info.step is not None
    assert info.entropy is not None
    if budget == "bytes":
        assert len(blob) <= bits * x.size / 8 + 74
    else:
        assert info.entropy <= bits + 1e-6
    x_hat = np.asarray(ecuq.decode(blob)).astype(np.float64)
    rounding = np.spacing(np.abs(x)).astype(np.float64)
    steps = 1.01 if info.centroids else 0.51
    assert (np.abs(x_hat - x) <= steps * info.step + 2 * rounding).all()
    return info.num_levels


@pytest.mark.parametrize("budget", ["bytes", "entropy"])
@pytest.mark.parametrize("bits", [0.5, 1, 2, 4, 8])
@pytest.mark.parametrize("place", [0, 99_999])
def test_one_value_of_1e30_among_unit_normals(bits: float, place: int, budget: Budget) -> None:
    x = normal(100_000)
    x[place] = 1e30
    check_bound_and_budget(x, bits, budget)


@pytest.mark.parametrize("bits", [2, 4])
@pytest.mark.parametrize("budget", ["bytes", "entropy"])
def test_millions_of_levels_of_which_few_are_used(bits: float, budget: Budget) -> None:
    x = outliers(400_000)
    assert check_bound_and_budget(x, bits, budget) > 1_000_000


@pytest.mark.parametrize("count", [1, 10, 300, 3000])
def test_header_bytes_follow_the_levels_that_are_used(count: int) -> None:
    x = np.float32(0.05) * normal(200_000)
    x[np.random.default_rng(1).integers(0, x.size, count)] = 497160.0
    check_bound_and_budget(x, 2)
    blob = ecuq.encode(x, bits=2)
    x_hat = np.asarray(ecuq.decode(blob))
    if count <= 300:
        # The outliers are paid for; the weights must still be worth something.
        small = np.abs(x) < 1
        assert np.mean((x_hat[small] - x[small]) ** 2) < 0.3 * np.mean(x[small] ** 2)


def test_outliers_in_every_block() -> None:
    x = np.float32(0.05) * normal(300_000)
    x[::20_000] = -1e9
    x[7::30_000] = 1e9
    blob = ecuq.encode(x, bits=3)
    assert (inspect(blob).num_outliers or 0) >= 20
    check_bound_and_budget(x, 3)


@pytest.mark.parametrize("bits", [0.5, 1, 2, 4, 6])
@pytest.mark.parametrize("place", [0, 199_999])
def test_one_value_of_1e30_in_the_best_quality(bits: float, place: int) -> None:
    """It is listed beside the symbols, and the rest is coded as if it were not there."""
    x = normal(200_000)
    plain = ecuq.encode(x, bits=bits, quality="best")
    x[place] = 1e30
    blob = ecuq.encode(x, bits=bits, quality="best")
    assert max(len(blob), len(plain)) <= bits * x.size / 8 + 74
    assert inspect(blob).num_outliers
    x_hat, plain_hat = np.asarray(ecuq.decode(blob)), np.asarray(ecuq.decode(plain))
    assert x_hat[place] == np.float32(1e30)
    others = np.arange(x.size) != place
    error = np.sum((x_hat[others] - x[others]).astype(np.float64) ** 2)
    assert error <= 1.05 * np.sum((plain_hat[others] - x[others]).astype(np.float64) ** 2)


@pytest.mark.parametrize("options", [{}, {"budget": "entropy"}, {"quality": "best"}], ids=str)
def test_time_stays_bounded(options: dict[str, Any]) -> None:
    x, plain = outliers(1_000_000), normal(1_000_000)

    def seconds(values: Floats) -> float:
        start = time.perf_counter()
        ecuq.decode(ecuq.encode(values, bits=2, **options))
        return time.perf_counter() - start

    usual = min(seconds(plain) for _ in range(3))
    assert min(seconds(x) for _ in range(3)) < 60 * usual + 0.05


@can_limit_memory
@pytest.mark.parametrize("options", [{}, {"budget": "entropy"}, {"quality": "best"}], ids=str)
def test_memory_stays_bounded(options: dict[str, Any]) -> None:
    """A dense histogram of 2^30 levels would not fit."""
    run_python(
        LIMIT_MEMORY
        + f"""
import numpy as np
from docofl_codec import decode, ecuq
x = np.random.default_rng(0).standard_normal(500_000, dtype=np.float32)
x[17] = 1e30
ecuq.encode(x[:1000], bits=2, threads=1)
limit_memory(48 << 20)
for bits in (2, 8, 20):
    decode(ecuq.encode(x, bits=bits, threads=1, **{options}), threads=1)
"""
    )
