"""What an engine needs that brings its own clients and its own aggregation."""

from __future__ import annotations

import numpy as np
import pytest

from docofl_codec import Ecuq, Eden, Identity, InvalidInputError
from docofl_codec.framework import (
    DivergenceError,
    ElasticParticipation,
    ProtocolError,
    Server,
    UniformParticipation,
    Update,
    run,
)
from tests.framework.problems import GOAL, SIZE, exact_server, gradient_step

# --- aggregation by the engine -------------------------------------------------------------------


def engine_server(**options: object) -> Server:
    return exact_server(aggregation="engine", **options)


def upload(server: Server, client: int, value: float) -> Update:
    frame = Identity().encode(np.full(SIZE, value, dtype=np.float32))
    return Update(client, server.round, frame)


def test_an_engine_that_averages_is_the_server_that_averages() -> None:
    ours, theirs = exact_server(), engine_server()
    for _ in run(ours, gradient_step, num_rounds=5):
        pass
    for t in range(5):
        theirs.deploy(t)
        models = []
        for client in sorted(theirs.participation.participants(t)):
            update = gradient_step(client, t, theirs.weights)
            outcome = theirs.receive(Update(client, t, Identity().encode(update)))
            assert outcome.model is not None
            models.append(outcome.model)
        report = theirs.finish_round(np.mean(models, axis=0))
        assert report.is_applied
        assert report.update_norm > 0
    np.testing.assert_allclose(theirs.weights, ours.weights, rtol=1e-5, atol=1e-6)


def test_models_are_weights_and_update() -> None:
    server = engine_server()
    server.weights[:] = GOAL
    client = min(server.participation.participants(0))
    outcome = server.receive(upload(server, client, 0.5))
    assert outcome.model is not None
    np.testing.assert_array_equal(outcome.model, GOAL + np.float32(0.5))
    np.testing.assert_array_equal(server.weights, GOAL)


def test_an_update_can_be_taken_back() -> None:
    server = engine_server()
    first, second = sorted(server.participation.participants(0))[:2]
    outcome = server.receive(upload(server, first, 0.5))
    assert outcome.norm == pytest.approx(0.5 * SIZE**0.5)
    assert server.receive(upload(server, second, 2.0)).accepted
    server.take_back(second)
    with pytest.raises(ProtocolError, match=f"client {second}: found no update"):
        server.take_back(second)
    report = server.finish_round(server.weights)
    assert (report.accepted, report.dropped) == (1, 1)
    with pytest.raises(ProtocolError, match="found no update that can be taken back"):
        exact_server().take_back(first)


def test_sums_that_overflow_are_dropped() -> None:
    server = engine_server()
    server.weights[:] = 3e38
    client = min(server.participation.participants(0))
    outcome = server.receive(upload(server, client, 3e38))
    assert not outcome.accepted
    assert outcome.model is None
    assert server.finish_round().dropped == 1


@pytest.mark.parametrize("quorum", [1, 2])
def test_without_new_weights_or_a_quorum_the_old_ones_stay(quorum: int) -> None:
    server = engine_server(quorum=quorum)
    client = min(server.participation.participants(0))
    server.receive(upload(server, client, 1.0))
    report = server.finish_round(None if quorum == 1 else np.ones(SIZE))
    assert not report.is_applied
    assert report.accepted == 1
    np.testing.assert_array_equal(server.weights, 0)


def test_weights_of_another_size_or_not_finite() -> None:
    server = engine_server()
    server.receive(upload(server, min(server.participation.participants(0)), 1.0))
    with pytest.raises(InvalidInputError, match="weights: found 3 values"):
        server.finish_round(np.ones(3))
    with pytest.raises(DivergenceError, match="the engine leaves weights"):
        server.finish_round(np.full(SIZE, np.nan))
    np.testing.assert_array_equal(server.weights, 0)


def test_a_server_that_averages_takes_no_weights() -> None:
    with pytest.raises(ProtocolError, match="expected none where the server averages"):
        exact_server().finish_round(np.zeros(SIZE))


@pytest.mark.parametrize("options", [{"max_delay": 1}, {"error_feedback_clients": 20}])
def test_delays_and_feedback_need_the_servers_mean(options: dict[str, int]) -> None:
    with pytest.raises(InvalidInputError, match='aggregation: found "engine" with'):
        engine_server(**options)


def test_unknown_aggregation() -> None:
    with pytest.raises(InvalidInputError, match="aggregation: found 'sum', expected one of mean"):
        exact_server(aggregation="sum")


def test_bytes_of_uploads_that_cannot_be_used_are_booked() -> None:
    server = engine_server()
    client = min(server.participation.participants(0))
    server.drop(client, 123)
    report = server.finish_round()
    assert (report.dropped, report.missing, report.bytes["update"]) == (1, 4, 123)


# --- joining a round -----------------------------------------------------------------------------


def docofl_server() -> Server:
    process = UniformParticipation(4, 4)
    return Server(np.zeros(SIZE), process, anchor_codec=Ecuq(), correction_codec=Eden())


def test_a_client_with_an_anchor_gets_a_correction() -> None:
    server = docofl_server()
    server.deploy(0)
    correction, anchor = server.join(1, server.anchor(1).id)
    assert anchor is None
    assert correction.anchor_id == 0
    assert server.ledger.of_client(1)["late_anchor"] == 0


@pytest.mark.parametrize("held", [None, 99])
def test_a_client_without_a_usable_anchor_gets_the_latest(held: int | None) -> None:
    server = docofl_server()
    server.deploy(0)
    correction, anchor = server.join(1, held)
    assert anchor is not None
    assert correction.anchor_id == anchor.id == 0
    assert server.ledger.of_client(1)["late_anchor"] == len(anchor.frame)


def test_direct_downlinks_have_no_anchors() -> None:
    server = exact_server(downlink="direct")
    correction, anchor = server.join(min(server.participation.participants(0)), None)
    assert anchor is None
    assert correction.anchor_id is None


# --- clients that come and go --------------------------------------------------------------------


@pytest.mark.parametrize("lead", [0, 3, (1, 4)])
def test_a_constant_population_is_uniform_participation(lead: int | tuple[int, int]) -> None:
    elastic = ElasticParticipation(lead=lead, seed=5)
    uniform = UniformParticipation(10, 4, lead, seed=5)
    for t in range(20):
        elastic.plan(t, range(10), 4)
        assert elastic.participants(t) == uniform.participants(t)
    assert elastic.horizon == (lead if isinstance(lead, int) else lead[1])


def test_a_plan_stays() -> None:
    process = ElasticParticipation(lead=2)
    process.plan(4, [3, 5, 7], 2)
    before = process.participants(4)
    process.plan(4, [100, 101], 2)
    assert process.participants(4) == before
    assert not process.complete(4, [3, 5, 7], 2)
    assert process.participants(4) == before


def test_the_order_of_clients_does_not_matter() -> None:
    one, other = ElasticParticipation(), ElasticParticipation()
    one.plan(0, [3, 5, 7, 9], 2)
    other.plan(0, [9, 7, 3, 5], 2)
    assert one.participants(0) == other.participants(0)


def test_clients_that_are_gone_are_replaced_and_told_in_the_round() -> None:
    process = ElasticParticipation(lead=2, seed=1)
    process.plan(6, range(6), 4)
    planned = set(process.participants(6))
    gone = sorted(planned)[:2]
    there = [client for client in range(6) if client not in gone]
    assert process.complete(6, there, 4)
    after = process.participants(6)
    assert set(after) == set(there)
    assert all(after[client] == (4 if client in planned else 6) for client in after)


def test_rounds_shrink_with_their_clients_and_grow_again() -> None:
    process = ElasticParticipation(lead=1)
    process.plan(3, [], 4)
    assert process.participants(3) == {}
    assert process.complete(3, [1, 2], 4)
    assert process.participants(3) == {1: 3, 2: 3}
    assert process.complete(3, [], 4)
    assert process.participants(3) == {}


def test_everybody_is_chosen_equally_often() -> None:
    process = ElasticParticipation(seed=3)
    counts = np.zeros(8)
    for t in range(4000):
        process.plan(t, range(8), 4)
        process.complete(t, [0, 1, 2, 3, 4, 5, 6], 4)
        counts[list(process.participants(t))] += 1
        process.forget(t)
    assert counts[7] == 0
    expected = 4000 * 4 / 7
    assert np.all(np.abs(counts[:7] - expected) < 5 * np.sqrt(4000 * (4 / 7) * (3 / 7)))


def test_unplanned_and_forgotten_rounds_are_empty() -> None:
    process = ElasticParticipation()
    process.plan(0, [1], 1)
    process.plan(1, [1], 1)
    process.forget(1)
    assert [dict(process.participants(t)) for t in range(3)] == [{}, {1: 1}, {}]
    assert repr(process) == "ElasticParticipation(lead=0, seed=0)"


def test_a_server_learns_of_a_round_that_was_completed() -> None:
    process = ElasticParticipation()
    process.plan(0, [0, 1], 2)
    server = exact_server(participation=process, aggregation="engine")
    process.complete(0, [0, 2], 2)
    server.abandon_round()
    assert server.receive(upload(server, 2, 1.0)).accepted
    assert server.receive(upload(server, 1, 1.0)).reason == "not asked"
