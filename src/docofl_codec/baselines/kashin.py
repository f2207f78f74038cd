"""Kashin's representation followed by stochastic quantization.

Lyubarskii and Vershynin, "Uncertainty Principles and Vector Quantization", IEEE Transactions on
Information Theory 56(7), 2010; as a compressor: Safaryan, Shulgin and Richtárik, "Uncertainty
Principle for Communication Compression in Distributed and Federated Learning", 2022.

A block of n coordinates becomes N > n coefficients of a tight frame, the first n columns of a
random rotation of size N. Of all the coefficient vectors that give the block, the algorithm finds
one whose entries are about equally large: it truncates the coefficients, and goes on with what the
truncation took away. That narrows the range that stochastic quantization has to cover. The paper's
delta and eta are `DELTA` and `ETA`.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from docofl_codec import _core
from docofl_codec._buffers import check_threads
from docofl_codec.baselines import _stochastic
from docofl_codec.baselines._base import Baseline, Floats, check_range
from docofl_codec.baselines._reader import PayloadReader
from docofl_codec.baselines.hadamard import read_scale
from docofl_codec.codec import register_codec
from docofl_codec.errors import CorruptFrameError
from docofl_codec.frame import ForeignPayload, register_payload

__all__ = ["KashinSQ"]

# Of 32 coefficients' places, the first `density` hold a coordinate before the rotation.
UNIT = 32
DENSITY = 28
MIN_DENSITY = 16  # that a reader accepts: a frame takes memory for two coefficients a coordinate
DELTA = 1.0  # the first limit is |x| / sqrt(delta N)
ETA = 0.6  # of each limit to the one before


@dataclass(frozen=True, kw_only=True)
class KashinSQ(Baseline):
    """Kashin's representation, then stochastic quantization between the extremes of each block.

    Unbiased: the mean of the decoded tensor over seeds is the tensor.

    Parameters
    ----------
    bits : float, default 2
        Bits a coordinate, 8/7 to 16. There are 32 coefficients for 28 coordinates, which share the
        bits. A frame takes at most
        ``bits * size / 8 + 168 + 10 * ndim + 8 * (size // 28672 + 11)`` bytes.
    iterations : int, default 16
        Rounds of truncation, the last of which keeps what is left.
    threads : int, optional
        Threads of the rotations.
    """

    name: ClassVar[str] = "kashin-sq"
    codec_id: ClassVar[int] = 17
    bits: float = 2.0
    iterations: int = 16

    def _check_options(self) -> None:
        check_range("bits", self.bits, UNIT / DENSITY, _stochastic.MAX_BITS)
        check_range("iterations", self.iterations, 1, 1000)

    def _payload(self, x: Floats, seed: int) -> bytes:
        y, exponent = _stochastic.scale_down(x)
        layout = _Layout.of(x.size, DENSITY)
        coefficients = _representation(
            y[: layout.num_coordinates], layout, seed, self.iterations, check_threads(self.threads)
        )
        bits = self.bits * layout.num_coordinates / max(coefficients.size, 1)
        levels = _stochastic.Levels.for_bits(max(bits, 1))
        return b"".join(
            [
                struct.pack("<QhB", seed, exponent, DENSITY),
                x[layout.num_coordinates :].astype("<f4").tobytes(),
                _stochastic.quantize(coefficients, levels, seed),
            ]
        )


@dataclass(frozen=True)
class _Layout:
    """Which coefficients stand for coordinates before the frame is applied; the others are 0."""

    num_units: int
    density: int

    @classmethod
    def of(cls, size: int, density: int) -> _Layout:
        return cls(size // density, density)

    @property
    def num_coordinates(self) -> int:
        return self.num_units * self.density

    @property
    def num_coefficients(self) -> int:
        return self.num_units * UNIT

    def held(self, coefficients: Floats) -> Floats:
        """Return those that stand for coordinates, a row a unit, as a view."""
        return coefficients.reshape(-1, UNIT)[:, : self.density]

    def others(self, coefficients: Floats) -> Floats:
        """Return the others, likewise."""
        return coefficients.reshape(-1, UNIT)[:, self.density :]


def _representation(y: Floats, layout: _Layout, seed: int, iterations: int, threads: int) -> Floats:
    """Return coefficients of about equal size that give y."""
    blocks = list(_stochastic.block_slices(layout.num_coefficients))
    lengths = [block.stop - block.start for block in blocks]
    padded = np.zeros(layout.num_coefficients, np.float32)
    layout.held(padded)[:] = y.reshape(-1, layout.density)
    limits = np.array(
        [
            _core.euclidean_norm(padded[block]) / math.sqrt(DELTA * length)
            for block, length in zip(blocks, lengths, strict=True)
        ],
        np.float32,
    )
    total = np.zeros_like(padded)
    coefficients, back = np.empty_like(padded), np.empty_like(padded)
    for _ in range(iterations - 1):
        # 1. The coefficients of what is left, truncated.
        _core.eden_rotate(padded, coefficients, seed, threads)
        limit = np.repeat(limits, lengths)
        np.clip(coefficients, -limit, limit, out=coefficients)
        total += coefficients
        # 2. What the truncated ones do not give is left.
        _core.eden_rotate_back(coefficients, back, seed, threads)
        padded -= back
        layout.others(padded)[:] = 0
        limits *= np.float32(ETA)
    _core.eden_rotate(padded, coefficients, seed, threads)
    return total + coefficients


def _decode(payload: bytes, size: int, threads: int) -> Floats:
    reader = PayloadReader(payload, size)
    seed, exponent, layout = _read_parameters(reader, size)
    tail = reader.floats(size - layout.num_coordinates, "tail")
    coefficients = _stochastic.dequantize(reader, layout.num_coefficients)
    reader.finish()
    y = np.empty_like(coefficients)
    _core.eden_rotate_back(coefficients, y, seed, threads)
    return np.concatenate([_stochastic.scale_up(layout.held(y).ravel(), exponent), tail])


def _read_parameters(reader: PayloadReader, size: int) -> tuple[int, int, _Layout]:
    seed, exponent = read_scale(reader)
    (density,) = reader.unpack("B", "density")
    if not MIN_DENSITY <= density <= UNIT:
        raise CorruptFrameError(f"density: found {density}, expected {MIN_DENSITY} to {UNIT}")
    return seed, exponent, _Layout.of(size, density)


def _describe(payload: bytes, size: int) -> dict[str, Any]:
    reader = PayloadReader(payload, size)
    seed, _, layout = _read_parameters(reader, size)
    reader.floats(size - layout.num_coordinates, "tail")
    return {"seed": seed, "bits": _stochastic.read_levels(reader).bits}


register_codec(KashinSQ)
register_payload(KashinSQ.codec_id, ForeignPayload(_decode, _describe))
