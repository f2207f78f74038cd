"""The parameter server: algorithm 1 of the paper.

======================  ==========================================================================
paper                   here
======================  ==========================================================================
w_t                     ``Server.weights`` in round ``Server.round``
C_w, C_c, C_g           `anchor_codec`, `correction_codec`, `update_codec`
K, V                    `deploy_every`, `capacity`
Q                       ``Server.anchors``
P(t), S_t               ``participation.participants(t)``
y, ŷ                    an anchor's model, and ``Anchor.vector``
Δ̂_t^i                   `correction`
ĝ_t                     the mean update, with the sign of a step
======================  ==========================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from docofl_codec.codec import Codec, Ecuq, Eden
from docofl_codec.errors import CodecError, InvalidInputError
from docofl_codec.framework.aggregation import Aggregator, aggregator_for
from docofl_codec.framework.anchors import Anchor, AnchorQueue
from docofl_codec.framework.errors import ProtocolError
from docofl_codec.framework.ledger import Kind, Ledger
from docofl_codec.framework.optimizers import SGD, ServerOptimizer
from docofl_codec.framework.participation import ParticipationProcess, notified_at
from docofl_codec.framework.seeds import derive_seed
from docofl_codec.framework.vectors import Vector, as_vector, squared_norm

__all__ = ["Notification", "Outcome", "RoundReport", "Server"]


@dataclass(frozen=True)
class Notification:
    """What a client learns in round s: that it takes part in round t."""

    client: int
    notification_round: int
    participation_round: int


@dataclass(frozen=True)
class Outcome:
    """What became of an upload.

    Attributes
    ----------
    accepted : bool
        Whether it is part of the mean.
    reason : str
        Why not: ``"duplicate"``, ``"late"``, ``"not asked"`` or the codec's complaint.
    """

    accepted: bool
    reason: str = ""


@dataclass(frozen=True)
class RoundReport:
    """What happened in a round.

    Attributes
    ----------
    round : int
        t.
    accepted, dropped : int
        Uploads in the mean, and others.
    update_norm : float
        Of the mean update.
    correction_norm : float
        Root mean square over the corrections of ‖w_t − ŷ‖.
    bytes : dict
        By kind.
    is_applied : bool
        False where fewer than the quorum reported: the weights stay as they are.
    """

    round: int
    accepted: int
    dropped: int
    update_norm: float
    correction_norm: float
    bytes: dict[Kind, int]
    is_applied: bool


@dataclass
class _Uploads:
    """The uploads of the current round."""

    aggregator: Aggregator
    participants: frozenset[int]
    accepted: set[int] = field(default_factory=set)
    dropped: int = 0
    correction_squares: list[float] = field(default_factory=list)
    shared: dict[int, bytes] = field(default_factory=dict)  # by anchor


class Server:
    """Deploys anchors, sends corrections, averages updates.

    Rounds go: `deploy`, `notify`; for every participant `correction` and `receive`; `finish_round`.

    Parameters
    ----------
    weights : array-like
        w_0; copied.
    participation : ParticipationProcess
        P.
    anchor_codec, correction_codec, update_codec : Codec
        C_w, C_c and C_g. A correction is taken against the *decoded* anchor, so that with an
        unbiased C_c the client's estimate is unbiased whatever C_w does.
    optimizer : ServerOptimizer
        By default plain averaging.
    deploy_every : int, default 10
        K.
    capacity : int, default 3
        V.
    max_lead : int, default 100
        The longest time between notification and participation, in rounds.
    shared_corrections : bool, default False
        Encode one correction for all clients with the same anchor; by default their randomness is
        independent.
    weighted : bool, default False
        Weight updates by the clients' numbers of samples.
    quorum : int, default 1
        The fewest accepted updates that change the weights.
    max_update_norm : float, optional
        Drop updates with a larger norm.
    seed : int, default 0
        Of the run.
    """

    def __init__(
        self,
        weights: Any,
        participation: ParticipationProcess,
        *,
        anchor_codec: Codec | None = None,
        correction_codec: Codec | None = None,
        update_codec: Codec | None = None,
        optimizer: ServerOptimizer | None = None,
        deploy_every: int = 10,
        capacity: int = 3,
        max_lead: int = 100,
        shared_corrections: bool = False,
        weighted: bool = False,
        quorum: int = 1,
        max_update_norm: float | None = None,
        seed: int = 0,
    ) -> None:
        if deploy_every < 1:
            raise InvalidInputError(f"deploy_every: found {deploy_every}, expected at least 1")
        self.weights: Vector = as_vector(weights, what="weights").copy()
        self.participation = participation
        self.anchor_codec = anchor_codec or Ecuq(bits=2)
        self.correction_codec = correction_codec or Eden(bits=1)
        self.update_codec = update_codec or Eden(bits=1)
        self.optimizer = optimizer or SGD()
        self.deploy_every = deploy_every
        self.max_lead = max_lead
        self.shared_corrections = shared_corrections
        self.weighted = weighted
        self.quorum = quorum
        self.max_update_norm = max_update_norm
        self.seed = seed
        self.round = 0
        self.anchors = AnchorQueue(capacity)
        self.ledger = Ledger(self.weights.size)
        self._uploads = self._new_uploads()

    # --- anchor deployment ---------------------------------------------------------------------

    def deploy(self) -> Anchor | None:
        """Compress the model and enqueue it, every K rounds; return the new anchor, if any."""
        if self.round % self.deploy_every != 0:
            return None
        seed = derive_seed(self.seed, "anchor", self.round)
        frame = self.anchor_codec.encode(self.weights, seed=seed)
        vector = as_vector(self.anchor_codec.decode(frame), what="anchor")
        return self.anchors.enqueue(self.round, frame, vector)

    # --- participation -------------------------------------------------------------------------

    def notify(self) -> list[Notification]:
        """Return who is told of its participation in this round."""
        told = notified_at(self.participation, self.round, self.max_lead)
        return [
            Notification(client, self.round, participation_round)
            for client, rounds in sorted(told.items())
            for participation_round in rounds
        ]

    def anchor(self, client: int, anchor_id: int | None = None) -> Anchor:
        """Return an anchor for a client to download, the latest by default, and count its bytes."""
        found = self.anchors.latest() if anchor_id is None else self.anchors.get(anchor_id)
        self.ledger.record(
            "anchor", round_number=self.round, client=client, num_bytes=len(found.frame)
        )
        return found

    # --- optimization --------------------------------------------------------------------------

    def correction(self, client: int, anchor_id: int) -> bytes:
        """Return C_c(w_t - ŷ) for a participant of this round that holds an anchor.

        Raises
        ------
        StaleAnchorError
            Where the anchor is gone: the client has to download the latest one.
        ProtocolError
            Where the client does not take part in this round.
        """
        self._check_participant(client)
        anchor = self.anchors.get(anchor_id)
        difference = self.weights - anchor.vector
        self._uploads.correction_squares.append(squared_norm(difference))
        if self.shared_corrections:
            shared = self._uploads.shared
            if anchor_id not in shared:
                shared[anchor_id] = self._encode_correction(difference, 0, anchor_id)
            frame = shared[anchor_id]
        else:
            frame = self._encode_correction(difference, 1, client)
        self.ledger.record(
            "correction", round_number=self.round, client=client, num_bytes=len(frame)
        )
        return frame

    def receive(
        self, client: int, frame: bytes, *, round_number: int | None = None, num_samples: int = 1
    ) -> Outcome:
        """Take a client's compressed update for this round's mean.

        Nothing that a client sends raises: a bad upload is dropped, counted and leaves the mean as
        it was.

        Parameters
        ----------
        client : int
            Who sent it.
        frame : bytes
            C_g of its update.
        round_number : int, optional
            The round that it belongs to; another one than the current is late.
        num_samples : int, default 1
            Its weight where updates are weighted.
        """
        outcome = self._take(client, frame, round_number, num_samples)
        if outcome.accepted:
            self._uploads.accepted.add(client)
        else:
            self._uploads.dropped += 1
        self.ledger.record("update", round_number=self.round, client=client, num_bytes=len(frame))
        return outcome

    def finish_round(self) -> RoundReport:
        """Average the updates, take the optimizer's step and go to the next round."""
        uploads = self._uploads
        is_applied = len(uploads.accepted) >= max(self.quorum, 1)
        update_norm = 0.0
        if is_applied:
            update = as_vector(uploads.aggregator.mean(), size=self.weights.size, what="update")
            update_norm = squared_norm(update) ** 0.5
            self.optimizer.step(self.weights, update)
        squares = uploads.correction_squares
        report = RoundReport(
            round=self.round,
            accepted=len(uploads.accepted),
            dropped=uploads.dropped,
            update_norm=update_norm,
            correction_norm=float(np.mean(squares)) ** 0.5 if squares else 0.0,
            bytes=self.ledger.of_round(self.round),
            is_applied=is_applied,
        )
        self.start_round(self.round + 1)
        return report

    def start_round(self, round_number: int) -> None:
        """Go to the start of a round, with no uploads."""
        self.round = round_number
        self._uploads = self._new_uploads()

    # --- details -------------------------------------------------------------------------------

    def _take(
        self, client: int, frame: bytes, round_number: int | None, num_samples: int
    ) -> Outcome:
        if round_number is not None and round_number != self.round:
            return Outcome(False, "late")
        if client not in self._uploads.participants:
            return Outcome(False, "not asked")
        if client in self._uploads.accepted:
            return Outcome(False, "duplicate")
        if num_samples < 1:
            return Outcome(False, f"num_samples: found {num_samples}, expected at least 1")
        try:
            self._uploads.aggregator.add(frame, float(num_samples) if self.weighted else 1.0)
        except CodecError as error:
            return Outcome(False, str(error))
        return Outcome(True)

    def _encode_correction(self, difference: Vector, *names: int) -> bytes:
        seed = derive_seed(self.seed, "correction", self.round, *names)
        return self.correction_codec.encode(difference, seed=seed)

    def _check_participant(self, client: int) -> None:
        if client not in self._uploads.participants:
            raise ProtocolError(f"client {client}: does not take part in round {self.round}")

    def _new_uploads(self) -> _Uploads:
        aggregator = aggregator_for(self.update_codec, self.weights.size, self.max_update_norm)
        return _Uploads(aggregator, frozenset(self.participation.participants(self.round)))
