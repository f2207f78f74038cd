"""Flower's nodes as the framework's clients: numbers, what each holds, messages on their way."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid

from docofl_codec.errors import CodecError
from docofl_codec.framework.anchors import Anchor
from docofl_codec.integrations.flower.store import KEPT
from docofl_codec.integrations.flower.wire import (
    ANCHOR_ACTION,
    FRAMES,
    HEADER,
    digest_of,
    frames_record,
    header_record,
    read_header,
)

__all__ = ["GRACE_SECONDS", "Node", "Nodes", "collect", "report_of"]

QUERY = f"{MessageType.QUERY}.{ANCHOR_ACTION}"
GRACE_SECONDS = 10.0  # for a node that has just come to introduce itself
POLL_SECONDS = (0.05, 1.0)  # at first, and at most

logger = logging.getLogger("flwr")


@dataclass
class Node:
    """What the server knows of a client.

    Attributes
    ----------
    client : int
        Its number, i.
    node_id : int
        Where it is reached.
    partition : int or None
        What it calls itself.
    is_connected : bool
        Whether the engine lists it.
    held : list of str
        Digests of the anchors that it last said to hold, oldest first.
    sent : list of str
        Digests of anchors sent since, which it may hold or not.
    pending : str or None
        The id of an anchor message that it has not answered.
    """

    client: int
    node_id: int
    partition: int | None
    is_connected: bool = True
    held: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    pending: str | None = None

    @property
    def certain(self) -> list[str]:
        """The anchors that it holds whatever became of those sent since, oldest first."""
        certain = KEPT - len(self.sent)
        return self.held[-certain:] if certain > 0 else []

    def note(self, report: Mapping[str, Any]) -> None:
        """Take over what the node says to hold."""
        holds = report.get("holds")
        if isinstance(holds, list):
            self.held = [digest for digest in holds[-KEPT:] if isinstance(digest, str)]
            self.sent.clear()


class Nodes:
    """The nodes of a run, numbered so that a run can be repeated.

    Node ids are random. Those that are there at first are numbered by the partition that they say
    to have; a node that comes later gets the next number, or that of the same partition's node
    where that is gone (a restarted SuperNode has a new id).
    """

    def __init__(self) -> None:
        self._nodes: list[Node] = []  # by number
        self._by_id: dict[int, Node] = {}
        self._asked: dict[int, str] = {}  # node ids whose introduction is on its way
        self._digests: dict[int, str] = {}  # by anchor id
        self.complaints: dict[int, str] = {}  # of nodes that could not introduce themselves

    def __getitem__(self, client: int) -> Node:
        return self._nodes[client]

    def connected(self) -> list[int]:
        """Return the numbers of the nodes that are there."""
        return [node.client for node in self._nodes if node.is_connected]

    def refresh(self, grid: Grid, timeout: float) -> None:
        """Find out which nodes are there; ask new ones who they are."""
        ids = set(grid.get_node_ids())
        for node in self._nodes:
            node.is_connected = node.node_id in ids
        self._asked = {node_id: sent for node_id, sent in self._asked.items() if node_id in ids}
        for node_id in sorted(ids - set(self._by_id) - set(self._asked)):
            message = Message(RecordDict({HEADER: header_record({})}), node_id, QUERY)
            message_id = push(grid, message)
            if message_id is not None:
                self._asked[node_id] = message_id
        if not self._asked:
            return
        patience = min(timeout, GRACE_SECONDS) if self._nodes else timeout
        replies = collect(grid, self._asked.values(), patience)
        new = []
        for node_id, message_id in list(self._asked.items()):
            if message_id not in replies:
                continue
            del self._asked[node_id]
            report, complaint = report_of(replies[message_id])
            if complaint:
                self.complaints[node_id] = complaint
                continue
            partition = report.get("partition")
            is_number = isinstance(partition, int) and not isinstance(partition, bool)
            new.append((partition if is_number else None, node_id, report))
        for partition, node_id, report in sorted(new, key=_order):
            self._introduce(node_id, partition).note(report)

    def send_anchor(self, grid: Grid, client: int, anchor: Anchor, size: int) -> bool:
        """Send an anchor ahead; tell whether that could be done."""
        node = self._nodes[client]
        content = RecordDict(
            {HEADER: header_record({}), FRAMES: frames_record(size, anchor=anchor.frame)}
        )
        node.pending = push(grid, Message(content, node.node_id, QUERY))
        if node.pending is None:
            return False
        self.note_sent(client, anchor)
        return True

    def note_sent(self, client: int, anchor: Anchor) -> None:
        """Note that a client may hold an anchor from now on."""
        self._nodes[client].sent.append(self.digest(anchor))

    def digest(self, anchor: Anchor) -> str:
        """Return an anchor's name on the wire."""
        if anchor.id not in self._digests:
            self._digests[anchor.id] = digest_of(anchor.frame)
        return self._digests[anchor.id]

    def settle(
        self, grid: Grid, clients: Iterable[int], timeout: float, *, give_up: bool = False
    ) -> None:
        """Wait for the answers to anchors: a node gets one message at a time.

        Parameters
        ----------
        grid, clients
            Where and whose.
        timeout : float
            The longest time, in seconds.
        give_up : bool, default False
            Expect no answer any more after that.
        """
        waiting = [self._nodes[client] for client in clients if self._nodes[client].pending]
        ids = [node.pending for node in waiting if node.pending is not None]
        replies = collect(grid, ids, timeout)
        for node in waiting:
            reply = replies.get(node.pending or "")
            if reply is None:
                node.pending = None if give_up else node.pending
                continue
            node.pending = None
            report, complaint = report_of(reply)
            if complaint:
                logger.warning("docofl: client %d got no anchor: %s", node.client, complaint)
            node.note(report)

    def settle_ids(self, grid: Grid, node_ids: set[int], timeout: float) -> None:
        """Do that for nodes by their ids."""
        known = [node.client for node in self._nodes if node.node_id in node_ids]
        self.settle(grid, known, timeout)

    def usable(self, client: int) -> int | None:
        """Return the id of the newest anchor that a client surely holds."""
        certain = set(self._nodes[client].certain)
        known = (anchor_id for anchor_id, digest in self._digests.items() if digest in certain)
        return max(known, default=None)

    def has(self, client: int, anchor: Anchor) -> bool:
        """Tell whether an anchor need not be sent: the client has it or it is on its way."""
        node = self._nodes[client]
        digest = self.digest(anchor)
        return digest in node.certain or (node.pending is not None and digest in node.sent)

    def _introduce(self, node_id: int, partition: int | None) -> Node:
        for node in self._nodes:
            if partition is not None and node.partition == partition and not node.is_connected:
                del self._by_id[node.node_id]
                break
        else:
            node = Node(len(self._nodes), node_id, partition)
            self._nodes.append(node)
        node.node_id, node.is_connected, node.pending = node_id, True, None
        node.held, node.sent = [], []
        self._by_id[node_id] = node
        return node


def _order(item: tuple[int | None, int, Any]) -> tuple[bool, int, int]:
    partition, node_id, _ = item
    return partition is None, partition or 0, node_id


def report_of(reply: Message) -> tuple[dict[str, Any], str]:
    """Return the header of an answer and what is wrong with it, if anything."""
    if reply.has_error():
        return {}, reply.error.reason or f"error {reply.error.code}"
    try:
        report = read_header(reply.content)
    except CodecError as error:
        return {}, str(error)
    if report is None:
        return {}, f"{HEADER}: found no header, expected docofl_mod among the ClientApp's mods"
    return report, ""


def push(grid: Grid, message: Message) -> str | None:
    """Send a message without waiting; return its id, or None where it cannot be sent."""
    ids = list(grid.push_messages([message]))
    return ids[0] if ids else None


def collect(grid: Grid, message_ids: Iterable[str], timeout: float) -> dict[str, Message]:
    """Wait for answers, at most for a time; return them by the id of the message."""
    missing = set(message_ids)
    found: dict[str, Message] = {}
    end = time.monotonic() + timeout
    pause, longest = POLL_SECONDS
    while missing:
        for reply in grid.pull_messages(missing):
            found[reply.metadata.reply_to_message_id] = reply
        missing -= set(found)
        left = end - time.monotonic()
        if not missing or left <= 0:
            break
        time.sleep(min(pause, left))
        pause = min(2 * pause, longest)
    return found
