"""Where the files of a data set are, and what is in them."""

from __future__ import annotations

import gzip
import lzma
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from docofl_codec.errors import InvalidInputError

__all__ = [
    "DataFormatError",
    "DataSet",
    "MissingDataError",
    "check_num_samples",
    "data_root",
    "read_bytes",
    "shorten",
]

VARIABLE = "DOCOFL_DATA"
SUFFIXES = ("", ".gz", ".xz")
MAX_SHOWN = 80
# The largest published set that a task reads takes 1.6 GB unpacked.
MAX_UNPACKED_BYTES = 1 << 32
UNPACKED_PIECE = 1 << 20


class MissingDataError(FileNotFoundError):
    """A file that a task needs and that is in none of the folders it is looked for."""


class DataFormatError(InvalidInputError):
    """A file of a data set that does not hold what its format says."""


def data_root(data: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the folder of all data sets: `data`, or else the one that DOCOFL_DATA names.

    A leading ~ is the home folder.
    """
    if data is None:
        data = os.environ.get(VARIABLE) or None
    if data is None:
        return None
    try:
        return Path(data).expanduser()
    except RuntimeError:
        raise InvalidInputError(
            f"data: found {str(data)!r}, expected a folder; there is no such user"
        ) from None


def check_num_samples(path: Path, num_samples: int) -> None:
    """Refuse a file that holds no samples."""
    if num_samples == 0:
        raise DataFormatError(f"{path}: found no samples, expected at least one")


def shorten(text: str) -> str:
    """Return the beginning of a text, enough for a message.

    Examples
    --------
    >>> len(shorten("a" * 1000))
    80
    """
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"


def read_bytes(path: Path) -> bytes:
    """Return the content of a file; .gz and .xz are unpacked.

    Raises
    ------
    DataFormatError
        Where a compressed file is damaged, or unpacks to more than 4 GiB.
    """
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as file:
                return _read_at_most(MAX_UNPACKED_BYTES, file, path)
        if path.suffix == ".xz":
            with lzma.open(path) as file:
                return _read_at_most(MAX_UNPACKED_BYTES, file, path)
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise DataFormatError(
            f"{path}: found {error}, expected a whole {path.suffix[1:]} file"
        ) from error
    return path.read_bytes()


def _read_at_most(num_bytes: int, file: gzip.GzipFile | lzma.LZMAFile, path: Path) -> bytes:
    content = bytearray()
    while piece := file.read(UNPACKED_PIECE):
        content += piece
        if len(content) > num_bytes:
            raise DataFormatError(f"{path}: found over {num_bytes} bytes unpacked, expected less")
    return bytes(content)


@dataclass(frozen=True)
class DataSet:
    """A published data set and the folders, below the root, that people keep it in.

    Parameters
    ----------
    name : str
        As its authors call it.
    folders : sequence of str
        In the order they are looked into. The root itself comes last.
    published : str
        Where the set can be had.
    """

    name: str
    folders: Sequence[str]
    published: str

    def find(self, root: Path | None, *patterns: str) -> Path:
        """Return the first file that matches a pattern, plain or compressed.

        Parameters
        ----------
        root : Path, optional
            Of all data sets.
        *patterns : str
            Globs without .gz and .xz, the preferred one first. Within a pattern the first name
            in alphabetical order counts.

        Raises
        ------
        MissingDataError
            Where there is none.
        """
        found = self.find_all(root, *patterns)
        if not found:
            raise self.missing(root, *patterns)
        return found[0]

    def find_all(self, root: Path | None, *patterns: str) -> list[Path]:
        """Return all files of the first folder and pattern that match, by name.

        A file that is there plain and compressed counts once, plain.
        """
        for folder in self._places(root):
            for pattern in patterns:
                found = {
                    str(path).removesuffix(suffix): path
                    for suffix in reversed(SUFFIXES)
                    for path in folder.glob(pattern + suffix)
                    if path.is_file()
                }
                if found:
                    return [found[name] for name in sorted(found)]
        return []

    def missing(self, root: Path | None, *patterns: str) -> MissingDataError:
        """Make the error that says what is missing, where it was looked for and who has it."""
        places = ", ".join(map(str, self._places(root))) or (
            f"no folder: neither the data option nor {VARIABLE} names one"
        )
        names = " or ".join(patterns)
        return MissingDataError(
            f"{self.name}: found no {names} (.gz, .xz) in {places}; the set is published at "
            f"{self.published}"
        )

    def _places(self, root: Path | None) -> list[Path]:
        return [] if root is None else [*(root / folder for folder in self.folders), root]
