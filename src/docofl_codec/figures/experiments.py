"""What is measured for each figure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from docofl_codec import Codec, Ecuq, Eden, decode
from docofl_codec._progress import ProgressBar
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
from docofl_codec.errors import InvalidInputError
from docofl_codec.figures.rows import Row
from docofl_codec.figures.weights import load_file, load_published
from docofl_codec.reference import ecuq as printed

__all__ = ["FIGURES", "Settings", "measure_figure"]

Floats: TypeAlias = npt.NDArray[np.float32]

OURS = "ECUQ"
PRINTED = "ECUQ as printed"
FEW_REPEATS = 3  # where nothing is random: for the time alone


@dataclass(frozen=True)
class Settings:
    """How much is measured, and on what.

    Attributes
    ----------
    repeats : int
        Vectors and seeds a point.
    cnn, lstm : Path or None
        Files with weights; by default published ones are downloaded.
    dimensions : tuple of int
        Of the figure ``dimension``.
    budgets, gradient_budgets, sparse_budgets : tuple of float
        Of the figures ``budget``, ``gradient`` and ``sparsification``.
    dimension : int
        Of the figure ``budget``.
    large_dimension : int
        Of random vectors in ``gradient`` and ``sparsification``.
    panels : tuple of str
        Of ``gradient``.
    """

    repeats: int = 10
    cnn: Path | None = None
    lstm: Path | None = None
    dimensions: tuple[int, ...] = (2**8, 2**10, 2**12, 2**14)
    budgets: tuple[float, ...] = (2, 3, 4, 5)
    gradient_budgets: tuple[float, ...] = (1, 2, 3, 4, 5, 6)
    sparse_budgets: tuple[float, ...] = (1, 2, 3, 4, 5, 6)
    dimension: int = 2**12
    large_dimension: int = 2**20
    panels: tuple[str, ...] = ("cnn", "lstm", "lognormal")


@dataclass(frozen=True)
class _Vectors:
    """Where the vectors of a panel come from; `make(repeat)` is the same for each if fixed."""

    panel: str
    make: Callable[[int], Floats]
    fixed: bool = False


def _drawn(panel: str, dimension: int) -> _Vectors:
    return _Vectors(panel, lambda repeat: _DISTRIBUTIONS[panel](repeat, dimension))


def _normal(repeat: int, dimension: int) -> Floats:
    return np.random.default_rng(repeat).standard_normal(dimension, dtype=np.float32)


_DISTRIBUTIONS: dict[str, Callable[[int, int], Floats]] = {
    "lognormal": lambda repeat, dimension: np.exp(_normal(repeat, dimension)),
    "normal": _normal,
    "shifted": lambda repeat, dimension: (
        np.float32(1) + np.float32(0.1) * _normal(repeat, dimension)
    ),
}


def _weights(panel: str, settings: Settings) -> _Vectors:
    file = settings.cnn if panel == "cnn" else settings.lstm
    values = load_published(panel) if file is None else load_file(file)
    return _Vectors(panel, lambda _: values, fixed=True)


# A compressor, given a vector and a seed: seconds to encode, bits a coordinate, decoded vector.
Outcome: TypeAlias = "tuple[float, float, Floats]"


@dataclass(frozen=True)
class _Compressor:
    name: str
    run: Callable[[float, Floats, int], Outcome]
    random: bool = field(default=True)


def _codec(name: str, make: Callable[[float], Any], *, random: bool = True) -> _Compressor:
    def run(budget: float, x: Floats, seed: int) -> Outcome:
        codec: Codec = replace(make(budget), threads=1)
        begin = time.thread_time()
        blob = codec.encode(x, seed=seed)
        seconds = time.thread_time() - begin
        return seconds, 8 * len(blob) / x.size, np.asarray(decode(blob))

    return _Compressor(name, run, random)


def _run_printed(budget: float, x: Floats, seed: int) -> Outcome:  # noqa: ARG001
    """Run algorithm 3 to the letter: its entropy meets the budget, its Huffman code may not."""
    begin = time.thread_time()
    quantized, words = printed.encode(x, budget, tolerance=0.1)
    seconds = time.thread_time() - begin
    return seconds, 8 * len(words) / x.size, quantized.values


ECUQS = [
    _codec(OURS, lambda bits: Ecuq(bits=bits), random=False),
    _Compressor(PRINTED, _run_printed, random=False),
]
GRADIENT = [
    *ECUQS,
    _codec("EDEN", lambda bits: Eden(bits=bits)),
    _codec("QSGD + Elias gamma", lambda bits: QSGD(bits=bits)),
    _codec("Kashin + SQ", lambda bits: KashinSQ(bits=bits)),
    _codec("Hadamard + SQ", lambda bits: HadamardSQ(bits=bits)),
]
FREE_LEVELS = [
    *ECUQS,
    _codec("ECK-Means", lambda bits: ECKMeans(bits=bits), random=False),
    _codec("ECQ", lambda bits: ECQ(bits=bits, progress=False), random=False),
]
SPARSE = [
    *ECUQS,
    _codec("Top-K", lambda bits: TopK(bits=bits), random=False),
    _codec("Rand-K", lambda bits: RandK(bits=bits)),
    _codec("Count-Sketch", lambda bits: CountSketch(bits=bits)),
]


@dataclass(frozen=True)
class _Point:
    vectors: _Vectors
    compressor: _Compressor
    budget: float

    def repeats(self, settings: Settings) -> int:
        """Return the number of repeats; fewer where all but the time would be the same."""
        same = self.vectors.fixed and not self.compressor.random
        return min(settings.repeats, FEW_REPEATS) if same else settings.repeats


def _gradient(settings: Settings) -> Iterator[_Point]:
    for panel in settings.panels:
        vectors = (
            _drawn(panel, settings.large_dimension)
            if panel in _DISTRIBUTIONS
            else _weights(panel, settings)
        )
        for budget in settings.gradient_budgets:
            for compressor in GRADIENT:
                yield _Point(vectors, compressor, budget)


def _dimension(settings: Settings) -> Iterator[_Point]:
    for panel in _DISTRIBUTIONS:
        for dimension in settings.dimensions:
            for compressor in FREE_LEVELS:
                yield _Point(_drawn(panel, dimension), compressor, 2)


def _budget(settings: Settings) -> Iterator[_Point]:
    for panel in _DISTRIBUTIONS:
        for budget in settings.budgets:
            for compressor in FREE_LEVELS:
                yield _Point(_drawn(panel, settings.dimension), compressor, budget)


def _sparsification(settings: Settings) -> Iterator[_Point]:
    for panel in _DISTRIBUTIONS:
        for budget in settings.sparse_budgets:
            for compressor in SPARSE:
                yield _Point(_drawn(panel, settings.large_dimension), compressor, budget)


FIGURES: dict[str, Callable[[Settings], Iterator[_Point]]] = {
    "gradient": _gradient,
    "dimension": _dimension,
    "budget": _budget,
    "sparsification": _sparsification,
}


def measure_figure(name: str, settings: Settings, *, progress: bool | None = None) -> list[Row]:
    """Measure all points of a figure.

    A codec that cannot take a budget (Kashin's representation at 1 bit) has no row for it.

    Raises
    ------
    WeightsUnavailableError
        Where the weights of a network cannot be had.
    """
    points = list(FIGURES[name](settings))
    steps = sum(point.repeats(settings) for point in points)
    with ProgressBar(name, steps, visible=progress) as bar:
        rows = [_measure(name, point, settings, bar) for point in points]
    return [row for row in rows if row is not None]


def _measure(figure: str, point: _Point, settings: Settings, bar: ProgressBar) -> Row | None:
    outcomes = []
    repeats = point.repeats(settings)
    for repeat in range(repeats):
        x = point.vectors.make(repeat)
        try:
            if repeat == 0 and x.size <= 2**16:
                point.compressor.run(point.budget, x[:256], 0)  # imports and caches
            seconds, bits, x_hat = point.compressor.run(point.budget, x, repeat)
        except InvalidInputError:
            return None
        outcomes.append((bits, nmse(x, x_hat), seconds))
        bar.step(f"{point.vectors.panel}, {point.budget:g} bits, {point.compressor.name}")
    bits, error, seconds = np.mean(outcomes, axis=0).tolist()
    return Row(
        figure=figure,
        panel=point.vectors.panel,
        codec=point.compressor.name,
        dimension=x.size,
        budget=point.budget,
        bits=bits,
        nmse=error,
        encode_seconds=seconds,
        encode_seconds_least=min(outcome[2] for outcome in outcomes),
        repeats=repeats,
    )


def nmse(x: Floats, x_hat: Floats) -> float:
    """Return the normalized squared error."""
    x64 = x.astype(np.float64)
    error = x_hat - x64
    return float(error @ error / (x64 @ x64))
