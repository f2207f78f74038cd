r"""Entropy-Constrained Uniform Quantization: algorithm 3 of the DoCoFL paper, to the letter.

======================  ==========================================================================
paper                   here
======================  ==========================================================================
x, x_min, x_max         ``x``, ``x_min``, ``x_max`` (float32)
b                       ``bits``, the budget in bits a coordinate
epsilon                 ``tolerance``, how far below the budget the entropy may stay
K                       ``num_levels``
Delta                   ``step``, (x_max - x_min) / K
Q                       never stored: level k stands for x_min + (k + 1/2) Delta
x_hat_Q                 ``indices`` (the k of each coordinate) and ``values``
H(p_Q)                  `entropy`
low, mid, high, p       the same, in `find_num_levels`
======================  ==========================================================================

The printed procedure leaves four things open; here they are settled so that it always ends:

* K is the integer part of 2^b and of mid (at least 1, at most `MAX_LEVELS`).
* Entropies are compared with a slack of `SLACK`, far above rounding errors.
* While high is infinite, the search stops where K would exceed `MAX_LEVELS`. The vector then has
  too few distinct values for its budget. If there are at most `MAX_EXACT_LEVELS` of them, and
  they meet the budget themselves, they are the levels (the limit of infinite K).
* A search that ends without a hit gives the largest K it has seen with an entropy within b.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .bits import pack_fields
from .huffman import huffman_lengths, reversed_codes

MAX_LEVELS = 2**30
MAX_EXACT_LEVELS = 256
SLACK = 1e-9

_MAX_NARROW_LEVELS = 2**14
_MAX_DENSE_LEVELS = 2**22  # above, most levels are empty: sorting beats an array of counts
_CHUNK = 2**16  # coordinates a step, so that intermediate arrays stay in the cache


@dataclass(frozen=True)
class Quantized:
    """A quantized vector.

    Attributes
    ----------
    indices : ndarray of int64
        The level of each coordinate, in the shape of the input.
    num_levels : int
        K; 0 for an empty vector.
    x_min, x_max : float
        The ends of the range (0 for an empty vector).
    entropy : float
        Entropy of ``indices`` in bits a coordinate.
    values : ndarray of float32
        What a decoder gives back, in the shape of the input.
    """

    indices: NDArray[np.int64]
    num_levels: int
    x_min: float
    x_max: float
    entropy: float
    values: NDArray[np.float32]


def quantize(
    x: NDArray[np.float32], num_levels: int, x_min: float, x_max: float
) -> NDArray[np.int64]:
    """Return the index of the bin of each coordinate (``Quantize`` in the paper).

    Parameters
    ----------
    x : ndarray of float32
        Finite values.
    num_levels : int
        1 … `MAX_LEVELS`.
    x_min, x_max : float
        The ends of the range, float32 values with ``x_min < x_max``. Coordinates outside go to
        the nearest end.

    Returns
    -------
    ndarray of int64
        0 … ``num_levels - 1``, in the shape of ``x``.

    Examples
    --------
    >>> quantize(np.float32([0.0, 0.2, 0.5, 1.0]), 4, 0.0, 1.0).tolist()
    [0, 0, 2, 3]
    """
    real = _working_type(num_levels, x_min, x_max)
    inverse_step = real(num_levels / (float(x_max) - float(x_min)))
    scaled = np.subtract(x, x_min, dtype=real) * inverse_step
    clipped: NDArray[np.floating[Any]] = np.clip(scaled, real(0), real(num_levels - 1))
    return clipped.astype(np.int64)  # truncates


def is_narrow(num_levels: int, x_min: float, x_max: float) -> bool:
    """Return whether the arithmetic of a grid is that of float32 (section 3.1 of the format)."""
    return _working_type(num_levels, x_min, x_max) is np.float32


def reconstruct(
    indices: NDArray[np.int64],
    num_levels: int,
    x_min: float,
    x_max: float,
    displacements: NDArray[np.int64] | int = 0,
) -> NDArray[np.float32]:
    """Return the centres of the bins, or values at a distance from them.

    Parameters
    ----------
    indices : ndarray of int64
        0 … ``num_levels - 1``.
    num_levels, x_min, x_max
        As for `quantize`.
    displacements : ndarray of int64 or int, default 0
        Distances from the centres in 64ths of a step.

    Returns
    -------
    ndarray of float32
        In the shape of ``indices``.

    Examples
    --------
    >>> reconstruct(np.array([0, 3]), 4, 0.0, 1.0).tolist()
    [0.125, 0.875]
    """
    real = _working_type(num_levels, x_min, x_max)
    step = real((float(x_max) - float(x_min)) / num_levels)
    places = indices.astype(real) + real(0.5) + np.asarray(displacements, real) / real(64)
    values: NDArray[np.floating[Any]] = real(x_min) + places * step
    return values.astype(np.float32)


def entropy(indices: NDArray[np.int64]) -> float:
    """Return the entropy of the empirical distribution, in bits a coordinate.

    Parameters
    ----------
    indices : ndarray of int64
        Non-negative.

    Returns
    -------
    float
        0 when there are none.

    Examples
    --------
    >>> entropy(np.array([7, 7, 0, 3]))
    1.5
    """
    return _entropy_of_counts(_count(indices, int(indices.max(initial=0)) + 1))


def find_num_levels(x: NDArray[np.float32], bits: float, tolerance: float = 0.1) -> int:
    """Return the number of levels whose entropy meets the budget.

    Parameters
    ----------
    x : ndarray of float32
        Finite values.
    bits : float
        Budget in bits a coordinate, above 0.
    tolerance : float, optional
        How far below the budget the entropy may stay.

    Returns
    -------
    int
        K; 1 for a constant vector, 0 for an empty one.

    Raises
    ------
    ValueError
        For values that are not finite and for a budget or tolerance out of range.

    Examples
    --------
    >>> find_num_levels(np.float32([0, 1, 2, 3]), bits=2)
    4
    """
    x_min, x_max = _range(x)
    _check_options(bits, tolerance)
    if x_min == x_max:
        return min(x.size, 1)
    return _search(x, bits, tolerance, x_min, x_max).num_levels


def ecuq(x: NDArray[np.float32], bits: float, tolerance: float = 0.1) -> Quantized:
    """Quantize ``x`` as in algorithm 3, up to the entropy coding.

    Parameters
    ----------
    x, bits, tolerance
        As for `find_num_levels`; ``x`` may have any shape.

    Returns
    -------
    Quantized
        Constant vectors, and vectors with too few distinct values for their budget, are given
        back exactly; ``indices`` are then ranks in the order that puts -0 before +0.

    Raises
    ------
    ValueError
        As for `find_num_levels`.

    Examples
    --------
    >>> result = ecuq(np.float32([0, 1, 1, 5]), bits=1, tolerance=0.3)
    >>> result.num_levels, result.indices.tolist(), result.values.tolist()
    (2, [0, 0, 0, 1], [1.25, 1.25, 1.25, 3.75])
    """
    x_min, x_max = _range(x)
    _check_options(bits, tolerance)
    if x_min == x_max:
        indices = np.zeros(x.shape, np.int64)
        return Quantized(indices, min(x.size, 1), x_min, x_max, 0.0, x.copy())

    found = _search(x, bits, tolerance, x_min, x_max)
    if found.unbounded:
        num_distinct, ranks = _ranks(x)
        exact_entropy = entropy(ranks)
        if num_distinct <= MAX_EXACT_LEVELS and exact_entropy <= bits + SLACK:
            return Quantized(ranks, num_distinct, x_min, x_max, exact_entropy, x.copy())

    indices = quantize(x, found.num_levels, x_min, x_max)
    values = reconstruct(indices, found.num_levels, x_min, x_max)
    return Quantized(indices, found.num_levels, x_min, x_max, found.entropy, values)


def encode(x: NDArray[np.float32], bits: float, tolerance: float = 0.1) -> tuple[Quantized, bytes]:
    """Quantize ``x`` and code its indices: the whole of algorithm 3.

    Parameters
    ----------
    x, bits, tolerance
        As for `ecuq`.

    Returns
    -------
    Quantized
        The quantized vector.
    bytes
        Its canonical Huffman code words in one stream, as in ``docs/format.md``, section 3.4
        (without the code table, which `huffman_lengths` gives for the indices' counts).

    Raises
    ------
    ValueError
        As for `find_num_levels`.

    Examples
    --------
    >>> encode(np.float32([0, 1, 1, 5]), bits=1, tolerance=0.3)[1].hex()
    '08'
    """
    quantized = ecuq(x, bits, tolerance)
    symbols = quantized.indices.ravel()
    if quantized.num_levels > _MAX_DENSE_LEVELS:
        symbols = np.searchsorted(np.unique(symbols), symbols)  # faster than unique's inverse
    lengths = huffman_lengths(np.bincount(symbols))
    return quantized, pack_fields(reversed_codes(lengths)[symbols], lengths[symbols])


class _Found(NamedTuple):
    num_levels: int
    entropy: float
    unbounded: bool  # stopped at MAX_LEVELS while high was infinite


def _search(
    x: NDArray[np.float32], bits: float, tolerance: float, x_min: float, x_max: float
) -> _Found:
    """Run ``Double_Binary_Search_Num_Quantization_Levels``."""
    x = x.ravel()

    def entropy_at(num_levels: int) -> float:
        return _entropy_of_counts(_count_levels(x, num_levels, x_min, x_max))

    initial = 2.0 ** min(bits, 64.0)
    best = min(max(math.floor(initial), 1), MAX_LEVELS)
    best_entropy = entropy_at(best)
    if best_entropy >= bits - tolerance - SLACK:
        return _Found(best, best_entropy, unbounded=False)

    low, high, p = initial, math.inf, -1
    while low <= high:
        if high == math.inf:
            p += 1
            mid = initial + 2.0**p
            if math.floor(mid) > MAX_LEVELS:
                return _Found(best, best_entropy, unbounded=True)
        else:
            mid = (low + high) / 2
        num_levels = math.floor(mid)
        current = entropy_at(num_levels)
        if current > bits + SLACK:
            high = mid - 1
            continue
        if num_levels > best:
            best, best_entropy = num_levels, current
        if current < bits - tolerance - SLACK:
            low = mid + 1
        else:
            return _Found(num_levels, current, unbounded=False)
    return _Found(best, best_entropy, unbounded=False)


def _working_type(
    num_levels: int, x_min: float, x_max: float
) -> type[np.float32] | type[np.float64]:
    """Return the type in which quantization is computed; float32 where it is accurate enough."""
    span = float(x_max) - float(x_min)
    narrow = num_levels <= _MAX_NARROW_LEVELS and 2.0**-96 <= span <= 2.0**96
    return np.float32 if narrow else np.float64


def _count_levels(
    x: NDArray[np.float32], num_levels: int, x_min: float, x_max: float
) -> NDArray[np.int64]:
    """Return the counts of the levels of a flat vector; empty levels may be left out."""
    chunk = max(_CHUNK, num_levels)
    if num_levels > _MAX_DENSE_LEVELS or x.size <= chunk:
        return _count(quantize(x, num_levels, x_min, x_max), num_levels)
    counts = np.zeros(num_levels, np.int64)
    for start in range(0, x.size, chunk):
        indices = quantize(x[start : start + chunk], num_levels, x_min, x_max)
        counts += np.bincount(indices, minlength=num_levels)
    return counts


def _count(indices: NDArray[np.int64], num_levels: int) -> NDArray[np.int64]:
    if num_levels <= _MAX_DENSE_LEVELS:
        return np.bincount(indices.ravel())
    return np.unique(indices, return_counts=True)[1]


def _entropy_of_counts(counts: NDArray[np.int64]) -> float:
    p = counts[counts > 0] / max(counts.sum(), 1)
    return abs(float(np.sum(p * np.log2(p))))  # each term is <= 0


def _range(x: NDArray[np.float32]) -> tuple[float, float]:
    if x.dtype != np.float32:
        raise ValueError(f"x has dtype {x.dtype}, expected float32")
    if x.size == 0:
        return 0.0, 0.0
    x_min, x_max = float(x.min()), float(x.max())  # a NaN anywhere makes both NaN
    if not (math.isfinite(x_min) and math.isfinite(x_max)):
        raise ValueError("x has values that are not finite")
    return x_min, x_max


def _check_options(bits: float, tolerance: float) -> None:
    if not 0 < bits < math.inf:
        raise ValueError(f"bits is {bits}, expected a finite number above 0")
    if not 0 <= tolerance < math.inf:
        raise ValueError(f"tolerance is {tolerance}, expected a finite number, 0 or more")


def _ranks(x: NDArray[np.float32]) -> tuple[int, NDArray[np.int64]]:
    """Return the number of distinct bit patterns, and each coordinate's rank among them."""
    pattern = np.ascontiguousarray(x).view(np.uint32).ravel()
    negative = pattern >> np.uint32(31) == 1
    ordered = np.where(negative, ~pattern, pattern | np.uint32(1 << 31))
    distinct, ranks = np.unique(ordered, return_inverse=True)
    return distinct.size, ranks.reshape(x.shape)
