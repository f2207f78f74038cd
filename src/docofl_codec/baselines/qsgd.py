"""QSGD with Elias gamma coding.

Alistarh, Grubic, Li, Tomioka and Vojnovic, "QSGD: Communication-Efficient SGD via Gradient
Quantization and Encoding", NIPS 2017. Their s is `levels`.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from docofl_codec import _core
from docofl_codec.baselines._base import (
    Baseline,
    Floats,
    check_range,
    payload_budget,
    to_finite_float32,
)
from docofl_codec.baselines._random import random_word
from docofl_codec.baselines._reader import PayloadReader
from docofl_codec.baselines._stochastic import ROUNDING_KEY
from docofl_codec.codec import register_codec
from docofl_codec.errors import CorruptFrameError, InvalidInputError
from docofl_codec.frame import ForeignPayload, register_payload

__all__ = ["QSGD"]

MAX_LEVELS = 1 << 30
MAX_NORM = 2.0**256
PARAMETER_BYTES = 13
SPARE_SIGMAS = 5
VARINT_BITS = 80  # of a number of 64 bits, and more
SAMPLE = 1 << 16
TRIAL_KEY = 6
DENSE, SPARSE = 0, 1


@dataclass(frozen=True, kw_only=True)
class QSGD(Baseline):
    """Coordinates as random multiples of ``norm / levels``, in Elias gamma words.

    Unbiased: the mean of the decoded tensor over seeds is the tensor. The number of levels is found
    with random numbers other than those of the words, in order not to spoil that.

    Parameters
    ----------
    bits : float, default 2
        The budget in bits a coordinate, 0.5 to 32:
        ``8 * len(blob) <= bits * size + 8 * (64 + 10 * ndim)``.
    levels : int, optional
        The paper's s, 1 to 2^30, instead of a budget.
    threads : int, optional
        Threads of the checksum.

    Examples
    --------
    >>> import numpy as np
    >>> from docofl_codec import inspect
    >>> from docofl_codec.baselines import QSGD
    >>> blob = QSGD(levels=100).encode(np.ones(1000, dtype=np.float32), seed=1)
    >>> inspect(blob).num_levels
    100
    """

    name: ClassVar[str] = "qsgd"
    codec_id: ClassVar[int] = 18
    bits: float = 2.0
    levels: int | None = None

    def _check_options(self) -> None:
        check_range("bits", self.bits, 0.5, 32)
        if self.levels is not None:
            check_range("levels", self.levels, 1, MAX_LEVELS)

    def _payload(self, x: Floats, seed: int) -> bytes:
        norm = _core.euclidean_norm(x)
        key = random_word(seed, ROUNDING_KEY)
        if self.levels is not None:
            return _write(x, norm, int(self.levels), key)
        budget = payload_budget(self.bits, x.size)
        trial = _Trial(x, norm, random_word(seed, TRIAL_KEY), 8.0 * (budget - PARAMETER_BYTES))
        levels = trial.find_levels()
        # Rarely, a draw takes much more than the trial.
        while len(payload := _write(x, norm, levels, key)) > budget:
            if levels == 1:
                raise InvalidInputError(
                    f"bits: found {self.bits}, but one level takes {len(payload)} bytes"
                )
            levels -= max(levels // 64, 1)
        return payload


def _write(x: Floats, norm: float, levels: int, key: int) -> bytes:
    multiples = np.empty(x.size, np.int32)
    _core.qsgd_quantize(x, norm, levels, key, multiples)
    dense, sparse, _ = _core.qsgd_cost(x, norm, levels, key)
    mode = SPARSE if sparse + VARINT_BITS < dense else DENSE
    return struct.pack("<BdI", mode, norm, levels) + _core.gamma_encode(multiples, mode == SPARSE)


@dataclass(frozen=True)
class _Trial:
    """Words of a draw that is not sent."""

    x: Floats
    norm: float
    key: int
    budget_bits: float

    def fits(self, levels: int) -> bool:
        """Tell whether another draw is within the budget, most likely."""
        dense, sparse, variance = _core.qsgd_cost(self.x, self.norm, levels, self.key)
        spare = SPARE_SIGMAS * math.sqrt(2 * variance) + VARINT_BITS
        return min(dense, sparse) + spare <= self.budget_bits

    def find_levels(self) -> int:
        """Return the most levels that fit, to a thousandth."""
        low, high = 1, 2
        if self.x.size > 4 * SAMPLE:
            step = self.x.size // SAMPLE
            sample = np.ascontiguousarray(self.x[::step])
            part = self.budget_bits * sample.size / self.x.size
            guess = _Trial(sample, self.norm, self.key, part).find_levels()
            if guess >= 32 and self.fits(guess - guess // 16):
                low, high = guess - guess // 16, guess + guess // 16
        while high <= MAX_LEVELS and self.fits(high):
            low, high = high, 2 * high
        while high - low > max(low // 1024, 1):
            middle = (low + high) // 2
            if self.fits(middle):
                low = middle
            else:
                high = middle
        return min(low, MAX_LEVELS)


def _read_parameters(reader: PayloadReader) -> tuple[int, float, int]:
    mode, norm, levels = reader.unpack("BdI", "mode, norm and levels")
    if mode not in (DENSE, SPARSE):
        raise CorruptFrameError(f"mode: found {mode}, expected 0 or 1")
    if not 0 <= norm <= MAX_NORM:
        raise CorruptFrameError(f"norm: found {norm}, expected 0 to 2^256")
    if not 1 <= levels <= MAX_LEVELS:
        raise CorruptFrameError(f"levels: found {levels}, expected 1 to 2^30")
    return mode, norm, levels


def _decode(payload: bytes, size: int, threads: int) -> Floats:  # noqa: ARG001
    reader = PayloadReader(payload, size)
    mode, norm, levels = _read_parameters(reader)
    stream = reader.rest()
    if mode == DENSE and len(stream) < size // 8:
        raise CorruptFrameError(f"words: found {len(stream)} bytes for {size} coordinates")
    multiples = np.empty(size, np.int32)
    reader.take(_core.gamma_decode(stream, mode == SPARSE, multiples), "words")
    reader.finish()
    return to_finite_float32(multiples.astype(np.float64) * (norm / levels))


def _describe(payload: bytes, size: int) -> dict[str, Any]:
    _, norm, levels = _read_parameters(PayloadReader(payload, size))
    return {"num_levels": levels, "step": norm / levels}


register_codec(QSGD)
register_payload(QSGD.codec_id, ForeignPayload(_decode, _describe))
