"""How far the clients' models are from the server's, and what part of that the anchors cause.

Appendix B of the paper. With y the anchor's model, ŷ what its frame decodes to and Δ̂ a correction:

=====================  ===========================================================================
paper                  here
=====================  ===========================================================================
ê² = ‖ŷ + Δ̂ - w_t‖²    ``Estimation.error``, the clients' squared estimation error
e²                     ``Estimation.exact_error``, what it would be with exact anchors
ρ_t = Σ ê² / Σ e²      ``Estimation.rho``
=====================  ===========================================================================

Both errors are the distance that the correction had to bridge times the correction codec's
normalised error, ê² = ω² ‖w_t - ŷ‖² and e² = ω² ‖w_t - y‖². ω² is measured once a round, on a
correction that was sent; EDEN's does not depend on the vector, so that it serves for all clients
and for both errors. ‖w_t - y‖² needs the exact anchors: of those, a sample of at most 131,072
coordinates is kept, which is all of them in a small model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from docofl_codec.framework.vectors import Vector, squared_distance, squared_norm

__all__ = ["CoordinateSample", "Estimation", "EstimationErrors"]

SAMPLE_SIZE = 1 << 17


class CoordinateSample:
    """Evenly spaced coordinates, all of them if there are few.

    The distance between them is a prime number, so that they do not fall into step with the rows of
    a layer's matrix.
    """

    def __init__(self, size: int) -> None:
        self._stride = 1
        if size > SAMPLE_SIZE:
            self._stride = _next_prime(math.ceil(size / SAMPLE_SIZE))

    def take(self, vector: Vector) -> Vector:
        """Return a copy of the chosen coordinates."""
        taken: Vector = vector[:: self._stride].copy()
        return taken


@dataclass(frozen=True)
class Estimation:
    """The estimation errors of a round, as means over its clients.

    Attributes
    ----------
    error, exact_error : float
        ê² and e².
    correction_norm : float
        Root mean square of ‖w_t - ŷ‖.
    drift_norm : float
        Root mean square of ‖w_t - y‖.
    anchor_scale : float
        Mean of (‖w_t - ŷ‖² - ‖w_t - y‖²) 4^b_w: the anchors' squared error, carried on to zero bits
        at a factor of four a bit.
    """

    error: float = 0.0
    exact_error: float = 0.0
    correction_norm: float = 0.0
    drift_norm: float = 0.0
    anchor_scale: float = 0.0

    @property
    def rho(self) -> float | None:
        """ρ_t, or None where exact anchors would leave no error to compare with."""
        return self.error / self.exact_error if self.exact_error > 0 else None


class EstimationErrors:
    """Adds up the clients of a round."""

    def __init__(self) -> None:
        self._omega_squared: float | None = None
        self._distances = 0.0
        self._drifts = 0.0
        self._anchor_scales = 0.0
        self._count = 0

    @property
    def needs_measurement(self) -> bool:
        """Whether no correction of the round has been measured yet."""
        return self._omega_squared is None

    def measure(self, difference: Vector, decoded: Vector) -> None:
        """Measure the correction codec's normalised error on a correction that was sent.

        One of zeros tells nothing.
        """
        norm = squared_norm(difference)
        if norm > 0:
            self._omega_squared = squared_distance(decoded, difference) / norm

    def add(self, distance: float, drift: float, anchor_bits: float) -> None:
        """Add a client with its ‖w_t - ŷ‖² and ‖w_t - y‖² and its anchor's budget."""
        self._distances += distance
        self._drifts += drift
        self._anchor_scales += (distance - drift) * 4.0**anchor_bits
        self._count += 1

    def mean(self) -> Estimation:
        """Return the round's errors. Without corrections, clients are off by the whole distance."""
        if self._count == 0:
            return Estimation()
        omega_squared = 1.0 if self._omega_squared is None else self._omega_squared
        distance, drift = self._distances / self._count, self._drifts / self._count
        return Estimation(
            error=omega_squared * distance,
            exact_error=omega_squared * drift,
            correction_norm=distance**0.5,
            drift_norm=drift**0.5,
            anchor_scale=self._anchor_scales / self._count,
        )


def drift_of(distance: float, difference: Vector, exact_difference: Vector) -> float:
    """Estimate ‖w_t - y‖².

    Parameters
    ----------
    distance : float
        ‖w_t - ŷ‖², over all coordinates.
    difference, exact_difference : ndarray of float32
        w_t - ŷ and w_t - y at the sampled coordinates. The ratio of their norms is known far better
        than either norm.
    """
    sampled = squared_norm(difference)
    return distance * (squared_norm(exact_difference) / sampled) if sampled > 0 else 0.0


def _next_prime(number: int) -> int:
    """Return the least prime that is not smaller."""
    while any(number % divisor == 0 for divisor in range(2, math.isqrt(number) + 1)):
        number += 1
    return number
