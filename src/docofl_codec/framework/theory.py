"""The theorem of the paper's appendix in numbers: step size, bound, and how old anchors may be.

====================  ============================================================================
paper                 here
====================  ============================================================================
β, σ², G, B           `smoothness`, `noise`, `dissimilarity`, `dissimilarity_slope`
M = f(w_0) - f*       `gap`
S, N, T               `per_round`, `num_clients`, `num_rounds`
ω                     `omega`, C_c's error: E‖C_c(w) - w‖² <= ω² ‖w‖²
K V                   `anchor_age`, the largest age of an anchor in rounds
====================  ============================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from docofl_codec.errors import InvalidInputError

__all__ = ["Theory"]


@dataclass(frozen=True, kw_only=True)
class Theory:
    """A problem as the theorem sees it; exact anchors and uploads.

    Parameters
    ----------
    smoothness : float
        β: gradients are β-Lipschitz.
    noise : float
        σ²: the variance of a client's stochastic gradient.
    dissimilarity, dissimilarity_slope : float
        G and B: the mean of ‖∇f_i‖² is at most G² + B² ‖∇f‖².
    gap : float
        M = f(w_0) - f*.
    per_round, num_clients, num_rounds : int
        S, N and T.
    omega : float
        ω; its square is the normalised error of the correction codec.

    Examples
    --------
    One bit of EDEN has ω² = 0.571. In a long, noisy run anchors may be tens of rounds old:

    >>> theory = Theory(
    ...     smoothness=1, noise=100, dissimilarity=10, dissimilarity_slope=1, gap=1,
    ...     per_round=20, num_clients=1000, num_rounds=100_000, omega=0.571**0.5,
    ... )
    >>> theory.largest_anchor_age()
    80
    >>> round(theory.step_size(anchor_age=30), 6)
    0.000902
    """

    smoothness: float
    noise: float
    dissimilarity: float
    dissimilarity_slope: float
    gap: float
    per_round: int
    num_clients: int
    num_rounds: int
    omega: float

    def __post_init__(self) -> None:
        for name in ("smoothness", "gap"):
            if not getattr(self, name) > 0:
                raise InvalidInputError(f"{name}: found {getattr(self, name)}, expected above 0")
        for name in ("noise", "dissimilarity", "dissimilarity_slope", "omega"):
            if not getattr(self, name) >= 0:
                raise InvalidInputError(f"{name}: found {getattr(self, name)}, expected 0 or more")
        if not 1 <= self.per_round <= self.num_clients:
            raise InvalidInputError(
                f"per_round: found {self.per_round}, expected 1 to {self.num_clients}"
            )
        if self.num_rounds < 1:
            raise InvalidInputError(f"num_rounds: found {self.num_rounds}, expected at least 1")

    @property
    def effective_noise(self) -> float:
        """σ̃² = σ² + 4 (1 - S/N) G²."""
        return self.noise + 4 * self._unsampled * self.dissimilarity**2

    @property
    def gamma(self) -> float:
        """γ = 1 + (1 - S/N) B² / S."""
        return 1 + self._unsampled * self.dissimilarity_slope**2 / self.per_round

    def step_size(self, *, anchor_age: int) -> float:
        """Return the η of the theorem, the least of three terms."""
        beta, noise, rounds = self.smoothness, self.effective_noise, self.num_rounds
        signal = self.gap * self.per_round
        terms = [1 / (30 * self.gamma * beta * self._theta(anchor_age))]
        if noise > 0:
            terms.append(math.sqrt(2 * signal / (beta * noise * rounds)))
        compression = 12 * (beta * self.omega) ** 2 * anchor_age * noise * rounds
        if compression > 0:
            terms.append((signal / compression) ** (1 / 3))
        return min(terms)

    def bound(self, *, anchor_age: int) -> float:
        """Return the theorem's bound on the mean of E‖∇f(w_t)‖² over the run."""
        return (
            self.statistical_term
            + self.compression_term(anchor_age=anchor_age)
            + self.deterministic_term(anchor_age=anchor_age)
        )

    @property
    def statistical_term(self) -> float:
        """The slow term, that of FedAvg: 4 sqrt(2 M β σ̃² / (T S))."""
        numerator = 2 * self.gap * self.smoothness * self.effective_noise
        return 4 * math.sqrt(numerator / (self.num_rounds * self.per_round))

    def compression_term(self, *, anchor_age: int) -> float:
        """Return the moderate term, 8 (12 M² β² ω² KV σ̃²)^(1/3) / (T^(2/3) S^(1/3))."""
        inner = 12 * (self.gap * self.smoothness * self.omega) ** 2
        inner *= anchor_age * self.effective_noise
        return 8 * math.pow(inner / (self.num_rounds**2 * self.per_round), 1 / 3)

    def deterministic_term(self, *, anchor_age: int) -> float:
        """Return the fast term, 120 γ M β (ω KV + 1) / T."""
        numerator = 120 * self.gamma * self.gap * self.smoothness * self._theta(anchor_age)
        return numerator / self.num_rounds

    def largest_anchor_age(self) -> int | None:
        """Return the largest K V for which the statistical term is still the largest of the three.

        Up to there the bound is at most three times FedAvg's slow term, and more clients a round
        speed training up as they do without compression. None: no limit, as ω is 0. 0: the run is
        too short, or too free of noise, for any.
        """
        slow = self.statistical_term
        if slow < self.deterministic_term(anchor_age=0):
            return 0
        if self.omega == 0:
            return None
        moderate = self.compression_term(anchor_age=1)
        fast = self.deterministic_term(anchor_age=1) - self.deterministic_term(anchor_age=0)
        by_compression = (slow / moderate) ** 3
        by_determinism = (slow - self.deterministic_term(anchor_age=0)) / fast
        return math.floor(min(by_compression, by_determinism))

    @property
    def _unsampled(self) -> float:
        return 1 - self.per_round / self.num_clients

    def _theta(self, anchor_age: int) -> float:
        if anchor_age < 0:
            raise InvalidInputError(f"anchor_age: found {anchor_age}, expected 0 or more")
        return self.omega * anchor_age + 1
