"""Runs: they learn, repeat themselves, go on after a stop, and report what went wrong."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docofl_codec import InvalidInputError, fl
from docofl_codec.fl.folder_lock import lock_folder, unlock_folder
from docofl_codec.fl.run_files import CONFIG, METRICS
from docofl_codec.fl.runner import CHECKPOINT, RESULT, Runner
from docofl_codec.framework import CheckpointError
from tests.fl.files import write_emnist, write_emnist_part
from tests.helpers.processes import child_environment

SHORT: dict[str, Any] = {"rounds": 8, "eval_every": 4, "num_clients": 12, "per_round": 4}


def short(**options: Any) -> fl.RunConfig:
    return fl.RunConfig(**{**SHORT, **options})


def test_the_digits_run_learns_as_federated_averaging_does() -> None:
    """The run that `docofl run` and the demo do by default."""
    accuracies = {}
    for codec in ("fedavg", "2,2,3"):
        result = fl.run(fl.RunConfig(codec=codec, rounds=60))
        assert result.status == "finished"
        accuracies[codec] = result.final_accuracy
    assert accuracies["fedavg"] > 0.9
    assert accuracies["2,2,3"] > accuracies["fedavg"] - 0.03


def test_an_emnist_like_run_learns_with_a_sixteenth_of_the_online_bytes(tmp_path: Path) -> None:
    """Forty rounds of LeNet on made-up characters in EMNIST's files."""
    rng = np.random.default_rng(0)
    shapes = rng.integers(0, 2, size=(47, 7, 7)).repeat(4, axis=1).repeat(4, axis=2) * 200
    labels = {"train": rng.integers(47, size=3000), "test": rng.integers(47, size=300)}
    for part, classes in labels.items():
        noise = rng.integers(0, 56, size=(classes.size, 28, 28))
        images = (shapes[classes] + noise).astype(np.uint8)
        write_emnist_part(tmp_path / "emnist", f"emnist-balanced-{part}", images, classes)
    config = fl.RunConfig(
        task="emnist", data=str(tmp_path), rounds=40, num_clients=100, eval_every=20
    )
    result = fl.run(config)
    assert result.best_accuracy > 0.5
    last = result.metrics[-1]
    plain = 4 * 20 * result.weights.size
    assert plain / last["correction_bytes"] > 15
    assert last["late_anchor_bytes"] == 0


def test_a_seed_fixes_a_run_and_runs_of_a_seed_are_paired() -> None:
    first, again, other = (fl.run(short(seed=seed)) for seed in (1, 1, 2))
    assert first.weights.tobytes() == again.weights.tobytes() != other.weights.tobytes()
    exact, compressed = (Runner(short(codec=codec, seed=1)) for codec in ("fedavg", "2,2,3"))
    assert np.array_equal(exact.server.weights, compressed.server.weights)
    for t in range(8):
        one, two = (r.server.participation.participants(t) for r in (exact, compressed))
        assert set(one) == set(two)


RUNS: list[dict[str, Any]] = [
    {},
    {"codec": "fedavg", "server_optimizer": "adam"},
    {"ef21": True, "codec": "2,1,1"},
    {"delayed": 0.5, "max_delay": 2, "dropout": 0.2},
    {"adaptive_rho": 1.5, "adaptive_error": 0.1},
]


@pytest.mark.parametrize("options", RUNS, ids=repr)
def test_a_run_that_was_stopped_goes_on(tmp_path: Path, options: dict[str, Any]) -> None:
    config = short(checkpoint_every=3, **options)
    whole = fl.run(config, tmp_path / "whole")
    runner = Runner(config, tmp_path / "stopped")
    rounds = runner.rounds()
    for _ in range(5):  # two rounds beyond the last checkpoint
        next(rounds)
    with (tmp_path / "stopped" / METRICS).open("a") as file:
        file.write('{"round": 5, "acc')
    resumed = fl.run(config, tmp_path / "stopped")
    assert resumed.weights.tobytes() == whole.weights.tobytes()
    texts = [(tmp_path / name / METRICS).read_text() for name in ("whole", "stopped")]
    one, two = ([json.loads(line) for line in text.splitlines()] for text in texts)
    for metrics in (*one, *two):
        del metrics["seconds"]
    assert one == two
    assert (tmp_path / "stopped" / RESULT).exists()


@pytest.mark.parametrize("options", RUNS, ids=repr)
def test_a_finished_run_goes_on_with_more_rounds(tmp_path: Path, options: dict[str, Any]) -> None:
    """As if it had had them from the start: round 6 was evaluated as the last, and is no more."""
    whole = fl.run(short(**options), tmp_path / "whole")
    fl.run(short(rounds=6, **options), tmp_path / "longer")
    longer = fl.run(short(**options), tmp_path / "longer")
    check_same(longer, whole)
    for name in (CONFIG, RESULT):
        one, two = ((tmp_path / folder / name).read_text() for folder in ("whole", "longer"))
        assert one == two
    assert len((tmp_path / "longer" / METRICS).read_text().splitlines()) == 8


def test_a_run_that_goes_on_has_no_result_until_it_ends(tmp_path: Path) -> None:
    fl.run(short(rounds=6), tmp_path)
    next(Runner(short(), tmp_path).rounds())
    assert not (tmp_path / RESULT).exists()
    unlock_folder(tmp_path)
    check_same(fl.run(short(), tmp_path), fl.run(short()))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"rounds": 6}),
        # Clients are told up to so many rounds ahead: others would take part from the start.
        ({"rounds": 2, "deploy_every": 2000}, {"rounds": 2000, "deploy_every": 2000}),
    ],
)
def test_other_rounds_that_change_those_done_are_refused(
    tmp_path: Path, before: dict[str, Any], after: dict[str, Any]
) -> None:
    fl.run(short(**before), tmp_path)
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InvalidInputError, match="rounds: found"):
        fl.run(short(**after), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files


@pytest.mark.parametrize("rounds", [None, 0, -1, True, "2", 1.5])
def test_rounds_in_the_folder_that_are_none_are_refused(tmp_path: Path, rounds: Any) -> None:
    fl.run(short(rounds=2), tmp_path)
    config = json.loads((tmp_path / CONFIG).read_text())
    (tmp_path / CONFIG).write_text(json.dumps({**config, "rounds": rounds}))
    with pytest.raises(InvalidInputError, match="rounds: found"):
        fl.run(short(rounds=3), tmp_path)


def test_a_finished_run_is_not_done_again(tmp_path: Path) -> None:
    fl.run(short(), tmp_path)
    before = (tmp_path / METRICS).read_bytes()
    seen: list[Any] = []
    result = fl.run(short(), tmp_path, on_round=seen.append)
    assert not seen
    assert result.rounds == 8
    assert (tmp_path / METRICS).read_bytes() == before


def test_another_run_in_the_folder_is_refused(tmp_path: Path) -> None:
    fl.run(short(rounds=1), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InvalidInputError, match="codec: found 2,2,3, expected 4,4,3"):
        fl.run(short(rounds=1, codec="4,4,3"), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert set(before) == {CONFIG, METRICS, CHECKPOINT, RESULT}


def test_a_run_that_diverges_is_reported(tmp_path: Path) -> None:
    config = short(rounds=30, client_lr=1e20, codec="fedavg")
    result = fl.run(config, tmp_path)
    assert result.status == "diverged"
    assert result.rounds < 30
    assert result.metrics[-1]["diverged"]
    assert json.loads((tmp_path / RESULT).read_text())["status"] == "diverged"
    again = fl.run(config, tmp_path)
    check_same(again, result)


def check_same(found: fl.RunResult, expected: fl.RunResult) -> None:
    assert found.summary() == expected.summary()
    assert found.weights.tobytes() == expected.weights.tobytes()
    for mine, theirs in zip(found.metrics, expected.metrics, strict=True):
        assert {**mine, "seconds": 0} == {**theirs, "seconds": 0}


@pytest.mark.parametrize("options", [{"client_lr": 1e20}, {"server_lr": 1e10, "client_lr": 1.0}])
def test_a_run_that_is_stopped_before_it_diverges(tmp_path: Path, options: dict[str, Any]) -> None:
    config = short(rounds=60, checkpoint_every=1, **options)
    whole = fl.run(config)
    assert whole.status == "diverged"
    for stop in range(1, whole.rounds + 1):
        folder = tmp_path / str(stop)
        for _ in zip(range(stop), Runner(config, folder).rounds(), strict=False):
            pass
        check_same(fl.run(config, folder), whole)


def test_a_run_that_is_over_before_it_is_sure_to_have_diverged() -> None:
    result = fl.run(short(rounds=1, client_lr=1e30))
    assert result.status == "diverged"


HOLDER = """
import sys
from pathlib import Path
from docofl_codec import fl
from docofl_codec.fl.runner import Runner
config = fl.RunConfig(rounds=8, eval_every=4, num_clients=12, per_round=4)
runner = Runner(config, Path(sys.argv[1]))
next(runner.rounds())
print("holds", flush=True)
sys.stdin.read()
"""


def test_two_processes_do_not_write_to_one_folder(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        env=child_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"holds\n"
        with pytest.raises(InvalidInputError, match="in use by another process"):
            fl.run(short(), tmp_path)
        holder.kill()
    assert fl.run(short(), tmp_path).summary() == fl.run(short()).summary()
    assert {path.name for path in tmp_path.iterdir()} == {CONFIG, METRICS, CHECKPOINT, RESULT}


SWEEP = """
import sys
from pathlib import Path
from docofl_codec.fl import RunConfig
from docofl_codec.fl.sweep import Job, run_all
if __name__ == "__main__":
    run_all([Job(RunConfig(rounds=100_000, eval_every=100_000), Path(sys.argv[1]))])
"""


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_runs_end_with_the_process_that_started_them(tmp_path: Path, sent: signal.Signals) -> None:
    script, folder = tmp_path / "sweep.py", tmp_path / "run"
    script.write_text(SWEEP)
    parent = subprocess.Popen([sys.executable, script, folder], env=child_environment())
    deadline = time.monotonic() + 60
    while not (folder / METRICS).exists() or not (folder / METRICS).read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    parent.send_signal(sent)
    parent.wait()
    while True:  # until the child has let go of the folder
        try:
            lock_folder(folder)
        except InvalidInputError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            break
    unlock_folder(folder)


def test_a_server_does_not_look_beyond_the_run(tmp_path: Path) -> None:
    began = time.monotonic()
    fl.run(short(rounds=2, deploy_every=1_000_000), tmp_path)
    assert time.monotonic() - began < 30


def test_a_norm_limit_that_drops_everybody_is_no_divergence() -> None:
    result = fl.run(short(max_update_norm=1e-9))
    assert result.status == "finished"
    assert all(m["dropped"] == 4 and m["accepted"] == 0 for m in result.metrics)
    assert all(m["updates"] == 4 for m in result.metrics)


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        (METRICS, "[1]\n", InvalidInputError),
        (METRICS, "{}\n", InvalidInputError),
        (METRICS, '{"round": 0, "train_loss": "x"}\n', InvalidInputError),
        (METRICS, '{"round": true}\n', InvalidInputError),
        (METRICS, '{"round": 0}\n{"round": 2}\n', CheckpointError),
        (METRICS, "", CheckpointError),
        (CONFIG, "[]", InvalidInputError),
        (CONFIG, "{", InvalidInputError),
    ],
)
def test_a_folder_that_was_edited_is_refused(
    tmp_path: Path, name: str, content: str, error: type[Exception]
) -> None:
    fl.run(short(rounds=2, checkpoint_every=1), tmp_path)
    (tmp_path / name).write_text(content)
    with pytest.raises(error, match=name):
        fl.run(short(rounds=2, checkpoint_every=1), tmp_path)


def test_metrics_behind_the_checkpoint_do_not_matter(tmp_path: Path) -> None:
    config = short(rounds=2, checkpoint_every=1)
    expected = fl.run(config, tmp_path)
    with (tmp_path / METRICS).open("ab") as file:
        file.write(bytes(10) + b"\n")
    assert fl.run(config, tmp_path).metrics == expected.metrics


@pytest.mark.parametrize(
    ("damaged", "content", "options"),
    [
        (CONFIG, None, {}),
        (CONFIG, None, {"client_lr": 0.7}),
        (CONFIG, b"{", {}),
        (METRICS, b"[]\n", {"rounds": 5}),
        (METRICS, b"", {"rounds": 5, "label": "another"}),
        (CHECKPOINT, b"DOCOFLCK", {"rounds": 5}),
        ("another file", b"", {"seed": 4}),
    ],
)
def test_a_folder_that_is_refused_stays_as_it_was(
    tmp_path: Path, damaged: str, content: bytes | None, options: dict[str, Any]
) -> None:
    fl.run(short(rounds=3, checkpoint_every=3), tmp_path)
    if content is None:
        (tmp_path / damaged).unlink()
    else:
        (tmp_path / damaged).write_bytes(content)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises((InvalidInputError, CheckpointError)):
        fl.run(short(**{"rounds": 3, "checkpoint_every": 3, **options}), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_run_goes_on_with_its_own_data_wherever_they_are(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write_emnist(tmp_path / name / "emnist", 60, 21 if name == "c" else 20)
    options: dict[str, Any] = {"task": "emnist", "num_clients": 4, "per_round": 2}

    def run(data: str, rounds: int) -> None:
        fl.run(fl.RunConfig(**options, rounds=rounds, data=str(tmp_path / data)), tmp_path / "out")

    run("a", 1)
    run("b", 2)
    assert json.loads((tmp_path / "out" / CONFIG).read_text())["data"] == str(tmp_path / "b")
    with pytest.raises(InvalidInputError, match="data_digest: found"):
        run("c", 3)


@pytest.mark.parametrize("codec", ["topk:0.1,2,3", "anchor:topk:0.1,3", "randk:0.1,2,3"])
def test_anchors_of_a_codec_without_bits(codec: str) -> None:
    result = fl.run(short(codec=codec, rounds=3))
    assert "anchor_bits" not in result.metrics[-1]
    assert result.metrics[-1]["rho"] is not None


def test_the_guide_names_all_metrics() -> None:
    guide = Path(__file__).resolve().parents[2] / "docs" / "guides" / "running.md"
    _, _, table = guide.read_text(encoding="utf-8").partition("## Metrics")
    named = set(re.findall(r"`([a-z_]+)`", table))
    lost = short(client_lr=1e30, rounds=3)
    runs = [fl.run(short(strong_link="1/1")), fl.run(short(server_lr=1e39)), fl.run(lost)]
    assert all(m["dropped"] == 4 and m["updates"] == 0 for m in runs[2].metrics)
    assert named == {key for run in runs for metrics in run.metrics for key in metrics}


def test_dropouts_are_missing_and_the_others_go_on() -> None:
    result = fl.run(short(dropout=0.5))
    missing = sum(metrics["missing"] for metrics in result.metrics)
    assert 0 < missing < 8 * 4
    assert all(m["accepted"] + m["missing"] == 4 for m in result.metrics)
    assert all(m["updates"] == m["accepted"] for m in result.metrics)


def test_early_anchors_save_time_on_slow_links() -> None:
    seconds = {}
    for codec in ("fedavg", "2,1,1"):
        config = short(
            codec=codec,
            rounds=12,
            weak_share=0.5,
            strong_link="20/5",
            weak_link="1/0.25",
            deploy_every=2,
            capacity=3,
        )
        result = fl.run(config)
        by_round = [m["online_seconds"] for m in result.metrics]
        assert result.link_seconds == pytest.approx(np.mean(by_round))
        seconds[codec] = np.mean(by_round[6:])
    assert seconds["fedavg"] > 10 * seconds["2,1,1"]
    assert fl.run(short(rounds=1)).summary()["link_seconds"] is None


def test_adaptive_budgets_move() -> None:
    result = fl.run(short(rounds=12, adaptive_rho=1.05, deploy_every=2))
    assert len({metrics["anchor_bits"] for metrics in result.metrics}) > 2


@pytest.mark.parametrize("optimizer", ["adam", "yogi", "adagrad"])
def test_adaptive_server_optimizers_train(optimizer: Any) -> None:
    result = fl.run(
        fl.RunConfig(rounds=40, server_optimizer=optimizer, server_lr=0.02, codec="2,2,3")
    )
    assert result.final_accuracy > 0.7


def test_bad_links_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="strong_link: found 'fast'"):
        fl.run(short(strong_link="fast"))


def test_a_run_that_fails_lets_go_of_its_folder(tmp_path: Path) -> None:
    def fail(_: object) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fl.run(short(), tmp_path, on_round=fail)
    done = subprocess.run(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        env=child_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"holds\n"


def test_a_new_label_is_the_runs(tmp_path: Path) -> None:
    fl.run(short(label="old"), tmp_path)
    fl.run(short(label="new"), tmp_path)
    assert json.loads((tmp_path / CONFIG).read_text())["label"] == "new"


def test_a_limit_on_norms_whose_square_is_not_finite() -> None:
    huge, large = (fl.run(short(max_update_norm=norm)) for norm in (1e200, 1e100))
    assert all(metrics["accepted"] == 4 for metrics in huge.metrics)
    check_same(huge, large)


def test_clients_are_told_a_bounded_number_of_rounds_ahead() -> None:
    began = time.monotonic()
    runner = Runner(short(rounds=2**31 - 1, deploy_every=2**31 - 1))
    next(runner.rounds())
    assert time.monotonic() - began < 60
