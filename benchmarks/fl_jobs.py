"""Two runs side by side beside one run with two threads: ``python -m benchmarks.fl_jobs``.

EMNIST with FedAvg, from the folder that DOCOFL_DATA names. Prints rounds a second; the first rounds
and the start of processes are not counted. One run with one thread tells the two reasons for the
ratio apart: what torch gains from a second thread, which differs from CPU to CPU, and what runs
take from each other, which is ours.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from docofl_codec.fl import RunConfig
from docofl_codec.fl.runner import METRICS
from docofl_codec.fl.sweep import Job, run_all

WARM_UP = 5


def round_seconds(folder: Path, *, rounds: int, threads: int, seeds: Sequence[int]) -> float:
    """Do runs side by side and return the median of the seconds that a round took."""
    jobs = [
        Job(
            # The last round alone evaluates.
            RunConfig(
                task="emnist",
                codec="fedavg",
                seed=seed,
                rounds=rounds,
                eval_every=rounds,
                threads=threads,
            ),
            folder / f"{threads}-{seed}",
        )
        for seed in seeds
    ]
    run_all(jobs, processes=len(jobs))
    seconds: list[float] = []
    for job in jobs:
        lines = (job.out / METRICS).read_text(encoding="utf-8").splitlines()
        seconds += [json.loads(line)["seconds"] for line in lines[WARM_UP:-1]]
    return statistics.median(seconds)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        measure = partial(round_seconds, rounds=options.rounds)
        two_threads = measure(Path(folder, "two-threads"), threads=2, seeds=(0,))
        one_thread = measure(Path(folder, "one-thread"), threads=1, seeds=(0,))
        beside = measure(Path(folder, "beside"), threads=1, seeds=(0, 1))
    print(f"one run, one thread: {1 / one_thread:.2f} rounds a second")
    print(f"one run, two threads: {1 / two_threads:.2f}, {one_thread / two_threads:.2f} x that")
    print(f"two runs, one thread each: {2 / beside:.2f}, {2 * one_thread / beside:.2f} x that")
    print(f"two runs / two threads: {2 * two_threads / beside:.2f}, wanted 1.7")


if __name__ == "__main__":
    main()
