"""Nodes that do not answer: nobody waits for them longer than makes sense, and they may return."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

from docofl_codec import InvalidInputError
from docofl_codec.integrations.flower import DoCoFLStrategy, docofl_mod
from docofl_codec.integrations.flower import nodes as nodes_module
from tests.integration.local_grid import LocalGrid
from tests.integration.test_flower_faults import (
    at_round,
    by_round,
    client_app,
    docofl,
    federation,
    initial,
    train,
)

pytestmark = pytest.mark.integration

TIMEOUT = 240.0  # a test that waits so long has failed
PATIENCE = 0.3


@pytest.fixture(autouse=True)
def _busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the patience decide, not how long this machine has taken for an answer."""
    monkeypatch.setattr(nodes_module, "SLOWER", 1)


def run(strategy: DoCoFLStrategy, grid: LocalGrid, num_rounds: int) -> Any:
    """Run with a long timeout; assert that nobody has waited for it."""
    begin = time.monotonic()
    result = strategy.start(grid, initial(), num_rounds, timeout=TIMEOUT)
    assert time.monotonic() - begin < TIMEOUT / 4
    return result


def set_deaf(grid: LocalGrid, partition: int, is_deaf: bool) -> None:
    grid.by_partition(partition).is_deaf = is_deaf


def messages_of(grid: LocalGrid, partition: int, kind: str) -> int:
    return sum(
        message.metadata.message_type.startswith(kind)
        for message in grid.by_partition(partition).messages
    )


def test_a_node_that_does_not_introduce_itself() -> None:
    grid = federation(4)
    set_deaf(grid, 2, True)
    result = run(docofl(patience=PATIENCE), grid, 4)
    assert by_round(result, "asked") == by_round(result, "accepted") == [3, 3, 3, 3]


def test_it_takes_part_once_it_does() -> None:
    grid = federation(4)
    set_deaf(grid, 2, True)
    strategy = docofl(patience=PATIENCE)
    at_round(strategy, 3, lambda: set_deaf(grid, 2, False))
    result = run(strategy, grid, 6)
    accepted = by_round(result, "accepted")
    assert accepted[:2] == [3, 3]
    assert accepted[-1] == 4


def test_nobody_introduces_himself_for_a_while() -> None:
    grid = federation(3)
    for partition in range(3):
        set_deaf(grid, partition, True)
    calls = [0]
    ids = grid.get_node_ids

    def listening() -> Any:
        calls[0] += 1
        if calls[0] == 4:
            set_deaf(grid, 1, False)
        return ids()

    setattr(grid, "get_node_ids", listening)  # noqa: B010
    result = run(docofl(patience=PATIENCE), grid, 2)
    assert by_round(result, "accepted") == [1, 1]


def test_nobody_at_all() -> None:
    grid = federation(2)
    for partition in range(2):
        set_deaf(grid, partition, True)
    with pytest.raises(InvalidInputError, match=r"found none that knows DoCoFL \(no answer\)"):
        docofl(patience=PATIENCE).start(grid, initial(), 1, timeout=2)


@pytest.mark.parametrize("deploy_every", [1, 100])
def test_a_node_that_falls_silent(deploy_every: int) -> None:
    """With deployments in every round it is the anchor that it does not answer."""
    grid = federation(4)
    strategy = docofl(patience=PATIENCE, deploy_every=deploy_every)
    at_round(strategy, 3, lambda: set_deaf(grid, 1, True))
    result = run(strategy, grid, 6)
    assert by_round(result, "accepted") == [4, 4, 3, 3, 3, 3]
    assert sum(by_round(result, "missing")) == 1


def test_silent_nodes_are_asked_ever_more_rarely() -> None:
    grid = federation(3)
    asked = [0]
    deliver = grid._deliver

    def counting(message: Any) -> None:
        node = grid.nodes[message.metadata.dst_node_id]
        asked[0] += node.is_deaf
        deliver(message)

    setattr(grid, "_deliver", counting)  # noqa: B010
    strategy = docofl(patience=PATIENCE, deploy_every=100)
    at_round(strategy, 2, lambda: set_deaf(grid, 0, True))
    run(strategy, grid, 34)
    assert asked[0] == 1 + 6  # what it left unanswered, and after 1, 2, 4, 8, 16 and 32 rounds


def test_a_node_that_answers_all_but_training() -> None:
    """It gets ever more time, and ever fewer chances."""
    grid = federation(3)
    original = grid._deliver

    def deliver(message: Any) -> None:
        is_first = grid.nodes[message.metadata.dst_node_id] is grid.by_partition(0)
        if is_first and is_hanging[0] and message.metadata.message_type == "train":
            return
        original(message)

    is_hanging = [False]
    setattr(grid, "_deliver", deliver)  # noqa: B010
    strategy = docofl(patience=PATIENCE, deploy_every=100)
    at_round(strategy, 3, lambda: is_hanging.__setitem__(0, True))
    result = run(strategy, grid, 14)
    missing = by_round(result, "missing")
    assert missing == [0, 0, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0]
    assert sum(by_round(result, "accepted")) == 3 * 14 - 4 - sum(m == 0 for m in missing[4:])


def test_who_has_never_trained_gets_all_the_time() -> None:
    grid = federation(2)
    seconds = [0.0]
    original = grid.pull_messages

    def pull(message_ids: Any) -> Any:
        is_training = bool(grid._in_flight) and seconds[0] > 0
        if is_training and time.monotonic() < seconds[0]:
            return []
        return original(message_ids)

    setattr(grid, "pull_messages", pull)  # noqa: B010
    strategy = docofl(patience=0.1, deploy_every=100, lead=0)
    configure = strategy.configure_train

    def slow(*args: Any) -> Any:
        messages = configure(*args)
        seconds[0] = time.monotonic() + 1
        return messages

    setattr(strategy, "configure_train", slow)  # noqa: B010
    result = run(strategy, grid, 1)
    assert by_round(result, "accepted") == [2]


def test_a_silent_node_holds_up_no_evaluation() -> None:
    grid = federation(4)
    strategy = docofl(FedAvg(), patience=PATIENCE, deploy_every=100)
    at_round(strategy, 3, lambda: set_deaf(grid, 3, True))
    result = run(strategy, grid, 5)
    assert by_round(result, "accepted") == [4, 4, 3, 3, 3]
    assert sorted(result.evaluate_metrics_clientapp) == [1, 2, 3, 4, 5]


def test_who_has_lost_its_anchor_does_not_wait_for_who_is_silent() -> None:
    grid = federation(4)
    strategy = docofl(patience=2.0, deploy_every=100)
    times: dict[int, float] = {}

    def timed(message: Any, context: Context, call_next: Any) -> Any:
        if message.metadata.message_type == "train":
            times[int(context.node_config["partition-id"])] = time.monotonic()
        return call_next(message, context)

    app = docofl_mod.register(ClientApp(mods=[docofl_mod, timed]))
    app.train()(train)
    for node in grid.nodes.values():
        node.app = app

    def upset() -> None:
        set_deaf(grid, 0, True)
        grid.by_partition(1).context.state.clear()

    at_round(strategy, 3, upset)
    result = run(strategy, grid, 3)
    assert by_round(result, "resynchronised") == [0, 0, 1]
    assert by_round(result, "accepted") == [4, 4, 3]
    assert times[1] - times[2] < 1.0  # the silent node costs two seconds


@pytest.mark.parametrize("patience", [0, -1, float("nan")])
def test_bad_patience(patience: float) -> None:
    with pytest.raises(InvalidInputError, match="patience: found"):
        docofl(patience=patience)


def test_slow_nodes_have_the_time_that_others_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes_module, "SLOWER", 10)
    nodes = nodes_module.Nodes(patience=2.0)
    node = nodes_module.Node(0, 5, None)
    assert nodes._allowance(node, "train") == float("inf")
    node.answered.add("train")
    assert nodes._allowance(node, "train") == 2.0
    nodes._longest["train"] = 30.0
    assert nodes._allowance(node, "train") == 300.0
    node.misses["train"] = 2
    assert nodes._allowance(node, "train") == 1200.0
    assert nodes._allowance(node, "evaluate") == nodes._allowance(None, "train") == float("inf")


def test_a_late_answer_does_no_harm() -> None:
    """A node answers a round after the server has given it up, and comes back."""
    grid = federation(3)
    held_back: list[str] = []
    original = grid.pull_messages

    def pull(message_ids: Any) -> Any:
        return original([m for m in message_ids if m not in held_back])

    setattr(grid, "pull_messages", pull)  # noqa: B010
    app = client_app()

    def late(message: Any, context: Context) -> Any:
        if message.metadata.message_type == "train" and is_late[0]:
            is_late[0] = False
            held_back.append(message.metadata.message_id)
            grid._in_flight.pop(context.node_id)
        return app(message, context)

    is_late = [False]
    grid.by_partition(2).app = late  # type: ignore[assignment]
    strategy = docofl(patience=PATIENCE, deploy_every=100)
    at_round(strategy, 3, lambda: is_late.__setitem__(0, True))
    at_round(strategy, 4, held_back.clear)
    result = run(strategy, grid, 6)
    assert by_round(result, "accepted") == [3, 3, 2, 3, 3, 3]
    assert np.isfinite(result.arrays["w"].numpy()).all()


def test_nodes_without_the_mod_are_asked_ever_more_rarely() -> None:
    grid = federation(3)
    stranger = ClientApp()
    stranger.train()(train)
    node = grid.nodes[grid.add(stranger, 3)]
    result = run(docofl(patience=PATIENCE), grid, 20)
    assert by_round(result, "accepted") == [3.0] * 20
    assert len(node.messages) == 5  # in rounds 1, 2, 4, 8 and 16


def test_no_timeout_at_all() -> None:
    result = docofl().start(federation(2), initial(), 2, timeout=None)
    assert by_round(result, "accepted") == [2, 2]


def test_a_waiting_round_does_not_ask_again_and_again() -> None:
    """A node may start a process for each question: more of them make a slow one slower."""
    grid = federation(1)
    set_deaf(grid, 0, True)
    asked = [0]
    deliver = grid._deliver

    def counting(message: Any) -> None:
        asked[0] += 1
        deliver(message)

    setattr(grid, "_deliver", counting)  # noqa: B010
    nodes = nodes_module.Nodes(patience=600.0)
    nodes.refresh(grid, 0.0)
    for _ in range(50):
        nodes.refresh(grid, 0.0, is_new_round=False)
    assert asked[0] == 1


def test_answers_to_several_questions() -> None:
    """The node answers all at once, the first well, the others with errors."""
    grid = federation(1)
    node = grid.by_partition(0)
    grid.pulls_to_wait = 10**6
    usual, calls = node.app, [0]

    def once(message: Any, context: Context) -> Any:
        calls[0] += 1
        grid._in_flight.clear()
        if calls[0] > 1:
            raise RuntimeError("once is enough")
        return usual(message, context)

    node.app = once  # type: ignore[assignment]
    nodes = nodes_module.Nodes(patience=600.0)
    for _ in range(7):
        grid._in_flight.clear()
        nodes.refresh(grid, 0.0)
    assert calls[0] == 3
    grid.pulls_to_wait = 0
    nodes.refresh(grid, 0.0, is_new_round=False)
    assert nodes.there() == [0]
