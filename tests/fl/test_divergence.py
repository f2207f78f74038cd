"""A run that ends worse than it began is said to have diverged, everywhere by the same rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docofl_codec import fl
from docofl_codec.fl.compare import summarize
from docofl_codec.fl.divergence import has_diverged
from docofl_codec.fl.report import read_run
from docofl_codec.fl.runner import RESULT

FIRST = {"round": 0, "initial_loss": 2.0, "train_loss": 0.1}


def evaluated(loss: float | None) -> dict[str, Any]:
    accuracy = {"test_accuracy": 0.1, "test_loss": loss}
    return {"round": 1, "train_loss": 1.0, **accuracy, "train_subset_loss": loss}


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ([], False),
        ([FIRST], False),
        ([FIRST, evaluated(2.9)], False),
        ([FIRST, evaluated(3.1)], True),
        ([FIRST, evaluated(100.0), evaluated(1.0)], False),
        ([FIRST, evaluated(None)], True),
        ([FIRST, {**evaluated(1.0), "train_subset_loss": None}], True),
        ([FIRST, evaluated(1e7), evaluated(1.0)], True),
        ([FIRST, {"round": 1, "train_loss": -1e7}], True),
        ([FIRST, {"round": 1, "train_loss": None}, evaluated(1.0)], False),
        ([{"round": 0, "train_loss": None}, evaluated(9.0)], False),
        ([FIRST, {"round": 1, "diverged": True}], True),
    ],
)
def test_the_rule(metrics: list[dict[str, Any]], expected: bool) -> None:
    assert has_diverged(metrics) is expected


@pytest.mark.parametrize(("client_lr", "rounds"), [(0.1, 60), (0.5, 30)])
def test_anchors_without_corrections(tmp_path: Path, client_lr: float, rounds: int) -> None:
    """All weights and the clients' losses stay finite; the model is lost all the same."""
    config = fl.RunConfig(codec="anchor:2,3", client_lr=client_lr, rounds=rounds, eval_every=10)
    result = fl.run(config, tmp_path)
    assert result.rounds == rounds
    assert not any(metrics.get("diverged") for metrics in result.metrics)
    assert result.status == "diverged"
    assert json.loads((tmp_path / RESULT).read_text())["status"] == "diverged"
    assert read_run(tmp_path).diverged
    assert summarize([tmp_path])[0].diverged == 1


def test_clients_that_overfit_have_not_diverged() -> None:
    """Their loss in the first round is near zero, the test's a dozen times as much."""
    config = fl.RunConfig(
        codec="fedavg", num_clients=2, per_round=2, local_epochs=100, rounds=2, eval_every=1
    )
    result = fl.run(config)
    first, last = result.metrics
    assert first["initial_loss"] == pytest.approx(np.log(10), abs=0.1)
    assert last["test_loss"] > 1.5 * first["train_loss"]
    assert result.final_accuracy > 0.9
    assert result.status == "finished"


def test_a_round_that_ends_a_run_has_its_bytes() -> None:
    options: dict[str, Any] = {"num_clients": 12, "per_round": 4, "strong_link": "1/1"}
    result = fl.run(fl.RunConfig(rounds=3, server_lr=1e39, **options))
    (metrics,) = result.metrics
    assert metrics["diverged"]
    assert metrics["asked"] == 4
    assert metrics["correction_bytes"] > 0
    assert metrics["update_bytes"] > 0
    assert metrics["updates"] == 4
    assert result.link_seconds > 0
    assert result.summary()["final_accuracy"] is None
