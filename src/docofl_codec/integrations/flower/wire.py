"""What messages look like: frames as arrays, a model's layout, and a header in JSON.

Records of a message beside the user's own:

====================  ==========================================================================
``docofl``            ConfigRecord with the header
``docofl.frames``     ArrayRecord of frames: ``anchor``, ``correction`` or ``update``
``docofl.exact``      ArrayRecord of the arrays that are sent as they are
====================  ==========================================================================
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from docofl_codec.codec import Codec, codec_from_config
from docofl_codec.errors import InvalidInputError
from docofl_codec.framework.vectors import Vector, as_vector

__all__ = [
    "ANCHOR_ACTION",
    "EXACT",
    "FRAMES",
    "HEADER",
    "STYPE",
    "Layout",
    "check_codec",
    "codec_config",
    "digest_of",
    "frame_of",
    "frames_record",
    "header_record",
    "payload_bytes",
    "read_header",
    "shortened",
]

HEADER = "docofl"
FRAMES = "docofl.frames"
EXACT = "docofl.exact"
ANCHOR_ACTION = "docofl_anchor"
STYPE = "docofl.frame/1"
NUMPY_STYPE = "numpy.ndarray"
MAX_COMPLAINT = 500  # characters of a client in the log
_TEXT = "json"

AnyArray = npt.NDArray[Any]


# --- header --------------------------------------------------------------------------------------


def header_record(fields: Mapping[str, Any]) -> ConfigRecord:
    """Return a header."""
    return ConfigRecord({_TEXT: json.dumps(fields, separators=(",", ":"))})


def read_header(content: RecordDict) -> dict[str, Any] | None:
    """Return a message's header, or None where it has none.

    Raises
    ------
    InvalidInputError
        Where it is not what :func:`header_record` makes.
    """
    record = content.get(HEADER)
    if record is None:
        return None
    text = record.get(_TEXT) if isinstance(record, ConfigRecord) else None
    try:
        fields = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise InvalidInputError(f"{HEADER}: found no header, expected one in JSON")
    return fields


def shortened(complaint: object) -> str:
    """Return what somebody else complains of as one line for the log, cut to a length."""
    text = str(complaint)
    cut = f"{text[:MAX_COMPLAINT]} …" if len(text) > MAX_COMPLAINT else text
    return "".join(c if c.isprintable() else " " for c in cut)


def codec_config(codec: Codec) -> dict[str, Any]:
    """Return a codec as a header has it; how many threads it uses is the reader's affair."""
    return {name: value for name, value in codec.get_config().items() if name != "threads"}


def check_codec(codec: Codec, what: str) -> Codec:
    """Refuse a codec with bad options, or that clients could not make from its configuration."""
    try:
        again = codec_from_config(codec_config(codec))
        again.encode(np.zeros(1, dtype=np.float32), seed=0)
    except InvalidInputError as error:
        raise InvalidInputError(f"{what}: {error}") from None
    if codec_config(again) != codec_config(codec):
        raise InvalidInputError(f"{what}: found {codec!r}, expected a codec of docofl_codec")
    return codec


# --- frames --------------------------------------------------------------------------------------


def digest_of(frame: bytes) -> str:
    """Return an anchor's name: the same in every run, and for one model only."""
    return hashlib.blake2b(frame, digest_size=16).hexdigest()


def frames_record(size: int, **frames: bytes | None) -> ArrayRecord:
    """Return frames of vectors of one size as arrays; those that are None are left out."""
    return ArrayRecord(
        {
            name: Array(dtype="float32", shape=(size,), stype=STYPE, data=frame)
            for name, frame in frames.items()
            if frame is not None
        }
    )


def frame_of(content: RecordDict, name: str) -> bytes | None:
    """Return a frame of a message, or None where it has none of that name."""
    record = content.get(FRAMES)
    array = record.get(name) if isinstance(record, ArrayRecord) else None
    if array is None:
        return None
    if array.stype != STYPE:
        raise InvalidInputError(f"{name}: found stype {array.stype!r}, expected {STYPE!r}")
    return array.data


def payload_bytes(content: RecordDict) -> int:
    """Return the bytes of a message's header and exact arrays, all but frames."""
    total = 0
    header = content.get(HEADER)
    if isinstance(header, ConfigRecord):
        total += sum(len(value) for value in header.values() if isinstance(value, (str, bytes)))
    exact = content.get(EXACT)
    if isinstance(exact, ArrayRecord):
        total += sum(len(array.data) for array in exact.values())
    return total


# --- layout --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """One array of a model; `is_exact` ones are sent as they are, others are in the vector."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    is_exact: bool

    @property
    def size(self) -> int:
        """Number of values."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Layout:
    """Names, dtypes and shapes of a model's arrays.

    Floating-point arrays make up one float32 vector, in order. Whole numbers are exact, and so are
    arrays with names that were asked for: an unbiased estimate of a small variance may be negative.
    """

    entries: tuple[Entry, ...]

    @classmethod
    def of(cls, arrays: ArrayRecord, exact: Sequence[str] = ()) -> Layout:
        """Return the layout of a model; arrays whose names match a pattern are exact."""
        entries = []
        for name, array in arrays.items():
            dtype = np.dtype(array.dtype)
            is_exact = dtype.kind != "f" or dtype.itemsize > 8
            is_exact = is_exact or any(fnmatchcase(name, pattern) for pattern in exact)
            shape = tuple(int(length) for length in array.shape)
            entries.append(Entry(name, array.dtype, shape, is_exact))
        return cls(tuple(entries))

    @classmethod
    def from_header(cls, rows: Any) -> Layout:
        """Return the layout that :meth:`header` described."""
        return cls(
            tuple(Entry(name, dtype, tuple(shape), flag) for name, dtype, shape, flag in rows)
        )

    def header(self) -> list[Any]:
        """Return the layout as JSON has it."""
        return [[e.name, e.dtype, list(e.shape), int(e.is_exact)] for e in self.entries]

    @property
    def size(self) -> int:
        """Of the vector."""
        return sum(entry.size for entry in self.entries if not entry.is_exact)

    def vector(self, arrays: ArrayRecord) -> Vector:
        """Return the arrays of a model that are not exact as a vector.

        Raises
        ------
        InvalidInputError
            Where names or shapes are others, or a value is not finite.
        """
        self._check_names(arrays)
        parts = [
            _values(arrays[entry.name], entry).reshape(-1)
            for entry in self.entries
            if not entry.is_exact
        ]
        flat = np.concatenate(parts) if parts else np.empty(0, dtype=np.float32)
        return as_vector(flat, size=self.size, what="arrays")

    def exact(self, arrays: ArrayRecord, *, convert: bool = False) -> ArrayRecord:
        """Return the arrays that are not part of the vector.

        Parameters
        ----------
        arrays : ArrayRecord
            A model, or its exact arrays alone.
        convert : bool, default False
            Round to the layout's dtype, as averages of whole numbers need it; otherwise another
            dtype is refused.
        """
        found = {}
        for entry in self.entries:
            if not entry.is_exact:
                continue
            array = arrays.get(entry.name)
            if array is None:
                raise InvalidInputError(f"arrays: found no {entry.name!r}, expected one")
            values = _values(array, entry)
            if values.dtype != np.dtype(entry.dtype):
                if not convert:
                    raise InvalidInputError(
                        f"{entry.name}: found dtype {values.dtype}, expected {entry.dtype}"
                    )
                values = _rounded(values, np.dtype(entry.dtype))
            if values.dtype.kind in "fc" and not np.isfinite(values).all():
                raise InvalidInputError(f"{entry.name}: found values that are not finite")
            found[entry.name] = Array(values)
        return ArrayRecord(found)

    def arrays(
        self, vector: Vector, exact: ArrayRecord, *, as_float32: bool = False
    ) -> ArrayRecord:
        """Return a model.

        Parameters
        ----------
        vector : ndarray of float32
            Its floating-point arrays.
        exact : ArrayRecord
            Its other arrays.
        as_float32 : bool, default False
            Leave floating-point arrays in float32, for averages.
        """
        found = {}
        start = 0
        for entry in self.entries:
            if entry.is_exact:
                found[entry.name] = exact[entry.name]
                continue
            values: AnyArray = vector[start : start + entry.size].reshape(entry.shape)
            start += entry.size
            if not as_float32:
                values = _narrowed(values, np.dtype(entry.dtype))
            found[entry.name] = Array(np.ascontiguousarray(values).reshape(entry.shape))
        return ArrayRecord(found)

    def _check_names(self, arrays: ArrayRecord) -> None:
        expected = {entry.name for entry in self.entries}
        if set(arrays) != expected:
            odd = sorted(set(arrays) ^ expected)
            raise InvalidInputError(
                f"arrays: found {len(arrays)} names, expected {len(expected)}; only one of the two "
                f"has {odd[0]!r}"
            )


def _values(array: Array, entry: Entry) -> AnyArray:
    """Return an array's values; refuse another shape and what NumPy cannot read.

    The shape is checked before memory is taken for it.
    """
    try:
        shape = _declared_shape(array.data) if array.stype == NUMPY_STYPE else entry.shape
        values = array.numpy() if shape == entry.shape else None
    except Exception as error:  # whatever the bytes do to NumPy's reader
        raise InvalidInputError(f"{entry.name}: {error}") from None
    if values is None:
        raise InvalidInputError(f"{entry.name}: found shape {shape}, expected {entry.shape}")
    if values.dtype.kind not in "fiub" and np.dtype(entry.dtype).kind in "fiub":
        raise InvalidInputError(f"{entry.name}: found dtype {values.dtype}, expected numbers")
    return values


def _declared_shape(data: bytes) -> tuple[int, ...]:
    """Return the shape in the header of an .npy file."""
    stream = BytesIO(data)
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(stream)[0]
    return np.lib.format.read_array_header_2_0(stream)[0]


def _narrowed(values: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
    """Convert floats; what the dtype cannot hold becomes its largest number."""
    if dtype.itemsize < 4:
        largest = np.finfo(dtype).max
        values = np.clip(values, -largest, largest)
    return values.astype(dtype, copy=False)


def _rounded(values: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
    """Convert averages back to the dtype of what was averaged."""
    if dtype.kind == "b":
        return np.asarray(values >= 0.5)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        whole = np.rint(np.nan_to_num(values.astype(np.float64)))
        # The largest whole number may be no float64: compare there, convert what is in between.
        inside = np.where((whole > limits.min) & (whole < limits.max), whole, 0.0).astype(dtype)
        inside = np.where(whole <= limits.min, dtype.type(limits.min), inside)
        return np.where(whole >= limits.max, dtype.type(limits.max), inside)
    return values.astype(dtype)
