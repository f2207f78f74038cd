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
MAX_LEVELS = 512
COARSE = 4
TABLE_BITS = 8 * 16
USUAL_OVERHEAD = 0.03
MAX_OVERHEAD = 1.0
MAX_MEASURED = 3
MIN_MEASURED = 1024
MAX_PROBES = 40
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
        centres = _middles(values, ends)
        self._values = values
        self._frame = frame
        some = slice(None, None, max(1, values.size // 4096))
        spread = np.sort(np.abs(values[some] - centres[frame[some]]))
        self._most = float(spread[int(0.999 * (spread.size - 1))]) if spread.size else 0.0
        # Frames around zero, as most are, need no centre.
        self._centres = np.where(np.abs(centres) < self._most / 4, 0, centres)
        self._median = float(spread[spread.size // 2]) if spread.size else 0.0
        self._range = _widest_range(values, ends)
        self._overhead = np.full(len(numbers), USUAL_OVERHEAD)
        self._is_measured = False
        self._coding = coding

    def find_step(self, bits: float) -> float:
        """Return the step for which the frames take about `bits` bits."""
        if self._range == 0:
            return 1.0
        total = float(self._sizes.sum())
        spread = max(self._median, self._most / 16, self._range * 2.0**-40)
        exponent, slope = self._solve(float(np.log2(6 * spread)) - bits / total, bits)
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
        """Bound the logarithm of a step: one level, or as many as there can be."""
        widest = math.log2(self._range) if self._range else 0.0
        return min(max(exponent, widest - 29), widest + 2)

    def _solve(self, exponent: float, bits: float) -> tuple[float, float]:
        """Return the logarithm of a step by secants on a part of the sample, and the slope."""
        total = float(self._sizes.sum())
        low: tuple[float, float] | None = None  # finer than wanted, with its excess
        high: tuple[float, float] | None = None
        slope = -1.0
        for _ in range(MAX_PROBES):
            exponent = self.clamp(exponent)
            excess = (self.bits(2.0**exponent, COARSE) - bits) / total
            if excess > 0:
                low = (exponent, excess)
            else:
                high = (exponent, excess)
            if low is None or high is None:
                change = min(max(1.1 * excess, -4.0), 4.0) + (0.02 if excess > 0 else -0.02)
                if self.clamp(exponent + change) == exponent:
                    break
                exponent += change
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
        values, frame = self._values[::stride], self._frame[::stride]
        entropy = _entropy(values, frame, self._centres, step, self._most)
        coded = self._sizes * (entropy + self._overhead)
        return float(coded.sum()) + FRAME_BITS * self._sizes.size

    def _measure_overhead(self, step: float) -> None:
        """Learn what the coder takes beyond the entropy, from the samples of the largest frames."""
        # Tensors of one size are mostly of one kind.
        _, order = np.unique(-self._sizes, return_index=True)
        order = order[:MAX_MEASURED]
        measured: list[float] = []
        for number in order:
            values = self._parts[number]
            size = self._sizes[number]
            if values.size < MIN_MEASURED:
                break
            raw = RawTensor(values, FLOAT32, values.shape, 0)
            try:
                blob = ecuq.encode_raw(raw, step=step, threads=1, **self._coding)
            except CodecError:
                break
            frame = np.zeros(values.size, self._frame.dtype)
            centre = self._centres[number : number + 1]
            ideal = _entropy(values, frame, centre, step, self._most)[0]
            # The frame's own table is thinner spread.
            fixed = FRAME_BITS + TABLE_BITS * (1 - values.size / size)
            over = (8 * len(blob) - fixed) / values.size - ideal
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


def _middles(values: Floats, ends: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
    """Return about the median of each part; 0 for an empty one."""
    parts = np.linspace(0, 1, 33, endpoint=False)
    places = (ends[:-1, None] + np.diff(ends)[:, None] * parts).astype(np.intp)
    some = np.sort(np.append(values, np.float32(0))[places], axis=1)[:, 16]
    return np.where(np.diff(ends) > 0, some, 0).astype(np.float64)


def _widest_range(values: Floats, ends: npt.NDArray[np.intp]) -> float:
    """Return the largest distance between values of one part."""
    starts = ends[:-1][np.diff(ends) > 0]
    if starts.size == 0:
        return 0.0
    high, low = np.maximum.reduceat(values, starts), np.minimum.reduceat(values, starts)
    return float((high.astype(np.float64) - low).max())


def round_step(step: float) -> float:
    """Return a step of 12 bits: its first thousands of multiples are float32 numbers."""
    mantissa, exponent = math.frexp(step)
    return math.ldexp(round(mantissa * 4096), exponent - 12)


def _entropy(
    values: Floats, frame: npt.NDArray[Any], centres: npt.NDArray[Any], step: float, most: float
) -> npt.NDArray[np.float64]:
    """Return each frame's bits a coordinate at their ideal; `most` is where outliers begin."""
    # Very fine levels: those of a coarser grid, and the bits that tell them apart.
    fine = 3 * most / step / MAX_LEVELS
    shift = int(np.ceil(np.log2(fine))) if fine > 1 else 0
    step *= 2.0**shift
    half = min(MAX_LEVELS // 2, int(1.5 * most / step) + 2)
    width = 2 * half + 1
    level = values * np.float32(1 / step) if 1e-30 < step < 1e30 else values / step
    if centres.any():
        level = level - np.rint(centres / step)[frame]
    # Outliers, at the ends of the window.
    level = np.clip(np.rint(level, out=level), -half, half, out=level).astype(np.intp)
    level += frame * width + half
    counts = np.bincount(level, minlength=centres.size * width)
    ends = counts.reshape(centres.size, width)
    outliers = ends[:, 0] + ends[:, -1]
    place = np.flatnonzero(counts)
    found, owner = counts[place], place // width
    totals = np.maximum(np.bincount(owner, found, centres.size), 1)
    bits = totals * np.log2(totals)
    bits -= np.bincount(owner, found * np.log2(found), centres.size)
    # A sample's entropy is low by about this (Miller and Madow).
    bits += np.maximum(np.bincount(owner, minlength=centres.size) - 1, 0) / (2 * math.log(2))
    entropy: npt.NDArray[np.float64] = (bits + OUTLIER_BITS * outliers) / totals + shift
    return entropy
