"""What a round costs the server: corrections, decoded uploads, mean and optimizer step.

``python -m benchmarks.framework`` prints how time and memory grow with the model and the number of
clients. The clients' own work, training and decoding, is not part of it. Every case runs in a
process of its own, whose resident memory is measured as in `benchmarks.micro.peak_memory`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.micro.peak_memory import MALLOC_ENVIRONMENT, peak_bytes, start_peak
from benchmarks.report import Table, progress, show
from docofl_codec import Ecuq, Eden
from docofl_codec.framework import SGD, Server, UniformParticipation, Update

ROUNDS = 10
CASES = [(65_536, 20), (262_144, 20), (1_000_000, 5), (1_000_000, 20), (1_000_000, 80)]
CASES += [(4_000_000, 20), (11_000_000, 20)]


@dataclass(frozen=True)
class Cost:
    """Of a round.

    Attributes
    ----------
    seconds : float
        The median of some rounds, without and with anchors deployed in turn.
    vectors : float
        Peak memory beyond the frames, in vectors of the model's size.
    """

    size: int
    clients: int
    seconds: float
    vectors: float


def measure(size: int, clients: int) -> Cost:
    """Return what rounds of (2, 2, 3) bits with momentum cost."""
    rng = np.random.default_rng(0)
    codec = Eden(bits=3)
    frames = [
        codec.encode(1e-3 * rng.standard_normal(size, dtype=np.float32), seed=i)
        for i in range(clients)
    ]
    start = rng.standard_normal(size, dtype=np.float32)
    codec.decode(codec.encode(start[:1000]))
    before = start_peak() - start.nbytes
    server = Server(
        start,
        UniformParticipation(clients, clients),
        anchor_codec=Ecuq(bits=2),
        correction_codec=Eden(bits=2),
        update_codec=codec,
        optimizer=SGD(momentum=0.9, weight_decay=1e-5),
        deploy_every=3,
        capacity=3,
    )
    del start
    times, largest_frames = [], 0
    for t in range(ROUNDS):
        server.deploy(t)
        held = [anchor.id for anchor in server.anchors]
        began = time.perf_counter()
        sent = 0
        for client in range(clients):
            correction = server.correction(t, client, held[client % len(held)])
            sent = max(sent, len(correction.frame or b""))
            assert server.receive(Update(client, t, frames[client])).accepted
        server.finish_round()
        times.append(time.perf_counter() - began)
        largest_frames = max(largest_frames, sent + sum(len(a.frame) for a in server.anchors))
    extra = peak_bytes() - before - largest_frames
    return Cost(size, clients, float(np.median(times)), extra / (4 * size))


def run(size: int, clients: int) -> Cost:
    """Return what `measure` does in fresh processes, one for the time and one for the memory."""
    costs = [
        subprocess.run(
            [sys.executable, "-m", "benchmarks.framework", str(size), str(clients)],
            cwd=Path(__file__).parents[1],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            check=True,
        )
        for environment in ({}, MALLOC_ENVIRONMENT)
    ]
    time_cost, memory_cost = (Cost(**json.loads(done.stdout)) for done in costs)
    return replace(time_cost, vectors=memory_cost.vectors)


def main() -> None:
    """Print the table."""
    rows = []
    for size, clients in CASES:
        progress(f"{size:,} coordinates, {clients} clients")
        cost = run(size, clients)
        each = cost.seconds / clients / size * 1e9
        rows.append(
            [f"{size:,}", str(clients), f"{cost.seconds:.3f}", f"{each:.2f}", f"{cost.vectors:.1f}"]
        )
    columns = ["coordinates", "clients", "s a round", "ns a coordinate and client", "vectors"]
    title = "A round's work on the server, (2, 2, 3) bits, momentum, V = 3"
    progress("")
    show(Table(title, columns, rows, left=[]))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(asdict(measure(int(sys.argv[1]), int(sys.argv[2])))))
    else:
        main()
