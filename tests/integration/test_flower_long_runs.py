"""What must not grow, leak into the next run or fill the log."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
from flwr.app import Context
from flwr.clientapp import ClientApp

from docofl_codec.framework import AdaptiveBudgets, Ledger
from docofl_codec.integrations.flower import nodes as nodes_module
from docofl_codec.integrations.flower.wire import HEADER, header_record
from tests.integration.local_grid import LocalGrid, rounds
from tests.integration.test_flower_faults import (
    client_app,
    docofl,
    fed_avg,
    federation,
    initial,
    total,
    train,
    weights_of,
)

pytestmark = pytest.mark.integration


def come_and_go(strategy: Any, grid: LocalGrid, app: ClientApp) -> None:
    """Replace all nodes by new ones, without partitions, in every round."""
    configure = strategy.configure_train

    def configure_train(*args: Any) -> Any:
        for node_id in list(grid.nodes):
            del grid.nodes[node_id]
        for _ in range(2):
            grid.add(app)
        return configure(*args)

    setattr(strategy, "configure_train", configure_train)  # noqa: B010


def test_nodes_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes_module, "MAX_ABSENCE", 5)
    strategy = docofl(deploy_every=1, capacity=2, lead=2)
    grid = federation(2)
    come_and_go(strategy, grid, client_app())
    result = rounds(strategy, grid, initial(), 40)
    assert total(result, "accepted") == 80
    run = strategy._run
    assert run is not None
    limit = 2 * (5 + 2 + 2)
    assert len(run.nodes._nodes) <= limit
    assert len(run.nodes._digests) <= 2 + 1
    assert len(run.nodes._questions) == len(run.nodes.complaints) == 0
    ledger = strategy.server.ledger
    assert len(ledger._by_client) <= 4 * (limit + 1)
    assert sum(ledger.of_client(-1).values()) > ledger.total() / 2
    by_client = {client for _, client in ledger._by_client}
    assert sum(sum(ledger.of_client(c).values()) for c in by_client) == ledger.total()


def test_waiting_makes_no_node_older() -> None:
    grid = federation(2)
    nodes = nodes_module.Nodes(patience=1.0)
    nodes.refresh(grid, 1.0)
    grid.by_partition(1).is_listed = False
    for _ in range(nodes_module.MAX_ABSENCE + 10):
        nodes.refresh(grid, 0.0)
    assert nodes.prune(0) == []
    rounds_away = [nodes.prune(0) for _ in range(nodes_module.MAX_ABSENCE)]
    assert rounds_away[-1] == [1]
    assert not any(rounds_away[:-1])


def test_complaints_of_nodes_that_are_gone_are_forgotten() -> None:
    strategy = docofl()
    grid = federation(2)
    stranger = ClientApp()
    stranger.train()(train)
    configure = strategy.configure_train

    def configure_train(*args: Any) -> Any:
        for node_id in [n for n, node in grid.nodes.items() if node.app is stranger]:
            del grid.nodes[node_id]
        grid.add(stranger)
        return configure(*args)

    setattr(strategy, "configure_train", configure_train)  # noqa: B010
    rounds(strategy, grid, initial(), 6)
    assert strategy._run is not None
    assert len(strategy._run.nodes.complaints) == 1


def test_a_retired_client_is_booked_under_nobody() -> None:
    ledger = Ledger(10)
    for client in (3, 4):
        ledger.record("update", round_number=0, client=client, num_bytes=7)
    ledger.retire(3)
    ledger.retire(3)
    assert ledger.of_client(3)["update"] == 0
    assert ledger.of_client(-1)["update"] == ledger.of_client(4)["update"] == 7
    assert ledger.total() == 14


def test_a_run_does_not_learn_from_the_one_before() -> None:
    budgets = AdaptiveBudgets(rho=1.2, anchor_bits=(1.5, 8.0))
    strategy = docofl(budgets=budgets, deploy_every=2)
    first = weights_of(rounds(strategy, federation(), initial(), 5))
    second = weights_of(rounds(strategy, federation(), initial(), 5))
    np.testing.assert_array_equal(first, second)
    assert budgets == AdaptiveBudgets(rho=1.2, anchor_bits=(1.5, 8.0))


def raising(_reply: Any, _context: Context) -> Any:
    raise RuntimeError("x\n\x1b[31m" + 10**6 * "long ")


def failing(reply: Any, _context: Context) -> Any:
    reply.content[HEADER] = header_record({"holds": [], "failure": 10**6 * "long "})
    return reply


def many_metrics(reply: Any, _context: Context) -> Any:
    reply.content["metrics"]["loss"] = [float("nan")] * 10**5
    return reply


def odd_type(reply: Any, _context: Context) -> Any:
    array = reply.content["docofl.frames"]["update"]
    array.stype = 10**6 * "long "
    return reply


@pytest.mark.parametrize("change", [raising, failing, many_metrics, odd_type])
def test_no_client_can_fill_the_log(change: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="flwr"):
        logging.getLogger("flwr").propagate = True
        result = rounds(docofl(), federation(3, n1=client_app(change)), initial(), 2)
    assert total(result, "dropped") == 2
    dropped = [r.getMessage() for r in caplog.records if "docofl: client" in r.getMessage()]
    assert len(dropped) == 2
    assert all(len(line) < 700 and line.isprintable() for line in dropped)


def test_no_node_can_fill_the_error_of_a_run() -> None:
    def refuse(_message: Any, _context: Context) -> Any:
        raise RuntimeError(10**6 * "long ")

    grid = LocalGrid()
    app = ClientApp()
    app.query("docofl_anchor")(refuse)
    for partition in range(2):
        grid.add(app, partition)
    with pytest.raises(Exception, match="found none that knows DoCoFL") as raised:
        rounds(docofl(fed_avg()), grid, initial(), 1)
    assert len(str(raised.value)) < 1000
