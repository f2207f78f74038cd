"""Files of tensors, written one tensor at a time wherever the format allows."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from docofl_codec._buffers import ByteRoom
from docofl_codec.errors import InvalidInputError
from docofl_codec.files.sources import SAFETENSORS_DTYPES
from docofl_codec.state_dict.source import TensorSource
from docofl_codec.state_dict.tensors import Memory, TensorSpec, widen_bfloat16

__all__ = ["FileSink", "memories", "write_npy", "write_npz", "write_safetensors"]

SLICE = 1 << 24
NAMES = {dtype: name for name, dtype in SAFETENSORS_DTYPES.items()}

Memories = Iterable[tuple[TensorSpec, Memory]]


class FileSink:
    """Bytes of a state dict on their way to a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def reserve(self, size: int) -> None:
        """Do nothing: a file grows."""

    def write(self, data: Any) -> None:
        """Append."""
        self._file.write(data)

    def room(self) -> ByteRoom:
        """Return a new room."""
        return ByteRoom()

    def pass_on(self, room: ByteRoom) -> None:
        """Append the bytes of a room."""
        self._file.write(room.take())

    def tell(self) -> int:
        """Return how many bytes there are."""
        return self._file.tell()

    def cut(self, size: int) -> None:
        """Drop all but the first `size` bytes."""
        self._file.seek(size)
        self._file.truncate()


def memories(source: TensorSource) -> Iterator[tuple[TensorSpec, Memory]]:
    """Yield all tensors in order; those that others are tied to are held until the last of them."""
    specs = source.specs
    last = {spec.alias_of: number for number, spec in enumerate(specs) if spec.alias_of}
    held: dict[str, Memory] = {}
    for number, spec in enumerate(specs):
        memory = held[spec.alias_of] if spec.alias_of else source.load(number)
        if spec.name in last:
            held[spec.name] = memory
        yield spec, memory
        del memory  # before the next one is loaded
        if spec.alias_of and last[spec.alias_of] == number:
            del held[spec.alias_of]


def write_safetensors(
    file: BinaryIO, specs: Sequence[TensorSpec], values: Memories, on_tensor: Callable[[int], None]
) -> None:
    """Write a ``.safetensors`` file; tied tensors are written each."""
    header: dict[str, Any] = {}
    at = 0
    for spec in specs:
        if spec.dtype not in NAMES or spec.name == "__metadata__":
            raise InvalidInputError(
                f"tensor {spec.name!r}: safetensors has no place for this name or {spec.dtype}"
            )
        place = [at, at + spec.num_bytes]
        header[spec.name] = {
            "dtype": NAMES[spec.dtype],
            "shape": list(spec.shape),
            "data_offsets": place,
        }
        at += spec.num_bytes
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(struct.pack("<Q", len(text)) + text)
    for spec, memory in values:
        _write_bytes(file, memory.as_bytes())
        del memory  # before the next one is loaded
        on_tensor(spec.size)


def write_npz(
    file: BinaryIO, specs: Sequence[TensorSpec], values: Memories, on_tensor: Callable[[int], None]
) -> None:
    """Write an ``.npz`` file, not deflated; bfloat16 becomes float32."""
    for spec in specs:
        _npy_dtype(spec)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for spec, memory in values:
            with archive.open(spec.name + ".npy", "w", force_zip64=True) as member:
                _write_array(member, spec, memory)
            del memory
            on_tensor(spec.size)


def write_npy(
    file: BinaryIO, specs: Sequence[TensorSpec], values: Memories, on_tensor: Callable[[int], None]
) -> None:
    """Write a ``.npy`` file; there must be one tensor."""
    if len(specs) != 1:
        raise InvalidInputError(f".npy: found {len(specs)} tensors, expected one (use .npz)")
    _npy_dtype(specs[0])
    for spec, memory in values:
        _write_array(file, spec, memory)
        on_tensor(spec.size)


def _npy_dtype(spec: TensorSpec) -> np.dtype[Any]:
    if spec.dtype.startswith("float8"):
        raise InvalidInputError(f"tensor {spec.name!r}: NumPy's files have no {spec.dtype}")
    return np.dtype("float32" if spec.dtype == "bfloat16" else spec.dtype)


def _write_array(file: Any, spec: TensorSpec, memory: Memory) -> None:
    dtype = _npy_dtype(spec).newbyteorder("<")
    described = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": spec.shape,
    }
    np.lib.format.write_array_header_1_0(file, described)
    if spec.dtype == "bfloat16":
        for begin in range(0, memory.flat.size, SLICE):
            wide = widen_bfloat16(memory.flat[begin : begin + SLICE])
            file.write(Memory("float32", wide).as_bytes().data)
    else:
        _write_bytes(file, memory.as_bytes())


def _write_bytes(file: Any, data: npt.NDArray[np.uint8]) -> None:
    for begin in range(0, data.size, SLICE):
        file.write(data[begin : begin + SLICE].data)
