"""Anchors on a node: compressed, in its state between messages, large ones on its disk."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import time
from pathlib import Path

from flwr.app import Array, ArrayRecord, Context

from docofl_codec._files import replace_file
from docofl_codec.integrations.flower.wire import STYPE, digest_of

__all__ = ["KEPT", "AnchorStore"]

KEPT = 2  # anchors: the newest, and the one that the server may still count on
ANCHORS = "docofl.anchors"
PATH_STYPE = "docofl.path/1"
MAX_AGE = 7 * 24 * 3600.0  # seconds since a file of another run or node was last used
NAME = re.compile(r"\d{8,}-[0-9a-f]{32}")  # in the state: number and digest
FILE = re.compile(r"(?P<owner>\d+-\d+)-[0-9a-f]{32}\.anchor(\.new)?")  # run, node and digest

logger = logging.getLogger("flwr")


class AnchorStore:
    """The latest anchors of a node.

    Parameters
    ----------
    context : Context
        Of the node and the run; its state changes.
    folder : Path, optional
        Where anchors of at least `min_bytes` go. A folder that cannot be written to is no error:
        they stay in the state.
    min_bytes : int
        See there.
    """

    def __init__(self, context: Context, folder: Path | None = None, min_bytes: int = 0) -> None:
        self._context = context
        self._folder = folder
        self._min_bytes = min_bytes

    def put(self, frame: bytes) -> None:
        """Keep an anchor as the newest one, and forget the oldest."""
        digest = digest_of(frame)
        older = [name for name in self._names() if not name.endswith(f"-{digest}")]
        number = int(older[-1].partition("-")[0]) + 1 if older else 0
        record = self._record()
        arrays = {name: record[name] for name in older[max(0, len(older) - KEPT + 1) :]}
        arrays[f"{number:08d}-{digest}"] = self._write(digest, frame)
        self._context.state[ANCHORS] = ArrayRecord(arrays)
        self._clean([name.partition("-")[2] for name in arrays])

    def get(self, digest: str) -> bytes | None:
        """Return an anchor, or None where it is lost."""
        for name in self._names():
            if name.endswith(f"-{digest}"):
                return self._read(self._record()[name], digest)
        return None

    def digests(self) -> list[str]:
        """Return the names of the anchors that are here, oldest first."""
        record = self._record()
        return [name.partition("-")[2] for name in self._names() if _is_there(record[name])]

    def _record(self) -> ArrayRecord:
        record = self._context.state.get(ANCHORS)
        return record if isinstance(record, ArrayRecord) else ArrayRecord()

    def _names(self) -> list[str]:
        return sorted(name for name in self._record() if NAME.fullmatch(name))

    def _path(self, digest: str) -> Path | None:
        if self._folder is None:
            return None
        return self._folder / f"{self._owner}-{digest}.anchor"

    @property
    def _owner(self) -> str:
        return f"{self._context.run_id}-{self._context.node_id}"

    def _write(self, digest: str, frame: bytes) -> Array:
        path = self._path(digest)
        if path is not None and len(frame) >= self._min_bytes:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                replace_file(path, [frame])
            except OSError as error:
                logger.warning("docofl: anchor stays in memory, %s", error)
            else:
                data = str(path).encode()
                return Array(dtype="uint8", shape=(len(data),), stype=PATH_STYPE, data=data)
        return Array(dtype="uint8", shape=(len(frame),), stype=STYPE, data=frame)

    def _clean(self, digests: list[str]) -> None:
        """Delete this node's files of other anchors, and what runs of last week have left behind.

        A file that somebody would still have used is fetched again.
        """
        if self._folder is None:
            return
        kept = {self._path(digest) for digest in digests}
        oldest = time.time() - MAX_AGE
        with contextlib.suppress(OSError):
            for path in self._folder.iterdir():
                name = FILE.fullmatch(path.name)
                if name is None or path in kept:
                    continue
                with contextlib.suppress(OSError):
                    if name["owner"] == self._owner or path.stat().st_mtime < oldest:
                        path.unlink()

    @staticmethod
    def _read(array: Array, digest: str) -> bytes | None:
        frame = array.data
        if array.stype == PATH_STYPE:
            try:
                path = Path(array.data.decode())
                frame = path.read_bytes()
            except (OSError, ValueError):
                return None
            with contextlib.suppress(OSError):
                os.utime(path)  # in use
        return frame if digest_of(frame) == digest else None


def _is_there(array: Array) -> bool:
    try:
        return array.stype != PATH_STYPE or Path(array.data.decode()).is_file()
    except (OSError, ValueError):
        return False
