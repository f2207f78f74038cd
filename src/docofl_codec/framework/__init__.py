"""DoCoFL: anchors fetched ahead, small corrections in the round (algorithms 1 and 2 of the paper).

Works with any codec that follows :class:`docofl_codec.Codec` and any training engine: a server
object, a client object and the loop that the paper prints.
"""

from __future__ import annotations

from docofl_codec.framework.anchors import Anchor, AnchorQueue
from docofl_codec.framework.checkpoint import load_checkpoint, save_checkpoint
from docofl_codec.framework.client import Client
from docofl_codec.framework.errors import (
    CheckpointError,
    FrameworkError,
    ProtocolError,
    StaleAnchorError,
)
from docofl_codec.framework.ledger import Ledger, Link
from docofl_codec.framework.loop import Loop, run
from docofl_codec.framework.optimizers import SGD, Adagrad, Adam, ServerOptimizer, Yogi
from docofl_codec.framework.participation import (
    ConnectivityClasses,
    ParticipationProcess,
    UniformParticipation,
)
from docofl_codec.framework.seeds import derive_seed
from docofl_codec.framework.server import Notification, Outcome, RoundReport, Server

__all__ = [
    "SGD",
    "Adagrad",
    "Adam",
    "Anchor",
    "AnchorQueue",
    "CheckpointError",
    "Client",
    "ConnectivityClasses",
    "FrameworkError",
    "Ledger",
    "Link",
    "Loop",
    "Notification",
    "Outcome",
    "ParticipationProcess",
    "ProtocolError",
    "RoundReport",
    "Server",
    "ServerOptimizer",
    "StaleAnchorError",
    "UniformParticipation",
    "Yogi",
    "derive_seed",
    "load_checkpoint",
    "run",
    "save_checkpoint",
]
