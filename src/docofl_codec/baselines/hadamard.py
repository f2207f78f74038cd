"""Hadamard rotation followed by stochastic quantization.

Suresh, Yu, Kumar and McMahan, "Distributed Mean Estimation with Limited Communication", ICML 2017.
The rotation is EDEN's, in blocks and without padding, so that both differ in the quantizer alone.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from docofl_codec import _core
from docofl_codec._buffers import check_threads
from docofl_codec.baselines import _stochastic
from docofl_codec.baselines._base import Baseline, Floats, check_range
from docofl_codec.baselines._reader import PayloadReader
from docofl_codec.codec import register_codec
from docofl_codec.errors import CorruptFrameError
from docofl_codec.frame import ForeignPayload, register_payload

__all__ = ["HadamardSQ"]


@dataclass(frozen=True, kw_only=True)
class HadamardSQ(Baseline):
    """Random rotation, then stochastic quantization between the extremes of each block.

    Unbiased: the mean of the decoded tensor over seeds is the tensor.

    Parameters
    ----------
    bits : float, default 2
        Bits a coordinate, 1 to 16; fractions mix two levels. A frame takes at most
        ``bits * size / 8 + 120 + 10 * ndim + 8 * (size // 32768 + 11)`` bytes.
    threads : int, optional
        Threads of the rotation.

    Examples
    --------
    >>> import numpy as np
    >>> from docofl_codec.baselines import HadamardSQ
    >>> x = np.random.default_rng(0).normal(size=10_000).astype(np.float32)
    >>> codec = HadamardSQ(bits=4)
    >>> x_hat = codec.decode(codec.encode(x, seed=1))
    >>> bool(np.mean((x - x_hat) ** 2) < 0.06)
    True
    """

    name: ClassVar[str] = "hadamard-sq"
    codec_id: ClassVar[int] = 16
    bits: float = 2.0

    def _check_options(self) -> None:
        check_range("bits", self.bits, 1, _stochastic.MAX_BITS)

    def _payload(self, x: Floats, seed: int) -> bytes:
        y, exponent = _stochastic.scale_down(x)
        tail = x[x.size - x.size % _stochastic.MIN_BLOCK :]
        rotated = np.empty_like(y)
        _core.eden_rotate(y, rotated, seed, check_threads(self.threads))
        return b"".join(
            [
                struct.pack("<Qh", seed, exponent),
                tail.astype("<f4").tobytes(),
                _stochastic.quantize(
                    rotated[: x.size - tail.size], _stochastic.Levels.for_bits(self.bits), seed
                ),
            ]
        )


def read_scale(reader: PayloadReader) -> tuple[int, int]:
    """Return seed and exponent."""
    seed, exponent = reader.unpack("Qh", "seed and exponent")
    if abs(exponent) > _stochastic.MAX_EXPONENT:
        raise CorruptFrameError(f"exponent: found {exponent}, expected -200 to 200")
    return seed, exponent


def _decode(payload: bytes, size: int, threads: int) -> Floats:
    reader = PayloadReader(payload, size)
    seed, exponent = read_scale(reader)
    num_tail = size % _stochastic.MIN_BLOCK
    tail = reader.floats(num_tail, "tail")
    coefficients = _stochastic.dequantize(reader, size - num_tail)
    reader.finish()
    y = np.empty_like(coefficients)
    _core.eden_rotate_back(coefficients, y, seed, threads)
    return np.concatenate([_stochastic.scale_up(y, exponent), tail])


def _describe(payload: bytes, size: int) -> dict[str, Any]:
    reader = PayloadReader(payload, size)
    seed, _ = read_scale(reader)
    reader.floats(size % _stochastic.MIN_BLOCK, "tail")
    return {"seed": seed, "bits": _stochastic.read_levels(reader).bits}


register_codec(HadamardSQ)
register_payload(HadamardSQ.codec_id, ForeignPayload(_decode, _describe))
