"""Row 32 at random moments: a run that is killed goes on and ends as if nothing had happened."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docofl_codec import fl
from docofl_codec.fl.runner import CONFIG, METRICS, RESULT
from tests.helpers.processes import child_environment

CONFIGURATION: dict[str, Any] = {
    "task": "digits",
    "codec": "2,2,3",
    "rounds": 30,
    "eval_every": 10,
    "num_clients": 20,
    "per_round": 5,
    "delayed": 0.2,
    "max_delay": 2,
    "checkpoint_every": 1,
}


def start(folder: Path) -> subprocess.Popen[str]:
    """Start `docofl run` with that configuration."""
    options = [
        str(part)
        for name, value in CONFIGURATION.items()
        if name != "task"
        for part in ("--" + name.replace("_", "-"), value)
    ]
    command = [sys.executable, "-m", "docofl_codec.cli", "run", CONFIGURATION["task"], *options]
    return subprocess.Popen(
        [*command, "--out", str(folder)],
        env=child_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill_at(folder: Path, seconds: float) -> bool:
    """Start or go on with a run and kill it some seconds after it has opened its folder.

    Tell whether it was killed; it may have ended before.
    """
    before = _state(folder)
    process = start(folder)
    try:
        deadline = time.monotonic() + 120
        while _state(folder) == before and process.poll() is None:
            assert time.monotonic() < deadline, "the run does not begin"
            time.sleep(0.001)
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        _, errors = process.communicate(timeout=60)
        assert process.returncode in (0, -signal.SIGKILL), errors
        return process.returncode != 0
    finally:
        process.kill()
        process.wait()


def _state(folder: Path) -> tuple[int, ...]:
    """Return what changes when a run opens its folder: it writes a file anew."""
    paths = (folder / CONFIG, folder / METRICS)
    return tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in paths)


def metrics_of(folder: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]
    return [{name: row[name] for name in row if name != "seconds"} for row in rows]


def check_kills(count: int, tmp_path: Path) -> list[int]:
    """Kill runs at seeded moments and check how each goes on; return the rounds they had done."""
    config = fl.RunConfig(**CONFIGURATION)
    began = time.perf_counter()
    whole = fl.run(config, tmp_path / "whole")
    duration = time.perf_counter() - began
    rng = np.random.default_rng(32)
    rounds = []
    folder = tmp_path / "0"
    while len(rounds) < count:
        if not kill_at(folder, rng.uniform(0, duration)):
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
        rounds.append(config.rounds - len(seen))
        shutil.rmtree(copy)
        if rng.random() < 0.5:  # the others are killed once more
            folder = tmp_path / str(len(rounds))
    return rounds


def test_a_run_that_is_killed_now_and_then(tmp_path: Path) -> None:
    check_kills(2, tmp_path)


@pytest.mark.kill
def test_a_run_that_is_killed_fifty_times(tmp_path: Path) -> None:
    rounds = check_kills(50, tmp_path)
    print("rounds done when killed:", *sorted(rounds))
    assert len(set(rounds)) > 10
