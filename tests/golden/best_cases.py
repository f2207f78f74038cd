"""The inputs of the golden frames of version 2: ECUQ with rANS, mostly with dependent levels."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from docofl_codec import Ecuq
from tests.golden.cases import Array, Case, bell, heavy, with_outliers

BEST = {"codec": "ecuq", "coder": "rans", "dependent": True}
SCALAR = {**BEST, "dependent": False}


def _layers() -> Array:
    """Return segments of different spread."""
    x = bell(40_000, 4)
    return (x / np.repeat(2.0 ** (np.arange(10) % 4), 4000)).astype(np.float32)


def _skewed(size: int) -> Array:
    return (np.square(bell(size, 5)) + 0.25).astype(np.float32)


def _smooth(size: int, seed: int) -> Array:
    """Return values that resemble their neighbours, but for some spikes."""
    sums = np.cumsum(bell(size + 8, seed), dtype=np.float64)
    values = (sums[8:] - sums[:-8]).astype(np.float32)
    values[::9001] += 1000
    return values


BEST_CASES: dict[str, Case] = {
    "pairs": Case(
        lambda: bell(30_001, 1).reshape(30_001, 1),
        Ecuq(bits=0.4, quality="best"),
        {**BEST, "tuple_size": 2, "centroids": True, "num_tables": 1, "num_outliers": 0},
    ),
    "single": Case(lambda: bell(5000, 2), Ecuq(bits=3, quality="best"), {**BEST, "tuple_size": 1}),
    "centres": Case(
        lambda: bell(1030, 3), Ecuq(bits=4, quality="best"), {**BEST, "centroids": False}
    ),
    "heavy": Case(lambda: heavy(6000, 2), Ecuq(bits=2, quality="best"), BEST),
    "skewed": Case(lambda: _skewed(6000), Ecuq(bits=2, quality="best"), BEST),
    "outliers": Case(
        lambda: with_outliers(3000, 3), Ecuq(bits=2, quality="best"), {**BEST, "num_outliers": 6}
    ),
    "tables": Case(_layers, Ecuq(bits=1, quality="best"), {**BEST, "num_tables": 2}),
    "many-lanes": Case(
        lambda: bell(70_001, 6), Ecuq(bits=0.3, quality="best"), {**BEST, "size": 70_001}
    ),
    "two-blocks": Case(
        lambda: bell(131_072 + 17, 7), Ecuq(bits=0.2, quality="best"), {**BEST, "size": 131_089}
    ),
    "float64": Case(
        lambda: bell(2000, 8).astype(np.float64),
        Ecuq(bits=2, quality="best"),
        {**BEST, "dtype": "float64"},
    ),
    "float16": Case(
        lambda: bell(2000, 9).astype(np.float16),
        Ecuq(bits=2, quality="best"),
        {**BEST, "dtype": "float16"},
    ),
    "bfloat16": Case(
        lambda: bell(2000, 10).astype(ml_dtypes.bfloat16),
        Ecuq(bits=2, quality="best"),
        {**BEST, "dtype": "bfloat16"},
    ),
    "transform": Case(
        lambda: _smooth(70_005, 15),
        Ecuq(bits=0.3, quality="best"),
        {**BEST, "transformed": True, "num_outliers": 8},
    ),
    "transform-outliers": Case(
        lambda: np.where(np.arange(70_000) < 64, 9, 1) * _smooth(70_000, 16),
        Ecuq(bits=0.5, quality="best"),
        {**BEST, "transformed": True},
    ),
    "transform-float16": Case(
        lambda: (_smooth(66_000, 17) * 20).astype(np.float16),
        Ecuq(bits=0.3, quality="best"),
        {**BEST, "transformed": True, "dtype": "float16"},
    ),
    "scalar-pairs": Case(
        lambda: bell(60_001, 11), Ecuq(bits=0.3, coder="rans"), {**SCALAR, "tuple_size": 2}
    ),
    "scalar-single": Case(
        lambda: bell(5000, 12),
        Ecuq(bits=3, coder="rans"),
        {**SCALAR, "tuple_size": 1, "centroids": False},
    ),
    "scalar-skewed": Case(lambda: _skewed(6000), Ecuq(bits=2, coder="rans"), SCALAR),
    "scalar-outliers": Case(
        lambda: with_outliers(6000, 13), Ecuq(bits=2, coder="rans"), {**SCALAR, "num_outliers": 6}
    ),
    "scalar-tables": Case(_layers, Ecuq(bits=1, coder="rans"), {**SCALAR, "num_tables": 2}),
    "scalar-float16": Case(
        lambda: bell(2000, 14).astype(np.float16),
        Ecuq(bits=2, coder="rans"),
        {**SCALAR, "dtype": "float16"},
    ),
}
