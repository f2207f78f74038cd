"""DoCoFL around Flower's own strategies, and around ones with ideas of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod, adaptiveclipping_mod, fixedclipping_mod
from flwr.serverapp.strategy import (
    Bulyan,
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedMedian,
    FedProx,
    FedTrimmedAvg,
    FedXgbBagging,
    FedXgbCyclic,
    FedYogi,
    Krum,
    MultiKrum,
    QFedAvg,
    Strategy,
)

from docofl_codec import Eden, Identity, InvalidInputError
from docofl_codec.framework import DivergenceError
from docofl_codec.integrations.flower import docofl_mod
from tests.integration.local_grid import LocalGrid, rounds
from tests.integration.test_flower_faults import (
    GOAL,
    SIZE,
    by_round,
    client_app,
    docofl,
    fed_avg,
    federation,
    initial,
    silent,
    total,
    train,
    weights_of,
)

pytestmark = pytest.mark.integration


# --- stock strategies ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "tolerance"),
    [
        (FedAvg, 0.01),
        (lambda **o: FedAvgM(server_learning_rate=0.9, server_momentum=0.5, **o), 0.02),
        (lambda **o: FedAdam(eta=0.1, **o), 0.02),
        (lambda **o: FedYogi(eta=0.1, **o), 0.02),
        (lambda **o: FedAdagrad(eta=0.1, **o), 0.02),
        (lambda **o: FedProx(proximal_mu=0.5, **o), 0.01),
        (FedMedian, 0.01),
        (FedTrimmedAvg, 0.01),
        (Krum, 0.02),
        (lambda **o: MultiKrum(num_nodes_to_select=3, **o), 0.02),
        (lambda **o: QFedAvg(1.0, q=1e-4, train_loss_key="loss", **o), 0.02),
        (Bulyan, 0.01),
    ],
)
def test_stock_strategies_aggregate(make: Callable[..., Strategy], tolerance: float) -> None:
    ours = docofl(make(fraction_evaluate=0.0), uplink="eden:6", correction="eden:6")
    result = rounds(ours, federation(), initial(), 12)
    plain = rounds(make(fraction_evaluate=0.0), federation(), initial(), 12)
    assert weights_of(result).dtype == np.float32
    assert np.abs(weights_of(plain)).mean() > 0.1
    assert np.abs(weights_of(result) - weights_of(plain)).mean() < tolerance
    assert total(result, "accepted") == 48


@pytest.mark.parametrize("loss", [-5.0, 1e300, [0.5]])
def test_a_loss_that_would_end_q_fed_avg_is_dropped(loss: Any) -> None:
    def odd(reply: Any, _context: Context) -> Any:
        reply.content["metrics"]["loss"] = loss
        return reply

    inner = QFedAvg(1.0, q=0.5, train_loss_key="loss", fraction_evaluate=0.0)
    result = rounds(docofl(inner), federation(4, n2=client_app(odd)), initial(), 3)
    assert by_round(result, "dropped") == [1, 1, 1]
    assert np.isfinite(weights_of(result)).all()


@pytest.mark.parametrize(
    "metrics",
    [
        {},
        {"num-examples": -1, "distance": 0.5},
        {"num-examples": 10, "distance": float("nan")},
        {"num-examples": 10, "distance": 0.5, "surprise": 1.0},
        {"num-examples": [10], "distance": 0.5},
    ],
)
def test_a_client_cannot_end_the_run_by_its_evaluation(metrics: Any) -> None:
    def evaluate(message: Any, _context: Context) -> Any:
        return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)

    app = docofl_mod.register(ClientApp(mods=[docofl_mod]))
    app.train()(train)
    app.evaluate()(evaluate)
    result = rounds(docofl(FedAvg()), federation(4, n1=app), initial(), 2)
    expected = float(np.abs(weights_of(result) - GOAL).mean())
    assert result.evaluate_metrics_clientapp[2]["distance"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("make", [FedXgbBagging, FedXgbCyclic])
def test_strategies_for_trees_are_refused(make: Callable[[], Strategy]) -> None:
    with pytest.raises(InvalidInputError, match=r"inner: found FedXgb\w+, whose models are trees"):
        docofl(make())
    wrapped = DifferentialPrivacyServerSideFixedClipping(make(), 0.1, 1.0, 2)
    with pytest.raises(InvalidInputError, match="inner: found FedXgb"):
        docofl(wrapped)


# --- differential privacy ------------------------------------------------------------------------


def private_federation(*mods: Any) -> LocalGrid:
    """Return four nodes with equal weights and the mods of differential privacy."""

    def equal(message: Any, context: Context) -> Any:
        reply = train(message, context)
        reply.content["metrics"]["num-examples"] = 1
        return reply

    app = docofl_mod.register(ClientApp(mods=[docofl_mod, *mods]))
    app.train()(equal)
    return federation(4, **{f"n{i}": app for i in range(4)})


@pytest.mark.parametrize(
    ("make", "mods"),
    [
        (lambda s, n: DifferentialPrivacyServerSideFixedClipping(s, n, 8.0, 4), []),
        (lambda s, n: DifferentialPrivacyServerSideAdaptiveClipping(s, n, 4, 8.0), []),
        (
            lambda s, n: DifferentialPrivacyClientSideFixedClipping(s, n, 8.0, 4),
            [fixedclipping_mod],
        ),
        (
            lambda s, n: DifferentialPrivacyClientSideAdaptiveClipping(s, n, 4, 8.0),
            [adaptiveclipping_mod],
        ),
    ],
)
def test_differential_privacy_around_the_inner_strategy(make: Any, mods: list[Any]) -> None:
    """Clips, adds noise, and trains: the model moves in steps of at most the clipping norm."""
    models = []
    for noise in (0.0, 0.005):
        strategy = docofl(make(fed_avg(), noise), uplink=Eden(bits=4, scale="mse"))
        weights = weights_of(rounds(strategy, private_federation(*mods), initial(), 12))
        assert np.abs(weights - GOAL).mean() < 0.1
        strategy = docofl(make(fed_avg(), noise), uplink=Eden(bits=4, scale="mse"))
        models.append(weights_of(rounds(strategy, private_federation(*mods), initial(), 1)))
    clear, noisy = models
    assert 7.0 < np.linalg.norm(clear) <= 8.0 * (1 + 1e-5)  # 9.5 if it were not clipped
    assert np.std(noisy - clear) > 0.5 * 0.005 * 8 / 4


@pytest.mark.parametrize(
    "make",
    [
        lambda s: DifferentialPrivacyClientSideFixedClipping(s, 0.1, 8.0, 4),
        lambda s: DifferentialPrivacyClientSideAdaptiveClipping(s, 0.1, 4),
    ],
)
@pytest.mark.parametrize("uplink", ["eden:3", "ecuq:3"])
def test_codecs_that_may_undo_the_clipping_are_refused(make: Any, uplink: str) -> None:
    with pytest.raises(InvalidInputError, match=r"uplink: found .* with DifferentialPrivacyClient"):
        docofl(make(fed_avg()), uplink=uplink)
    docofl(make(fed_avg()), uplink=Eden(bits=3, scale="mse"))
    docofl(make(fed_avg()), uplink=Identity())


def test_noise_on_the_clients() -> None:
    """Compression comes after the noise: what it does, it does to private values."""
    seen: list[float] = []

    def spy(message: Any, context: Context, call_next: Any) -> Any:
        before = message.content["arrays"]["w"].numpy()
        reply = call_next(message, context)
        after = reply.content["arrays"]["w"].numpy()
        seen.append(float(np.linalg.norm(after - before)))
        return reply

    noisy = LocalDpMod(clipping_norm=5.0, sensitivity=0.001, epsilon=10.0, delta=0.01)
    result = rounds(docofl(), private_federation(spy, noisy), initial(), 10)
    assert total(result, "accepted") == 40
    assert max(seen) < 5.1
    assert np.abs(weights_of(result) - GOAL).mean() < 0.25


def test_a_client_that_fails_stops_no_differential_privacy() -> None:
    """Its wrappers return nothing where one reply is an error."""
    inner = DifferentialPrivacyServerSideFixedClipping(
        fed_avg(weighted_by_key="num-examples"), 0.0, 100.0, num_sampled_clients=4
    )

    def equal(reply: Any, _context: Context) -> Any:
        reply.content["metrics"]["num-examples"] = 1
        return reply

    apps = {f"n{i}": client_app(equal) for i in range(3)}
    result = rounds(docofl(inner), federation(4, n3=client_app(silent), **apps), initial(), 8)
    assert np.abs(weights_of(result) - GOAL).mean() < 0.1


# --- what reaches whom ---------------------------------------------------------------------------


def test_averages_are_weighted() -> None:
    def heavy(reply: Any, _context: Context) -> Any:
        reply.content["metrics"]["num-examples"] = 10**9
        return reply

    grid = federation(4, n3=client_app(heavy))
    exact = docofl(anchor=Identity(), correction=Identity(), uplink=Identity())
    weights = weights_of(rounds(exact, grid, initial(), 1))
    np.testing.assert_allclose(weights, 0.3 * (GOAL + 0.01 * np.sin(3)), atol=1e-5)


def test_what_the_inner_strategy_adds_reaches_the_clients() -> None:
    seen: list[dict[str, Any]] = []

    def spy(message: Any, context: Context, call_next: Any) -> Any:
        if message.metadata.message_type == "train":
            seen.append(dict(message.content["config"]))
            assert set(message.content) == {"arrays", "config"}
        return call_next(message, context)

    app = docofl_mod.register(ClientApp(mods=[docofl_mod, spy]))
    app.train()(train)
    grid = LocalGrid()
    for partition in range(2):
        grid.add(app, partition)
    inner = FedProx(proximal_mu=0.25, fraction_evaluate=0.0)
    config = ConfigRecord({"lr": 0.125})
    rounds(docofl(inner), grid, initial(), 1, train_config=config)
    assert seen == 2 * [{"lr": 0.125, "proximal-mu": 0.25, "server-round": 1}]


def test_other_record_names() -> None:
    def renamed(message: Any, context: Context) -> Any:
        message.content["arrays"] = message.content.pop("model")
        reply = train(message, context)
        reply.content["what-i-call-it"] = reply.content.pop("arrays")
        return reply

    app = docofl_mod.register(ClientApp(mods=[docofl_mod]))
    app.train()(renamed)
    grid = LocalGrid()
    for partition in range(2):
        grid.add(app, partition)
    result = rounds(docofl(fed_avg(arrayrecord_key="model")), grid, initial(), 3)
    assert total(result, "accepted") == 6


def test_evaluation_sees_exact_weights_and_its_bytes_are_told() -> None:
    result = rounds(docofl(FedAvg()), federation(4), initial(), 3)
    last = result.evaluate_metrics_clientapp[3]
    expected = float(np.abs(weights_of(result) - GOAL).mean())
    assert last["distance"] == pytest.approx(expected, rel=1e-6)
    assert 4 * 4 * SIZE <= last["docofl-evaluate-bytes"] < 4 * (4 * SIZE + 200)


def test_an_inner_strategy_that_diverges_ends_the_run() -> None:
    class Exploding(FedAvg):
        def aggregate_train(self, server_round: int, replies: Any) -> Any:
            arrays, metrics = super().aggregate_train(server_round, replies)
            assert arrays is not None
            return ArrayRecord({"w": Array(np.full((30, 100), np.inf, np.float32))}), metrics

    with pytest.raises(DivergenceError, match="round 0: the engine leaves weights"):
        rounds(docofl(Exploding(fraction_evaluate=0.0)), federation(), initial(), 3)


def test_nothing_is_trained_where_the_inner_strategy_trains_nothing() -> None:
    result = rounds(docofl(fed_avg(fraction_train=0.0)), federation(), initial(), 2)
    assert result.train_metrics_clientapp == {}


def test_an_inner_strategy_may_begin_later() -> None:
    class Lazy(FedAvg):
        def configure_train(self, server_round: int, *args: Any) -> Any:
            return super().configure_train(server_round, *args) if server_round > 2 else []

    result = rounds(docofl(Lazy(fraction_evaluate=0.0), lead=2), federation(), initial(), 5)
    assert total(result, "accepted") == 12
    assert sorted(result.train_metrics_clientapp) == [3, 4, 5]


class Bare(Strategy):
    """A strategy without the options of FedAvg."""

    def __init__(self) -> None:
        self.fed_avg = fed_avg()

    def __getattribute__(self, name: str) -> Any:
        if name.startswith(("configure", "aggregate", "summary")):
            return getattr(object.__getattribute__(self, "fed_avg"), name)
        return object.__getattribute__(self, name)

    def configure_train(self, *args: Any) -> Any: ...
    def aggregate_train(self, *args: Any) -> Any: ...
    def configure_evaluate(self, *args: Any) -> Any: ...
    def aggregate_evaluate(self, *args: Any) -> Any: ...
    def summary(self) -> None: ...


def test_strategies_without_sampling_options_need_a_number() -> None:
    with pytest.raises(InvalidInputError, match="per_round: found None with Bare"):
        docofl(Bare())
    result = rounds(docofl(Bare(), per_round=3), federation(5), initial(), 2)
    assert total(result, "asked") == 6


# --- strategies with ideas of their own ----------------------------------------------------------


class Personal(FedAvg):
    """Tells every node something else."""

    def configure_train(self, server_round: int, *args: Any) -> Any:
        messages = list(super().configure_train(server_round, *args))
        for message in messages:
            node_id = message.metadata.dst_node_id
            config = ConfigRecord({"server-round": server_round, "for": node_id})
            message.content = RecordDict({**message.content, "config": config})
        self.chosen = {message.metadata.dst_node_id for message in messages}
        return messages


def spying_federation(seen: list[tuple[int, Any]], num_nodes: int) -> LocalGrid:
    def spy(message: Any, context: Context, call_next: Any) -> Any:
        if message.metadata.message_type.startswith("train"):
            seen.append((context.node_id, dict(message.content["config"])))
        return call_next(message, context)

    app = docofl_mod.register(ClientApp(mods=[docofl_mod, spy]))
    app.train()(train)
    app.train("faster")(train)
    return federation(num_nodes, **{f"n{i}": app for i in range(num_nodes)})


@pytest.mark.parametrize("fraction", [0.5, 1.0])
def test_what_each_node_is_told_reaches_it(fraction: float) -> None:
    seen: list[tuple[int, Any]] = []
    inner = Personal(fraction_train=fraction, fraction_evaluate=0.0)
    result = rounds(docofl(inner, lead=1), spying_federation(seen, 6), initial(), 5)
    assert [node_id for node_id, _ in seen] == [config["for"] for _, config in seen]
    assert len(seen) == 5 * 6 * fraction == total(result, "accepted")
    assert {node_id for node_id, _ in seen[-int(6 * fraction) :]} == inner.chosen
    assert np.abs(weights_of(result) - GOAL).mean() < 0.25


def test_a_node_that_lost_its_state_is_told_the_same_again() -> None:
    seen: list[tuple[int, Any]] = []
    grid = spying_federation(seen, 3)

    class Forgetting(Personal):
        def configure_train(self, server_round: int, *args: Any) -> Any:
            for node in grid.nodes.values():
                node.context.state.clear()
            return super().configure_train(server_round, *args)

    result = rounds(docofl(Forgetting(fraction_evaluate=0.0)), grid, initial(), 3)
    assert [node_id for node_id, _ in seen] == [config["for"] for _, config in seen]
    assert total(result, "accepted") == len(seen) == 9


def test_actions_of_training_are_kept() -> None:
    class Faster(FedAvg):
        def configure_train(self, server_round: int, *args: Any) -> Any:
            return [
                Message(message.content, message.metadata.dst_node_id, "train.faster")
                for message in super().configure_train(server_round, *args)
            ]

    seen: list[tuple[int, Any]] = []
    grid = spying_federation(seen, 3)
    result = rounds(docofl(Faster(fraction_evaluate=0.0)), grid, initial(), 2)
    assert total(result, "accepted") == 6
    kinds = {m.metadata.message_type for n in grid.nodes.values() for m in n.messages}
    assert kinds == {"query.docofl_anchor", "train.faster"}


def other_model(message: Message) -> Message:
    arrays = ArrayRecord({"w": Array(np.ones((30, 100), dtype=np.float32))})
    content = RecordDict({**message.content, "arrays": arrays})
    return Message(content, message.metadata.dst_node_id, MessageType.TRAIN)


def evaluation(message: Message) -> Message:
    return Message(message.content, message.metadata.dst_node_id, MessageType.EVALUATE)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (other_model, "inner: found a message with another model than the global one"),
        (evaluation, "inner: found a message of type 'evaluate', expected training"),
    ],
)
def test_messages_that_cannot_be_compressed_are_refused(change: Any, error: str) -> None:
    class Odd(FedAvg):
        def configure_train(self, server_round: int, *args: Any) -> Any:
            first, *others = super().configure_train(server_round, *args)
            return [first, *(change(message) for message in others)]

    with pytest.raises(InvalidInputError, match=error):
        rounds(docofl(Odd(fraction_evaluate=0.0)), federation(), initial(), 1)


@pytest.mark.parametrize("skipped", [{2}, {3, 4}, {1, 3, 5}, {4, 5, 6}])
def test_an_inner_strategy_may_skip_rounds(skipped: set[int]) -> None:
    class Skipping(FedAvg):
        def configure_train(self, server_round: int, *args: Any) -> Any:
            return [] if server_round in skipped else super().configure_train(server_round, *args)

    strategy = docofl(Skipping(fraction_evaluate=0.0), lead=2, deploy_every=2)
    grid = federation()
    result = rounds(strategy, grid, initial(), 6)
    done = sorted(set(range(1, 7)) - skipped)
    assert sorted(result.train_metrics_clientapp) == done
    assert by_round(result, "asked") == by_round(result, "accepted") == [4.0] * len(done)
    assert strategy.server.counters["missing"] == 0
    plain = rounds(Skipping(fraction_evaluate=0.0), federation(), initial(), 6)
    assert np.abs(weights_of(result) - weights_of(plain)).mean() < 0.1
    late = [m["docofl-late-anchor-bytes"] for m in result.train_metrics_clientapp.values()]
    assert not any(late[1:])  # anchors went out ahead in skipped rounds, too


def test_an_inner_strategy_that_never_trains_may_evaluate() -> None:
    result = rounds(docofl(FedAvg(fraction_train=0.0)), federation(), initial(), 2)
    assert sorted(result.evaluate_metrics_clientapp) == [1, 2]


def test_an_inner_strategy_that_fails_now_and_then() -> None:
    """It aggregates nothing, as Bulyan does where too few have answered: the model stays."""
    apps = {f"n{i}": client_app(silent) for i in range(2)}
    bulyan = Bulyan(fraction_evaluate=0.0)
    result = rounds(docofl(bulyan), federation(4, **apps), initial(), 3)
    assert len(result.arrays) == 0
    assert by_round(result, "accepted") == [2, 2, 2]
