"""Algorithms 1 and 2 together, in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from docofl_codec.framework.client import Client
from docofl_codec.framework.errors import StaleAnchorError
from docofl_codec.framework.server import RoundReport, Server
from docofl_codec.framework.vectors import Vector

__all__ = ["Loop", "TrainClient", "run"]

# train(client, round, estimate) returns the client's update, new weights less old ones.
TrainClient = Callable[[int, int, Vector], Any]


class Loop:
    """A server and its clients.

    Parameters
    ----------
    server : Server
        At the round to go on with. Its weights change.
    train : callable
        ``train(client, round, estimate)`` returns the client's update, new weights less old ones.

    Attributes
    ----------
    holding : dict
        The id of the anchor that a client has fetched for a round to come, by client and round.
    """

    def __init__(self, server: Server, train: TrainClient) -> None:
        self.server = server
        self.train = train
        self.holding: dict[tuple[int, int], int] = {}

    def step(self) -> RoundReport:
        """Do one round."""
        server = self.server
        t = server.round

        # 1. Anchor deployment.
        server.deploy()

        # 2. Client participation process: who is told now fetches the latest anchor.
        for notification in server.notify():
            key = notification.client, notification.participation_round
            self.holding[key] = server.anchor(notification.client).id

        # 3. Optimization.
        for client_id in sorted(server.participation.participants(t)):
            client = Client(
                client_id,
                server.anchor_codec,
                server.correction_codec,
                server.update_codec,
                server.seed,
            )
            correction = self._join(client, self.holding.pop((client_id, t)))
            update = client.participate(t, correction, partial(self.train, client_id, t))
            server.receive(client_id, update, round_number=t)
        return server.finish_round()

    def _join(self, client: Client, anchor_id: int) -> bytes:
        """Give the client its correction; an anchor that was pushed out meanwhile is replaced."""
        try:
            correction = self.server.correction(client.id, anchor_id)
        except StaleAnchorError:
            anchor_id = self.server.anchor(client.id).id
            correction = self.server.correction(client.id, anchor_id)
        client.receive_anchor(anchor_id, self.server.anchors.get(anchor_id).frame)
        return correction


def run(server: Server, train: TrainClient, num_rounds: int) -> Iterator[RoundReport]:
    """Train for some rounds; yield a report of each.

    Parameters
    ----------
    server, train
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
    loop = Loop(server, train)
    for _ in range(num_rounds):
        yield loop.step()
