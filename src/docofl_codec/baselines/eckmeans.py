"""ECK-Means: the levels of k-means, as many as a budget allows.

The appendix "Entropy-Constrained Uniform Quantization" of the DoCoFL paper: like ECUQ, with the
levels of k-means in the place of uniformly spaced ones, and the same double binary search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from docofl_codec.baselines._base import check_range
from docofl_codec.baselines._scalar import (
    MAX_LEVELS,
    Cells,
    Quantizer,
    Room,
    ScalarQuantization,
    SortedValues,
)
from docofl_codec.codec import register_codec

__all__ = ["ECKMeans"]

PRECISION = 1e-6


@dataclass(frozen=True, kw_only=True)
class ECKMeans(ScalarQuantization):
    """Quantization to the levels of k-means, then Huffman coding.

    Parameters
    ----------
    bits : float, default 2
        The budget in bits a coordinate, 0.1 to 16.
    budget : {"bytes", "entropy"}
        ``"bytes"``: ``8 * len(blob) <= bits * size + 8 * (64 + 10 * ndim)``, the list of levels
        included. ``"entropy"``: the entropy of the quantized values meets the budget.
    iterations : int, default 300
        Of Lloyd's algorithm, at most.
    threads : int, optional
        Threads of the entropy coder.

    Examples
    --------
    >>> import numpy as np
    >>> from docofl_codec import inspect
    >>> from docofl_codec.baselines import ECKMeans
    >>> x = np.random.default_rng(0).normal(size=10_000).astype(np.float32)
    >>> inspect(ECKMeans(bits=3).encode(x)).num_levels
    8
    """

    name: ClassVar[str] = "eckmeans"
    codec_id: ClassVar[int] = 23
    iterations: int = 300

    def _check_options(self) -> None:
        super()._check_options()
        check_range("iterations", self.iterations, 1, 1_000_000)

    def _design(self, values: SortedValues, room: Room) -> Quantizer:
        best, _ = k_means(values, 1, self.iterations)
        low, high = 1, 2
        # 1. Double the number of levels until they do not fit.
        while high <= MAX_LEVELS:
            quantizer, cells = k_means(values, high, self.iterations)
            if not room.allows(quantizer, cells):
                break
            best, low = quantizer, high
            high = 2 * high
        high = min(high, MAX_LEVELS + 1)
        # 2. Halve the interval.
        while high - low > 1:
            middle = (low + high) // 2
            quantizer, cells = k_means(values, middle, self.iterations)
            if room.allows(quantizer, cells):
                best, low = quantizer, middle
            else:
                high = middle
        return best


def k_means(values: SortedValues, num_levels: int, iterations: int) -> tuple[Quantizer, Cells]:
    """Run Lloyd's algorithm from levels with equally many values each."""
    places = np.arange(1, num_levels) * values.values.size // num_levels
    cells = values.cells(np.unique(values.values[np.maximum(places - 1, 0)]))
    error = values.error(cells)
    thresholds = (cells.means[:-1] + cells.means[1:]) / 2
    for _ in range(iterations):
        thresholds = (cells.means[:-1] + cells.means[1:]) / 2
        cells = values.cells(thresholds)
        previous, error = error, values.error(cells)
        if previous - error <= PRECISION * error:
            break
    thresholds = (cells.means[:-1] + cells.means[1:]) / 2
    return Quantizer(cells.means, thresholds), values.cells(thresholds)


register_codec(ECKMeans)
