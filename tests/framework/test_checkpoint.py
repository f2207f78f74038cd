"""Row 32: a resumed run ends in the weights of one that was never interrupted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from docofl_codec import Ecuq, Eden
from docofl_codec.framework import (
    SGD,
    Adam,
    CheckpointError,
    Loop,
    Server,
    UniformParticipation,
    load_checkpoint,
    save_checkpoint,
)
from docofl_codec.framework.checkpoint import previous_path

Floats = npt.NDArray[np.float32]

GOAL = np.linspace(-1, 1, 500, dtype=np.float32)


def train(client: int, t: int, weights: Floats) -> Floats:
    noise = np.random.default_rng([client, t]).standard_normal(GOAL.size, dtype=np.float32)
    update: Floats = np.float32(0.1) * (GOAL - weights) + np.float32(0.01) * noise
    return update


def new_loop(**options: Any) -> Loop:
    options.setdefault("optimizer", SGD(momentum=0.9, weight_decay=1e-4))
    server = Server(
        np.zeros(GOAL.size),
        UniformParticipation(30, 4, lead=5, seed=1),
        anchor_codec=Ecuq(bits=3),
        correction_codec=Eden(bits=1),
        update_codec=Eden(bits=2),
        deploy_every=3,
        capacity=2,
        seed=7,
        **options,
    )
    return Loop(server, train)


@pytest.mark.parametrize("stop", [0, 1, 3, 7, 11])
@pytest.mark.parametrize("make_optimizer", [lambda: SGD(momentum=0.9), Adam])
def test_resumed_run_is_the_same_run(tmp_path: Path, stop: int, make_optimizer: Any) -> None:
    whole = new_loop(optimizer=make_optimizer())
    reports = [whole.step() for _ in range(12)]

    first = new_loop(optimizer=make_optimizer())
    for _ in range(stop):
        first.step()
    save_checkpoint(tmp_path / "run.ckpt", first)
    second = new_loop(optimizer=make_optimizer())
    assert load_checkpoint(tmp_path / "run.ckpt", second) == tmp_path / "run.ckpt"
    assert [second.step() for _ in range(12 - stop)] == reports[stop:]
    assert second.server.weights.tobytes() == whole.server.weights.tobytes()
    assert second.server.ledger.state() == whole.server.ledger.state()


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
    path.unlink()  # as if the process had died between the two renames
    assert load_checkpoint(path, new_loop()) == previous_path(path)
    previous_path(path).unlink()
    with pytest.raises(CheckpointError):
        load_checkpoint(path, new_loop())


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
