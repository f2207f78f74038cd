"""What can go wrong, as classes.

A message names the place, what was found there and what was expected. Wrong Python types raise
:class:`TypeError`, lack of memory :class:`MemoryError`; everything else that a call refuses is a
:class:`CodecError`.
"""

from __future__ import annotations

__all__ = [
    "CodecError",
    "CorruptFrameError",
    "InvalidInputError",
    "LimitExceededError",
    "TruncatedFrameError",
    "UnsupportedFrameError",
]


class CodecError(ValueError):
    """Base of all errors of this package."""


class InvalidInputError(CodecError):
    """A tensor or an option that cannot be encoded, or an output that does not fit the frame."""


class UnsupportedFrameError(CodecError):
    """A frame of a version, codec, coder or critical flag that this release does not know."""


class CorruptFrameError(CodecError):
    """Bytes that break a rule of the frame format."""


class TruncatedFrameError(CorruptFrameError):
    """A frame that ends before its own fields say so."""


class LimitExceededError(CodecError):
    """A valid frame beyond a limit that the caller set."""
