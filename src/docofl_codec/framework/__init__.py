"""DoCoFL: anchors fetched ahead, small corrections in the round (algorithms 1 and 2 of the paper).

Works with any codec that follows :class:`docofl_codec.Codec` and any training engine: a server
object, a client object and the loop that the paper prints.
"""

from __future__ import annotations

from docofl_codec.framework.anchors import Anchor, AnchorQueue
from docofl_codec.framework.budgets import AdaptiveBudgets
from docofl_codec.framework.checkpoint import load_checkpoint, save_checkpoint
from docofl_codec.framework.client import Client, Trained
from docofl_codec.framework.diagnostics import Estimation
from docofl_codec.framework.errors import (
    CheckpointError,
    DivergenceError,
    FrameworkError,
    ProtocolError,
    StaleAnchorError,
)
from docofl_codec.framework.ledger import Ledger, Link
from docofl_codec.framework.loop import Loop, run
from docofl_codec.framework.messages import Correction, Notification, Update
from docofl_codec.framework.optimizers import SGD, Adagrad, Adam, ServerOptimizer, Yogi
from docofl_codec.framework.participation import (
    ConnectivityClasses,
    ElasticParticipation,
    ParticipationProcess,
    TraceParticipation,
    UniformParticipation,
)
from docofl_codec.framework.seeds import derive_seed
from docofl_codec.framework.server import Outcome, RoundReport, Server
from docofl_codec.framework.theory import Theory

__all__ = [
    "SGD",
    "Adagrad",
    "Adam",
    "AdaptiveBudgets",
    "Anchor",
    "AnchorQueue",
    "CheckpointError",
    "Client",
    "ConnectivityClasses",
    "Correction",
    "DivergenceError",
    "ElasticParticipation",
    "Estimation",
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
    "Theory",
    "TraceParticipation",
    "Trained",
    "UniformParticipation",
    "Update",
    "Yogi",
    "derive_seed",
    "load_checkpoint",
    "run",
    "save_checkpoint",
]
