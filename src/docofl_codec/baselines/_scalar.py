"""Scalar quantizers with free levels: cells of sorted values, and their frames.

Values are sorted once; a cell is then an interval, and its count, sum and error come from
cumulative sums.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from docofl_codec import _core
from docofl_codec._buffers import FLOAT32, check_threads
from docofl_codec.baselines._base import Baseline, Floats, check_range, payload_budget
from docofl_codec.errors import InvalidInputError

__all__ = ["Budget", "Cells", "Quantizer", "Room", "ScalarQuantization", "SortedValues"]

Array: TypeAlias = npt.NDArray[np.float64]
Budget = Literal["bytes", "entropy"]

MAX_LEVELS = 256  # that a payload of ECUQ can list
MAX_BITS = 32.0  # of ECUQ


@dataclass(frozen=True)
class Cells:
    """A partition of sorted values into runs that are not empty."""

    counts: npt.NDArray[np.int64]
    means: Array

    @property
    def entropy(self) -> float:
        """In bits a coordinate."""
        p = self.counts / self.counts.sum()
        return abs(float(np.cumsum(p * np.log2(p))[-1]))


class SortedValues:
    """Sorted values, in units of their largest magnitude."""

    def __init__(self, x: Floats) -> None:
        ordered = np.sort(x).astype(np.float64)
        self.unit = float(max(-ordered[0], ordered[-1])) or 1.0
        self.values: Array = ordered / self.unit
        self._sums = np.concatenate([[0.0], np.cumsum(self.values)])
        self._squares = np.concatenate([[0.0], np.cumsum(self.values**2)])

    def cells(self, thresholds: Array) -> Cells:
        """Return the cells between increasing thresholds, without those that are empty."""
        ends = np.concatenate(
            [[0], np.searchsorted(self.values, thresholds, side="right"), [self.values.size]]
        )
        ends = ends[np.concatenate([[True], np.diff(ends) > 0])]
        counts = np.diff(ends)
        means = np.diff(self._sums[ends]) / counts
        # Differences of sums may be off by more than a narrow cell is wide.
        return Cells(counts, np.clip(means, self.values[ends[:-1]], self.values[ends[1:] - 1]))

    def variance(self) -> float:
        """Return the mean squared distance from the mean."""
        size = self.values.size
        return max(float(self._squares[-1] / size - (self._sums[-1] / size) ** 2), 0.0)

    def error(self, cells: Cells) -> float:
        """Return the sum of squared errors, in units."""
        return max(float(self._squares[-1] - np.cumsum(cells.counts * cells.means**2)[-1]), 0.0)


@dataclass(frozen=True)
class Quantizer:
    """Levels and the thresholds between them, in units of the values."""

    levels: Array
    thresholds: Array

    def __call__(self, x: Floats, unit: float) -> Floats:
        """Quantize; a value equal to a threshold belongs to the cell below."""
        levels = (self.levels * unit).astype(np.float32) + np.float32(0)
        limits = float(x.min()), float(x.max())
        cells = np.searchsorted(self.thresholds, x.astype(np.float64) / unit, side="left")
        quantized: Floats = np.clip(levels, *limits)[cells].astype(np.float32)
        return quantized


@dataclass(frozen=True, kw_only=True)
class ScalarQuantization(Baseline):
    """A codec whose payload is ECUQ's, with the quantizer's levels listed."""

    bits: float = 2.0
    budget: Budget = "bytes"

    def _payload(self, x: Floats, seed: int) -> bytes:  # noqa: ARG002
        values = SortedValues(x)
        room = Room(x, values, self)
        return room.payload(self._design(values, room))

    def _check_options(self) -> None:
        check_range("bits", self.bits, 0.1, 16)
        if self.budget not in ("bytes", "entropy"):
            raise InvalidInputError(f'budget: found {self.budget!r}, expected "bytes" or "entropy"')

    @abstractmethod
    def _design(self, values: SortedValues, room: Room) -> Quantizer:
        """Return the best quantizer within the budget."""


class Room:
    """Tells whether a quantizer meets the budget.

    For bytes, ECUQ's encoder decides: it lists the levels of a tensor with few different values
    where that keeps its own promise.
    """

    def __init__(self, x: Floats, values: SortedValues, codec: ScalarQuantization) -> None:
        self._x = x
        self._values = values
        self._bits = codec.bits
        self._by_entropy = codec.budget == "entropy"
        self._threads = check_threads(codec.threads)
        self._max_bytes = payload_budget(codec.bits, x.size)

    def allows(self, quantizer: Quantizer, cells: Cells) -> bool:
        """Tell whether the bytes, or the entropy, stay within the budget."""
        if cells.counts.size == 1:
            return True
        # No code takes less than the entropy and the list of levels.
        least = cells.entropy * self._x.size / 8 + 4 * cells.counts.size
        over = cells.entropy > self._bits if self._by_entropy else least > self._max_bytes
        if over or cells.counts.size > MAX_LEVELS:
            return False
        return self._listed(quantizer) is not None

    def payload(self, quantizer: Quantizer) -> bytes:
        """Return the payload of a quantizer that the budget allows, or of one level."""
        payload = self._listed(quantizer)
        assert payload is not None
        return payload

    def _listed(self, quantizer: Quantizer) -> bytes | None:
        """Return ECUQ's payload of the quantized values, or None if their levels are not listed."""
        quantized = quantizer(self._x, self._values.unit)
        bits = MAX_BITS if self._by_entropy else self._bits
        blob = _core.ecuq_encode(
            quantized, FLOAT32, quantized.shape, 0, bits, 0.01, False, self._threads
        )
        frame = _core.Frame(blob, 1)
        return frame.payload if frame.ecuq_info()["explicit_levels"] else None
