"""The budget is used up to 0.01 bits a coordinate, wherever one level more makes no larger step."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from docofl_codec import ecuq, inspect
from tests.helpers.data import DATA_SETS, normal


def unused_bits(name: str, size: int, bits: float) -> tuple[float, int]:
    """Return the bits a coordinate left over, the header's share aside, and the levels."""
    blob = ecuq.encode(DATA_SETS[name](size), bits=bits)
    num_levels = inspect(blob).num_levels
    assert num_levels is not None
    return bits - 8 * len(blob) / size, num_levels


# At 4 bits the entropy of `layered` jumps by more than a level's usual share.
@pytest.mark.parametrize(
    ("name", "bits"),
    [("normal", 4), ("normal", 8), ("lognormal", 4), ("lognormal", 8), ("layered", 8)],
)
def test_large_tensors(name: str, bits: float) -> None:
    unused, num_levels = unused_bits(name, 2**20, bits)
    assert unused <= max(0.01, math.log2(1 + 1 / num_levels))


@pytest.mark.parametrize("bits", [5, 6.5, 10, 12])
def test_where_levels_are_many(bits: float) -> None:
    for name in ("normal", "lognormal"):
        unused, num_levels = unused_bits(name, 400_000, bits)
        assert num_levels > 60
        assert unused <= 0.01 + math.log2(1 + 1 / num_levels)


@pytest.mark.parametrize("bits", [4, 8])
def test_entropy_rule(bits: float) -> None:
    info = inspect(ecuq.encode(normal(2**20), bits=bits, budget="entropy"))
    assert info.entropy is not None
    assert info.num_levels is not None
    assert bits - info.entropy <= max(0.01, math.log2(1 + 1 / info.num_levels))


@pytest.mark.parametrize("bits", [4, 8])
def test_an_unlike_tail_does_not_cost_the_budget(bits: float) -> None:
    x = np.concatenate([np.float32(1e-3) * normal(140_000), np.float32(5) * normal(50_000)])
    blob = ecuq.encode(x, bits=bits)
    num_levels = inspect(blob).num_levels
    assert num_levels is not None
    assert bits - 8 * len(blob) / x.size <= 0.05 + math.log2(1 + 1 / num_levels)


def test_finer_levels_pay_off() -> None:
    """Twice the levels, a quarter of the squared error: about 6 dB a bit."""
    x = normal(200_000)
    errors = [
        float(np.mean((x - np.asarray(ecuq.decode(ecuq.encode(x, bits=bits)))) ** 2))
        for bits in (3, 4, 5, 6)
    ]
    for coarse, fine in itertools.pairwise(errors):
        assert 3.3 < coarse / fine < 4.8
