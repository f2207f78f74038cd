"""The server's step from w_t to w_{t+1}, given the mean of the clients' updates.

Adaptive ones follow Reddi et al., "Adaptive Federated Optimization", ICLR 2021. The mean update
points downhill (new weights less old ones) and is treated as a negative gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from docofl_codec.framework.vectors import Vector, slices

__all__ = ["SGD", "Adagrad", "Adam", "ServerOptimizer", "Yogi"]


@runtime_checkable
class ServerOptimizer(Protocol):
    """What turns the clients' mean update into new weights."""

    def step(self, weights: Vector, update: Vector) -> None:
        """Change `weights` in place; `update` may be overwritten."""
        ...

    def state(self) -> Mapping[str, Vector]:
        """Return the vectors that the next step needs, by name."""
        ...

    def restore(self, state: Mapping[str, Vector]) -> None:
        """Take over what :meth:`state` returned."""
        ...


@dataclass
class SGD:
    """w += lr * m with m = momentum * m + update - weight_decay * w.

    With the defaults this is plain federated averaging.
    """

    lr: float = 1.0
    momentum: float = 0.0
    weight_decay: float = 0.0
    _velocity: Vector | None = field(default=None, init=False, repr=False)

    def step(self, weights: Vector, update: Vector) -> None:
        """Change `weights` in place."""
        if self.momentum and self._velocity is None:
            self._velocity = np.zeros_like(weights)
        for part in slices(weights.size):
            step = update[part]
            if self.weight_decay:
                step -= np.float32(self.weight_decay) * weights[part]
            if self._velocity is not None:
                velocity = self._velocity[part]
                velocity *= np.float32(self.momentum)
                velocity += step
                step = velocity
            weights[part] += step if self.lr == 1.0 else np.float32(self.lr) * step

    def state(self) -> Mapping[str, Vector]:
        """Return the momentum, if there is any."""
        return {} if self._velocity is None else {"velocity": self._velocity}

    def restore(self, state: Mapping[str, Vector]) -> None:
        """Take over a momentum."""
        self._velocity = state["velocity"].copy() if "velocity" in state else None


@dataclass
class _Adaptive:
    """Two moments and a step that divides one by the root of the other."""

    lr: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 1e-3
    _first: Vector | None = field(default=None, init=False, repr=False)
    _second: Vector | None = field(default=None, init=False, repr=False)

    def step(self, weights: Vector, update: Vector) -> None:
        """Change `weights` in place."""
        if self._first is None or self._second is None:
            self._first = np.zeros_like(weights)
            self._second = np.full_like(weights, self.tau**2)
        for part in slices(weights.size):
            first, second, gradient = self._first[part], self._second[part], update[part]
            first *= np.float32(self.beta1)
            first += np.float32(1 - self.beta1) * gradient
            self._add_square(second, np.square(gradient))
            weights[part] += np.float32(self.lr) * first / (np.sqrt(second) + np.float32(self.tau))

    def _add_square(self, second: Vector, square: Vector) -> None:
        raise NotImplementedError

    def state(self) -> Mapping[str, Vector]:
        """Return both moments."""
        if self._first is None or self._second is None:
            return {}
        return {"first": self._first, "second": self._second}

    def restore(self, state: Mapping[str, Vector]) -> None:
        """Take over both moments."""
        self._first = state["first"].copy() if state else None
        self._second = state["second"].copy() if state else None


@dataclass
class Adam(_Adaptive):
    """FedAdam."""

    def _add_square(self, second: Vector, square: Vector) -> None:
        second *= np.float32(self.beta2)
        second += np.float32(1 - self.beta2) * square


@dataclass
class Yogi(_Adaptive):
    """FedYogi."""

    def _add_square(self, second: Vector, square: Vector) -> None:
        second -= np.float32(1 - self.beta2) * square * np.sign(second - square)


@dataclass
class Adagrad(_Adaptive):
    """FedAdagrad."""

    beta1: float = 0.0

    def _add_square(self, second: Vector, square: Vector) -> None:
        second += square
