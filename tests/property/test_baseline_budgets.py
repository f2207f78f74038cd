"""Baselines keep their promises about bytes (docs/format.md, section 9.7)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docofl_codec.baselines import (
    ECQ,
    QSGD,
    CountSketch,
    ECKMeans,
    HadamardSQ,
    KashinSQ,
    RandK,
    TopK,
)
from docofl_codec.baselines._base import Baseline
from tests.helpers.data import SEED, Floats, normal
from tests.property.strategies import structured, tensors

SIZES = (1, 2, 15, 16, 17, 27, 28, 29, 100, 1000, 4096, 30_000, 70_001)

PLAIN: dict[str, Callable[[float], Baseline]] = {
    "qsgd": lambda bits: QSGD(bits=bits),
    "randk": lambda bits: RandK(bits=bits),
    "topk": lambda bits: TopK(bits=bits),
    "countsketch": lambda bits: CountSketch(bits=bits),
    "ecq": lambda bits: ECQ(bits=bits, starts=1, multipliers=3, iterations=5),
    "eckmeans": lambda bits: ECKMeans(bits=bits, iterations=10),
}


def plain_bound(x: Floats, bits: float) -> float:
    return bits * x.size / 8 + 64 + 10 * x.ndim


@pytest.mark.parametrize("name", PLAIN)
@given(x=tensors, bits=st.sampled_from([0.5, 0.7, 1, 2, 3.3, 8, 16]))
@settings(max_examples=60)
def test_any_tensor(name: str, x: Floats, bits: float) -> None:
    assert len(PLAIN[name](bits).encode(x, seed=SEED)) <= plain_bound(x, bits)


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("bits", [0.5, 1, 2, 4])
def test_every_data_set(data_set: Callable[[int], Floats], name: str, bits: float) -> None:
    for size in SIZES:
        x = data_set(size)
        assert len(PLAIN[name](bits).encode(x, seed=SEED)) <= plain_bound(x, bits), f"{size} values"


@pytest.mark.parametrize("bits", [1, 1.2, 1.5, 2, 2.37, 3, 4, 7.9, 16])
@pytest.mark.parametrize("size", SIZES)
def test_stochastic_quantization(size: int, bits: float) -> None:
    x = normal(size)
    bound = bits * size / 8 + 10
    assert len(HadamardSQ(bits=bits).encode(x, seed=SEED)) <= bound + 120 + 8 * (
        size // 32_768 + 11
    )
    if bits > 1.15:
        limit = bound + 168 + 8 * (size // 28_672 + 11)
        assert len(KashinSQ(bits=bits).encode(x, seed=SEED)) <= limit


@given(x=structured(3000), fraction=st.sampled_from([0.0, 0.001, 0.03, 0.2, 0.5, 0.8, 1.0]))
@settings(max_examples=60)
def test_fractions(x: Floats, fraction: float) -> None:
    kept = min(max(round(fraction * x.size), 1), x.size)
    bound = 4 * kept + 64 + 10 * x.ndim
    assert len(RandK(fraction=fraction).encode(x, seed=SEED)) <= bound
    if kept:
        ratio = np.log2(x.size / kept)
        positions = (2 + ratio) * kept / 8 + 2 + int(ratio)
        assert len(TopK(fraction=fraction).encode(x)) <= bound + positions


@pytest.mark.parametrize(
    "codec",
    [
        HadamardSQ(bits=2.5),
        KashinSQ(bits=2.5),
        QSGD(bits=2.5),
        RandK(bits=2.5),
        TopK(bits=2.5),
        CountSketch(bits=2.5),
    ],
    ids=repr,
)
def test_budgets_are_used(codec: Baseline) -> None:
    """Within 1.5 %, but not beyond what the promise says."""
    x = normal(2**18)
    assert 2.46 < 8 * len(codec.encode(x, seed=SEED)) / x.size < 2.51
