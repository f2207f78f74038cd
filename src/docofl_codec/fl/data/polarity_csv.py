"""Reviews as CSV: ``label,title,text`` and perhaps more; label 1 is negative, 2 positive."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import numpy.typing as npt

from docofl_codec.fl.data.files import DataFormatError, check_num_samples, read_bytes

__all__ = ["read_polarity_csv"]


def read_polarity_csv(path: Path) -> tuple[list[str], npt.NDArray[np.uint8]]:
    """Read the reviews, title and text joined, and their labels, 0 negative and 1 positive.

    Raises
    ------
    DataFormatError
        Where a row is not of that form, or there is none.
    """
    try:
        content = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataFormatError(f"{path}: found {error}, expected CSV in UTF-8") from error
    texts: list[str] = []
    labels = bytearray()
    reader = csv.reader(io.StringIO(content, newline=""), strict=True)
    line = 1
    try:
        for row in reader:
            if len(row) < 3 or row[0] not in ("1", "2"):
                raise DataFormatError(
                    f"{path}, line {line}: found {','.join(row)[:40]!r}, "
                    "expected label 1 or 2, title, text"
                )
            labels.append(row[0] == "2")
            texts.append(f"{row[1]} {row[2]}" if row[1] else row[2])
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataFormatError(
            f"{path}, line {line}: found a row with {error}, expected CSV"
        ) from error
    check_num_samples(path, len(texts))
    return texts, np.frombuffer(bytes(labels), np.uint8)
