"""The communication hook on two gloo processes, and on one."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.multiprocessing as mp

from docofl_codec import InvalidInputError
from docofl_codec.integrations.ddp import EdenState, _frame_limit
from tests.integration import ddp_worker

pytestmark = pytest.mark.integration

SECONDS = 240
Results = list[dict[str, Any]]


def run_ranks(num_ranks: int, folder: Path) -> Results:
    """Run all scenarios on some ranks; each gets its state as a pickle."""
    context = mp.get_context("spawn")
    arguments = (num_ranks, folder, ddp_worker.CountingState(bits=4, seed=5))
    ranks = [
        context.Process(target=ddp_worker.main, args=(rank, *arguments))
        for rank in range(num_ranks)
    ]
    try:
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join(SECONDS)
            assert rank.exitcode == 0
    finally:
        for rank in ranks:
            if rank.is_alive():
                rank.kill()
            rank.join()
    return [json.loads((folder / f"rank{r}.json").read_text()) for r in range(num_ranks)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("two-ranks")


@pytest.fixture(scope="module")
def pair(folder: Path) -> Results:
    return run_ranks(2, folder)


SCENARIOS = list(ddp_worker.scenarios(0, ddp_worker.CountingState()))


@pytest.mark.parametrize("name", SCENARIOS)
def test_replicas_are_bit_identical(pair: Results, name: str) -> None:
    assert pair[0][name]["digest"] == pair[1][name]["digest"]


@pytest.mark.parametrize("suffix", ["", " accumulated"])
def test_the_loss_is_that_of_uncompressed_training(pair: Results, suffix: str) -> None:
    plain, eden = (pair[0][name + suffix] for name in ("plain", "eden"))
    assert eden["loss"] == pytest.approx(plain["loss"], rel=0.02)
    assert eden["digest"] != plain["digest"]


def test_bytes_are_reported_per_step(pair: Results) -> None:
    size = sum(p.numel() for p in ddp_worker.network().parameters())
    result = pair[0]["eden"]
    assert result["plain_bytes"] == 4 * size
    payload = size * 4 / 8
    assert payload < result["bytes"] < payload + 270 * result["buckets"]
    assert result["bytes"] < 0.14 * result["plain_bytes"]
    assert result["total_bytes"] == pytest.approx(ddp_worker.STEPS * result["bytes"], rel=0.02)
    assert pair[1]["eden"]["bytes"] == result["bytes"]


def test_there_are_several_buckets(pair: Results) -> None:
    assert pair[0]["eden"]["buckets"] >= 3


def test_accumulated_gradients_are_sent_once_a_step(pair: Results) -> None:
    result, single = pair[0]["eden accumulated"], pair[0]["eden"]
    assert result["steps"] == single["steps"] == ddp_worker.STEPS
    assert result["calls"] == single["calls"]
    assert result["total_bytes"] == single["total_bytes"]


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16"])
def test_gradients_keep_their_dtype(pair: Results, name: str) -> None:
    result = pair[0][name]
    assert result["dtype"] == f"torch.{name}"
    assert result["finite"][0]
    assert 0.002 < result["first_nmse"] < 0.03


def test_errors_average_out_over_steps(pair: Results) -> None:
    result = pair[0]["float32"]
    assert result["mean_nmse"] < 2 * result["first_nmse"] / 64


@pytest.mark.parametrize("name", ["nan", "inf"])
def test_a_bad_gradient_reaches_all_ranks_and_is_gone_after(pair: Results, name: str) -> None:
    for rank in range(2):
        assert pair[rank][name]["finite"] == [False, True]


def test_a_state_goes_into_checkpoints(pair: Results, folder: Path) -> None:
    assert pair
    with torch.serialization.safe_globals([ddp_worker.CountingState]):
        state = torch.load(folder / "rank1.pt", weights_only=True)["state"]
    assert isinstance(state, EdenState)
    assert (state.bits, state.seed, state.steps) == (4, 5, ddp_worker.STEPS)
    assert state.process_group is None


def test_a_state_leaves_its_process_group_behind() -> None:
    group = object()
    state = EdenState(group, bits=2, seed=1)
    again = copy.deepcopy(state)
    assert (again.process_group, again.bits, again.seed) == (None, 2, 1)
    assert state.process_group is group
    for copied in (again, copy.deepcopy(again)):
        with pytest.raises(InvalidInputError, match=r"process_group: found none after loading"):
            _ = copied.ranks
    again.process_group = group
    assert again.ranks is group


def test_a_state_of_some_ranks_does_not_become_one_of_all(pair: Results) -> None:
    for rank in range(2):
        result = pair[rank]["subgroup"]
        assert "set state.process_group" in result["error"]
        assert result["steps"] == 1
        assert result["is_world"]


def test_one_rank_keeps_its_gradients(tmp_path: Path) -> None:
    (alone,) = run_ranks(1, tmp_path)
    assert alone["eden"]["digest"] == alone["plain"]["digest"]
    assert alone["eden"]["bytes"] == 0
    assert alone["eden"]["steps"] == ddp_worker.STEPS


@pytest.mark.parametrize("bits", [0, 9, float("nan")])
def test_budgets_out_of_range_are_refused(bits: float) -> None:
    with pytest.raises(InvalidInputError):
        EdenState(bits=bits)


@pytest.mark.parametrize("bits", [0.1, 0.5, 1, 2.5, 4, 8])
@pytest.mark.parametrize("size", [0, 1, 15, 16, 1000, 32767, 32768, 65535, 1_000_003])
def test_frames_fit(bits: float, size: int) -> None:
    values = np.random.default_rng(size).standard_t(2, size).astype(np.float32)
    frame = EdenState(bits=bits).codec.encode(torch.from_numpy(values), seed=2**64 - 1)
    assert len(frame) <= _frame_limit(size, bits)
