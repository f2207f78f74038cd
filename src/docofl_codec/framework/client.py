"""A client: algorithm 2 of the paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from docofl_codec.codec import Codec
from docofl_codec.errors import InvalidInputError
from docofl_codec.framework.errors import ProtocolError, StaleAnchorError
from docofl_codec.framework.messages import Correction, Update
from docofl_codec.framework.seeds import derive_seed
from docofl_codec.framework.vectors import Vector, as_vector

__all__ = ["Client", "Train", "Trained"]


@dataclass(frozen=True)
class Trained:
    """What training gives: new weights less old ones, and how many samples they rest on."""

    update: Any
    num_samples: int = 1


# From the model estimate to Trained, or to the update alone, or to None if the client gives up.
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
    memory : ndarray of float32, optional
        With EF21-PP, what the server knows of this client's update; starts at zero and is kept
        between participations.

    Examples
    --------
    >>> import numpy as np
    >>> from docofl_codec import Ecuq, Eden
    >>> from docofl_codec.framework import Server, UniformParticipation
    >>> server = Server(np.ones(1000), UniformParticipation(1, 1))
    >>> anchor = server.deploy(0)
    >>> client = Client(0, Ecuq(), Eden(), Eden())
    >>> client.receive_anchor(anchor.id, anchor.frame)
    >>> correction = server.correction(0, 0, client.anchor_id)
    >>> update = client.participate(correction, lambda weights: -0.1 * weights)
    >>> server.receive(update).accepted
    True
    """

    id: int
    anchor_codec: Codec
    correction_codec: Codec
    update_codec: Codec
    seed: int = 0
    memory: Vector | None = None
    anchor_id: int | None = field(default=None, init=False)
    _anchor: Vector | None = field(default=None, init=False, repr=False)

    # --- notification round s ------------------------------------------------------------------

    def receive_anchor(self, anchor_id: int, frame: bytes) -> None:
        """Keep a compressed anchor, ŷ, any time between notification and participation."""
        self._anchor = as_vector(self.anchor_codec.decode(frame), what="anchor")
        self.anchor_id = anchor_id

    def share_anchor(self, anchor_id: int, vector: Vector) -> None:
        """Keep an anchor that was decoded and checked already, for clients of one process.

        It is not copied, nor written to.
        """
        self._anchor = vector
        self.anchor_id = anchor_id

    # --- participation round t -----------------------------------------------------------------

    def estimate(self, correction: Correction) -> Vector:
        """Rebuild the model, ŵ = ŷ + Δ̂.

        Raises
        ------
        ProtocolError
            Where the client has no anchor or the correction is for another client.
        StaleAnchorError
            Where the correction is for another anchor than the client's.
        """
        if correction.client != self.id:
            raise ProtocolError(
                f"client {self.id}: found a correction for {correction.client}, expected its own"
            )
        delta = None
        if correction.frame is not None:
            decoded = self.correction_codec.decode(correction.frame)
            delta = as_vector(decoded, what="correction")
        if correction.anchor_id is None:
            if delta is None:
                raise ProtocolError(f"client {self.id}: found neither anchor nor correction")
            return delta
        if self._anchor is None:
            raise ProtocolError(f"client {self.id}: found no anchor, expected one before the round")
        if correction.anchor_id != self.anchor_id:
            raise StaleAnchorError(
                f"client {self.id}: found a correction for anchor {correction.anchor_id}, "
                f"expected {self.anchor_id}"
            )
        if delta is None:
            untouched: Vector = self._anchor.copy()
            return untouched
        if delta.size != self._anchor.size:
            raise InvalidInputError(
                f"correction: found {delta.size} values, expected {self._anchor.size}"
            )
        estimate: Vector = self._anchor + delta
        return estimate

    def participate(self, correction: Correction, train: Train) -> Update | None:
        """Rebuild the model, train it and return the compressed update.

        Parameters
        ----------
        correction : Correction
            Of the server, against the anchor that this client holds.
        train : callable
            From the model estimate to an update of the same size, or to :class:`Trained`, or to
            None, and then there is nothing to send.

        Raises
        ------
        InvalidInputError
            Where training gives an update of another size or one that is not finite.
        """
        estimate = self.estimate(correction)
        size = estimate.size
        trained = train(estimate)
        if trained is None:
            return None
        if not isinstance(trained, Trained):
            trained = Trained(trained)
        update = as_vector(trained.update, size=size, what="update")
        if self.memory is not None:
            update = update - self.memory
        seed = derive_seed(self.seed, "update", correction.round, self.id)
        frame = self.update_codec.encode(update, seed=seed)
        return Update(self.id, correction.round, frame, trained.num_samples)

    def acknowledge(self, update: Update) -> None:
        """With EF21-PP, note that the server has taken an update."""
        if self.memory is not None:
            change = as_vector(self.update_codec.decode(update.frame), what="update")
            self.memory = np.add(self.memory, change)
