"""One vector at one budget, encoded, with the ready indices that the yardsticks code."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from docofl_codec import ecuq, inspect, reference

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
    def value_range(self) -> tuple[float, float]:
        """Least and largest value."""
        return float(self.values.min()), float(self.values.max())

    @cached_property
    def indices(self) -> Indices:
        """The level of each value, by the reference quantizer."""
        indices: Indices = reference.quantize(self.values, self.num_levels, *self.value_range)
        return indices

    @cached_property
    def symbols(self) -> Bytes:
        """The indices as bytes, for Huff0; see `index_bytes`."""
        return index_bytes(self.indices)

    @cached_property
    def occupied(self) -> tuple[npt.NDArray[np.int32], Floats]:
        """Each index's rank among the occupied levels, and the share of values at these levels."""
        _, ranks, counts = np.unique(self.indices, return_inverse=True, return_counts=True)
        return ranks.astype(np.int32), (counts / self.indices.size).astype(np.float32)

    @cached_property
    def quantization_nmse(self) -> float:
        """NMSE of any lossless coder of ``indices`` that puts each level at its bin's centre."""
        centres = reference.reconstruct(self.indices, self.num_levels, *self.value_range)
        return nmse(self.values, centres)


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
