"""What is claimed of accuracy holds in the committed tables (benchmarks/results)."""

from __future__ import annotations

import csv
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
SEEDS = {"0", "1", "2"}

Table = dict[str, list[dict[str, str]]]

# The same runs on three machines, whose sums in torch differ: as other seeds would.
on_each_machine = pytest.mark.parametrize(
    "folder", [RESULTS, RESULTS / "epyc", RESULTS / "xeon"], ids=lambda path: path.name
)


def table(name: str, folder: Path = RESULTS) -> Table:
    """Return the rows of a table by label."""
    rows: Table = defaultdict(list)
    with (folder / f"{name}.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            rows[row["label"]].append(row)
    return rows


def mean(rows: list[dict[str, str]], column: str = "final_accuracy") -> float:
    return float(np.mean([float(row[column]) for row in rows]))


@on_each_machine
def test_emnist_keeps_up_with_federated_averaging(folder: Path) -> None:
    """600 rounds, three paired seeds, the mean of the last four evaluations."""
    rows = table("emnist", folder)
    assert all({row["seed"] for row in found} == SEEDS for found in rows.values())
    fedavg = mean(rows["fedavg"])
    assert fedavg >= 0.82
    assert mean(rows["4,4,3"]) >= fedavg - 0.005
    assert mean(rows["2,2,3"]) >= fedavg - 0.006


@on_each_machine
def test_emnist_uses_a_fraction_of_the_bytes(folder: Path) -> None:
    row = table("emnist", folder)["2,2,3"][0]
    assert float(row["float32_bytes"]) / float(row["online_bytes"]) >= 15
    assert float(row["float32_bytes"]) / float(row["downlink_bytes"]) >= 7.5


@on_each_machine
def test_an_anchor_and_a_bit_are_better_than_one_bit_of_the_weights(folder: Path) -> None:
    """After 400 rounds; both send one bit a coordinate in the round."""
    rows = table("emnist-direct", folder)
    assert all({row["seed"] for row in found} == SEEDS for found in rows.values())
    assert mean(rows["2,1,3"]) >= mean(rows["direct:1,3"]) + 0.02


def test_without_corrections_nothing_is_learned() -> None:
    """After 200 rounds, for each of the paper's three kinds of anchors: chance is one in 47."""
    rows = table("correction")
    for alone, corrected in (
        ("anchor:2,3", "2,2,3"),
        ("anchor:32,3", "32,2,3"),
        ("V=1 anchor:2,3", "V=1 2,2,3"),
    ):
        assert mean(rows[alone]) <= 0.03
        assert mean(rows[corrected]) >= 0.7
        assert mean(rows[corrected], "diverged") == 0


@pytest.mark.parametrize(
    "alone",
    [
        "anchor:2,3",
        pytest.param(
            "V=1 anchor:2,3",
            marks=pytest.mark.xfail(
                strict=True,
                reason="here it ends at chance, with the loss that it began with",
            ),
        ),
    ],
)
def test_anchors_of_two_bits_diverge_without_corrections(alone: str) -> None:
    assert mean(table("correction")[alone], "diverged") == 1


def test_rho_falls_with_the_anchors_budget() -> None:
    """In rounds 20 to 59."""
    rows = table("rho")
    ratios = [mean(rows[f"{bits},2,3"], "rho") for bits in (2, 3, 4, 8)]
    assert all(more > less for more, less in pairwise(ratios))
    assert ratios[2] <= 1.2
    assert ratios[3] == pytest.approx(1, abs=0.02)


def test_rare_and_old_anchors_hurt_small_corrections() -> None:
    """Large K V: five points and more at half a bit a coordinate, next to nothing at two bits."""
    rows = table("kv")
    accuracies = [mean(rows[f"{kv} 2,0.5,3"]) for kv in ("K=10 V=3", "K=50 V=3", "K=50 V=10")]
    assert all(more > less for more, less in pairwise(accuracies))
    assert accuracies[2] <= accuracies[0] - 0.05
    assert mean(rows["K=50 V=10 2,2,3"]) >= mean(rows["K=10 V=3 2,2,3"]) - 0.015


def test_error_feedback_needs_three_bits_of_the_weights_or_an_anchor_and_one() -> None:
    """EF21-PP after 300 rounds: one and two bits of the weights fall behind, as printed."""
    rows = table("ef21")
    assert {row["rounds"] for found in rows.values() for row in found} == {"300"}
    assert all({row["seed"] for row in found} == SEEDS for found in rows.values())
    for column in ("last_accuracy", "final_accuracy"):
        accuracy = {label: mean(found, column) for label, found in rows.items()}
        bits = [accuracy[f"EDEN, {count}"] for count in ("1 bit", "2 bits", "3 bits")]
        assert all(less < more for less, more in pairwise([*bits, accuracy["exact"]]))
        assert bits[0] <= accuracy["exact"] - 0.05
        assert bits[1] <= accuracy["exact"] - 0.01
        for less, more in (("EDEN, 2 bits", "DoCoFL (2,1)"), ("DoCoFL (2,1)", "exact")):
            for low, high in zip(rows[less], rows[more], strict=True):
                assert low["seed"] == high["seed"]
                assert float(low[column]) < float(high[column])
    online = {label: mean(found, "online_bytes") for label, found in rows.items()}
    assert online["EDEN, 3 bits"] > 2.5 * online["DoCoFL (2,1)"]


@pytest.mark.parametrize(
    "column",
    [
        "final_accuracy",
        pytest.param(
            "last_accuracy",
            marks=pytest.mark.xfail(
                strict=True, reason="3 bits are 0.6 points below exact at the single evaluation"
            ),
        ),
    ],
)
def test_with_error_feedback_three_bits_are_as_good_as_exact(column: str) -> None:
    """And DoCoFL as good as these: half a point is allowed."""
    rows = table("ef21")
    three_bits = mean(rows["EDEN, 3 bits"], column)
    assert abs(mean(rows["DoCoFL (2,1)"], column) - three_bits) <= 0.005
    assert three_bits >= mean(rows["exact"], column) - 0.005


def test_anchors_of_two_bits_and_corrections_of_two_bits_cost_no_accuracy() -> None:
    """At round 200, beside exact ones; the estimation error falls with either budget."""
    for study, labels in (
        ("bw", ("1.5,2,3", "2,2,3", "3,2,3", "32,2,3")),
        ("bc", ("2,0.5,3", "2,1,3", "2,2,3", "2,4,3", "2,32,3")),
    ):
        rows = table(study)
        errors = [mean(rows[label], "estimation_error") for label in labels]
        assert all(more > less for more, less in pairwise(errors))
        exact = mean(rows[labels[-1]])
        for label in labels[labels.index("2,2,3") :]:
            assert mean(rows[label]) >= exact - 0.015


@on_each_machine
def test_adaptive_budgets_save_a_sixth_of_the_downlink(folder: Path) -> None:
    rows = table("adaptive", folder)
    assert all({row["seed"] for row in found} == SEEDS for found in rows.values())
    fixed, adaptive = rows["4,4,3"], rows["adaptive"]
    assert mean(adaptive) >= mean(fixed) - 0.005
    assert mean(adaptive, "downlink_bytes") <= 0.85 * mean(fixed, "downlink_bytes")
    assert mean(rows["2,2,3"], "last_rho") > 3 * mean(adaptive, "last_rho")


def test_early_anchors_save_time_on_slow_links() -> None:
    """Three clients in ten have 1 Mbit/s down and a quarter of that up, and all wait for them."""
    rows = table("links")
    plain, direct, early = (
        mean(rows[label], "link_seconds") for label in ("fedavg", "direct:4,3", "2,2,3")
    )
    assert early < direct < plain
    assert early <= plain / 10
    for label in ("direct:4,3", "2,2,3"):
        assert mean(rows[label], "last_accuracy") >= mean(rows["fedavg"], "last_accuracy") - 0.01
    for column, share in (("downlink_bytes", 1.05), ("online_bytes", 0.52)):
        assert mean(rows["2,2,3"], column) <= share * mean(rows["direct:4,3"], column)


def test_cifar10_with_resnet_loses_as_federated_averaging_does() -> None:
    """30 rounds of ResNet-9, seed by seed; a model that knows nothing has a loss of 2.303."""
    rows = table("cifar10")
    assert all({row["seed"] for row in found} == SEEDS for found in rows.values())
    for exact, compressed in zip(rows["fedavg"], rows["2,2,1"], strict=True):
        assert exact["seed"] == compressed["seed"]
        for column in ("test_loss", "train_loss"):
            losses = [float(row[column]) for row in (exact, compressed)]
            assert max(losses) <= 1.03 * min(losses)
            assert max(losses) < 2.1
    assert mean(rows["2,2,1"], "downlink_bytes") < mean(rows["fedavg"], "downlink_bytes") / 6


@pytest.mark.parametrize(("task", "guess"), [("amazon", 0.5), ("shakespeare", 0.19)])
def test_texts_keep_up_with_federated_averaging(task: str, guess: float) -> None:
    """After the same rounds, seed by seed, at the last evaluation and in the last four."""
    rows = table(task)
    for column in ("last_accuracy", "final_accuracy"):
        fedavg = {row["seed"]: float(row[column]) for row in rows["fedavg"]}
        assert set(fedavg) == {"0", "1"}
        assert min(fedavg.values()) > 1.3 * guess
        for label in ("4,4,4", "6,6,2"):
            found = {row["seed"]: float(row[column]) for row in rows[label]}
            assert found.keys() == fedavg.keys()
            assert all(found[seed] >= fedavg[seed] - 0.015 for seed in fedavg)
