"""Other implementations of EDEN and of the Hadamard transform, where they are to be had.

OpenFL's pipeline, by EDEN's authors, comes from PyPI. Two more are read from folders that the
environment names: ``DOCOFL_EDEN_TORCH``, the folder ``torch`` of the authors' repository
(github.com/amitport/EDEN-Distributed-Mean-Estimation), and ``DOCOFL_FFHT``, a clone of FFHT
(github.com/FALCONN-LIB/FFHT). Whatever is missing raises `PeerUnavailableError` with its name.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib
import io
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from benchmarks.cache import cache_dir

Floats = npt.NDArray[np.float32]


class PeerUnavailableError(RuntimeError):
    """A peer is not installed; the message names it."""


class EdenPeer(Protocol):
    """An implementation of EDEN at one budget."""

    name: str

    def encode(self, x: Floats) -> Any:
        """Compress a vector."""
        ...

    def decode(self, coded: Any) -> Floats:
        """Restore it."""
        ...

    def num_bytes(self, coded: Any) -> float:
        """Return what is sent, headers left out."""
        ...


class OpenFl:
    """The EDEN pipeline of OpenFL."""

    name = "OpenFL"

    def __init__(self, bits: int) -> None:
        try:
            module = importlib.import_module("openfl.pipelines.eden_pipeline")
        except ImportError as error:
            raise PeerUnavailableError(f"OpenFL: {error}") from None
        with contextlib.redirect_stdout(io.StringIO()):
            self._transformer = module.EdenTransformer(n_bits=bits)

    def encode(self, x: Floats) -> Any:
        """Compress with the core of the pipeline; its own seed takes seconds to derive."""
        return self._transformer.eden.compress(x, 7)

    def decode(self, coded: Any) -> Floats:
        """Restore a vector."""
        words, scales, dims, total = coded
        metadata: dict[int, float] = {0: 7.0, 1: float(total)}
        for k, (scale, dim) in enumerate(zip(scales, dims, strict=True)):
            metadata[2 + 2 * k] = scale
            metadata[3 + 2 * k] = float(dim)
        restored: Floats = self._transformer.eden.decompress(words, metadata)
        return restored

    def num_bytes(self, coded: Any) -> float:
        """Return the size of the words."""
        return float(np.asarray(coded[0]).size)


class AuthorsTorch:
    """The authors' torch code, which pads to a power of two and packs nothing."""

    name = "authors' torch code"

    def __init__(self, bits: float) -> None:
        folder = os.environ.get("DOCOFL_EDEN_TORCH")
        if not folder:
            raise PeerUnavailableError("authors' torch code: DOCOFL_EDEN_TORCH is not set")
        sys.path.insert(0, folder)
        try:
            # Its modules have names like "eden" and "base".
            self._pipeline = importlib.import_module("eden").eden_builder(bits=bits)
        except ImportError as error:
            raise PeerUnavailableError(f"authors' torch code: {error}") from None
        finally:
            sys.path.remove(folder)
        self._torch = importlib.import_module("torch")
        self._bits = bits

    def encode(self, x: Floats) -> Any:
        """Compress a vector."""
        return self._pipeline.forward(self._torch.from_numpy(x))

    def decode(self, coded: Any) -> Floats:
        """Restore a vector."""
        restored: Floats = self._pipeline.backward(*coded)[0].numpy()
        return restored

    def num_bytes(self, coded: Any) -> float:
        """Return what the padded indices would take at the nominal width."""
        return float(coded[0].numel()) * self._bits / 8


EDEN_PEERS: tuple[Callable[[int], EdenPeer], ...] = (AuthorsTorch, OpenFl)


class Ffht:
    """The AVX library FFHT, compiled on first use."""

    _FLAGS = ("-std=c99", "-O3", "-march=native", "-fPIC", "-shared")

    def __init__(self) -> None:
        folder = os.environ.get("DOCOFL_FFHT")
        if not folder:
            raise PeerUnavailableError("FFHT: DOCOFL_FFHT is not set")
        sources = [Path(folder) / name for name in ("fht.c", "fast_copy.c")]
        if not all(source.exists() for source in sources):
            raise PeerUnavailableError(f"FFHT: fht.c and fast_copy.c not found in {folder}")
        self._library = ctypes.CDLL(str(self._build(sources)))
        self._library.fht_float.argtypes = [ctypes.c_void_p, ctypes.c_int]

    def transform(self, x: Floats) -> None:
        """Transform a vector in place."""
        if self._library.fht_float(x.ctypes.data, int(x.size).bit_length() - 1) != 0:
            raise RuntimeError("FFHT: refused")

    def _build(self, sources: list[Path]) -> Path:
        compiler = shlex.split(os.environ.get("CC", "cc"))
        key = hashlib.sha256(repr((compiler, self._FLAGS)).encode())
        for source in sources:
            key.update(source.read_bytes())
        library = cache_dir() / f"ffht-{key.hexdigest()[:16]}.so"
        if not library.exists():
            with tempfile.TemporaryDirectory(dir=library.parent) as folder:
                built = Path(folder) / library.name
                command = [*compiler, *self._FLAGS, "-o", str(built), *map(str, sources)]
                try:
                    subprocess.run(command, capture_output=True, text=True, check=True)
                except (FileNotFoundError, subprocess.CalledProcessError) as error:
                    raise PeerUnavailableError(f"FFHT: {error}") from None
                built.replace(library)
        return library
