"""EF21-PP: clients send changes of their updates, with any of the three downlinks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from docofl_codec import Ecuq, Eden, Identity
from docofl_codec.framework import SGD, Loop, Server, UniformParticipation
from tests.framework.problems import GOAL, SIZE, Floats, LogisticRegression

CLIENTS, PER_ROUND = 10, 4


def heterogeneous_step(client: int, _round: int, weights: Floats) -> Floats:
    """Pull towards goals that differ widely between clients, but have GOAL as their mean."""
    shift = np.float32(3 * np.sin(2 * np.pi * client / CLIENTS))
    step: Floats = np.float32(0.2) * (GOAL + shift - weights)
    return step


def ef21_loop(**options: Any) -> Loop:
    options.setdefault("update_codec", Identity())
    server = Server(
        np.zeros(SIZE),
        UniformParticipation(CLIENTS, PER_ROUND),
        correction_codec=options.pop("correction_codec", Identity()),
        error_feedback_clients=CLIENTS,
        optimizer=SGD(lr=0.3),
        **options,
    )
    return Loop(server, heterogeneous_step)


def test_it_is_the_algorithm_of_the_paper_that_it_comes_from() -> None:
    """Algorithm 4 of Fatkhullin et al., with exact codecs, step by step."""
    loop = ef21_loop()
    weights = np.zeros(SIZE, dtype=np.float32)
    memories = np.zeros((CLIENTS, SIZE), dtype=np.float32)
    for t in range(15):
        for client in loop.server.participation.participants(t):
            memories[client] = heterogeneous_step(client, t, weights)
        weights = weights + np.float32(0.3) * memories.mean(axis=0)
        loop.step()
        assert np.allclose(loop.server.weights, weights, atol=1e-5)
    for client, memory in loop.memories.items():
        assert np.allclose(memory, memories[client], atol=1e-5)


def test_clients_that_differ_do_not_keep_it_from_the_optimum() -> None:
    """Partial participation makes plain averaging wander; the memory does not."""
    error_feedback = ef21_loop(update_codec=Eden(bits=1, scale="mse"))
    plain = Loop(
        Server(
            np.zeros(SIZE),
            UniformParticipation(CLIENTS, PER_ROUND),
            correction_codec=Identity(),
            update_codec=Identity(),
            optimizer=SGD(lr=0.3),
        ),
        heterogeneous_step,
    )
    for _ in range(400):
        error_feedback.step()
        plain.step()
    assert np.abs(error_feedback.server.weights - GOAL).mean() < 1e-3
    assert np.abs(plain.server.weights - GOAL).mean() > 0.02


def test_a_dropped_change_is_not_remembered() -> None:
    loop = ef21_loop(max_update_norm=1e-6)
    report = loop.step()
    assert report.dropped == PER_ROUND
    assert not any(memory.any() for memory in loop.memories.values())


DOWNLINKS: dict[str, dict[str, Any]] = {
    "exact": {"downlink": "direct", "correction_codec": Identity()},
    "1 bit": {"downlink": "direct", "correction_codec": Eden(bits=1)},
    "2 bits": {"downlink": "direct", "correction_codec": Eden(bits=2)},
    "3 bits": {"downlink": "direct", "correction_codec": Eden(bits=3)},
    "DoCoFL": {"anchor_codec": Ecuq(bits=2), "correction_codec": Eden(bits=1), "deploy_every": 4},
}


def test_order_of_the_downlinks() -> None:
    """As in the appendix: the fewer bits of the model, the further from the exact run."""
    problem = LogisticRegression()
    weights = {}
    for name, options in DOWNLINKS.items():
        server = Server(
            np.zeros(problem.size),
            UniformParticipation(problem.num_clients, 8, lead=2),
            update_codec=Eden(bits=1, scale="mse"),
            error_feedback_clients=problem.num_clients,
            **options,
        )
        loop = Loop(server, problem.train)
        for _ in range(80):
            loop.step()
        weights[name] = server.weights
    distances = {name: np.linalg.norm(w - weights["exact"]) for name, w in weights.items()}
    assert distances["1 bit"] > distances["2 bits"] > distances["3 bits"]
    assert distances["DoCoFL"] < distances["1 bit"]  # as many bits in the round


def test_changes_count_although_the_quorum_is_missed() -> None:
    """The clients remember them, so the server must."""

    def train(client: int, t: int, _weights: Floats) -> Floats | None:
        return None if client in (0, 1) and t == 0 else np.ones(SIZE, dtype=np.float32)

    server = Server(
        np.zeros(SIZE),
        UniformParticipation(4, 4),
        correction_codec=Identity(),
        update_codec=Identity(),
        error_feedback_clients=4,
        quorum=3,
    )
    loop = Loop(server, train)
    assert not loop.step().is_applied
    assert not server.weights.any()
    loop.step()
    memories = np.mean([loop.memories[client] for client in range(4)], axis=0)
    assert np.array_equal(server.state()["feedback"], memories)
    assert np.array_equal(server.weights, np.ones(SIZE))


@pytest.mark.parametrize("name", DOWNLINKS)
def test_every_downlink_trains(name: str) -> None:
    loop = ef21_loop(update_codec=Eden(bits=1), **DOWNLINKS[name])
    for _ in range(60):
        loop.step()
    assert np.abs(loop.server.weights - GOAL).mean() < 0.25
