"""Many runs side by side: one process each, one thread each.

Two single-threaded runs on two cores do more rounds a second than one run with two threads.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docofl_codec.fl.config import RunConfig
from docofl_codec.fl.runner import METRICS, run

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
    Exception
        The first one that a run raised; the others are then not begun.
    """
    processes = min(processes or available_cpus(), max(len(jobs), 1))
    total = sum(job.config.settings().rounds for job in jobs)
    # Children are spawned: OpenMP's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_quiet) as pool:
        pending: set[Future[Mapping[str, Any]]] = {pool.submit(_do, job) for job in jobs}
        try:
            while pending:
                done, pending = wait(pending, timeout=POLL_SECONDS)
                for future in done:
                    future.result()
                if on_progress is not None:
                    on_progress(sum(_rounds_done(job) for job in jobs), total)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def available_cpus() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quiet() -> None:
    """Threads of OpenMP that wait do not take the processor from the run beside."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def _do(job: Job) -> Mapping[str, Any]:
    return run(job.config, job.out).summary()


def _rounds_done(job: Job) -> int:
    try:
        return (job.out / METRICS).read_bytes().count(b"\n")
    except OSError:
        return 0
