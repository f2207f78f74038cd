"""One process a folder: a second one that wrote to it would spoil the run of the first."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from docofl_codec.errors import InvalidInputError

__all__ = ["lock_folder", "unlock_folder"]

LOCK = "run.lock"

# What this process has locked, by folder; the system unlocks what a process that dies has held.
_HELD: dict[Path, int] = {}


def lock_folder(folder: Path) -> bool:
    """Keep other processes from a folder; tell whether this one had not done so before.

    Raises
    ------
    InvalidInputError
        Where another process has locked it.
    """
    folder = folder.resolve()
    if folder in _HELD:
        return False
    path = folder / LOCK
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            raise InvalidInputError(
                f"{folder}: found in use by another process, expected a run that nobody does"
            ) from None
        if _is_at(file, path):
            _HELD[folder] = file
            return True
        os.close(file)  # its owner has removed it meanwhile


def unlock_folder(folder: Path) -> None:
    """Let others have a folder that was locked."""
    file = _HELD.pop(folder.resolve(), None)
    if file is not None:
        (folder / LOCK).unlink(missing_ok=True)
        os.close(file)


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
