"""A perceptron with one hidden layer on points in ten classes that overlap."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Weights = dict[str, npt.NDArray[Any]]

NUM_FEATURES, NUM_HIDDEN, NUM_CLASSES = 64, 512, 10
NUM_TRAIN, NUM_TEST = 2000, 4000


def initial_weights() -> Weights:
    """Return small random weights, a statistic that is sent exactly, and a counter of batches."""
    rng = np.random.default_rng(0)
    return {
        "hidden": rng.normal(0, 0.1, (NUM_FEATURES, NUM_HIDDEN)).astype(np.float32),
        "output": rng.normal(0, 0.05, (NUM_HIDDEN, NUM_CLASSES)).astype(np.float32),
        "bias": np.zeros(NUM_CLASSES, dtype=np.float32),
        "running_mean": np.zeros(NUM_FEATURES, dtype=np.float32),
        "num_batches": np.asarray(0, dtype=np.int64),
    }


def points(count: int, seed: int) -> tuple[Floats, Labels]:
    """Return points and their classes."""
    centres = np.random.default_rng(1).normal(0, 0.33, (NUM_CLASSES, NUM_FEATURES))
    rng = np.random.default_rng(seed)
    labels = rng.integers(NUM_CLASSES, size=count)
    return (centres[labels] + rng.normal(size=(count, NUM_FEATURES))).astype(np.float32), labels


def scores(weights: Weights, images: Floats) -> tuple[Floats, Floats]:
    """Return hidden values and the classes' scores."""
    hidden = np.maximum(images @ weights["hidden"], 0)
    return hidden, hidden @ weights["output"] + weights["bias"]


def train(weights: Weights, partition: int, server_round: int, lr: float = 0.1) -> Weights:
    """Return the weights after an epoch on a partition's own data."""
    images, labels = points(NUM_TRAIN // 4, seed=100 + partition)
    local = {name: values.copy() for name, values in weights.items()}
    order = np.random.default_rng([partition, server_round]).permutation(len(labels))
    for batch in np.split(order, 20):
        hidden, outputs = scores(local, images[batch])
        exponentials = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        error = exponentials / exponentials.sum(axis=1, keepdims=True)
        error[np.arange(len(batch)), labels[batch]] -= 1
        error /= np.float32(len(batch))
        back = (error @ local["output"].T) * (hidden > 0)
        local["output"] -= np.float32(lr) * (hidden.T @ error)
        local["bias"] -= np.float32(lr) * error.sum(axis=0)
        local["hidden"] -= np.float32(lr) * (images[batch].T @ back)
        local["running_mean"] += np.float32(0.1) * (images[batch].mean(0) - local["running_mean"])
        local["num_batches"] = local["num_batches"] + 1
    return local


def accuracy(weights: Weights) -> float:
    """Return the share of right answers on data that nobody trains on."""
    images, labels = points(NUM_TEST, seed=99)
    return float(np.mean(scores(weights, images)[1].argmax(axis=1) == labels))
