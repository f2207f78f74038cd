"""Tensors of files, one at a time: values are mapped or read when they are asked for."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import struct
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from docofl_codec.errors import CodecError, CorruptFrameError, InvalidInputError
from docofl_codec.state_dict.tensors import (
    DTYPE_IDS,
    Memory,
    TensorSpec,
    check_shape,
    memory_of,
    spec_of,
    stored_dtype,
    tidy_memory,
)

__all__ = ["NpySource", "NpzSource", "SafetensorsSource"]

SAFETENSORS_DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
}
MAX_HEADER = 100_000_000  # as the format says
MAX_INFLATION = 1032  # of deflate
ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
NPY_NAME = "array"  # of the one tensor of a .npy file


class SafetensorsSource:
    """A ``.safetensors`` file; its values are mapped.

    Raises
    ------
    CorruptFrameError
        Where the file breaks a rule of the format.
    """

    from_torch = False

    def __init__(self, path: Path) -> None:
        self._path = path
        size = path.stat().st_size
        with path.open("rb") as file:
            prefix = file.read(8)
            length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else MAX_HEADER + 1
            if length > min(MAX_HEADER, size - 8):
                raise CorruptFrameError(f"{path}: no safetensors file, its header does not fit it")
            header = file.read(length)
        self.specs: list[TensorSpec] = []
        self._places: list[int] = []
        ranges = []
        for name, fields in _parse_header(path, header):
            spec, begin, end = _parse_tensor(path, name, fields)
            self.specs.append(spec)
            self._places.append(8 + length + begin)
            ranges.append((begin, end))
        filled = 0
        for begin, end in sorted(ranges):
            if begin != filled:
                raise CorruptFrameError(f"{path}: tensors overlap or leave holes at {filled}")
            filled = end
        if filled != size - 8 - length:
            raise CorruptFrameError(
                f"{path}: found {size - 8 - length} bytes of values, expected {filled}"
            )

    def load(self, number: int) -> Memory:
        """Map the values of a tensor."""
        spec = self.specs[number]
        dtype = stored_dtype(spec.dtype)
        if spec.size == 0:
            return Memory(spec.dtype, np.empty(0, dtype))
        little = dtype.newbyteorder("<")
        mapped = np.memmap(
            self._path, np.uint8, "r", offset=self._places[number], shape=spec.num_bytes
        )
        values: npt.NDArray[Any] = np.asarray(mapped).view(little)
        if not (values.flags.aligned and values.dtype.isnative):
            values = values.astype(dtype)
        return tidy_memory(spec.dtype, values)


def _parse_header(path: Path, header: bytes) -> list[tuple[str, Any]]:
    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in found}) != len(found):
            raise ValueError("a name stands twice")
        return dict(found)

    try:
        parsed = json.loads(header, object_pairs_hook=pairs)
    except (ValueError, RecursionError) as error:
        raise CorruptFrameError(f"{path}: header of safetensors: {error}") from None
    if not isinstance(parsed, dict):
        raise CorruptFrameError(f"{path}: header of safetensors: expected an object")
    return [(name, fields) for name, fields in parsed.items() if name != "__metadata__"]


def _parse_tensor(path: Path, name: str, fields: Any) -> tuple[TensorSpec, int, int]:
    try:
        dtype, shape, (begin, end) = fields["dtype"], fields["shape"], fields["data_offsets"]
    except (TypeError, KeyError, ValueError):
        raise CorruptFrameError(
            f"{path}, tensor {name!r}: expected dtype, shape and data_offsets"
        ) from None
    numbers = [*shape, begin, end] if isinstance(shape, list) else [None]
    if not all(type(number) is int and 0 <= number < 1 << 62 for number in numbers):
        raise CorruptFrameError(f"{path}, tensor {name!r}: found a shape or place that is none")
    if not isinstance(dtype, str) or dtype not in SAFETENSORS_DTYPES:
        raise InvalidInputError(f"{path}, tensor {name!r}: found dtype {dtype!r}, not known here")
    check_shape(f"{path}, tensor {name!r}", shape, CorruptFrameError)
    spec = TensorSpec(name, SAFETENSORS_DTYPES[dtype], tuple(shape))
    if end - begin != spec.num_bytes:
        raise CorruptFrameError(
            f"{path}, tensor {name!r}: found {end - begin} bytes, expected {spec.num_bytes}"
        )
    return spec, begin, end


class NpySource:
    """A ``.npy`` file: one tensor named "array"; its values are mapped."""

    from_torch = False

    def __init__(self, path: Path) -> None:
        self._path = path
        array = self._map()
        with _refusing_damage(path):
            self.specs: Sequence[TensorSpec] = [spec_of(NPY_NAME, array)]

    def _map(self) -> npt.NDArray[Any]:
        with _refusing_damage(self._path):
            return np.asarray(np.lib.format.open_memmap(self._path, mode="r"))

    def load(self, number: int) -> Memory:
        """Map the values."""
        return memory_of(self.specs[number], self._map())


class NpzSource:
    """A ``.npz`` file; its values are read, not unpickled."""

    from_torch = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self.specs: list[TensorSpec] = []
        self._members: list[str] = []
        with _refusing_damage(path), zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len({member.filename for member in members}) != len(members):
                raise CorruptFrameError(f"{path}: a name stands twice")
            for member in members:
                self.specs.append(self._spec(archive, member))
                self._members.append(member.filename)

    def _spec(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> TensorSpec:
        name = member.filename.removesuffix(".npy")
        most = min(member.compress_size, self._path.stat().st_size) * MAX_INFLATION
        if member.file_size > most or member.compress_type not in ZIP_METHODS:
            raise CorruptFrameError(
                f"{self._path}, {name!r}: found {member.file_size} bytes, expected at most {most}, "
                "stored or deflated"
            )
        with archive.open(member) as file:
            version = np.lib.format.read_magic(file)
            read = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }.get(version)
            if read is None:
                raise InvalidInputError(f"{self._path}, {name!r}: version {version} is not known")
            shape, _, dtype = read(file)
            begin = file.tell()
        if dtype.name not in DTYPE_IDS:
            raise TypeError(f"tensor {name!r}: found dtype {dtype}, expected a number or bool")
        if member.file_size - begin != math.prod(shape) * dtype.itemsize:
            raise CorruptFrameError(f"{self._path}, {name!r}: its size is not that of its shape")
        check_shape(f"{self._path}, {name!r}", shape)
        return TensorSpec(name, dtype.name, shape)

    def load(self, number: int) -> Memory:
        """Read the values of a tensor."""
        spec = self.specs[number]
        with (
            _refusing_damage(f"{self._path}, {spec.name!r}"),
            zipfile.ZipFile(self._path) as archive,
            archive.open(self._members[number]) as file,
        ):
            array = np.lib.format.read_array(file, allow_pickle=False)
        return memory_of(spec, array)


@contextlib.contextmanager
def _refusing_damage(place: Path | str) -> Iterator[None]:
    """Raise a `CodecError` for whatever zipfile and NumPy raise about bytes that they cannot read.

    Errors of the file system and of memory stay what they are.
    """
    try:
        yield
    except (CodecError, MemoryError):
        raise
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # a seek to a place that cannot be
            raise
        raise CorruptFrameError(f"{place}: {error}") from None
    except TypeError as error:
        raise InvalidInputError(f"{place}: {error}") from None
    except Exception as error:
        raise CorruptFrameError(f"{place}: {error}") from None
