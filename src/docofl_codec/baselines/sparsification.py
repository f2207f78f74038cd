"""Rand-K and Top-K: some coordinates as they are, and nothing of the others.

Alistarh, Hoefler, Johansson, Konstantinov, Khirirat and Renggli, "The Convergence of Sparsified
Gradient Methods", NeurIPS 2018.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from docofl_codec.baselines._base import (
    Baseline,
    Floats,
    check_range,
    payload_budget,
    to_finite_float32,
)
from docofl_codec.baselines._bits import pack_positions, position_bytes, unpack_positions
from docofl_codec.baselines._random import random_word, random_words
from docofl_codec.baselines._reader import PayloadReader
from docofl_codec.codec import register_codec
from docofl_codec.errors import CorruptFrameError
from docofl_codec.frame import ForeignPayload, register_payload

__all__ = ["RandK", "TopK"]

VALUE_BYTES = 4
CHOICE_KEY = 5


@dataclass(frozen=True, kw_only=True)
class _Sparse(Baseline):
    """Keeps K coordinates."""

    short_option: ClassVar[str] = "fraction"
    fraction: float = 0.1
    bits: float | None = None

    def _check_options(self) -> None:
        check_range("fraction", self.fraction, 0, 1)
        if self.bits is not None:
            check_range("bits", self.bits, 0, 64)

    def _num_kept(self, size: int) -> int:
        """Return K: at least 1, for a budget the most that fit it."""
        if self.bits is None:
            return min(max(round(self.fraction * size), 1), size)
        budget = payload_budget(self.bits, size)
        low, high = 1, size + 1
        while high - low > 1:
            middle = (low + high) // 2
            if self._num_bytes(middle, size) <= budget:
                low = middle
            else:
                high = middle
        # All coordinates need no positions and may fit where one fewer does not.
        return size if self._num_bytes(size, size) <= budget else low

    @staticmethod
    @abstractmethod
    def _num_bytes(num_kept: int, size: int) -> int:
        """Return the bytes of a payload."""


@dataclass(frozen=True, kw_only=True)
class RandK(_Sparse):
    """K coordinates at random, times size / K.

    Unbiased: the mean of the decoded tensor over seeds is the tensor. Which coordinates they are
    follows from the seed and takes no bytes.

    Parameters
    ----------
    fraction : float, default 0.1
        K as a part of the size; at least one coordinate is kept. A frame takes at most
        ``4 * K + 64 + 10 * ndim`` bytes.
    bits : float, optional
        A budget in bits a coordinate instead:
        ``8 * len(blob) <= bits * size + 8 * (64 + 10 * ndim)``.
    unbiased : bool, default True
        False leaves out the factor size / K, for a smaller error of a single tensor.
    threads : int, optional
        Threads of the checksum.

    Examples
    --------
    >>> import numpy as np
    >>> from docofl_codec.baselines import RandK
    >>> codec = RandK(fraction=0.5)
    >>> sorted(codec.decode(codec.encode(np.ones(4, dtype=np.float32), seed=1)).tolist())
    [0.0, 0.0, 2.0, 2.0]
    """

    name: ClassVar[str] = "randk"
    codec_id: ClassVar[int] = 19
    unbiased: bool = True

    @staticmethod
    def _num_bytes(num_kept: int, size: int) -> int:  # noqa: ARG004
        return 17 + VALUE_BYTES * num_kept

    def _payload(self, x: Floats, seed: int) -> bytes:
        num_kept = self._num_kept(x.size)
        values = x[_choose(seed, num_kept, x.size)]
        header = struct.pack("<QBQ", seed, bool(self.unbiased), num_kept)
        return header + values.astype("<f4").tobytes()


def _choose(seed: int, num_kept: int, size: int) -> npt.NDArray[np.int64]:
    """Return the coordinates with the smallest random words, in order."""
    words = random_words(random_word(seed, CHOICE_KEY), 0, size)
    if num_kept == size:
        return np.arange(size)
    return np.sort(np.argpartition(words, num_kept - 1)[:num_kept])


def _read_randk(reader: PayloadReader, size: int) -> tuple[int, int, int]:
    seed, unbiased, num_kept = reader.unpack("QBQ", "seed, scale and K")
    if unbiased > 1:
        raise CorruptFrameError(f"scale: found {unbiased}, expected 0 or 1")
    _check_num_kept(num_kept, size)
    return seed, unbiased, num_kept


def _check_num_kept(num_kept: int, size: int) -> None:
    if not 1 <= num_kept <= size:
        raise CorruptFrameError(f"K: found {num_kept}, expected 1 to {size}")


def _decode_randk(payload: bytes, size: int, threads: int) -> Floats:  # noqa: ARG001
    reader = PayloadReader(payload, size)
    seed, unbiased, num_kept = _read_randk(reader, size)
    values = reader.floats(num_kept, "values").astype(np.float64)
    reader.finish()
    x = np.zeros(size, np.float32)
    factor = size / num_kept if unbiased else 1.0
    x[_choose(seed, num_kept, size)] = to_finite_float32(values * factor)
    return x


def _describe_randk(payload: bytes, size: int) -> dict[str, Any]:
    seed, _, num_kept = _read_randk(PayloadReader(payload, size), size)
    return {"seed": seed, "num_kept": num_kept}


@dataclass(frozen=True, kw_only=True)
class TopK(_Sparse):
    """The K coordinates of largest magnitude; of equal ones, the first.

    Biased, without randomness. Positions are sent in the code of Elias and Fano, at most
    ``2 + log2(size / K)`` bits each.

    Parameters
    ----------
    fraction : float, default 0.1
        K as a part of the size; at least one coordinate is kept.
    bits : float, optional
        A budget in bits a coordinate instead:
        ``8 * len(blob) <= bits * size + 8 * (64 + 10 * ndim)``.
    threads : int, optional
        Threads of the checksum.

    Examples
    --------
    >>> import numpy as np
    >>> from docofl_codec import make_codec
    >>> codec = make_codec("topk:0.5")
    >>> codec.decode(codec.encode(np.float32([1, -3, 2, 0])))
    array([ 0., -3.,  2.,  0.], dtype=float32)
    """

    name: ClassVar[str] = "topk"
    codec_id: ClassVar[int] = 20

    @staticmethod
    def _num_bytes(num_kept: int, size: int) -> int:
        return 8 + position_bytes(num_kept, size) + VALUE_BYTES * num_kept

    def _payload(self, x: Floats, seed: int) -> bytes:  # noqa: ARG002
        num_kept = self._num_kept(x.size)
        positions = _largest(np.abs(x), num_kept)
        values = x[positions].astype("<f4").tobytes()
        return struct.pack("<Q", num_kept) + pack_positions(positions, x.size) + values


def _largest(magnitudes: Floats, count: int) -> npt.NDArray[np.int64]:
    """Return the places of the largest values, in order."""
    if count == magnitudes.size:
        return np.arange(count)
    threshold = np.partition(magnitudes, magnitudes.size - count)[magnitudes.size - count]
    chosen = magnitudes > threshold
    equal = np.flatnonzero(magnitudes == threshold)
    chosen[equal[: count - int(chosen.sum())]] = True
    return np.flatnonzero(chosen)


def _decode_topk(payload: bytes, size: int, threads: int) -> Floats:  # noqa: ARG001
    reader = PayloadReader(payload, size)
    (num_kept,) = reader.unpack("Q", "K")
    _check_num_kept(num_kept, size)
    positions = unpack_positions(reader.take, num_kept, size)
    values = reader.floats(num_kept, "values")
    reader.finish()
    x = np.zeros(size, np.float32)
    x[positions] = values
    return x


def _describe_topk(payload: bytes, size: int) -> dict[str, Any]:
    (num_kept,) = PayloadReader(payload, size).unpack("Q", "K")
    _check_num_kept(num_kept, size)
    return {"num_kept": num_kept}


register_codec(RandK)
register_codec(TopK)
register_payload(RandK.codec_id, ForeignPayload(_decode_randk, _describe_randk))
register_payload(TopK.codec_id, ForeignPayload(_decode_topk, _describe_topk))
