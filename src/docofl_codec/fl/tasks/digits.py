"""Handwritten digits, 8 x 8, embedded in scikit-learn: a task that needs no download."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from docofl_codec.fl.models import SmallMLP, build
from docofl_codec.fl.partition import make_partition
from docofl_codec.fl.tasks.images import normalize
from docofl_codec.fl.tasks.task import Federated, Settings, Task, as_tensor

__all__ = ["TASK"]

TEST_EVERY = 5


def load(
    root: Path | None,  # noqa: ARG001
    *,
    seed: int,
    num_clients: int | None,
    partition: str,
) -> Federated:
    """Split 1,437 training images; every fifth image of the set, 360 in all, is for the test."""
    data = load_digits()
    images = data.images.astype(np.uint8)[:, None]
    labels = data.target.astype(np.int64)
    test = np.arange(labels.size) % TEST_EVERY == 0
    return Federated(
        train_x=as_tensor(images[~test]),
        train_y=as_tensor(labels[~test]),
        test_x=as_tensor(images[test]),
        test_y=as_tensor(labels[test]),
        clients=make_partition(partition, labels[~test], num_clients, seed),
        make_model=partial(build, SmallMLP),
        prepare=normalize([0.305], [0.376], maximum=16),
    )


TASK = Task(
    "digits",
    Settings(
        rounds=100,
        num_clients=50,
        per_round=10,
        partition="dirichlet:1",
        batch_size=8,
        client_lr=0.02,
        eval_every=5,
    ),
    load,
)
