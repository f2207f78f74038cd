"""The python version of CIFAR: a dictionary with the keys data and labels (or fine_labels)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from docofl_codec.fl.data.cifar_binary import IMAGE, PIXELS
from docofl_codec.fl.data.files import DataFormatError, check_num_samples, read_bytes
from docofl_codec.fl.data.safe_pickle import read_plain_values

__all__ = ["read_cifar_python"]

Bytes = npt.NDArray[np.uint8]


def read_cifar_python(path: Path, *, labels: str) -> tuple[Bytes, Bytes]:
    """Read the images, n x 3 x 32 x 32, and the labels of one batch.

    Parameters
    ----------
    path : Path
        Of a batch file, plain or compressed.
    labels : str
        The key of the labels: "labels" for CIFAR-10, "fine_labels" for CIFAR-100.

    Raises
    ------
    DataFormatError
        Where the file holds anything else, or no images.
    """
    try:
        batch = read_plain_values(read_bytes(path))
    except DataFormatError as error:
        raise DataFormatError(f"{path}: {error}") from error
    if not isinstance(batch, dict):
        raise DataFormatError(f"{path}: found {type(batch).__name__}, expected a dictionary")
    fields = {key.decode("latin-1") if isinstance(key, bytes) else key: batch[key] for key in batch}
    images, numbers = fields.get("data"), fields.get(labels)
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8:
        raise DataFormatError(f"{path}: found no uint8 array 'data', expected one")
    if images.ndim != 2 or images.shape[1] != PIXELS:
        raise DataFormatError(f"{path}: found data of {images.shape}, expected (n, {PIXELS})")
    if not isinstance(numbers, list) or len(numbers) != len(images):
        raise DataFormatError(f"{path}: found no list '{labels}' of {len(images)}, expected one")
    if not all(isinstance(number, int) and 0 <= number < 256 for number in numbers):
        raise DataFormatError(f"{path}: found a label that is no byte, expected 0 to 255")
    check_num_samples(path, len(images))
    return images.reshape(-1, *IMAGE), np.array(numbers, np.uint8)
