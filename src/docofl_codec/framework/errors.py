"""What can go wrong between server and clients."""

from __future__ import annotations

__all__ = ["CheckpointError", "FrameworkError", "ProtocolError", "StaleAnchorError"]


class FrameworkError(Exception):
    """Base of the framework's errors."""


class CheckpointError(FrameworkError):
    """A file that holds no whole checkpoint of this run."""


class ProtocolError(FrameworkError):
    """A call that does not fit the round, or a client that was not asked."""


class StaleAnchorError(FrameworkError):
    """An anchor that the server no longer has, or never had: the latest one is to be fetched."""
