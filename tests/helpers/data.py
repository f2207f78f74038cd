"""Small seeded vectors with the shapes of distribution that codecs meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float32]

SEED = 7  # for codecs that have randomness


def _rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def normal(size: int) -> Floats:
    return _rng(1).standard_normal(size, dtype=np.float32)


def lognormal(size: int) -> Floats:
    return np.exp(_rng(2).standard_normal(size, dtype=np.float32))


def constant(size: int) -> Floats:
    return np.full(size, np.float32(0.1))


def two_values(size: int) -> Floats:
    return np.where(_rng(3).random(size) < 0.3, -1.5, 0.25).astype(np.float32)


def few_values(size: int) -> Floats:
    palette: Floats = normal(40) ** 3
    return palette[_rng(4).integers(0, palette.size, size)]


def outliers(size: int) -> Floats:
    """Weights of 0.05 with a few values that are millions of times larger."""
    x: Floats = np.float32(0.05) * normal(size)
    x[:: max(size // 5, 1)] = np.float32(497160.0)
    return x


def layered(size: int) -> Floats:
    """Runs of very different scale and mean, like the flat vector of a network."""
    x = normal(size)
    layers = [(0.02, 0.0), (0.3, 1.0), (0.005, 0.0), (0.1, -0.2)]
    for start in range(0, size, 1500):
        sigma, mean = layers[start // 1500 % len(layers)]
        x[start : start + 1500] = sigma * x[start : start + 1500] + mean
    return x


def mostly_zero(size: int) -> Floats:
    x = normal(size)
    x[_rng(5).random(size) < 0.97] = 0
    return x


def ramp(size: int) -> Floats:
    return np.linspace(-1, 3, size, dtype=np.float32)


def offset(size: int) -> Floats:
    """Values whose distance from zero is large beside their range."""
    x: Floats = np.float32(1e6) + normal(size)
    return x


def denormal(size: int) -> Floats:
    x: Floats = np.float32(1e-40) * normal(size)
    return x


def huge(size: int) -> Floats:
    """Values up to both ends of float32."""
    limit = np.finfo(np.float32).max
    x: Floats = np.clip(normal(size), -4, 4) * (limit / 4)
    x[:1], x[1:2] = limit, -limit
    return x


def limits(dtype: npt.DTypeLike) -> Any:
    """Return what `numpy.finfo` would, for bfloat16 too."""
    finfo: Any = ml_dtypes.finfo
    return finfo(np.dtype(dtype))


DATA_SETS: dict[str, Callable[[int], Floats]] = {
    maker.__name__: maker
    for maker in (
        normal,
        lognormal,
        constant,
        two_values,
        few_values,
        outliers,
        layered,
        mostly_zero,
        ramp,
        offset,
        denormal,
        huge,
    )
}
