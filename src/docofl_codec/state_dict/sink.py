"""Where the bytes of a state dict go: to memory, or to a file."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["MemorySink", "Sink"]


class Sink(Protocol):
    """Takes bytes in order, and back those after a place."""

    def write(self, data: Any) -> None:
        """Append."""
        ...

    def tell(self) -> int:
        """Return how many bytes there are."""
        ...

    def cut(self, size: int) -> None:
        """Drop all but the first `size` bytes."""
        ...


class MemorySink:
    """Collects bytes."""

    def __init__(self) -> None:
        self._parts: list[Any] = []
        self._size = 0

    def write(self, data: Any) -> None:
        """Append; the data must not change later."""
        self._parts.append(data)
        self._size += len(data)

    def tell(self) -> int:
        """Return how many bytes there are."""
        return self._size

    def cut(self, size: int) -> None:
        """Drop all but the first `size` bytes, the end of a write."""
        while self._size > size:
            self._size -= len(self._parts.pop())

    def getvalue(self) -> bytes:
        """Return all bytes."""
        return b"".join(self._parts)
