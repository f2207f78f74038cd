"""EDEN: a random rotation, a codebook for the normal distribution, and an unbiased scale.

Vargaftik et al., "EDEN: Communication-Efficient and Robust Distributed Mean Estimation for
Federated Learning", ICML 2022. DoCoFL uses it for corrections and uploads. A readable twin in NumPy
is :mod:`docofl_codec.reference.eden`.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np

from docofl_codec import _core
from docofl_codec._buffers import (
    FLOAT32,
    Framework,
    Tensor,
    as_blob,
    as_raw,
    check_output_limit,
    check_threads,
    imported_torch,
    mark_written,
    new_tensor,
    output_buffer,
    output_bytes,
)
from docofl_codec.errors import InvalidInputError, UnsupportedFrameError
from docofl_codec.frame import CODEC_NAMES, _decode, _framework_of

__all__ = ["Accumulator", "Scale", "decode", "decode_mean", "encode"]

Scale = Literal["unbiased", "mse"]


def encode(
    tensor: Tensor,
    *,
    bits: float = 1.0,
    seed: int | None = None,
    scale: Scale = "unbiased",
    entropy_coded: bool = False,
    threads: int | None = None,
) -> bytes:
    """Compress a tensor to `bits` bits a coordinate, without bias.

    The mean of :func:`decode` over seeds is the tensor itself (sparse blocks of fewer than 64
    coordinates aside), so that errors of many frames average out. Blocks of up to 32,768
    coordinates are rotated by random signs and Hadamard transforms, which makes their coordinates
    nearly normal whatever the tensor; the fewer than 16 coordinates that are left over are sent as
    they are.

    Parameters
    ----------
    tensor : numpy.ndarray or torch.Tensor
        float32, float64, float16 or bfloat16, of any shape, finite. float64 is rounded to float32
        first. A contiguous float32 tensor is not copied.
    bits : float, default 1
        The budget in bits a coordinate, 0.1 to 8. Fractions mix two widths; below 1 a random part
        of the rotated coordinates is sent, with one bit each. The frame takes at most
        ``bits * size / 8 + 176 + 10 * ndim + 6 * (size // 32768 + 11)`` bytes.
    seed : int, optional
        From 0 to 2^64 - 1; a fresh one by default. It is recorded in the frame: the decoder needs
        nothing else.
    scale : {"unbiased", "mse"}
        ``"mse"`` gives the least error of this one tensor, but no unbiased estimate.
    entropy_coded : bool, default False
        Quantize the rotated coordinates to a uniform grid and entropy-code them: more work and a
        smaller error at 2 bits and more. `bits` may then be 1.5 to 16.
    threads : int, optional
        Threads to use at most; by default OpenMP's number. The bytes do not depend on it.

    Returns
    -------
    bytes
        A self-describing frame.

    Raises
    ------
    InvalidInputError
        Where a value is NaN, infinite or, in float64, beyond float32, or an option is out of range.
    TypeError
        Where `tensor` is no floating-point tensor.

    Examples
    --------
    >>> import numpy as np
    >>> from docofl_codec import eden
    >>> x = np.random.default_rng(0).normal(size=10_000).astype(np.float32)
    >>> x_hat = eden.decode(eden.encode(x, bits=2, seed=7))
    >>> round(float(np.sum((x - x_hat) ** 2) / np.sum(x**2)), 2)
    0.13
    """
    if scale not in ("unbiased", "mse"):
        raise InvalidInputError(f'scale: found {scale!r}, expected "unbiased" or "mse"')
    raw = as_raw(tensor)
    return _core.eden_encode(
        raw.data,
        raw.dtype,
        raw.shape,
        raw.flags,
        bits,
        _check_seed(seed),
        scale == "mse",
        bool(entropy_coded),
        check_threads(threads),
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
    """Restore a tensor from a frame of :func:`encode`; frames of other codecs are refused.

    Parameters are those of :func:`docofl_codec.decode`.
    """
    return _decode(blob, "eden", out, framework, expected_shape, max_output_bytes, threads)


def decode_mean(
    blobs: Iterable[bytes],
    *,
    weights: Iterable[float] | None = None,
    out: Tensor | None = None,
    framework: Framework | None = None,
    expected_shape: Sequence[int] | None = None,
    max_output_bytes: int | None = None,
    threads: int | None = None,
) -> Tensor:
    """Average frames of :func:`encode` without restoring each tensor.

    A frame costs the unpacking of its words and one inverse rotation; frames that share a seed
    share the rotation. Memory does not grow with their number.

    Parameters
    ----------
    blobs : iterable of bytes-like
        Frames of one shape, at least one. Their dtypes may differ.
    weights : iterable of float, optional
        One for each frame, finite, not negative, not all 0; equal ones by default. They are divided
        by their sum.
    out : array or tensor, optional
        float32, written to and returned. It is not touched if a frame is refused.
    framework, expected_shape, max_output_bytes, threads
        As for :func:`docofl_codec.decode`.

    Returns
    -------
    numpy.ndarray or torch.Tensor
        float32.

    Raises
    ------
    CodecError
        Where a frame is not valid, not of EDEN or of another shape; its number is in the message.

    Examples
    --------
    >>> import numpy as np
    >>> from docofl_codec import eden
    >>> x = np.ones(1000, dtype=np.float32)
    >>> mean = eden.decode_mean([eden.encode(x, bits=1, seed=s) for s in range(100)])
    >>> bool(np.mean((mean - x) ** 2) < 0.01)
    True
    """
    num_threads = check_threads(threads)
    frames = [_open(blob, f"frame {i}", num_threads) for i, blob in enumerate(blobs)]
    if not frames:
        raise InvalidInputError("blobs: found none, expected at least one frame")
    shape = frames[0].shape if expected_shape is None else tuple(expected_shape)
    for i, frame in enumerate(frames):
        _check_shape(frame, shape, f"frame {i}")
    shares = _shares(weights, len(frames))
    if out is None:
        check_output_limit("the frames need", output_bytes(shape, FLOAT32), max_output_bytes)
        out, memory = new_tensor(shape, FLOAT32, _container(frames[0], framework))
    else:
        memory, _ = output_buffer(out, shape, FLOAT32)
    _core.eden_decode_sum(frames, shares, False, memory, num_threads)
    mark_written(out)
    return out


class Accumulator:
    """A running weighted mean of EDEN frames, in memory of one tensor.

    Frames are held compressed until a few have come, then added together: those that share a seed
    share an inverse rotation. A frame that is refused leaves the mean as it was.

    Parameters
    ----------
    shape : sequence of int, optional
        Of the tensors; by default that of the first frame.
    threads : int, optional
        Threads to use at most; by default OpenMP's number.

    Examples
    --------
    >>> import numpy as np
    >>> from docofl_codec import eden
    >>> mean = eden.Accumulator()
    >>> for seed in range(3):
    ...     mean.add(eden.encode(np.full(5, seed, dtype=np.float32), seed=seed))
    >>> mean.count, mean.mean()
    (3, array([1., 1., 1., 1., 1.], dtype=float32))
    """

    def __init__(self, shape: Sequence[int] | None = None, *, threads: int | None = None) -> None:
        self._shape = None if shape is None else tuple(shape)
        self._threads = check_threads(threads)
        self._framework: Framework = "numpy"
        self._mean: np.ndarray[Any, np.dtype[np.float32]] | None = None  # of what is not pending
        self._mean_weight = 0.0
        self._pending: list[tuple[_core.Frame, float]] = []
        self.count = 0

    @property
    def total_weight(self) -> float:
        """The sum of the weights so far."""
        return self._mean_weight + sum(weight for _, weight in self._pending)

    def add(self, blob: bytes, weight: float = 1.0) -> None:
        """Add a frame.

        Parameters
        ----------
        blob : bytes-like
            A frame of :func:`encode`. It is copied if it is not ``bytes``.
        weight : float, default 1
            Finite and not negative.

        Raises
        ------
        CodecError
            Where the frame is not valid, not of EDEN or of another shape.
        """
        total = self.total_weight + _check_weight(weight)
        if not math.isfinite(total):
            raise InvalidInputError(f"weight: found {weight}, which makes the sum infinite")
        frame = _open(bytes(as_blob(blob)), "frame", self._threads)
        _check_shape(frame, frame.shape if self._shape is None else self._shape, "frame")
        pending = [*self._pending, (frame, float(weight))]
        held = sum(pending_frame.frame_bytes for pending_frame, _ in pending)
        # The words of an entropy-coded frame are only checked when they are decoded: do that while
        # the frame can still be refused.
        if frame.eden_info()["entropy_coded"] or held >= 2 * frame.size:
            self._flush(pending)
        else:
            self._pending = pending
        if self._shape is None or self.count == 0:
            self._shape = frame.shape
            self._framework = _container(frame, None)
        self.count += 1

    def mean(self) -> Tensor:
        """Return the mean so far, float32, in the container of the first frame's tensor."""
        if self.total_weight == 0:
            raise InvalidInputError("mean: found no frame with a weight, expected at least one")
        self._flush(self._pending)
        assert self._mean is not None
        mean = self._mean.copy()
        if self._framework == "torch":
            tensor: Tensor = imported_torch().from_numpy(mean)
            return tensor
        return np.asarray(mean)

    def _flush(self, pending: list[tuple[_core.Frame, float]]) -> None:
        """Take frames into the mean; all of them, or none if that fails or is interrupted."""
        if not pending:
            return
        weight = self._mean_weight + sum(weight for _, weight in pending)
        shape = pending[0][0].shape
        mean: np.ndarray[Any, np.dtype[np.float32]] = np.zeros(shape, dtype=np.float32)
        if weight > 0:
            if self._mean is not None:
                np.multiply(self._mean, np.float32(self._mean_weight / weight), out=mean)
            frames, weights = zip(*pending, strict=True)
            shares = [each / weight for each in weights]
            _core.eden_decode_sum(list(frames), shares, True, mean, self._threads)
        self._mean, self._mean_weight, self._pending = mean, weight, []


def _check_seed(seed: int | None) -> int:
    if seed is None:
        return secrets.randbits(64)
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise TypeError(f"seed: found {type(seed).__qualname__}, expected an integer or None")
    if not 0 <= seed < 1 << 64:
        raise InvalidInputError(f"seed: found {seed}, expected 0 to 2^64 - 1")
    return int(seed)


def _open(blob: object, what: str, threads: int) -> _core.Frame:
    try:
        frame = _core.Frame(as_blob(blob), threads)
    except ValueError as error:
        raise type(error)(f"{what}: {error}") from None
    name = CODEC_NAMES[frame.codec]
    if name != "eden":
        raise UnsupportedFrameError(f"{what}: codec: found {name}, expected eden")
    return frame


def _check_shape(frame: _core.Frame, shape: tuple[int, ...], what: str) -> None:
    if frame.shape != shape:
        raise InvalidInputError(f"{what}: shape: found {frame.shape}, expected {shape}")


def _container(frame: _core.Frame, framework: Framework | None) -> Framework:
    if framework not in (None, "numpy", "torch"):
        raise InvalidInputError(f'framework: found {framework!r}, expected "numpy" or "torch"')
    if framework is None and _framework_of(frame) == "torch" and imported_torch() is not None:
        return "torch"
    return framework or "numpy"


def _check_weight(weight: float) -> float:
    try:
        value = float(weight)
    except OverflowError:
        value = math.inf
    if not (math.isfinite(value) and value >= 0):
        raise InvalidInputError(f"weight: found {value}, expected a finite number, 0 or more")
    return value


def _shares(weights: Iterable[float] | None, count: int) -> list[float]:
    """Return weights that add up to 1."""
    values = [1.0] * count if weights is None else [_check_weight(weight) for weight in weights]
    if len(values) != count:
        raise InvalidInputError(f"weights: found {len(values)}, expected one for each of {count}")
    largest = max(values, default=0.0)
    if largest <= 0:
        raise InvalidInputError("weights: expected finite numbers, 0 or more, not all 0")
    scaled = [value / largest for value in values]
    total = sum(scaled)
    return [value / total for value in scaled]
