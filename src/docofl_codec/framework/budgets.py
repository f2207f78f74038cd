"""Budgets that follow the training (open question 3 of the paper).

Corrections shrink while a model converges, the error of anchors with a fixed budget does not: ρ_t
grows, and with it the share of the clients' error that better anchors would save. The controller
holds ρ_t instead of the budget, and so spends bits when they matter.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from docofl_codec.codec import Codec
from docofl_codec.errors import InvalidInputError
from docofl_codec.framework.diagnostics import Estimation

__all__ = ["AdaptiveBudgets", "bits_of", "with_bits"]

_GRAIN = 8  # budgets are multiples of an eighth of a bit


@dataclass
class AdaptiveBudgets:
    """Chooses b_w, and b_c if asked to, at every deployment of an anchor.

    A bit more divides a quantizer's squared error by four. ρ - 1 is the ratio of the anchors' error
    to the drift ‖w - y‖². The drift, and the error of the anchors that clients hold, whatever their
    budgets, say which budget gives the target. For corrections likewise: the codec's relative error
    has to be the target's.

    Parameters
    ----------
    rho : float, default 2
        The target for ρ_t, above 1.
    anchor_bits : pair of float
        The least and the largest b_w.
    error : float, optional
        The target for a client's squared error over the drift, ê² / ‖w_t - y‖². Without it b_c
        stays as it is.
    correction_bits : pair of float
        The least and the largest b_c.
    largest_step : float, default 1
        The most that a budget changes at a deployment, in bits.

    Examples
    --------
    >>> from docofl_codec.framework import Estimation
    >>> budgets = AdaptiveBudgets(rho=1.5, anchor_bits=(2, 6))
    >>> budgets.observe(Estimation(anchor_scale=32.0, drift_norm=1.0))  # rho is 3 at 2 bits
    >>> budgets.next_anchor_bits(2.0)  # four times as far from 1 as 1.5
    3.0
    """

    rho: float = 2.0
    anchor_bits: tuple[float, float] = (1.5, 8.0)
    error: float | None = None
    correction_bits: tuple[float, float] = (0.5, 8.0)
    largest_step: float = 1.0
    _sums: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0], init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.rho > 1:
            raise InvalidInputError(f"rho: found {self.rho}, expected more than 1")
        if self.error is not None and not self.error > 0:
            raise InvalidInputError(f"error: found {self.error}, expected more than 0")
        if not 0 < self.largest_step < math.inf:
            raise InvalidInputError(f"largest_step: found {self.largest_step}, expected above 0")
        for name in ("anchor_bits", "correction_bits"):
            low, high = getattr(self, name)
            if not 0 < low <= high < math.inf:
                raise InvalidInputError(f"{name}: found {low} to {high}, expected 0 < low <= high")

    def check(self, anchor_codec: Codec, correction_codec: Codec) -> None:
        """Refuse codecs that have no budget, or not between the bounds."""
        adapted = [(anchor_codec, self.anchor_bits)]
        if self.error is not None:
            adapted.append((correction_codec, self.correction_bits))
        for codec, bounds in adapted:
            for bits in bounds:
                with_bits(codec, bits).encode(np.zeros(1, dtype=np.float32), seed=0)

    def observe(self, estimation: Estimation) -> None:
        """Take note of a round."""
        self._sums[0] += estimation.anchor_scale
        self._sums[1] += estimation.error
        self._sums[2] += estimation.drift_norm**2

    def next_anchor_bits(self, bits: float) -> float:
        """Return b_w for the next anchor, given the current one."""
        scale, _, drift = self._sums
        if drift <= 0:
            return _clip(bits, *self.anchor_bits)
        return self._moved(bits, scale / drift / 4.0**bits / (self.rho - 1), self.anchor_bits)

    def next_correction_bits(self, bits: float) -> float:
        """Return b_c from the next anchor on, given the current one."""
        _, error, drift = self._sums
        if self.error is None or drift <= 0:
            return bits
        return self._moved(bits, error / drift / self.error, self.correction_bits)

    def start_over(self) -> None:
        """Forget the rounds so far: the budgets have changed."""
        self._sums = [0.0, 0.0, 0.0]

    def state(self) -> dict[str, Any]:
        """Return everything that a checkpoint needs."""
        return {"sums": list(self._sums)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` returned."""
        self._sums = [float(value) for value in state["sums"]]

    def _moved(self, bits: float, ratio: float, bounds: tuple[float, float]) -> float:
        step = math.log2(ratio) / 2 if ratio > 0 else -self.largest_step
        step = _clip(step, -self.largest_step, self.largest_step)
        return _clip(round((bits + step) * _GRAIN) / _GRAIN, *bounds)


def bits_of(codec: Codec) -> float | None:
    """Return the budget of a codec that has one."""
    return getattr(codec, "bits", None)


def with_bits(codec: Codec, bits: float) -> Codec:
    """Return the codec with another budget.

    Raises
    ------
    InvalidInputError
        Where it has none.
    """
    if not dataclasses.is_dataclass(codec) or bits_of(codec) is None:
        raise InvalidInputError(f"codec: found {codec!r}, expected one with a budget in bits")
    return cast(Codec, dataclasses.replace(cast(Any, codec), bits=bits))


def _clip(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)
