r"""EDEN (Vargaftik et al., ICML 2022): rotate at random, quantize as normal variables, rescale.

======================  ==========================================================================
paper                   here
======================  ==========================================================================
x, d                    ``block`` (float32) and its size: each rotation block is a vector by itself
b                       ``bits``, the budget in bits a coordinate, split by `split_budget`
R(x)                    `rotate`: a randomized Hadamard transform, signs and Hadamard done twice
eta_x                   sqrt(d) / norm of x, which gives the rotated coordinates unit variance
eta_x R(x)              ``t``
Q(eta_x R(x))           ``q``; its levels are those of `codebook`
S                       ``scales``, one a block: norm of x squared / <R(x), q>, so that E[x_hat] = x
x_hat                   `decode`: S R^-1(q)
vNMSE                   `theory_nmse`: E[norm of (x - x_hat) squared] / norm of x squared
======================  ==========================================================================

The bytes are those of ``docs/format.md``, section 4, whose terms (chunk, plane, wide) are used
here. A budget between two widths, or below one bit, gives some chunks one bit a coordinate more
than the others; chunks of width 0 have the level 0. Decoding is exact to the bit. Encoding may
differ from the core in the last bits of a scale, as an encoder is free in how it takes sums.
"""

import functools
import itertools
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

MAX_BLOCK = 32_768
MAX_INNER_BLOCK = 4_096
CHUNK = 16
MIN_DROPPING_CHUNKS = 16
MIN_BITS = 0.1
MAX_WIDTH = 8
LARGEST = float(np.finfo(np.float32).max)

_NEWTON_STEPS = 8  # the error is squared in each; five reach the rounding errors
_SIGNS_1, _SIGNS_2, _ORDER = 1, 2, 3  # what the keys that come from the seed are for


# Codebooks (section 4.2) -------------------------------------------------------------------------


@functools.cache
def lloyd_max(width: int) -> tuple[NDArray[np.float64], float]:
    """Return the quantizer of N(0, 1) that has the least mean squared error.

    The edges of its cells are midpoints of levels, and its levels are centroids of cells. That is
    one equation for each level, in which only its neighbours occur: Newton's method, with
    a tridiagonal matrix of derivatives, solves them in a few steps.

    Parameters
    ----------
    width : int
        0 … 8, the bits of a level.

    Returns
    -------
    levels : ndarray of float64
        The positive half of the 2^width levels, ascending; the level 0 for no bits.
    distortion : float
        The mean squared error.

    Examples
    --------
    >>> levels, distortion = lloyd_max(2)
    >>> levels.round(4).tolist(), round(distortion, 4)
    ([0.4528, 1.5104], 0.1175)
    """
    if width == 0:
        return np.zeros(1), 1.0
    half = 2 ** (width - 1)
    # Many levels have the density of N(0, 3): the cube root of that of N(0, 1).
    start = NormalDist(0, math.sqrt(3))
    levels = np.array([start.inv_cdf(0.5 + (i + 0.5) / (2 * half)) for i in range(half)])
    for _ in range(_NEWTON_STEPS):
        edges = [0, *(levels[:-1] + levels[1:]) / 2, math.inf]
        density = np.array([NormalDist().pdf(edge) for edge in edges])
        mass = -np.diff([math.erfc(edge / math.sqrt(2)) / 2 for edge in edges])
        centroids = -np.diff(density) / mass
        # By how much a centroid follows the inner edge below it, and the one above it.
        below = density[1:-1] * (centroids[1:] - edges[1:-1]) / mass[1:]
        above = density[1:-1] * (edges[1:-1] - centroids[:-1]) / mass[:-1]
        own = np.append(0, below) + np.append(above, 0)
        moved = (np.diag(below, -1) + np.diag(own) + np.diag(above, 1)) / 2
        levels = levels + np.linalg.solve(np.eye(half) - moved, centroids - levels)
    # E[(z - Q(z))^2] = E[z^2] - E[Q(z) (2 z - Q(z))]
    return levels, 1 - 2 * math.fsum(mass * levels * (2 * centroids - levels))


def codebook(width: int) -> NDArray[np.float32]:
    """Return the positive levels of a width as the format has them, in float32.

    Examples
    --------
    >>> codebook(1).tolist()
    [0.7978845834732056]
    """
    return lloyd_max(width)[0].astype(np.float32)


def thresholds(width: int) -> NDArray[np.float32]:
    """Return the thresholds between neighbours in a `codebook`, in float32."""
    levels = codebook(width).astype(np.float64)
    return ((levels[:-1] + levels[1:]) / 2).astype(np.float32)


def split_budget(bits: float) -> tuple[int, int]:
    """Return the width of narrow chunks, and the part of wide ones in units of 2^-32.

    Raises
    ------
    ValueError
        For a budget below `MIN_BITS` or above `MAX_WIDTH`.

    Examples
    --------
    >>> split_budget(2), split_budget(0.5)
    ((2, 0), (0, 2147483648))
    """
    if not MIN_BITS <= bits <= MAX_WIDTH:
        raise ValueError(f"bits is {bits}, expected {MIN_BITS} to {MAX_WIDTH}")
    width = math.floor(bits)
    return width, math.floor((bits - width) * 2**32)


def theory_nmse(bits: float) -> float:
    """Return the error of a long vector, relative to its squared norm, with the unbiased scale.

    Parameters
    ----------
    bits : float
        0.1 … 8.

    Returns
    -------
    float
        1 / (1 - D) - 1, where D is the mean of the distortions of all chunks.

    Examples
    --------
    >>> round(theory_nmse(1), 4), round(theory_nmse(1.5), 4)
    (0.5708, 0.3165)
    """
    width, fraction = split_budget(bits)
    distortion = lloyd_max(width)[1]
    if fraction > 0:
        distortion += fraction / 2**32 * (lloyd_max(width + 1)[1] - distortion)
    return 1 / (1 - distortion) - 1


# Rotation (sections 4.1 and 4.4) -----------------------------------------------------------------


def counter_random(key: int, counters: ArrayLike) -> NDArray[np.uint64]:
    """Return 64 random bits for each counter: SplitMix64's finalizer.

    Parameters
    ----------
    key : int
        0 … 2^64 - 1.
    counters : array_like of int
        0 … 2^64 - 1.

    Returns
    -------
    ndarray of uint64
        In the shape of ``counters``.

    Examples
    --------
    >>> hex(counter_random(0, 0))
    '0xe220a8397b1dcdaf'
    """
    with np.errstate(over="ignore"):  # arithmetic is modulo 2^64
        counters = np.asarray(counters, np.uint64)
        z = np.uint64(key) + (counters + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        result: NDArray[np.uint64] = z ^ z >> np.uint64(31)
        return result


def signs(seed: int, round_number: int, start: int, size: int) -> NDArray[np.float32]:
    """Return the diagonal of D_r for the coordinates from ``start`` on, r the number of the round.

    Examples
    --------
    >>> signs(seed=7, round_number=1, start=60, size=6).tolist()
    [1.0, 1.0, 1.0, -1.0, 1.0, 1.0]
    """
    i = np.arange(start, start + size, dtype=np.uint64)
    words = counter_random(_key(seed, round_number), i // np.uint64(64))
    negative = words >> i % np.uint64(64) & np.uint64(1)
    diagonal: NDArray[np.float32] = np.where(negative, np.float32(-1), np.float32(1))
    return diagonal


def block_sizes(size: int) -> list[int]:
    """Return the sizes of the rotation blocks; up to 15 coordinates at the end are in none.

    Examples
    --------
    >>> block_sizes(2 * 32_768 + 100)
    [32768, 32768, 64, 32]
    """
    rest = size % MAX_BLOCK
    powers = [1 << p for p in range(14, 3, -1)]
    return [MAX_BLOCK] * (size // MAX_BLOCK) + [power for power in powers if rest & power]


def hadamard(x: NDArray[np.float32], *, descending: bool = False) -> NDArray[np.float32]:
    """Multiply the last axis by the Walsh-Hadamard matrix of entries ±1 in natural order.

    Parameters
    ----------
    x : ndarray of float32
        The size of the last axis is a power of two.
    descending : bool, optional
        Whether butterflies go from the largest distance down to 1, not from 1 up. Rounding errors
        depend on that.

    Returns
    -------
    ndarray of float32
        In the shape of ``x``.

    Examples
    --------
    >>> hadamard(np.float32([1, 2, 3, 4])).tolist()
    [10.0, -2.0, -4.0, 0.0]
    """
    distances = [1 << p for p in range(x.shape[-1].bit_length() - 1)]
    y = x
    for distance in reversed(distances) if descending else distances:
        a, b = np.moveaxis(y.reshape(-1, 2, distance), 1, 0)
        y = np.stack((a + b, a - b), axis=1)
    return y.reshape(x.shape)


def rotate(block: NDArray[np.float32], seed: int, start: int) -> NDArray[np.float32]:
    """Multiply a block by the orthogonal matrix R = H_m D_2 (I ⊗ H_g) D_1 / √(g m).

    Parameters
    ----------
    block : ndarray of float32
        A rotation block.
    seed : int
        0 … 2^64 - 1.
    start : int
        The place of the block's first coordinate in the tensor.

    Returns
    -------
    ndarray of float32
        As many values.

    Examples
    --------
    >>> x = np.arange(16, dtype=np.float32)
    >>> np.allclose(rotate_back(rotate(x, seed=7, start=0), seed=7, start=0), x)
    True
    """
    return _rotate_unscaled(block, seed, start) * _normalization(block.size)


def rotate_back(block: NDArray[np.float32], seed: int, start: int) -> NDArray[np.float32]:
    """Multiply a block by the transpose of R, in the order of operations that the format states.

    Parameters
    ----------
    block, seed, start
        As for `rotate`.

    Returns
    -------
    ndarray of float32
        As many values.
    """
    size = block.size
    y = hadamard(block, descending=True) * signs(seed, _SIGNS_2, start, size)
    y = hadamard(y.reshape(-1, _inner_size(size)), descending=True).ravel()
    return y * signs(seed, _SIGNS_1, start, size) * _normalization(size)


def _rotate_unscaled(block: NDArray[np.float32], seed: int, start: int) -> NDArray[np.float32]:
    size = block.size
    y = block * signs(seed, _SIGNS_1, start, size)
    y = hadamard(y.reshape(-1, _inner_size(size))).ravel()
    return hadamard(y * signs(seed, _SIGNS_2, start, size))


def _inner_size(size: int) -> int:
    """Return g."""
    return min(size, MAX_INNER_BLOCK)


def _normalization(size: int) -> np.float32:
    """Return 1 / √(g m)."""
    factor: np.float32 = np.float32(1 / math.sqrt(_inner_size(size) * size))
    return factor


def _key(seed: int, purpose: int) -> int:
    return int(counter_random(seed, purpose))


# Chunks and words (sections 4.2 and 4.3) ---------------------------------------------------------


def chunk_order(seed: int, block_number: int, num_chunks: int, fraction: int) -> NDArray[np.int64]:
    """Return the places of a block's chunks in the order in which they are sent.

    Parameters
    ----------
    seed : int
        0 … 2^64 - 1.
    block_number : int
        From 0.
    num_chunks : int
        A power of two.
    fraction : int
        The part of wide chunks in units of 2^-32; if that is 0, the order is the natural one.

    Returns
    -------
    ndarray of int64
        A permutation.

    Examples
    --------
    >>> chunk_order(seed=7, block_number=0, num_chunks=8, fraction=2**31).tolist()
    [3, 0, 5, 2, 7, 4, 1, 6]
    """
    j = np.arange(num_chunks)
    if fraction == 0:
        return j
    bits = int(counter_random(_key(seed, _ORDER), block_number))
    # Only what a and o are modulo the number of chunks matters.
    a, o = (bits | 1) % num_chunks, (bits >> 32) % num_chunks
    return (a * j + o) % num_chunks


def chunk_groups(
    seed: int, block_number: int, num_chunks: int, width: int, fraction: int
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield the width and the places of the chunks that are sent first, then those of the others.

    Parameters
    ----------
    seed, block_number, num_chunks, fraction
        As for `chunk_order`.
    width : int
        That of narrow chunks.

    Examples
    --------
    >>> [(v, places.tolist()) for v, places in chunk_groups(7, 0, 8, width=1, fraction=2**30)]
    [(2, [3, 0]), (1, [5, 2, 7, 4, 1, 6])]
    """
    order = chunk_order(seed, block_number, num_chunks, fraction)
    num_wide = -(-num_chunks * fraction >> 32)
    if width == 0 and num_chunks < MIN_DROPPING_CHUNKS:
        num_wide = num_chunks  # estimates from a part of a small block would be biased
    if num_wide > 0:
        yield width + 1, order[:num_wide]
    if num_wide < num_chunks:
        yield width, order[num_wide:]


def quantize(t: NDArray[np.float32], width: int) -> NDArray[np.uint8]:
    """Return the words of the nearest levels; on a threshold, that of the larger magnitude.

    Examples
    --------
    >>> quantize(np.float32([-2, -0.1, 0.1, 2]), width=2).tolist()
    [3, 2, 0, 1]
    """
    if width == 0:
        return np.zeros(t.shape, np.uint8)
    rank = np.searchsorted(thresholds(width), np.abs(t), side="right")
    sign = np.where(np.signbit(t), 1 << (width - 1), 0)
    return (rank | sign).astype(np.uint8)


def dequantize(words: NDArray[np.uint8], width: int) -> NDArray[np.float32]:
    """Return the levels that words stand for.

    Examples
    --------
    >>> dequantize(np.uint8([1, 0]), width=1).tolist()
    [-0.7978845834732056, 0.7978845834732056]
    """
    levels = codebook(width)
    return np.concatenate((levels, -levels))[words]


def pack_planes(words: NDArray[np.uint8], width: int) -> bytes:
    """Write chunks of words, one a row, as planes of bits.

    Examples
    --------
    >>> pack_planes(np.uint8([[3] + 14 * [0] + [2]]), width=2).hex()
    '01000180'
    """
    place = np.arange(width, dtype=np.uint8)[:, np.newaxis]
    planes = words[:, np.newaxis, :] >> place & np.uint8(1)
    return np.packbits(planes, bitorder="little").tobytes()


def unpack_planes(data: bytes, width: int, num_chunks: int) -> NDArray[np.uint8]:
    """Read what `pack_planes` wrote.

    Examples
    --------
    >>> unpack_planes(bytes.fromhex("01000180"), width=2, num_chunks=1)[0].tolist()
    [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]
    """
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    planes = bits.reshape(num_chunks, width, CHUNK)
    place = np.arange(width, dtype=np.uint8)[:, np.newaxis]
    words: NDArray[np.uint8] = np.bitwise_or.reduce(planes << place, axis=1)
    return words


# The codec ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Encoded:
    """A vector as EDEN sends it in words of fixed width.

    Attributes
    ----------
    bits : float
        The budget.
    width : int
        w, the bits of a word in narrow chunks.
    fraction : int
        f, the part of chunks with words of w + 1 bits, in units of 2^-32.
    seed : int
        Where the signs and the order of chunks come from.
    scales : ndarray of float32
        S, one for each rotation block.
    tail : ndarray of float32
        Up to 15 coordinates that are in no block.
    words : ndarray of uint8
        One for each coordinate of the blocks, in the order of the coordinates.
    """

    bits: float
    width: int
    fraction: int
    seed: int
    scales: NDArray[np.float32]
    tail: NDArray[np.float32]
    words: NDArray[np.uint8]

    def groups(self, block_number: int, num_chunks: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yield the `chunk_groups` of a block."""
        return chunk_groups(self.seed, block_number, num_chunks, self.width, self.fraction)


def encode(
    x: NDArray[np.float32],
    bits: float,
    seed: int,
    scale: Literal["unbiased", "mse"] = "unbiased",
) -> Encoded:
    """Encode a vector.

    Parameters
    ----------
    x : ndarray of float32
        Finite values, in any shape.
    bits : float
        The budget in bits a coordinate, 0.1 … 8.
    seed : int
        0 … 2^64 - 1.
    scale : {"unbiased", "mse"}, optional
        Whether the mean of what is decoded, over all seeds, is ``x``; or its error is the least.

    Returns
    -------
    Encoded
        What `decode` and `payload` take.

    Raises
    ------
    ValueError
        For values that are not finite, or so large that a scale would not be, and for options out
        of range.

    Examples
    --------
    >>> x = np.random.default_rng(1).standard_normal(4096, np.float32)
    >>> error = decode(encode(x, bits=2, seed=7)) - x
    >>> round(float(error @ error / (x @ x)), 2), round(theory_nmse(2), 2)
    (0.13, 0.13)
    """
    width, fraction = split_budget(bits)
    _check_input(x, seed, scale)
    x = x.ravel()
    end = x.size - x.size % CHUNK
    words = np.zeros(end, np.uint8)
    scales = np.zeros(len(block_sizes(end)), np.float32)

    for number, block in _blocks(end):
        start, size = block.start, block.stop - block.start
        largest = float(np.abs(x[block]).max())
        if largest == 0:
            continue

        # 1. A power of two brings the block to order 1: no square overflows or vanishes.
        exponent = max(math.frexp(largest)[1] - 1, -126)
        z = x[block] * np.float32(2.0**-exponent)
        norm = math.sqrt(np.sum(z.astype(np.float64) ** 2))

        # 2. Rotate; t = √m / norm · R z has unit variance.
        factor = np.float32(1 / (math.sqrt(_inner_size(size)) * norm))
        t = (_rotate_unscaled(z, seed, start) * factor).reshape(-1, CHUNK)

        # 3. Quantize.
        q = np.zeros_like(t)
        chunks = words[block].reshape(-1, CHUNK)
        for v, places in chunk_groups(seed, number, len(t), width, fraction):
            chunks[places] = quantize(t[places], v)
            q[places] = dequantize(chunks[places], v)

        # 4. Scale: ‖z‖² / ⟨R z, q⟩; or ⟨R z, q⟩ / ‖q‖², which minimizes ‖z − S Rᵀ q‖.
        tq = float(np.sum(t.astype(np.float64) * q))
        qq = float(np.sum(q.astype(np.float64) * q))
        if tq > 0:
            root = math.sqrt(size)
            s = norm * root / tq if scale == "unbiased" else norm / root * (tq / qq)
            if s * 2.0**exponent > LARGEST:
                raise ValueError("x has values whose estimates would be beyond float32")
            scales[number] = s * 2.0**exponent

    return Encoded(bits, width, fraction, seed, scales, x[end:].copy(), words)


def decode(encoded: Encoded) -> NDArray[np.float32]:
    """Return the vector that was encoded, as good as its words tell.

    Parameters
    ----------
    encoded : Encoded
        From `encode`.

    Returns
    -------
    ndarray of float32
        A flat vector.
    """
    levels = np.zeros(encoded.words.size, np.float32)
    for number, block in _blocks(levels.size):
        words = encoded.words[block].reshape(-1, CHUNK)
        q = levels[block].reshape(-1, CHUNK)
        for v, places in encoded.groups(number, len(words)):
            q[places] = dequantize(words[places], v)
    return restore(levels, encoded.scales, encoded.tail, encoded.seed)


def restore(
    levels: NDArray[np.float32], scales: NDArray[np.float32], tail: NDArray[np.float32], seed: int
) -> NDArray[np.float32]:
    """Rotate the levels of all blocks back, scale them, and append the tail (section 4.4).

    Parameters
    ----------
    levels : ndarray of float32
        q, as many as the blocks have coordinates.
    scales : ndarray of float32
        One for each block.
    tail : ndarray of float32
        The coordinates that are in no block.
    seed : int
        0 … 2^64 - 1.

    Returns
    -------
    ndarray of float32
        A flat vector; what would be infinite is the largest finite value.
    """
    x_hat = np.append(levels, tail)
    with np.errstate(over="ignore", invalid="ignore"):
        for number, block in _blocks(levels.size):
            x_hat[block] = rotate_back(levels[block], seed, block.start) * scales[number]
    largest = np.float32(LARGEST)  # NumPy 1 would make float64 of a Python float
    return np.clip(x_hat, -largest, largest)


def payload(encoded: Encoded) -> bytes:
    """Return the payload of a frame, in words of fixed width (section 4, mode 0).

    Examples
    --------
    >>> payload(encode(np.float32([1, 2]), bits=1, seed=7)).hex(" ", -4)
    '00010000 00000000 803f0700 00000000 00000000 803f0000 0040'
    """
    if encoded.words.size + encoded.tail.size == 0:
        return b""
    parts = [
        struct.pack("<BBIfQ", 0, encoded.width, encoded.fraction, encoded.bits, encoded.seed),
        encoded.scales.astype("<f4").tobytes(),
        encoded.tail.astype("<f4").tobytes(),
    ]
    for number, block in _blocks(encoded.words.size):
        words = encoded.words[block].reshape(-1, CHUNK)
        groups = encoded.groups(number, len(words))
        parts += [pack_planes(words[places], v) for v, places in groups]
    return b"".join(parts)


def _blocks(size: int) -> Iterator[tuple[int, slice]]:
    """Yield the numbers and the coordinates of the rotation blocks."""
    ends = itertools.accumulate(block_sizes(size), initial=0)
    for number, (start, stop) in enumerate(itertools.pairwise(ends)):
        yield number, slice(start, stop)


def _check_input(x: NDArray[np.float32], seed: int, scale: str) -> None:
    if x.dtype != np.float32:
        raise ValueError(f"x has dtype {x.dtype}, expected float32")
    if not np.isfinite(x).all():
        raise ValueError("x has values that are not finite")
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed is {seed}, expected 0 to 2^64 - 1")
    if scale not in ("unbiased", "mse"):
        raise ValueError(f"scale is {scale!r}, expected 'unbiased' or 'mse'")
