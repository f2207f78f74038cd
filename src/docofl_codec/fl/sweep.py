"""Many runs side by side: one process each, one thread each.

Two single-threaded runs on two cores do more rounds a second than one run with two threads.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext
from pathlib import Path
from typing import Any

from docofl_codec.errors import InvalidInputError
from docofl_codec.fl.config import RunConfig
from docofl_codec.fl.run_files import METRICS
from docofl_codec.fl.runner import run

__all__ = ["Job", "available_cpus", "run_all"]

POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Job:
    """A run and its folder."""

    config: RunConfig
    out: Path


def run_all(
    jobs: Sequence[Job],
    *,
    processes: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> None:
    """Do all runs; those that were stopped go on, those that are done are left alone.

    Parameters
    ----------
    jobs : sequence of Job
        Each with a folder of its own.
    processes : int, optional
        Runs at a time; by default as many as there are processors.
    on_progress : callable, optional
        Called now and then with the rounds done and the rounds of all runs.

    Raises
    ------
    InvalidInputError
        Where there are no processes to run in.
    ChildProcessError
        Where the process of a run was ended.
    Exception
        The first one that a run raised. Then, and on Ctrl-C, the others are ended; they go on with
        the next call.
    """
    if processes is None:
        processes = available_cpus()
    if processes < 1:
        raise InvalidInputError(f"jobs: found {processes}, expected at least 1")
    total = sum(job.config.settings().rounds for job in jobs)
    # Children are spawned: OpenMP's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    waiting = deque(jobs)
    running: list[_Running] = []
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                running.append(_Running(context, waiting.popleft()))
            wait([event for run in running for event in run.events], timeout=POLL_SECONDS)
            for run in [run for run in running if run.has_ended()]:
                running.remove(run)
                run.check()
            if on_progress is not None:
                on_progress(sum(_rounds_done(job) for job in jobs), total)
    finally:
        for run in running:
            run.process.terminate()
            run.process.join()


def available_cpus() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Running:
    """A run in a process of its own."""

    def __init__(self, context: SpawnContext, job: Job) -> None:
        self.job = job
        self.errors, sender = context.Pipe(duplex=False)
        self.process = context.Process(target=_do, args=(job, sender), daemon=True)
        with _deaf_to_interrupts():
            self.process.start()
        sender.close()

    @property
    def events(self) -> list[Any]:
        """What becomes ready when the run ends, well or with an error."""
        return [self.process.sentinel, self.errors]

    def has_ended(self) -> bool:
        """Tell whether the run is over; an error is read first, as a long one keeps it waiting."""
        return self.errors.poll() or not self.process.is_alive()

    def check(self) -> None:
        """Raise what an ended run raised."""
        error = self._receive()
        self.process.join()
        if error is not None:
            raise error
        code = self.process.exitcode
        if code:
            found = f"signal {-code}" if code < 0 else f"code {code}"
            raise ChildProcessError(
                f"{self.job.out}: its process ended with {found}, expected a run to its end; "
                "the same command goes on with it"
            )

    def _receive(self) -> Exception | None:
        """Return the run's error; none where its process ended without a word, or within one."""
        try:
            return self.errors.recv() if self.errors.poll() else None
        except (EOFError, OSError):
            return None
        except Exception as error:  # one that cannot be made again here
            return RuntimeError(f"{self.job.out}: its error could not be read: {error}")


@contextlib.contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Let processes that start here ignore Ctrl-C from the start: their parent ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield  # which alone may change this
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


def _do(job: Job, errors: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where it was not inherited
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        run(job.config, job.out)
    except Exception as error:
        errors.send(error)


def _end_with_parent() -> None:
    """End this process when its parent has ended, however that was."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _rounds_done(job: Job) -> int:
    try:
        return (job.out / METRICS).read_bytes().count(b"\n")
    except OSError:
        return 0
