"""Adaptive budgets: the controller's law, its bounds, and a run that spends less for as much."""

from __future__ import annotations

import numpy as np
import pytest

from docofl_codec import Ecuq, Eden, Identity, InvalidInputError
from docofl_codec.framework import (
    SGD,
    AdaptiveBudgets,
    Estimation,
    Server,
    UniformParticipation,
    run,
)
from docofl_codec.framework.budgets import with_bits
from tests.framework.problems import LogisticRegression


def after(
    budgets: AdaptiveBudgets, rho: float, bits: float = 3, error: float = 1.0
) -> AdaptiveBudgets:
    """Return the controller after a round in which anchors of so many bits gave so much."""
    budgets.start_over()
    scale = (rho - 1) * 4.0**bits
    budgets.observe(Estimation(error=error, drift_norm=1.0, anchor_scale=scale))
    return budgets


def test_a_bit_for_a_factor_of_four() -> None:
    budgets = AdaptiveBudgets(rho=2, largest_step=3)
    assert after(budgets, 5).next_anchor_bits(3) == 4
    assert after(budgets, 17).next_anchor_bits(3) == 5
    assert after(budgets, 2).next_anchor_bits(3) == 3
    assert after(budgets, 1.25).next_anchor_bits(3) == 2


def test_what_counts_is_the_budget_of_the_anchors_that_clients_hold() -> None:
    budgets = AdaptiveBudgets(rho=2, largest_step=9)
    assert after(budgets, 5, bits=2).next_anchor_bits(3) == 3
    assert after(budgets, 5, bits=2).next_anchor_bits(8) == 3


def test_bounds_and_largest_step() -> None:
    budgets = AdaptiveBudgets(rho=2, anchor_bits=(2, 5), largest_step=1)
    assert after(budgets, 1000).next_anchor_bits(3) == 4
    assert after(budgets, 1000, bits=4.5).next_anchor_bits(4.5) == 5
    assert after(budgets, 0.9).next_anchor_bits(3) == 2  # sampling noise below 1 is possible
    assert after(budgets, 1.0001, bits=2.25).next_anchor_bits(2.25) == 2
    budgets.start_over()
    assert budgets.next_anchor_bits(9) == 5  # nothing observed


def test_corrections_follow_their_own_target_if_there_is_one() -> None:
    assert after(AdaptiveBudgets(), 2).next_correction_bits(1) == 1
    budgets = AdaptiveBudgets(error=0.25, correction_bits=(0.5, 3), largest_step=2)
    assert after(budgets, 2, error=1.0).next_correction_bits(1) == 2
    assert after(budgets, 2, error=0.0625).next_correction_bits(2) == 1
    assert after(budgets, 2, error=100.0).next_correction_bits(2) == 3


@pytest.mark.parametrize(
    "options",
    [
        {"rho": 1},
        {"largest_step": np.nan},
        {"error": 0},
        {"anchor_bits": (3, 2)},
        {"correction_bits": (0, 2)},
        {"rho": np.nan},
    ],
    ids=repr,
)
def test_bad_options(options: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        AdaptiveBudgets(**options)  # type: ignore[arg-type]


def test_codecs_that_cannot_take_the_budgets_are_refused_at_once() -> None:
    process = UniformParticipation(2, 2)
    too_much = AdaptiveBudgets(error=0.1, correction_bits=(0.5, 20))
    with pytest.raises(InvalidInputError, match="bits"):
        Server(np.zeros(5), process, budgets=too_much)
    with pytest.raises(InvalidInputError, match="Identity"):
        Server(np.zeros(5), process, anchor_codec=Identity(), budgets=AdaptiveBudgets())


def test_codecs_with_another_budget() -> None:
    assert with_bits(Ecuq(bits=2, tolerance=0.1), 3) == Ecuq(bits=3, tolerance=0.1)
    with pytest.raises(InvalidInputError, match="Identity"):
        with_bits(Identity(), 3)


def logistic_run(
    budgets: AdaptiveBudgets | None, anchor_bits: float, correction_bits: float = 2
) -> tuple[float, Server, list[float]]:
    problem = LogisticRegression()
    server = Server(
        np.zeros(problem.size),
        UniformParticipation(problem.num_clients, 8, lead=(1, 8)),
        anchor_codec=Ecuq(bits=anchor_bits),
        correction_codec=Eden(bits=correction_bits),
        update_codec=Eden(bits=3),
        optimizer=SGD(momentum=0.9),
        deploy_every=4,
        budgets=budgets,
    )
    ratios, accuracies = [], []
    for report in run(server, problem.train, 120):
        ratios.append(report.estimation.rho or 1.0)
        if report.round >= 80:
            accuracies.append(problem.accuracy(server.weights))
    return float(np.mean(accuracies)), server, ratios


def test_adaptive_budgets_spend_less_for_the_same_accuracy() -> None:
    fixed_accuracy, fixed, _ = logistic_run(None, 4, 4)
    accuracy, adaptive, ratios = logistic_run(AdaptiveBudgets(rho=2), 2)
    assert accuracy > fixed_accuracy - 0.005
    assert adaptive.ledger.downlink < 0.85 * fixed.ledger.downlink
    assert 1.5 < np.median(ratios[20:]) < 3  # a little above 2, as the drift still shrinks


def test_a_fixed_small_budget_lets_rho_grow() -> None:
    *_, ratios = logistic_run(None, 2)
    *_, held = logistic_run(AdaptiveBudgets(rho=2), 2)
    assert np.median(ratios[-40:]) > 2 * np.median(held[-40:])
