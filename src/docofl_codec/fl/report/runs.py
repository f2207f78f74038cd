"""A run that is there: its configuration and what it measured in each round.

Of the keys of its configuration ``task``, ``label``, ``codec``, ``seed`` and ``num_weights`` are
used, where they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from docofl_codec.fl.divergence import has_diverged
from docofl_codec.fl.run_files import (
    CONFIG,
    METRICS,
    RunFolderError,
    check_number,
    parse_object,
    parse_round,
)

__all__ = ["Group", "Run", "Series", "group_runs", "read_run"]

Series = npt.NDArray[np.float64]

# The final accuracy is the mean of so many evaluations.
LAST_EVALUATIONS = 4

# Options in which runs of one group may differ: they change neither the method nor its measures.
UNGROUPED = ("seed", "data", "label", "threads", "checkpoint_every")


@dataclass(frozen=True)
class Run:
    """One run.

    Parameters
    ----------
    path : Path
        Of its folder.
    config : mapping
        As written by the run.
    metrics : sequence of mapping
        One for each round, in order.
    """

    path: Path
    config: Mapping[str, Any]
    metrics: Sequence[Mapping[str, Any]]

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.name

    @property
    def task(self) -> str:
        """The task's name."""
        return str(self.config.get("task", ""))

    @property
    def label(self) -> str:
        """What the run is called in tables and legends."""
        for key in ("label", "codec"):
            if self.config.get(key):
                return str(self.config[key])
        return self.name

    @property
    def seed(self) -> int | None:
        """The run's seed."""
        return self.config.get("seed")

    @property
    def options(self) -> dict[str, Any]:
        """What the run has in common with those that differ by seed alone."""
        return {
            key: value
            for key, value in self.config.items()
            if key not in UNGROUPED and value is not None
        }

    def series(self, key: str) -> Series:
        """Return a metric of all rounds; NaN where a round has none."""
        values = [entry.get(key) for entry in self.metrics]
        return np.array([np.nan if value is None else value for value in values], np.float64)

    @cached_property
    def rounds(self) -> Series:
        """Rounds done after each entry: 1 after round 0."""
        return self.series("round") + 1

    @cached_property
    def online_bytes(self) -> Series:
        """Downlink bytes that clients wait for in their rounds, up to and with each round."""
        kinds = ("correction_bytes", "late_anchor_bytes")
        return np.cumsum(sum(np.nan_to_num(self.series(kind)) for kind in kinds))

    @cached_property
    def downlink_bytes(self) -> Series:
        """All downlink bytes up to and with each round."""
        return self.online_bytes + np.cumsum(np.nan_to_num(self.series("anchor_bytes")))

    @cached_property
    def uplink_bytes(self) -> Series:
        """Bytes of updates up to and with each round."""
        return np.cumsum(np.nan_to_num(self.series("update_bytes")))

    @cached_property
    def float32_bytes(self) -> float | None:
        """What the downlink would cost as float32: the model for every client asked."""
        return self._float32(float(np.nansum(self.series("asked"))))

    @cached_property
    def float32_uplink_bytes(self) -> float | None:
        """What the uplink would cost as float32: an update of every client that sent one."""
        return self._float32(float(np.nansum(self.series("updates"))))

    def _float32(self, clients: float) -> float | None:
        num_weights = self.config.get("num_weights")
        return None if num_weights is None else 4.0 * float(num_weights) * clients

    @cached_property
    def accuracies(self) -> Series:
        """Test accuracies of the evaluated rounds, from 0 to 1."""
        return self._known("test_accuracy")

    @property
    def best_accuracy(self) -> float:
        """The best evaluation; NaN where there are none."""
        return float(self.accuracies.max()) if self.accuracies.size else math.nan

    @property
    def last_accuracy(self) -> float:
        """The last evaluation; NaN where there are none."""
        return float(self.accuracies[-1]) if self.accuracies.size else math.nan

    @property
    def final_accuracy(self) -> float:
        """The mean of the last four evaluations; NaN where there are none."""
        return _mean_of_last(self.accuracies)

    @property
    def final_train_accuracy(self) -> float:
        """The same on training samples."""
        return _mean_of_last(self._known("train_accuracy"))

    def _known(self, key: str) -> Series:
        values = self.series(key)
        return values[~np.isnan(values)]

    @property
    def diverged(self) -> bool:
        """Tell whether the run diverged."""
        return has_diverged(self.metrics)


def _mean_of_last(evaluations: Series) -> float:
    last = evaluations[-LAST_EVALUATIONS:]
    return float(last.mean()) if last.size else math.nan


@dataclass(frozen=True)
class Group:
    """Runs of one task, label and options, which differ by seed."""

    label: str
    runs: Sequence[Run]


def read_run(path: Path) -> Run:
    """Read the folder of a run.

    Rounds that were done again after a resume count once, as done last. A last line that a
    stopped run left half written is left out.

    Raises
    ------
    RunFolderError
        Where a file is missing or is not as :mod:`docofl_codec.fl.run_files` says.
    """
    config_path, metrics_path = path / CONFIG, path / METRICS
    config = parse_object(config_path, 1, _read(config_path))
    for key in ("seed", "num_weights"):
        check_number(str(config_path), key, config.get(key))
    lines = _read(metrics_path).split(b"\n")
    entries: dict[int, Mapping[str, Any]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = parse_round(metrics_path, number, line)
        except RunFolderError as error:
            if number == len(lines) and isinstance(error.__cause__, ValueError):
                break
            raise
        entries[entry["round"]] = entry
    return Run(path, config, [entries[number] for number in sorted(entries)])


def group_runs(runs: Iterable[Run]) -> dict[str, list[Group]]:
    """Return the groups of each task, all in the order in which they first appear.

    Runs of one label whose options differ are different groups; their labels say in what.
    """
    tasks: dict[str, dict[str, list[list[Run]]]] = {}
    for run in runs:
        found = tasks.setdefault(run.task, {}).setdefault(run.label, [])
        for members in found:
            if members[0].options == run.options:
                members.append(run)
                break
        else:
            found.append([run])
    return {
        task: [
            Group(label + suffix, members)
            for label, found in labels.items()
            for suffix, members in zip(_differences(found), found, strict=True)
        ]
        for task, labels in tasks.items()
    }


def _differences(groups: Sequence[Sequence[Run]]) -> list[str]:
    """Return for each group what is to be added to a label that all of them have."""
    options = [members[0].options for members in groups]
    keys = {
        key: None
        for one in options
        for key in one
        if any(other.get(key) != one[key] for other in options)
    }
    parts = [", ".join(f"{key}={one[key]}" for key in keys if key in one) for one in options]
    return [f" ({part})" if part else "" for part in parts]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RunFolderError(f"{path}: found {error}, expected the file of a run") from error
