"""The least squared errors there can be: of any code, and of scalar quantizers with ideal coders.

For independent normal and lognormal values. Densities become a few thousand cells; errors inside a
cell, far below those that are looked for, are left out, so that bounds are a little too low.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

CELLS = 1600
REACH = 5.2  # standard deviations
GAP = 0.8  # of the places that stand for values, in square roots of the distortion
SURE = 1e-3  # nats
MAX_ITERATIONS = 5000
MAX_SLOPES = 12
NEAR = 0.02  # bits
SCALAR_ITERATIONS = 200
BISECTIONS = 20
# Steps of the first grids, in square roots of the price; 2.9 is best for many levels.
GRIDS = (1.8, 2.4, 2.9, 3.5, 4.5)


@dataclass(frozen=True)
class Source:
    """Values in increasing order, and how often each comes."""

    values: Array
    shares: Array

    @classmethod
    def of(cls, name: str) -> Source:
        """Return the means of the cells of the density "normal" or "lognormal"."""
        normal = NormalDist()
        ends = np.linspace(-REACH, REACH, CELLS + 1)
        below = np.array([normal.cdf(z) for z in ends])
        shares = np.diff(below)
        if name == "normal":
            means = -np.diff([normal.pdf(z) for z in ends]) / shares
        else:
            shifted = np.array([normal.cdf(z - 1) for z in ends])
            means = math.exp(0.5) * np.diff(shifted) / shares
        return cls(means, shares / shares.sum())


def shannon(source: Source, bits: float) -> float:
    """Return the least squared error of any code of so many bits a value.

    The algorithm of Blahut (1972) for a slope theta, in which rate and error are those of a channel
    from values to places. Four times the slope takes about a bit.
    """
    theta = math.pow(4, -bits)
    for _ in range(MAX_SLOPES):
        rate, error = _channel(source, theta)
        if abs(rate - bits) < NEAR:
            # The curve has this slope.
            return error + 2 * theta * math.log(2) * (rate - bits)
        theta *= math.pow(4, rate - bits)
    raise ValueError(f"bits: found {bits}, for which no slope was found")


def _channel(source: Source, theta: float) -> tuple[float, float]:
    x, p = source.values, source.shares
    y = np.arange(x[0], x[-1] + math.sqrt(theta), GAP * math.sqrt(theta))
    squares = (x[:, None] - y) ** 2
    weights = np.exp(-squares / (2 * theta))
    q = np.full(y.size, 1 / y.size)
    for _ in range(MAX_ITERATIONS):
        growth = (p / (weights @ q)) @ weights
        q = q * growth
        if growth.max() < 1 + SURE:
            break
    reached = weights @ q
    error = float(p @ ((weights * squares) @ q / reached))
    rate = -error / (2 * theta) - float(p @ np.log(reached)) - math.log(growth.max())
    return rate / math.log(2), error


def scalar(source: Source, bits: float) -> float:
    """Return the least squared error of a scalar quantizer whose entropy is so many bits.

    The algorithm of Chou, Lookabaugh and Gray (1989), from several uniform grids for each price of
    a bit, which is bisected.
    """
    low, high = -2 * bits - 6, 4.0  # logarithms of base 2
    error = math.inf
    for _ in range(BISECTIONS):
        price = 2 ** ((low + high) / 2)
        starts = (_priced(source, price, gap, shift) for gap in GRIDS for shift in (0, 0.5))
        rate, found = min(starts, key=lambda start: start[1] + price * start[0])
        if rate <= bits:
            high, error = (low + high) / 2, min(error, found)
        else:
            low = (low + high) / 2
    return error


def _priced(source: Source, price: float, gap: float, shift: float) -> tuple[float, float]:
    x = source.values
    totals = np.cumsum(np.stack([source.shares, source.shares * x, source.shares * x**2]), axis=1)
    totals = np.pad(totals, ((0, 0), (1, 0)))
    step = gap * math.sqrt(price)
    levels = np.arange(x[0] - shift * step, x[-1] + step, step)
    lengths = np.zeros(levels.size)
    for _ in range(SCALAR_ITERATIONS):
        # Where two neighbours cost the same. One that would end before it begins has no values.
        middles = (levels[1:] + levels[:-1]) / 2
        borders = middles + price * np.diff(lengths) / (2 * np.diff(levels))
        borders = np.maximum.accumulate(borders)
        ends = np.concatenate(([0], np.searchsorted(x, borders), [x.size]))
        counts, sums, squares = np.diff(totals[:, ends], axis=1)
        used = counts > 0
        counts, sums, squares = counts[used], sums[used], squares[used]
        levels, lengths = sums / counts, -np.log2(counts)
    return float(counts @ lengths), float((squares - sums * levels).sum())
