"""What a client does with its samples, and how a model is judged.

All weights of the network are views into one flat vector, and so are their gradients: loading a
model is one copy, a step of the optimizer a few calls over the whole vector, and the update one
subtraction.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from docofl_codec._buffers import check_threads
from docofl_codec.errors import InvalidInputError
from docofl_codec.fl.tasks.task import Federated, Settings
from docofl_codec.framework import derive_seed

__all__ = ["Evaluation", "FlatModel", "LocalResult", "Trainer"]

Vector = npt.NDArray[np.float32]

MAX_TRAIN_SUBSET = 2000
EVALUATION_BATCH = 250


class LocalResult(NamedTuple):
    """What a client returns: new weights less old ones, its samples, the mean loss on the way."""

    update: Vector
    num_samples: int
    mean_loss: float


class Evaluation(NamedTuple):
    """How good a model is on the test set and on a fixed part of the training set."""

    test_accuracy: float
    test_loss: float
    train_accuracy: float
    train_subset_loss: float


class FlatModel:
    """A network whose weights and gradients are views into two flat vectors.

    Parameters
    ----------
    module : torch.nn.Module
        With float32 weights and no buffers. Its weights move into the vector.

    Attributes
    ----------
    weights, gradients : tensor
        One value for each weight, in the order of ``module.parameters()``. They stay in place.
    """

    def __init__(self, module: nn.Module) -> None:
        buffers = [name for name, _ in module.named_buffers()]
        if buffers:
            raise InvalidInputError(f"model: found the buffer {buffers[0]}, expected weights alone")
        self.module = module
        parameters = list(module.parameters())
        self.weights = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
        self.gradients = torch.zeros_like(self.weights)
        start = 0
        for parameter in parameters:
            end = start + parameter.numel()
            parameter.data = self.weights[start:end].view(parameter.shape)
            parameter.grad = self.gradients[start:end].view(parameter.shape)
            start = end


class _Adam:
    """Adam with torch's defaults, over a flat vector."""

    beta1, beta2, epsilon = 0.9, 0.999, 1e-8

    def __init__(self, model: FlatModel, lr: float) -> None:
        self.model = model
        self.lr = lr
        self.first = torch.empty_like(model.weights)
        self.second = torch.empty_like(model.weights)
        self.denominator = torch.empty_like(model.weights)
        self.steps = 0

    def reset(self) -> None:
        self.first.zero_()
        self.second.zero_()
        self.steps = 0

    def step(self) -> None:
        gradients = self.model.gradients
        self.steps += 1
        self.first.lerp_(gradients, 1 - self.beta1)
        self.second.mul_(self.beta2).addcmul_(gradients, gradients, value=1 - self.beta2)
        torch.sqrt(self.second, out=self.denominator)
        self.denominator.mul_(1 / math.sqrt(1 - self.beta2**self.steps)).add_(self.epsilon)
        rate = self.lr / (1 - self.beta1**self.steps)
        self.model.weights.addcdiv_(self.first, self.denominator, value=-rate)


class _SGD:
    """Vanilla SGD over a flat vector."""

    def __init__(self, model: FlatModel, lr: float) -> None:
        self.model = model
        self.lr = lr

    def reset(self) -> None:
        """Nothing to forget."""

    def step(self) -> None:
        self.model.weights.add_(self.model.gradients, alpha=-self.lr)


class Trainer:
    """Local training and evaluation of one task.

    The results follow from the arguments bit for bit as long as torch uses the same number of
    threads. They do not depend on earlier calls. Not for use by several threads at once.

    Parameters
    ----------
    federated : Federated
        The data and the model.
    settings : Settings
        Of which the clients' are used.
    threads : int, optional
        From 1 to 1024, given to ``torch.set_num_threads``, which holds for the whole process;
        None leaves that as it is.

    Examples
    --------
    >>> from docofl_codec.fl.tasks import get_task
    >>> task = get_task("digits")
    >>> federated = task.load(None, seed=0, num_clients=10, partition="iid")
    >>> trainer = Trainer(federated, task.settings)
    >>> weights = trainer.initial_weights(seed=0)
    >>> result = trainer.train(3, 0, weights, seed=0)
    >>> result.update.size == weights.size, result.num_samples
    (True, 144)
    """

    def __init__(
        self, federated: Federated, settings: Settings, *, threads: int | None = None
    ) -> None:
        if settings.client_optimizer not in ("sgd", "adam"):
            raise InvalidInputError(
                f"client_optimizer: found {settings.client_optimizer!r}, expected sgd or adam"
            )
        if len(federated.test_y) == 0:
            raise InvalidInputError("test_y: found no samples, expected at least one")
        if threads is not None:
            torch.set_num_threads(check_threads(threads))
        self.federated = federated
        self.settings = settings
        self.model = FlatModel(federated.make_model(0))
        self._weights: Vector = self.model.weights.numpy()
        make = _Adam if settings.client_optimizer == "adam" else _SGD
        self._optimizer = make(self.model, settings.client_lr)
        self._clients = [torch.from_numpy(client) for client in federated.clients]
        self._train_subset = self._choose_train_subset()

    @property
    def num_clients(self) -> int:
        """N."""
        return len(self._clients)

    @property
    def num_weights(self) -> int:
        """The model's size, d."""
        return self._weights.size

    def initial_weights(self, *, seed: int) -> Vector:
        """Return w_0 of a seed."""
        parameters = self.federated.make_model(seed).parameters()
        return torch.cat([parameter.detach().reshape(-1) for parameter in parameters]).numpy()

    def train(self, client: int, round_number: int, weights: Vector, *, seed: int) -> LocalResult:
        """Train a model on the samples of a client.

        Batches come in an order that follows from seed, client and round alone, so that runs with
        different codecs see the same. Weights that diverge are returned as they are, not finite.

        Parameters
        ----------
        client : int
            Its number.
        round_number : int
            t.
        weights : array of float32
            The model that the client starts from.
        seed : int
            Of the run.
        """
        federated, settings, model = self.federated, self.settings, self.model
        samples = self._clients[client]
        shuffle = np.random.Generator(
            np.random.PCG64(derive_seed(seed, "batches", round_number, client))
        )
        self._load(weights)
        self._optimizer.reset()
        total_loss = torch.zeros(())
        for _ in range(settings.local_epochs):
            order = samples[torch.from_numpy(shuffle.permutation(len(samples)))]
            for batch in torch.split(order, settings.batch_size):
                inputs = federated.prepare(federated.train_x[batch])
                loss = federated.loss(model.module(inputs), federated.train_y[batch])
                model.gradients.zero_()
                loss.backward()  # type: ignore[no-untyped-call]
                self._optimizer.step()
                total_loss += loss.detach() * len(batch)
        mean_loss = float(total_loss) / (settings.local_epochs * len(samples))
        return LocalResult(self._weights - weights, len(samples), mean_loss)

    def evaluate(self, weights: Vector) -> Evaluation:
        """Judge a model on all test samples and on at most 2,000 training samples of the clients.

        The loss of a model that diverged may be infinite or NaN.
        """
        self._load(weights)
        test = self._judge(self.federated.test_x, self.federated.test_y)
        return Evaluation(*test, *self._judge(*self._train_subset))

    def train_subset_loss(self, weights: Vector) -> float:
        """Judge a model on those training samples alone."""
        self._load(weights)
        return self._judge(*self._train_subset)[1]

    def _load(self, weights: Vector) -> None:
        if weights.shape != self._weights.shape:
            raise InvalidInputError(
                f"weights: found shape {weights.shape}, expected {self._weights.shape}"
            )
        np.copyto(self._weights, weights)

    @torch.no_grad()
    def _judge(self, inputs: torch.Tensor, answers: torch.Tensor) -> tuple[float, float]:
        federated = self.federated
        correct, total_loss = 0, 0.0
        for x, y in zip(
            torch.split(inputs, EVALUATION_BATCH),
            torch.split(answers, EVALUATION_BATCH),
            strict=True,
        ):
            logits = self.model.module(federated.prepare(x))
            total_loss += float(federated.loss(logits, y, reduction="sum"))
            correct += int((logits.argmax(1) == y).sum())
        return correct / len(answers), total_loss / len(answers)

    def _choose_train_subset(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return training samples, the same for all runs on the same partition."""
        used = np.sort(np.concatenate(self.federated.clients))
        if used.size > MAX_TRAIN_SUBSET:
            used = np.sort(
                np.random.Generator(np.random.PCG64(0)).permutation(used)[:MAX_TRAIN_SUBSET]
            )
        subset = torch.from_numpy(used)
        return self.federated.train_x[subset], self.federated.train_y[subset]
