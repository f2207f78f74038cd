"""What can go wrong between server and clients."""

from __future__ import annotations

__all__ = [
    "CheckpointError",
    "DivergenceError",
    "FrameworkError",
    "ProtocolError",
    "StaleAnchorError",
]


class FrameworkError(Exception):
    """Base of the framework's errors."""


class CheckpointError(FrameworkError):
    """A file that holds no whole checkpoint of this run."""


class DivergenceError(FrameworkError):
    """A step that would have made the weights infinite or NaN; they stay as they were."""


class ProtocolError(FrameworkError):
    """A call that does not fit the round, or a client that was not asked."""


class StaleAnchorError(FrameworkError):
    """An anchor that the server no longer has, or that is not the one a correction is for.

    The latest one is to be fetched.
    """
