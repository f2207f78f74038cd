"""Timing that survives a shared machine: repeats taken in turn, the minimum kept."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

Call = Callable[[], Any]


def interleaved_min(calls: Mapping[str, Call], repeats: int, burst: int = 1) -> dict[str, float]:
    """Time several calls in turn and keep the least time of each.

    Taking turns lets a slow spell of the machine hit all calls alike, so that ratios of the
    minima hold although the absolute times move.

    Parameters
    ----------
    calls
        What to time, by name. Each is called once before, untimed.
    repeats
        Timed calls of each.
    burst
        Calls of one kind in a row, so that threads and caches are as in a loop of such calls.

    Returns
    -------
    dict
        Seconds, by name.
    """
    best = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        call()
    enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(-(-repeats // burst)):
            for name, call in calls.items():
                best[name] = min(best[name], *(_seconds(call) for _ in range(burst)))
    finally:
        if enabled:
            gc.enable()
    return best


def available_cpus() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _seconds(call: Call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
