"""What all baselines share: from a tensor to a payload in a frame, and the budget of a payload."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from docofl_codec import _core, frame
from docofl_codec._buffers import RawTensor, Tensor, as_raw, check_threads
from docofl_codec.codec import _FrozenCodec
from docofl_codec.eden import _check_seed
from docofl_codec.errors import InvalidInputError

__all__ = [
    "HEADER_BYTES",
    "Baseline",
    "Floats",
    "check_range",
    "flat_float32",
    "to_finite_float32",
]

Floats: TypeAlias = npt.NDArray[np.float32]

# Payloads have a byte for each so many coordinates, so that a frame's length bounds its tensor.
COORDINATES_PER_BYTE = 8192
# What a frame may take beyond its budget, for a tensor without dimensions, and what is left of that
# for the payload: a header has at most 18 bytes and 10 a dimension, a checksum 4.
HEADER_BYTES = 64
PAYLOAD_HEADER_BYTES = HEADER_BYTES - 22


@dataclass(frozen=True, kw_only=True)
class Baseline(_FrozenCodec):
    """A codec whose payloads are built from the flat float32 values of a tensor."""

    codec_id: ClassVar[int]
    threads: int | None = None

    def __post_init__(self) -> None:
        """Keep NumPy's numbers as Python's: narrow ones overflow when a budget is computed."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.number):
                object.__setattr__(self, field.name, value.item())

    def encode(self, tensor: Tensor, *, seed: int | None = None) -> bytes:
        """Compress a tensor; `seed` fixes what is random, a fresh one is taken by default."""
        raw = as_raw(tensor)
        threads = check_threads(self.threads)
        checked_seed = _check_seed(seed)
        self._check_options()
        x = flat_float32(raw)
        payload = self._payload(x, checked_seed) if x.size else b""
        filler = bytes(max(0, -(-x.size // COORDINATES_PER_BYTE) - len(payload)))
        return _core.wrap_payload(
            self.codec_id, raw.dtype, raw.shape, raw.flags, payload + filler, threads
        )

    def decode(self, blob: bytes, *, out: Tensor | None = None) -> Tensor:
        """Restore a tensor."""
        return frame._decode(blob, self.name, out, None, None, None, self.threads)

    def _check_options(self) -> None:
        """Raise InvalidInputError for options out of range."""

    @abstractmethod
    def _payload(self, x: Floats, seed: int) -> bytes:
        """Compress flat values, at least one."""


def flat_float32(raw: RawTensor) -> Floats:
    """Return a tensor's values as float32, checked to be finite."""
    x = np.empty(math.prod(raw.shape), np.float32)
    _core.load_tensor(raw.data, raw.dtype, raw.shape, x)
    return x


def payload_budget(bits: float, size: int) -> int:
    """Return the bytes of a payload whose frame keeps the bytes promise (docs/format.md, 9)."""
    return int(bits * size / 8) + PAYLOAD_HEADER_BYTES


def to_finite_float32(values: npt.NDArray[np.float64]) -> Floats:
    """Round to float32; what is beyond its range becomes its largest value."""
    limit = float(np.finfo(np.float32).max)
    return np.clip(values, -limit, limit).astype(np.float32)


def check_range(name: str, value: Any, low: float, high: float) -> None:
    """Refuse an option that is no number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name}: found {type(value).__qualname__}, expected a number")
    if not low <= value <= high:
        raise InvalidInputError(f"{name}: found {value}, expected {low:g} to {high:g}")
