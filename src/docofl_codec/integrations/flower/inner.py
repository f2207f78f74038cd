"""What the inner strategy wants: options, messages, and which strategies cannot be wrapped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flwr.app import ArrayRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    FedXgbBagging,
    FedXgbCyclic,
    Strategy,
)

from docofl_codec.codec import Codec
from docofl_codec.errors import InvalidInputError

__all__ = ["Population", "Wanted", "check_inner", "option_of"]

CLIPPED_BY_CLIENTS = (
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
)


def option_of(strategy: Any, name: str) -> Any:
    """Return an option of a strategy or, where that wraps another one, of that."""
    for each in _layers(strategy):
        if hasattr(each, name):
            return getattr(each, name)
    return None


def check_inner(inner: Strategy, uplink: Codec) -> None:
    """Refuse strategies that would not do what they promise."""
    for each in _layers(inner):
        name = type(each).__name__
        if isinstance(each, (FedXgbBagging, FedXgbCyclic)):
            raise InvalidInputError(
                f"inner: found {name}, whose models are trees, expected arrays of fixed shapes"
            )
        if isinstance(each, CLIPPED_BY_CLIENTS) and not _never_lengthens(uplink):
            raise InvalidInputError(
                f"uplink: found {uplink!r} with {name}, expected Eden(scale='mse') or Identity(): "
                "other codecs may lengthen what clients have clipped, and the noise would be too "
                "small; or clip on the server"
            )


def _layers(strategy: Any) -> Iterator[Any]:
    """Yield a strategy and those that it wraps."""
    while strategy is not None:
        yield strategy
        strategy = getattr(strategy, "strategy", None)


def _never_lengthens(codec: Codec) -> bool:
    return getattr(codec, "is_lossless", False) or getattr(codec, "scale", None) == "mse"


class Population:
    """The nodes that can be asked, as a grid, and as many more that a strategy need not wait."""

    def __init__(self, grid: Grid, node_ids: list[int], num_needed: int) -> None:
        self._grid = grid
        self._ids = node_ids + list(range(2, 2 + num_needed - len(node_ids)))

    def get_node_ids(self) -> list[int]:
        """Return ids, some of them of nobody."""
        return list(self._ids)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)


class Wanted:
    """The inner strategy's messages of a round.

    Parameters
    ----------
    messages : list of Message
        Where all have the same content, anybody may get it; otherwise each is for its node.
    arrays : ArrayRecord
        The model that they carry.

    Attributes
    ----------
    arrays_key : str
        The name of the model among their records.
    node_ids : list of int or None
        Who takes part, where the messages differ.
    """

    def __init__(self, messages: list[Message], arrays: ArrayRecord) -> None:
        self.arrays_key = _arrays_key(messages[0].content, arrays)
        for message in messages:
            _check(message, self.arrays_key, arrays)
        self._first = messages[0]
        self._by_node = {message.metadata.dst_node_id: message for message in messages}
        is_one = all(_is_same(message, self._first) for message in messages)
        self.node_ids = None if is_one else list(self._by_node)

    def message(self, node_id: int, content: RecordDict) -> Message:
        """Return a message like the inner strategy's to a node, with its other records as well."""
        like = self._by_node.get(node_id, self._first)
        for name, record in like.content.items():
            if name != self.arrays_key:
                content[name] = record
        kind = like.metadata.message_type
        return Message(
            content, node_id, kind, ttl=like.metadata.ttl, group_id=like.metadata.group_id
        )


def _is_same(message: Message, other: Message) -> bool:
    is_same_kind = message.metadata.message_type == other.metadata.message_type
    return is_same_kind and (message.content is other.content or message.content == other.content)


def _arrays_key(content: RecordDict, arrays: ArrayRecord) -> str:
    """Return the name of the record that holds the model."""
    records = content.array_records
    for name, record in records.items():
        if record is arrays:
            return name
    if len(records) == 1:
        return next(iter(records))
    raise InvalidInputError(
        f"arrays: found {len(records)} records in the inner strategy's messages, expected the model"
    )


def _check(message: Message, key: str, arrays: ArrayRecord) -> None:
    """Refuse a message that is not for training, or with another model than the global one."""
    kind = message.metadata.message_type
    if kind.partition(".")[0] != MessageType.TRAIN:
        raise InvalidInputError(f"inner: found a message of type {kind!r}, expected training")
    model = message.content.get(key)
    if model is not arrays and model != arrays:
        raise InvalidInputError(
            "inner: found a message with another model than the global one, expected that: "
            "all clients' corrections are to one model"
        )
