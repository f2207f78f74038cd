"""A run in one file: everything that the next round depends on.

Layout, little-endian: the magic ``DOCOFLCK``, a version (4 bytes), the size of the metadata (8
bytes), the metadata as JSON, the arrays and frames that it lists one after the other, and the
SHA-256 of all that precedes. No pickle. A file is replaced in two renames, of which the first keeps
the previous one as ``<name>.previous``: whenever a process dies, one of the two is whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from docofl_codec.framework.errors import CheckpointError
from docofl_codec.framework.loop import Loop
from docofl_codec.framework.vectors import Vector, as_vector

__all__ = ["load_checkpoint", "previous_path", "save_checkpoint"]

MAGIC = b"DOCOFLCK"
VERSION = 1
_DIGEST_BYTES = hashlib.sha256().digest_size
_HEADER = struct.Struct("<8sIQ")


def previous_path(path: Path | str) -> Path:
    """Return where the checkpoint before the last is kept."""
    path = Path(path)
    return path.with_name(path.name + ".previous")


def save_checkpoint(path: Path | str, loop: Loop) -> None:
    """Write the state between two rounds, atomically.

    Parameters
    ----------
    path : path-like
        Of the file. One that is there becomes the previous one.
    loop : Loop
        Not inside a round.
    """
    path = Path(path)
    server = loop.server
    blobs: list[bytes] = [server.weights.tobytes()]
    optimizer = server.optimizer.state()
    blobs += [optimizer[name].tobytes() for name in optimizer]
    blobs += [anchor.frame for anchor in server.anchors]
    metadata = {
        "config": _config(loop),
        "round": server.round,
        "next_anchor_id": server.anchors.next_id,
        "anchors": [[anchor.id, anchor.round] for anchor in server.anchors],
        "optimizer": list(optimizer),
        "holding": [[*key, anchor_id] for key, anchor_id in sorted(loop.holding.items())],
        "ledger": server.ledger.state(),
        "sizes": [len(blob) for blob in blobs],
    }
    text = json.dumps(metadata).encode()
    parts = [_HEADER.pack(MAGIC, VERSION, len(text)), text, *blobs]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    _replace(path, [*parts, digest.digest()])


def load_checkpoint(path: Path | str, loop: Loop) -> Path:
    """Bring a new loop to the state of a checkpoint.

    A damaged or missing file is passed over for the previous one.

    Parameters
    ----------
    path : path-like
        As given to :func:`save_checkpoint`.
    loop : Loop
        Made with the options of the run that was saved.

    Returns
    -------
    Path
        The file that was used.

    Raises
    ------
    CheckpointError
        Where neither file is whole, or the run had other options.
    """
    complaints = []
    for candidate in (Path(path), previous_path(path)):
        try:
            metadata, blobs = _read(candidate)
        except (OSError, CheckpointError) as error:
            complaints.append(str(error))
            continue
        _apply(metadata, blobs, loop, candidate)
        return candidate
    raise CheckpointError("; ".join(complaints))


def _config(loop: Loop) -> dict[str, Any]:
    """Return what must not change between saving and resuming."""
    server = loop.server
    return {
        "size": server.weights.size,
        "seed": server.seed,
        "anchor_codec": server.anchor_codec.get_config(),
        "correction_codec": server.correction_codec.get_config(),
        "update_codec": server.update_codec.get_config(),
        "optimizer": repr(server.optimizer),
        "participation": repr(server.participation),
        "deploy_every": server.deploy_every,
        "capacity": server.anchors.capacity,
        "shared_corrections": server.shared_corrections,
        "weighted": server.weighted,
        "quorum": server.quorum,
        "max_update_norm": server.max_update_norm,
    }


def _replace(path: Path, parts: list[bytes]) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".new")
    try:
        with os.fdopen(handle, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            path.replace(previous_path(path))
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


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
    metadata: dict[str, Any] = json.loads(body[_HEADER.size : _HEADER.size + text_size])
    blobs = []
    start = _HEADER.size + text_size
    for size in metadata["sizes"]:
        blobs.append(body[start : start + size])
        start += size
    return metadata, blobs


def _apply(metadata: dict[str, Any], blobs: list[bytes], loop: Loop, path: Path) -> None:
    found, expected = metadata["config"], json.loads(json.dumps(_config(loop)))
    for name, value in expected.items():
        if found.get(name) != value:
            raise CheckpointError(f"{path}: {name}: found {found.get(name)}, expected {value}")
    server = loop.server
    rest = iter(blobs)
    server.weights[:] = _vector(next(rest))
    server.optimizer.restore({name: _vector(next(rest)) for name in metadata["optimizer"]})
    server.anchors.clear()
    for anchor_id, round_number in metadata["anchors"]:
        frame = next(rest)
        vector = as_vector(server.anchor_codec.decode(frame), what="anchor")
        server.anchors.restore(anchor_id, round_number, frame, vector)
    server.anchors.next_id = metadata["next_anchor_id"]
    server.ledger.restore(metadata["ledger"])
    server.start_round(metadata["round"])
    loop.holding = {(client, t): anchor_id for client, t, anchor_id in metadata["holding"]}


def _vector(data: bytes) -> Vector:
    return np.frombuffer(data, dtype="<f4").astype(np.float32)
