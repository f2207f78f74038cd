"""Server, client and loop: what the paper's algorithms promise, and what faults must not do."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from docofl_codec import Codec, CodecError, Ecuq, Eden, Identity
from docofl_codec.framework import (
    SGD,
    Adagrad,
    Adam,
    Client,
    ProtocolError,
    Server,
    ServerOptimizer,
    StaleAnchorError,
    UniformParticipation,
    Yogi,
    run,
)

Floats = npt.NDArray[np.float32]

SIZE = 1000
GOAL = np.linspace(-1, 1, SIZE, dtype=np.float32)


def gradient_step(client: int, _round: int, weights: Floats) -> Floats:
    """Move a part of the way to a goal that differs a little between clients."""
    shift = np.float32(0.01 * np.sin(client))
    step: Floats = np.float32(0.2) * (GOAL + shift - weights)
    return step


def exact_server(**options: Any) -> Server:
    codec = Identity()
    return Server(
        np.zeros(SIZE),
        options.pop("participation", UniformParticipation(20, 5, lead=3)),
        anchor_codec=options.pop("anchor_codec", codec),
        correction_codec=options.pop("correction_codec", codec),
        update_codec=options.pop("update_codec", codec),
        **options,
    )


def federated_averaging(server: Server, num_rounds: int) -> Floats:
    """Return plain FedAvg's weights for the same clients."""
    weights = np.zeros(SIZE, dtype=np.float32)
    for t in range(num_rounds):
        total = np.zeros(SIZE, dtype=np.float32)
        clients = sorted(server.participation.participants(t))
        for client in clients:
            total += gradient_step(client, t, weights)
        weights += total / np.float32(len(clients))
    return weights


def test_deploying_every_round_without_lead_is_federated_averaging_bit_for_bit() -> None:
    server = exact_server(deploy_every=1, capacity=1, participation=UniformParticipation(20, 5))
    for _ in run(server, gradient_step, 20):
        pass
    assert np.array_equal(server.weights, federated_averaging(server, 20))


def test_old_anchors_change_nothing_but_rounding() -> None:
    server = exact_server(deploy_every=10)
    for _ in run(server, gradient_step, 40):
        pass
    assert np.allclose(server.weights, federated_averaging(server, 40), atol=1e-5)


@pytest.mark.parametrize("anchor_codec", [Ecuq(bits=4), Ecuq(bits=2)])
def test_training_converges_with_small_frames(anchor_codec: Codec) -> None:
    server = exact_server(
        anchor_codec=anchor_codec, correction_codec=Eden(bits=2), update_codec=Eden(bits=2)
    )
    reports = list(run(server, gradient_step, 120))
    assert np.sqrt(np.mean((server.weights - GOAL) ** 2)) < 0.03
    assert reports[-1].correction_norm < reports[2].correction_norm
    assert server.ledger.ratio_to_float32("correction") < 0.2


def test_estimates_are_unbiased_although_the_anchor_is_not() -> None:
    weights = np.random.default_rng(0).lognormal(size=192).astype(np.float32)
    process = UniformParticipation(4000, 4000)
    server = Server(weights, process, anchor_codec=Ecuq(bits=1), correction_codec=Eden(bits=1))
    anchor = server.deploy()
    assert anchor is not None
    assert np.abs(anchor.vector - weights).max() > 0.1
    estimates = []
    for i in range(4000):
        client = Client(i, server.anchor_codec, server.correction_codec, server.update_codec)
        client.receive_anchor(anchor.id, anchor.frame)
        estimates.append(client.estimate(server.correction(i, anchor.id)))
    errors = np.asarray(estimates, dtype=np.float64) - weights
    standard_error = errors.std(axis=0) / np.sqrt(len(errors))
    assert np.abs(errors.mean(axis=0) / standard_error).max() < 5


def test_corrections_are_independent_or_shared() -> None:
    process = UniformParticipation(4, 4)
    for shared in (False, True):
        server = Server(GOAL, process, correction_codec=Eden(), shared_corrections=shared)
        server.deploy()
        frames = {server.correction(client, 0) for client in range(4)}
        assert len(frames) == (1 if shared else 4)


def test_same_seed_gives_the_same_run() -> None:
    weights = []
    for seed in (1, 1, 2):
        server = Server(np.zeros(SIZE), UniformParticipation(20, 5), seed=seed)
        for _ in run(server, gradient_step, 10):
            pass
        weights.append(server.weights.tobytes())
    assert weights[0] == weights[1] != weights[2]


# --- faults (rows 27 to 31) ----------------------------------------------------------------------


@pytest.mark.parametrize("codec", [Identity(), Eden(bits=4)], ids=repr)
def test_a_corrupt_upload_leaves_the_mean_of_the_others(codec: Codec) -> None:
    """Row 27: bit-equal to the other nine's."""
    process = UniformParticipation(10, 10)
    updates = [gradient_step(i, 0, np.zeros(SIZE, np.float32)) for i in range(10)]
    frames = [codec.encode(update, seed=i) for i, update in enumerate(updates)]
    results = []
    for is_damaged in (False, True):
        server = Server(np.zeros(SIZE), process, update_codec=codec)
        for i, frame in enumerate(frames):
            if i == 4 and not is_damaged:
                continue
            bad = i == 4
            outcome = server.receive(i, frame[:-9] + b"\0" + frame[-8:] if bad else frame)
            assert outcome.accepted != bad
        report = server.finish_round()
        assert (report.accepted, report.dropped) == (9, int(is_damaged))
        results.append(server.weights.tobytes())
    assert results[0] == results[1]


def test_bad_updates_are_dropped_and_counted() -> None:
    """Row 28: a wrong shape, a huge norm, something else than a frame."""
    server = exact_server(participation=UniformParticipation(5, 5), max_update_norm=100.0)
    good = Identity().encode(np.ones(SIZE, np.float32))
    bad = [
        Identity().encode(np.ones(SIZE + 1, np.float32)),
        Identity().encode(np.full(SIZE, 1e30, np.float32)),
        b"not a frame",
        Ecuq().encode(np.ones(SIZE, np.float32)),
    ]
    for client, frame in enumerate(bad):
        outcome = server.receive(client, frame)
        assert not outcome.accepted
        assert outcome.reason
    assert server.receive(4, good).accepted
    report = server.finish_round()
    assert (report.accepted, report.dropped) == (1, 4)
    assert np.array_equal(server.weights, np.ones(SIZE))


def test_duplicates_and_late_uploads_do_not_count() -> None:
    """Row 29."""
    server = exact_server(participation=UniformParticipation(2, 2))
    frame = Identity().encode(np.ones(SIZE, np.float32))
    assert server.receive(0, frame, round_number=0).accepted
    assert server.receive(0, frame, round_number=0).reason == "duplicate"
    assert server.receive(1, frame, round_number=3).reason == "late"
    assert server.receive(7, frame, round_number=0).reason == "not asked"
    report = server.finish_round()
    assert (report.accepted, report.dropped) == (1, 3)
    assert np.array_equal(server.weights, np.ones(SIZE))


def test_an_evicted_anchor_is_refused_and_fetched_again() -> None:
    """Row 30."""
    process = UniformParticipation(4, 4, lead=5)
    server = exact_server(participation=process, deploy_every=1, capacity=2)
    for _ in run(server, gradient_step, 10):
        pass  # anchors of five rounds ago are gone
    with pytest.raises(StaleAnchorError):
        server.correction(0, 0)
    # The first anchor ahead, and another one in the round itself once the first was evicted.
    assert server.ledger.num_frames("anchor") > 10 * 4
    assert np.allclose(server.weights, federated_averaging(server, 10), atol=1e-5)


def test_vanished_clients_and_the_quorum() -> None:
    """Row 31: the mean is over those who reported; too few leave the weights alone."""
    server = exact_server(participation=UniformParticipation(5, 5), quorum=3)
    frame = Identity().encode(np.full(SIZE, 2, np.float32))
    for client in range(3):
        assert server.receive(client, frame).accepted
    assert server.finish_round().is_applied
    assert np.array_equal(server.weights, np.full(SIZE, 2))
    assert server.receive(0, frame).accepted
    assert not server.finish_round().is_applied
    assert np.array_equal(server.weights, np.full(SIZE, 2))


def test_calls_out_of_turn() -> None:
    server = exact_server(participation=UniformParticipation(5, 1))
    server.deploy()
    outsider = next(i for i in range(5) if i not in server.participation.participants(0))
    with pytest.raises(ProtocolError, match="does not take part"):
        server.correction(outsider, 0)
    client = Client(0, Identity(), Identity(), Identity())
    with pytest.raises(ProtocolError, match="no anchor"):
        client.estimate(Identity().encode(GOAL))
    client.receive_anchor(0, Identity().encode(GOAL))
    with pytest.raises(CodecError, match="expected 1000"):
        client.estimate(Identity().encode(GOAL[:5]))


def test_weighted_mean() -> None:
    server = exact_server(participation=UniformParticipation(2, 2), weighted=True)
    for client, (value, samples) in enumerate([(1, 3), (5, 1)]):
        frame = Identity().encode(np.full(SIZE, value, np.float32))
        assert server.receive(client, frame, num_samples=samples).accepted
    server.finish_round()
    assert np.array_equal(server.weights, np.full(SIZE, 2))


# --- server optimizers -----------------------------------------------------------------------


def test_sgd_with_momentum_and_weight_decay() -> None:
    optimizer = SGD(lr=0.5, momentum=0.9, weight_decay=0.1)
    weights = np.array([1, -2], dtype=np.float32)
    velocity = np.zeros(2, dtype=np.float32)
    ours = weights.copy()
    for update in np.array([[0.3, 0.1], [0.2, -0.4]], dtype=np.float32):
        velocity = np.float32(0.9) * velocity + update - np.float32(0.1) * weights
        weights = weights + np.float32(0.5) * velocity
        optimizer.step(ours, update.copy())
    assert np.allclose(ours, weights, atol=1e-6)


@pytest.mark.parametrize(
    "make", [SGD, Adam, Yogi, lambda: Adagrad(lr=0.1), lambda: SGD(momentum=0.9)]
)
def test_optimizers_reach_the_goal_and_resume(make: Any) -> None:
    optimizer: ServerOptimizer = make()
    weights = np.zeros(SIZE, dtype=np.float32)
    for step in range(600):
        if step == 300:
            state = {name: vector.copy() for name, vector in optimizer.state().items()}
            optimizer = make()
            optimizer.restore(state)
        optimizer.step(weights, np.float32(0.1) * (GOAL - weights))
    assert np.abs(weights - GOAL).max() < 0.05
