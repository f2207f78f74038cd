"""Algorithms 1 and 2 together, in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from docofl_codec.framework.client import Client
from docofl_codec.framework.errors import StaleAnchorError
from docofl_codec.framework.server import RoundReport, Server
from docofl_codec.framework.vectors import Vector

__all__ = ["run"]


def run(
    server: Server, train: Callable[[int, int, Vector], Any], num_rounds: int
) -> Iterator[RoundReport]:
    """Train for some rounds; yield a report of each.

    Parameters
    ----------
    server : Server
        At the round to start with. Its weights change.
    train : callable
        ``train(client, round, estimate)`` returns the client's update, new weights less old ones.
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
    holding: dict[tuple[int, int], Client] = {}  # by client and participation round
    for _ in range(num_rounds):
        # Anchor deployment.
        server.deploy()

        # Client participation process: who is told now fetches the latest anchor.
        for notification in server.notify():
            client = Client(
                notification.client,
                server.anchor_codec,
                server.correction_codec,
                server.update_codec,
                server.seed,
            )
            anchor = server.anchor(client.id)
            client.receive_anchor(anchor.id, anchor.frame)
            holding[client.id, notification.participation_round] = client

        # Optimization.
        t = server.round
        for client_id in sorted(server.participation.participants(t)):
            client = holding.pop((client_id, t))
            correction = _correction(server, client)
            update = client.participate(t, correction, partial(train, client_id, t))
            server.receive(client_id, update, round_number=t)
        yield server.finish_round()


def _correction(server: Server, client: Client) -> bytes:
    """Ask for the correction; an anchor that was pushed out meanwhile is replaced."""
    assert client.anchor_id is not None
    try:
        return server.correction(client.id, client.anchor_id)
    except StaleAnchorError:
        anchor = server.anchor(client.id)
        client.receive_anchor(anchor.id, anchor.frame)
        return server.correction(client.id, anchor.id)
