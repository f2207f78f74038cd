"""Memory over the rounds of a run: ``python -m benchmarks.fl_memory [--task …] [--rounds …]``.

Prints the resident memory of the process (Linux), which sees what torch and the codecs take, and
what Python and NumPy hold, as tracemalloc counts it. The first rounds are not counted: anchors fill
their queue and torch its buffers.
"""

from __future__ import annotations

import argparse
import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import Table, show
from docofl_codec.fl import RunConfig
from docofl_codec.fl.runner import Runner

WARM_UP = 50


@dataclass(frozen=True)
class Growth:
    """What memory grew by over some rounds.

    Attributes
    ----------
    rounds : int
        How many.
    model_bytes : int
        Of the weights, for comparison.
    resident, traced : int
        Bytes at the end less bytes at the start.
    resident_at_end : int
        Bytes.
    """

    rounds: int
    model_bytes: int
    resident: int
    traced: int
    resident_at_end: int


def measure(config: RunConfig, *, on_round: Callable[[Runner], None] | None = None) -> Growth:
    """Do a run and return what memory grew by after the first rounds.

    Parameters
    ----------
    config : RunConfig
        Of more rounds than `WARM_UP`.
    on_round : callable, optional
        Called after every round.
    """
    tracemalloc.start()
    try:
        runner = Runner(config)
        start = (0, 0)
        for metrics in runner.rounds():
            if on_round is not None:
                on_round(runner)
            if metrics["round"] + 1 == WARM_UP:
                start = _memory()
        end = _memory()
    finally:
        tracemalloc.stop()
    return Growth(
        rounds=runner.server.round - WARM_UP,
        model_bytes=runner.server.weights.nbytes,
        resident=end[0] - start[0],
        traced=end[1] - start[1],
        resident_at_end=end[0],
    )


def _memory() -> tuple[int, int]:
    """Return the resident and the traced bytes."""
    gc.collect()
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024, tracemalloc.get_traced_memory()[0]
    raise RuntimeError("/proc/self/status: found no VmRSS, expected it")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fl_memory", description=__doc__)
    parser.add_argument("--task", default="digits")
    parser.add_argument("--rounds", type=int, default=550)
    options = parser.parse_args()
    rows = []
    for codec in ("fedavg", "2,2,3"):
        config = RunConfig(task=options.task, codec=codec, rounds=options.rounds)
        growth = measure(config)
        rows.append(
            [
                codec,
                str(growth.rounds),
                f"{growth.model_bytes / 1e3:.0f}",
                f"{growth.resident / growth.rounds / 1e3:.2f}",
                f"{growth.traced / growth.rounds / 1e3:.2f}",
                f"{growth.resident_at_end / 1e6:.0f}",
            ]
        )
    columns = ["", "rounds", "model, kB", "resident, kB a round", "traced, kB a round", "end, MB"]
    show(Table(f"Growth of memory, {options.task}", columns, rows, left=[""]))


if __name__ == "__main__":
    main()
