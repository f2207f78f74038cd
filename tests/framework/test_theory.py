"""The theorem's step size and bound, against the formulas of the appendix."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from docofl_codec import InvalidInputError
from docofl_codec.framework import Theory

THEORY = Theory(
    smoothness=2.0,
    noise=3.0,
    dissimilarity=1.5,
    dissimilarity_slope=0.5,
    gap=4.0,
    per_round=10,
    num_clients=100,
    num_rounds=1_000_000,
    omega=0.7,
)


def test_step_size_and_bound_are_the_printed_formulas() -> None:
    beta, M, S, N, T, omega, age = 2.0, 4.0, 10, 100, 1_000_000, 0.7, 30
    noise = 3.0 + 4 * (1 - S / N) * 1.5**2
    gamma = 1 + (1 - S / N) * 0.5**2 / S
    theta = omega * age + 1
    eta = min(
        1 / (30 * gamma * beta * theta),
        math.sqrt(2 * M * S / (beta * noise * T)),
        (M * S / (12 * beta**2 * omega**2 * age * noise * T)) ** (1 / 3),
    )
    bound = (
        4 * math.sqrt(2 * M * beta * noise / (T * S))
        + 8
        * (12 * M**2 * beta**2 * omega**2 * age * noise) ** (1 / 3)
        / (T ** (2 / 3) * S ** (1 / 3))
        + 120 * gamma * M * beta * theta / T
    )
    assert THEORY.effective_noise == pytest.approx(noise)
    assert THEORY.gamma == pytest.approx(gamma)
    assert THEORY.step_size(anchor_age=age) == pytest.approx(eta)
    assert THEORY.bound(anchor_age=age) == pytest.approx(bound)


@pytest.mark.parametrize("num_rounds", [10**5, 10**6, 10**8])
@pytest.mark.parametrize("omega", [0.1, 0.75, 1.5])
def test_largest_age_is_where_the_slow_term_stops_being_the_largest(
    num_rounds: int, omega: float
) -> None:
    theory = replace(THEORY, num_rounds=num_rounds, omega=omega)
    age = theory.largest_anchor_age()
    assert age is not None

    def slow_dominates(at: int) -> bool:
        others = theory.compression_term(anchor_age=at), theory.deterministic_term(anchor_age=at)
        return max(others) <= theory.statistical_term * (1 + 1e-12)

    assert age == 0 or slow_dominates(age)
    assert not slow_dominates(age + 1)
    assert theory.bound(anchor_age=age) <= 3 * theory.statistical_term or age == 0


def test_longer_runs_and_better_corrections_allow_older_anchors() -> None:
    ages = [replace(THEORY, num_rounds=n).largest_anchor_age() for n in (10**6, 10**7, 10**8)]
    assert ages == sorted(ages, key=lambda age: age or 0)
    assert len(set(ages)) == 3
    better = replace(THEORY, omega=0.1).largest_anchor_age()
    worse = THEORY.largest_anchor_age()
    assert better is not None
    assert worse is not None
    assert better > worse


def test_limits() -> None:
    assert replace(THEORY, omega=0).largest_anchor_age() is None
    assert replace(THEORY, num_rounds=10).largest_anchor_age() == 0
    exact = replace(THEORY, noise=0, dissimilarity=0)
    assert exact.largest_anchor_age() == 0
    assert exact.step_size(anchor_age=0) == 1 / (30 * exact.gamma * exact.smoothness)


@pytest.mark.parametrize(
    "options",
    [
        {"smoothness": 0},
        {"gap": -1},
        {"noise": -1},
        {"omega": math.nan},
        {"per_round": 101},
        {"num_rounds": 0},
    ],
    ids=repr,
)
def test_bad_options(options: dict[str, float]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        replace(THEORY, **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="anchor_age"):
        THEORY.step_size(anchor_age=-1)
