"""A client: algorithm 2 of the paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from docofl_codec.codec import Codec
from docofl_codec.errors import InvalidInputError
from docofl_codec.framework.errors import ProtocolError
from docofl_codec.framework.seeds import derive_seed
from docofl_codec.framework.vectors import Vector, as_vector

__all__ = ["Client", "Train"]

# From the model estimate to the update, new weights less old ones.
Train = Callable[[Vector], Any]


@dataclass
class Client:
    """One participation: fetch an anchor ahead, rebuild the model, train, send the update.

    Parameters
    ----------
    id : int
        i.
    anchor_codec, correction_codec, update_codec : Codec
        C_w, C_c and C_g, as the server's.
    seed : int, default 0
        Of the run.

    Examples
    --------
    >>> import numpy as np
    >>> from docofl_codec import Identity
    >>> client = Client(3, Identity(), Identity(), Identity())
    >>> client.receive_anchor(0, Identity().encode(np.ones(2, np.float32)))
    >>> frame = client.participate(
    ...     5, Identity().encode(np.full(2, 0.5, np.float32)), lambda w: -0.1 * w
    ... )
    >>> Identity().decode(frame)
    array([-0.15, -0.15], dtype=float32)
    """

    id: int
    anchor_codec: Codec
    correction_codec: Codec
    update_codec: Codec
    seed: int = 0
    anchor_id: int | None = None
    _anchor: Vector | None = None

    def receive_anchor(self, anchor_id: int, frame: bytes) -> None:
        """Keep a compressed anchor, ŷ, any time between notification and participation."""
        self._anchor = as_vector(self.anchor_codec.decode(frame), what="anchor")
        self.anchor_id = anchor_id

    def estimate(self, correction: bytes) -> Vector:
        """Rebuild the model, ŵ = ŷ + Δ̂."""
        if self._anchor is None:
            raise ProtocolError(f"client {self.id}: found no anchor, expected one before the round")
        delta = as_vector(self.correction_codec.decode(correction), what="correction")
        if delta.size != self._anchor.size:
            raise InvalidInputError(
                f"correction: found {delta.size} values, expected {self._anchor.size}"
            )
        return self._anchor + delta

    def participate(self, round_number: int, correction: bytes, train: Train) -> bytes:
        """Rebuild the model, train it and return the compressed update.

        Parameters
        ----------
        round_number : int
            t.
        correction : bytes
            Of the server, against the anchor that this client holds.
        train : callable
            From the model estimate to an update of the same size.
        """
        estimate = self.estimate(correction)
        update = as_vector(train(estimate), size=estimate.size, what="update")
        seed = derive_seed(self.seed, "update", round_number, self.id)
        return self.update_codec.encode(update, seed=seed)
