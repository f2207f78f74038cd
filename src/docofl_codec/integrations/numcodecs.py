"""ECUQ and EDEN as numcodecs codecs, for zarr and whatever else stores arrays with numcodecs.

Both are registered by entry points: with this package installed, ``numcodecs.get_codec`` knows the
ids ``docofl_ecuq`` and ``docofl_eden``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from docofl_codec import ecuq, eden
from docofl_codec.codec import codec_from_config
from docofl_codec.ecuq import DEFAULT_TOLERANCE
from docofl_codec.errors import InvalidInputError
from docofl_codec.integrations._extras import needs

with needs("numcodecs", extra="zarr"):
    from numcodecs.abc import Codec
    from numcodecs.compat import ensure_contiguous_ndarray, ensure_ndarray

__all__ = ["Ecuq", "Eden"]

Array = npt.NDArray[Any]


class _FrameCodec(Codec):  # type: ignore[misc]
    """A codec of this package behind numcodecs' interface.

    Attributes without an underscore are the configuration that array metadata keep.
    """

    _name: str
    _restore: Callable[..., Any]

    def __init__(self, dtype: str | None, seed: int | None, **options: Any) -> None:
        self.dtype = None if dtype is None else np.dtype(dtype).str
        seed = None if seed is None else index(seed)
        # Stores work on several chunks at once: a chunk gets one thread.
        self._codec = codec_from_config({"codec": self._name, "threads": 1, **options})
        self._seed = seed
        self._codec.encode(np.zeros(1, dtype=np.float32), seed=seed)  # checks the options

    def encode(self, buf: Any) -> bytes:
        """Compress a chunk.

        Parameters
        ----------
        buf : buffer-like
            A float array; with `dtype`, any contiguous buffer of such values.

        Returns
        -------
        bytes
            A frame; :func:`docofl_codec.inspect` tells about it.
        """
        chunk = ensure_ndarray(buf)
        if self.dtype is not None and chunk.dtype != self.dtype:
            chunk = _as_dtype(ensure_contiguous_ndarray(buf), np.dtype(self.dtype))
        if self.dtype is None and not chunk.dtype.isnative:
            raise TypeError(
                f"dtype: found {chunk.dtype.str}, expected the machine's byte order or the option "
                f'dtype="{chunk.dtype.str}"'
            )
        if chunk.flags.f_contiguous and not chunk.flags.c_contiguous:
            chunk = chunk.reshape(-1, order="F")  # stores restore the order of the memory
        return self._codec.encode(chunk, seed=self._seed)

    def decode(self, buf: Any, out: Any = None) -> Array:
        """Restore a chunk.

        Parameters
        ----------
        buf : buffer-like
            A frame of the same codec, whatever its options.
        out : buffer-like, optional
            Written to and returned; of exactly the chunk's size in bytes.
        """
        blob: Any = memoryview(ensure_contiguous_ndarray(buf).view(np.uint8))
        chunk = np.asarray(self._restore(blob, framework="numpy", threads=1))
        if self.dtype is not None:
            if chunk.dtype != np.dtype(self.dtype).newbyteorder("="):
                raise InvalidInputError(f"frame: found {chunk.dtype}, expected {self.dtype}")
            chunk = chunk.astype(self.dtype, copy=False)
        return chunk if out is None else _copied(chunk, out)

    def get_config(self) -> dict[str, Any]:
        """Return the options, JSON-ready, with the codec's id."""
        config: dict[str, Any] = super().get_config()
        return config

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> _FrameCodec:
        """Build a codec from its options."""
        return cls(**config)


class Ecuq(_FrameCodec):
    """ECUQ for chunks of floats; see :func:`docofl_codec.ecuq.encode`.

    Parameters
    ----------
    bits : float, default 8
        The budget in bits a value.
    budget : {"bytes", "entropy"}
        Whose bits.
    tolerance : float, default 0.01
        How close below the budget the search may stop.
    dtype : str, optional
        Of the values. Needed where chunks come as plain bytes or in another byte order than the
        machine's; by default that of the array that is encoded.

    Examples
    --------
    >>> import numpy as np
    >>> codec = Ecuq(bits=6)
    >>> x = np.random.default_rng(0).normal(size=(50, 20)).astype(np.float32)
    >>> bool(np.abs(codec.decode(codec.encode(x)) - x).max() < 0.1)
    True
    """

    codec_id = "docofl_ecuq"
    _name = "ecuq"
    _restore = staticmethod(ecuq.decode)

    def __init__(
        self,
        bits: float = 8.0,
        budget: str = "bytes",
        tolerance: float = DEFAULT_TOLERANCE,
        dtype: str | None = None,
    ) -> None:
        super().__init__(dtype, None, bits=bits, budget=budget, tolerance=tolerance)
        self.bits = float(bits)
        self.budget = budget
        self.tolerance = float(tolerance)


class Eden(_FrameCodec):
    """EDEN for chunks of floats; see :func:`docofl_codec.eden.encode`.

    Parameters
    ----------
    bits : float, default 4
        The budget in bits a value.
    scale : {"unbiased", "mse"}
        What the scale is best for: means of many chunks, or each chunk by itself.
    entropy_coded : bool, default False
        A smaller error at 2 bits and more, for more work.
    seed : int, optional
        Of the rotation; 0 by default, so that equal chunks give equal bytes. None takes a fresh one
        for every chunk, so that errors of chunks with equal values are independent.
    dtype : str, optional
        As for :class:`Ecuq`.
    """

    codec_id = "docofl_eden"
    _name = "eden"
    _restore = staticmethod(eden.decode)

    def __init__(
        self,
        bits: float = 4.0,
        scale: str = "unbiased",
        entropy_coded: bool = False,
        seed: int | None = 0,
        dtype: str | None = None,
    ) -> None:
        super().__init__(dtype, seed, bits=bits, scale=scale, entropy_coded=entropy_coded)
        self.bits = float(bits)
        self.scale = scale
        self.entropy_coded = bool(entropy_coded)
        self.seed = self._seed


def _as_dtype(memory: Array, dtype: np.dtype[Any]) -> Array:
    """View memory as values of a dtype; refuse what are values of another one."""
    if memory.dtype.itemsize != 1 or memory.dtype.kind == "b":
        raise TypeError(f"dtype: found {memory.dtype.str}, expected {dtype.str} or bytes")
    if memory.nbytes % dtype.itemsize:
        raise InvalidInputError(
            f"chunk: found {memory.nbytes} bytes, expected a multiple of {dtype.itemsize}"
        )
    return memory.view(dtype)


def _copied(chunk: Array, out: Any) -> Array:
    """Copy a chunk into a buffer: by memory, unless both have the same dimensions."""
    target: Array = ensure_ndarray(out)
    if target.dtype != chunk.dtype and target.dtype.itemsize != 1:
        raise InvalidInputError(
            f"out: found dtype {target.dtype.str}, expected {chunk.dtype.str} or bytes"
        )
    if target.nbytes != chunk.nbytes:
        raise InvalidInputError(f"out: found {target.nbytes} bytes, expected {chunk.nbytes}")
    if not target.flags.writeable:
        raise InvalidInputError("out: found read-only memory, expected a writeable buffer")
    if not (target.flags.c_contiguous or target.flags.f_contiguous):
        raise InvalidInputError("out: found strided memory, expected a contiguous buffer")
    if target.shape == chunk.shape and target.dtype == chunk.dtype:
        np.copyto(target, chunk)
    else:
        flat = target.reshape(-1, order="A")
        np.copyto(flat.view(np.uint8), chunk.reshape(-1).view(np.uint8))
    return target
