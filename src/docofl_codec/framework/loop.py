"""Algorithms 1 and 2 together, in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from docofl_codec.errors import InvalidInputError
from docofl_codec.framework.client import Client
from docofl_codec.framework.messages import Correction, Update
from docofl_codec.framework.server import RoundReport, Server
from docofl_codec.framework.vectors import Vector, as_vector

__all__ = ["Delay", "Loop", "TrainClient", "run"]

# train(client, round, estimate) returns what Client.participate takes from training.
TrainClient = Callable[[int, int, Vector], Any]
# delay(client, round) returns how many rounds late the client's update comes.
Delay = Callable[[int, int], int]


class Loop:
    """A server and its clients.

    Parameters
    ----------
    server : Server
        At the round to go on with. Its weights change.
    train : callable
        ``train(client, round, estimate)`` returns the client's update, new weights less old ones;
        or :class:`Trained`; or None where the client vanishes. An update that is not finite counts
        as dropped.
    delay : callable, optional
        ``delay(client, round)`` returns how many rounds late the update arrives, 0 by default.

    Attributes
    ----------
    holding : dict
        The id of the anchor that a client has fetched for a round to come, by client and round.
    on_the_way : list
        Late updates with the rounds in which they arrive.
    memories : dict
        What the server knows of each client's update, with EF21-PP.
    """

    def __init__(self, server: Server, train: TrainClient, *, delay: Delay | None = None) -> None:
        self.server = server
        self.train = train
        self.delay = delay
        self.holding: dict[tuple[int, int], int] = {}
        self.on_the_way: list[tuple[int, Update]] = []
        self.memories: dict[int, Vector] = {}

    def step(self) -> RoundReport:
        """Do one round."""
        server = self.server
        t = server.round

        # 1. Anchor deployment.
        server.deploy(t)

        # 2. Client participation process: who is told now fetches the latest anchor.
        if server.downlink != "direct":
            for told in server.notify(t):
                in_the_round = told.participation_round == t
                anchor = server.anchor(told.client, in_the_round=in_the_round)
                self.holding[told.client, told.participation_round] = anchor.id

        # 3. Optimization: every participant gets its correction, trains and sends its update.
        try:
            self._optimize(t)
        except BaseException:
            server.abandon_round()
            raise

        # 4. Updates of earlier rounds that arrive now.
        self._deliver_late(t)
        self.holding = {key: held for key, held in self.holding.items() if key[1] > t}
        return server.finish_round()

    def config(self) -> dict[str, Any]:
        """Return the options that must not change between saving and resuming."""
        return self.server.config()

    def state(self) -> dict[str, Any]:
        """Return everything that a checkpoint between two rounds needs."""
        return {
            "server": self.server.state(),
            "holding": [[*key, anchor_id] for key, anchor_id in sorted(self.holding.items())],
            "on_the_way": [
                [arrival, u.client, u.round, u.frame, u.num_samples]
                for arrival, u in self.on_the_way
            ],
            "memories": [[client, memory] for client, memory in sorted(self.memories.items())],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` returned."""
        self.server.restore(state["server"])
        self.holding = {(client, t): anchor_id for client, t, anchor_id in state["holding"]}
        self.on_the_way = [(arrival, Update(*fields)) for arrival, *fields in state["on_the_way"]]
        self.memories = {
            client: as_vector(memory, size=self.server.weights.size, what="memory").copy()
            for client, memory in state["memories"]
        }

    def _optimize(self, t: int) -> None:
        taken: list[tuple[Client, Update]] = []
        for client_id in self._in_turn(t):
            client = self._client(client_id)
            correction = self._join(client, self.holding.get((client_id, t)))
            try:
                update = client.participate(correction, partial(self.train, client_id, t))
            except InvalidInputError:
                self.server.drop(client_id)
                continue
            if update is not None and self._send(update) and client.memory is not None:
                taken.append((client, update))
        for client, update in taken:
            client.acknowledge(update)
            assert client.memory is not None
            self.memories[client.id] = client.memory

    def _in_turn(self, t: int) -> list[int]:
        """Return the clients of a round, grouped by anchor: an anchor is decoded once for all."""
        clients = sorted(map(int, self.server.participation.participants(t)))
        latest = self.server.anchors.next_id
        return sorted(clients, key=lambda client: self.holding.get((client, t), latest))

    def _client(self, client_id: int) -> Client:
        server = self.server
        memory = None
        if server.error_feedback_clients is not None:
            if client_id not in self.memories:
                self.memories[client_id] = np.zeros_like(server.weights)
            memory = self.memories[client_id]
        return Client(
            client_id,
            server.anchor_codec,
            server.correction_codec,
            server.update_codec,
            server.seed,
            memory,
        )

    def _join(self, client: Client, anchor_id: int | None) -> Correction:
        """Give the client its anchor and correction; an anchor that is gone is replaced."""
        correction, anchor = self.server.join(client.id, anchor_id)
        if correction.anchor_id is not None:
            anchor = anchor or self.server.anchors.get(correction.anchor_id)
            client.share_anchor(anchor.id, anchor.vector)
        return correction

    def _send(self, update: Update) -> bool:
        """Send an update now or later; tell whether the server has taken it."""
        delay = self.delay(update.client, update.round) if self.delay else 0
        if delay > 0:
            self.on_the_way.append((update.round + delay, update))
            return False
        return self.server.receive(update).accepted

    def _deliver_late(self, round_number: int) -> None:
        arrived = [update for arrival, update in self.on_the_way if arrival <= round_number]
        self.on_the_way = [item for item in self.on_the_way if item[0] > round_number]
        for update in arrived:
            self.server.receive(update)


def run(
    server: Server, train: TrainClient, num_rounds: int, *, delay: Delay | None = None
) -> Iterator[RoundReport]:
    """Train for some rounds; yield a report of each.

    Parameters
    ----------
    server, train, delay
        As for :class:`Loop`.
    num_rounds : int
        T.

    Examples
    --------
    >>> import numpy as np
    >>> from docofl_codec.framework import Server, UniformParticipation
    >>> server = Server(np.zeros(1000), UniformParticipation(20, 5, lead=3))
    >>> goal = np.linspace(-1, 1, 1000, dtype=np.float32)
    >>> for report in run(server, lambda client, t, w: 0.2 * (goal - w), num_rounds=60):
    ...     pass
    >>> bool(np.sqrt(np.mean((server.weights - goal) ** 2)) < 0.1)
    True
    """
    loop = Loop(server, train, delay=delay)
    for _ in range(num_rounds):
        yield loop.step()
