"""Models and updates as flat float32 vectors, whatever array they came as."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from docofl_codec.errors import InvalidInputError

__all__ = ["Vector", "as_vector", "squared_norm"]

Vector = npt.NDArray[np.float32]


def as_vector(values: Any, *, size: int | None = None, what: str = "vector") -> Vector:
    """Return the values of an array or tensor as a flat float32 vector, copied only if need be.

    Parameters
    ----------
    values : array-like
        NumPy array, or a tensor on the CPU of a library that NumPy can read.
    size : int, optional
        The expected number of values.
    what : str
        Names the vector in errors.

    Raises
    ------
    InvalidInputError
        Where the size is another one or a value is not finite.
    """
    if hasattr(values, "detach"):
        values = values.detach()
    vector: Vector = np.ascontiguousarray(values, dtype=np.float32).reshape(-1)
    if size is not None and vector.size != size:
        raise InvalidInputError(f"{what}: found {vector.size} values, expected {size}")
    if not np.isfinite(vector).all():
        raise InvalidInputError(f"{what}: found values that are not finite, expected none")
    return vector


def squared_norm(vector: Vector) -> float:
    """Return the squared Euclidean norm, added up in float64."""
    return float(np.einsum("i,i->", vector, vector, dtype=np.float64))
