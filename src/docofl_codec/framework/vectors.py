"""Models and updates as flat float32 vectors, whatever array they came as."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from docofl_codec.errors import InvalidInputError

__all__ = ["Vector", "as_vector", "is_finite", "slices", "squared_distance", "squared_norm"]

Vector = npt.NDArray[np.float32]

_SLICE = 1 << 13  # fits the first-level cache, and BLAS starts no threads for it
_CHECKED = 1 << 16


def as_vector(values: Any, *, size: int | None = None, what: str = "vector") -> Vector:
    """Return the values of an array or tensor as a flat float32 vector, copied only if need be.

    Parameters
    ----------
    values : array-like
        NumPy array or torch tensor of any shape and floating-point dtype.
    size : int, optional
        The expected number of values.
    what : str
        Names the vector in errors.

    Raises
    ------
    InvalidInputError
        Where the size is another one or a value is not finite.
    TypeError
        Where the values are no real numbers.
    """
    if hasattr(values, "detach"):
        values = values.detach().cpu().float()
    values = np.asanyarray(values)
    if values.dtype.kind in "OSUbcmM" or isinstance(values, np.ma.MaskedArray):
        found = "a masked array" if isinstance(values, np.ma.MaskedArray) else values.dtype
        raise TypeError(f"{what}: found {found}, expected floating-point numbers")
    try:
        with np.errstate(over="ignore"):
            vector: Vector = np.ascontiguousarray(values, dtype=np.float32).reshape(-1)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what}: found {values.dtype}, expected numbers ({error})") from None
    if size is not None and vector.size != size:
        raise InvalidInputError(f"{what}: found {vector.size} values, expected {size}")
    if not is_finite(vector):
        raise InvalidInputError(f"{what}: found values that are not finite, expected none")
    return vector


def is_finite(vector: Vector) -> bool:
    """Tell whether every value is finite."""
    return all(np.isfinite(vector[part]).all() for part in slices(vector.size, _CHECKED))


def slices(size: int, step: int = _SLICE) -> Iterator[slice]:
    """Yield slices that cover a vector, so that chained operations stay in the cache."""
    for start in range(0, size, step):
        yield slice(start, start + step)


def squared_norm(vector: Vector) -> float:
    """Return the squared Euclidean norm in float64: finite exactly when every value is."""
    total = 0.0
    for part in slices(vector.size):
        values = vector[part].astype(np.float64)
        total += float(np.dot(values, values))
    return total


def squared_distance(vector: Vector, other: Vector) -> float:
    """Return the squared Euclidean distance in float64."""
    total = 0.0
    for part in slices(vector.size):
        values = vector[part].astype(np.float64)
        values -= other[part]
        total += float(np.dot(values, values))
    return total
