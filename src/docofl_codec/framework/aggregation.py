"""The mean of the clients' updates, one frame at a time: memory of one vector."""

from __future__ import annotations

import math
from typing import Any, Protocol, runtime_checkable

import numpy as np

from docofl_codec.codec import Codec
from docofl_codec.errors import InvalidInputError
from docofl_codec.framework.vectors import Vector, as_vector, is_finite, squared_norm

__all__ = ["Aggregator", "aggregator_for", "decoded_update"]


@runtime_checkable
class Aggregator(Protocol):
    """A running weighted mean of frames. A frame that is refused leaves it as it was."""

    def add(self, blob: bytes, weight: float = 1.0) -> None:
        """Add a frame, or raise CodecError."""
        ...

    def mean(self) -> Any:
        """Return the mean so far."""
        ...


class DecodingAggregator:
    """For codecs without a mean of their own: decode, check, add.

    Frames are decoded into memory of the expected size, so that one that declares another size is
    refused before anything is allocated for it.

    Parameters
    ----------
    codec : Codec
        Of the updates.
    size : int
        Of an update.
    max_norm : float, optional
        Refuse updates with a larger Euclidean norm.
    """

    def __init__(self, codec: Codec, size: int, max_norm: float | None = None) -> None:
        self._codec = codec
        self._size = size
        self._max_norm = max_norm
        self._sum: Vector | None = None
        self._weight = 0.0

    def add(self, blob: bytes, weight: float = 1.0) -> None:
        """Add a frame."""
        update = scratch = decoded_update(self._codec, blob, self._size, self._max_norm)
        with np.errstate(over="ignore", invalid="ignore"):
            if weight != 1.0:
                update = np.multiply(update, np.float32(weight), out=scratch)
            if self._sum is not None:
                update = np.add(self._sum, update, out=scratch)
        if not is_finite(update):
            raise InvalidInputError("update: found values that are too large to be added up")
        self._sum = update
        self._weight += weight

    def mean(self) -> Vector:
        """Return the mean so far."""
        if self._sum is None or self._weight == 0:
            raise InvalidInputError("mean: found no update with a weight, expected at least one")
        result: Vector = self._sum / np.float32(self._weight)
        return result


def decoded_update(codec: Codec, blob: bytes, size: int, max_norm: float | None = None) -> Vector:
    """Return a client's update, in memory of its own, or raise CodecError."""
    scratch: Vector = np.empty(size, dtype=np.float32)
    update = as_vector(codec.decode(blob, out=scratch), size=size, what="update")
    check_norm(squared_norm(update), max_norm)
    if not np.may_share_memory(update, scratch):
        np.copyto(scratch, update)
    return scratch


def check_norm(square: float, max_norm: float | None) -> None:
    """Refuse an update beyond a norm."""
    if max_norm is not None and not math.sqrt(square) <= max_norm:
        raise InvalidInputError(
            f"update: found a norm of {math.sqrt(square):g}, expected at most {max_norm:g}"
        )


def aggregator_for(codec: Codec, size: int, max_norm: float | None = None) -> Aggregator:
    """Return the codec's own accumulator where it has one, otherwise one that decodes.

    A limit on norms needs every update decoded.
    """
    make = getattr(codec, "accumulator", None)
    if make is None or max_norm is not None:
        return DecodingAggregator(codec, size, max_norm)
    own: Aggregator = make((size,))
    return own
