"""What a step would cost: bits of a whole model, estimated from a sample of its tensors.

Bits go where the error is when all tensors share one step: then a bit more buys as much anywhere.
The estimate is the entropy of the sample's levels, frame by frame, as each frame has statistics of
its own, and what the coder takes beyond the entropy, measured by coding the sample.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from docofl_codec import ecuq
from docofl_codec._buffers import FLOAT32, RawTensor
from docofl_codec.errors import CodecError
from docofl_codec.state_dict.tensors import Memory, widen_bfloat16

__all__ = ["RateModel", "SamplePart", "round_step", "sample_memory", "sample_sizes"]

Floats = npt.NDArray[np.float32]

SAMPLE_SIZE = 32_768
SAMPLE_SHARE = 1 / 256
RUN = 16
FRAME_BITS = 8 * 45  # a frame's fields and checksum
OUTLIER_BITS = 48
MIN_LEVELS, MAX_LEVELS = 32, 512
MIN_VALUES = 4  # a level
COARSE = 4
TABLE_BITS = 8 * 16
USUAL_OVERHEAD = 0.03
MAX_OVERHEAD = 1.0
MAX_MEASURED = 3
MIN_MEASURED = 1024
MIN_STREAMS = 4096  # values of a frame that has as many streams as a large one
MAX_PROBES = 40
FAR_PROBES = 8
SORTED = 8192  # values whose distances from the middle of their frames are looked at
MOST_FACTOR = 1.3  # from the 99 % of them that are nearest to where outliers begin
MAX_EXACT = 256
FINEST = 2.0**-28  # the least step, as a part of a frame's range
VALUE_BITS = 32
NEAR = 0.3  # logarithms of steps between which bits are a straight line
MAX_CORRECTIONS = 3
SURE = 0.03


@dataclass(frozen=True)
class SamplePart:
    """Values of a tensor, the frame that it goes to and its number of coordinates."""

    frame: int
    size: int
    values: Floats


def sample_sizes(sizes: Sequence[int]) -> list[int]:
    """Return how many values of each tensor stand for it."""
    total = sum(sizes)
    most = max(SAMPLE_SIZE, int(total * SAMPLE_SHARE)) if total > 2 * SAMPLE_SIZE else total
    return [min(size, max(RUN * 8, round(most * size / max(total, 1)))) for size in sizes]


def sample_memory(memory: Memory, count: int) -> Floats:
    """Return about `count` values: short runs at even distances that no row is a multiple of."""
    flat = memory.flat
    if count < flat.size:
        width = max(flat.size * RUN // count, RUN + 1)
        while math.gcd(width, 2 * 3 * 5 * 7) > 1:
            width += 1
        runs = flat.size // width
        flat = flat[: runs * width].reshape(runs, width)[:, :RUN].reshape(-1)
    if memory.dtype == "bfloat16":
        return widen_bfloat16(flat)
    with np.errstate(over="ignore"):
        return flat.astype(np.float32, copy=False)


class RateModel:
    """Estimates the bits of all frames for a step, and finds the step for a number of bits.

    Parameters
    ----------
    parts : sequence of SamplePart
        In the order of their frames.
    coding : Coding
        That of what will be written.
    """

    def __init__(self, parts: Sequence[SamplePart], coding: ecuq.Coding) -> None:
        numbers = {frame: k for k, frame in enumerate(dict.fromkeys(part.frame for part in parts))}
        self._sizes = np.zeros(len(numbers))
        for part in parts:
            self._sizes[numbers[part.frame]] += part.size
        values = np.concatenate([part.values for part in parts])
        frame = np.repeat(
            [numbers[part.frame] for part in parts], [part.values.size for part in parts]
        )
        finite = np.isfinite(values)
        if not finite.all():
            values, frame = values[finite], frame[finite]
        ends = np.searchsorted(frame, np.arange(len(numbers) + 1))
        self._parts = [values[begin:end] for begin, end in itertools.pairwise(ends)]
        self._ends = ends
        self._values = values
        self._frame = frame
        self._ranges = _ranges(values, ends)
        centres, distances = _distances(values, ends)
        most = distances[:, int(0.99 * (distances.shape[1] - 1))]
        self._most = MOST_FACTOR * np.where(most > 0, most, distances[:, -1])
        # Frames around zero, as most are, need no centre.
        self._centres = np.where(np.abs(centres) < self._most / 4, 0, centres)
        self._exact = np.array(
            [
                _exact_bits(part, size) if few else math.inf
                for part, size, few in zip(
                    self._parts, self._sizes, _have_few(distances), strict=True
                )
            ]
        )
        # What matters when a step is looked for.
        some = np.isinf(self._exact) & (self._ranges > 0)
        some = some if some.any() else self._ranges > 0
        self._least = float(self._ranges[some].min(initial=math.inf))
        self._widest = float(self._ranges.max(initial=0))
        largest = int(np.argmax(np.where(some, self._sizes, -1)))
        middle = float(distances[largest, distances.shape[1] // 2])
        self._spread = max(middle, float(self._most[largest]) / 16, self._least * 2.0**-40)
        self._overhead = np.full(len(numbers), USUAL_OVERHEAD)
        self._is_measured = False
        self._coding = coding

    def find_step(self, bits: float) -> float:
        """Return the step for which the frames take about `bits` bits."""
        if self._widest == 0:
            return 1.0
        total = float(self._sizes.sum())
        exponent, slope = self._solve(math.log2(6 * self._spread) - bits / total, bits)
        if not self._is_measured:
            self._measure_overhead(2.0**exponent)
            self._is_measured = True
        # The rest by the slope: what all of the sample says, and the overhead.
        for _ in range(MAX_CORRECTIONS):
            excess = (self.bits(2.0**exponent) - bits) / total
            exponent = self.clamp(exponent - min(max(excess / slope, -2.0), 2.0))
            if abs(excess) < SURE:
                break
        return round_step(2.0**exponent)

    def clamp(self, exponent: float) -> float:
        """Bound the logarithm of a step: one level for all, or as many as a frame can have."""
        if self._widest == 0:
            return exponent
        return min(max(exponent, math.log2(self._least * FINEST)), self.coarsest)

    @property
    def coarsest(self) -> float:
        """The logarithm of a step that leaves one level everywhere."""
        return math.log2(self._widest) + 2 if self._widest else 0.0

    def _solve(self, exponent: float, bits: float) -> tuple[float, float]:
        """Return the logarithm of a step by secants on a part of the sample, and the slope."""
        total = float(self._sizes.sum())
        low: tuple[float, float] | None = None  # finer than wanted, with its excess
        high: tuple[float, float] | None = None
        slope = -1.0
        stride = 1.0
        for probe in range(MAX_PROBES):
            exponent = self.clamp(exponent)
            excess = (self.bits(2.0**exponent, COARSE) - bits) / total
            if excess > 0:
                low = (exponent, excess)
            else:
                high = (exponent, excess)
            if low is None or high is None:
                change = min(max(1.1 * excess, -4.0), 4.0) + (0.02 if excess > 0 else -0.02)
                # Bits that hardly change: farther each time.
                stride *= 2 if probe >= FAR_PROBES else 1
                if self.clamp(exponent + stride * change) == exponent:
                    break
                exponent += stride * change
                continue
            slope = min((high[1] - low[1]) / (high[0] - low[0]), -0.05)
            if high[0] - low[0] < NEAR:
                break
            part = low[1] / (low[1] - high[1])
            exponent = low[0] + (high[0] - low[0]) * min(max(part, 0.05), 0.95)
        if low is not None and high is not None:
            exponent = low[0] - low[1] / slope
        return exponent, slope

    def bits(self, step: float, stride: int = 1) -> float:
        """Return the estimate for a step, from every stride-th value."""
        coded = self._sizes * (self._entropies(step, stride) + self._overhead)
        return float(coded.sum()) + FRAME_BITS * self._sizes.size

    def _entropies(self, step: float, stride: int = 1) -> npt.NDArray[np.float64]:
        """Return each frame's bits a coordinate at their ideal."""
        # A frame has levels enough for its range, or a step of its own.
        steps = np.maximum(step, self._ranges * FINEST)
        # Levels that are many for the sample: those of a coarser grid, and the bits that tell them
        # apart.
        counts = np.diff(self._ends) / (stride * MIN_VALUES)
        fine = 3 * self._most / steps / np.clip(counts, MIN_LEVELS, MAX_LEVELS)
        shifts = np.ceil(np.log2(np.maximum(fine, 1)))
        grids = _Grids(steps * 2.0**shifts, self._centres, self._most)
        entropies = grids.entropies(self._values[::stride], self._frame[::stride])
        least: npt.NDArray[np.float64] = np.minimum(entropies + shifts, self._exact)
        return least

    def _measure_overhead(self, step: float) -> None:
        """Learn what the coder takes beyond the entropy, from the samples of the largest frames."""
        # Tensors of one size are mostly of one kind.
        _, order = np.unique(-self._sizes, return_index=True)
        order = order[:MAX_MEASURED]
        ideal = self._entropies(step)
        measured: list[float] = []
        for number in order:
            values = self._parts[number]
            size = self._sizes[number]
            if values.size < min(size, MIN_STREAMS) or values.size < MIN_MEASURED:
                break
            raw = RawTensor(values, FLOAT32, values.shape, 0)
            try:
                blob = ecuq.encode_raw(raw, step=step, threads=1, **self._coding)
            except CodecError:
                break
            # The frame's own table is thinner spread.
            fixed = FRAME_BITS + TABLE_BITS * (1 - values.size / size)
            over = (8 * len(blob) - fixed) / values.size - ideal[number]
            measured.append(min(max(over, -MAX_OVERHEAD), MAX_OVERHEAD))
        if not measured:
            return
        order = order[: len(measured)]
        shares = self._sizes[order] * [
            np.count_nonzero(self._sizes == self._sizes[k]) for k in order
        ]
        self._overhead[:] = np.average(measured, weights=shares)
        for number, over in zip(order, measured, strict=True):
            self._overhead[self._sizes == self._sizes[number]] = over


def _distances(
    values: Floats, ends: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return about the median of each part, and how far some of its values are from it, sorted."""
    sizes = np.diff(ends)
    count = max(33, SORTED // max(sizes.size, 1))
    places = ends[:-1, None] + sizes[:, None] * np.linspace(0, 1, count, endpoint=False)
    # An empty part shows a zero.
    some = np.append(values, np.float32(0)).astype(np.float64)[places.astype(np.intp)]
    some[sizes == 0] = 0
    centres = np.median(some[:, :: max(1, count // 33)], axis=1)
    return centres, np.sort(np.abs(some - centres[:, None]), axis=1)


def _ranges(values: Floats, ends: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
    """Return the distance of the largest and the smallest value of each part."""
    ranges = np.zeros(ends.size - 1)
    filled = np.diff(ends) > 0
    starts = ends[:-1][filled]
    if starts.size:
        high, low = np.maximum.reduceat(values, starts), np.minimum.reduceat(values, starts)
        ranges[filled] = high.astype(np.float64) - low
    return ranges


def _have_few(distances: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Tell which parts may have so few different values that the codec keeps them."""
    different = np.count_nonzero(np.diff(distances, axis=1), axis=1) + 1
    few: npt.NDArray[np.bool_] = different < min(distances.shape[1] // 2, MAX_EXACT)
    return few


def _exact_bits(values: Floats, size: float) -> float:
    """Return the bits a coordinate of values that are kept; infinite where they are too many."""
    _, counts = np.unique(values, return_counts=True)
    # Many that are seen once: there are others that are not seen.
    if not 0 < counts.size <= MAX_EXACT or 4 * np.count_nonzero(counts == 1) > counts.size:
        return math.inf
    shares = counts / values.size
    return float(-(shares * np.log2(shares)).sum()) + VALUE_BITS * counts.size / size


@dataclass(frozen=True)
class _Grids:
    """Levels of each frame at multiples of its step; `most` is where its outliers begin."""

    steps: npt.NDArray[np.float64]
    centres: npt.NDArray[np.float64]
    most: npt.NDArray[np.float64]

    def entropies(self, values: Floats, frame: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return the bits a value of each frame, outliers included."""
        frames = self.steps.size
        half = min(MAX_LEVELS // 2, int(1.5 * (self.most / self.steps).max(initial=0)) + 2)
        width = 2 * half + 1
        # Outliers, at the ends of the window.
        level = np.clip(self._levels(values, frame), -half, half).astype(np.intp)
        level += frame * width + half
        counts = np.bincount(level, minlength=frames * width)
        ends = counts.reshape(frames, width)
        outliers = ends[:, 0] + ends[:, -1]
        place = np.flatnonzero(counts)
        found, owner = counts[place], place // width
        totals = np.maximum(np.bincount(owner, found, frames), 1)
        bits = totals * np.log2(totals)
        bits -= np.bincount(owner, found * np.log2(found), frames)
        # A sample's entropy is low by about this (Miller and Madow).
        bits += np.maximum(np.bincount(owner, minlength=frames) - 1, 0) / (2 * math.log(2))
        entropy: npt.NDArray[np.float64] = (bits + OUTLIER_BITS * outliers) / totals
        return entropy

    def _levels(self, values: Floats, frame: npt.NDArray[Any]) -> npt.NDArray[Any]:
        step = float(self.steps[0])
        if (self.steps == step).all() and 1e-30 < step < 1e30:
            with np.errstate(over="ignore"):
                level: npt.NDArray[Any] = values * np.float32(1 / step)
        else:
            level = values / self.steps[frame]
        if self.centres.any():
            level = level - np.rint(self.centres / self.steps)[frame]
        np.rint(level, out=level)
        return level


def round_step(step: float) -> float:
    """Return a step of 12 bits: its first thousands of multiples are float32 numbers."""
    mantissa, exponent = math.frexp(step)
    return math.ldexp(round(mantissa * 4096), exponent - 12)
