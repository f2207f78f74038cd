"""The idx format of MNIST and its relatives: big-endian sizes, then values."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from docofl_codec.fl.data.files import DataFormatError, check_num_samples, read_bytes

__all__ = ["read_idx"]

DTYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: Path, *, num_dims: int) -> npt.NDArray[Any]:
    """Read an array from an idx file, plain or compressed.

    Parameters
    ----------
    path : Path
        Of the file.
    num_dims : int
        The expected number of dimensions: 3 for images, 1 for labels.

    Raises
    ------
    DataFormatError
        Where the file is not such an array, or one without values.
    """
    content = read_bytes(path)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in DTYPES:
        found = content[:4].hex() or "nothing"
        raise DataFormatError(f"{path}: found {found}, expected the magic of idx")
    if content[3] != num_dims:
        raise DataFormatError(f"{path}: found {content[3]} dimensions, expected {num_dims}")
    start = 4 + 4 * num_dims
    if len(content) < start:
        raise DataFormatError(f"{path}: found {len(content)} bytes, expected a header of {start}")
    shape = [int(size) for size in np.frombuffer(content, ">u4", num_dims, offset=4)]
    dtype = np.dtype(DTYPES[content[2]])
    expected = start + math.prod(shape) * dtype.itemsize
    if len(content) != expected:
        raise DataFormatError(
            f"{path}: found {len(content)} bytes, expected {expected} for shape {tuple(shape)}"
        )
    check_num_samples(path, math.prod(shape))
    values = np.frombuffer(content, dtype, offset=start).reshape(shape)
    return values.astype(dtype.newbyteorder("="), copy=False)
