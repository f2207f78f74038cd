"""The folder of a run: its configuration and what it measured in each round.

``config.json`` is an object; of its keys ``task``, ``label``, ``codec``, ``seed`` and
``num_weights`` are used, where they are. ``metrics.jsonl`` has one object a round.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Group", "Run", "RunFolderError", "Series", "group_runs", "read_run"]

Series = npt.NDArray[np.float64]

# A loss beyond this, or one that is not finite, is called divergence.
DIVERGED_LOSS = 1e6


class RunFolderError(ValueError):
    """A folder that holds no run."""


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
        """What the run is called in legends: runs of one task and label differ by seed."""
        for key in ("label", "codec"):
            if self.config.get(key):
                return str(self.config[key])
        return self.name

    @property
    def seed(self) -> int | None:
        """The run's seed."""
        return self.config.get("seed")

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
        return self._float32("asked")

    @cached_property
    def float32_uplink_bytes(self) -> float | None:
        """What the uplink would cost as float32: an update of every client that sent one."""
        return self._float32("accepted", "dropped")

    def _float32(self, *kinds: str) -> float | None:
        num_weights = self.config.get("num_weights")
        if num_weights is None:
            return None
        clients = sum(float(np.nansum(self.series(kind))) for kind in kinds)
        return 4.0 * float(num_weights) * clients

    @cached_property
    def accuracies(self) -> Series:
        """Test accuracies of the evaluated rounds, from 0 to 1."""
        values = self.series("test_accuracy")
        return values[~np.isnan(values)]

    @property
    def diverged(self) -> bool:
        """Tell whether the run says so or a loss left all bounds."""
        losses = [
            entry[key]
            for entry in self.metrics
            for key in ("train_loss", "test_loss")
            if entry.get(key) is not None
        ]
        return any(entry.get("diverged") for entry in self.metrics) or not all(
            abs(loss) < DIVERGED_LOSS for loss in losses
        )


@dataclass(frozen=True)
class Group:
    """Runs of one task and label, which differ by seed."""

    label: str
    runs: Sequence[Run]


def read_run(path: Path) -> Run:
    """Read the folder of a run.

    Rounds that were done again after a resume count once, as done last. A last line that a
    stopped run left half written is left out.

    Raises
    ------
    RunFolderError
        Where a file is missing or is not as above.
    """
    config_path, metrics_path = path / "config.json", path / "metrics.jsonl"
    config = _parse(config_path, 1, _read(config_path))
    lines = _read(metrics_path).split("\n")
    entries: dict[int, Mapping[str, Any]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = _parse(metrics_path, number, line)
        except RunFolderError:
            if number == len(lines):
                break
            raise
        if not isinstance(entry.get("round"), int):
            raise RunFolderError(f"{metrics_path}, line {number}: found no round, expected one")
        entries[entry["round"]] = entry
    return Run(path, config, [entries[number] for number in sorted(entries)])


def group_runs(runs: Iterable[Run]) -> dict[str, list[Group]]:
    """Return the groups of each task, all in the order in which they first appear."""
    tasks: dict[str, dict[str, list[Run]]] = {}
    for run in runs:
        tasks.setdefault(run.task, {}).setdefault(run.label, []).append(run)
    return {
        task: [Group(label, members) for label, members in labels.items()]
        for task, labels in tasks.items()
    }


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RunFolderError(f"{path}: found {error}, expected the file of a run") from error


def _parse(path: Path, line: int, text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise RunFolderError(f"{path}, line {line}: found {error}, expected JSON") from error
    if not isinstance(value, dict):
        raise RunFolderError(f"{path}, line {line}: found {text[:40]!r}, expected an object")
    return value
