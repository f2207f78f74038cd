"""Row 32: a resumed run ends in the weights of one that was never interrupted."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docofl_codec import Ecuq, Eden
from docofl_codec.framework import (
    SGD,
    Adam,
    AdaptiveBudgets,
    CheckpointError,
    Loop,
    ProtocolError,
    Server,
    UniformParticipation,
    Yogi,
    load_checkpoint,
    save_checkpoint,
)
from docofl_codec.framework.checkpoint import MAGIC, VERSION, previous_path
from docofl_codec.framework.loop import Delay
from tests.framework.problems import SIZE, noisy_step


def new_loop(delay: Delay | None = None, **options: Any) -> Loop:
    options.setdefault("optimizer", SGD(momentum=0.9, weight_decay=1e-4))
    server = Server(
        np.zeros(SIZE),
        UniformParticipation(30, 4, lead=(2, 5), seed=1),
        anchor_codec=Ecuq(bits=3),
        correction_codec=Eden(bits=1),
        update_codec=Eden(bits=2),
        deploy_every=3,
        capacity=2,
        seed=7,
        **options,
    )
    return Loop(server, noisy_step, delay=delay)


def late_by_client(client: int, _round: int) -> int:
    return client % 3


# Options that give a run more state than weights and momentum.
RUNS: dict[str, Callable[[], dict[str, Any]]] = {
    "momentum": dict,
    "adam": lambda: {"optimizer": Adam()},
    "yogi": lambda: {"optimizer": Yogi()},
    "adaptive budgets": lambda: {"budgets": AdaptiveBudgets(rho=1.2, error=0.1)},
    "late updates": lambda: {"max_delay": 2, "delay": late_by_client},
    "EF21": lambda: {"error_feedback_clients": 30},
    "no corrections": lambda: {"downlink": "anchor"},
    "direct": lambda: {"downlink": "direct"},
    "shared corrections": lambda: {"shared_corrections": True, "weighted": True},
}


@pytest.mark.parametrize("stop", [0, 1, 4, 7, 11])
@pytest.mark.parametrize("name", RUNS)
def test_resumed_run_is_the_same_run(tmp_path: Path, stop: int, name: str) -> None:
    options = RUNS[name]
    whole = new_loop(**options())
    reports = [whole.step() for _ in range(12)]

    first = new_loop(**options())
    for _ in range(stop):
        first.step()
    save_checkpoint(tmp_path / "run.ckpt", first)
    second = new_loop(**options())
    assert load_checkpoint(tmp_path / "run.ckpt", second) == tmp_path / "run.ckpt"
    assert [second.step() for _ in range(12 - stop)] == reports[stop:]
    assert second.server.weights.tobytes() == whole.server.weights.tobytes()
    assert second.server.ledger.state() == whole.server.ledger.state()
    assert second.server.counters == whole.server.counters


def test_a_damaged_file_is_refused_and_the_previous_one_used(tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    loop = new_loop()
    loop.step()
    save_checkpoint(path, loop)
    loop.step()
    save_checkpoint(path, loop)
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:100], b"", whole[:300] + b"\0" + whole[301:], b"x" * 500):
        path.write_bytes(damaged)
        resumed = new_loop()
        assert load_checkpoint(path, resumed) == previous_path(path)
        assert resumed.server.round == 1
        assert (tmp_path / "run.ckpt.damaged").read_bytes() == damaged
    assert not path.exists()  # as if the process had died between the two renames
    assert load_checkpoint(path, new_loop()) == previous_path(path)
    previous_path(path).unlink()
    with pytest.raises(CheckpointError):
        load_checkpoint(path, new_loop())


def test_no_prefix_and_no_flipped_bit_is_taken_for_a_checkpoint(tmp_path: Path) -> None:
    """Rows 1 and 2 for checkpoints: their checksum is a SHA-256."""
    path = tmp_path / "run.ckpt"
    loop = new_loop()
    loop.step()
    save_checkpoint(path, loop)
    whole, resumed = path.read_bytes(), new_loop()
    for place in range(0, len(whole), max(1, len(whole) // 500)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        for damaged in (whole[:place], bytes(flipped), whole + whole[: place + 1]):
            path.write_bytes(damaged)
            with pytest.raises(CheckpointError):
                load_checkpoint(path, resumed)
            assert resumed.server.round == 0
    path.write_bytes(whole)
    load_checkpoint(path, resumed)
    assert resumed.server.round == 1


def test_a_failed_save_leaves_the_old_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.ckpt"
    loop = new_loop()
    save_checkpoint(path, loop)
    before = path.read_bytes()

    def fail(_: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    loop.step()
    with pytest.raises(OSError, match="disk full"):
        save_checkpoint(path, loop)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["run.ckpt"]


def test_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    save_checkpoint(path, new_loop())
    for options in ({"quorum": 2}, {"optimizer": Adam()}, {"shared_corrections": True}):
        with pytest.raises(CheckpointError, match=next(iter(options))):
            load_checkpoint(path, new_loop(**options))


def test_a_file_with_a_right_checksum_and_wrong_content_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    loop = new_loop()
    loop.step()
    save_checkpoint(path, loop)
    data = path.read_bytes()
    size = int.from_bytes(data[12:20], "little")
    metadata = json.loads(data[20 : 20 + size])
    blobs = data[20 + size : -32]

    def forge(change: Callable[[dict[str, Any]], Any]) -> None:
        forged = json.loads(json.dumps(metadata))
        change(forged)
        text = json.dumps(forged).encode()
        body = data[:12] + len(text).to_bytes(8, "little") + text + blobs
        path.write_bytes(body + hashlib.sha256(body).digest())

    changes: list[Callable[[dict[str, Any]], Any]] = [
        lambda m: m.pop("state"),
        lambda m: m.pop("sizes"),
        lambda m: m["sizes"].append(7),
        lambda m: m["sizes"].__setitem__(0, -1),
        lambda m: m["state"]["server"].pop("round"),
        lambda m: m["state"]["server"].update(weights={"$floats": 99}),
        lambda m: m["state"]["server"].update(weights=[1.0, 2.0]),
        lambda m: m["state"].update(holding=[[1]]),
        lambda m: m["state"]["server"].update(optimizer=None),
        lambda m: m["state"]["server"]["anchors"]["anchors"][0].update(surprise=1),
        lambda m: m["state"]["server"].update(feedback=3),
        lambda m: m["state"]["server"].update(optimizer={"velocity": 3}),
        lambda m: m["state"]["server"].update(optimizer={"velocity": []}),
        lambda m: m["state"]["server"].update(round=-5),
        lambda m: m["state"]["server"]["anchors"]["anchors"][0].update(frame="x"),
        lambda m: m["state"].update(memories=[[0, 3]]),
        lambda m: m.update(config=[]),
        lambda m: m["sizes"].__setitem__(0, float("inf")),
    ]
    for change in changes:
        forge(change)
        untouched = new_loop()
        with pytest.raises(CheckpointError):
            load_checkpoint(path, untouched)
        assert untouched.server.round == 0
        untouched.step()
    forge(lambda _: None)
    assert load_checkpoint(path, new_loop()) == path


def test_a_damaged_file_never_becomes_the_previous_one(tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    loop = new_loop()
    save_checkpoint(path, loop)
    loop.step()
    save_checkpoint(path, loop)
    path.write_bytes(path.read_bytes()[:-1])
    resumed = new_loop()
    load_checkpoint(path, resumed)
    resumed.step()
    save_checkpoint(path, resumed)
    path.unlink()  # the process dies between the two renames of the next save
    assert load_checkpoint(path, new_loop()) == previous_path(path)


def test_a_server_without_a_loop_is_saved_too(tmp_path: Path) -> None:
    loop = new_loop()
    loop.step()
    save_checkpoint(tmp_path / "server.ckpt", loop.server)
    other = new_loop().server
    load_checkpoint(tmp_path / "server.ckpt", other)
    assert other.round == 1
    assert other.weights.tobytes() == loop.server.weights.tobytes()


def test_no_checkpoint_inside_a_round(tmp_path: Path) -> None:
    loop = new_loop()
    client = min(loop.server.participation.participants(0))
    loop.server.drop(client)
    with pytest.raises(ProtocolError, match="found begun"):
        save_checkpoint(tmp_path / "run.ckpt", loop)
    assert not list(tmp_path.iterdir())


class OwnProcess:
    """Without a repr of its own, and with NumPy's integers."""

    def participants(self, round_number: int) -> dict[int, int]:
        return dict.fromkeys(np.arange(3), round_number)


def test_own_processes_and_numpys_numbers_resume(tmp_path: Path) -> None:
    def make() -> Loop:
        server = Server(
            np.zeros(SIZE),
            OwnProcess(),
            seed=np.int64(3),
            deploy_every=np.int64(2),
            max_update_norm=np.float32(1e9),
        )
        return Loop(server, noisy_step)

    loop = make()
    loop.step()
    save_checkpoint(tmp_path / "run.ckpt", loop)
    load_checkpoint(tmp_path / "run.ckpt", make())


def test_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    save_checkpoint(path, new_loop())
    data = bytearray(path.read_bytes())
    assert data[:8] == MAGIC
    data[8:12] = (VERSION + 1).to_bytes(4, "little")
    path.write_bytes(bytes(data))
    with pytest.raises(CheckpointError, match=f"version {VERSION + 1}"):
        load_checkpoint(path, new_loop())


KILLED = """
import os, signal, sys
from pathlib import Path
from docofl_codec.framework import save_checkpoint
from tests.framework.test_checkpoint import new_loop

path, fatal = Path(sys.argv[1]), int(sys.argv[2])
loop = new_loop()
loop.step()
save_checkpoint(path, loop)
loop.step()

calls = 0
def count():
    global calls
    calls += 1
    if calls == fatal:
        os.kill(os.getpid(), signal.SIGKILL)

sync = os.fsync
def fsync(handle):
    count()
    sync(handle)
    count()
os.fsync = fsync
# The interpreter announces every call that makes, opens, renames or removes a file.
events = {"open", "os.rename", "os.remove", "tempfile.mkstemp"}
sys.addaudithook(lambda event, args: count() if event in events else None)
save_checkpoint(path, loop)
"""


def test_killed_at_each_step_of_a_save(tmp_path: Path) -> None:
    """Row 32: old or new state, never half, and the same weights in the end."""
    whole = new_loop()
    for _ in range(6):
        whole.step()
    rounds = []
    for fatal in range(1, 30):
        folder = tmp_path / str(fatal)
        folder.mkdir()
        path = folder / "run.ckpt"
        process = subprocess.run(
            [sys.executable, "-c", KILLED, str(path), str(fatal)],
            cwd=Path(__file__).resolve().parents[2],
            check=False,
            capture_output=True,
            text=True,
        )
        loop = new_loop()
        load_checkpoint(path, loop)
        rounds.append(loop.server.round)
        while loop.server.round < 6:
            loop.step()
        assert loop.server.weights.tobytes() == whole.server.weights.tobytes()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, process.stderr
    assert process.returncode == 0
    assert set(rounds) == {1, 2}
    assert len(rounds) >= 6
