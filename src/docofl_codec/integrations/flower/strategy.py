"""The server's side: DoCoFL's rounds around a strategy that aggregates arrays.

Anchors, corrections, checks and bytes are :class:`docofl_codec.framework.Server`'s; this module
moves them by Flower's messages and leaves the aggregation to the inner strategy.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from docofl_codec.codec import Codec, make_codec
from docofl_codec.errors import CodecError, InvalidInputError
from docofl_codec.framework.budgets import AdaptiveBudgets
from docofl_codec.framework.messages import Update
from docofl_codec.framework.participation import ElasticParticipation
from docofl_codec.framework.server import RoundReport, Server
from docofl_codec.integrations.flower.nodes import GRACE_SECONDS, Nodes, report_of
from docofl_codec.integrations.flower.wire import (
    EXACT,
    FRAMES,
    HEADER,
    Layout,
    check_codec,
    codec_config,
    frame_of,
    frames_record,
    header_record,
    payload_bytes,
)

__all__ = ["DoCoFLStrategy"]

DEFAULT_TIMEOUT = 3600.0  # seconds, as Strategy.start has it
WAIT_SECONDS = 1.0
MAX_WEIGHT = 1 << 53  # of a client in the mean: what double counts exactly
MAX_COMPLAINT = 500  # characters of a client in the log
RUNNING_STATISTICS = ("*running_mean", "*running_var", "*moving_mean", "*moving_variance")

logger = logging.getLogger("flwr")


@dataclass
class _Round:
    """What has gone out in the current round."""

    messages: dict[int, Message] = field(default_factory=dict)  # by client
    template: RecordDict = field(default_factory=RecordDict)
    arrays_key: str = ""
    told_later: list[int] = field(default_factory=list)  # clients whose anchors wait for the end
    other_bytes: int = 0  # headers and exact arrays, both ways
    resynchronised: int = 0


@dataclass
class _Run:
    """One call of :meth:`DoCoFLStrategy.start`."""

    first_round: int
    grid: Grid
    layout: Layout
    exact: ArrayRecord
    server: Server
    plan: ElasticParticipation
    nodes: Nodes
    current: _Round = field(default_factory=_Round)
    metrics_shape: Any = None  # of the replies that were accepted last


@dataclass(frozen=True)
class _Reply:
    """A reply that could be read so far."""

    client: int
    message: Message
    frame: bytes
    exact: ArrayRecord
    metrics_shape: Any


class DoCoFLStrategy(Strategy):
    """DoCoFL around a strategy that aggregates arrays.

    Clients need :data:`docofl_mod`. Who takes part is drawn here, `lead` rounds ahead, as the inner
    strategy's ``fraction_train`` and ``min_train_nodes`` say; everything else that the inner
    strategy puts into messages reaches the clients. Evaluation is the inner strategy's, with exact
    weights; its bytes are in the metrics.

    Parameters
    ----------
    inner : Strategy
        Aggregates the clients' models: ``FedAvg``, ``FedAdam``, ``FedMedian`` …
    anchor, correction, uplink : Codec or str
        C_w, C_c and C_g, also by their short spellings.
    deploy_every : int, default 10
        K, rounds between anchors.
    capacity : int, default 3
        V, anchors that the server keeps.
    lead : int or pair of int, default 1
        Rounds between the download of an anchor and its use.
    seed : int, default 0
        Of sampling and of all codecs.
    quorum : int, default 1
        The fewest good replies that change the model.
    max_update_norm : float, optional
        Drop updates with a larger norm.
    budgets : AdaptiveBudgets, optional
        Chooses the budgets of anchors and corrections.
    exact : sequence of str
        Patterns of names; arrays that match are sent as they are, as are all that are no floats. By
        default the running statistics of normalisation layers: they are few, and a variance that is
        estimated without bias may become negative.
    per_round : int, optional
        Nodes in a round, for an inner strategy without ``fraction_train``.

    Examples
    --------
    >>> from flwr.serverapp.strategy import FedAvg
    >>> strategy = DoCoFLStrategy(FedAvg(), anchor="ecuq:2", correction="eden:1", uplink="eden:1")
    """

    def __init__(
        self,
        inner: Strategy,
        *,
        anchor: Codec | str = "ecuq:2",
        correction: Codec | str = "eden:2",
        uplink: Codec | str = "eden:3",
        deploy_every: int = 10,
        capacity: int = 3,
        lead: int | tuple[int, int] = 1,
        seed: int = 0,
        quorum: int = 1,
        max_update_norm: float | None = None,
        budgets: AdaptiveBudgets | None = None,
        exact: Sequence[str] = RUNNING_STATISTICS,
        per_round: int | None = None,
    ) -> None:
        self.inner = inner
        self.anchor = _codec(anchor, "anchor")
        self.correction = _codec(correction, "correction")
        self.uplink = _codec(uplink, "uplink")
        self.deploy_every = deploy_every
        self.capacity = capacity
        self.lead = lead
        self.seed = seed
        self.quorum = quorum
        self.max_update_norm = max_update_norm
        self.budgets = budgets
        self.exact = tuple(exact)
        self.per_round = per_round
        if per_round is None and _option(inner, "fraction_train") is None:
            raise InvalidInputError(
                f"per_round: found None with {type(inner).__name__}, expected a number of nodes"
            )
        self._timeout = DEFAULT_TIMEOUT
        self._num_rounds: float = math.inf
        self._evaluate_bytes = 0
        self._run: _Run | None = None
        self._new_server([0.0], ElasticParticipation(lead=lead, seed=seed))  # checks the options

    @property
    def server(self) -> Server:
        """The framework's server of the current or last run, with its ledger and counters."""
        if self._run is None:
            raise InvalidInputError("server: found no run, expected one that has begun")
        return self._run.server

    # --- Flower's interface --------------------------------------------------------------------

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = DEFAULT_TIMEOUT,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Run all rounds; see :meth:`flwr.serverapp.strategy.Strategy.start`."""
        self._timeout = timeout
        self._num_rounds = num_rounds
        self._run = None
        try:
            return super().start(
                grid,
                initial_arrays,
                num_rounds,
                timeout,
                train_config,
                evaluate_config,
                evaluate_fn,
            )
        finally:
            if self._run is not None:
                patience = min(timeout, GRACE_SECONDS)
                self._run.nodes.settle(grid, self._run.nodes.connected(), patience)

    def summary(self) -> None:
        """Log the options, and the inner strategy's."""
        logger.info("\t├──> DoCoFL:")
        logger.info("\t│\t├── Anchor: %r every %d rounds", self.anchor, self.deploy_every)
        logger.info("\t│\t├── Correction: %r", self.correction)
        logger.info("\t│\t├── Uplink: %r", self.uplink)
        logger.info("\t│\t└── Lead: %s rounds; capacity: %d anchors", self.lead, self.capacity)
        self.inner.summary()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Deploy, notify and send corrections: one message for each participant."""
        # 1. What the inner strategy would send, whoever gets it.
        needed = max(self._option("min_available_nodes", 1), self._option("min_train_nodes", 1))
        population = cast(Grid, _Population(grid, max(needed, len(list(grid.get_node_ids())))))
        messages = list(self.inner.configure_train(server_round, arrays, config, population))
        if not messages:
            return []

        # 2. Who is there, and who takes part now and in the rounds to come.
        if self._run is None or server_round == 1:
            self._begin(server_round, arrays, grid, needed)
        run = self._started(server_round)
        run.grid = grid
        run.exact = run.layout.exact(arrays, convert=True)
        self._call_the_roll(run)
        t = run.server.round

        # 3. Anchor deployment, and notification of those who take part later.
        deployed = run.server.deploy(t)
        if deployed is not None:
            run.nodes.digest(deployed)  # a node may know it from an earlier run
        participants = sorted(run.server.participation.participants(t))
        run.nodes.settle(grid, participants, self._timeout, give_up=True)
        self._notify(run, set(participants))

        # 4. Corrections, each against the anchor that its client holds.
        run.current.template = messages[0].content
        run.current.arrays_key = _arrays_key(messages[0].content, arrays)
        for client in participants:
            anchor_id = run.nodes.usable(client)
            run.current.messages[client] = self._train_message(run, client, anchor_id)
        return list(run.current.messages.values())

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Check and restore the updates, let the inner strategy aggregate, finish the round."""
        if self._run is None:
            return self.inner.aggregate_train(server_round, replies)
        run = self._started(server_round)

        # 1. Replies by client; who has no anchor gets one, and trains.
        by_client = self._by_client(run, replies)
        missing = [client for client, reply in by_client.items() if _is_missing(reply)]
        if missing:
            by_client.update(self._resynchronise(run, missing))

        # 2. Restore what can be used.
        good = self._receive(run, by_client)

        # 3. Anchors for those who were busy with this round.
        for client in run.current.told_later:
            if client in by_client:
                self._send_anchor(run, client)

        # 4. The inner strategy's step.
        new, metrics = None, None
        if len(good) >= self.quorum:
            new, metrics = self.inner.aggregate_train(server_round, good)
        vector = None
        if new is not None:
            vector = _float_vector(run.layout, new)
            run.exact = run.layout.exact(new, convert=True)
        report = run.server.finish_round(vector)
        if new is not None:
            new = run.layout.arrays(run.server.weights, run.exact)
        metrics = MetricRecord() if metrics is None else metrics
        metrics.update(_metrics(report, run.current))
        run.current = _Round()
        return new, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return the inner strategy's messages."""
        messages = list(self.inner.configure_evaluate(server_round, arrays, config, grid))
        self._evaluate_bytes = sum(
            len(array.data)
            for message in messages
            for record in message.content.array_records.values()
            for array in record.values()
        )
        if self._run is not None and messages:
            self._run.nodes.settle_ids(
                grid, {message.metadata.dst_node_id for message in messages}, self._timeout
            )
        return messages

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Return the inner strategy's metrics, and the bytes of exact weights that it sent."""
        metrics = self.inner.aggregate_evaluate(server_round, replies)
        if metrics is not None:
            metrics["docofl-evaluate-bytes"] = self._evaluate_bytes
        return metrics

    # --- who takes part ------------------------------------------------------------------------

    def _begin(self, server_round: int, arrays: ArrayRecord, grid: Grid, needed: int) -> None:
        """Wait for the nodes that the inner strategy wants, and make a server."""
        while len(ids := list(grid.get_node_ids())) < needed:
            logger.info("Waiting for nodes to connect: %d of %d.", len(ids), needed)
            time.sleep(WAIT_SECONDS)
        layout = Layout.of(arrays, self.exact)
        plan = ElasticParticipation(lead=self.lead, seed=self.seed)
        server = self._new_server(layout.vector(arrays), plan)
        exact = layout.exact(arrays)
        self._run = _Run(server_round, grid, layout, exact, server, plan, Nodes())
        self._run.nodes.refresh(grid, self._timeout)
        if not self._run.nodes.connected():
            complaint = next(iter(self._run.nodes.complaints.values()), "no answer")
            raise InvalidInputError(
                f"nodes: found none that knows DoCoFL ({complaint}), expected "
                "docofl_mod.register(ClientApp(mods=[docofl_mod])) in the ClientApp"
            )

    def _new_server(self, weights: Any, plan: ElasticParticipation) -> Server:
        is_lossless = getattr(self.correction, "is_lossless", False)
        return Server(
            weights,
            plan,
            anchor_codec=self.anchor,
            correction_codec=self.correction,
            update_codec=self.uplink,
            downlink="direct" if is_lossless else "docofl",
            aggregation="engine",
            deploy_every=self.deploy_every,
            capacity=self.capacity,
            max_lead=plan.horizon,
            budgets=self.budgets,
            quorum=self.quorum,
            max_update_norm=self.max_update_norm,
            seed=self.seed,
        )

    def _started(self, server_round: int) -> _Run:
        assert self._run is not None
        expected = self._run.server.round + self._run.first_round
        if server_round != expected:
            raise InvalidInputError(f"server_round: found {server_round}, expected {expected}")
        return self._run

    def _call_the_roll(self, run: _Run) -> None:
        """Plan the rounds up to the horizon, and replace participants that are gone."""
        t = run.server.round
        end = time.monotonic() + self._timeout
        if t > 0:
            run.nodes.refresh(run.grid, self._timeout)
        while not (clients := run.nodes.connected()) and time.monotonic() < end:
            logger.info("Waiting for nodes to connect: none of those that were there.")
            time.sleep(WAIT_SECONDS)
            run.nodes.refresh(run.grid, self._timeout)
        end_of_run = self._num_rounds - run.first_round + 1
        for later in range(t, int(min(t + run.plan.horizon + 1, end_of_run))):
            run.plan.plan(later, clients, self._sample_size(len(clients)))
        run.plan.complete(t, clients, self._sample_size(len(clients)))
        run.plan.forget(t)
        run.server.abandon_round()  # begins it, with these participants

    def _sample_size(self, num_nodes: int) -> int:
        if self.per_round is not None:
            return self.per_round
        fraction = float(self._option("fraction_train", 1.0))
        return max(int(num_nodes * fraction), int(self._option("min_train_nodes", 1)))

    def _option(self, name: str, default: Any) -> Any:
        found = _option(self.inner, name)
        return default if found is None else found

    # --- what is sent --------------------------------------------------------------------------

    def _notify(self, run: _Run, busy: set[int]) -> None:
        """Send the latest anchor to those who are told now; those who train now get it after."""
        if run.server.downlink == "direct":
            return
        t = run.server.round
        told = {n.client for n in run.server.notify(t) if n.participation_round > t}
        for client in sorted(told):
            if client in busy:
                run.current.told_later.append(client)
            else:
                run.nodes.settle(run.grid, [client], 0)
                self._send_anchor(run, client)

    def _send_anchor(self, run: _Run, client: int) -> None:
        node = run.nodes[client]
        latest = run.server.anchors.latest()
        if node.pending is not None or not node.is_connected or run.nodes.has(client, latest):
            return
        if run.nodes.send_anchor(run.grid, client, latest, run.layout.size):
            run.server.anchor(client)

    def _train_message(self, run: _Run, client: int, anchor_id: int | None) -> Message:
        """Return a message with a correction, and with an anchor where the client needs one."""
        server, layout = run.server, run.layout
        correction, anchor = server.join(client, anchor_id)
        holds = None
        if correction.anchor_id is not None:
            added_to = anchor or server.anchors.get(correction.anchor_id)
            holds = [added_to.id, run.nodes.digest(added_to)]
        if anchor is not None:
            run.nodes.note_sent(client, anchor)
        content = RecordDict()
        for name, record in run.current.template.items():
            if name != run.current.arrays_key:
                content[name] = record
        content[HEADER] = header_record(
            {
                "round": server.round,
                "client": client,
                "holds": holds,
                "seed": server.seed,
                "arrays": run.current.arrays_key,
                "layout": layout.header(),
                "anchor": codec_config(server.anchor_codec),
                "correction": codec_config(server.correction_codec),
                "update": codec_config(server.update_codec),
            }
        )
        content[FRAMES] = frames_record(
            layout.size,
            correction=correction.frame,
            anchor=None if anchor is None else anchor.frame,
        )
        if run.exact:
            content[EXACT] = run.exact
        run.current.other_bytes += payload_bytes(content)
        return Message(content, run.nodes[client].node_id, MessageType.TRAIN)

    def _resynchronise(self, run: _Run, clients: list[int]) -> dict[int, Message]:
        """Send clients that have lost their anchors the latest one; return their replies."""
        logger.info("docofl: %d clients have lost their anchors and get new ones", len(clients))
        run.current.resynchronised += len(clients)
        for client in clients:
            run.current.messages[client] = self._train_message(run, client, None)
        messages = [run.current.messages[client] for client in clients]
        replies = run.grid.send_and_receive(messages, timeout=self._timeout)
        return self._by_client(run, replies)

    # --- what comes back -----------------------------------------------------------------------

    def _by_client(self, run: _Run, replies: Iterable[Message]) -> dict[int, Message]:
        """Sort replies by the message that they answer, and note what their nodes hold.

        An error that the SuperLink makes up has no node as its source.
        """
        sent = {
            message.metadata.message_id: client for client, message in run.current.messages.items()
        }
        found = {}
        for reply in replies:
            client = sent.get(reply.metadata.reply_to_message_id)
            if client is None:
                logger.warning("docofl: a reply to no message of this round is left out")
                continue
            found[client] = reply
            report, _ = report_of(reply)
            run.nodes[client].note(report)
        return dict(sorted(found.items()))

    def _receive(self, run: _Run, by_client: dict[int, Message]) -> list[Message]:
        """Return replies with models for the inner strategy; errors are counted, not passed on."""
        readable = []
        for client, reply in by_client.items():
            try:
                readable.append(self._read(run, client, reply))
            except CodecError as error:
                # The SuperLink speaks for nodes that have vanished: those have not been heard of.
                if reply.metadata.src_node_id == run.nodes[client].node_id:
                    self._drop(run, client, reply, str(error))
        good = []
        expected = _common_shape(readable, run.metrics_shape)
        for read in readable:
            if read.metrics_shape != expected:
                self._drop(run, read.client, read.message, "metrics: found other ones than most")
                continue
            run.current.other_bytes += payload_bytes(read.message.content)
            outcome = run.server.receive(Update(read.client, run.server.round, read.frame))
            if outcome.model is None:
                logger.warning("docofl: client %d dropped: %s", read.client, outcome.reason)
                continue
            run.metrics_shape = expected
            arrays = run.layout.arrays(outcome.model, read.exact, as_float32=True)
            good.append(_with_arrays(read.message, run.current.arrays_key, arrays))
        return good

    def _read(self, run: _Run, client: int, reply: Message) -> _Reply:
        """Return what a reply holds, or raise CodecError."""
        report, complaint = report_of(reply)
        if complaint:
            raise InvalidInputError(complaint)
        if report.get("missing"):
            raise InvalidInputError("anchor: found none after a resynchronisation")
        if report.get("failure"):
            raise InvalidInputError(str(report["failure"])[:MAX_COMPLAINT])
        frame = frame_of(reply.content, "update")
        if frame is None:
            raise InvalidInputError("update: found none, expected a frame")
        exact = reply.content.get(EXACT, ArrayRecord())
        if not isinstance(exact, ArrayRecord):
            raise InvalidInputError(f"{EXACT}: found no arrays")
        shape = _metrics_shape(reply.content, _option(self.inner, "weighted_by_key"))
        return _Reply(client, reply, frame, run.layout.exact(exact), shape)

    def _drop(self, run: _Run, client: int, reply: Message, reason: str) -> None:
        logger.warning("docofl: client %d dropped: %s", client, reason)
        num_bytes = 0
        if reply.has_content():
            arrays = reply.content.array_records.values()
            num_bytes = sum(len(array.data) for record in arrays for array in record.values())
        run.server.drop(client, num_bytes)


class _Population:
    """A grid of so many nodes that a strategy need not wait for more; it sends nothing."""

    def __init__(self, grid: Grid, num_nodes: int) -> None:
        self._grid = grid
        self._num_nodes = num_nodes

    def get_node_ids(self) -> list[int]:
        """Return ids of nobody."""
        return list(range(2, 2 + self._num_nodes))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)


def _codec(codec: Codec | str, what: str) -> Codec:
    return check_codec(make_codec(codec) if isinstance(codec, str) else codec, what)


def _option(strategy: Any, name: str) -> Any:
    """Return an option of a strategy or, where that wraps another one, of that."""
    while strategy is not None:
        if hasattr(strategy, name):
            return getattr(strategy, name)
        strategy = getattr(strategy, "strategy", None)
    return None


def _arrays_key(content: RecordDict, arrays: ArrayRecord) -> str:
    """Return the name of the record that holds the model."""
    records = content.array_records
    for name, record in records.items():
        if record is arrays:
            return name
    if len(records) == 1:
        return next(iter(records))
    raise InvalidInputError(
        f"arrays: found {len(records)} records in the inner strategy's messages, expected the model"
    )


def _is_missing(reply: Message) -> bool:
    report, _ = report_of(reply)
    return bool(report.get("missing"))


def _float_vector(layout: Layout, arrays: ArrayRecord) -> Any:
    """Return the inner strategy's model; values that are not finite are for the server to find."""
    try:
        return layout.vector(arrays)
    except InvalidInputError as error:
        if "not finite" not in str(error):
            raise
        return [math.nan] * layout.size


def _metrics_shape(content: RecordDict, weight_key: str | None) -> Any:
    """Return what must be the same in all replies: names and lengths of metrics.

    Raises
    ------
    InvalidInputError
        Where there is not one record, or no usable weight in it.
    """
    records = content.metric_records
    if weight_key is None:
        return None
    if len(records) != 1:
        raise InvalidInputError(f"metrics: found {len(records)} records, expected one")
    ((name, record),) = records.items()
    weight = record.get(weight_key)
    if isinstance(weight, bool) or not isinstance(weight, (int, float)):
        raise InvalidInputError(f"{weight_key}: found {type(weight).__name__}, expected a number")
    if not 0 < weight <= MAX_WEIGHT:
        raise InvalidInputError(
            f"{weight_key}: found {weight}, expected more than 0, at most {MAX_WEIGHT}"
        )
    for key, value in record.items():
        values = value if isinstance(value, list) else [value]
        if not all(isinstance(number, int) or math.isfinite(number) for number in values):
            raise InvalidInputError(f"{key}: found {value}, expected finite numbers")
    lengths = [
        (key, len(value) if isinstance(value, list) else None) for key, value in record.items()
    ]
    return name, tuple(sorted(lengths))


def _common_shape(replies: list[_Reply], before: Any) -> Any:
    """Return the metrics that replies are to have: those of most, or else of earlier rounds."""
    counts = Counter(reply.metrics_shape for reply in replies)
    if not counts:
        return before
    ((most, count),) = counts.most_common(1)
    return before if counts[before] == count else most


def _with_arrays(reply: Message, name: str, arrays: ArrayRecord) -> Message:
    """Return a reply as the inner strategy expects it."""
    content = RecordDict({name: arrays})
    for key, record in reply.content.items():
        if key not in (HEADER, FRAMES, EXACT, name) and not isinstance(record, ArrayRecord):
            content[key] = record
    reply.content = content
    return reply


def _metrics(report: RoundReport, current: _Round) -> dict[str, int | float]:
    """Return what a round has cost, by kind, and what became of its clients."""
    metrics: dict[str, int | float] = {
        f"docofl-{kind.replace('_', '-')}-bytes": size for kind, size in report.bytes.items()
    }
    metrics["docofl-other-bytes"] = current.other_bytes
    for name in ("asked", "accepted", "dropped", "missing"):
        metrics[f"docofl-{name}"] = getattr(report, name)
    metrics["docofl-resynchronised"] = current.resynchronised
    return metrics
