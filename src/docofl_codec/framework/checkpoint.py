"""A run in one file: everything that the next round depends on.

Layout, little-endian: the magic ``DOCOFLCK``, a version (4 bytes), the size of the metadata (8
bytes), the metadata as JSON, the blobs that it lists one after the other, and the SHA-256 of all
that precedes. In the metadata, ``state`` is a tree in which ``{"$bytes": i}`` stands for blob i and
``{"$floats": i}`` for blob i as a float32 vector; ``sizes`` are the blobs' sizes in bytes;
``config`` are the options of the run. docs/design/framework.md lists the fields. No pickle.

A file is replaced in two renames, of which the first keeps the previous one as
``<name>.previous``: whenever a process dies, one of the two is whole. A file that turns out to be
damaged is moved to ``<name>.damaged``, so that it never becomes the previous one.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from docofl_codec._files import sync_folder, write_beside
from docofl_codec.framework.errors import CheckpointError

__all__ = ["Resumable", "load_checkpoint", "previous_path", "save_checkpoint"]

MAGIC = b"DOCOFLCK"
VERSION = 2
_DIGEST_BYTES = hashlib.sha256().digest_size
_HEADER = struct.Struct("<8sIQ")


class Resumable(Protocol):
    """What can be saved: a :class:`Loop`, or a :class:`Server` on an engine of its own."""

    def config(self) -> Mapping[str, Any]:
        """Return the options that must not change between saving and resuming."""
        ...

    def state(self) -> dict[str, Any]:
        """Return everything else, as a tree."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` returned."""
        ...


def previous_path(path: Path | str) -> Path:
    """Return where the checkpoint before the last is kept."""
    path = Path(path)
    return path.with_name(path.name + ".previous")


def save_checkpoint(path: Path | str, loop: Resumable) -> None:
    """Write the state between two rounds, atomically.

    Parameters
    ----------
    path : path-like
        Of the file. One that is there becomes the previous one.
    loop : Loop or Server
        Between two rounds.

    Raises
    ------
    ProtocolError
        Inside a round.
    """
    blobs: list[bytes] = []
    state = _pack(loop.state(), blobs)
    metadata = {
        "config": loop.config(),
        "state": state,
        "sizes": [len(blob) for blob in blobs],
    }
    text = json.dumps(metadata).encode()
    parts = [_HEADER.pack(MAGIC, VERSION, len(text)), text, *blobs]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    _replace(Path(path), [*parts, digest.digest()])


def load_checkpoint(path: Path | str, loop: Resumable) -> Path:
    """Bring a new loop to the state of a checkpoint.

    A damaged or missing file is passed over for the previous one, and moved out of its way.

    Parameters
    ----------
    path : path-like
        As given to :func:`save_checkpoint`.
    loop : Loop or Server
        Made with the options of the run that was saved.

    Returns
    -------
    Path
        The file that was used.

    Raises
    ------
    CheckpointError
        Where neither file is whole, or the run had other options. The loop is then as it was.
    """
    complaints = []
    damaged = None
    for candidate in (Path(path), previous_path(path)):
        try:
            metadata, blobs = _read(candidate)
        except (OSError, CheckpointError) as error:
            complaints.append(str(error))
            if isinstance(error, CheckpointError):
                damaged = damaged or candidate
            continue
        _apply(metadata, blobs, loop, candidate)
        if damaged is not None:
            damaged.replace(damaged.with_name(damaged.name + ".damaged"))
        return candidate
    raise CheckpointError("; ".join(complaints))


def _pack(value: Any, blobs: list[bytes]) -> Any:
    """Return the value as JSON has it, with bytes and vectors moved to the blobs."""
    if isinstance(value, np.ndarray):
        blobs.append(value.astype("<f4", copy=False).tobytes())
        return {"$floats": len(blobs) - 1}
    if isinstance(value, bytes):
        blobs.append(value)
        return {"$bytes": len(blobs) - 1}
    if isinstance(value, dict):
        return {key: _pack(item, blobs) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_pack(item, blobs) for item in value]
    return value


def _unpack(value: Any, blobs: list[bytes]) -> Any:
    if isinstance(value, list):
        return [_unpack(item, blobs) for item in value]
    if not isinstance(value, dict):
        return value
    if "$floats" in value:
        return np.frombuffer(blobs[value["$floats"]], dtype="<f4").astype(np.float32)
    if "$bytes" in value:
        return blobs[value["$bytes"]]
    return {key: _unpack(item, blobs) for key, item in value.items()}


def _replace(path: Path, parts: list[bytes]) -> None:
    new = write_beside(path, parts)
    if path.exists():
        path.replace(previous_path(path))
    new.replace(path)
    sync_folder(path.parent)


def _read(path: Path) -> tuple[dict[str, Any], list[bytes]]:
    data = path.read_bytes()
    if len(data) < _HEADER.size + _DIGEST_BYTES:
        raise CheckpointError(f"{path}: found {len(data)} bytes, expected a checkpoint")
    magic, version, text_size = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise CheckpointError(f"{path}: found {magic!r}, expected a checkpoint")
    if version != VERSION:
        raise CheckpointError(f"{path}: found version {version}, expected {VERSION}")
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != digest:
        raise CheckpointError(f"{path}: damaged, its checksum is not that of its bytes")
    start = _HEADER.size + text_size
    try:
        metadata: dict[str, Any] = json.loads(body[_HEADER.size : start])
        sizes = [int(size) for size in metadata["sizes"]]
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
        raise CheckpointError(f"{path}: metadata: {error!r}") from None
    if min(sizes, default=0) < 0 or start + sum(sizes) != len(body):
        raise CheckpointError(f"{path}: sizes: found {sum(sizes)}, expected {len(body) - start}")
    blobs = []
    for size in sizes:
        blobs.append(body[start : start + size])
        start += size
    return metadata, blobs


def _apply(metadata: dict[str, Any], blobs: list[bytes], loop: Resumable, path: Path) -> None:
    expected = json.loads(json.dumps(loop.config()))
    found = metadata.get("config")
    if not isinstance(found, dict):
        raise CheckpointError(f"{path}: config: found {found!r}, expected options")
    for name, value in expected.items():
        if found.get(name) != value:
            raise CheckpointError(f"{path}: {name}: found {found.get(name)}, expected {value}")
    before = loop.state()
    try:
        loop.restore(_unpack(metadata["state"], blobs))
    except Exception as error:  # whatever the content does, it is the file's fault
        loop.restore(before)
        raise CheckpointError(f"{path}: state: {error!r}") from None
