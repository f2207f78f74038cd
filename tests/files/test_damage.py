"""Rows 1 and 2 for files: cut off or changed anywhere, they give tensors or a `CodecError`."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from docofl_codec import CodecError, CorruptFrameError, files

FORMATS = ["safetensors", "npz", "npy", "pt", "docofl"]


@pytest.fixture(params=FORMATS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A small file of every format in turn."""
    rng = np.random.default_rng(0)
    model: dict[str, Any] = {
        "w": rng.normal(size=(3, 5)).astype(np.float32),
        "half": rng.normal(size=7).astype(np.float16),
        "flags": np.array([True, False]),
        "steps": np.array(3),
    }
    if request.param == "pt":
        torch = pytest.importorskip("torch")
        model = {name: torch.from_numpy(x) for name, x in model.items()}
    elif request.param == "safetensors":
        model["brain"] = rng.normal(size=5).astype(ml_dtypes.bfloat16)
    path = tmp_path / f"m.{request.param}"
    if request.param == "npy":
        np.save(path, model["w"])
    else:
        files.save(path, model)
    return path


def load_or_refuse(path: Path) -> bool:
    """Load; return False for a `CodecError` and check whatever else comes back."""
    try:
        tensors = files.load(path)
    except CodecError:
        return False
    assert sum(np.asarray(x).nbytes for x in tensors.values()) <= 1 << 20
    return True


def places(whole: bytes) -> range:
    """Return all places of a small file, and at most 700 of a larger one."""
    return range(0, len(whole), -(-len(whole) // 700))


def test_prefixes(path: Path) -> None:
    whole = path.read_bytes()
    assert load_or_refuse(path)
    for length in places(whole):
        path.write_bytes(whole[:length])
        assert not load_or_refuse(path), length


def test_changed_bytes(path: Path) -> None:
    """Formats without a checksum give other values; none raises anything else."""
    whole = path.read_bytes()
    rng = np.random.default_rng(1)
    outcomes = []
    for place in places(whole):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        outcomes.append(load_or_refuse(path))
    assert not all(outcomes)
    if path.suffix == ".docofl":
        assert not any(outcomes)


def test_files_that_are_not_there_are_no_damaged_ones(tmp_path: Path) -> None:
    for suffix in FORMATS:
        with pytest.raises(FileNotFoundError):
            files.load(tmp_path / f"none.{suffix}")


def test_a_zip_that_would_inflate_to_a_terabyte(tmp_path: Path) -> None:
    """The directory's claim is not believed."""
    path = tmp_path / "x.npz"
    np.savez_compressed(path, x=np.zeros(1000))
    whole = path.read_bytes()
    place = whole.rindex(b"PK\x01\x02") + 24  # the size in the directory
    assert int.from_bytes(whole[place : place + 4], "little") == 8128
    path.write_bytes(whole[:place] + b"\xff\xff\xff\xf0" + whole[place + 4 :])
    with pytest.raises(CorruptFrameError, match="expected at most"):
        files.load(path)


def test_other_methods_of_compression(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(100))
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("x.npy", buffer.getvalue())
    with pytest.raises(CorruptFrameError, match="stored or deflated"):
        files.load(tmp_path / "x.npz")
