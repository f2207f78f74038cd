"""Files of tensors: ``.docofl``, ``.safetensors``, ``.npz``, ``.npy`` and torch's ``.pt``.

Tensors are read and written one by one, so that a model needs little more memory than its largest
tensor (``.pt`` is written at once, by torch). New files take the place of old ones whole or not at
all. Nothing is unpickled: torch's files are read with ``weights_only=True``.

>>> import numpy as np, tempfile, pathlib
>>> from docofl_codec import files
>>> folder = pathlib.Path(tempfile.mkdtemp())
>>> files.save(folder / "model.npz", {"w": np.ones((300, 200), np.float32)})
>>> info = files.encode_file(folder / "model.npz", folder / "model.docofl", bits=2)
>>> info.bits_per_coordinate <= 2
True
>>> files.load(folder / "model.docofl")["w"].shape
(300, 200)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from docofl_codec._buffers import Framework, Tensor, imported_torch
from docofl_codec._files import replacing
from docofl_codec.ecuq import Coder, Quality
from docofl_codec.errors import InvalidInputError
from docofl_codec.files import sinks
from docofl_codec.files.sources import NPY_NAME, NpySource, NpzSource, SafetensorsSource
from docofl_codec.frame import inspect
from docofl_codec.state_dict.index import (
    CODED,
    FRAME,
    HEADER,
    Entry,
    Index,
    Section,
    write_index,
)
from docofl_codec.state_dict.reader import MemoryBytes, StateDictReader, choose_framework
from docofl_codec.state_dict.report import StateDictInfo, compare, describe
from docofl_codec.state_dict.rules import Rules
from docofl_codec.state_dict.source import MappingSource, TensorSource
from docofl_codec.state_dict.tensors import TensorSpec, tensor_from
from docofl_codec.state_dict.writer import Progress, write_state_dict

__all__ = [
    "SUFFIXES",
    "decode_file",
    "encode_file",
    "inspect_file",
    "load",
    "open_source",
    "save",
    "verify_file",
]

SUFFIXES = (".docofl", ".safetensors", ".npz", ".npy", ".pt", ".pth")

FRAME_MAGIC = b"\xd0\xc0\xf1"

AnyPath = str | os.PathLike[str]


class _FileBytes:
    """The bytes of an open file; it is closed with this object."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self.size = os.fstat(self._file.fileno()).st_size

    def read(self, place: int, size: int) -> bytes:
        """Read those of a place."""
        self._file.seek(place)
        return self._file.read(size)

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InvalidInputError(
            f"{path}: found the suffix {suffix!r}, expected one of {', '.join(SUFFIXES)}"
        )
    return suffix


def open_source(path: AnyPath, *, key: str | None = None) -> TensorSource:
    """Open a file of tensors; values are read when they are asked for.

    Parameters
    ----------
    path : path
        Its suffix tells the format.
    key : str, optional
        For ``.pt``: where in the checkpoint the state dict is.
    """
    path = Path(path)
    suffix = _suffix(path)
    if suffix in (".pt", ".pth"):
        from docofl_codec.files.torch_files import torch_source

        return torch_source(path, key)
    if key is not None:
        raise InvalidInputError(f"key: found {key!r}, expected it for .pt files alone")
    if suffix == ".safetensors":
        return SafetensorsSource(path)
    if suffix == ".npz":
        return NpzSource(path)
    if suffix == ".npy":
        return NpySource(path)
    return open_docofl(path)


def open_docofl(path: AnyPath, *, threads: int | None = None) -> StateDictReader:
    """Open a ``.docofl`` file: a state dict, or a frame, whose tensor is named "array"."""
    data = _FileBytes(Path(path))
    if data.read(0, len(FRAME_MAGIC)) == FRAME_MAGIC:
        blob = data.read(0, data.size)
        return StateDictReader(MemoryBytes(_wrap(blob)), threads=threads)
    return StateDictReader(data, threads=threads)


def _wrap(blob: bytes) -> bytes:
    """Return a state dict around a frame."""
    info = inspect(blob)
    entry = Entry(TensorSpec(NPY_NAME, info.dtype, info.shape), CODED, 0)
    sections = (Section(FRAME, len(blob)),)
    from_torch = info.framework == "torch"
    return HEADER + blob + write_index(Index(sections, (entry,), from_torch, False, 0.0))


def load(
    path: AnyPath, *, framework: Framework | None = None, key: str | None = None
) -> dict[str, Tensor]:
    """Read all tensors of a file.

    Parameters
    ----------
    path : path
        Its suffix tells the format.
    framework : {"numpy", "torch"}, optional
        The container of the results; by default torch's for its own files, and for ``.docofl``
        files of its tensors where torch has been imported.
    key : str, optional
        For ``.pt``: where in the checkpoint the state dict is.
    """
    source = open_source(path, key=key)
    chosen = choose_framework(framework, source.from_torch)
    tensors: dict[str, Tensor] = {}
    for spec, memory in sinks.memories(source):
        known = tensors.get(spec.alias_of) if spec.alias_of else None
        tensors[spec.name] = tensor_from(spec, _owned(memory), chosen) if known is None else known
    return tensors


def _owned(memory: Any) -> Any:
    """Return values that do not hang on a file."""
    if memory.flat.flags.writeable and memory.flat.base is None:
        return memory
    return type(memory)(memory.dtype, memory.flat.copy())


def save(path: AnyPath, tensors: Mapping[str, Tensor], *, bits: float | None = None) -> None:
    """Write tensors to a file, whole or not at all.

    Parameters
    ----------
    path : path
        Its suffix tells the format.
    tensors : mapping of str to numpy.ndarray or torch.Tensor
        A state dict.
    bits : float, optional
        The budget of a ``.docofl`` file, by default 2.
    """
    path = Path(path)
    source = MappingSource(tensors)
    if _suffix(path) == ".docofl":
        with replacing(path) as file:
            write_state_dict(source, sinks.FileSink(file), bits=2.0 if bits is None else bits)
            file.flush()
            inspect_file(file.name)  # what cannot be read replaces nothing
        return
    if bits is not None:
        raise InvalidInputError(f"bits: found {bits}, expected a .docofl file for it")
    _write_plain(path, source, None)


def encode_file(
    source: AnyPath,
    target: AnyPath,
    *,
    bits: float = 2.0,
    quality: Quality = "fast",
    coder: Coder | None = None,
    flatten: bool = False,
    rules: Rules | None = None,
    key: str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> StateDictInfo:
    """Compress a file of tensors to a ``.docofl`` file.

    Options are those of :func:`docofl_codec.encode_state_dict`; `progress` is called with the
    coordinates that are done and their total, more than once over where the budget needs it.
    """
    target = Path(target)
    if _suffix(target) != ".docofl":
        raise InvalidInputError(f"{target}: expected a .docofl file to write")
    tensors = open_source(source, key=key)
    with replacing(target) as file:
        write_state_dict(
            tensors,
            sinks.FileSink(file),
            bits=bits,
            quality=quality,
            coder=coder,
            flatten=flatten,
            rules=rules,
            threads=threads,
            progress=progress,
        )
        file.flush()
        return inspect_file(file.name)  # what cannot be read replaces nothing


def decode_file(
    source: AnyPath,
    target: AnyPath,
    *,
    max_output_bytes: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Restore a ``.docofl`` file as a file of another format.

    Tied tensors are written each, but to torch's files.

    Raises
    ------
    CodecError
        Where the source is damaged, or the format of the target cannot hold its tensors.
    """
    target = Path(target)
    suffix = _suffix(target)
    if suffix == ".docofl":
        raise InvalidInputError(f"{target}: expected another format to decode to")
    reader = open_docofl(source, threads=threads)
    reader.check_limit(max_output_bytes, untied=suffix in _WRITERS)
    _write_plain(target, reader, progress)


def inspect_file(path: AnyPath) -> StateDictInfo:
    """Tell what a ``.docofl`` file holds, without decoding it."""
    return describe(open_docofl(path))


def verify_file(
    path: AnyPath,
    original: AnyPath,
    *,
    key: str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> StateDictInfo:
    """Decode a ``.docofl`` file and compare it with the original, tensor by tensor.

    Raises
    ------
    CodecError
        Where the file is damaged, or does not hold the original's tensors.
    """
    reader = open_docofl(path, threads=threads)
    source = open_source(original, key=key)
    total = sum(spec.size for spec in reader.specs)
    errors, done = [], 0
    for spec, error in zip(reader.specs, compare(source, reader), strict=True):
        errors.append(error)
        done += spec.size
        if progress is not None:
            progress(done, total)
    return describe(reader, errors)


_WRITERS: dict[str, Callable[..., None]] = {
    ".safetensors": sinks.write_safetensors,
    ".npz": sinks.write_npz,
    ".npy": sinks.write_npy,
}


def _write_plain(path: Path, source: TensorSource, progress: Progress | None) -> None:
    """Write a file of any format but our own."""
    suffix = _suffix(path)
    specs = source.specs
    total = sum(spec.size for spec in specs)
    done = 0

    def on_tensor(size: int) -> None:
        nonlocal done
        done += size
        if progress is not None:
            progress(done, total)

    with replacing(path) as file:
        if suffix in _WRITERS:
            _WRITERS[suffix](file, specs, sinks.memories(source), on_tensor)
        else:
            _write_torch(file, source, on_tensor)


def _write_torch(file: BinaryIO, source: TensorSource, on_tensor: Callable[[int], None]) -> None:
    from docofl_codec.files.torch_files import write_state_dict_file

    assert imported_torch() is not None
    tensors: dict[str, Tensor] = {}
    for spec, memory in sinks.memories(source):
        known = tensors.get(spec.alias_of) if spec.alias_of else None
        tensors[spec.name] = tensor_from(spec, _owned(memory), "torch") if known is None else known
        on_tensor(spec.size)
    write_state_dict_file(file, tensors)
