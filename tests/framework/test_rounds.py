"""Server, client and loop: what the paper's algorithms promise, and what faults must not do."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from docofl_codec import Codec, CodecError, Ecuq, Eden, Identity, InvalidInputError
from docofl_codec.baselines import QSGD
from docofl_codec.framework import (
    SGD,
    Adagrad,
    Adam,
    Client,
    DivergenceError,
    Loop,
    ProtocolError,
    Server,
    ServerOptimizer,
    StaleAnchorError,
    Trained,
    UniformParticipation,
    Update,
    Yogi,
    derive_seed,
    run,
)
from tests.framework.problems import (
    GOAL,
    SIZE,
    Floats,
    exact_server,
    federated_averaging,
    gradient_step,
)
from tests.helpers.frames import make_frame


@pytest.mark.parametrize(
    "options",
    [
        {"deploy_every": 1, "capacity": 1, "participation": UniformParticipation(20, 5)},
        {"deploy_every": 10},
        {"deploy_every": 7, "capacity": 2, "participation": UniformParticipation(20, 5, lead=9)},
        {"anchor_codec": Ecuq(bits=1)},
        {"downlink": "direct"},
    ],
    ids=repr,
)
def test_exact_corrections_give_federated_averaging_bit_for_bit(options: dict[str, Any]) -> None:
    server = exact_server(**options)
    for _ in run(server, gradient_step, 30):
        pass
    assert server.weights.tobytes() == federated_averaging(server, 30).tobytes()


def test_a_deployment_every_round_is_compression_of_the_difference_to_the_last_model() -> None:
    """With K = 1 and V = 1, clients that are told a round ahead hold the last model."""
    codec = Eden(bits=2)
    process = UniformParticipation(20, 5, lead=1)
    server = exact_server(
        deploy_every=1, capacity=1, participation=process, correction_codec=codec, seed=5
    )
    weights = np.zeros(SIZE, dtype=np.float32)
    last = weights
    for t in range(12):
        total = np.zeros(SIZE, dtype=np.float32)
        clients = sorted(process.participants(t))
        for client in clients:
            seed = derive_seed(5, "correction", t, 1, client)
            difference = np.asarray(codec.decode(codec.encode(weights - last, seed=seed)))
            total += gradient_step(client, t, last + difference)
        last = weights.copy()
        weights = weights + total / np.float32(len(clients))
    for _ in run(server, gradient_step, 12):
        pass
    assert server.weights.tobytes() == weights.tobytes()
    assert server.ledger.num_frames("late_anchor") == 5  # those of round 0


def test_anchors_of_the_round_itself_need_no_correction() -> None:
    server = exact_server(
        deploy_every=1,
        capacity=1,
        participation=UniformParticipation(20, 5),
        correction_codec=Eden(bits=2),
    )
    for report in run(server, gradient_step, 12):
        assert report.estimation.correction_norm == 0
    assert server.weights.tobytes() == federated_averaging(server, 12).tobytes()


@pytest.mark.parametrize("anchor_codec", [Ecuq(bits=4), Ecuq(bits=2)])
def test_training_converges_with_small_frames(anchor_codec: Codec) -> None:
    server = exact_server(
        anchor_codec=anchor_codec, correction_codec=Eden(bits=2), update_codec=Eden(bits=2)
    )
    reports = list(run(server, gradient_step, 120))
    assert np.sqrt(np.mean((server.weights - GOAL) ** 2)) < 0.03
    assert reports[-1].estimation.correction_norm < reports[2].estimation.correction_norm
    assert server.ledger.ratio_to_float32("correction") < 0.2


def test_estimates_are_unbiased_although_the_anchor_is_not() -> None:
    weights = np.random.default_rng(0).lognormal(size=192).astype(np.float32)
    process = UniformParticipation(4000, 4000)
    server = Server(weights, process, anchor_codec=Ecuq(bits=1), correction_codec=Eden(bits=1))
    anchor = server.deploy(0)
    assert anchor is not None
    assert np.abs(anchor.vector - weights).max() > 0.1
    estimates = []
    for i in range(4000):
        client = Client(i, server.anchor_codec, server.correction_codec, server.update_codec)
        client.receive_anchor(anchor.id, anchor.frame)
        estimates.append(client.estimate(server.correction(0, i, anchor.id)))
    errors = np.asarray(estimates, dtype=np.float64) - weights
    standard_error = errors.std(axis=0) / np.sqrt(len(errors))
    assert np.abs(errors.mean(axis=0) / standard_error).max() < 5


def test_corrections_are_independent_or_shared() -> None:
    process = UniformParticipation(4, 4)
    for shared in (False, True):
        server = Server(GOAL, process, correction_codec=Eden(), shared_corrections=shared)
        server.deploy(0)
        frames = {server.correction(0, client, 0).frame for client in range(4)}
        assert len(frames) == (1 if shared else 4)


def test_an_anchor_is_decoded_once_a_round() -> None:
    """Clients of one process that hold the same anchor share what it decodes to."""
    decoded: list[bytes] = []

    class Counting(Ecuq):
        def decode(self, blob: bytes, *, out: Any = None) -> Any:
            decoded.append(blob)
            return super().decode(blob, out=out)

    process = UniformParticipation(50, 30, lead=(1, 20))
    server = Server(np.ones(SIZE), process, anchor_codec=Counting(bits=2), deploy_every=10)
    loop = Loop(server, gradient_step)
    for _ in range(25):
        decoded.clear()
        loop.step()
        assert len(decoded) == len(set(decoded))


def test_same_seed_gives_the_same_run() -> None:
    weights = []
    for seed in (1, 1, 2):
        server = Server(np.zeros(SIZE), UniformParticipation(20, 5), seed=seed)
        for _ in run(server, gradient_step, 10):
            pass
        weights.append(server.weights.tobytes())
    assert weights[0] == weights[1] != weights[2]


# --- faults (rows 27 to 31) ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "codec",
    [Identity(), Eden(bits=4), Ecuq(bits=4), Ecuq(bits=4, quality="best"), QSGD(bits=4)],
    ids=repr,
)
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
            outcome = server.receive(
                Update(i, 0, frame[:-9] + b"\0" + frame[-8:] if bad else frame)
            )
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
        outcome = server.receive(Update(client, 0, frame))
        assert not outcome.accepted
        assert outcome.reason
    assert server.receive(Update(4, 0, good)).accepted
    report = server.finish_round()
    assert (report.accepted, report.dropped) == (1, 4)
    assert np.array_equal(server.weights, np.ones(SIZE))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_forged_frames_with_values_that_are_not_finite_are_dropped(bad: float) -> None:
    """Row 28: no encoder writes them, but a client may."""
    server = exact_server(participation=UniformParticipation(3, 3))
    values = np.ones(SIZE, np.float32)
    good = Identity().encode(values)
    assert server.receive(Update(0, 0, good)).accepted
    values[SIZE // 2] = bad
    assert not server.receive(Update(1, 0, make_frame(values.tobytes(), (SIZE,), codec=0))).accepted
    report = server.finish_round()
    assert (report.accepted, report.dropped, report.missing) == (1, 1, 1)
    assert np.array_equal(server.weights, np.ones(SIZE))


def test_duplicates_and_late_uploads_do_not_count() -> None:
    """Row 29."""
    server = exact_server(participation=UniformParticipation(2, 2))
    frame = Identity().encode(np.ones(SIZE, np.float32))
    assert server.receive(Update(0, 0, frame)).accepted
    assert server.receive(Update(0, 0, frame)).reason == "duplicate"
    assert server.receive(Update(1, 3, frame)).reason == "late"
    assert server.receive(Update(7, 0, frame)).reason == "not asked"
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
        server.correction(10, 0, 0)
    # The first anchor ahead, and another one in the round itself once the first was evicted.
    assert server.ledger.num_frames("anchor") > 10 * 4
    assert server.ledger.num_frames("late_anchor") > 5 * 4
    assert server.weights.tobytes() == federated_averaging(server, 10).tobytes()


def test_a_correction_for_another_anchor_is_refused() -> None:
    """Row 30: the correction carries its anchor's id."""
    server = exact_server(
        participation=UniformParticipation(2, 2), correction_codec=Eden(), deploy_every=1
    )
    anchor = server.deploy(0)
    assert anchor is not None
    correction = server.correction(0, 1, anchor.id)
    assert correction.anchor_id == anchor.id
    client = Client(1, server.anchor_codec, server.correction_codec, server.update_codec)
    client.receive_anchor(anchor.id + 1, anchor.frame)
    with pytest.raises(StaleAnchorError, match="for anchor 0, expected 1"):
        client.estimate(correction)
    client.receive_anchor(anchor.id, anchor.frame)
    assert client.estimate(correction).size == SIZE


def test_vanished_clients_and_the_quorum() -> None:
    """Row 31: the mean is over those who reported; too few leave the weights alone."""
    server = exact_server(participation=UniformParticipation(5, 5), quorum=3)
    frame = Identity().encode(np.full(SIZE, 2, np.float32))
    for client in range(3):
        assert server.receive(Update(client, 0, frame)).accepted
    assert server.finish_round().is_applied
    assert np.array_equal(server.weights, np.full(SIZE, 2))
    assert server.receive(Update(0, 1, frame)).accepted
    assert not server.finish_round().is_applied
    assert np.array_equal(server.weights, np.full(SIZE, 2))


def test_a_client_that_vanishes_or_diverges_does_not_end_the_round() -> None:
    """Rows 28 and 31, through the loop."""
    server = exact_server(participation=UniformParticipation(6, 6))

    def train(client: int, t: int, weights: Floats) -> Any:
        if client == 1:
            return None
        if client == 2:
            return np.full(SIZE, np.nan)
        if client == 3:
            return np.ones(SIZE + 1)
        return gradient_step(0, t, weights)

    (report,) = run(server, train, 1)
    assert (report.accepted, report.dropped, report.missing) == (3, 2, 1)
    assert np.allclose(server.weights, np.float32(0.2) * GOAL, atol=1e-7)
    assert server.counters == {"accepted": 3, "dropped": 2, "missing": 1}


def test_updates_too_large_to_be_added_up_are_dropped() -> None:
    server = exact_server(participation=UniformParticipation(3, 3), weighted=True)
    huge = Identity().encode(np.full(SIZE, 3e38, np.float32))
    assert server.receive(Update(0, 0, huge)).accepted
    assert "too large" in server.receive(Update(1, 0, huge)).reason
    assert "too large" in server.receive(Update(2, 0, huge, num_samples=10**9)).reason
    assert "num_samples" in server.receive(Update(2, 0, huge, num_samples=10**400)).reason
    assert server.finish_round().accepted == 1


@pytest.mark.parametrize(
    "upload",
    [
        Update(0, 0, None),  # type: ignore[arg-type]
        Update(0, 0, 5),  # type: ignore[arg-type]
        Update(0, "0", b""),  # type: ignore[arg-type]
        Update(0, None, b""),  # type: ignore[arg-type]
        Update([0], 0, b""),  # type: ignore[arg-type]
        Update(True, 0, b""),
        Update(0.0, 0, b""),  # type: ignore[arg-type]
        Update(0, 0, b"", num_samples="5"),  # type: ignore[arg-type]
        Update(10**5000, 0, b""),
        Update(-1, -1, b""),
        Update(0, 10**30, b""),
    ],
    ids=range(11),
)
def test_nothing_that_is_uploaded_raises(upload: Update) -> None:
    server = exact_server(participation=UniformParticipation(3, 3), max_delay=3)
    outcome = server.receive(upload)
    assert not outcome.accepted
    assert outcome.reason
    assert server.finish_round().dropped == 1
    json.dumps(server.ledger.state())


def test_whatever_an_own_codec_raises_drops_the_upload() -> None:
    class Raw:
        def encode(self, tensor: Any, *, seed: int | None = None) -> bytes:  # noqa: ARG002
            return np.asarray(tensor).tobytes()

        def decode(self, blob: bytes, *, out: Any = None) -> Any:  # noqa: ARG002
            return np.frombuffer(blob, dtype=np.float32)

        def get_config(self) -> dict[str, Any]:
            return {"codec": "raw"}

    server = exact_server(participation=UniformParticipation(2, 2), update_codec=Raw())
    assert not server.receive(Update(0, 0, b"abc")).accepted
    assert server.receive(Update(1, 0, Raw().encode(GOAL))).accepted


def test_bytes_of_strangers_are_booked_together() -> None:
    server = exact_server(participation=UniformParticipation(3, 1))
    for stranger in range(100, 200):
        assert server.receive(Update(stranger, 0, b"12345")).reason == "not asked"
    assert server.ledger.of_client(-1)["update"] == 500
    assert server.ledger.of_client(100)["update"] == 0


def test_threads_take_turns() -> None:
    """Row 29 again: every client sends twice, from 32 threads at once."""
    for codec in (Identity(), Eden(bits=8)):
        server = exact_server(participation=UniformParticipation(16, 16), update_codec=codec)
        frames = [codec.encode(np.full(SIZE, i, np.float32), seed=i) for i in range(16)]
        with ThreadPoolExecutor(32) as pool:
            uploads = [Update(i % 16, 0, frames[i % 16]) for i in range(32)]
            outcomes = list(pool.map(server.receive, uploads))
        assert sum(outcome.accepted for outcome in outcomes) == 16
        server.finish_round()
        assert np.allclose(server.weights, 7.5, atol=0.05)


def test_a_failed_round_can_be_done_again() -> None:
    server = exact_server(participation=UniformParticipation(4, 4), deploy_every=1, capacity=1)
    has_failed = False

    def train(client: int, t: int, weights: Floats) -> Floats:
        nonlocal has_failed
        if client == 2 and not has_failed:
            has_failed = True
            raise RuntimeError("out of battery")
        return gradient_step(client, t, weights)

    loop = Loop(server, train)
    with pytest.raises(RuntimeError, match="battery"):
        loop.step()
    report = loop.step()
    assert (report.round, report.accepted, report.dropped) == (0, 4, 0)
    assert server.anchors.latest().id == 0
    assert server.weights.tobytes() == federated_averaging(server, 1).tobytes()


def test_a_step_that_diverges_is_reported_and_leaves_the_weights() -> None:
    server = exact_server(participation=UniformParticipation(1, 1), optimizer=SGD(lr=10))
    huge = Identity().encode(np.full(SIZE, 3e38, np.float32))
    assert server.receive(Update(0, 0, huge)).accepted
    with pytest.raises(DivergenceError, match="round 0"):
        server.finish_round()
    assert not server.weights.any()
    with pytest.raises(ProtocolError, match="has diverged"):
        server.deploy(0)


def test_calls_out_of_turn() -> None:
    server = exact_server(participation=UniformParticipation(5, 1), correction_codec=Eden())
    with pytest.raises(ProtocolError, match="round: found 3, expected 0"):
        server.deploy(3)
    with pytest.raises(ProtocolError, match="round: found 1, expected 0"):
        server.notify(1)
    anchor = server.deploy(0)
    assert anchor is not None
    insider = next(iter(server.participation.participants(0)))
    with pytest.raises(ProtocolError, match="does not take part"):
        server.correction(0, (insider + 1) % 5, 0)
    with pytest.raises(ProtocolError, match="no anchor"):
        server.correction(0, insider, None)
    correction = server.correction(0, insider, anchor.id)
    client = Client(insider, Identity(), Eden(), Identity())
    with pytest.raises(ProtocolError, match="no anchor"):
        client.estimate(correction)
    client.receive_anchor(anchor.id, Identity().encode(GOAL[:5]))
    with pytest.raises(CodecError, match="expected 5"):
        client.estimate(correction)
    stranger = Client(insider + 1, Identity(), Eden(), Identity())
    with pytest.raises(ProtocolError, match="expected its own"):
        stranger.estimate(correction)


@pytest.mark.parametrize(
    "options",
    [
        {"deploy_every": 0},
        {"max_delay": -1},
        {"quorum": 0},
        {"capacity": 0},
        {"max_lead": -1},
        {"staleness_exponent": -5000.0},
        {"staleness_exponent": 5000.0},
        {"max_update_norm": float("nan")},
        {"downlink": "carrier pigeon"},
        {"error_feedback_clients": 0},
        {"error_feedback_clients": 20, "weighted": True},
        {"error_feedback_clients": 20, "max_delay": 1},
    ],
    ids=repr,
)
def test_bad_options(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        exact_server(**options)


@pytest.mark.parametrize(
    "values",
    [np.ones(3, dtype=complex), np.ones(3, dtype=bool), ["a"], None, np.ma.masked_array([1.0])],
    ids=repr,
)
def test_models_are_real_numbers(values: Any) -> None:
    with pytest.raises(TypeError, match="weights: found"):
        Server(values, UniformParticipation(2, 2))


def test_torch_tensors_of_any_dtype_are_models_and_updates() -> None:
    torch = pytest.importorskip("torch")
    server = Server(
        torch.zeros(10, 100, dtype=torch.bfloat16, requires_grad=True),
        UniformParticipation(4, 4),
        update_codec=Identity(),
    )
    for _ in run(server, lambda *_: torch.ones(10, 100, dtype=torch.float16), 2):
        pass
    assert np.array_equal(server.weights, np.full(1000, 2))


def test_weighted_mean() -> None:
    server = exact_server(participation=UniformParticipation(2, 2), weighted=True)
    for client, (value, samples) in enumerate([(1, 3), (5, 1)]):
        frame = Identity().encode(np.full(SIZE, value, np.float32))
        assert server.receive(Update(client, 0, frame, num_samples=samples)).accepted
    server.finish_round()
    assert np.array_equal(server.weights, np.full(SIZE, 2))


def test_the_number_of_samples_comes_from_training() -> None:
    server = exact_server(participation=UniformParticipation(2, 2), weighted=True)

    def train(client: int, _round: int, _weights: Floats) -> Trained:
        return Trained(np.full(SIZE, 5 if client else 1), num_samples=1 if client else 3)

    for _ in run(server, train, 1):
        pass
    assert np.array_equal(server.weights, np.full(SIZE, 2))


def test_clients_without_corrections_train_on_their_anchors() -> None:
    server = exact_server(
        downlink="anchor", deploy_every=5, participation=UniformParticipation(3, 3)
    )
    seen: list[Floats] = []

    def train(client: int, t: int, weights: Floats) -> Floats:
        if client == 0:
            seen.append(weights.copy())
        return gradient_step(client, t, weights)

    reports = list(run(server, train, 7))
    assert all(np.array_equal(seen[t], seen[0]) for t in range(5))
    assert not np.array_equal(seen[5], seen[0])
    assert server.ledger.total("correction") == 0
    assert reports[4].estimation.error == pytest.approx(reports[4].estimation.drift_norm ** 2)
    assert reports[4].estimation.rho == pytest.approx(1)


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
