"""Huff0, zstd's Huffman coder, as a yardstick for the speed of entropy coding.

The shim ``huff0.c`` is compiled on first use and linked with zstd's *static* library (Debian:
``libzstd-dev``), because the shared library does not export Huff0. Where compiler or library are
missing, `load` raises `Huff0UnavailableError` and the benchmarks skip Huff0 by name.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.cache import cache_dir

Bytes = npt.NDArray[np.uint8]

_SOURCE = Path(__file__).with_name("huff0.c")
_FLAGS = ("-std=c11", "-O3", "-fPIC", "-shared")
_ERROR = ctypes.c_size_t(-1).value


class Huff0UnavailableError(RuntimeError):
    """Huff0 cannot be built here; the message says what is missing."""


class Huff0:
    """Four-stream Huff0 in chunks of 128 KiB, single-threaded.

    Compression counts, builds and writes a table, and codes each chunk; decompression reads the
    table (two symbols a lookup, "X2") and decodes. Both write into memory that was touched before,
    so that the first use of fresh pages is not held against Huff0.

    Parameters
    ----------
    library
        Path of the built shim.
    """

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        for name, arguments in (
            ("huff0_bound", "n"),
            ("huff0_compress", "pnpn"),
            ("huff0_decompress", "pnpn"),
        ):
            function = getattr(self._library, name)
            function.restype = ctypes.c_size_t
            function.argtypes = [
                ctypes.c_size_t if kind == "n" else ctypes.c_void_p for kind in arguments
            ]
        self._library.huff0_zstd_version.restype = ctypes.c_uint
        self._scratch: Bytes = np.zeros(0, dtype=np.uint8)

    @property
    def zstd_version(self) -> str:
        """Version of the zstd library that the shim was linked with."""
        number = int(self._library.huff0_zstd_version())
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    def compress(self, symbols: Bytes) -> Bytes:
        """Compress contiguous bytes.

        Parameters
        ----------
        symbols
            One byte a symbol.

        Returns
        -------
        ndarray
            The coded bytes: a view of memory that the next call overwrites.
        """
        capacity = self._library.huff0_bound(symbols.size)
        if self._scratch.size < capacity:
            self._scratch = np.full(capacity, 1, dtype=np.uint8)
        written = self._library.huff0_compress(
            self._scratch.ctypes.data, self._scratch.size, symbols.ctypes.data, symbols.size
        )
        if written == _ERROR:
            raise RuntimeError("Huff0: compression failed")
        return self._scratch[:written]

    def decompress(self, coded: Bytes, out: Bytes) -> None:
        """Restore the symbols into ``out``, whose size must be that of the original."""
        size = self._library.huff0_decompress(
            out.ctypes.data, out.size, coded.ctypes.data, coded.size
        )
        if size != out.size:
            raise RuntimeError("Huff0: the coded bytes do not decode to the size of `out`")


def load() -> Huff0:
    """Build the shim if need be, load it and check that it round-trips.

    Returns
    -------
    Huff0
        The yardstick.

    Raises
    ------
    Huff0UnavailableError
        When the compiler or zstd's static library is missing, or the shim does not work.
    """
    huff0 = Huff0(_build())
    symbols = (np.arange(300_000) ** 2 % 23).astype(np.uint8)
    restored = np.zeros_like(symbols)
    huff0.decompress(huff0.compress(symbols).copy(), restored)
    if not np.array_equal(symbols, restored):
        raise Huff0UnavailableError("Huff0: the linked zstd does not round-trip")
    return huff0


def _build() -> Path:
    compiler = shlex.split(os.environ.get("CC", "cc"))
    archive = _find_archive(compiler)
    key = hashlib.sha256()
    for part in (_SOURCE.read_bytes(), archive.read_bytes(), repr((compiler, _FLAGS)).encode()):
        key.update(part)
    library = cache_dir() / f"huff0-{key.hexdigest()[:16]}.so"
    if not library.exists():
        _compile(compiler, archive, library)
    return library


def _find_archive(compiler: list[str]) -> Path:
    # A compiler that does not find the file prints the bare name back.
    answer = _run([*compiler, "-print-file-name=libzstd.a"]).strip()
    archive = Path(answer)
    if not archive.is_absolute() or not archive.exists():
        raise Huff0UnavailableError("Huff0: libzstd.a not found (Debian: libzstd-dev)")
    return archive


def _compile(compiler: list[str], archive: Path, library: Path) -> None:
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        built = Path(folder) / library.name
        _run([*compiler, *_FLAGS, "-o", str(built), str(_SOURCE), str(archive)])
        built.replace(library)


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise Huff0UnavailableError(f"Huff0: no compiler {command[0]!r}") from None
    except subprocess.CalledProcessError as error:
        raise Huff0UnavailableError(f"Huff0: {error.stderr.strip()}") from None
    return done.stdout
