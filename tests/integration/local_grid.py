"""A grid in this process: Flower's own messages, apps and contexts, without an engine between.

Messages are answered when they are pushed, so that tests of faults are fast and repeatable. What
engines do to messages is tested on the engines.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from flwr.supercore.task_identity import TaskIdentity

SUPERLINK = 1
NODE_UNAVAILABLE = 5


@dataclass
class LocalNode:
    """A node with its app; `is_deaf` ones never answer, `is_listed` ones are thought connected."""

    app: ClientApp
    context: Context
    is_listed: bool = True
    is_deaf: bool = False
    messages: list[Message] = field(default_factory=list)


class LocalGrid(Grid):
    """Nodes by random ids."""

    def __init__(self) -> None:
        TaskIdentity.run_id = TaskIdentity.task_id = 1
        TaskIdentity.node_id = SUPERLINK
        self.nodes: dict[int, LocalNode] = {}
        self.replies: dict[str, Message] = {}
        self.pulls_to_wait = 0  # before a reply is there
        self._waited: dict[str, int] = {}
        self._in_flight: dict[int, str] = {}  # node ids with a message that is not answered
        self.down_bytes = self.up_bytes = 0

    def add(self, app: ClientApp, partition: int | None = None, **node_config: Any) -> int:
        """Connect a node; return its id."""
        node_id = random.SystemRandom().randrange(2, 2**63)
        if partition is not None:
            node_config["partition-id"] = partition
        context = Context(1, node_id, node_config, RecordDict(), {})
        self.nodes[node_id] = LocalNode(app, context)
        return node_id

    def by_partition(self, partition: int) -> LocalNode:
        """Return the connected node of a partition."""
        return next(
            node
            for node in self.nodes.values()
            if node.context.node_config.get("partition-id") == partition and node.is_listed
        )

    # --- Flower's interface ----------------------------------------------------------------------

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def create_message(self, *args: Any, **options: Any) -> Message:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        ids = [node_id for node_id, node in self.nodes.items() if node.is_listed]
        random.SystemRandom().shuffle(ids)
        return ids

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        ids = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(uuid4())
            ids.append(message.metadata.message_id)
            self.down_bytes += size_of(message)
            self._deliver(message)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        found = []
        for message_id in list(message_ids):
            self._waited[message_id] = self._waited.get(message_id, 0) + 1
            if message_id in self.replies and self._waited[message_id] > self.pulls_to_wait:
                found.append(self.replies.pop(message_id))
                answered = [n for n, sent in self._in_flight.items() if sent == message_id]
                for node_id in answered:
                    del self._in_flight[node_id]
        return found

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        ids = list(self.push_messages(messages))
        assert timeout is not None
        replies: list[Message] = []
        for _ in range(self.pulls_to_wait + 1):
            replies.extend(self.pull_messages(ids))
        random.SystemRandom().shuffle(replies)
        return replies

    def _deliver(self, message: Message) -> None:
        node = self.nodes.get(message.metadata.dst_node_id)
        if node is None or not node.is_listed:
            reply = Message(Error(NODE_UNAVAILABLE, "Node unavailable"), reply_to=message)
            reply.metadata.__dict__["_src_node_id"] = SUPERLINK
        elif node.is_deaf:
            return
        else:
            # The simulation engine would lose what one of two messages does to the state.
            assert message.metadata.dst_node_id not in self._in_flight
            self._in_flight[message.metadata.dst_node_id] = message.metadata.message_id
            node.messages.append(deepcopy(message))
            # As on the engines: the state of a call that raises is lost.
            context = deepcopy(node.context)
            try:
                reply = node.app(deepcopy(message), context)
                node.context = context
            except Exception as error:
                reply = Message(Error(2, str(error)), reply_to=message)
        self.up_bytes += size_of(reply)
        self.replies[message.metadata.message_id] = deepcopy(reply)


def size_of(message: Message) -> int:
    """Return the bytes of a message's arrays and configuration, as they are sent."""
    if not message.has_content():
        return 0
    arrays = message.content.array_records.values()
    configs = message.content.config_records.values()
    return sum(len(array.data) for record in arrays for array in record.values()) + sum(
        len(value) for record in configs for value in record.values() if isinstance(value, str)
    )


def rounds(strategy: Strategy, grid: Grid, arrays: Any, num_rounds: int, **options: Any) -> Any:
    """Run a strategy; a message that is not answered costs a second."""
    return strategy.start(grid, arrays, num_rounds, timeout=1, **options)
