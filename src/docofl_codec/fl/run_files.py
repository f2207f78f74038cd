"""The files of a run's folder, as both the run that goes on and the report read them.

``config.json`` is an object. ``metrics.jsonl`` has one object a round, of which :data:`NUMBERS`
are numbers or null; others may be anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docofl_codec.errors import InvalidInputError

__all__ = [
    "CONFIG",
    "METRICS",
    "Metrics",
    "RunFolderError",
    "check_number",
    "known",
    "parse_object",
    "parse_round",
]

# One round, as JSON.
Metrics = dict[str, Any]

CONFIG, METRICS = "config.json", "metrics.jsonl"

NUMBERS = (
    "round",
    "seconds",
    "online_seconds",
    "asked",
    "accepted",
    "dropped",
    "missing",
    "updates",
    "initial_loss",
    "train_loss",
    "test_loss",
    "train_subset_loss",
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
    "rounds_without_finite_loss",
)
MAX_DEPTH = 50
MAX_INTEGER = 2**63 - 1


class RunFolderError(InvalidInputError):
    """A folder that holds no run, or a damaged one."""


def parse_object(path: Path, line: int, text: bytes) -> dict[str, Any]:
    """Read an object that begins in the given line of a file.

    Raises
    ------
    RunFolderError
        Where it is not one of JSON; it says in which line.
    """
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


def parse_round(path: Path, line: int, text: bytes) -> Metrics:
    """Read the metrics of a round from the given line of a file.

    Raises
    ------
    RunFolderError
        Where they are none.
    """
    found = parse_object(path, line, text)
    place = f"{path}, line {line}"
    for key in NUMBERS:
        check_number(place, key, found.get(key))
    if not isinstance(found.get("round"), int):
        raise RunFolderError(f"{place}: found no round, expected one")
    return found


def check_number(place: str, key: str, value: Any) -> None:
    """Refuse what is neither a number nor null."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        is_number = False
    if value is not None and not is_number:
        raise RunFolderError(f"{place}: {key}: found {repr(value)[:40]}, expected a number")


def known(metrics: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    """Return a metric of the rounds in which it was measured and finite."""
    return [entry[name] for entry in metrics if entry.get(name) is not None]


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
