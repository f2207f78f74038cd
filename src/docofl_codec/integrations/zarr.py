"""ECUQ and EDEN as codecs of Zarr format 3.

Both are registered by entry points: with this package installed, zarr 3 knows ``docofl_ecuq`` and
``docofl_eden``. For Zarr format 2, see :mod:`docofl_codec.integrations.numcodecs`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from docofl_codec.ecuq import DEFAULT_TOLERANCE
from docofl_codec.errors import InvalidInputError
from docofl_codec.integrations._extras import needs

with needs("zarr", extra="zarr"):
    import zarr

try:
    from zarr.abc.codec import ArrayBytesCodec
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer, NDBuffer
except ModuleNotFoundError:
    raise ImportError(
        f"zarr: found {zarr.__version__}, expected 3 or newer, which needs Python 3.11; for Zarr "
        "format 2, use docofl_codec.integrations.numcodecs"
    ) from None

from docofl_codec.integrations import numcodecs

__all__ = ["Ecuq", "Eden"]


class _FrameCodec(ArrayBytesCodec):
    """A codec of this package behind zarr's interface; its fields are the configuration."""

    is_fixed_size = False
    name: ClassVar[str]
    _kind: ClassVar[Any]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Any:
        """Build a codec from an array's metadata."""
        options = data.get("configuration", {})
        known = {field.name for field in fields(cls)}
        if data.get("name") != cls.name or not isinstance(options, Mapping):
            raise InvalidInputError(f"codec: found {data!r}, expected {cls.name!r} with options")
        for option in options.keys() - known:
            raise InvalidInputError(f"{cls.name}: found the option {option!r}, expected none such")
        return cls(**options)

    def to_dict(self) -> dict[str, Any]:
        """Return what an array's metadata keep."""
        options = dict(self._codec.get_config())
        known = {field.name for field in fields(self)}
        return {"name": self.name, "configuration": {key: options[key] for key in sorted(known)}}

    def validate(self, *, shape: Any, dtype: Any, chunk_grid: Any) -> None:  # noqa: ARG002
        """Refuse arrays of anything but floats."""
        found = dtype.to_native_dtype()
        if found.kind != "f":
            raise TypeError(f"dtype: found {found}, expected floating-point numbers")

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """Refuse to tell: it depends on the values."""
        raise NotImplementedError

    async def _encode_single(self, chunk_data: NDBuffer, chunk_spec: ArraySpec) -> Buffer:
        frame = await asyncio.to_thread(self._encode, chunk_data.as_numpy_array())
        buffer: Buffer = chunk_spec.prototype.buffer.from_bytes(frame)
        return buffer

    async def _decode_single(self, chunk_data: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        values = await asyncio.to_thread(self._codec.decode, chunk_data.to_bytes())
        if values.size != np.prod(chunk_spec.shape, dtype=np.int64):
            raise InvalidInputError(
                f"chunk: found shape {values.shape}, expected {chunk_spec.shape}"
            )
        dtype = chunk_spec.dtype.to_native_dtype()
        values = values.astype(dtype, copy=False).reshape(chunk_spec.shape)
        buffer: NDBuffer = chunk_spec.prototype.nd_buffer.from_numpy_array(values)
        return buffer

    def _encode(self, values: Any) -> bytes:
        native = values.dtype.newbyteorder("=")
        frame: bytes = self._codec.encode(np.ascontiguousarray(values, dtype=native))
        return frame

    @cached_property
    def _codec(self) -> Any:
        options = {field.name: getattr(self, field.name) for field in fields(self)}
        return self._kind(**options)


@dataclass(frozen=True)
class Ecuq(_FrameCodec):
    """ECUQ as the serializer of an array; see :class:`docofl_codec.integrations.numcodecs.Ecuq`.

    Examples
    --------
    >>> import numpy as np
    >>> import zarr
    >>> array = zarr.create_array(
    ...     {}, shape=(100, 50), dtype="float32", serializer=Ecuq(bits=6), compressors=None
    ... )
    >>> array[:] = np.random.default_rng(0).normal(size=(100, 50))
    >>> array.metadata.codecs
    (Ecuq(bits=6, budget='bytes', tolerance=0.01),)
    """

    name: ClassVar[str] = "docofl_ecuq"
    _kind: ClassVar[Any] = numcodecs.Ecuq
    bits: float = 8.0
    budget: str = "bytes"
    tolerance: float = DEFAULT_TOLERANCE

    def __post_init__(self) -> None:
        assert self._codec is not None  # checks the options


@dataclass(frozen=True)
class Eden(_FrameCodec):
    """EDEN as the serializer of an array; see :class:`docofl_codec.integrations.numcodecs.Eden`."""

    name: ClassVar[str] = "docofl_eden"
    _kind: ClassVar[Any] = numcodecs.Eden
    bits: float = 4.0
    scale: str = "unbiased"
    entropy_coded: bool = False
    seed: int | None = 0

    def __post_init__(self) -> None:
        assert self._codec is not None  # checks the options
