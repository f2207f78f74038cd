"""Estimation errors and rho_t (appendix B): what is reported is what clients have."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pytest

from docofl_codec import Ecuq, Eden, Identity
from docofl_codec.framework import Client, Estimation, Loop, Server, UniformParticipation
from docofl_codec.framework import diagnostics as module
from docofl_codec.framework.diagnostics import CoordinateSample, EstimationErrors, drift_of
from docofl_codec.framework.vectors import squared_norm
from tests.framework.problems import Floats, noisy_step

SIZE = 20_000


def drifting_server(anchor_bits: float, *, steps: int = 12) -> tuple[Server, Floats]:
    """Return a server some rounds after a deployment, and the exact model of that anchor."""
    rng = np.random.default_rng(0)
    start = rng.normal(size=SIZE).astype(np.float32)
    server = Server(
        start,
        UniformParticipation(8, 8),
        anchor_codec=Ecuq(bits=anchor_bits),
        correction_codec=Eden(bits=1),
        deploy_every=100,
    )
    loop = Loop(server, lambda _c, t, w: np.random.default_rng(t).normal(size=w.size) * 0.02)
    for _ in range(steps):
        loop.step()
    return server, start


@pytest.mark.parametrize("anchor_bits", [1.5, 2, 4, 8])
def test_errors_are_those_of_the_definitions(anchor_bits: float) -> None:
    server, y = drifting_server(anchor_bits)
    anchor = server.anchors.latest()
    codec = server.correction_codec
    estimated, exact = [], []
    for i in range(8):
        correction = server.correction(server.round, i, anchor.id)
        client = Client(i, server.anchor_codec, codec, codec)
        client.receive_anchor(anchor.id, anchor.frame)
        estimated.append(squared_norm(client.estimate(correction) - server.weights))
        with_exact_anchor = y + codec.decode(codec.encode(server.weights - y, seed=i))
        exact.append(squared_norm(np.asarray(with_exact_anchor) - server.weights))
    estimation = server.finish_round().estimation
    assert estimation.error == pytest.approx(np.mean(estimated), rel=0.03)
    assert estimation.exact_error == pytest.approx(np.mean(exact), rel=0.03)
    assert estimation.rho == pytest.approx(np.mean(estimated) / np.mean(exact), rel=0.03)
    assert estimation.drift_norm == pytest.approx(np.sqrt(squared_norm(server.weights - y)))
    distance = np.sqrt(squared_norm(server.weights - anchor.vector))
    assert estimation.correction_norm == pytest.approx(distance)


def test_rho_falls_with_the_anchors_budget_to_one() -> None:
    ratios = []
    for bits in (1.5, 2, 3, 4, 8):
        server, _ = drifting_server(bits)
        for i in range(8):
            server.correction(server.round, i, 0)
        ratios.append(server.finish_round().estimation.rho)
    assert all(a is not None and b is not None and a > b for a, b in pairwise(ratios))
    assert ratios[-1] == pytest.approx(1, abs=0.01)


def test_a_sample_of_coordinates_knows_rho_well(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    spread = np.repeat([0.01, 1, 0.1, 3], 25_000)
    y = rng.normal(size=100_000).astype(np.float32)
    w = (y + 0.1 * spread * rng.normal(size=y.size)).astype(np.float32)
    y_hat = (y + 0.2 * rng.uniform(-1, 1, size=y.size)).astype(np.float32)
    monkeypatch.setattr(module, "SAMPLE_SIZE", 10_000)
    sample = CoordinateSample(y.size)
    assert 9_000 < sample.take(w).size <= 10_000
    drift = drift_of(
        squared_norm(w - y_hat), sample.take(w - y_hat), sample.take(w) - sample.take(y)
    )
    assert drift == pytest.approx(squared_norm(w - y), rel=0.05)


def test_small_models_are_sampled_whole() -> None:
    values = np.arange(5, dtype=np.float32)
    taken = CoordinateSample(5).take(values)
    assert np.array_equal(taken, values)
    assert not np.shares_memory(taken, values)


def test_a_correction_of_zeros_does_not_hide_the_others() -> None:
    class Mixed:
        """Client 0 is told in the round, client 1 three rounds ahead."""

        def participants(self, round_number: int) -> dict[int, int]:
            return {0: round_number, 1: max(0, round_number - 3)}

    server = Server(np.zeros(SIZE), Mixed(), anchor_codec=Identity(), deploy_every=5)
    loop = Loop(server, lambda _c, t, w: np.random.default_rng(t).normal(size=w.size))
    reports = [loop.step() for _ in range(6)]
    assert reports[5].estimation.error == pytest.approx(
        0.571 * reports[5].estimation.correction_norm ** 2, rel=0.05
    )


def test_no_ratio_without_drift() -> None:
    assert Estimation().rho is None
    server = Server(np.ones(100), UniformParticipation(2, 2), correction_codec=Identity())
    report = Loop(server, lambda *_: np.ones(100)).step()
    assert report.estimation.error == 0
    assert report.estimation.rho is None


def test_diagnostics_are_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round of 20 corrections of a million coordinates spends little of its time on them."""
    size, clients = 1_000_000, 20
    rng = np.random.default_rng(0)
    server = Server(
        rng.standard_normal(size, dtype=np.float32), UniformParticipation(clients, clients)
    )
    server.deploy(0)
    spent = 0.0

    def timed(name: str) -> None:
        original = getattr(Server, name)

        def call(*args: object) -> object:
            nonlocal spent
            start = time.perf_counter()
            try:
                return original(*args)
            finally:
                spent += time.perf_counter() - start

        monkeypatch.setattr(Server, name, call)

    timed("_distances")
    measure = EstimationErrors.measure

    def timed_measure(*args: object) -> None:
        nonlocal spent
        start = time.perf_counter()
        measure(*args)  # type: ignore[arg-type]
        server.correction_codec.decode(frame)  # what the measurement needs besides
        spent += time.perf_counter() - start

    monkeypatch.setattr(EstimationErrors, "measure", timed_measure)
    frame = server.correction_codec.encode(server.weights, seed=0)
    start = time.perf_counter()
    for client in range(clients):
        server.correction(0, client, 0)
    assert spent < 0.5 * (time.perf_counter() - start)


def test_adaptive_runs_report_their_budgets() -> None:
    server = Server(
        np.zeros(1000),
        UniformParticipation(4, 4),
        anchor_codec=Ecuq(bits=3),
        update_codec=Identity(),
    )
    report = Loop(server, noisy_step).step()
    assert report.bits == {"anchor": 3, "correction": 1}
