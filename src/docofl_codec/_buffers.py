"""Between the tensors of NumPy and torch and the contiguous memory that the core works on.

torch is never imported here: a torch tensor can only come from a caller who has imported it.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from docofl_codec._core import ByteRoom
from docofl_codec.errors import InvalidInputError, LimitExceededError

if TYPE_CHECKING:
    import torch

__all__ = [
    "DTYPE_NAMES",
    "FLAG_TORCH",
    "FLOAT32",
    "ByteRoom",
    "Framework",
    "RawTensor",
    "Tensor",
    "as_blob",
    "as_raw",
    "check_output_limit",
    "check_threads",
    "imported_torch",
    "mark_written",
    "new_tensor",
    "output_buffer",
    "output_bytes",
    "output_dtype",
    "torch_memory",
]

Framework: TypeAlias = Literal["numpy", "torch"]
Tensor: TypeAlias = "npt.NDArray[Any] | torch.Tensor"

# The frame's dtype ids, in order.
DTYPE_NAMES = ("float32", "float64", "float16", "bfloat16")
ITEM_SIZES = (4, 8, 2, 2)
BFLOAT16 = DTYPE_NAMES.index("bfloat16")
FLOAT32 = DTYPE_NAMES.index("float32")
FLAG_TORCH = 0x01
MAX_THREADS = 1024

_FLOAT32_DTYPE = np.dtype(np.float32)


@dataclass(frozen=True)
class RawTensor:
    """A tensor as the core sees it: C-contiguous memory in native byte order."""

    data: npt.NDArray[Any]
    dtype: int
    shape: tuple[int, ...]
    flags: int


def imported_torch() -> Any:
    """Return torch if the caller has imported it, else None."""
    return sys.modules.get("torch")


def _is_torch_tensor(value: object) -> bool:
    torch = imported_torch()
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def _dtype_id(name: str) -> int:
    if name not in DTYPE_NAMES:
        raise TypeError(f"tensor dtype: found {name}, expected one of {', '.join(DTYPE_NAMES)}")
    return DTYPE_NAMES.index(name)


def _name_of(dtype: np.dtype[Any]) -> str:
    """Return ``dtype.name``, which NumPy puts together anew each time, of float32 at once."""
    return "float32" if dtype == _FLOAT32_DTYPE else dtype.name


def _as_memory(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """View an array of ml_dtypes' bfloat16, which has no buffer format, as plain integers."""
    return array.view(np.uint16) if _name_of(array.dtype) == "bfloat16" else array


def _raw_from_numpy(array: npt.NDArray[Any]) -> RawTensor:
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("tensor: found a masked array, expected a plain one (fill it first)")
    dtype = _dtype_id(_name_of(array.dtype))
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if not (array.flags.c_contiguous and array.flags.aligned):
        array = array.copy(order="C")
    return RawTensor(_as_memory(array), dtype, array.shape, 0)


def _raw_from_torch(tensor: Any) -> RawTensor:
    torch = imported_torch()
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested:
        found = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")
        raise TypeError(f"tensor: found a {found} torch tensor, expected a dense one (.to_dense())")
    if tensor.device.type == "meta":
        raise TypeError("tensor: found a torch tensor on the meta device, expected one with values")
    dtype = _dtype_id(str(tensor.dtype).removeprefix("torch."))
    tensor = tensor.detach().cpu().resolve_neg().contiguous()
    return RawTensor(torch_memory("tensor", tensor), dtype, tuple(tensor.shape), FLAG_TORCH)


def torch_memory(what: str, tensor: Any) -> npt.NDArray[Any]:
    """Return a NumPy view of a contiguous CPU tensor's memory."""
    torch = imported_torch()
    tensor = tensor.detach()
    view = tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor
    try:
        memory: npt.NDArray[Any] = view.numpy()
    except RuntimeError as error:  # within vmap, of a fake tensor, ...
        message = str(error).strip()
        raise TypeError(f"{what}: found {message!r}, expected a tensor with memory") from error
    return memory


def as_raw(tensor: Tensor) -> RawTensor:
    """Return the memory of a NumPy or torch tensor, copied only where it has to be."""
    if isinstance(tensor, np.ndarray):
        return _raw_from_numpy(tensor)
    if isinstance(tensor, np.generic):
        return _raw_from_numpy(np.asarray(tensor))
    if _is_torch_tensor(tensor):
        return _raw_from_torch(tensor)
    kind = type(tensor)
    raise TypeError(
        f"tensor: found {kind.__module__}.{kind.__qualname__}, "
        "expected a NumPy array or torch tensor"
    )


def as_blob(blob: object) -> bytes | bytearray | memoryview:
    """Return bytes-like data as one contiguous buffer."""
    if isinstance(blob, (bytes, bytearray)):
        return blob
    try:
        view = memoryview(blob)  # type: ignore[arg-type]
    except TypeError:
        kind = type(blob).__qualname__
        raise TypeError(f"blob: found {kind}, expected bytes or another buffer of bytes") from None
    if view.itemsize != 1:
        raise TypeError(f"blob: found a buffer of {view.itemsize}-byte items, expected bytes")
    return view if view.c_contiguous else view.tobytes()


def output_dtype(dtype: int, framework: Framework) -> int:
    """Return the dtype id that a frame's values get in a new tensor.

    NumPy has no bfloat16 of its own: ml_dtypes' is used where the caller has imported it, and
    float32 otherwise.
    """
    plain = dtype == BFLOAT16 and framework == "numpy" and "ml_dtypes" not in sys.modules
    return FLOAT32 if plain else dtype


def new_tensor(
    shape: tuple[int, ...], dtype: int, framework: Framework
) -> tuple[Tensor, npt.NDArray[Any]]:
    """Allocate a tensor of an :func:`output_dtype`; return it and its memory."""
    if framework == "torch":
        torch = imported_torch()
        if torch is None:
            raise InvalidInputError('framework: found "torch", but torch has not been imported')
        tensor = torch.empty(shape, dtype=getattr(torch, DTYPE_NAMES[dtype]), device="cpu")
        return tensor, torch_memory("output", tensor)
    numpy_dtype = sys.modules["ml_dtypes"].bfloat16 if dtype == BFLOAT16 else DTYPE_NAMES[dtype]
    array: npt.NDArray[Any] = np.empty(shape, dtype=numpy_dtype)
    return array, _as_memory(array)


def output_buffer(out: Tensor, shape: tuple[int, ...], dtype: int) -> tuple[npt.NDArray[Any], int]:
    """Check that `out` can take a frame's values; return its memory and dtype id."""
    if isinstance(out, np.ndarray):
        good = out.flags.c_contiguous and out.flags.aligned and out.dtype.isnative
        good = good and out.flags.writeable
        name, out_shape = _name_of(out.dtype), out.shape
    elif _is_torch_tensor(out):
        dense = out.layout == imported_torch().strided and not out.is_nested
        good = dense and out.device.type == "cpu" and out.is_contiguous() and not out.is_neg()
        name, out_shape = str(out.dtype).removeprefix("torch."), tuple(out.shape) if dense else ()
    else:
        raise TypeError(
            f"out: found {type(out).__qualname__}, expected a NumPy array or torch tensor"
        )
    if not good:
        raise InvalidInputError(
            "out: expected a writeable, C-contiguous array in native byte order on the CPU"
        )
    if out_shape != shape:
        raise InvalidInputError(f"out: found shape {out_shape}, expected {shape}")
    allowed = ["bfloat16", "float32"] if dtype == BFLOAT16 else [DTYPE_NAMES[dtype]]
    if name not in allowed:
        raise InvalidInputError(f"out: found dtype {name}, expected {' or '.join(allowed)}")
    memory = _as_memory(out) if isinstance(out, np.ndarray) else torch_memory("out", out)
    return memory, DTYPE_NAMES.index(name)


def mark_written(out: Tensor) -> None:
    """Tell torch that a tensor of the caller has changed behind its back."""
    if _is_torch_tensor(out):
        imported_torch().autograd.graph.increment_version(out)


def output_bytes(shape: tuple[int, ...], dtype: int) -> int:
    """Return the size in bytes of a tensor's values."""
    return math.prod(shape) * ITEM_SIZES[dtype]


def check_output_limit(what: str, needed: int, max_output_bytes: int | None) -> None:
    """Refuse an output that needs more bytes than the caller allows."""
    # Nothing is at most NaN.
    if max_output_bytes is not None and not needed <= max_output_bytes:
        raise LimitExceededError(
            f"output: {what} {needed} bytes, expected at most {max_output_bytes}"
        )


def check_threads(threads: int | None) -> int:
    """Return the core's number for a `threads` option, in which 0 means its own choice."""
    if threads is None:
        return 0
    if isinstance(threads, bool) or not isinstance(threads, (int, np.integer)):
        raise TypeError(f"threads: found {type(threads).__qualname__}, expected an integer or None")
    if not 1 <= threads <= MAX_THREADS:
        raise InvalidInputError(f"threads: found {threads}, expected 1 to {MAX_THREADS}")
    return int(threads)
