"""Two runs side by side beside one run with two threads: ``python -m benchmarks.fl_jobs``.

EMNIST with FedAvg, from the folder that DOCOFL_DATA names. Prints rounds a second; the first rounds
and the start of processes are not counted. All ways take turns, and of each the best turn counts:
other work on the machine makes any of them slower. One run with one thread tells the two reasons
for the ratio apart: what torch gains from a second thread, which differs from CPU to CPU, and what
runs take from each other, which is ours. Two runs that take nothing from each other are twice as
fast as one, which is the most that two cores can give.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from docofl_codec.fl import RunConfig
from docofl_codec.fl.run_files import METRICS
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
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args(arguments)
    ways = {"two threads": (2, (0,)), "one thread": (1, (0,)), "side by side": (1, (0, 1))}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(options.turns):
            for way, (threads, seeds) in ways.items():
                runs = Path(folder, f"{way} {turn}")
                took = round_seconds(runs, rounds=options.rounds, threads=threads, seeds=seeds)
                seconds[way].append(took)
    two_threads, one_thread, beside = (min(turns) for turns in seconds.values())
    print(f"one run, one thread: {1 / one_thread:.2f} rounds a second")
    print(f"one run, two threads: {1 / two_threads:.2f}, {one_thread / two_threads:.2f} x that")
    print(f"two runs, one thread each: {2 / beside:.2f}, {2 * one_thread / beside:.2f} x that")
    ratio, most = 2 * two_threads / beside, 2 * two_threads / one_thread
    print(f"two runs / two threads: {ratio:.2f}, wanted 1.7; two cores can give {most:.2f}")


if __name__ == "__main__":
    main()
