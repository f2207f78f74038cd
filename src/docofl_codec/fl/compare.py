"""FedAvg beside configurations of DoCoFL: paired runs over some seeds, and one table."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from docofl_codec.errors import InvalidInputError
from docofl_codec.fl.config import RunConfig, parse_codecs
from docofl_codec.fl.report.runs import Run, Series, read_run
from docofl_codec.fl.sweep import Job, run_all

__all__ = ["PAPER", "Counts", "Row", "compare", "jobs_for", "summarize", "write_csv"]

# The configurations of the paper's main table, by task.
PAPER: Mapping[str, Sequence[str]] = {
    "digits": ("4,4,3", "2,2,3"),
    "emnist": ("4,4,3", "2,2,3"),
    "cifar10": ("2,2,1", "2,0.5,1"),
    "cifar100": ("2,2,1", "2,0.5,1"),
    "amazon": ("6,6,2", "4,4,2"),
    "shakespeare": ("4,4,4", "2,2,4"),
}
LAST_ROUNDS = 10


@dataclass(frozen=True)
class Counts:
    """What one run has sent, in bytes, and whether it diverged; names as in :class:`Row`."""

    online_bytes: int
    downlink_bytes: int
    uplink_bytes: int
    float32_bytes: int
    float32_uplink_bytes: int
    diverged: int


@dataclass(frozen=True)
class Row:
    """A configuration, over its seeds.

    Attributes
    ----------
    label : str
        The configuration's.
    seeds : tuple of int
        Of its runs.
    best, final, last : tuple of float
        Test accuracies by seed; the final one is the mean of the last four evaluations, the last
        one that of the last evaluation alone. NaN where there is none.
    test_loss, train_loss : tuple of float
        By seed: of the last evaluation, and the clients' mean in the last ten rounds. NaN where
        there is none.
    link_seconds : tuple of float
        By seed: what a round waits for its clients' links, the mean of all rounds. NaN where runs
        have no links.
    online_bytes, downlink_bytes, uplink_bytes : float
        Means over seeds: in rounds, in all, and updates.
    float32_bytes, float32_uplink_bytes : float
        What each direction takes without compression.
    diverged : int
        How many of the runs diverged.
    counts : tuple of Counts
        By seed.
    """

    label: str
    seeds: tuple[int, ...]
    best: tuple[float, ...]
    final: tuple[float, ...]
    last: tuple[float, ...]
    test_loss: tuple[float, ...]
    train_loss: tuple[float, ...]
    link_seconds: tuple[float, ...]
    online_bytes: float
    downlink_bytes: float
    uplink_bytes: float
    float32_bytes: float
    float32_uplink_bytes: float
    diverged: int
    counts: tuple[Counts, ...]


def compare(
    base: RunConfig,
    codecs: Sequence[str],
    seeds: Sequence[int],
    out: Path | str,
    *,
    processes: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Row]:
    """Run every codec with every seed and write ``table.csv``.

    Parameters
    ----------
    base : RunConfig
        What the runs share.
    codecs : sequence of str
        As for :func:`docofl_codec.fl.parse_codecs`.
    seeds : sequence of int
        Runs with the same seed are paired.
    out : path-like
        A folder for the runs' folders. Runs that are done are not done again.
    processes, on_progress
        As for :func:`docofl_codec.fl.sweep.run_all`.
    """
    if not codecs:
        raise InvalidInputError("codecs: found none, expected at least one")
    configs = [_with_codec(base, codec) for codec in codecs]
    jobs = jobs_for(configs, seeds, Path(out))
    run_all(jobs, processes=processes, on_progress=on_progress)
    rows = summarize([job.out for job in jobs])
    write_csv(rows, Path(out) / "table.csv")
    return rows


def _with_codec(base: RunConfig, codec: str) -> RunConfig:
    """Return a run with a codec; one without anchors, as FedAvg, has no budgets that adapt."""
    if parse_codecs(codec).downlink == "direct":
        base = dataclasses.replace(base, adaptive_rho=None, adaptive_error=None)
    return dataclasses.replace(base, codec=codec, label=codec)


def jobs_for(configs: Sequence[RunConfig], seeds: Sequence[int], out: Path) -> list[Job]:
    """Return a job for every configuration and seed, seed by seed."""
    folders = [_folder(config.label or config.codec) for config in configs]
    if len(set(folders)) < len(folders):
        raise InvalidInputError(f"runs: found {', '.join(folders)}, expected different names")
    if not seeds:
        raise InvalidInputError("seeds: found none, expected at least one")
    return [
        Job(
            dataclasses.replace(config, seed=seed),
            out / f"{_folder(config.label or config.codec)}-s{seed}",
        )
        for seed in seeds
        for config in configs
    ]


def summarize(folders: Sequence[Path]) -> list[Row]:
    """Return a row for each label, in the order in which labels appear."""
    groups: dict[str, list[Run]] = {}
    for folder in folders:
        found = read_run(folder)
        groups.setdefault(found.label, []).append(found)
    return [_row(label, runs) for label, runs in groups.items()]


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """Write a table, one line for each configuration and seed."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = ["online_bytes", "downlink_bytes", "uplink_bytes", "float32_bytes", "diverged"]
    accuracies = ["best_accuracy", "final_accuracy", "last_accuracy"]
    losses = ["test_loss", "train_loss"]
    writer.writerow(["label", "seed", *accuracies, *losses, *names, "link_seconds"])
    for row in rows:
        by_seed = zip(row.best, row.final, row.last, row.test_loss, row.train_loss, strict=True)
        for seed, measured, counts, seconds in zip(
            row.seeds, by_seed, row.counts, row.link_seconds, strict=True
        ):
            cells = [row.label, seed, *map(_cell, measured)]
            cells += [getattr(counts, name) for name in names]
            writer.writerow([*cells, _cell(seconds)])
    path.write_text(text.getvalue(), encoding="utf-8")


def _cell(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.5f}"


def _row(label: str, runs: Sequence[Run]) -> Row:
    counts = tuple(_counts(run) for run in runs)
    return Row(
        label=label,
        seeds=tuple(run.seed or 0 for run in runs),
        best=tuple(run.best_accuracy for run in runs),
        final=tuple(run.final_accuracy for run in runs),
        last=tuple(run.last_accuracy for run in runs),
        test_loss=tuple(_mean_of_last(run, "test_loss", 1) for run in runs),
        train_loss=tuple(_mean_of_last(run, "train_loss", LAST_ROUNDS) for run in runs),
        link_seconds=tuple(_mean_of_last(run, "online_seconds", len(run.metrics)) for run in runs),
        online_bytes=float(np.mean([one.online_bytes for one in counts])),
        downlink_bytes=float(np.mean([one.downlink_bytes for one in counts])),
        uplink_bytes=float(np.mean([one.uplink_bytes for one in counts])),
        float32_bytes=float(np.mean([one.float32_bytes for one in counts])),
        float32_uplink_bytes=float(np.mean([one.float32_uplink_bytes for one in counts])),
        diverged=sum(one.diverged for one in counts),
        counts=counts,
    )


def _counts(run: Run) -> Counts:
    return Counts(
        online_bytes=_total(run.online_bytes),
        downlink_bytes=_total(run.downlink_bytes),
        uplink_bytes=_total(run.uplink_bytes),
        float32_bytes=round(run.float32_bytes or 0.0),
        float32_uplink_bytes=round(run.float32_uplink_bytes or 0.0),
        diverged=int(run.diverged),
    )


def _total(sums: Series) -> int:
    return round(sums[-1]) if sums.size else 0


def _mean_of_last(run: Run, name: str, count: int) -> float:
    known = run.series(name)
    known = known[~np.isnan(known)][-count:]
    return float(known.mean()) if known.size else math.nan


def _folder(label: str) -> str:
    return "".join(char if char.isalnum() or char in ".-_" else "-" for char in label)
