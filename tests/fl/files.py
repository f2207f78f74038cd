"""Tiny data sets, written in each of the formats that the tasks read."""

from __future__ import annotations

import csv
import gzip
import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

CODES = {"uint8": 0x08, "int32": 0x0C, "float32": 0x0D}


def random_bytes(*shape: int, seed: int = 0) -> Bytes:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def idx(values: npt.NDArray[np.generic]) -> bytes:
    header = struct.pack(">HBB", 0, CODES[values.dtype.name], values.ndim)
    sizes = struct.pack(f">{values.ndim}I", *values.shape)
    return header + sizes + values.astype(values.dtype.newbyteorder(">")).tobytes()


def write_emnist(
    folder: Path, num_train: int, num_test: int, *, prefix: str = "emnist-balanced-"
) -> tuple[Bytes, Bytes]:
    """Write both parts; return the training images as they should be read, and their labels."""
    for part, count, seed in (("train", num_train, 1), ("test", num_test, 2)):
        images = random_bytes(count, 28, 28, seed=seed)
        write_emnist_part(folder, f"{prefix}{part}", images, (np.arange(count) % 47))
    upright = random_bytes(num_train, 28, 28, seed=1).transpose(0, 2, 1)
    return upright[:, None], (np.arange(num_train) % 47).astype(np.uint8)


def write_emnist_part(
    folder: Path, name: str, images: Bytes, labels: npt.NDArray[np.generic]
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for kind, values in (("images-idx3", images), ("labels-idx1", labels.astype(np.uint8))):
        (folder / f"{name}-{kind}-ubyte.gz").write_bytes(gzip.compress(idx(values), 1))


def cifar_binary(images: Bytes, *labels: Bytes) -> bytes:
    return np.column_stack([*labels, images.reshape(len(images), -1)]).tobytes()


def cifar_python(images: Bytes, labels: Sequence[int], *, key: str = "labels") -> bytes:
    """Write a batch, opcode by opcode, as Python 2 and NumPy 1 did for the published files."""

    def text(value: str) -> bytes:
        return b"U" + bytes([len(value)]) + value.encode("latin-1")

    def number(value: int) -> bytes:
        return b"K" + bytes([value]) if value < 256 else b"M" + struct.pack("<H", value)

    data = images.reshape(len(images), -1).tobytes()
    dtype = (
        b"cnumpy\ndtype\nq\x05" + text("u1") + number(0) + number(1) + b"\x87q\x06Rq\x07"
        b"(" + number(3) + text("|") + b"NNN" + b"J\xff\xff\xff\xff" * 2 + number(0) + b"tb"
    )
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x02cnumpy\nndarray\nq\x03"
        + number(0)
        + b"\x85"
        + text("b")
        + b"\x87Rq\x04("
        + number(1)
        + number(len(images))
        + number(3072)
        + b"\x86"
        + dtype
        + b"\x89T"
        + struct.pack("<I", len(data))
        + data
        + b"tb"
    )
    numbers = b"]q\x08(" + b"".join(map(number, labels)) + b"e"
    name = text("batch_label") + text("training batch 1 of 5")
    return b"\x80\x02}q\x01(" + name + text(key) + numbers + text("data") + array + b"u."


def write_leaf(path: Path, users: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "users": list(users),
        "num_samples": [len(y) for _, y in users.values()],
        "user_data": {user: {"x": list(x), "y": list(y)} for user, (x, y) in users.items()},
    }
    path.write_text(json.dumps(content), encoding="utf-8")


def write_polarity(path: Path, rows: Sequence[Sequence[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)
