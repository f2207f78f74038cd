"""Files that are replaced whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["replace_file", "replacing", "write_beside"]


def replace_file(path: Path, parts: Iterable[bytes]) -> None:
    """Write a file so that, whenever the process dies, the old or the new one is there."""
    write_beside(path, parts).replace(path)
    sync_folder(path.parent)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Give a new file to write and read; in the end it takes the place of `path`, or vanishes."""
    path = Path(os.path.realpath(path))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "Is a device, pipe or socket, not a file", str(path))
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        file = new.open("xb+")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    except BaseException:  # Ctrl-C when the file was there, but not yet ours to name
        new.unlink(missing_ok=True)
        raise
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            new.chmod(stat.S_IMODE(path.stat().st_mode))
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_beside(path: Path, parts: Iterable[bytes]) -> Path:
    """Write a new file beside the one that it is to replace, down to the disk; return its path."""
    new = path.with_name(path.name + ".new")
    try:
        with new.open("wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    return new


def sync_folder(folder: Path) -> None:
    """Make renames survive a loss of power, where folders can be synced."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
