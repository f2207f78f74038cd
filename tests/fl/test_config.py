"""Configurations: spellings of codecs, defaults of tasks, files, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docofl_codec import Ecuq, Eden, Identity, InvalidInputError
from docofl_codec.fl import RunConfig, parse_codecs, read_config
from docofl_codec.fl.runner import Runner


def test_triples_are_the_papers_configurations() -> None:
    codecs = parse_codecs("2,0.5,3")
    assert codecs.anchor == Ecuq(bits=2)
    assert codecs.correction == Eden(bits=0.5)
    assert codecs.update == Eden(bits=3)
    assert codecs.downlink == "docofl"


def test_other_spellings() -> None:
    assert parse_codecs("fedavg").correction == Identity()
    assert parse_codecs("fedavg").downlink == "direct"
    assert parse_codecs("32,2,3").anchor == Identity()
    assert parse_codecs("direct:1,3").correction == Eden(bits=1)
    anchors = parse_codecs("anchor:2,3")
    assert (anchors.anchor, anchors.update, anchors.downlink) == (
        Ecuq(bits=2),
        Eden(bits=3),
        "anchor",
    )
    assert parse_codecs("eden:4, ecuq:2, identity").anchor == Eden(bits=4)


@pytest.mark.parametrize(
    "spelling", ["", "2,2", "2,2,2,2", "direct:1", "anchor:1,2,3", "zip:9,1,1"]
)
def test_bad_codecs(spelling: str) -> None:
    with pytest.raises(InvalidInputError, match="codec"):
        RunConfig(codec=spelling)


def test_numbers_default_to_the_tasks() -> None:
    settings = RunConfig(task="emnist", per_round=5).settings()
    assert (settings.num_clients, settings.per_round, settings.batch_size) == (1000, 5, 64)
    assert (settings.client_lr, settings.server_momentum) == (0.05, 0.9)
    assert (settings.weight_decay, settings.deploy_every, settings.capacity) == (1e-5, 10, 3)
    whole = RunConfig(task="emnist", per_round=5).to_dict()
    assert (whole["rounds"], whole["per_round"], whole["label"]) == (600, 5, "2,2,3")


def test_adaptive_optimizers_have_their_own_learning_rate() -> None:
    assert RunConfig(server_optimizer="adam").settings().server_lr == 0.01
    assert RunConfig(server_optimizer="adam", server_lr=0.5).settings().server_lr == 0.5
    assert RunConfig().settings().server_lr == 1


def test_a_file_has_the_same_keys(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('task = "digits"\ncodec = "4,4,3"\nclient_lr = 1\nef21 = true\n')
    config = RunConfig.from_dict(read_config(path))
    assert config == RunConfig(task="digits", codec="4,4,3", client_lr=1.0, ef21=True)
    path.write_text("\ufeffrounds = 3\n", encoding="utf-8")
    assert read_config(path) == {"rounds": 3}
    path.write_text("task = \n")
    with pytest.raises(InvalidInputError, match=r"run\.toml"):
        read_config(path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"taks": "digits"}, "taks: unknown"),
        ({"task": "mnist"}, "task: found 'mnist'"),
        ({"rounds": "many"}, "rounds: found 'many', expected int"),
        ({"rounds": 0}, "rounds: found 0"),
        ({"rounds": True}, "rounds: found True"),
        ({"ef21": 1}, "ef21: found 1, expected bool"),
        ({"client_optimizer": "lion"}, "client_optimizer: found 'lion', expected sgd or adam"),
        ({"dropout": 2}, "dropout: found 2"),
        ({"delayed": 0.5}, "delayed: found without max_delay"),
        ({"adaptive_error": 0.1}, "adaptive_error: found without adaptive_rho"),
        ({"adaptive_error": 0}, "adaptive_error: found without adaptive_rho"),
        ({"adaptive_rho": 2, "adaptive_error": 0}, "adaptive budgets .*: error: found 0.0"),
        ({"adaptive_rho": 1}, "adaptive budgets with codec '2,2,3': rho: found 1.0, expected more"),
        ({"adaptive_rho": 2, "codec": "fedavg"}, "budgets with codec 'fedavg': .* a budget in"),
        (
            {"adaptive_rho": 2, "adaptive_error": 1, "codec": "2,topk:0.1,3"},
            "budgets with codec '2,topk:0.1,3': codec: found TopK.*, expected one with a budget",
        ),
        (
            {"adaptive_rho": 2, "anchor_bits_min": 9},
            "adaptive budgets .*: anchor_bits: found 9.0 to 8.0",
        ),
        ({"adaptive_rho": 2, "anchor_bits_min": 1e-9}, "adaptive budgets .*: bits: found"),
        ({"data": ""}, "data: found an empty text"),
        ({"ef21": True, "max_delay": 3}, "ef21: found with weighted or max_delay"),
        ({"weak_link": "1/1"}, "weak_link: found without strong_link"),
        ({"batch_size": 0}, "batch_size: found 0"),
        ({"local_epochs": 0}, "local_epochs: found 0"),
        ({"seed": -1}, "seed: found -1"),
        ({"quorum": 100}, "quorum: found 100, expected at most 10"),
        ({"codec": "2,100,3"}, "codec, '100': bits"),
        ({"codec": "nan,2,3"}, "codec, 'nan': bits"),
        ({"codec": None}, "codec: found None, expected str"),
        ({"client_lr": float("nan")}, "client_lr: found nan"),
        ({"client_lr": 10**400}, "client_lr: found inf"),
        ({"server_lr": -1}, "server_lr: found -1"),
        ({"server_momentum": -5.0}, "server_momentum: found -5.0, expected 0 to 1"),
        ({"weight_decay": float("inf")}, "weight_decay: found inf"),
        ({"anchor_bits_min": -4}, "anchor_bits_min: found -4"),
        ({"capacity": 10**30}, "capacity: found 1000"),
        ({"lead_max": 99_999_999_999}, "lead_max: found 99999999999, expected 0 to 10000"),
        ({"threads": 100_000}, "threads: found 100000, expected 1 to 1024"),
        ({"rounds": 2.5}, "rounds: found 2.5, expected int"),
        ({"server_optimizer": "adam", "weight_decay": 0.1}, "weight_decay: found with adam"),
    ],
)
def test_bad_values(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        RunConfig.from_dict(values)
    if "unknown" not in message:
        with pytest.raises(InvalidInputError, match=message):
            RunConfig(**values)


def test_numbers_of_numpy_are_numbers() -> None:
    config = RunConfig(rounds=np.int64(2), seed=np.uint8(3), client_lr=np.float32(0.5))
    assert config == RunConfig(rounds=2, seed=3, client_lr=0.5)
    assert json.loads(json.dumps(config.to_dict()))["rounds"] == 2


def test_a_file_of_tables_within_tables(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("x = " + "[" * 5000 + "]" * 5000)
    with pytest.raises(InvalidInputError, match="tables within tables"):
        read_config(path)


@pytest.mark.parametrize("link", ["0/1", "inf/1", "1", "1/-1", "a/b"])
def test_links_without_speed(link: str) -> None:
    with pytest.raises(InvalidInputError, match="strong_link: found"):
        Runner(RunConfig(strong_link=link))
