"""Row 32 at random moments: a run that is killed goes on and ends as if nothing had happened."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docofl_codec import fl
from docofl_codec.fl.run_files import CONFIG, METRICS
from docofl_codec.fl.runner import RESULT
from tests.helpers.processes import child_environment

ROUNDS = 20
CONFIGURATION: dict[str, Any] = {
    "task": "digits",
    "codec": "2,2,3",
    "rounds": ROUNDS,
    "eval_every": 10,
    "num_clients": 20,
    "per_round": 5,
    "delayed": 0.2,
    "max_delay": 2,
    "checkpoint_every": 1,
    "threads": 1,
}


# Starts `docofl` with the arguments of each line, in a process that needs to import nothing.
SERVER = """
import json, os, sys
import sklearn.datasets, torch
import docofl_codec.fl.runner, docofl_codec.fl.tasks.digits
from docofl_codec import cli
print(0, flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os._exit(cli.main(json.loads(line)))
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture
def server() -> Iterator[subprocess.Popen[str]]:
    """A process that starts runs."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        env=child_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert _answer(process) == 0
    yield process
    process.communicate()


def _answer(server: subprocess.Popen[str]) -> int:
    assert server.stdout is not None
    return int(server.stdout.readline())


def kill_at(server: subprocess.Popen[str], folder: Path, seconds: float) -> bool:
    """Start or go on with a run and kill it some seconds after it has opened its folder.

    Tell whether it was killed; it may have ended before.
    """
    before = _state(folder)
    command = ["run", CONFIGURATION["task"], "--out", str(folder)]
    for name, value in CONFIGURATION.items():
        if name != "task":
            command += ["--" + name.replace("_", "-"), str(value)]
    assert server.stdin is not None
    server.stdin.write(json.dumps(command) + "\n")
    server.stdin.flush()
    process = _answer(server)
    deadline = time.monotonic() + 60
    while _state(folder) == before and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    status = _answer(server)
    assert status in (0, -signal.SIGKILL)
    return status != 0


def _state(folder: Path) -> tuple[int, ...]:
    """Return what changes when a run opens its folder: it writes a file anew."""
    paths = (folder / CONFIG, folder / METRICS)
    return tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in paths)


def metrics_of(folder: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]
    return [{name: row[name] for name in row if name != "seconds"} for row in rows]


def check_kills(count: int, server: subprocess.Popen[str], tmp_path: Path) -> list[int]:
    """Kill runs at seeded moments and check how each goes on; return the rounds they had done."""
    config = fl.RunConfig(**CONFIGURATION)
    began = time.perf_counter()
    whole = fl.run(config, tmp_path / "whole")
    duration = time.perf_counter() - began
    rng = np.random.default_rng(32)
    rounds: list[int] = []
    folder = tmp_path / "0"
    while len(rounds) < count:
        if not kill_at(server, folder, rng.uniform(0, duration)):
            folder = tmp_path / f"after {len(rounds)}"
            continue
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy)
        seen: list[Any] = []
        resumed = fl.run(config, copy, on_round=seen.append)
        assert resumed.weights.tobytes() == whole.weights.tobytes()
        assert resumed.summary() == whole.summary()
        assert metrics_of(copy) == metrics_of(tmp_path / "whole")
        assert (copy / RESULT).read_bytes() == (tmp_path / "whole" / RESULT).read_bytes()
        rounds.append(ROUNDS - len(seen))
        shutil.rmtree(copy)
        if rng.random() < 0.5:  # the others are killed once more
            folder = tmp_path / str(len(rounds))
    return rounds


def test_a_run_that_is_killed_now_and_then(server: subprocess.Popen[str], tmp_path: Path) -> None:
    check_kills(3, server, tmp_path)


@pytest.mark.kill
def test_a_run_that_is_killed_fifty_times(server: subprocess.Popen[str], tmp_path: Path) -> None:
    rounds = check_kills(50, server, tmp_path)
    print("rounds done when killed:", *sorted(rounds))
    assert len(set(rounds)) > 10
