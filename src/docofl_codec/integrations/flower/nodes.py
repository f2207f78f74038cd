"""Flower's nodes as the framework's clients: numbers, what each holds, messages on their way."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
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
    shortened,
)

__all__ = ["Node", "Nodes", "report_of"]

QUERY = f"{MessageType.QUERY}.{ANCHOR_ACTION}"
POLL_SECONDS = (0.05, 1.0)  # at first, and at most
SLOWER = 10  # times the longest answer so far: a node that takes more has nothing to say
MAX_PAUSE = 64  # rounds between two questions to a silent node
MAX_QUESTIONS = 64  # whose answers are waited for
MAX_ABSENCE = 100  # rounds after which a node is forgotten
DIGEST_LENGTH = len(digest_of(b""))

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
    is_silent : bool
        Whether it has left a message unanswered, and not said a word since.
    held : list of str
        Digests of the anchors that it last said to hold, oldest first.
    sent : list of str
        Digests of anchors sent since, which it may hold or not.
    pending : str or None
        The id of an anchor message that it has not answered.
    answered : set of str
        Types of messages that it has answered.
    misses : Counter
        How many messages of a type it has left unanswered since it last answered one.
    absence : int
        Rounds since it was connected.
    """

    client: int
    node_id: int
    partition: int | None
    is_connected: bool = True
    is_silent: bool = False
    held: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    pending: str | None = None
    answered: set[str] = field(default_factory=set)
    misses: Counter[str] = field(default_factory=Counter)
    absence: int = 0

    @property
    def is_there(self) -> bool:
        """Whether it can be asked."""
        return self.is_connected and not self.is_silent

    @property
    def certain(self) -> list[str]:
        """The anchors that it holds whatever became of those sent since, oldest first."""
        certain = KEPT - len(self.sent)
        return self.held[-certain:] if certain > 0 else []

    def note(self, report: Mapping[str, Any]) -> None:
        """Take over what the node says to hold."""
        holds = report.get("holds")
        if isinstance(holds, list):
            self.held = [
                digest
                for digest in holds[-KEPT:]
                if isinstance(digest, str) and len(digest) == DIGEST_LENGTH
            ]
            self.sent.clear()


@dataclass
class _Question:
    """Who are you? To a node that is new or silent; repeated at growing distances.

    A node may start a process for each: while a round waits, it is not put again too soon.
    """

    is_new: bool
    pause: int  # rounds until it is put again
    next_pause: int = 1
    put_at: float = field(default_factory=time.monotonic)
    message_ids: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Awaited:
    """A message on its way."""

    node: Node | None
    kind: str
    sent: float
    until: float


class Nodes:
    """The nodes of a run, numbered so that a run can be repeated.

    Node ids are random. Those that are there at first are numbered by the partition that they say
    to have; a node that comes later gets the next number, or that of the same partition's node
    where that is gone (a restarted SuperNode has a new id). A node that leaves a message unanswered
    is left alone, but for a question at growing distances, until it answers that.

    Parameters
    ----------
    patience : float
        How long a node may take to answer where it need not train, in seconds.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._nodes: dict[int, Node] = {}  # by number, in order
        self._num_numbers = 0
        self._questions: dict[int, _Question] = {}  # by node id
        self._digests: dict[int, str] = {}  # by anchor id
        self._longest: dict[str, float] = {}  # answer to a type of message, in seconds
        self.complaints: dict[int, str] = {}  # of nodes that could not introduce themselves

    def __getitem__(self, client: int) -> Node:
        return self._nodes[client]

    def there(self) -> list[int]:
        """Return the numbers of the nodes that can be asked."""
        return [node.client for node in self._nodes.values() if node.is_there]

    @property
    def is_waiting(self) -> bool:
        """Whether a node has not yet said anything."""
        return any(node_id not in self.complaints for node_id in self._questions)

    # --- who is there --------------------------------------------------------------------------

    def refresh(self, grid: Grid, timeout: float, *, is_new_round: bool = True) -> None:
        """Find out which nodes are there; wait for new ones to introduce themselves.

        Parameters
        ----------
        grid
            Where.
        timeout : float
            The longest time, in seconds.
        is_new_round : bool, default True
            Whether a round has begun since the last call, or one is waiting.
        """
        ids = set(grid.get_node_ids())
        for node in self._nodes.values():
            node.is_connected = node.node_id in ids
        for table in (self._questions, self.complaints):
            for node_id in table.keys() - ids:
                del table[node_id]
        there = {node.node_id for node in self._nodes.values() if node.is_there}
        self._ask(grid, sorted(ids - there), is_new_round)

        questions = self._questions
        asked = {sent: node_id for node_id, q in questions.items() for sent in q.message_ids}
        urgent = {sent for sent, node_id in asked.items() if questions[node_id].is_new}
        for question in questions.values():
            question.is_new = False
        new = []
        for sent, reply in collect(grid, asked, timeout, urgent).items():
            node_id = asked[sent]
            if node_id not in questions:  # answered already
                continue
            report, complaint = report_of(reply)
            if complaint:
                self.complaints[node_id] = complaint
                questions[node_id].message_ids.remove(sent)
                continue
            del questions[node_id]
            self.complaints.pop(node_id, None)
            partition = report.get("partition")
            is_number = isinstance(partition, int) and not isinstance(partition, bool)
            new.append((partition if is_number else None, node_id, report))
        for partition, node_id, report in sorted(new, key=_order):
            self._introduce(node_id, partition).note(report)

    def prune(self, horizon: int) -> list[int]:
        """Forget nodes that have been away for many rounds; return their numbers.

        Parameters
        ----------
        horizon : int
            Rounds for which a node may have been planned.
        """
        for node in self._nodes.values():
            node.absence = 0 if node.is_connected else node.absence + 1
        gone = [n.client for n in self._nodes.values() if n.absence > MAX_ABSENCE + horizon]
        for client in gone:
            del self._nodes[client]
        return gone

    def lose(self, node: Node, kind: str) -> None:
        """Leave a node alone that has not answered a message of some type."""
        logger.warning(
            "docofl: client %d does not answer, and is not asked until it does", node.client
        )
        node.is_silent, node.pending = True, None
        node.misses[kind] += 1
        pause = min(2 ** (max(node.misses.values()) - 1) - 1, MAX_PAUSE)
        self._questions[node.node_id] = _Question(False, pause)

    def _ask(self, grid: Grid, node_ids: Iterable[int], is_new_round: bool) -> None:
        """Put the questions that are due."""
        now = time.monotonic()
        for node_id in node_ids:
            if node_id not in self._questions:
                self._questions[node_id] = _Question(True, 0)
                is_due = True
            else:
                question = self._questions[node_id]
                is_due = question.pause <= 0
                if is_new_round:
                    question.pause -= 1
                else:
                    is_due = now - question.put_at >= self._patience
            if not is_due:
                continue
            question = self._questions[node_id]
            question.put_at = now
            question.pause = question.next_pause - 1
            question.next_pause = min(2 * question.next_pause, MAX_PAUSE)
            content = RecordDict({HEADER: header_record({})})
            message_id = push(grid, Message(content, node_id, QUERY))
            if message_id is not None:
                question.message_ids = [*question.message_ids[1 - MAX_QUESTIONS :], message_id]

    def _introduce(self, node_id: int, partition: int | None) -> Node:
        """Return the node of an id, or of a partition whose node is gone, or a new one."""
        known = self._nodes.values()
        node = next((node for node in known if node.node_id == node_id), None)
        if node is None and partition is not None:
            node = next((n for n in known if n.partition == partition and not n.is_there), None)
        if node is None:
            node = Node(self._num_numbers, node_id, partition)
            self._nodes[node.client] = node
            self._num_numbers += 1
        if node.node_id != node_id:
            self._questions.pop(node.node_id, None)
            node.node_id = node_id
            node.answered, node.misses = set(), Counter()
        node.is_connected, node.is_silent, node.absence, node.pending = True, False, 0, None
        node.misses.pop(QUERY, None)
        node.held, node.sent = [], []
        return node

    # --- anchors -------------------------------------------------------------------------------

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

    def forget_anchors(self, kept: Iterable[Anchor]) -> None:
        """Forget all anchors but some."""
        ids = {anchor.id for anchor in kept}
        self._digests = {key: digest for key, digest in self._digests.items() if key in ids}

    def settle(
        self, grid: Grid, clients: Iterable[int], timeout: float, *, is_last: bool = True
    ) -> None:
        """Wait for the answers to anchors: a node gets one message at a time.

        Parameters
        ----------
        grid, clients
            Where and whose.
        timeout : float
            The longest time, in seconds.
        is_last : bool, default True
            Whether a node that has not answered then counts as silent.
        """
        nodes = [self._nodes[client] for client in clients]
        waiting = {node.pending: node for node in nodes if node.pending is not None}
        replies = collect(grid, waiting, timeout)
        for message_id, node in waiting.items():
            reply = replies.get(message_id)
            if reply is None:
                if is_last:
                    self.lose(node, QUERY)
                continue
            node.pending = None
            node.misses.pop(QUERY, None)
            report, complaint = report_of(reply)
            if complaint:
                logger.warning("docofl: client %d got no anchor: %s", node.client, complaint)
            node.note(report)

    def settle_ids(self, grid: Grid, node_ids: Iterable[int], timeout: float) -> set[int]:
        """Do that for nodes by their ids; return those of them that are silent."""
        by_id = {node.node_id: node for node in self._nodes.values()}
        known = [by_id[node_id] for node_id in node_ids if node_id in by_id]
        self.settle(grid, [node.client for node in known], timeout)
        return {node.node_id for node in known if node.is_silent}

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

    # --- messages that take their time ---------------------------------------------------------

    def exchange(
        self,
        grid: Grid,
        messages: Iterable[Message],
        timeout: float | None,
        follow_up: Callable[[Message], Message | None] | None = None,
    ) -> list[Message]:
        """Send messages and return the replies, waiting for no node for too long.

        A node that has answered such messages before gets ten times as long as the longest answer
        of anybody so far, and at least the patience; twice that for each message that it has left
        unanswered since. One that has not gets all the time.

        Parameters
        ----------
        grid, messages
            What to send where.
        timeout : float or None
            The longest time for all, in seconds.
        follow_up : callable, optional
            From a reply to a message that the node gets in return, or None where that was all.
        """
        end = time.monotonic() + (math.inf if timeout is None else timeout)
        by_id = {node.node_id: node for node in self._nodes.values()}
        waiting: dict[str, _Awaited] = {}
        replies: list[Message] = []

        def send(batch: list[Message]) -> None:
            now = time.monotonic()
            for message, message_id in zip(batch, grid.push_messages(batch), strict=False):
                if message_id:
                    node = by_id.get(message.metadata.dst_node_id)
                    kind = message.metadata.message_type
                    until = min(end, now + self._allowance(node, kind))
                    waiting[message_id] = _Awaited(node, kind, now, until)

        send(list(messages))
        pause, longest_pause = POLL_SECONDS
        while waiting:
            for reply in grid.pull_messages(list(waiting)):
                awaited = waiting.pop(reply.metadata.reply_to_message_id, None)
                if awaited is None:
                    continue
                self._book(awaited, reply)
                is_over = time.monotonic() >= end
                message = None if follow_up is None or is_over else follow_up(reply)
                if message is None:
                    replies.append(reply)
                else:
                    send([message])
            now = time.monotonic()
            for message_id in [key for key, awaited in waiting.items() if awaited.until <= now]:
                node = waiting[message_id].node
                if node is not None:
                    self.lose(node, waiting[message_id].kind)
                del waiting[message_id]
            if waiting:
                time.sleep(min(pause, min(awaited.until for awaited in waiting.values()) - now))
                pause = min(2 * pause, longest_pause)
        return replies

    def _allowance(self, node: Node | None, kind: str) -> float:
        if node is None or kind not in node.answered:
            return math.inf
        usual = max(self._patience, SLOWER * self._longest.get(kind, 0.0))
        return usual * 2.0 ** min(node.misses[kind], MAX_PAUSE)

    def _book(self, awaited: _Awaited, reply: Message) -> None:
        """Note how long an answer has taken; a complaint says nothing about training."""
        node, kind = awaited.node, awaited.kind
        if node is None or reply.metadata.src_node_id != node.node_id:
            return
        node.misses.pop(kind, None)
        is_training = kind.partition(".")[0] == MessageType.TRAIN
        if reply.has_error() or (is_training and FRAMES not in reply.content):
            return
        node.answered.add(kind)
        self._longest[kind] = max(self._longest.get(kind, 0.0), time.monotonic() - awaited.sent)


def _order(item: tuple[int | None, int, Any]) -> tuple[bool, int, int]:
    partition, node_id, _ = item
    return partition is None, partition or 0, node_id


def report_of(reply: Message) -> tuple[dict[str, Any], str]:
    """Return the header of an answer and what is wrong with it, if anything."""
    if reply.has_error():
        return {}, shortened(reply.error.reason or f"error {reply.error.code}")
    try:
        report = read_header(reply.content)
    except CodecError as error:
        return {}, shortened(error)
    if report is None:
        return {}, f"{HEADER}: found no header, expected docofl_mod among the ClientApp's mods"
    return report, ""


def push(grid: Grid, message: Message) -> str | None:
    """Send a message without waiting; return its id, or None where it cannot be sent."""
    ids = list(grid.push_messages([message]))
    return ids[0] if ids else None


def collect(
    grid: Grid, message_ids: Iterable[str], timeout: float, urgent: set[str] | None = None
) -> dict[str, Message]:
    """Wait for answers, at most for a time; return them by the id of the message.

    Parameters
    ----------
    grid, message_ids
        Answers to what.
    timeout : float
        The longest time, in seconds.
    urgent : set of str, optional
        The messages whose answers are waited for; by default all.
    """
    missing = set(message_ids)
    urgent = set(missing) if urgent is None else set(urgent)
    found: dict[str, Message] = {}
    end = time.monotonic() + timeout
    pause, longest = POLL_SECONDS
    while missing:
        for reply in grid.pull_messages(list(missing)):
            found[reply.metadata.reply_to_message_id] = reply
        missing -= set(found)
        urgent -= set(found)
        left = end - time.monotonic()
        if not urgent or left <= 0:
            break
        time.sleep(min(pause, left))
        pause = min(2 * pause, longest)
    return found
