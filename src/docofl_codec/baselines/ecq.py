"""ECQ: entropy-constrained quantization, the best scalar quantizer for its rate.

Chou, Lookabaugh and Gray, "Entropy-Constrained Vector Quantization", IEEE Transactions on
Acoustics, Speech, and Signal Processing 37(1), 1989, for vectors of one dimension. For a multiplier
lambda their algorithm alternates between three steps until D + lambda R stops to fall:

1. every value goes to the level with the least (x - level)^2 + lambda * length,
2. every level moves to the mean of its values,
3. its length becomes -log2 of its share of the values.

Which minimum that ends in depends on where it starts: the search runs over the number of initial
levels as well as over lambda, as the DoCoFL paper does, which is why it is slow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from docofl_codec._progress import ProgressBar
from docofl_codec.baselines._base import check_range
from docofl_codec.baselines._scalar import (
    MAX_LEVELS,
    Array,
    Cells,
    Quantizer,
    Room,
    ScalarQuantization,
    SortedValues,
)
from docofl_codec.baselines.eckmeans import k_means
from docofl_codec.codec import register_codec

__all__ = ["ECQ"]

PRECISION = 1e-7


@dataclass(frozen=True, kw_only=True)
class ECQ(ScalarQuantization):
    """Entropy-constrained quantization, then Huffman coding.

    Parameters
    ----------
    bits : float, default 2
        The budget in bits a coordinate, 0.1 to 16.
    budget : {"bytes", "entropy"}
        ``"bytes"``: ``8 * len(blob) <= bits * size + 8 * (64 + 10 * ndim)``, the list of levels
        included. ``"entropy"``: the entropy of the quantized values meets the budget.
    starts : int, default 16
        How many numbers of initial levels are tried.
    multipliers : int, default 24
        How many multipliers are tried for each.
    iterations : int, default 300
        Of the algorithm for each multiplier, at most.
    progress : bool, optional
        Whether to show a progress bar on standard error; by default where that is a terminal.
    threads : int, optional
        Threads of the entropy coder.

    Examples
    --------
    >>> import numpy as np
    >>> from docofl_codec.baselines import ECQ
    >>> x = np.random.default_rng(0).normal(size=2000).astype(np.float32)
    >>> codec = ECQ(bits=3, starts=2, iterations=50)
    >>> bool(np.mean((x - codec.decode(codec.encode(x))) ** 2) < 0.04)
    True
    """

    name: ClassVar[str] = "ecq"
    codec_id: ClassVar[int] = 22
    starts: int = 16
    multipliers: int = 24
    iterations: int = 300
    progress: bool | None = None

    def _check_options(self) -> None:
        super()._check_options()
        for option in ("starts", "multipliers", "iterations"):
            check_range(option, getattr(self, option), 1, 1_000_000)

    def _design(self, values: SortedValues, room: Room) -> Quantizer:
        best, cells = k_means(values, 1, 1)
        least = values.error(cells)
        if least == 0:
            return best
        starts, variance = self._initial_levels(), values.variance()
        with ProgressBar("ECQ", len(starts) * self.multipliers, visible=self.progress) as bar:
            for num_levels in starts:
                # Bisect the logarithm of the multiplier, in units of the variance.
                low, high = np.log(1e-9), np.log(10.0)
                for _ in range(self.multipliers):
                    middle = (low + high) / 2
                    multiplier = float(np.exp(middle)) * variance
                    quantizer, cells = self._descend(values, num_levels, multiplier)
                    if room.allows(quantizer, cells):
                        high = middle
                        error = values.error(cells)
                        if error < least:
                            best, least = quantizer, error
                    else:
                        low = middle
                    bar.step()
        return best

    def _initial_levels(self) -> list[int]:
        fewest = max(int(2**self.bits), 2)
        spaced = np.geomspace(min(fewest, MAX_LEVELS), MAX_LEVELS, self.starts)
        return [int(number) for number in np.unique(np.round(spaced))]

    def _descend(
        self, values: SortedValues, num_levels: int, multiplier: float
    ) -> tuple[Quantizer, Cells]:
        """Run the algorithm from uniformly spaced levels."""
        low, high = values.values[0], values.values[-1]
        thresholds = low + (high - low) * np.arange(1, num_levels) / num_levels
        cells = values.cells(thresholds)
        cost = np.inf
        for _ in range(self.iterations):
            thresholds = _thresholds(cells, multiplier)
            cells = values.cells(thresholds)
            previous = cost
            cost = values.error(cells) / values.values.size + multiplier * cells.entropy
            if previous - cost <= PRECISION * cost:
                break
        return Quantizer(cells.means, _between(cells, thresholds)), cells


def _thresholds(cells: Cells, multiplier: float) -> Array:
    """Return where the cheapest level changes.

    The cost of a level is a line in x once x^2 is left out. A level whose two thresholds are out of
    order is nowhere the cheapest.
    """
    means = cells.means
    penalties = -multiplier * np.log2(cells.counts / cells.counts.sum())
    while True:
        thresholds = (means[:-1] + means[1:]) / 2 + np.diff(penalties) / (2 * np.diff(means))
        kept = np.ones(means.size, bool)
        kept[1:-1] = thresholds[:-1] < thresholds[1:]
        if kept.all():
            return np.asarray(thresholds)
        means, penalties = means[kept], penalties[kept]


def _between(cells: Cells, thresholds: Array) -> Array:
    """Return the thresholds that part cells, without those around cells that are empty."""
    if thresholds.size == cells.means.size - 1:
        return thresholds
    places = np.searchsorted(thresholds, cells.means)
    return thresholds[np.maximum(places[1:] - 1, 0)]


register_codec(ECQ)
