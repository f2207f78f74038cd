"""A progress bar for calls that take minutes."""

from __future__ import annotations

import sys
import time
from types import TracebackType

__all__ = ["ProgressBar"]

WIDTH = 30


class ProgressBar:
    """Counts steps on standard error, where that is a terminal and the work lasts.

    Parameters
    ----------
    title : str
        What goes on.
    total : int
        Number of steps.
    visible : bool or None, default None
        None: if standard error is a terminal, after `delay`.
    delay : float, default 1
        Seconds before it shows.

    Examples
    --------
    >>> with ProgressBar("counting", 3, visible=False) as bar:
    ...     for _ in range(3):
    ...         bar.step()
    >>> bar.done
    3
    """

    def __init__(
        self, title: str, total: int, *, visible: bool | None = None, delay: float = 1.0
    ) -> None:
        self.done = 0
        self._title = title
        self._total = max(total, 1)
        self._visible = sys.stderr.isatty() if visible is None else visible
        self._start = time.monotonic()
        self._next = self._start + (delay if visible is None else 0)
        self._drawn = 0

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._drawn:
            sys.stderr.write("\r" + " " * self._drawn + "\r")
            sys.stderr.flush()

    def step(self, note: str = "") -> None:
        """Count a step; `note` says what it was."""
        self.set(self.done + 1, note)

    def set(self, done: int, note: str = "") -> None:
        """Say how many steps are done."""
        self.done = done
        now = time.monotonic()
        if not self._visible or now < self._next:
            return
        self._next = now + 0.2
        part = min(self.done / self._total, 1.0)
        filled = round(part * WIDTH)
        left = (now - self._start) * (1 - part) / max(part, 1e-6)
        bar = "█" * filled + "░" * (WIDTH - filled)
        line = f"{self._title} {bar} {self.done}/{self._total}, {left:.0f} s left {note}".rstrip()
        sys.stderr.write("\r" + line.ljust(self._drawn))
        sys.stderr.flush()
        self._drawn = max(self._drawn, len(line))
