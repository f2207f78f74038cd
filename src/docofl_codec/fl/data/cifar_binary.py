"""The binary version of CIFAR: for each image its label bytes, then 3,072 bytes of pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from docofl_codec.fl.data.files import DataFormatError, read_bytes

__all__ = ["read_cifar_binary"]

Bytes = npt.NDArray[np.uint8]

IMAGE = (3, 32, 32)
PIXELS = 3 * 32 * 32


def read_cifar_binary(path: Path, *, label_bytes: int) -> tuple[Bytes, Bytes]:
    """Read the images, n x 3 x 32 x 32, and the labels of one batch.

    Parameters
    ----------
    path : Path
        Of a .bin file, plain or compressed.
    label_bytes : int
        1 for CIFAR-10; 2 for CIFAR-100, of which the last, the fine label, is returned.

    Raises
    ------
    DataFormatError
        Where the file is no whole number of records.
    """
    content = np.frombuffer(read_bytes(path), np.uint8)
    record = label_bytes + PIXELS
    if content.size == 0 or content.size % record:
        raise DataFormatError(
            f"{path}: found {content.size} bytes, expected records of {record} bytes"
        )
    records = content.reshape(-1, record)
    images = np.ascontiguousarray(records[:, label_bytes:]).reshape(-1, *IMAGE)
    return images, records[:, label_bytes - 1].copy()
