"""Tensors of every dtype that a state dict can hold, as flat memory and back."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from docofl_codec._buffers import Framework, Tensor, imported_torch, torch_memory
from docofl_codec.errors import CodecError, InvalidInputError

__all__ = [
    "CODED_DTYPES",
    "DTYPES",
    "DTYPE_IDS",
    "Memory",
    "TensorSpec",
    "check_shape",
    "memory_of",
    "new_memory",
    "spec_of",
    "stored_dtype",
    "tensor_from",
    "tidy_memory",
    "widen_bfloat16",
]

Array = npt.NDArray[Any]

# Of each dtype its id in an index (docs/format.md, section 10) and NumPy's dtype for its memory.
_DTYPES: dict[str, tuple[int, str]] = {
    "float32": (0, "float32"),
    "float64": (1, "float64"),
    "float16": (2, "float16"),
    "bfloat16": (3, "uint16"),
    "bool": (16, "uint8"),
    "uint8": (17, "uint8"),
    "int8": (18, "int8"),
    "uint16": (19, "uint16"),
    "int16": (20, "int16"),
    "uint32": (21, "uint32"),
    "int32": (22, "int32"),
    "uint64": (23, "uint64"),
    "int64": (24, "int64"),
    "complex64": (25, "complex64"),
    "complex128": (26, "complex128"),
    "float8_e4m3fn": (27, "uint8"),
    "float8_e5m2": (28, "uint8"),
}
_STORED = {name: np.dtype(stored) for name, (_, stored) in _DTYPES.items()}
DTYPE_IDS = {name: number for name, (number, _) in _DTYPES.items()}
DTYPES = {number: name for name, number in DTYPE_IDS.items()}
MAX_NDIM = 32
MAX_ITEM_BYTES = 16
MAX_BYTES = 1 << 62
CODED_DTYPES = ("float32", "float64", "float16", "bfloat16")
EXOTIC = ("bfloat16", "float8_e4m3fn", "float8_e5m2")  # NumPy has them through ml_dtypes alone


def stored_dtype(dtype: str) -> np.dtype[Any]:
    """Return NumPy's dtype for the memory of a dtype."""
    return _STORED[dtype]


@dataclass(frozen=True)
class TensorSpec:
    """What is known of a tensor without its values.

    Attributes
    ----------
    name : str
        Its key.
    dtype : str
        As torch and NumPy spell it.
    shape : tuple of int
    alias_of : str or None
        The earlier tensor that it is tied to.
    size : int
        Number of coordinates.
    num_bytes : int
        Size of its values.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    alias_of: str | None = None
    size: int = field(init=False, repr=False, compare=False)
    num_bytes: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        size = math.prod(self.shape)
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "num_bytes", size * stored_dtype(self.dtype).itemsize)


@dataclass(frozen=True)
class Memory:
    """The values of a tensor: one-dimensional, C-contiguous, native byte order."""

    dtype: str
    flat: Array

    def as_bytes(self) -> Array:
        """Return the values as the bytes that a little-endian machine holds."""
        flat = self.flat if sys.byteorder == "little" else self.flat.byteswap()
        return flat.view(np.uint8)


@cache
def _numpy_name(dtype: np.dtype[Any]) -> str:
    return str(dtype.name)


@cache
def _torch_name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def spec_of(name: str, tensor: Tensor) -> TensorSpec:
    """Describe a NumPy or torch tensor; refuse what cannot be stored."""
    value: Any = tensor
    torch = imported_torch()
    if torch is not None and isinstance(value, torch.Tensor):
        dense = value.layout == torch.strided and not (value.is_quantized or value.is_nested)
        if not dense or value.device.type == "meta":
            raise TypeError(f"tensor {name!r}: expected a dense torch tensor with values")
        found = _torch_name(value.dtype)
        shape = tuple(value.shape)
    elif isinstance(value, (np.ndarray, np.generic)):
        if isinstance(value, np.ma.MaskedArray):
            raise TypeError(f"tensor {name!r}: found a masked array, expected a plain one")
        found, shape = _numpy_name(value.dtype), value.shape
    else:
        kind = type(value)
        raise TypeError(
            f"tensor {name!r}: found {kind.__module__}.{kind.__qualname__}, "
            "expected a NumPy array or torch tensor"
        )
    if found not in DTYPE_IDS:
        raise TypeError(f"tensor {name!r}: found dtype {found}, expected a number or bool")
    check_shape(f"tensor {name!r}", shape)
    return TensorSpec(name, found, shape)


def check_shape(
    place: str, shape: Sequence[int], error: type[CodecError] = InvalidInputError
) -> None:
    """Refuse a shape that no index holds: of too many dimensions, or with room for too much."""
    if len(shape) > MAX_NDIM:
        raise error(f"{place}: found {len(shape)} dimensions, expected at most {MAX_NDIM}")
    if math.prod(dim for dim in shape if dim) * MAX_ITEM_BYTES >= MAX_BYTES:
        raise error(f"{place}: found shape {tuple(shape)}, which is beyond any memory")


def memory_of(spec: TensorSpec, tensor: Tensor) -> Memory:
    """Return the values of a tensor that `spec_of` described, copied only where they have to be."""
    dtype = spec.dtype
    torch = imported_torch()
    if torch is not None and isinstance(tensor, torch.Tensor):
        plain: Any = tensor
        plain = plain.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
        values = torch_memory(f"tensor {spec.name!r}", plain.view(torch.uint8))
        return tidy_memory(dtype, values.view(stored_dtype(dtype)))
    array = np.asarray(tensor)
    if _numpy_name(array.dtype) != dtype:
        raise InvalidInputError(
            f"tensor {spec.name!r}: found {array.dtype}, expected {dtype}: it changed meanwhile"
        )
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    flags = array.flags
    if not (flags.c_contiguous and flags.aligned):
        array = array.copy()
    return tidy_memory(dtype, array.reshape(-1).view(stored_dtype(dtype)))


def tidy_memory(dtype: str, flat: Array) -> Memory:
    """Return values of which those that are bool are 0 or 1, as any other byte is true as well."""
    if dtype == "bool" and flat.size and flat.max() > 1:
        flat = (flat != 0).view(np.uint8)
    return Memory(dtype, flat)


def new_memory(dtype: str, size: int) -> Memory:
    """Allocate values."""
    return Memory(dtype, np.empty(size, stored_dtype(dtype)))


def widen_bfloat16(values: Array) -> npt.NDArray[np.float32]:
    """Return bfloat16 values, given as integers, as float32."""
    return (values.astype(np.uint32) << 16).view(np.float32)


def tensor_from(spec: TensorSpec, memory: Memory, framework: Framework) -> Tensor:
    """Build a tensor around values; NumPy gets bfloat16 as float32 where ml_dtypes is missing."""
    if framework == "torch":
        torch = imported_torch()
        if torch is None:
            raise InvalidInputError('framework: found "torch", but torch has not been imported')
        dtype = getattr(torch, spec.dtype, None)
        if dtype is None:
            raise InvalidInputError(f"tensor {spec.name!r}: this torch has no {spec.dtype}")
        tensor: Tensor = torch.from_numpy(memory.flat.view(np.uint8)).view(dtype)
        return tensor.reshape(spec.shape)
    flat = memory.flat
    if spec.dtype in EXOTIC:
        extra = sys.modules.get("ml_dtypes")
        if extra is not None:
            flat = flat.view(getattr(extra, spec.dtype))
        elif spec.dtype == "bfloat16":
            flat = widen_bfloat16(flat)
        else:
            raise InvalidInputError(
                f"tensor {spec.name!r}: NumPy has {spec.dtype} only where ml_dtypes is imported"
            )
    elif spec.dtype == "bool":
        flat = flat.view(np.bool_)
    return flat.reshape(spec.shape)
