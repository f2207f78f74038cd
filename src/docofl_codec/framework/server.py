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

import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from numbers import Integral
from operator import index
from typing import Any, Literal, NoReturn, TypeVar, cast, get_args

import numpy as np

from docofl_codec.codec import Codec, Ecuq, Eden
from docofl_codec.errors import InvalidInputError
from docofl_codec.framework.aggregation import Aggregator, aggregator_for, decoded_update
from docofl_codec.framework.anchors import Anchor, AnchorQueue
from docofl_codec.framework.budgets import AdaptiveBudgets, bits_of, with_bits
from docofl_codec.framework.diagnostics import (
    CoordinateSample,
    Estimation,
    EstimationErrors,
    drift_of,
)
from docofl_codec.framework.errors import DivergenceError, ProtocolError, StaleAnchorError
from docofl_codec.framework.ledger import NOBODY, Kind, Ledger
from docofl_codec.framework.messages import Correction, Notification, Update
from docofl_codec.framework.optimizers import SGD, ServerOptimizer
from docofl_codec.framework.participation import ParticipationProcess, notified_at
from docofl_codec.framework.seeds import derive_seed
from docofl_codec.framework.vectors import (
    Vector,
    as_vector,
    is_finite,
    squared_distance,
    squared_norm,
)

__all__ = ["Aggregation", "Downlink", "Outcome", "RoundReport", "Server"]

Aggregation = Literal["mean", "engine"]
Downlink = Literal["docofl", "direct", "anchor"]
MAX_SAMPLES = 1 << 53
MAX_STALENESS_EXPONENT = 10

_Method = TypeVar("_Method", bound=Callable[..., Any])


def _locked(method: _Method) -> _Method:
    """Let one thread at a time into the server."""

    @wraps(method)
    def call(self: Server, *args: Any, **options: Any) -> Any:
        with self._lock:
            return method(self, *args, **options)

    return cast(_Method, call)


@dataclass(frozen=True)
class Outcome:
    """What became of an upload.

    Attributes
    ----------
    accepted : bool
        Whether it is part of the mean.
    reason : str
        Why not: ``"duplicate"``, ``"late"``, ``"not asked"`` or the codec's complaint.
    model : ndarray of float32 or None
        Where an engine aggregates: the client's model, w_t and its update.
    norm : float
        Of the update, where an engine aggregates.
    """

    accepted: bool
    reason: str = ""
    model: Vector | None = field(default=None, repr=False, compare=False)
    norm: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class RoundReport:
    """What happened in a round.

    Attributes
    ----------
    round : int
        t.
    asked, accepted, dropped, missing : int
        Participants; uploads in the mean; uploads that were refused; participants that sent nothing
        in time.
    update_norm : float
        Of the mean update, ĝ_t.
    estimation : Estimation
        The clients' estimation errors ê² and e², ρ_t and the norm of corrections.
    bytes : dict
        By kind.
    bits : dict
        The budgets b_w, b_c and b_g of codecs that have one, by kind.
    is_applied : bool
        False where fewer than the quorum reported: the weights stay as they are.
    """

    round: int
    asked: int
    accepted: int
    dropped: int
    missing: int
    update_norm: float
    estimation: Estimation
    bytes: dict[Kind, int]
    bits: dict[Kind, float]
    is_applied: bool


@dataclass
class _Round:
    """What the server knows of the current round."""

    participants: frozenset[int]
    aggregator: Aggregator
    accepted: int = 0
    dropped: int = 0
    heard_of: set[int] = field(default_factory=set)
    errors: EstimationErrors = field(default_factory=EstimationErrors)
    distances: dict[int | None, tuple[float, float]] = field(default_factory=dict)  # by anchor
    shared: dict[int | None, bytes] = field(default_factory=dict)  # by anchor


class Server:
    """Deploys anchors, sends corrections, averages updates.

    Rounds go: `deploy`, `notify`; for every participant `correction` and `receive`; `finish_round`.
    Calls may come from several threads; they take turns.

    Parameters
    ----------
    weights : array-like
        w_0; copied.
    participation : ParticipationProcess
        P.
    anchor_codec, correction_codec, update_codec : Codec
        C_w, C_c and C_g. A correction is taken against the *decoded* anchor, so that with an
        unbiased C_c the client's estimate is unbiased whatever C_w does. Where C_c loses nothing,
        clients get the model itself: as many bytes, and no rounding.
    downlink : {"docofl", "direct", "anchor"}
        ``"docofl"``: anchors ahead and corrections in the round. ``"direct"``: no anchors, C_c of
        the model in the round. ``"anchor"``: clients train on their anchors, without corrections.
    aggregation : {"mean", "engine"}
        ``"mean"``: the server averages updates and takes the optimizer's step. ``"engine"``: it
        checks and restores them; `receive` hands out each client's model, and `finish_round` is
        given the new one.
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
    budgets : AdaptiveBudgets, optional
        Chooses the budgets of anchors and corrections at every deployment.
    weighted : bool, default False
        Weight updates by the clients' numbers of samples.
    max_delay : int, default 0
        Take updates that come up to so many rounds late (delayed gradients).
    staleness_exponent : float, default 0.5
        An update that is k rounds late weighs (1 + k)^-exponent of one in time.
    error_feedback_clients : int, optional
        N: use EF21-PP. Clients then send C_g of the change of their update since their last one,
        and the server steps along the mean of all clients' latest updates.
    quorum : int, default 1
        The fewest accepted updates that change the weights.
    max_update_norm : float, optional
        Drop updates with a larger norm.
    seed : int, default 0
        Of the run.

    Attributes
    ----------
    round : int
        t.
    counters : Counter
        Updates of the run so far: accepted, dropped, missing.
    """

    def __init__(
        self,
        weights: Any,
        participation: ParticipationProcess,
        *,
        anchor_codec: Codec | None = None,
        correction_codec: Codec | None = None,
        update_codec: Codec | None = None,
        downlink: Downlink = "docofl",
        aggregation: Aggregation = "mean",
        optimizer: ServerOptimizer | None = None,
        deploy_every: int = 10,
        capacity: int = 3,
        max_lead: int = 100,
        shared_corrections: bool = False,
        budgets: AdaptiveBudgets | None = None,
        weighted: bool = False,
        max_delay: int = 0,
        staleness_exponent: float = 0.5,
        error_feedback_clients: int | None = None,
        quorum: int = 1,
        max_update_norm: float | None = None,
        seed: int = 0,
    ) -> None:
        _check_at_least(
            deploy_every=(deploy_every, 1),
            max_lead=(max_lead, 0),
            max_delay=(max_delay, 0),
            quorum=(quorum, 1),
        )
        if not 0 <= staleness_exponent <= MAX_STALENESS_EXPONENT:
            raise InvalidInputError(
                f"staleness_exponent: found {staleness_exponent}, expected 0 to "
                f"{MAX_STALENESS_EXPONENT}"
            )
        if max_update_norm is not None and not max_update_norm > 0:
            raise InvalidInputError(f"max_update_norm: found {max_update_norm}, expected above 0")
        for name, value, known in (
            ("downlink", downlink, get_args(Downlink)),
            ("aggregation", aggregation, get_args(Aggregation)),
        ):
            if value not in known:
                raise InvalidInputError(
                    f"{name}: found {value!r}, expected one of {', '.join(known)}"
                )
        if aggregation == "engine" and (error_feedback_clients is not None or max_delay):
            raise InvalidInputError(
                'aggregation: found "engine" with error feedback or delays, expected neither'
            )
        if error_feedback_clients is not None:
            _check_at_least(error_feedback_clients=(error_feedback_clients, 1))
            if weighted or max_delay:
                raise InvalidInputError(
                    "error_feedback_clients: found with weights or delays, expected neither"
                )
        self.weights: Vector = as_vector(weights, what="weights").copy()
        self.participation = participation
        self.anchor_codec = anchor_codec or Ecuq(bits=2)
        self.correction_codec = correction_codec or Eden(bits=1)
        self.update_codec = update_codec or Eden(bits=1)
        self.downlink: Downlink = downlink
        self.aggregation: Aggregation = aggregation
        self.optimizer = optimizer or SGD()
        self.deploy_every = index(deploy_every)
        self.max_lead = index(max_lead)
        self.shared_corrections = bool(shared_corrections)
        self.budgets = budgets
        self.weighted = bool(weighted)
        self.max_delay = index(max_delay)
        self.staleness_exponent = float(staleness_exponent)
        self.error_feedback_clients = error_feedback_clients and index(error_feedback_clients)
        self.quorum = index(quorum)
        self.max_update_norm = max_update_norm and float(max_update_norm)
        self.seed = index(seed)
        self.round = 0
        if budgets is not None:
            budgets.check(self.anchor_codec, self.correction_codec)
        self.anchors = AnchorQueue(capacity, self.anchor_codec.decode)
        self.ledger = Ledger(self.weights.size)
        self.counters: Counter[str] = Counter()
        self._config = self._options()
        self._sample = CoordinateSample(self.weights.size)
        self._feedback: Vector | None = None  # the mean of all clients' latest updates (EF21-PP)
        self._accepted: dict[int, set[int]] = {}  # by round, as long as an update may be late
        self._has_diverged = False
        self._lock = threading.RLock()
        self._current = self._new_round()

    # --- anchor deployment ---------------------------------------------------------------------

    @_locked
    def deploy(self, round_number: int) -> Anchor | None:
        """Compress the model and enqueue it, every K rounds; return the round's anchor, if any.

        A second call in a round does nothing more.
        """
        self._check_round(round_number)
        if self.round % self.deploy_every != 0:
            return None
        if len(self.anchors) and self.anchors.latest().round == self.round:
            return self.anchors.latest()
        self._adapt()
        if self.downlink == "direct":
            return None
        seed = derive_seed(self.seed, "anchor", self.round)
        frame = self.anchor_codec.encode(self.weights, seed=seed)
        bits = self._bits().get("anchor", 0.0)
        sample = self._sample.take(self.weights)
        return self.anchors.enqueue(self.round, frame, bits=bits, sample=sample)

    # --- participation -------------------------------------------------------------------------

    def notify(self, round_number: int) -> list[Notification]:
        """Return who is told of its participation in this round."""
        self._check_round(round_number)
        told = notified_at(self.participation, self.round, self.max_lead)
        return [
            Notification(client, self.round, participation_round)
            for client, rounds in sorted(told.items())
            for participation_round in rounds
        ]

    @_locked
    def anchor(
        self, client: int, anchor_id: int | None = None, *, in_the_round: bool = False
    ) -> Anchor:
        """Return an anchor for a client to download, and count its bytes.

        Parameters
        ----------
        client : int
            Who downloads it.
        anchor_id : int, optional
            The latest by default.
        in_the_round : bool, default False
            Whether the client has to wait for it in its own round.
        """
        found = self.anchors.latest() if anchor_id is None else self.anchors.get(anchor_id)
        self._record("late_anchor" if in_the_round else "anchor", client, len(found.frame))
        return found

    # --- optimization --------------------------------------------------------------------------

    @_locked
    def correction(self, round_number: int, client: int, anchor_id: int | None) -> Correction:
        """Return C_c(w_t - ŷ) for a participant of this round that holds an anchor.

        Parameters
        ----------
        round_number, client : int
            t and i.
        anchor_id : int or None
            The anchor that the client holds; None where the downlink is direct.

        Raises
        ------
        StaleAnchorError
            Where the anchor is gone: the client has to download the latest one.
        ProtocolError
            Where it is another round, the client does not take part in it or has no anchor.
        """
        self._check_round(round_number)
        current = self._current
        if client not in current.participants:
            raise ProtocolError(f"client {client}: does not take part in round {self.round}")
        if anchor_id is None and self.downlink != "direct":
            raise ProtocolError(f"client {client}: found no anchor, expected one before the round")
        base = None if self.downlink == "direct" else anchor_id
        difference = self._difference(base)
        distance, drift = self._distances(base, difference)
        frame = None
        if self.downlink != "anchor":
            frame = self._correction_frame(client, base, difference)
        anchor_bits = 0.0 if base is None else self.anchors.get(base).bits
        current.errors.add(distance, drift, anchor_bits)
        if frame is not None:
            self._record("correction", client, len(frame))
        return Correction(self.round, client, self._added_to(base), frame)

    @_locked
    def join(self, client: int, anchor_id: int | None) -> tuple[Correction, Anchor | None]:
        """Return what a participant gets in its round.

        Parameters
        ----------
        client : int
            i.
        anchor_id : int or None
            The anchor that it holds, if any.

        Returns
        -------
        tuple of Correction and (Anchor or None)
            The anchor is the latest one, where the client holds none or one that is gone: it has to
            download that as well, and wait for it.
        """
        if self.downlink == "direct":
            return self.correction(self.round, client, None), None
        if anchor_id is not None:
            try:
                return self.correction(self.round, client, anchor_id), None
            except StaleAnchorError:
                pass
        anchor = self.anchor(client, in_the_round=True)
        return self.correction(self.round, client, anchor.id), anchor

    @_locked
    def receive(self, update: Update) -> Outcome:
        """Take a client's compressed update for the mean.

        Nothing that a client sends raises: a bad upload is dropped, counted and leaves the mean as
        it was. Bytes of clients that were not asked are booked together, under -1.
        """
        complaint = _malformed(update)
        if complaint:
            self._current.dropped += 1
            return Outcome(False, complaint)
        client, t, num_samples = (int(n) for n in (update.client, update.round, update.num_samples))
        update = Update(client, t, update.frame, num_samples)
        outcome = self._take(update)
        is_known = client in self._participants(t)
        if outcome.accepted:
            self._current.accepted += 1
            self._accepted.setdefault(t, set()).add(client)
        else:
            self._current.dropped += 1
        if is_known and t == self.round:
            self._current.heard_of.add(client)
        self._record("update", client if is_known else NOBODY, len(update.frame))
        return outcome

    @_locked
    def take_back(self, client: int) -> None:
        """Drop an update of this round after all, where an engine aggregates."""
        if self.aggregation != "engine" or client not in self._accepted.get(self.round, ()):
            raise ProtocolError(f"client {client}: found no update that can be taken back")
        self._accepted[self.round].discard(client)
        self._current.accepted -= 1
        self._current.dropped += 1

    @_locked
    def drop(self, client: int, num_bytes: int = 0) -> None:
        """Count a participant whose training failed, and the bytes that it has sent in vain."""
        self._current.heard_of.add(client)
        self._current.dropped += 1
        if num_bytes:
            self._record("update", client, num_bytes)

    @_locked
    def abandon_round(self) -> None:
        """Forget what came in this round, to begin it again. Bytes that were sent stay booked."""
        self._accepted.pop(self.round, None)
        self._current = self._new_round()

    @_locked
    def finish_round(self, weights: Any = None) -> RoundReport:
        """Average the updates, take the optimizer's step and go to the next round.

        Parameters
        ----------
        weights : array-like, optional
            w_{t+1}, where an engine aggregates; without it the weights stay as they are.

        Raises
        ------
        DivergenceError
            Where the step would leave weights that are not finite. The weights stay as they are,
            and the server takes no more part: begin again from a checkpoint, with other options.
        """
        self._check_round(self.round)
        if weights is not None and self.aggregation != "engine":
            raise ProtocolError("weights: found new ones, expected none where the server averages")
        current = self._current
        is_applied = current.accepted >= self.quorum
        update_norm = 0.0
        if self.aggregation == "engine":
            is_applied = is_applied and weights is not None
            if is_applied:
                update_norm = self._take_over(weights)
        elif current.accepted:
            update = self._mean_update()
            update_norm = math.sqrt(squared_norm(update))
            if is_applied:
                self._step(update)
        estimation = current.errors.mean()
        if self.budgets is not None:
            self.budgets.observe(estimation)
        report = RoundReport(
            round=self.round,
            asked=len(current.participants),
            accepted=current.accepted,
            dropped=current.dropped,
            missing=len(current.participants - current.heard_of),
            update_norm=update_norm,
            estimation=estimation,
            bytes=self.ledger.of_round(self.round),
            bits=self._bits(),
            is_applied=is_applied,
        )
        for name in ("accepted", "dropped", "missing"):
            self.counters[name] += getattr(report, name)
        self.round += 1
        self.anchors.release()
        for old in [r for r in self._accepted if r < self.round - self.max_delay]:
            del self._accepted[old]
        self._current = self._new_round()
        return report

    # --- checkpoints ---------------------------------------------------------------------------

    def config(self) -> dict[str, Any]:
        """Return the options that must not change between saving and resuming."""
        return self._config

    def state(self) -> dict[str, Any]:
        """Return everything that a checkpoint between two rounds needs.

        Raises
        ------
        ProtocolError
            Where a client has come in this round.
        """
        if self._current.heard_of or self._current.accepted or self._current.distances:
            raise ProtocolError(f"round {self.round}: found begun, expected between two rounds")
        return {
            "round": self.round,
            "weights": self.weights,
            "optimizer": dict(self.optimizer.state()),
            "anchors": self.anchors.state(),
            "bits": self._bits(),
            "budgets": None if self.budgets is None else self.budgets.state(),
            "feedback": self._feedback,
            "accepted": [[r, sorted(clients)] for r, clients in sorted(self._accepted.items())],
            "counters": dict(self.counters),
            "ledger": self.ledger.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` returned."""
        size = self.weights.size
        round_number = index(state["round"])
        if round_number < 0:
            raise InvalidInputError(f"round: found {round_number}, expected 0 or more")
        optimizer = {
            name: as_vector(vector, size=size, what=name)
            for name, vector in state["optimizer"].items()
        }
        feedback = state["feedback"]
        if feedback is not None:
            feedback = as_vector(feedback, size=size, what="feedback").copy()
        self.weights = as_vector(state["weights"], size=size, what="weights").copy()
        self.optimizer.restore(optimizer)
        self.anchors.restore(state["anchors"])
        for anchor in self.anchors:
            as_vector(anchor.vector, size=size, what="anchor")
        if self.budgets is not None:
            self.anchor_codec = with_bits(self.anchor_codec, state["bits"]["anchor"])
            if "correction" in state["bits"]:
                bits = state["bits"]["correction"]
                self.correction_codec = with_bits(self.correction_codec, bits)
            self.budgets.restore(state["budgets"])
        self._feedback = feedback
        self._accepted = {index(r): set(clients) for r, clients in state["accepted"]}
        self.counters = Counter(state["counters"])
        self.ledger.restore(state["ledger"])
        self.round = round_number
        self._has_diverged = False
        self._current = self._new_round()

    # --- details -------------------------------------------------------------------------------

    def _adapt(self) -> None:
        """Choose the budgets of the anchor that is about to be deployed, and of corrections."""
        if self.budgets is None:
            return
        bits = self._bits()
        if "anchor" in bits:
            anchor_bits = self.budgets.next_anchor_bits(bits["anchor"])
            self.anchor_codec = with_bits(self.anchor_codec, anchor_bits)
        if "correction" in bits:
            correction_bits = self.budgets.next_correction_bits(bits["correction"])
            self.correction_codec = with_bits(self.correction_codec, correction_bits)
        self.budgets.start_over()

    def _bits(self) -> dict[Kind, float]:
        codecs: dict[Kind, Codec] = {
            "anchor": self.anchor_codec,
            "correction": self.correction_codec,
            "update": self.update_codec,
        }
        bits = {kind: bits_of(codec) for kind, codec in codecs.items()}
        return {kind: budget for kind, budget in bits.items() if budget is not None}

    def _difference(self, anchor_id: int | None) -> Vector:
        """Return w_t - ŷ, or w_t itself where there is no anchor."""
        if anchor_id is None:
            return self.weights
        return self.weights - self.anchors.get(anchor_id).vector

    def _distances(self, anchor_id: int | None, difference: Vector) -> tuple[float, float]:
        """Return ‖w_t - ŷ‖² and ‖w_t - y‖²."""
        known = self._current.distances
        if anchor_id not in known:
            distance = squared_norm(difference)
            drift = 0.0
            if anchor_id is not None:
                exact = self._sample.take(self.weights) - self.anchors.get(anchor_id).sample
                drift = drift_of(distance, self._sample.take(difference), exact)
            known[anchor_id] = distance, drift
        return known[anchor_id]

    def _added_to(self, anchor_id: int | None) -> int | None:
        """Return the anchor that a client adds its correction to; a lossless one is the model."""
        is_lossless = getattr(self.correction_codec, "is_lossless", False)
        return None if is_lossless and self.downlink != "anchor" else anchor_id

    def _correction_frame(self, client: int, anchor_id: int | None, difference: Vector) -> bytes:
        shared = self._current.shared
        if self.shared_corrections and anchor_id in shared:
            return shared[anchor_id]
        if self._added_to(anchor_id) is None:
            difference = self.weights
        numbers = (1, client)
        if self.shared_corrections:
            numbers = (0, -1 if anchor_id is None else anchor_id)
        seed = derive_seed(self.seed, "correction", self.round, *numbers)
        frame = self.correction_codec.encode(difference, seed=seed)
        if self._current.errors.needs_measurement:
            decoded = as_vector(self.correction_codec.decode(frame), what="correction")
            self._current.errors.measure(difference, decoded)
        if self.shared_corrections:
            shared[anchor_id] = frame
        return frame

    def _take(self, update: Update) -> Outcome:
        delay = self.round - update.round
        if not 0 <= delay <= self.max_delay or update.round < 0:
            return Outcome(False, "late")
        if update.client not in self._participants(update.round):
            return Outcome(False, "not asked")
        if update.client in self._accepted.get(update.round, ()):
            return Outcome(False, "duplicate")
        if not 1 <= update.num_samples <= MAX_SAMPLES:
            return Outcome(False, f"num_samples: expected 1 to {MAX_SAMPLES}")
        weight = float(update.num_samples) if self.weighted else 1.0
        if delay:
            weight *= (1.0 + delay) ** -self.staleness_exponent
        model, norm = None, 0.0
        try:
            if self.aggregation == "engine":
                model, norm = self._model_of(update.frame)
            else:
                self._current.aggregator.add(update.frame, weight)
        except MemoryError:
            raise
        except Exception as error:  # a codec's complaint, of whatever class
            return Outcome(False, str(error))
        return Outcome(True, model=model, norm=norm)

    def _model_of(self, frame: bytes) -> tuple[Vector, float]:
        """Return w_t and a client's update added up, and the update's norm."""
        size = self.weights.size
        update = decoded_update(self.update_codec, frame, size, self.max_update_norm)
        norm = math.sqrt(squared_norm(update))
        with np.errstate(over="ignore"):
            model = np.add(self.weights, update, out=update)
        return as_vector(model, what="weights and update"), norm

    def _participants(self, round_number: int) -> frozenset[int]:
        if round_number == self.round:
            return self._current.participants
        if not 0 <= round_number <= self.round:
            return frozenset()
        return frozenset(map(int, self.participation.participants(round_number)))

    def _mean_update(self) -> Vector:
        """Return ĝ_t; with EF21-PP the mean of all clients' latest updates.

        Clients remember the changes that were accepted, so that these count in any case.
        """
        mean = self._current.aggregator.mean()
        self._current.aggregator = self._new_aggregator()  # the other's memory is free
        update = as_vector(mean, size=self.weights.size, what="update")
        if self.error_feedback_clients is not None:
            update *= np.float32(self._current.accepted / self.error_feedback_clients)
            if self._feedback is not None:
                update += self._feedback
            self._feedback = update.copy()
        return update

    def _step(self, update: Vector) -> None:
        """Take the optimizer's step."""
        before = self.weights.copy()
        with np.errstate(over="ignore", invalid="ignore"):
            self.optimizer.step(self.weights, update)
        if not is_finite(self.weights):
            self.weights[:] = before
            self._diverge("the mean update")

    def _take_over(self, weights: Any) -> float:
        """Make the engine's weights those of the next round; return how far they have moved."""
        try:
            new = as_vector(weights, size=self.weights.size, what="weights").copy()
        except InvalidInputError as error:
            if np.size(weights) != self.weights.size:
                raise
            self._diverge("the engine", error)
        moved = squared_distance(new, self.weights)
        self.weights = new
        return math.sqrt(moved)

    def _diverge(self, culprit: str, cause: Exception | None = None) -> NoReturn:
        self._has_diverged = True
        raise DivergenceError(
            f"round {self.round}: {culprit} leaves weights that are not finite"
        ) from cause

    def _record(self, kind: Kind, client: int, num_bytes: int) -> None:
        self.ledger.record(kind, round_number=self.round, client=client, num_bytes=num_bytes)

    def _check_round(self, round_number: int) -> None:
        if self._has_diverged:
            raise ProtocolError(f"round {self.round}: the run has diverged")
        if round_number != self.round:
            raise ProtocolError(f"round: found {round_number}, expected {self.round}")

    def _new_round(self) -> _Round:
        participants = frozenset(map(int, self.participation.participants(self.round)))
        return _Round(participants, self._new_aggregator())

    def _new_aggregator(self) -> Aggregator:
        return aggregator_for(self.update_codec, self.weights.size, self.max_update_norm)

    def _options(self) -> dict[str, Any]:
        return {
            "size": self.weights.size,
            "seed": self.seed,
            "anchor_codec": self.anchor_codec.get_config(),
            "correction_codec": self.correction_codec.get_config(),
            "update_codec": self.update_codec.get_config(),
            "downlink": self.downlink,
            "optimizer": _described(self.optimizer),
            "participation": _described(self.participation),
            "deploy_every": self.deploy_every,
            "capacity": self.anchors.capacity,
            "max_lead": self.max_lead,
            "shared_corrections": self.shared_corrections,
            "budgets": repr(self.budgets),
            "weighted": self.weighted,
            "max_delay": self.max_delay,
            "staleness_exponent": self.staleness_exponent,
            "error_feedback_clients": self.error_feedback_clients,
            "quorum": self.quorum,
            "max_update_norm": self.max_update_norm,
            **({"aggregation": "engine"} if self.aggregation == "engine" else {}),
        }


def _malformed(update: Update) -> str:
    """Return what is wrong with an upload's fields, if anything."""
    for name in ("client", "round", "num_samples"):
        value = getattr(update, name)
        if isinstance(value, bool) or not isinstance(value, Integral):
            return f"{name}: found {type(value).__qualname__}, expected a whole number"
    if not isinstance(update.frame, (bytes, bytearray, memoryview)):
        return f"frame: found {type(update.frame).__qualname__}, expected bytes"
    return ""


def _described(value: object) -> str:
    """Return what tells an object from one with other options, in another process too."""
    if type(value).__repr__ is object.__repr__:
        return f"{type(value).__module__}.{type(value).__qualname__}"
    return repr(value)


def _check_at_least(**values: tuple[int, int]) -> None:
    for name, (found, least) in values.items():
        if found < least:
            raise InvalidInputError(f"{name}: found {found}, expected at least {least}")
