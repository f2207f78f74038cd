"""One vector at one budget, encoded, with the ready indices that the yardsticks code."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from docofl_codec import ecuq, inspect

Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Case:
    """A data set, a budget and what ECUQ makes of them.

    Attributes
    ----------
    dataset
        Name of the data set.
    bits
        Budget in bits a coordinate.
    values
        The vector.
    blob
        Its frame, encoded with the default options.
    num_levels
        Level count that the frame uses.
    """

    dataset: str
    bits: float
    values: Floats
    blob: bytes
    num_levels: int

    @classmethod
    def make(cls, dataset: str, bits: float, values: Floats) -> Case:
        """Encode ``values`` and return the case."""
        blob = ecuq.encode(values, bits=bits)
        return cls(dataset, bits, values, blob, inspect(blob).num_levels or 0)

    @property
    def real_bits(self) -> float:
        """Bits a coordinate that the frame takes, header included."""
        return 8 * len(self.blob) / self.values.size

    @cached_property
    def restored(self) -> Floats:
        """What the frame decodes to."""
        return np.asarray(ecuq.decode(self.blob))

    @cached_property
    def indices(self) -> Indices:
        """The level of each value, numbered among those that occur: what a coder is given."""
        _, ranks = np.unique(self.restored, return_inverse=True)
        return ranks.astype(np.int64)

    @cached_property
    def symbols(self) -> Bytes:
        """The indices as bytes, for Huff0; see `index_bytes`."""
        return index_bytes(self.indices)

    @cached_property
    def shares(self) -> Floats:
        """The share of values at each of these levels."""
        return (np.bincount(self.indices) / self.indices.size).astype(np.float32)

    @cached_property
    def quantization_nmse(self) -> float:
        """NMSE of any lossless coder of ``indices``."""
        return nmse(self.values, self.restored)


def index_bytes(indices: Indices) -> Bytes:
    """Return one byte for each index, the form that Huff0 codes.

    With more than 256 levels the indices do not fit a byte. Then the 256 neighbouring levels that
    hold the most values become bytes 0 to 255 and all other indices are clipped to the nearer end:
    no longer decodable to the values, but nearly the same statistics, hence the same kind of work.
    """
    if int(indices.max()) < 256:
        return indices.astype(np.uint8)
    start = _densest_window(indices, 256)
    return np.clip(indices - start, 0, 255).astype(np.uint8)


def nmse(values: npt.NDArray[Any], restored: npt.NDArray[Any]) -> float:
    """Return the squared error relative to the squared norm of ``values``."""
    error = np.subtract(values, restored, dtype=np.float64)
    norm = np.square(values, dtype=np.float64).sum()
    return float(np.square(error).sum() / norm)


def _densest_window(indices: Indices, width: int) -> int:
    """Return the first level of the ``width`` neighbouring levels that hold the most values."""
    levels, counts = np.unique(indices, return_counts=True)
    below = np.concatenate(([0], np.cumsum(counts)))
    ends = np.searchsorted(levels, levels + width)
    held = below[ends] - below[:-1]
    return int(levels[np.argmax(held)])
