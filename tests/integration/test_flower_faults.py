"""DoCoFL on Flower's messages: what strategy and mod do, and what faults must not do."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import (
    FedAdam,
    FedAvg,
    Strategy,
)

from docofl_codec import Eden, Identity, InvalidInputError
from docofl_codec.framework import UniformParticipation
from docofl_codec.integrations.flower import DoCoFLMod, DoCoFLStrategy, docofl_mod
from docofl_codec.integrations.flower.nodes import Node
from docofl_codec.integrations.flower.replies import NormLimits
from docofl_codec.integrations.flower.store import ANCHORS, PATH_STYPE, AnchorStore
from docofl_codec.integrations.flower.wire import (
    FRAMES,
    HEADER,
    Layout,
    digest_of,
    frames_record,
    header_record,
    read_header,
)
from tests.integration.local_grid import LocalGrid, rounds

pytestmark = pytest.mark.integration

Change = Callable[[Any, Context], Any]
SIZE = 3000
GOAL = np.linspace(-1, 1, SIZE, dtype=np.float32).reshape(30, 100)


# --- a small federation --------------------------------------------------------------------------


def train(message: Any, context: Context) -> Any:
    """Move a part of the way to a goal that differs a little between partitions."""
    partition = int(context.node_config.get("partition-id", 0))
    arrays = {}
    for name, array in message.content["arrays"].items():
        values = array.numpy()
        if values.dtype.kind == "f":
            goal = GOAL.astype(values.dtype) + values.dtype.type(0.01 * np.sin(partition))
            values = values + values.dtype.type(0.3) * (goal - values)
        else:
            values = values + 1
        arrays[name] = Array(np.asarray(values))
    metrics = MetricRecord({"num-examples": 10 + partition, "loss": 0.5})
    return Message(
        RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics}), reply_to=message
    )


def evaluate(message: Any, _context: Context) -> Any:
    weights = message.content["arrays"]["w"].numpy()
    metrics: Any = {"num-examples": 10, "distance": float(np.abs(weights - GOAL).mean())}
    return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)


def client_app(change: Change | None = None, mod: DoCoFLMod = docofl_mod) -> ClientApp:
    """Return an app whose replies to training are changed on their way."""

    def changing(message: Any, context: Context, call_next: Any) -> Any:
        reply = call_next(message, context)
        is_training = message.metadata.message_type == "train"
        return change(reply, context) if change is not None and is_training else reply

    app = mod.register(ClientApp(mods=[changing, mod]))
    app.train()(train)
    app.evaluate()(evaluate)
    return app


def federation(num_nodes: int = 4, **changes: ClientApp) -> LocalGrid:
    """Return nodes in random order; ``n2=app`` gives partition 2 another app."""
    grid = LocalGrid()
    usual = client_app()
    for partition in np.random.default_rng().permutation(num_nodes).tolist():
        grid.add(changes.get(f"n{partition}", usual), partition)
    return grid


def initial(dtype: str = "float32") -> ArrayRecord:
    return ArrayRecord({"w": Array(np.zeros((30, 100), dtype=dtype))})


def fed_avg(**options: Any) -> FedAvg:
    return FedAvg(**{"fraction_evaluate": 0.0, **options})


def docofl(inner: Strategy | None = None, **options: Any) -> DoCoFLStrategy:
    return DoCoFLStrategy(inner or fed_avg(), **{"deploy_every": 3, **options})


def weights_of(result: Any) -> npt.NDArray[np.float32]:
    weights: npt.NDArray[np.float32] = result.arrays["w"].numpy()
    return weights


def total(result: Any, name: str) -> float:
    return sum(
        float(metrics[f"docofl-{name}"]) for metrics in result.train_metrics_clientapp.values()
    )


def by_round(result: Any, name: str) -> list[float]:
    return [float(metrics[f"docofl-{name}"]) for metrics in result.train_metrics_clientapp.values()]


# --- what it is for ------------------------------------------------------------------------------


def test_it_trains_with_a_fraction_of_the_bytes() -> None:
    grid, plain_grid = federation(8), federation(8)
    inner = fed_avg(fraction_train=0.5)
    result = rounds(docofl(inner, lead=2, deploy_every=10), grid, initial(), 30)
    plain = rounds(fed_avg(fraction_train=0.5), plain_grid, initial(), 30)
    assert np.abs(weights_of(result) - weights_of(plain)).mean() < 0.02
    assert weights_of(result).dtype == np.float32
    booked = sum(total(result, f"{kind}-bytes") for kind in ("anchor", "late-anchor", "correction"))
    assert booked < grid.down_bytes < 1.5 * booked  # the rest: headers, one for each message
    assert grid.down_bytes + grid.up_bytes < 0.25 * (plain_grid.down_bytes + plain_grid.up_bytes)


def test_every_byte_that_is_sent_is_booked() -> None:
    grid = federation(4)
    result = rounds(docofl(lead=1), grid, initial(), 8)
    kinds = ("anchor", "late-anchor", "correction", "update", "other")
    booked = sum(total(result, f"{kind}-bytes") for kind in kinds)
    # All but the headers of anchor messages and of their answers, and what inner strategies add.
    assert 0 <= grid.down_bytes + grid.up_bytes - booked < 150 * 4 * 9


@pytest.mark.parametrize("lead", [0, 1, (1, 4)])
def test_exact_codecs_are_the_inner_strategy(lead: Any) -> None:
    exact = docofl(anchor=Identity(), correction=Identity(), uplink=Identity(), lead=lead)
    ours = rounds(exact, federation(), initial(), 6)
    theirs = rounds(fed_avg(), federation(), initial(), 6)
    np.testing.assert_allclose(weights_of(ours), weights_of(theirs), atol=1e-6)
    assert total(ours, "anchor-bytes") == total(ours, "late-anchor-bytes") == 0


def test_a_run_repeats_itself_although_node_ids_are_random() -> None:
    def one_run() -> npt.NDArray[np.float32]:
        strategy = docofl(fed_avg(fraction_train=0.4), lead=(0, 3), seed=7)
        return weights_of(rounds(strategy, federation(10), initial(), 8))

    np.testing.assert_array_equal(one_run(), one_run())


def test_participants_are_those_of_the_framework() -> None:
    grid = federation(10)
    strategy = docofl(fed_avg(fraction_train=0.3), lead=2, seed=5)
    rounds(strategy, grid, initial(), 6)
    process = UniformParticipation(10, 3, 2, seed=5)
    for t in range(6):
        asked = [
            partition
            for partition in range(10)
            for message in grid.by_partition(partition).messages
            if message.metadata.message_type == "train"
            and (read_header(message.content) or {})["round"] == t
        ]
        assert asked == sorted(process.participants(t))


def test_anchors_go_out_ahead() -> None:
    grid = federation(6)
    result = rounds(docofl(fed_avg(fraction_train=0.5), lead=2, deploy_every=2), grid, initial(), 9)
    assert (
        total(result, "late-anchor-bytes")
        == result.train_metrics_clientapp[1]["docofl-late-anchor-bytes"]
    )
    for node in grid.nodes.values():
        for message in node.messages:
            frames: Any = message.content.get(FRAMES, {})
            is_first = (read_header(message.content) or {}).get("round") == 0
            if message.metadata.message_type == "train" and not is_first:
                assert set(frames) == {"correction"}
        assert any("anchor" in message.content.get(FRAMES, {}) for message in node.messages)
        assert {m.metadata.message_type for m in node.messages} == {"query.docofl_anchor", "train"}


def test_an_anchor_is_sent_once() -> None:
    grid = federation(4)
    rounds(docofl(lead=1, deploy_every=100), grid, initial(), 5)
    for node in grid.nodes.values():
        assert sum("anchor" in message.content.get(FRAMES, {}) for message in node.messages) == 1


@pytest.mark.parametrize("pulls", [1, 3])
def test_a_node_has_one_message_at_a_time(pulls: int) -> None:
    grid = federation(6)
    grid.pulls_to_wait = pulls  # and the grid asserts it
    inner = FedAvg(fraction_train=0.5, fraction_evaluate=1.0)
    result = rounds(docofl(inner, lead=(0, 3), deploy_every=2), grid, initial(), 8)
    assert total(result, "accepted") == total(result, "asked") == 24


def test_the_same_app_serves_plain_strategies() -> None:
    result = rounds(fed_avg(), federation(), initial(), 3)
    assert np.abs(weights_of(result) - GOAL).mean() < 0.3


# --- options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"anchor": "zip:3"},
        {"correction": "eden:99"},
        {"deploy_every": 0},
        {"capacity": 0},
        {"lead": -1},
        {"quorum": 0},
        {"max_update_norm": -1},
        {"max_norm_ratio": 1},
        {"max_norm_ratio": float("nan")},
    ],
)
def test_bad_options_are_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        docofl(**options)


def test_codecs_that_clients_could_not_make_are_refused() -> None:
    class Own(Identity):
        def get_config(self) -> dict[str, Any]:
            return {"codec": "own"}

    with pytest.raises(InvalidInputError, match="uplink: codec: found 'own'"):
        docofl(uplink=Own())


# --- arrays of all kinds -------------------------------------------------------------------------


def test_counters_are_exact_and_stay_whole_numbers() -> None:
    arrays = ArrayRecord(
        {
            "bn.num_batches_tracked": Array(np.asarray(10**9, dtype=np.int64)),
            "w": Array(np.zeros((30, 100), dtype=np.float32)),
            "mask": Array(np.zeros(3, dtype=np.uint8)),
        }
    )
    result = rounds(docofl(), federation(), arrays, 5)
    counter = result.arrays["bn.num_batches_tracked"].numpy()
    assert (counter.dtype, int(counter)) == (np.int64, 10**9 + 5)
    assert result.arrays["mask"].numpy().tolist() == [5, 5, 5]
    assert result.arrays["mask"].dtype == "uint8"
    assert list(result.arrays) == list(arrays)


@pytest.mark.parametrize("dtype", ["float16", "float64", ">f4"])
def test_other_floats_keep_their_dtype(dtype: str) -> None:
    result = rounds(docofl(uplink="eden:4"), federation(), initial(dtype), 10)
    assert weights_of(result).dtype == np.dtype(dtype)
    assert np.abs(weights_of(result) - GOAL).mean() < 0.06


def test_float16_at_its_limit_stays_finite() -> None:
    def still(message: Any, _context: Context) -> Any:
        assert np.isfinite(message.content["arrays"]["w"].numpy()).all()
        metrics = MetricRecord({"num-examples": 1})
        return Message(
            RecordDict({"arrays": message.content["arrays"], "metrics": metrics}), reply_to=message
        )

    app = docofl_mod.register(ClientApp(mods=[docofl_mod]))
    app.train()(still)
    grid = LocalGrid()
    for partition in range(2):
        grid.add(app, partition)
    values = np.random.default_rng(0).choice([-65504, 65504, 1], (30, 100)).astype(np.float16)
    result = rounds(docofl(), grid, ArrayRecord({"w": Array(values)}), 3)
    assert total(result, "accepted") == 6
    np.testing.assert_array_equal(weights_of(result), values)


@pytest.mark.parametrize(
    "arrays",
    [
        ArrayRecord(),
        ArrayRecord({"n": Array(np.asarray(3))}),
        ArrayRecord({"e": Array(np.zeros((0, 4), np.float32))}),
    ],
)
def test_models_without_floats(arrays: ArrayRecord) -> None:
    def count(message: Any, _context: Context) -> Any:
        arrays = message.content["arrays"]
        found = {name: Array(np.asarray(array.numpy() + 1)) for name, array in arrays.items()}
        content: Any = {"arrays": ArrayRecord(found), "metrics": MetricRecord({"num-examples": 1})}
        return Message(RecordDict(content), reply_to=message)

    app = docofl_mod.register(ClientApp(mods=[docofl_mod]))
    app.train()(count)
    grid = LocalGrid()
    for partition in range(2):
        grid.add(app, partition)
    result = rounds(docofl(), grid, arrays, 3)
    assert total(result, "accepted") == 6
    if "n" in arrays:
        assert int(result.arrays["n"].numpy()) == 6


def test_running_statistics_are_exact() -> None:
    """An estimate of a variance near zero would be negative half of the time."""

    def still(message: Any, _context: Context) -> Any:
        arrays = message.content["arrays"]
        variance = arrays["bn.running_var"].numpy() * np.float32(0.5)
        found = {"bn.running_var": Array(variance), "w": Array(arrays["w"].numpy() + 1)}
        content: Any = {"arrays": ArrayRecord(found), "metrics": MetricRecord({"num-examples": 1})}
        return Message(RecordDict(content), reply_to=message)

    app = docofl_mod.register(ClientApp(mods=[docofl_mod]))
    app.train()(still)
    variance = np.logspace(-6, 0, 16, dtype=np.float32)
    arrays = ArrayRecord(
        {"bn.running_var": Array(variance), "w": Array(np.zeros(1000, dtype=np.float32))}
    )
    for exact, is_exact in (((), False), (None, True)):
        grid = LocalGrid()
        for partition in range(2):
            grid.add(app, partition)
        options: Any = {} if exact is None else {"exact": exact}
        result = rounds(docofl(**options), grid, arrays, 4)
        after = result.arrays["bn.running_var"].numpy()
        assert np.allclose(after, variance / 16, rtol=1e-6) == is_exact


def test_exact_arrays_that_are_not_finite_are_dropped() -> None:
    def bad(reply: Any, _context: Context) -> Any:
        arrays = ArrayRecord({"bn.running_var": Array(np.full(3, np.nan, np.float32))})
        reply.content["docofl.exact"] = arrays
        return reply

    def fine(message: Any, _context: Context) -> Any:
        content: Any = {
            "arrays": message.content["arrays"],
            "metrics": MetricRecord({"num-examples": 1}),
        }
        return Message(RecordDict(content), reply_to=message)

    arrays = ArrayRecord({"bn.running_var": Array(np.ones(3, np.float32))})
    grid = LocalGrid()
    for partition in range(3):
        app = client_app(bad if partition == 1 else None)
        app._registered_funcs.clear()
        docofl_mod.register(app)
        app.train()(fine)
        grid.add(app, partition)
    result = rounds(docofl(), grid, arrays, 2)
    assert (total(result, "accepted"), total(result, "dropped")) == (4, 2)


def test_shapes_are_checked_before_memory_is_taken() -> None:
    layout = Layout.of(ArrayRecord({"n": Array(np.zeros(3, np.int64))}))
    stream = BytesIO()
    header = {"descr": "<i8", "fortran_order": False, "shape": (1 << 50,)}
    np.lib.format.write_array_header_1_0(stream, header)
    hostile = Array(dtype="int64", shape=(3,), stype="numpy.ndarray", data=stream.getvalue())
    with pytest.raises(InvalidInputError, match=r"n: found shape \(1125899906842624,\), expected"):
        layout.exact(ArrayRecord({"n": hostile}))


def test_scalars_and_many_arrays() -> None:
    rng = np.random.default_rng(0)
    named = {f"layer{i}": rng.normal(size=shape) for i, shape in enumerate([(), (1,), (3, 4, 5)])}
    record = ArrayRecord({n: Array(np.asarray(v, np.float32)) for n, v in named.items()})
    layout = Layout.of(record)
    again = Layout.from_header(layout.header())
    assert again == layout
    back = layout.arrays(layout.vector(record), ArrayRecord())
    for name in named:
        np.testing.assert_array_equal(back[name].numpy(), record[name].numpy())


# --- bad replies ---------------------------------------------------------------------------------


def silent(_reply: Any, _context: Context) -> Any:
    raise RuntimeError("on purpose")


def garbage(reply: Any, _context: Context) -> Any:
    reply.content[FRAMES] = frames_record(SIZE, update=b"\x00garbage" * 100)
    return reply


def truncated(reply: Any, _context: Context) -> Any:
    frame = reply.content[FRAMES]["update"].data
    reply.content[FRAMES] = frames_record(SIZE, update=frame[:-1])
    return reply


def wrong_shape(reply: Any, _context: Context) -> Any:
    frame = Eden(bits=3).encode(np.ones(SIZE - 1, dtype=np.float32))
    reply.content[FRAMES] = frames_record(SIZE, update=frame)
    return reply


def other_codec(reply: Any, _context: Context) -> Any:
    frame = Identity().encode(np.ones(SIZE, dtype=np.float32))
    reply.content[FRAMES] = frames_record(SIZE, update=frame)
    return reply


def plain_nan(reply: Any, _context: Context) -> Any:
    """What a client without the mod sends, and NaN at that."""
    arrays = ArrayRecord({"w": Array(np.full((30, 100), np.nan, np.float32))})
    metrics = reply.content["metrics"]
    reply.content = RecordDict({"arrays": arrays, "metrics": metrics})
    return reply


def wrong_stype(reply: Any, _context: Context) -> Any:
    frame = reply.content[FRAMES]["update"].data
    array = Array(dtype="float32", shape=(1,), stype="numpy.ndarray", data=frame)
    reply.content[FRAMES] = ArrayRecord({"update": array})
    return reply


def no_header(reply: Any, _context: Context) -> Any:
    del reply.content[HEADER]
    return reply


def broken_header(reply: Any, _context: Context) -> Any:
    reply.content[HEADER] = ConfigRecord({"json": "[" * 100_000})
    return reply


def odd_header(reply: Any, _context: Context) -> Any:
    reply.content[HEADER] = header_record({"holds": [1, None, {"a": []}], "failure": ["x"]})
    return reply


def nan_weight(reply: Any, _context: Context) -> Any:
    reply.content["metrics"]["num-examples"] = float("nan")
    return reply


def negative_weight(reply: Any, _context: Context) -> Any:
    reply.content["metrics"]["num-examples"] = -5
    return reply


def huge_weight(reply: Any, _context: Context) -> Any:
    reply.content["metrics"]["num-examples"] = 1e300
    return reply


def nan_loss(reply: Any, _context: Context) -> Any:
    reply.content["metrics"]["loss"] = float("nan")
    return reply


def no_metrics(reply: Any, _context: Context) -> Any:
    del reply.content["metrics"]
    return reply


def more_metrics(reply: Any, _context: Context) -> Any:
    reply.content["metrics"]["surprise"] = 1.0
    return reply


def listed_metrics(reply: Any, _context: Context) -> Any:
    reply.content["metrics"]["loss"] = [1.0, 2.0]
    return reply


def always_missing(reply: Any, _context: Context) -> Any:
    reply.content = RecordDict({HEADER: header_record({"holds": [], "missing": True})})
    return reply


@pytest.mark.parametrize(
    "change",
    [
        garbage,
        truncated,
        wrong_shape,
        other_codec,
        plain_nan,
        wrong_stype,
        no_header,
        broken_header,
        odd_header,
        nan_weight,
        negative_weight,
        huge_weight,
        nan_loss,
        no_metrics,
        more_metrics,
        listed_metrics,
        always_missing,
    ],
)
def test_a_bad_reply_is_dropped_and_leaves_the_others(change: Change) -> None:
    with_it = rounds(docofl(), federation(4, n1=client_app(change)), initial(), 4)
    without = rounds(docofl(), federation(4, n1=client_app(silent)), initial(), 4)
    assert total(with_it, "dropped") == total(without, "dropped") == 4
    assert total(with_it, "accepted") == 12
    np.testing.assert_array_equal(weights_of(with_it), weights_of(without))


def test_a_record_named_like_the_model_is_left_out() -> None:
    def disguised(reply: Any, _context: Context) -> Any:
        reply.content["arrays"] = ConfigRecord({"surprise": 1})
        return reply

    with_it = rounds(docofl(), federation(4, n1=client_app(disguised)), initial(), 4)
    without = rounds(docofl(), federation(4), initial(), 4)
    assert total(with_it, "accepted") == 16
    np.testing.assert_array_equal(weights_of(with_it), weights_of(without))


def test_most_replies_outvote_the_metrics_of_earlier_rounds() -> None:
    """One client is alone in the first round, with metrics of its own, and not its master after."""
    calls = [0]

    def late(reply: Any, context: Context) -> Any:
        calls[0] += 1
        return silent(reply, context) if calls[0] <= 3 else reply

    honest = {f"n{i}": client_app(late) for i in (0, 2, 3)}
    grid = federation(4, n1=client_app(more_metrics), **honest)
    result = rounds(docofl(), grid, initial(), 3)
    accepted = [m["docofl-accepted"] for m in result.train_metrics_clientapp.values()]
    assert accepted == [1, 3, 3]


@pytest.mark.parametrize("partition", [0, 1])
def test_of_two_clients_the_one_that_changes_its_metrics_is_dropped(partition: int) -> None:
    calls = [0]

    def sometimes(reply: Any, context: Context) -> Any:
        calls[0] += 1
        return reply if calls[0] == 1 else more_metrics(reply, context)

    grid = federation(2, **{f"n{partition}": client_app(sometimes)})
    result = rounds(docofl(), grid, initial(), 3)
    assert [m["docofl-dropped"] for m in result.train_metrics_clientapp.values()] == [0, 1, 1]


def bad_training(make: Callable[[], Any]) -> ClientApp:
    def fail(message: Any, context: Context) -> Any:
        reply = train(message, context)
        reply.content["arrays"] = make()
        return reply

    app = docofl_mod.register(ClientApp(mods=[docofl_mod]))
    app.train()(fail)
    return app


@pytest.mark.parametrize(
    "make",
    [
        lambda: ArrayRecord({"w": Array(np.full((30, 100), np.nan, np.float32))}),
        lambda: ArrayRecord({"w": Array(np.zeros((100, 30), np.float32))}),
        lambda: ArrayRecord({"v": Array(np.zeros((30, 100), np.float32))}),
        lambda: ArrayRecord({"w": Array("float32", (30, 100), "numpy.ndarray", b"no array")}),
        lambda: ArrayRecord({"w": Array(np.full((30, 100), "x"))}),
        lambda: ArrayRecord(),
    ],
)
def test_training_that_fails_is_reported_and_keeps_the_anchor(make: Callable[[], Any]) -> None:
    grid = federation(4, n2=bad_training(make))
    result = rounds(docofl(deploy_every=100), grid, initial(), 4)
    assert total(result, "dropped") == 4
    assert total(result, "accepted") == 12
    sent: list[Any] = [m.content.get(FRAMES, {}) for m in grid.by_partition(2).messages]
    assert sum("anchor" in frames for frames in sent) == 1


def test_updates_beyond_a_norm_are_dropped() -> None:
    def large(message: Any, context: Context) -> Any:
        reply = train(message, context)
        reply.content["arrays"] = ArrayRecord({"w": Array(np.full((30, 100), 1e6, np.float32))})
        return reply

    app = docofl_mod.register(ClientApp(mods=[docofl_mod]))
    app.train()(large)
    result = rounds(docofl(max_update_norm=100), federation(4, n0=app), initial(), 3)
    assert total(result, "dropped") == 3
    assert np.abs(weights_of(result)).max() < 2


def moving(**changes: Any) -> ClientApp:
    """Return an app that sets some arrays to a value and trains the others."""

    def move(message: Any, context: Context) -> Any:
        reply = train(message, context)
        arrays = dict(reply.content["arrays"])
        for name, value in changes.items():
            like = message.content["arrays"][name].numpy()
            arrays[name] = Array(np.full_like(like, value))
        reply.content["arrays"] = ArrayRecord(arrays)
        return reply

    app = docofl_mod.register(ClientApp(mods=[docofl_mod]))
    app.train()(move)
    return app


@pytest.mark.parametrize("value", [3e38, -1e38, 1e20, 200.0])
@pytest.mark.parametrize("make", [FedAvg, FedAdam])
def test_no_single_update_ends_the_run(value: float, make: Callable[..., Strategy]) -> None:
    def strategy() -> DoCoFLStrategy:
        return docofl(make(fraction_evaluate=0.0))

    with_it = rounds(strategy(), federation(4, n1=moving(w=value)), initial(), 4)
    without = rounds(strategy(), federation(4, n1=client_app(silent)), initial(), 4)
    assert total(with_it, "dropped") == 4
    assert total(with_it, "accepted") == 12
    np.testing.assert_array_equal(weights_of(with_it), weights_of(without))


def test_a_huge_update_alone_in_the_first_round() -> None:
    arrays = ArrayRecord({"w": Array(np.ones((30, 100), dtype=np.float32))})
    apps = {f"n{i}": client_app(garbage) for i in range(3)}
    result = rounds(docofl(), federation(4, n3=moving(w=1e38), **apps), arrays, 2)
    assert by_round(result, "dropped") == [4, 4]


def test_one_of_two_is_enough_to_tell() -> None:
    result = rounds(docofl(), federation(2, n0=moving(w=1e30)), initial(), 3)
    assert by_round(result, "dropped") == [1, 1, 1]


@pytest.mark.parametrize("value", [1e38, -1e10])
def test_no_single_exact_array_ends_the_run(value: float) -> None:
    arrays = ArrayRecord(
        {
            "w": Array(np.zeros((30, 100), dtype=np.float32)),
            "bn.running_var": Array(np.ones((30, 100), dtype=np.float32)),
        }
    )
    odd = moving(**{"bn.running_var": value})
    with_it = rounds(docofl(), federation(4, n1=odd), arrays, 4)
    without = rounds(docofl(), federation(4, n1=client_app(silent)), arrays, 4)
    assert by_round(with_it, "dropped") == [1, 1, 1, 1]
    for name in arrays:
        np.testing.assert_array_equal(with_it.arrays[name].numpy(), without.arrays[name].numpy())


def test_who_learns_nothing_sets_no_limit() -> None:
    """Half of the clients have converged: those that have not are not to be dropped."""

    def still(message: Any, context: Context) -> Any:
        reply = train(message, context)
        reply.content["arrays"] = message.content["arrays"]
        return reply

    app = docofl_mod.register(ClientApp(mods=[docofl_mod]))
    app.train()(still)
    idle = {f"n{i}": app for i in range(3)}
    result = rounds(docofl(), federation(5, **idle), initial(), 5)
    assert total(result, "accepted") == 25


def norm_complaints(limits: NormLimits, *norms: float, model: float = 0.0) -> list[str]:
    return limits.complaints([{"update": norm} for norm in norms], {"update": model})


def test_limits_remember_rounds_with_larger_norms() -> None:
    limits = NormLimits(10.0)
    assert norm_complaints(limits, 1.0, 9.0) == ["", ""]
    assert norm_complaints(limits, 1e-6, 1e-6, 5.0) == ["", "", ""]
    complaint = "update: found a norm of 11, expected at most 10 times 1, as most have"
    assert norm_complaints(limits, 0.0, 1e-6, 11.0) == ["", "", complaint]
    assert norm_complaints(limits) == []
    assert norm_complaints(NormLimits(None), 1.0, 1e30) == ["", ""]


def test_a_client_alone_is_measured_by_the_model_and_by_earlier_rounds() -> None:
    limits = NormLimits(10.0)
    assert norm_complaints(limits, 1e30, model=2.0) != [""]
    assert norm_complaints(limits, 19.0, model=2.0) == [""]
    assert norm_complaints(limits, 1e30, model=1e30) != [""]
    assert norm_complaints(NormLimits(10.0), 5.0, model=0.0) == [""]  # nothing to go by


def test_the_limit_can_be_lifted() -> None:
    result = rounds(docofl(max_norm_ratio=None), federation(4, n1=moving(w=1e5)), initial(), 1)
    assert total(result, "accepted") == 4
    assert np.abs(weights_of(result)).max() > 1e4


def test_a_round_in_which_all_fail_changes_nothing() -> None:
    failing = {f"n{i}": client_app(silent) for i in range(4)}
    result = rounds(docofl(), federation(4, **failing), initial(), 3)
    assert len(result.arrays) == 0  # as with FedAvg: nothing was aggregated
    assert total(result, "dropped") == 12


def test_a_run_goes_on_after_a_round_in_which_all_fail() -> None:
    calls = [0]

    def at_times(reply: Any, context: Context) -> Any:
        calls[0] += 1
        return garbage(reply, context) if 4 < calls[0] <= 8 else reply

    app = client_app(at_times)
    grid = federation(4, **{f"n{i}": app for i in range(4)})
    result = rounds(docofl(), grid, initial(), 4)
    assert [m["docofl-accepted"] for m in result.train_metrics_clientapp.values()] == [4, 0, 4, 4]
    assert "loss" not in result.train_metrics_clientapp[2]
    assert np.abs(weights_of(result) - GOAL).mean() < 0.25


def test_fewer_than_the_quorum_change_nothing() -> None:
    grid = federation(4, n0=client_app(silent), n1=client_app(silent))
    result = rounds(docofl(quorum=3), grid, initial(), 2)
    assert len(result.arrays) == 0
    assert total(result, "accepted") == 4


# --- nodes that come and go ----------------------------------------------------------------------


def at_round(strategy: DoCoFLStrategy, number: int, action: Callable[[], object]) -> None:
    """Do something before a round."""
    configure = strategy.configure_train

    def configure_train(server_round: int, *args: Any) -> Any:
        if server_round == number:
            action()
        return configure(server_round, *args)

    setattr(strategy, "configure_train", configure_train)  # noqa: B010


def test_a_node_that_lost_its_state_is_resynchronised() -> None:
    grid = federation(4)
    strategy = docofl(deploy_every=100)
    at_round(strategy, 3, lambda: grid.by_partition(2).context.state.clear())
    result = rounds(strategy, grid, initial(), 5)
    by_round = [m["docofl-resynchronised"] for m in result.train_metrics_clientapp.values()]
    assert by_round == [0, 0, 1, 0, 0]
    assert total(result, "accepted") == 20
    assert result.train_metrics_clientapp[3]["docofl-late-anchor-bytes"] > 0
    undisturbed = rounds(docofl(deploy_every=100), federation(4), initial(), 5)
    np.testing.assert_array_equal(weights_of(result), weights_of(undisturbed))


def test_all_nodes_lose_their_state() -> None:
    grid = federation(4)
    strategy = docofl(fed_avg(fraction_train=0.5), lead=2)

    def forget() -> None:
        for node in grid.nodes.values():
            node.context.state.clear()

    for number in (2, 3, 5):
        at_round(strategy, number, forget)
    result = rounds(strategy, grid, initial(), 6)
    assert total(result, "accepted") == total(result, "asked") == 12


def test_a_restarted_node_is_the_same_client() -> None:
    grid = federation(4)
    strategy = docofl(deploy_every=100)

    def restart() -> None:
        gone = grid.by_partition(1)
        gone.is_listed = False
        grid.add(gone.app, 1)

    at_round(strategy, 3, restart)
    result = rounds(strategy, grid, initial(), 5)
    assert total(result, "accepted") == 20
    undisturbed = rounds(docofl(deploy_every=100), federation(4), initial(), 5)
    np.testing.assert_array_equal(weights_of(result), weights_of(undisturbed))


def test_a_restarted_node_whose_old_self_is_still_listed() -> None:
    grid = federation(2)
    strategy = docofl()
    old = grid.by_partition(1)

    def restart() -> None:
        old.is_deaf = True
        grid.add(old.app, 1)

    at_round(strategy, 2, restart)
    at_round(strategy, 4, lambda: setattr(old, "is_listed", False))
    result = rounds(strategy, grid, initial(), 5)
    assert [m["docofl-accepted"] for m in result.train_metrics_clientapp.values()] == [2] * 5
    assert [m["docofl-missing"] for m in result.train_metrics_clientapp.values()] == [0, 1, 0, 0, 0]


def test_a_node_never_seen_before_takes_part() -> None:
    grid = federation(3)
    strategy = docofl()
    at_round(strategy, 3, lambda: grid.add(client_app(), 3))
    result = rounds(strategy, grid, initial(), 5)
    assert [m["docofl-accepted"] for m in result.train_metrics_clientapp.values()] == [
        3,
        3,
        4,
        4,
        4,
    ]


def test_nodes_without_or_with_the_same_partition() -> None:
    grid = LocalGrid()
    for partition in (None, None, 5, 5):
        grid.add(client_app(), partition)
    result = rounds(docofl(), grid, initial(), 3)
    assert total(result, "accepted") == 12


def test_a_planned_node_that_is_gone_is_replaced() -> None:
    grid = federation(6)
    strategy = docofl(fed_avg(fraction_train=0.5), lead=3, seed=1)
    at_round(strategy, 3, lambda: setattr(grid.by_partition(0), "is_listed", False))
    at_round(strategy, 4, lambda: setattr(grid.by_partition(1), "is_listed", False))
    result = rounds(strategy, grid, initial(), 8)
    asked = [m["docofl-asked"] for m in result.train_metrics_clientapp.values()]
    assert asked == [3, 3, 3, 2, 2, 2, 2, 2]  # half of those that are there
    assert total(result, "accepted") == total(result, "asked")


def test_a_node_that_never_answers_is_missing_and_holds_nobody_up() -> None:
    grid = federation(4)
    strategy = docofl(deploy_every=2)
    at_round(strategy, 2, lambda: setattr(grid.by_partition(0), "is_deaf", True))
    at_round(strategy, 5, lambda: setattr(grid.by_partition(0), "is_deaf", False))
    result = rounds(strategy, grid, initial(), 7)
    assert by_round(result, "missing") == [0, 1, 0, 0, 0, 0, 0]
    assert by_round(result, "accepted") == [
        4,
        3,
        3,
        3,
        3,
        4,
        4,
    ]  # asked in rounds 3, 4, 6
    assert np.isfinite(weights_of(result)).all()


def test_a_node_that_vanishes_in_the_round_is_missing() -> None:
    grid = federation(4)

    def vanish(reply: Any, context: Context) -> Any:
        if len(grid.nodes[context.node_id].messages) > 4:
            grid.nodes[context.node_id].is_listed = False
            raise RuntimeError("gone")
        return reply

    grid.by_partition(3).app = client_app(vanish)
    result = rounds(docofl(deploy_every=100), grid, initial(), 6)
    assert total(result, "accepted") + total(result, "dropped") == total(result, "asked")
    assert total(result, "dropped") == 1


def test_everybody_is_away_for_a_while() -> None:
    grid = federation(3)
    strategy = docofl()

    def leave() -> None:
        for node in grid.nodes.values():
            node.is_listed = False

    def come_back() -> None:
        for node in grid.nodes.values():
            node.is_listed = True

    at_round(strategy, 2, leave)
    at_round(strategy, 3, come_back)
    result = rounds(strategy, grid, initial(), 4)
    assert [m["docofl-accepted"] for m in result.train_metrics_clientapp.values()] == [3, 0, 3, 3]


def test_clients_without_the_mod_are_told_what_to_do() -> None:
    app = ClientApp()
    app.train()(train)
    grid = LocalGrid()
    for partition in range(2):
        grid.add(app, partition)
    with pytest.raises(InvalidInputError, match=r"docofl_mod\.register\(ClientApp"):
        rounds(docofl(), grid, initial(), 1)


def test_one_client_without_the_mod_is_left_out() -> None:
    app = ClientApp()
    app.train()(train)
    result = rounds(docofl(), federation(4, n1=app), initial(), 2)
    assert total(result, "accepted") == total(result, "asked") == 6


# --- what nodes hold -----------------------------------------------------------------------------


def test_what_was_sent_counts_not_only_what_was_acknowledged() -> None:
    a, b, c, d = (digest_of(name) for name in (b"a", b"b", b"c", b"d"))
    node = Node(0, 2, None)
    node.note({"holds": [a, b]})
    assert node.certain == [a, b]
    node.sent.append(c)  # may have pushed out the oldest
    assert node.certain == [b]
    node.sent.append(d)
    assert node.certain == []
    node.note({"holds": "nonsense"})
    assert node.certain == []
    node.note({"holds": [c, 3, d]})
    assert node.certain == [d]
    assert node.sent == []
    node.note({"holds": [c, "x" * 10**6]})
    assert node.certain == [c]


@pytest.mark.parametrize("is_stored", [True, False])
def test_answers_to_anchors_that_get_lost(is_stored: bool) -> None:
    """A node stores its anchor or not; the server does not learn which."""
    grid = federation(4)
    pull = grid.pull_messages

    def losing(ids: Any) -> Any:
        replies = list(pull(ids))
        for reply in replies:
            if reply.metadata.message_type.startswith("query") and "holds" in str(reply.content):
                reply.content = RecordDict({"nothing": ConfigRecord({"a": 1})})
        return replies

    strategy = docofl(deploy_every=1, capacity=2, lead=1)
    at_round(strategy, 2, lambda: setattr(grid, "pull_messages", losing))
    if not is_stored:
        for node in grid.nodes.values():
            store_nothing(node)
    result = rounds(strategy, grid, initial(), 6)
    assert total(result, "accepted") == total(result, "asked") == 24


def store_nothing(node: Any) -> None:
    """Make a node forget anchors that come ahead."""
    inner = node.app

    def app(message: Any, context: Context) -> Any:
        before = context.state.copy()
        reply = inner(message, context)
        if message.metadata.message_type.startswith("query"):
            context.state.clear()
            context.state.update(before)
        return reply

    node.app = app


def test_a_strategy_serves_two_runs_one_after_the_other() -> None:
    strategy, grid = docofl(), federation(4)
    first = weights_of(rounds(strategy, grid, initial(), 4))
    second = weights_of(rounds(strategy, grid, initial(), 4))
    np.testing.assert_array_equal(first, second)


def test_runs_on_the_same_nodes_do_not_mix() -> None:
    """On a SuperLink each run has contexts of its own; anchors on disk are told apart by run."""
    grid = federation(2)
    node = grid.by_partition(0)
    other = Context(2, node.context.node_id, dict(node.context.node_config), RecordDict(), {})
    rounds(docofl(), grid, initial(), 2)
    assert (
        AnchorStore(node.context).digests() or AnchorStore(grid.by_partition(0).context).digests()
    )
    assert AnchorStore(other).digests() == []


# --- anchors on disk -----------------------------------------------------------------------------


def on_disk(folder: Path, min_bytes: int = 1) -> LocalGrid:
    mod = DoCoFLMod(folder=folder, min_bytes=min_bytes)
    return federation(3, **{f"n{i}": client_app(mod=mod) for i in range(3)})


def test_large_anchors_are_kept_on_disk(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "anchors"
    grid = on_disk(folder)
    result = rounds(docofl(deploy_every=1), grid, initial(), 6)
    assert total(result, "accepted") == 18
    files = list(folder.iterdir())
    assert len(files) == 3 * 2  # nodes, each with the latest anchors
    for node in grid.nodes.values():
        arrays = node.context.state.array_records[ANCHORS].values()
        assert all(array.stype == PATH_STYPE for array in arrays)
        assert sum(len(array.data) for array in arrays) < 600
    in_memory = rounds(docofl(deploy_every=1), federation(3), initial(), 6)
    np.testing.assert_array_equal(weights_of(result), weights_of(in_memory))


def test_small_anchors_stay_in_the_state(tmp_path: Path) -> None:
    rounds(docofl(), on_disk(tmp_path, min_bytes=1 << 20), initial(), 3)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_to_is_no_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    result = rounds(docofl(), on_disk(blocked / "anchors"), initial(), 3)
    assert total(result, "accepted") == 9
    assert total(result, "resynchronised") == 0


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"damaged")])
def test_files_that_are_lost_or_damaged_are_fetched_again(tmp_path: Path, damage: Any) -> None:
    grid = on_disk(tmp_path)
    strategy = docofl(deploy_every=100)
    at_round(strategy, 3, lambda: [damage(path) for path in tmp_path.iterdir()])
    result = rounds(strategy, grid, initial(), 4)
    assert total(result, "resynchronised") == 3
    assert total(result, "accepted") == 12


def test_files_of_calls_that_failed_do_not_stay(tmp_path: Path) -> None:
    context = Context(1, 2, {}, RecordDict(), {})
    store = AnchorStore(context, tmp_path, 1)
    store.put(b"first")
    AnchorStore(Context(1, 2, {}, RecordDict(), {}), tmp_path, 1).put(b"of a call that raised")
    AnchorStore(Context(1, 3, {}, RecordDict(), {}), tmp_path, 1).put(b"of another node")
    store.put(b"second")
    names = {path.read_bytes() for path in tmp_path.iterdir()}
    assert names == {b"second", b"of another node"}
    assert store.digests() == [digest_of(b"second")]  # the failed call had deleted the first


def test_files_that_are_left_behind_are_deleted(tmp_path: Path) -> None:
    digest = digest_of(b"x")
    old, recent = time.time() - 8 * 24 * 3600, time.time() - 6 * 24 * 3600
    ages = {
        f"1-2-{digest}.anchor.new": recent,  # its own, of a write that was cut off
        f"1-3-{digest}.anchor": old,  # of a node that is gone
        f"7-2-{digest}.anchor.new": old,  # of a run that is over
        f"7-3-{digest}.anchor": recent,  # of a run that may go on
        "my.anchor": old,
        "notes.txt": old,
    }
    for name, age in ages.items():
        (tmp_path / name).write_bytes(b"x")
        os.utime(tmp_path / name, (age, age))
    AnchorStore(Context(1, 2, {}, RecordDict(), {}), tmp_path, 1).put(b"new")
    left = {path.name for path in tmp_path.iterdir()}
    own = f"1-2-{digest_of(b'new')}.anchor"
    assert left == {own, f"7-3-{digest}.anchor", "my.anchor", "notes.txt"}


def test_files_that_are_in_use_stay(tmp_path: Path) -> None:
    context = Context(1, 2, {}, RecordDict(), {})
    store = AnchorStore(context, tmp_path, 1)
    store.put(b"in use")
    (path,) = tmp_path.iterdir()
    os.utime(path, (0, 0))
    assert store.get(digest_of(b"in use")) == b"in use"
    AnchorStore(Context(1, 3, {}, RecordDict(), {}), tmp_path, 1).put(b"of another node")
    assert path.exists()


@pytest.mark.parametrize("damage", [b"", b"damaged", b"\x00" * 100])
def test_an_anchor_that_is_damaged_in_the_state_is_fetched_again(damage: bytes) -> None:
    grid = federation(3)
    strategy = docofl(deploy_every=100)

    def spoil() -> None:
        state = grid.by_partition(1).context.state
        record = state.array_records[ANCHORS]
        state[ANCHORS] = ArrayRecord(
            {
                name: Array(dtype="uint8", shape=array.shape, stype=array.stype, data=damage)
                for name, array in record.items()
            }
        )

    at_round(strategy, 3, spoil)
    result = rounds(strategy, grid, initial(), 4)
    assert by_round(result, "resynchronised") == [0, 0, 1, 0]
    assert total(result, "accepted") == 12
    undisturbed = rounds(docofl(deploy_every=100), federation(3), initial(), 4)
    np.testing.assert_array_equal(weights_of(result), weights_of(undisturbed))


@pytest.mark.parametrize(
    "record",
    [
        ConfigRecord({"a": 1}),
        ArrayRecord({"no number": Array(np.zeros(3))}),
        ArrayRecord({"00000001-xyz": Array("uint8", (1,), PATH_STYPE, b"\xff\x00")}),
    ],
)
def test_a_state_that_somebody_else_has_written(record: Any) -> None:
    grid = federation(3)
    strategy = docofl(deploy_every=2)

    def spoil() -> None:
        grid.by_partition(1).context.state[ANCHORS] = record

    at_round(strategy, 3, spoil)
    result = rounds(strategy, grid, initial(), 5)
    assert total(result, "accepted") == 15


def test_the_store_keeps_the_latest_two() -> None:
    context = Context(1, 2, {}, RecordDict(), {})
    store = AnchorStore(context)
    frames = [bytes([i]) * 10 for i in range(4)]
    for frame in frames:
        store.put(frame)
    assert store.digests() == [digest_of(frame) for frame in frames[2:]]
    store.put(frames[2])  # again: now the newest
    assert store.digests() == [digest_of(frames[3]), digest_of(frames[2])]
    assert store.get(digest_of(frames[3])) == frames[3]
    assert store.get(digest_of(frames[0])) is None
