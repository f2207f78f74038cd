"""What a state dict's bytes are spent on, tensor by tensor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from docofl_codec.errors import InvalidInputError
from docofl_codec.state_dict.index import ALIAS, CODED, STORE_NAMES, stored_bytes
from docofl_codec.state_dict.reader import StateDictReader
from docofl_codec.state_dict.source import TensorSource
from docofl_codec.state_dict.tensors import CODED_DTYPES, Memory, widen_bfloat16

__all__ = ["StateDictInfo", "TensorReport", "compare", "describe"]

SLICE = 1 << 20


@dataclass(frozen=True)
class TensorReport:
    """One tensor of a state dict.

    Attributes
    ----------
    name, dtype, shape
        Of the tensor.
    size : int
        Number of coordinates.
    store : str
        ``"coded"``, ``"float16"``, ``"bfloat16"`` (kept at 16 bits), ``"exact"`` or ``"tied"``.
    tied_to : str or None
        The tensor that it shares its values with.
    num_bytes : float
        What it takes; tensors that share a frame have parts of it by their sizes.
    bits : float
        The same in bits a coordinate.
    share : float
        The same as a part of the whole frame, its index included.
    nmse : float or None
        ``|x - x_hat|^2 / |x|^2``, where the original is known; 0 where both are 0.
    error_share : float or None
        Part of the squared error of all tensors, where the original is known.
    step : float or None
        Distance of levels, where it is coded; 0 for explicit levels.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    size: int
    store: str
    tied_to: str | None
    num_bytes: float
    bits: float
    share: float
    nmse: float | None = None
    error_share: float | None = None
    step: float | None = None


@dataclass(frozen=True)
class StateDictInfo:
    """A whole state dict.

    Attributes
    ----------
    tensors : tuple of TensorReport
        In order.
    frame_bytes : int
        Size of the whole.
    index_bytes : int
        Of these, all that is no tensor's: names, shapes, checksums.
    size : int
        Number of coordinates, tied ones once.
    bits_per_coordinate : float
        ``8 * frame_bytes / size``; 0 where there are none.
    budget_bits : float
        What was asked for.
    framework : str
        Where the tensors came from.
    flat : bool
        Whether it was coded as one flat vector.
    nmse : float or None
        Of all floating-point tensors together, where the original is known.
    """

    tensors: tuple[TensorReport, ...]
    frame_bytes: int
    index_bytes: int
    size: int
    bits_per_coordinate: float
    budget_bits: float
    framework: str
    flat: bool
    nmse: float | None = None


def describe(
    reader: StateDictReader, errors: Sequence[tuple[float, float]] | None = None
) -> StateDictInfo:
    """Report on a state dict; `errors` are squared errors and squared norms, tensor by tensor."""
    index = reader.index
    held = [0] * len(index.sections)
    for entry in index.entries:
        if entry.store == CODED:
            held[entry.place] += entry.spec.size
        elif entry.store != ALIAS:
            held[entry.place] += stored_bytes(entry)
    frames = {entry.place for entry in index.entries if entry.store == CODED}
    steps = {place: reader.frame_info(place).step for place in frames}
    all_errors = sum(error for error, _ in errors) if errors is not None else 0.0
    reports = []
    for number, entry in enumerate(index.entries):
        spec, taken = entry.spec, 0.0
        if entry.store != ALIAS and held[entry.place]:
            part = spec.size if entry.store == CODED else stored_bytes(entry)
            taken = index.sections[entry.place].num_bytes * part / held[entry.place]
        nmse = error_share = None
        if errors is not None:
            error, norm = errors[number]
            nmse = _ratio(error, norm)
            error_share = error / all_errors if all_errors else 0.0
        reports.append(
            TensorReport(
                name=spec.name,
                dtype=spec.dtype,
                shape=spec.shape,
                size=spec.size,
                store=STORE_NAMES[entry.store],
                tied_to=spec.alias_of,
                num_bytes=taken,
                bits=8 * taken / spec.size if spec.size else 0.0,
                share=taken / reader.num_bytes,
                nmse=nmse,
                error_share=error_share,
                step=steps.get(entry.place) if entry.store == CODED else None,
            )
        )
    size = sum(report.size for report in reports if report.tied_to is None)
    total_nmse = None
    if errors is not None:
        total_nmse = _ratio(all_errors, sum(norm for _, norm in errors))
    return StateDictInfo(
        tensors=tuple(reports),
        frame_bytes=reader.num_bytes,
        index_bytes=reader.num_bytes - sum(section.num_bytes for section in index.sections),
        size=size,
        bits_per_coordinate=8 * reader.num_bytes / size if size else 0.0,
        budget_bits=index.bits,
        framework="torch" if index.from_torch else "numpy",
        flat=index.flat,
        nmse=total_nmse,
    )


def compare(original: TensorSource, reader: StateDictReader) -> Iterator[tuple[float, float]]:
    """Yield squared error and squared norm of each tensor; tied ones and integers have none.

    Raises
    ------
    InvalidInputError
        Where the two do not hold the same tensors, or an exact one differs.
    """
    theirs = {spec.name: number for number, spec in enumerate(original.specs)}
    ours = [spec.name for spec in reader.specs]
    if set(theirs) != set(ours):
        odd = sorted(set(theirs) ^ set(ours))[:5]
        raise InvalidInputError(f"tensors: found in one of the two only: {', '.join(odd)}")
    for number, entry in enumerate(reader.index.entries):
        spec = entry.spec
        other = original.specs[theirs[spec.name]]
        if (other.dtype, other.shape) != (spec.dtype, spec.shape):
            raise InvalidInputError(
                f"tensor {spec.name!r}: found {spec.dtype} {spec.shape}, "
                f"expected {other.dtype} {other.shape}"
            )
        if entry.store == ALIAS:
            yield 0.0, 0.0
            continue
        restored = reader.load(number)
        yield _errors(spec.name, original.load(theirs[spec.name]), restored)


def _errors(name: str, memory: Memory, restored: Memory) -> tuple[float, float]:
    if memory.dtype not in CODED_DTYPES:
        if not np.array_equal(memory.as_bytes(), restored.as_bytes()):
            raise InvalidInputError(f"tensor {name!r}: differs, though it was kept exactly")
        return 0.0, 0.0
    error = norm = 0.0
    for begin in range(0, memory.flat.size, SLICE):
        x, x_hat = _doubles(memory, begin), _doubles(restored, begin)
        finite = np.isfinite(x)
        if not finite.all():
            if not np.array_equal(x[~finite], x_hat[~finite], equal_nan=True):
                raise InvalidInputError(
                    f"tensor {name!r}: differs in values that are not finite, which are kept"
                )
            x, x_hat = x[finite], x_hat[finite]
        difference = x_hat - x
        error += float(difference @ difference)
        norm += float(x @ x)
    return error, norm


def _doubles(memory: Memory, begin: int) -> npt.NDArray[np.float64]:
    part = memory.flat[begin : begin + SLICE]
    return (widen_bfloat16(part) if memory.dtype == "bfloat16" else part).astype(np.float64)


def _ratio(error: float, norm: float) -> float:
    if error == 0:
        return 0.0
    return error / norm if norm else float("inf")
