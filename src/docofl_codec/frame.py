"""Frames of any codec: what they hold, and back to tensors.

The layout of the bytes is docs/format.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from docofl_codec import _core
from docofl_codec._buffers import (
    DTYPE_NAMES,
    FLAG_TORCH,
    Framework,
    Tensor,
    as_blob,
    check_output_limit,
    check_threads,
    imported_torch,
    mark_written,
    new_tensor,
    output_buffer,
    output_bytes,
    output_dtype,
)
from docofl_codec.errors import InvalidInputError, UnsupportedFrameError

__all__ = ["FrameInfo", "decode", "inspect"]

CODEC_NAMES = {
    0: "identity",
    1: "ecuq",
    2: "eden",
    16: "hadamard-sq",
    17: "kashin-sq",
    18: "qsgd",
    19: "randk",
    20: "topk",
    21: "countsketch",
    22: "ecq",
    23: "eckmeans",
}
ECUQ_PAYLOADS = ("ecuq", "ecq", "eckmeans")


@dataclass(frozen=True)
class ForeignPayload:
    """How to read payloads that the core does not know.

    Attributes
    ----------
    decode : callable
        From payload, number of coordinates (at least 1) and threads (0: OpenMP's number) to flat
        float32 values, finite.
    describe : callable
        From payload and number of coordinates to further fields of :class:`FrameInfo`.
    """

    decode: Callable[[bytes, int, int], npt.NDArray[np.float32]]
    describe: Callable[[bytes, int], dict[str, Any]]


_FOREIGN: dict[int, ForeignPayload] = {}


def register_payload(codec_id: int, payload: ForeignPayload) -> None:
    """Tell :func:`decode` and :func:`inspect` how to read a codec's payloads."""
    _FOREIGN[codec_id] = payload


@dataclass(frozen=True)
class FrameInfo:
    """What a frame says about itself.

    The fields after `bits_per_coordinate` are None for codecs that do not have them.

    Attributes
    ----------
    codec : str
        ``"ecuq"``, ``"eden"``, ``"identity"`` or a baseline's name.
    dtype : str
        Of the tensor that was encoded.
    shape : tuple of int
        Of the tensor that was encoded.
    framework : {"numpy", "torch"}
        Where that tensor came from.
    size : int
        Number of coordinates.
    frame_bytes : int
        Size of the whole frame.
    bits_per_coordinate : float
        ``8 * frame_bytes / size``; 0 for an empty tensor.
    num_levels : int or None
        The paper's K, or the number of explicit levels.
    step : float or None
        Distance of neighbouring levels (the paper's Delta); 0 for explicit levels.
    x_min, x_max : float or None
        Ends of the grid.
    entropy : float or None
        In bits a coordinate: what an ideal coder would take for the code words and raw bits, as
        estimated from a sample; for ``budget="entropy"`` the exact entropy of the levels.
    explicit_levels : bool or None
        True where every value is restored exactly from a list of values.
    coder : {"huffman", "rans"} or None
        The entropy coder.
    dependent : bool or None
        True for ``quality="best"``: two quantizers in turn, chosen by a state machine.
    transformed : bool or None
        True where levels give coefficients of runs of neighbours, which resemble each other.
    centroids : bool or None
        True where values come back as the mean of those with their level, not as its centre.
    num_tables : int or None
        Code tables that parts of the tensor choose from.
    coded_levels, tuple_size, raw_bits, num_outliers : int or None
        How levels are turned into code words (docs/format.md, section 3).
    bits : float or None
        EDEN: the budget that was asked for. Stochastic quantization: bits a coefficient.
    seed : int or None
        Of what is random about decoding: EDEN's rotation, say.
    entropy_coded : bool or None
        EDEN: whether the rotated coordinates are entropy-coded.
    num_kept : int or None
        Rand-K and Top-K: coordinates that were sent.
    sketch_shape : tuple of int or None
        Count-Sketch: rows and columns.
    """

    codec: str
    dtype: str
    shape: tuple[int, ...]
    framework: Framework
    size: int
    frame_bytes: int
    bits_per_coordinate: float
    num_levels: int | None = None
    step: float | None = None
    x_min: float | None = None
    x_max: float | None = None
    entropy: float | None = None
    explicit_levels: bool | None = None
    coder: str | None = None
    dependent: bool | None = None
    transformed: bool | None = None
    centroids: bool | None = None
    num_tables: int | None = None
    coded_levels: int | None = None
    tuple_size: int | None = None
    raw_bits: int | None = None
    num_outliers: int | None = None
    bits: float | None = None
    seed: int | None = None
    entropy_coded: bool | None = None
    num_kept: int | None = None
    sketch_shape: tuple[int, int] | None = None


def _framework_of(frame: _core.Frame) -> Framework:
    return "torch" if frame.flags & FLAG_TORCH else "numpy"


def inspect(blob: bytes) -> FrameInfo:
    """Tell what a frame holds, without decoding it.

    Parameters
    ----------
    blob : bytes-like
        A whole frame.

    Returns
    -------
    FrameInfo

    Raises
    ------
    CodecError
        Where the bytes are no valid frame (the checksum is verified).

    Examples
    --------
    >>> import numpy as np
    >>> from docofl_codec import ecuq, inspect
    >>> info = inspect(ecuq.encode(np.linspace(0, 1, 1000, dtype=np.float32), bits=3))
    >>> info.codec, info.shape, info.dtype, info.bits_per_coordinate < 3.6
    ('ecuq', (1000,), 'float32', True)
    """
    frame = _core.Frame(as_blob(blob), 1)
    levels: dict[str, Any] = {}  # and what else the codec tells
    if CODEC_NAMES[frame.codec] in ECUQ_PAYLOADS:
        levels = dict(frame.ecuq_info())
    elif CODEC_NAMES[frame.codec] == "eden" and frame.size:
        levels = dict(frame.eden_info())
    elif frame.codec in _FOREIGN and frame.size:
        levels = _FOREIGN[frame.codec].describe(frame.payload, frame.size)
    return FrameInfo(
        codec=CODEC_NAMES[frame.codec],
        dtype=DTYPE_NAMES[frame.dtype],
        shape=frame.shape,
        framework=_framework_of(frame),
        size=frame.size,
        frame_bytes=frame.frame_bytes,
        bits_per_coordinate=8 * frame.frame_bytes / frame.size if frame.size else 0.0,
        **levels,
    )


def decode(
    blob: bytes,
    *,
    out: Tensor | None = None,
    framework: Framework | None = None,
    expected_shape: Sequence[int] | None = None,
    max_output_bytes: int | None = None,
    threads: int | None = None,
) -> Tensor:
    """Restore the tensor of a frame of any codec.

    Parameters
    ----------
    blob : bytes-like
        A whole frame.
    out : array or tensor, optional
        Written to and returned, instead of a new tensor. It must have the frame's shape and dtype
        (float32 will do for bfloat16). Damaged bytes are noticed before it is touched; should a
        forged frame with a valid checksum fail later, its values are undefined.
    framework : {"numpy", "torch"}, optional
        The container of the result. By default that of the encoded tensor; a frame of a torch
        tensor becomes a NumPy array where torch has not been imported. NumPy has no bfloat16:
        without ml_dtypes such frames become float32 arrays.
    expected_shape : sequence of int, optional
        Refuse frames of any other shape, before memory is taken.
    max_output_bytes : int, optional
        Refuse frames whose values need more memory, before it is taken.
    threads : int, optional
        Threads to use at most; by default OpenMP's number. The result does not depend on it.

    Returns
    -------
    numpy.ndarray or torch.Tensor

    Raises
    ------
    CodecError
        Where the bytes are no valid frame or not the expected one.
    TypeError
        Where `blob` or `out` has a wrong type.

    Examples
    --------
    >>> import numpy as np
    >>> from docofl_codec import decode, ecuq
    >>> blob = ecuq.encode(np.zeros((2, 3), dtype=np.float16), bits=1)
    >>> decode(blob, expected_shape=(2, 3))
    array([[0., 0., 0.],
           [0., 0., 0.]], dtype=float16)
    """
    return _decode(blob, None, out, framework, expected_shape, max_output_bytes, threads)


def _decode(
    blob: bytes,
    codec: str | None,
    out: Tensor | None,
    framework: Framework | None,
    expected_shape: Sequence[int] | None,
    max_output_bytes: int | None,
    threads: int | None,
) -> Tensor:
    """Decode a frame, of one codec only where `codec` names it."""
    num_threads = check_threads(threads)
    if framework not in (None, "numpy", "torch"):
        raise InvalidInputError(f'framework: found {framework!r}, expected "numpy" or "torch"')
    frame = _core.Frame(as_blob(blob), num_threads)
    if codec is not None and CODEC_NAMES[frame.codec] != codec:
        raise UnsupportedFrameError(f"codec: found {CODEC_NAMES[frame.codec]}, expected {codec}")
    shape = frame.shape
    if expected_shape is not None and shape != tuple(expected_shape):
        raise InvalidInputError(f"shape: found {shape}, expected {tuple(expected_shape)}")
    if out is not None:
        memory, dtype = output_buffer(out, shape, frame.dtype)
        _decode_into(frame, memory, dtype, num_threads)
        mark_written(out)
        return out
    if framework is None:
        framework = _framework_of(frame)
        if framework == "torch" and imported_torch() is None:
            framework = "numpy"
    dtype = output_dtype(frame.dtype, framework)
    check_output_limit("the frame needs", output_bytes(shape, dtype), max_output_bytes)
    tensor, memory = new_tensor(shape, dtype, framework)
    _decode_into(frame, memory, dtype, num_threads)
    return tensor


def parse(blob: bytes | memoryview, threads: int) -> _core.Frame:
    """Check a frame's header and checksum; its values can then be decoded."""
    return _core.Frame(as_blob(blob), threads)


def decode_memory(frame: _core.Frame, memory: npt.NDArray[Any], threads: int) -> None:
    """Decode a parsed frame into memory of its size and dtype."""
    _decode_into(frame, memory, frame.dtype, threads)


def _decode_into(frame: _core.Frame, memory: npt.NDArray[Any], dtype: int, threads: int) -> None:
    if frame.codec not in _FOREIGN:
        frame.decode_into(memory, dtype, threads)
    elif frame.size:
        values = _FOREIGN[frame.codec].decode(frame.payload, frame.size, threads)
        frame.store_values(values, memory, dtype)
