"""The server's side: DoCoFL's rounds around a strategy that aggregates arrays.

Anchors, corrections, checks and bytes are :class:`docofl_codec.framework.Server`'s; this module
moves them by Flower's messages and leaves the aggregation to the inner strategy.
"""

from __future__ import annotations

import copy
import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from docofl_codec.codec import Codec, make_codec
from docofl_codec.errors import CodecError, InvalidInputError
from docofl_codec.framework.budgets import AdaptiveBudgets
from docofl_codec.framework.messages import Update
from docofl_codec.framework.participation import ElasticParticipation
from docofl_codec.framework.server import Outcome, RoundReport, Server
from docofl_codec.framework.vectors import squared_norm
from docofl_codec.integrations.flower.inner import Population, Wanted, check_inner, option_of
from docofl_codec.integrations.flower.nodes import Nodes, report_of
from docofl_codec.integrations.flower.replies import (
    NormLimits,
    Reply,
    common_shape,
    evaluations,
    exact_changes,
    is_missing,
    read_reply,
    with_arrays,
)
from docofl_codec.integrations.flower.wire import (
    EXACT,
    FRAMES,
    HEADER,
    Layout,
    check_codec,
    codec_config,
    frames_record,
    header_record,
    payload_bytes,
    shortened,
)

__all__ = ["DoCoFLStrategy"]

DEFAULT_TIMEOUT = 3600.0  # seconds, as Strategy.start has it
DEFAULT_PATIENCE = 60.0
GRACE_SECONDS = 10.0  # for a node that has just come to introduce itself
WAIT_SECONDS = 1.0
RUNNING_STATISTICS = ("*running_mean", "*running_var", "*moving_mean", "*moving_variance")

logger = logging.getLogger("flwr")


@dataclass
class _Round:
    """What has gone out in the current round."""

    wanted: Wanted | None = None  # of the inner strategy; None where it trains nobody
    messages: dict[int, Message] = field(default_factory=dict)  # by client
    told_later: list[int] = field(default_factory=list)  # clients whose anchors wait for the end
    other_bytes: int = 0  # headers and exact arrays, both ways
    resynchronised: set[int] = field(default_factory=set)


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
    limits: NormLimits
    current: _Round = field(default_factory=_Round)
    metrics_shape: Any = None  # of the replies that were accepted last


class DoCoFLStrategy(Strategy):
    """DoCoFL around a strategy that aggregates arrays.

    Clients need :data:`docofl_mod`. Who takes part is drawn here, `lead` rounds ahead, as the inner
    strategy's ``fraction_train`` and ``min_train_nodes`` say; everything else that the inner
    strategy puts into messages reaches the clients. Where it has something else to say to each
    node, its own choice of nodes holds. Evaluation is the inner strategy's, with exact weights; its
    bytes are in the metrics.

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
    max_norm_ratio : float or None, default 100
        Drop updates, and changes of exact arrays, whose norm is so many times that of most clients,
        so that no single one can end the run. None takes them all.
    patience : float, default 60
        Seconds for an answer to a message without training. A node that does not give one, or
        trains ten times as long as any before and longer than this, is left out until it answers.
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
        max_norm_ratio: float | None = 100.0,
        patience: float = DEFAULT_PATIENCE,
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
        self.max_norm_ratio = max_norm_ratio
        self.patience = patience
        self.budgets = budgets
        self.exact = tuple(exact)
        self.per_round = per_round
        check_inner(inner, self.uplink)
        for name, value, least in (
            ("max_norm_ratio", max_norm_ratio, 1.0),
            ("patience", patience, 0.0),
        ):
            if value is not None and not value > least:
                raise InvalidInputError(f"{name}: found {value}, expected more than {least:g}")
        if per_round is None and option_of(inner, "fraction_train") is None:
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
        timeout: float | None = DEFAULT_TIMEOUT,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Run all rounds; see :meth:`flwr.serverapp.strategy.Strategy.start`."""
        self._timeout = math.inf if timeout is None else timeout
        self._num_rounds = num_rounds
        self._run = None
        try:
            return super().start(
                cast(Grid, _PatientGrid(grid, self._exchange)),
                initial_arrays,
                num_rounds,
                self._timeout,
                train_config,
                evaluate_config,
                evaluate_fn,
            )
        finally:
            if self._run is not None:
                self._run.nodes.settle(grid, self._run.nodes.there(), self._grace)

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
        # 1. Who is there, and who takes part now and in the rounds to come.
        if self._run is None or server_round == 1:
            self._begin(server_round, arrays, grid)
        run = self._started(server_round)
        run.grid = grid
        run.exact = run.layout.exact(arrays, convert=True)
        self._call_the_roll(run)

        # 2. What the inner strategy sends them, or which ones it sends what.
        run.current.wanted = self._ask_inner(run, server_round, arrays, config)
        self._choose(run, run.current.wanted)

        # 3. Anchor deployment, and notification of those who take part later.
        t = run.server.round
        deployed = run.server.deploy(t)
        if deployed is not None:
            run.nodes.digest(deployed)  # a node may know it from an earlier run
            run.nodes.forget_anchors(run.server.anchors)
        participants = sorted(run.server.participation.participants(t))
        self._notify(run, set(participants))

        # 4. Corrections, each against the anchor that its client holds.
        for client in participants:
            anchor_id = run.nodes.usable(client)
            run.current.messages[client] = self._train_message(run, client, anchor_id)
        return list(run.current.messages.values())

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Check and restore the updates, let the inner strategy aggregate, finish the round."""
        run = self._started(server_round)

        # 1. Replies by client; who has no anchor, and has not been sent one, gets it and trains.
        by_client = self._by_client(run, replies)
        again = [self._resynchronise(run, reply) for reply in by_client.values()]
        late = [message for message in again if message is not None]
        if late:
            more = run.nodes.exchange(run.grid, late, self._timeout)
            by_client.update(self._by_client(run, more))

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
        current, run.current = run.current, _Round()
        if current.wanted is None:
            return None, None
        metrics = MetricRecord() if metrics is None else metrics
        metrics.update(_metrics(report, current))
        return new, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return the inner strategy's messages, but those to silent nodes."""
        messages = list(self.inner.configure_evaluate(server_round, arrays, config, grid))
        if self._run is not None:
            asked = {message.metadata.dst_node_id for message in messages}
            silent = self._run.nodes.settle_ids(grid, asked, self._patience)
            messages = [m for m in messages if m.metadata.dst_node_id not in silent]
        self._evaluate_bytes = sum(
            len(array.data)
            for message in messages
            for record in message.content.array_records.values()
            for array in record.values()
        )
        return messages

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Return the inner strategy's metrics, and the bytes of exact weights that it sent."""
        good, complaints = evaluations(replies, self.inner)
        for complaint in complaints:
            logger.warning("docofl: an evaluation is left out: %s", shortened(complaint))
        metrics = self.inner.aggregate_evaluate(server_round, good)
        if metrics is not None:
            metrics["docofl-evaluate-bytes"] = self._evaluate_bytes
        return metrics

    # --- who takes part ------------------------------------------------------------------------

    @property
    def _patience(self) -> float:
        return min(self._timeout, self.patience)

    @property
    def _grace(self) -> float:
        return min(self._patience, GRACE_SECONDS)

    @property
    def _num_needed(self) -> int:
        """The nodes that the inner strategy waits for."""
        return int(max(self._option("min_available_nodes", 1), self._option("min_train_nodes", 1)))

    def _begin(self, server_round: int, arrays: ArrayRecord, grid: Grid) -> None:
        """Wait for the nodes that the inner strategy wants, and make a server."""
        while len(ids := list(grid.get_node_ids())) < self._num_needed:
            logger.info("Waiting for nodes to connect: %d of %d.", len(ids), self._num_needed)
            time.sleep(WAIT_SECONDS)
        layout = Layout.of(arrays, self.exact)
        plan = ElasticParticipation(lead=self.lead, seed=self.seed)
        server = self._new_server(layout.vector(arrays), plan)
        nodes, limits = Nodes(self.patience), NormLimits(self.max_norm_ratio)
        exact = layout.exact(arrays)
        self._run = _Run(server_round, grid, layout, exact, server, plan, nodes, limits)
        nodes.refresh(grid, self._patience)
        end = time.monotonic() + self._timeout - self._patience
        while not nodes.there() and nodes.is_waiting and time.monotonic() < end:
            logger.info("Waiting for nodes to introduce themselves.")
            time.sleep(WAIT_SECONDS)
            nodes.refresh(grid, self._grace, is_new_round=False)
        if not nodes.there():
            complaint = next(iter(nodes.complaints.values()), "no answer")
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
            budgets=copy.deepcopy(self.budgets),  # a run changes them
            quorum=self.quorum,
            max_update_norm=self.max_update_norm,
            seed=self.seed,
        )

    def _started(self, server_round: int) -> _Run:
        if self._run is None:
            raise InvalidInputError(f"server_round: found {server_round} of no run, expected one")
        expected = self._run.server.round + self._run.first_round
        if server_round != expected:
            raise InvalidInputError(f"server_round: found {server_round}, expected {expected}")
        return self._run

    def _call_the_roll(self, run: _Run) -> None:
        """Find out who is there, and plan the rounds up to the horizon.

        A node gets one message at a time, and none where it has not answered the last one.
        """
        t = run.server.round
        end = time.monotonic() + self._timeout
        if t > 0:
            run.nodes.refresh(run.grid, self._grace)
        for client in run.nodes.prune(run.plan.horizon):
            run.server.ledger.retire(client)
        run.plan.forget(t)
        while True:
            while not (clients := run.nodes.there()) and time.monotonic() < end:
                logger.info("Waiting for nodes to connect: none of those that were there.")
                time.sleep(WAIT_SECONDS)
                run.nodes.refresh(run.grid, self._grace, is_new_round=False)
            num_clients = self._sample_size(len(clients))
            run.plan.plan(t, clients, num_clients)
            run.plan.complete(t, clients, num_clients)
            busy = [c for c in run.plan.participants(t) if run.nodes[c].pending is not None]
            if not busy:
                break
            run.nodes.settle(run.grid, busy, min(self._patience, max(0, end - time.monotonic())))
        end_of_run = self._num_rounds - run.first_round + 1
        for later in range(t + 1, int(min(t + run.plan.horizon + 1, end_of_run))):
            run.plan.plan(later, clients, num_clients)

    def _ask_inner(
        self, run: _Run, server_round: int, arrays: ArrayRecord, config: ConfigRecord
    ) -> Wanted | None:
        """Return what the inner strategy would send, or None where it trains nobody."""
        node_ids = [run.nodes[client].node_id for client in run.nodes.there()]
        population = Population(run.grid, node_ids, self._num_needed)
        messages = self.inner.configure_train(server_round, arrays, config, cast(Grid, population))
        messages = list(messages)
        return Wanted(messages, arrays) if messages else None

    def _choose(self, run: _Run, wanted: Wanted | None) -> None:
        """Begin the round with those who were planned, or whom the inner strategy has chosen."""
        t = run.server.round
        if wanted is None:
            run.plan.complete(t, [], 0)
        elif wanted.node_ids is not None:
            chosen = [c for c in run.nodes.there() if run.nodes[c].node_id in wanted.node_ids]
            run.nodes.settle(run.grid, chosen, self._patience)
            chosen = [client for client in chosen if run.nodes[client].is_there]
            run.plan.complete(t, chosen, len(chosen))
        run.server.abandon_round()

    def _sample_size(self, num_nodes: int) -> int:
        if self.per_round is not None:
            return self.per_round
        fraction = float(self._option("fraction_train", 1.0))
        return max(int(num_nodes * fraction), int(self._option("min_train_nodes", 1)))

    def _option(self, name: str, default: Any) -> Any:
        found = option_of(self.inner, name)
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
                run.nodes.settle(run.grid, [client], 0, is_last=False)
                self._send_anchor(run, client)

    def _send_anchor(self, run: _Run, client: int) -> None:
        node = run.nodes[client]
        latest = run.server.anchors.latest()
        if node.pending is not None or not node.is_there or run.nodes.has(client, latest):
            return
        if run.nodes.send_anchor(run.grid, client, latest, run.layout.size):
            run.server.anchor(client)

    def _train_message(self, run: _Run, client: int, anchor_id: int | None) -> Message:
        """Return a message with a correction, and with an anchor where the client needs one."""
        server, layout, wanted = run.server, run.layout, run.current.wanted
        assert wanted is not None
        correction, anchor = server.join(client, anchor_id)
        holds = None
        if correction.anchor_id is not None:
            added_to = anchor or server.anchors.get(correction.anchor_id)
            holds = [added_to.id, run.nodes.digest(added_to)]
        if anchor is not None:
            run.nodes.note_sent(client, anchor)
        message = wanted.message(run.nodes[client].node_id, RecordDict())
        content = message.content
        content[HEADER] = header_record(
            {
                "round": server.round,
                "client": client,
                "holds": holds,
                "seed": server.seed,
                "arrays": wanted.arrays_key,
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
        return message

    def _exchange(
        self, grid: Grid, messages: Iterable[Message], timeout: float | None
    ) -> Iterable[Message]:
        """Send the messages of a round; clients without anchors get theirs as soon as they say."""
        messages = list(messages)
        run = self._run
        if run is None:
            return grid.send_and_receive(messages, timeout=timeout)
        return run.nodes.exchange(
            grid, messages, timeout, lambda reply: self._resynchronise(run, reply)
        )

    def _resynchronise(self, run: _Run, reply: Message) -> Message | None:
        """Return a message with the latest anchor to a client that has lost its own, once."""
        client = self._sender(run, reply)
        if client is None or client in run.current.resynchronised or not is_missing(reply):
            return None
        logger.info("docofl: client %d has lost its anchor and gets another one", client)
        run.current.resynchronised.add(client)
        run.nodes[client].note(report_of(reply)[0])
        message = self._train_message(run, client, None)
        run.current.messages[client] = message
        return message

    # --- what comes back -----------------------------------------------------------------------

    @staticmethod
    def _sender(run: _Run, reply: Message) -> int | None:
        """Return whose message of this round a reply answers.

        An error that the SuperLink makes up has no node as its source.
        """
        answered = reply.metadata.reply_to_message_id
        for client, message in run.current.messages.items():
            if message.metadata.message_id == answered:
                return client
        return None

    def _by_client(self, run: _Run, replies: Iterable[Message]) -> dict[int, Message]:
        """Sort replies by the message that they answer, and note what their nodes hold."""
        found = {}
        for reply in replies:
            client = self._sender(run, reply)
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
                readable.append(read_reply(client, reply, run.layout, self.inner))
            except CodecError as error:
                # The SuperLink speaks for nodes that have vanished: those have not been heard of.
                if reply.metadata.src_node_id == run.nodes[client].node_id:
                    self._drop(run, client, reply, str(error))
        accepted = []
        expected = common_shape(readable, run.metrics_shape)
        for read in readable:
            if read.metrics_shape != expected:
                self._drop(run, read.client, read.message, "metrics: found other ones than most")
                continue
            run.current.other_bytes += payload_bytes(read.message.content)
            outcome = run.server.receive(Update(read.client, run.server.round, read.frame))
            if outcome.accepted:
                accepted.append((read, outcome))
            else:
                _warn_dropped(read.client, outcome.reason)
        good = self._within_limits(run, accepted)
        if good:
            run.metrics_shape = expected
        return good

    @staticmethod
    def _within_limits(run: _Run, accepted: list[tuple[Reply, Outcome]]) -> list[Message]:
        """Return the replies that do not move the model much further than most."""
        norms = [
            {"update": outcome.norm, **exact_changes(run.exact, read.exact)}
            for read, outcome in accepted
        ]
        model = {
            "update": math.sqrt(squared_norm(run.server.weights)),
            **exact_changes(None, run.exact),
        }
        complaints = run.limits.complaints(norms, model)
        good = []
        for (read, outcome), complaint in zip(accepted, complaints, strict=True):
            if complaint:
                _warn_dropped(read.client, complaint)
                run.server.take_back(read.client)
                continue
            assert outcome.model is not None
            assert run.current.wanted is not None
            arrays = run.layout.arrays(outcome.model, read.exact, as_float32=True)
            good.append(with_arrays(read.message, run.current.wanted.arrays_key, arrays))
        return good

    def _drop(self, run: _Run, client: int, reply: Message, reason: str) -> None:
        _warn_dropped(client, reason)
        num_bytes = 0
        if reply.has_content():
            arrays = reply.content.array_records.values()
            num_bytes = sum(len(array.data) for record in arrays for array in record.values())
        run.server.drop(client, num_bytes)


class _PatientGrid:
    """A grid that exchanges messages in a way of its own."""

    def __init__(
        self,
        grid: Grid,
        exchange: Callable[[Grid, Iterable[Message], float | None], Iterable[Message]],
    ) -> None:
        self._grid = grid
        self._exchange = exchange

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Send messages, return replies."""
        return self._exchange(self._grid, messages, timeout)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)


def _codec(codec: Codec | str, what: str) -> Codec:
    return check_codec(make_codec(codec) if isinstance(codec, str) else codec, what)


def _warn_dropped(client: int, reason: str) -> None:
    logger.warning("docofl: client %d dropped: %s", client, shortened(reason))


def _float_vector(layout: Layout, arrays: ArrayRecord) -> Any:
    """Return the inner strategy's model; values that are not finite are for the server to find."""
    try:
        return layout.vector(arrays)
    except InvalidInputError as error:
        if "not finite" not in str(error):
            raise
        return [math.nan] * layout.size


def _metrics(report: RoundReport, current: _Round) -> dict[str, int | float]:
    """Return what a round has cost, by kind, and what became of its clients."""
    metrics: dict[str, int | float] = {
        f"docofl-{kind.replace('_', '-')}-bytes": size for kind, size in report.bytes.items()
    }
    metrics["docofl-other-bytes"] = current.other_bytes
    for name in ("asked", "accepted", "dropped", "missing"):
        metrics[f"docofl-{name}"] = getattr(report, name)
    metrics["docofl-resynchronised"] = len(current.resynchronised)
    return metrics
