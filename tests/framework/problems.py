"""Small training problems for the framework's tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from docofl_codec import Identity
from docofl_codec.framework import Server, UniformParticipation

Floats = npt.NDArray[np.float32]

SIZE = 1000
GOAL: Floats = np.linspace(-1, 1, SIZE, dtype=np.float32)


def gradient_step(client: int, _round: int, weights: Floats) -> Floats:
    """Move a part of the way to a goal that differs a little between clients."""
    shift = np.float32(0.01 * np.sin(client))
    step: Floats = np.float32(0.2) * (GOAL + shift - weights)
    return step


def noisy_step(client: int, t: int, weights: Floats) -> Floats:
    """Move a smaller part of the way, with noise."""
    noise = np.random.default_rng([client, t]).standard_normal(SIZE, dtype=np.float32)
    update: Floats = np.float32(0.1) * (GOAL - weights) + np.float32(0.01) * noise
    return update


def exact_server(**options: Any) -> Server:
    """Return a server whose codecs are exact, unless others are given."""
    for name in ("anchor_codec", "correction_codec", "update_codec"):
        options.setdefault(name, Identity())
    process = options.pop("participation", UniformParticipation(20, 5, lead=3))
    return Server(np.zeros(SIZE), process, **options)


def federated_averaging(server: Server, num_rounds: int) -> Floats:
    """Return plain FedAvg's weights after `gradient_step` for the same clients."""
    weights = np.zeros(SIZE, dtype=np.float32)
    for t in range(num_rounds):
        total = np.zeros(SIZE, dtype=np.float32)
        clients = sorted(server.participation.participants(t))
        for client in clients:
            total += gradient_step(client, t, weights)
        weights += total / np.float32(len(clients))
    return weights


@dataclass
class LogisticRegression:
    """Ten classes that overlap, on made-up data; small random batches keep training noisy."""

    num_clients: int = 40
    per_client: int = 60
    num_features: int = 400
    num_classes: int = 10
    seed: int = 0
    features: Floats = field(init=False, repr=False)
    labels: npt.NDArray[np.intp] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        centres = rng.normal(size=(self.num_classes, self.num_features))
        total = self.num_clients * self.per_client + 2000
        self.labels = rng.integers(self.num_classes, size=total)
        noise = rng.normal(size=(total, self.num_features))
        self.features = (0.15 * centres[self.labels] + noise).astype(np.float32)

    @property
    def size(self) -> int:
        return self.num_classes * self.num_features

    def train(self, client: int, t: int, weights: Floats) -> Floats:
        """Take five steps of gradient descent on random batches of 20."""
        rng = np.random.default_rng([client, t])
        local = weights.reshape(self.num_features, self.num_classes).astype(np.float32)
        for _ in range(5):
            batch = client * self.per_client + rng.choice(self.per_client, 20, replace=False)
            gradient = self._probabilities(self.features[batch] @ local)
            gradient[np.arange(batch.size), self.labels[batch]] -= 1
            local -= 0.02 * self.features[batch].T @ gradient / batch.size
        update: Floats = local.reshape(-1) - weights
        return update

    def accuracy(self, weights: Floats) -> float:
        """Return the share of right answers on data that no client has."""
        part = slice(self.num_clients * self.per_client, None)
        scores = self.features[part] @ weights.reshape(self.num_features, self.num_classes)
        return float(np.mean(scores.argmax(axis=1) == self.labels[part]))

    @staticmethod
    def _probabilities(scores: Floats) -> Floats:
        exponentials: Floats = np.exp(scores - scores.max(axis=1, keepdims=True))
        probabilities: Floats = exponentials / exponentials.sum(axis=1, keepdims=True)
        return probabilities
