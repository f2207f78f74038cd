"""What comes back from training: what a reply must hold, and how large a change may be."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Message, RecordDict

from docofl_codec.errors import InvalidInputError
from docofl_codec.integrations.flower.inner import option_of
from docofl_codec.integrations.flower.nodes import report_of
from docofl_codec.integrations.flower.wire import (
    EXACT,
    FRAMES,
    HEADER,
    Layout,
    frame_of,
    shortened,
)

__all__ = [
    "NormLimits",
    "Reply",
    "common_shape",
    "evaluations",
    "exact_changes",
    "is_missing",
    "read_reply",
    "with_arrays",
]

MAX_WEIGHT = 1 << 53  # of a client in the mean: what double counts exactly


@dataclass(frozen=True)
class Reply:
    """A reply that could be read so far."""

    client: int
    message: Message
    frame: bytes
    exact: ArrayRecord
    metrics_shape: Any


def read_reply(client: int, reply: Message, layout: Layout, inner: Any) -> Reply:
    """Return what a reply holds, or raise CodecError, where it is no good for a strategy."""
    report, complaint = report_of(reply)
    if complaint:
        raise InvalidInputError(complaint)
    if report.get("missing"):
        raise InvalidInputError("anchor: found none after a resynchronisation")
    if report.get("failure"):
        raise InvalidInputError(shortened(report["failure"]))
    frame = frame_of(reply.content, "update")
    if frame is None:
        raise InvalidInputError("update: found none, expected a frame")
    exact = reply.content.get(EXACT, ArrayRecord())
    if not isinstance(exact, ArrayRecord):
        raise InvalidInputError(f"{EXACT}: found no arrays")
    shape = _metrics_shape(reply.content, inner)
    return Reply(client, reply, frame, layout.exact(exact), shape)


def is_missing(reply: Message) -> bool:
    """Tell whether a client says that it has no anchor."""
    report, _ = report_of(reply)
    return bool(report.get("missing"))


def with_arrays(reply: Message, name: str, arrays: ArrayRecord) -> Message:
    """Return a reply as the inner strategy expects it."""
    content = RecordDict({name: arrays})
    for key, record in reply.content.items():
        if key not in (HEADER, FRAMES, EXACT, name) and not isinstance(record, ArrayRecord):
            content[key] = record
    reply.content = content
    return reply


# --- metrics -------------------------------------------------------------------------------------


def _metrics_shape(content: RecordDict, inner: Any, *, is_training: bool = True) -> Any:
    """Return what must be the same in all replies: names and lengths of metrics.

    Raises
    ------
    InvalidInputError
        Where there is not one record, or no usable weight in it.
    """
    records = content.metric_records
    weight_key = option_of(inner, "weighted_by_key")
    if weight_key is None:
        return None
    if len(records) != 1:
        raise InvalidInputError(f"metrics: found {len(records)} records, expected one")
    ((name, record),) = records.items()
    weight = _number(record, weight_key)
    if not 0 < weight <= MAX_WEIGHT:
        raise InvalidInputError(
            f"{weight_key}: found {weight}, expected more than 0, at most {MAX_WEIGHT}"
        )
    loss_key = option_of(inner, "train_loss_key")  # QFedAvg raises it to a power
    if is_training and loss_key in record and not 0 <= _number(record, loss_key) <= MAX_WEIGHT:
        raise InvalidInputError(f"{loss_key}: found {record[loss_key]}, expected 0 to {MAX_WEIGHT}")
    for key, value in record.items():
        values = value if isinstance(value, list) else [value]
        if not all(isinstance(number, int) or math.isfinite(number) for number in values):
            raise InvalidInputError(f"{key}: found {value}, expected finite numbers")
    lengths = [
        (key, len(value) if isinstance(value, list) else None) for key, value in record.items()
    ]
    return name, tuple(sorted(lengths))


def _number(record: Mapping[str, Any], key: str) -> float:
    value = record.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInputError(f"{key}: found {type(value).__name__}, expected a number")
    return value


def evaluations(replies: Iterable[Message], inner: Any) -> tuple[list[Message], list[str]]:
    """Return the replies to an evaluation whose metrics can be averaged, and complaints of others.

    Errors are among the former: they are for the inner strategy to count.
    """
    errors, read, complaints = [], [], []
    for reply in replies:
        if reply.has_error():
            errors.append(reply)
            continue
        try:
            shape = _metrics_shape(reply.content, inner, is_training=False)
        except InvalidInputError as error:
            complaints.append(str(error))
        else:
            read.append((shape, reply))
    counts = Counter(shape for shape, _ in read)
    most = counts.most_common(1)[0][0] if counts else None
    complaints += ["metrics: found other ones than most"] * sum(s != most for s, _ in read)
    return [reply for shape, reply in read if shape == most] + errors, complaints


def common_shape(replies: Sequence[Reply], before: Any) -> Any:
    """Return the metrics that replies are to have: those of most, or else of earlier rounds."""
    counts = Counter(reply.metrics_shape for reply in replies)
    if not counts:
        return before
    ((most, count),) = counts.most_common(1)
    return before if counts[before] == count else most


# --- norms ---------------------------------------------------------------------------------------


class NormLimits:
    """How far clients may move the model: so many times as far as most of them do.

    The measure is the lower median of a round's norms that are not zero, or that of an earlier
    round where it was larger: norms shrink while a model converges. Where a single client is all
    there is to go by, the measure is the model's own norm, unless that is zero.

    Parameters
    ----------
    ratio : float or None
        Norms over the median; None sets no limit.

    Examples
    --------
    >>> limits = NormLimits(100)
    >>> limits.complaints([{"update": 1.0}, {"update": 1e30}, {"update": 2.0}], {"update": 9.0})
    ['', 'update: found a norm of 1e+30, expected at most 100 times 2, as most have', '']
    """

    def __init__(self, ratio: float | None) -> None:
        self._ratio = ratio
        self._measures: dict[str, float] = {}

    def complaints(
        self, norms: Sequence[Mapping[str, float]], model: Mapping[str, float]
    ) -> list[str]:
        """Return what is too large, for each client of a round, or nothing.

        Parameters
        ----------
        norms : sequence of mapping
            Of the clients' changes, by name.
        model : mapping
            Norms of what they change.
        """
        if self._ratio is None:
            return [""] * len(norms)
        for name, size in model.items():
            found = sorted(each[name] for each in norms if each[name] > 0)
            if not found:
                continue
            measure = found[(len(found) - 1) // 2]
            if len(found) == 1 and (known := self._measures.get(name, size)) > 0:
                measure = min(measure, known)
            self._measures[name] = max(self._measures.get(name, 0.0), measure)
        return [self._complaint(each, self._ratio) for each in norms]

    def _complaint(self, norms: Mapping[str, float], ratio: float) -> str:
        for name, norm in norms.items():
            measure = self._measures.get(name, 0.0)
            if norm > ratio * measure:
                return (
                    f"{name}: found a norm of {norm:.4g}, expected at most {ratio:g} times "
                    f"{measure:.4g}, as most have"
                )
        return ""


def exact_changes(before: ArrayRecord | None, after: ArrayRecord) -> dict[str, float]:
    """Return how far each exact array of floats has moved, or its norm: by name."""
    found = {}
    for name, array in after.items():
        values = array.numpy()
        if values.dtype.kind == "f":
            change = values.astype(np.float64)
            with np.errstate(over="ignore"):
                if before is not None:
                    change -= before[name].numpy()
                found[f"exact array {name}"] = float(np.linalg.norm(change))
    return found
