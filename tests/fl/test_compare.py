"""Comparisons and studies: paired runs in processes of their own, and their tables."""

from __future__ import annotations

import csv
import dataclasses
import json
import multiprocessing
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from docofl_codec import InvalidInputError
from docofl_codec.fl import RunConfig, sweep
from docofl_codec.fl.ablate import STUDIES, ablate
from docofl_codec.fl.compare import PAPER, compare, jobs_for, summarize, write_csv
from docofl_codec.fl.report import read_run
from docofl_codec.fl.tasks import NAMES, get_task
from tests.fl.run_folders import make_metrics, write_run
from tests.helpers.processes import INTERRUPTIBLE_DOCOFL

BASE = RunConfig(rounds=6, eval_every=3, num_clients=12, per_round=4)


def test_a_comparison(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    rows = compare(
        BASE, ["fedavg", "2,2,3"], [0, 1], tmp_path, on_progress=lambda *n: seen.append(n)
    )
    assert [row.label for row in rows] == ["fedavg", "2,2,3"]
    assert all(row.seeds == (0, 1) and row.diverged == 0 for row in rows)
    exact, compressed = rows
    assert exact.online_bytes == exact.downlink_bytes
    assert exact.online_bytes == pytest.approx(exact.float32_bytes, rel=0.01)
    assert compressed.float32_bytes / compressed.online_bytes > 4
    assert seen[-1] == (24, 24)
    with (tmp_path / "table.csv").open() as file:
        table = list(csv.DictReader(file))
    text = (tmp_path / "2-2-3-s1" / "metrics.jsonl").read_text(encoding="utf-8")
    metrics = [json.loads(line) for line in text.splitlines()]
    assert float(table[3]["last_accuracy"]) == pytest.approx(metrics[5]["test_accuracy"], abs=1e-5)
    assert float(table[3]["test_loss"]) == pytest.approx(metrics[5]["test_loss"], abs=1e-5)
    losses = [entry["train_loss"] for entry in metrics]
    assert float(table[3]["train_loss"]) == pytest.approx(sum(losses) / 6, abs=1e-5)
    assert [(line["label"], line["seed"]) for line in table] == [
        ("fedavg", "0"),
        ("fedavg", "1"),
        ("2,2,3", "0"),
        ("2,2,3", "1"),
    ]
    again = compare(BASE, ["fedavg", "2,2,3"], [0, 1], tmp_path)
    assert again == rows


def test_a_line_of_the_table_is_that_of_its_seed(tmp_path: Path) -> None:
    folders = []
    for seed, rounds in enumerate((30, 50)):
        metrics = make_metrics(rounds)
        metrics[-1]["diverged"] = seed == 0
        folders.append(write_run(tmp_path / str(seed), metrics, label="x", seed=seed))
    rows = summarize(folders)
    write_csv(rows, tmp_path / "table.csv")
    with (tmp_path / "table.csv").open() as file:
        first, second = csv.DictReader(file)
    assert (first["diverged"], second["diverged"]) == ("1", "0")
    for name in ("online_bytes", "downlink_bytes", "uplink_bytes", "float32_bytes"):
        sizes = [getattr(read_run(folder), name) for folder in folders]
        last = [np.ravel(size)[-1] for size in sizes]
        assert [float(line[name]) for line in (first, second)] == last
        assert getattr(rows[0], name) == np.mean(last)
    assert rows[0].diverged == 1


def test_a_run_without_rounds_has_sent_nothing(tmp_path: Path) -> None:
    (row,) = summarize([write_run(tmp_path / "a", [])])
    assert (row.online_bytes, row.float32_bytes) == (0, 0)
    assert np.isnan(row.final[0])


def test_an_error_in_a_run_ends_the_comparison(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="per_round"):
        compare(RunConfig(num_clients=3, per_round=4, rounds=2), ["fedavg"], [0, 1], tmp_path)
    with pytest.raises(InvalidInputError, match="codecs: found none"):
        compare(BASE, [], [0], tmp_path)
    with pytest.raises(InvalidInputError, match="seeds: found none"):
        compare(BASE, ["fedavg"], [], tmp_path)
    with pytest.raises(InvalidInputError, match="expected different names"):
        compare(BASE, ["fedavg", "fedavg"], [0], tmp_path)


def test_ctrl_c_ends_all_runs(tmp_path: Path) -> None:
    command = ["compare", "digits", "--rounds", "100000", "--codecs", "fedavg", "2,2,3", "4,4,3"]
    process = subprocess.Popen(
        [*INTERRUPTIBLE_DOCOFL, *command, "--jobs", "1", "--out", str(tmp_path)],
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    first = tmp_path / "fedavg-s0" / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while not (first.exists() and first.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped" in errors
    assert [path.name for path in tmp_path.iterdir()] == ["fedavg-s0"]


def test_bytes_of_federated_averaging_are_those_of_float32(tmp_path: Path) -> None:
    """Whoever vanishes or is late."""
    base = dataclasses.replace(BASE, dropout=0.3, delayed=0.5, max_delay=2)
    (row,) = compare(base, ["fedavg"], [0], tmp_path)
    assert row.online_bytes == pytest.approx(row.float32_bytes, rel=0.01)
    assert row.uplink_bytes == pytest.approx(row.float32_uplink_bytes, rel=0.01)


def test_folders_are_those_of_label_and_seed(tmp_path: Path) -> None:
    jobs = jobs_for([RunConfig(label="EDEN, 1 bit"), RunConfig(codec="2,2,3")], [0, 7], tmp_path)
    assert [job.out.name for job in jobs] == [
        "EDEN--1-bit-s0",
        "2-2-3-s0",
        "EDEN--1-bit-s7",
        "2-2-3-s7",
    ]
    assert [job.config.seed for job in jobs] == [0, 0, 7, 7]


def test_a_study(tmp_path: Path) -> None:
    rows = ablate("rho", RunConfig(rounds=24, num_clients=12, per_round=4), [0], tmp_path)
    ratios = [row["rho"] for row in rows]
    assert ratios == sorted(ratios, reverse=True)
    with (tmp_path / "rho.csv").open() as file:
        assert [line["label"] for line in csv.DictReader(file)] == list(STUDIES["rho"].variants)
    with pytest.raises(InvalidInputError, match="study: found 'sigma'"):
        ablate("sigma", BASE, [0], tmp_path)


@pytest.mark.parametrize("name", STUDIES)
def test_the_options_of_studies_are_valid(name: str) -> None:
    study = STUDIES[name]
    assert len(study.variants) > 2
    for options in study.variants.values():
        RunConfig(**{**study.shared, **options})
    assert study.quick_rounds < study.rounds


def test_every_task_has_the_papers_configurations() -> None:
    assert set(PAPER) == set(NAMES)
    for name in NAMES:
        assert get_task(name).settings.deploy_every == 10


def test_quick_studies_are_parts_of_the_whole() -> None:
    for study in STUDIES.values():
        assert set(study.quick_variants) <= set(study.variants)
    assert len(STUDIES["kv"].variants) == 2 * 4 * 3
    assert len(STUDIES["kv"].quick_variants) == 2 * 3


def test_what_is_given_goes_before_what_a_study_says(tmp_path: Path) -> None:
    base = RunConfig(rounds=1, num_clients=12, per_round=3, server_optimizer="adam")
    ablate("ef21", base, [0], tmp_path)
    for folder in (path for path in tmp_path.iterdir() if path.is_dir()):
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        assert (config["num_clients"], config["per_round"], config["ef21"]) == (12, 3, True)


def test_budgets_adapt_where_there_are_anchors(tmp_path: Path) -> None:
    base = dataclasses.replace(BASE, adaptive_rho=2.0)
    rows = compare(base, ["fedavg", "2,2,3"], [0], tmp_path)
    assert [row.label for row in rows] == ["fedavg", "2,2,3"]
    configs = [
        json.loads((tmp_path / name / "config.json").read_text(encoding="utf-8"))
        for name in ("fedavg-s0", "2-2-3-s0")
    ]
    assert [config["adaptive_rho"] for config in configs] == [None, 2.0]


def test_no_processes(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="jobs: found 0, expected at least 1"):
        compare(BASE, ["fedavg"], [0], tmp_path, processes=0)


def test_a_run_whose_process_is_killed_is_named(tmp_path: Path) -> None:
    def kill(*_: int) -> None:
        for child in multiprocessing.active_children():
            child.kill()

    base = dataclasses.replace(BASE, rounds=100_000, eval_every=100_000)
    with pytest.raises(ChildProcessError, match=r"fedavg-s0: its process ended with signal 9"):
        compare(base, ["fedavg"], [0], tmp_path, on_progress=kill)


def test_a_long_error_of_a_run_is_raised(tmp_path: Path) -> None:
    """Longer than a pipe holds: the run waits until it is read."""
    deadline = time.monotonic() + 120

    def on_progress(*_: int) -> None:
        assert time.monotonic() < deadline

    base = dataclasses.replace(BASE, partition="x" * 200_000)
    with pytest.raises(InvalidInputError, match="partition: found") as caught:
        compare(base, ["fedavg"], [0], tmp_path, on_progress=on_progress)
    assert len(str(caught.value)) > 1 << 16
    assert not multiprocessing.active_children()


class UnreadableError(Exception):
    """One that cannot be made again from its text alone."""

    def __init__(self, text: str, place: str) -> None:
        super().__init__(f"{text} at {place}")


@pytest.mark.parametrize(
    ("error", "expected", "message"),
    [
        (EOFError("the run's own"), EOFError, "the run's own"),
        (UnreadableError("lost", "sea"), RuntimeError, "its error could not be read"),
    ],
)
def test_what_a_run_raises_is_raised(
    tmp_path: Path, error: Exception, expected: type[Exception], message: str
) -> None:
    running = object.__new__(sweep._Running)
    running.job = sweep.Job(BASE, tmp_path)
    running.errors, sender = multiprocessing.Pipe(duplex=False)
    running.process = multiprocessing.get_context("spawn").Process(target=len, args=("",))
    running.process.start()
    sender.send(error)
    sender.close()
    with pytest.raises(expected, match=message):
        running.check()
    assert not running.process.is_alive()


def test_runs_without_an_evaluation_have_no_accuracy(tmp_path: Path) -> None:
    metrics = make_metrics(100)
    folders = [
        write_run(tmp_path / str(count), metrics[:count], label="x", seed=count)
        for count in (100, 10)
    ]
    (row,) = summarize(folders)
    assert np.isnan(row.final[1])
    assert np.isnan(row.best[1])
    write_csv([row], tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(encoding="utf-8") as file:
        first, second = csv.DictReader(file)
    assert first["final_accuracy"] == f"{row.final[0]:.5f}"
    assert second["final_accuracy"] == second["last_accuracy"] == second["link_seconds"] == ""
