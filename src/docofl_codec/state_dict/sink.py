"""Where the bytes of a state dict go: to memory, or to a file."""

from __future__ import annotations

from typing import Any, Protocol

from docofl_codec._buffers import ByteRoom

__all__ = ["MemorySink", "Sink"]


class Sink(Protocol):
    """Takes bytes in order, and back those after a place."""

    def reserve(self, size: int) -> None:
        """Learn how many bytes there will be at most."""
        ...

    def write(self, data: Any) -> None:
        """Append."""
        ...

    def room(self) -> ByteRoom:
        """Return a room to append bytes to, which are then to be passed on."""
        ...

    def pass_on(self, room: ByteRoom) -> None:
        """Append what was put into a room of this sink."""
        ...

    def tell(self) -> int:
        """Return how many bytes there are."""
        ...

    def cut(self, size: int) -> None:
        """Drop all but the first `size` bytes."""
        ...


class MemorySink:
    """Collects bytes, in one piece of memory from the start."""

    def __init__(self) -> None:
        self._room = ByteRoom()

    def reserve(self, size: int) -> None:
        """Take the memory for so many bytes."""
        self._room.reserve(size)

    def write(self, data: Any) -> None:
        """Append."""
        self._room.write(data)

    def room(self) -> ByteRoom:
        """Return the room of all bytes."""
        return self._room

    def pass_on(self, room: ByteRoom) -> None:
        """Do nothing: the bytes are where they belong."""

    def tell(self) -> int:
        """Return how many bytes there are."""
        return self._room.size

    def cut(self, size: int) -> None:
        """Drop all but the first `size` bytes."""
        self._room.cut(size)

    def getvalue(self) -> bytes:
        """Return all bytes, and forget them."""
        return self._room.take()
