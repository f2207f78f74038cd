"""Which step to try next, from the bytes that others took."""

from __future__ import annotations

import math

from docofl_codec.ecuq import RateModel
from docofl_codec.state_dict.rate import round_step

__all__ = ["StepSearch"]

# The sample is never quite right: aim below the budget at first, by this part of it or, where bits
# are few, this part of a bit. Be content with so much less again.
FIRST_MARGIN = 0.007
FIRST_BITS_MARGIN = 0.012
MOST_MARGIN = 0.3
BAND = 0.015
NEXT_MARGIN = 0.002
# After some passes be content with more left over, and at last with what there is.
SOME_PASSES, SOME_BAND = 3, 0.04
MAX_PASSES = 7  # from the first that fits
# Logarithms of steps: the least change, and how much more it is each time that nothing fits.
LEAST_CHANGE, FAR_CHANGE = 0.003, 0.1
GROWTH = 4
FARTHEST = 0.1  # of a bracket, from its ends


class StepSearch:
    """Looks for the finest step whose frames fit.

    Parameters
    ----------
    model : RateModel
        What steps would cost, roughly.
    room : float
        Bits a coordinate.
    total : int
        Coordinates.

    Attributes
    ----------
    best : float or None
        The finest step so far that fits.
    """

    def __init__(self, model: RateModel, room: float, total: int) -> None:
        self._model = model
        self._room = room
        self._total = total
        self._passes = 0
        self._fitting_passes = 0
        self._change = LEAST_CHANGE
        self._margin = max(FIRST_MARGIN, min(MOST_MARGIN, FIRST_BITS_MARGIN / room))
        # Logarithms of steps and the bits that they took: the finest that fits, and the coarsest
        # finer one that does not.
        self._fits: tuple[float, float] | None = None
        self.best: float | None = None
        self._exceeds: tuple[float, float] | None = None

    def first(self) -> float:
        """Return the model's step."""
        return round_step(self._model.find_step(self._room * (1 - self._margin) * self._total))

    def add(self, step: float, bits: float) -> None:
        """Learn what a step took, in bits a coordinate."""
        self._passes += 1
        self._fitting_passes += self._fits is not None
        found = (math.log2(step), bits)
        if bits > self._room:
            self._exceeds = max(self._exceeds or found, found)
        elif self._fits is None or found < self._fits:
            self._fits, self.best = found, step

    def next(self) -> float | None:
        """Return a step to try, or None where the best is good enough or nothing will fit."""
        aim = self._room * (1 - NEXT_MARGIN * self._passes)
        if self._fits is None:
            return self._coarser(aim)
        band = BAND + self._margin if self._passes < SOME_PASSES else SOME_BAND
        if self._fits[1] >= self._room * (1 - band) or self._fitting_passes >= MAX_PASSES:
            return None
        if self._exceeds is None:
            exponent = min(self._guess(self._fits, aim), self._fits[0] - LEAST_CHANGE)
            exponent = self._model.clamp(exponent)
        else:
            (low, most), (high, least) = self._exceeds, self._fits
            # A line between the two, and halves in turn where that does not come near.
            part = 0.5 if self._passes % 2 == 0 else (most - aim) / (most - least)
            exponent = low + (high - low) * min(max(part, FARTHEST), 1 - FARTHEST)
        step = round_step(2.0**exponent)
        known = (self._fits, self._exceeds)
        is_new = all(k is None or abs(math.log2(step) - k[0]) >= LEAST_CHANGE / 2 for k in known)
        return step if is_new else None

    def _coarser(self, aim: float) -> float | None:
        """Return a step beyond one that does not fit, ever farther."""
        if self._exceeds is None:
            raise ValueError("step: expected one that was tried")
        exponent = self._exceeds[0]
        if exponent > self._model.coarsest:
            return None
        guess = exponent + FAR_CHANGE
        if self._passes < SOME_PASSES:
            guess = self._guess(self._exceeds, aim)
        exponent = max(guess, exponent + self._change)
        self._change *= GROWTH
        return round_step(2.0**exponent)

    def _guess(self, known: tuple[float, float], aim: float) -> float:
        """Return the model's logarithm of a step, corrected by what it missed."""
        missed = known[1] - self._model.bits(2.0 ** known[0]) / self._total
        return math.log2(self._model.find_step((aim - missed) * self._total))
