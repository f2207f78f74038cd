"""Huffman code lengths and canonical prefix codes.

A code is given by one length per symbol, 0 for a symbol that is not used. Its words follow from
the lengths: ordered by length, then by symbol, with consecutive values, as in RFC 1951.
"""

import heapq

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .bits import BitReader


def huffman_lengths(counts: ArrayLike) -> NDArray[np.uint8]:
    """Return the lengths of an optimal prefix code.

    The lengths are not limited, but 64 bits would take more than 10^13 occurrences.

    Parameters
    ----------
    counts : array_like of int
        How often each symbol occurs.

    Returns
    -------
    ndarray of uint8
        Lengths in bits; 0 for symbols that never occur, and for the only one that does (its
        word has no bits).

    Examples
    --------
    >>> huffman_lengths([5, 0, 2, 1]).tolist()
    [1, 0, 2, 2]
    """
    counts = np.asarray(counts)
    used = np.flatnonzero(counts)
    lengths = np.zeros(counts.size, np.uint8)
    if used.size < 2:
        return lengths

    # Nodes 0 … used.size - 1 are leaves; a parent's number is larger than its children's.
    parent = [0] * (2 * used.size - 1)
    heap = [(count, node) for node, count in enumerate(counts[used].tolist())]
    heapq.heapify(heap)
    for node in range(used.size, len(parent)):
        lightest_count, lightest = heapq.heappop(heap)
        second_count, second = heap[0]
        heapq.heapreplace(heap, (lightest_count + second_count, node))
        parent[lightest] = parent[second] = node

    depth = [0] * len(parent)
    for node in range(len(parent) - 2, -1, -1):
        depth[node] = depth[parent[node]] + 1
    lengths[used] = depth[: used.size]
    return lengths


def is_complete(lengths: ArrayLike) -> bool:
    """Tell whether the used lengths fill the code space exactly: the sum of 2^-length is 1.

    Examples
    --------
    >>> is_complete([1, 2, 2]), is_complete([1, 2]), is_complete([1, 1, 1])
    (True, False, False)
    """
    used: list[int] = [length for length in np.asarray(lengths).tolist() if length > 0]
    longest = max(used, default=0)
    return sum(1 << (longest - length) for length in used) == 1 << longest


def canonical_codes(lengths: ArrayLike) -> NDArray[np.uint64]:
    """Return the canonical code words; the most significant of a word's bits comes first.

    Parameters
    ----------
    lengths : array_like of int
        The lengths of a prefix code, at most 63 bits.

    Returns
    -------
    ndarray of uint64
        One word per symbol, 0 for unused ones.

    Examples
    --------
    >>> [f"{code:b}" for code in canonical_codes([2, 1, 3, 3]).tolist()]
    ['10', '0', '110', '111']
    """
    lengths = np.asarray(lengths, np.uint64)
    codes = np.zeros(lengths.size, np.uint64)
    used = np.flatnonzero(lengths)
    if used.size == 0:
        return codes
    order = used[np.argsort(lengths[used], kind="stable")]
    # As binary fractions, words are the running sum of the shares of those before them.
    unused_bits = lengths[order[-1]] - lengths[order]
    share = np.uint64(1) << unused_bits
    codes[order] = (np.cumsum(share) - share) >> unused_bits
    return codes


def reversed_codes(lengths: ArrayLike) -> NDArray[np.uint64]:
    """Return the canonical words as bit fields, whose least significant bit is sent first.

    Examples
    --------
    >>> [f"{code:b}" for code in reversed_codes([2, 1, 3, 3]).tolist()]
    ['1', '0', '11', '111']
    """
    lengths = np.asarray(lengths, np.uint64)
    codes = canonical_codes(lengths)
    fields = np.zeros_like(codes)
    for _ in range(int(lengths.max(initial=0))):
        unfinished = lengths > 0
        fields[unfinished] = fields[unfinished] << np.uint64(1) | codes[unfinished] & np.uint64(1)
        codes >>= np.uint64(1)
        lengths = lengths - unfinished.astype(np.uint64)
    return fields


def read_width(reader: BitReader, previous: int, largest: int, what: str) -> int:
    """Read a number of at most `largest` that is written as its difference to `previous`."""
    z = 0
    while reader.bit() == 0:
        z += 1
    v = (1 << z | reader.field(z)) - 1
    width = previous + ((v + 1) // 2 if v % 2 else -(v // 2))
    if not 0 <= width <= largest:
        raise ValueError(f"{what} is {width}, expected 0 to {largest}")
    return width


class PrefixDecoder:
    """Reads the symbols of a complete canonical code, bit by bit.

    Parameters
    ----------
    lengths : array_like of int
        The lengths of the code, one per symbol.

    Raises
    ------
    ValueError
        When the code is not complete.
    """

    def __init__(self, lengths: ArrayLike) -> None:
        if not is_complete(lengths):
            raise ValueError("code table: lengths do not form a complete prefix code")
        words = zip(np.asarray(lengths).tolist(), canonical_codes(lengths).tolist(), strict=True)
        self._symbols = {word: symbol for symbol, word in enumerate(words) if word[0] > 0}

    def read(self, reader: BitReader) -> int:
        """Return the next symbol."""
        length, code = 1, reader.bit()
        while (symbol := self._symbols.get((length, code))) is None:
            length, code = length + 1, code << 1 | reader.bit()
        return symbol
