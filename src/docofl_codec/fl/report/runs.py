"""The folder of a run: its configuration and what it measured in each round.

``config.json`` is an object; of its keys ``task``, ``label``, ``codec``, ``seed`` and
``num_weights`` are used, where they are. ``metrics.jsonl`` has one object a round; of its keys
:data:`METRICS` are used, which are numbers or null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from docofl_codec.fl.divergence import has_diverged

__all__ = ["Group", "Run", "RunFolderError", "Series", "group_runs", "read_run"]

Series = npt.NDArray[np.float64]

CONFIG = "config.json"
# The final accuracy is the mean of so many evaluations.
LAST_EVALUATIONS = 4

METRICS = (
    "round",
    "seconds",
    "online_seconds",
    "asked",
    "accepted",
    "dropped",
    "train_loss",
    "test_loss",
    "train_accuracy",
    "test_accuracy",
    "estimation_error",
    "rho",
    "anchor_bytes",
    "late_anchor_bytes",
    "correction_bytes",
    "update_bytes",
    "anchor_bits",
    "correction_bits",
)
# Options in which runs of one group may differ: they change neither the method nor its measures.
UNGROUPED = ("seed", "data", "label", "threads", "checkpoint_every")
MAX_DEPTH = 50
MAX_INTEGER = 2**63 - 1


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
        return self._float32(self._updates_sent())

    def _float32(self, clients: float) -> float | None:
        num_weights = self.config.get("num_weights")
        return None if num_weights is None else 4.0 * float(num_weights) * clients

    def _updates_sent(self) -> float:
        """Return the number of updates that were sent, refused ones among them.

        Clients whose training failed count as dropped and have sent nothing, so that the refused
        ones are told from them by the bytes: an update takes what one does in the round with the
        fewest bytes for each accepted update.
        """
        accepted, dropped, sizes = (
            np.nan_to_num(self.series(key)) for key in ("accepted", "dropped", "update_bytes")
        )
        used = (accepted > 0) & (sizes > 0)
        if not used.any():
            return float(dropped[sizes > 0].sum())
        sent = np.rint(sizes / (sizes[used] / accepted[used]).min())
        return float(np.clip(sent, accepted, accepted + dropped).sum())

    @cached_property
    def accuracies(self) -> Series:
        """Test accuracies of the evaluated rounds, from 0 to 1."""
        values = self.series("test_accuracy")
        return values[~np.isnan(values)]

    @property
    def final_accuracy(self) -> float:
        """The mean of the last four evaluations; NaN where there are none."""
        last = self.accuracies[-LAST_EVALUATIONS:]
        return float(last.mean()) if last.size else math.nan

    @property
    def diverged(self) -> bool:
        """Tell whether the run diverged."""
        return has_diverged(self.metrics)


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
        Where a file is missing or is not as above.
    """
    config_path, metrics_path = path / CONFIG, path / "metrics.jsonl"
    config = _parse(config_path, 1, _read(config_path))
    for key in ("seed", "num_weights"):
        _check_number(str(config_path), key, config.get(key))
    lines = _read(metrics_path).split(b"\n")
    entries: dict[int, Mapping[str, Any]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = _parse(metrics_path, number, line)
        except RunFolderError as error:
            if number == len(lines) and isinstance(error.__cause__, ValueError):
                break
            raise
        place = f"{metrics_path}, line {number}"
        for key in METRICS:
            _check_number(place, key, entry.get(key))
        if not isinstance(entry.get("round"), int):
            raise RunFolderError(f"{place}: found no round, expected one")
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


def _parse(path: Path, line: int, text: bytes) -> Mapping[str, Any]:
    """Read an object that begins in the given line of a file."""
    place = f"{path}, line {line}"
    try:
        value = json.loads(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        line += text.count(b"\n", 0, error.start)
        raise RunFolderError(
            f"{path}, line {line}: found byte 0x{text[error.start]:02x}, expected UTF-8"
        ) from error
    except json.JSONDecodeError as error:
        raise RunFolderError(
            f"{path}, line {line + error.lineno - 1}: found {error.msg!r} at column {error.colno}, "
            "expected JSON"
        ) from error
    except ValueError as error:
        raise RunFolderError(f"{place}: found {error}, expected JSON") from error
    except RecursionError:
        raise _too_deep(place) from None
    if not isinstance(value, dict):
        start = text[:40].decode("utf-8", "replace")
        raise RunFolderError(f"{place}: found {start!r}, expected an object")
    if _is_deep(value):
        raise _too_deep(place)
    return value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
    return bool(level)


def _too_deep(place: str) -> RunFolderError:
    return RunFolderError(f"{place}: found nested values, expected at most {MAX_DEPTH} levels")


def _check_number(place: str, key: str, value: Any) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        is_number = False
    if value is not None and not is_number:
        raise RunFolderError(f"{place}: {key}: found {repr(value)[:40]}, expected a number")
