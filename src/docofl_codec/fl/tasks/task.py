"""What a task is: settings, data split over clients, a model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional as F

__all__ = ["Federated", "Load", "Settings", "Task", "as_tensor"]

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The numbers of a run; a task's are its defaults.

    Parameters
    ----------
    rounds : int
        T.
    num_clients : int or None
        N. None is for data with groups: all of them.
    per_round : int
        S.
    partition : str
        As for :func:`docofl_codec.fl.partition.make_partition`.
    batch_size, local_epochs : int
        Of a client.
    client_optimizer : {"sgd", "adam"}
        Made anew for each participation.
    client_lr : float
        Its learning rate.
    server_optimizer : {"sgd", "adam", "yogi", "adagrad"}
        With `server_lr`; `server_momentum` and `weight_decay` are those of SGD.
    deploy_every, capacity : int
        K and V.
    eval_every : int
        Rounds between evaluations.
    """

    rounds: int
    num_clients: int | None
    per_round: int
    partition: str
    batch_size: int
    client_lr: float
    client_optimizer: Literal["sgd", "adam"] = "sgd"
    local_epochs: int = 1
    server_optimizer: Literal["sgd", "adam", "yogi", "adagrad"] = "sgd"
    server_lr: float = 1.0
    server_momentum: float = 0.9
    weight_decay: float = 1e-5
    deploy_every: int = 10
    capacity: int = 3
    eval_every: int = 25


def _unchanged(inputs: torch.Tensor) -> torch.Tensor:
    return inputs


@dataclass(frozen=True)
class Federated:
    """Data, split over clients, and the model that learns from them.

    Parameters
    ----------
    train_x, train_y, test_x, test_y : tensor
        Inputs, in as few bytes as they need, and classes (int64).
    clients : sequence of array of int
        The training samples of each client.
    make_model : callable
        From a seed to a network with initial weights, without buffers.
    prepare : callable
        From a batch of stored inputs to what the network takes.
    loss : callable
        From logits and classes to the mean loss; takes ``reduction``.
    """

    train_x: torch.Tensor
    train_y: torch.Tensor
    test_x: torch.Tensor
    test_y: torch.Tensor
    clients: Sequence[Indices]
    make_model: Callable[[int], nn.Module]
    prepare: Callable[[torch.Tensor], torch.Tensor] = _unchanged
    loss: Callable[..., torch.Tensor] = F.cross_entropy

    def digest(self) -> str:
        """Return 16 hexadecimal digits that tell these samples from others, however split."""
        found = hashlib.sha256()
        for tensor in (self.train_x, self.train_y, self.test_x, self.test_y):
            values = np.ascontiguousarray(tensor.numpy())
            found.update(f"{values.dtype} {values.shape}".encode())
            found.update(values.data)
        return found.hexdigest()[:16]


class Load(Protocol):
    """How the data of a task are read and split."""

    def __call__(
        self, root: Path | None, *, seed: int, num_clients: int | None, partition: str
    ) -> Federated:
        """Read the data below `root` and split them."""
        ...


@dataclass(frozen=True)
class Task:
    """A name, the default settings, and how the data are read and split."""

    name: str
    settings: Settings
    load: Load


def as_tensor(values: npt.NDArray[Any]) -> torch.Tensor:
    """Return a tensor of an array's memory, copied only where that is read-only."""
    return torch.from_numpy(values if values.flags.writeable else values.copy())
