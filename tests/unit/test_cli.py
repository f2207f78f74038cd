"""The command docofl: what it prints, where, and its exit codes."""

from __future__ import annotations

import csv
import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

from docofl_codec import __version__, cli

pytest.importorskip("torch")

SHORT = ["--rounds", "4", "--eval-every", "2", "--num-clients", "12", "--per-round", "4"]


def test_options_are_the_fields_of_a_configuration() -> None:
    from docofl_codec.fl import RunConfig

    fields = [field.name for field in dataclasses.fields(RunConfig)]
    assert ["task", *cli._RUN_OPTIONS] == fields


def test_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "a")
    assert cli.main(["run", *SHORT, "--codec", "4,2,3", "--out", out]) == 0
    text = capsys.readouterr().out
    assert "digits, 4,2,3, seed 0: finished" in text
    assert "x fewer than float32" in text
    assert cli.main(["run", "digits", *SHORT, "--codec", "4,2,3", "--out", out, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["rounds"] == 4
    assert result["downlink_bytes"] > result["online_downlink_bytes"] > 0


def test_a_file_and_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.toml"
    options = 'codec = "fedavg"\nrounds = 2\nnum_clients = 12\nper_round = 3\n'
    path.write_text(f'out = "{tmp_path}/a"\n{options}')
    assert cli.main(["run", "--config", str(path), "--rounds", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rounds"] == 3
    assert (tmp_path / "a" / "result.json").exists()
    arguments = ["run", "--config", str(path), "--out", str(tmp_path / "b"), "--json"]
    assert cli.main(arguments) == 0
    assert (tmp_path / "b" / "result.json").exists()
    path.write_text("out = 7\n")
    assert cli.main(["run", "--config", str(path)]) == 1
    assert "out: found 7, expected a folder" in capsys.readouterr().err


def test_links_show_as_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model of 17,226 weights takes 5.5 s down and 22 s up on the weak link."""
    links = [*SHORT, "--weak-share", "1", "--strong-link", "20/5", "--weak-link", "0.1/0.025"]
    assert cli.main(["run", *links, "--codec", "fedavg"]) == 0
    assert "link time: 27.6 s a round" in capsys.readouterr().out
    codecs = ["fedavg", "2,2,3"]
    arguments = ["compare", *links, "--lead-min", "1", "--codecs", *codecs, "--out", str(tmp_path)]
    assert cli.main(arguments) == 0
    table = capsys.readouterr().out
    assert "link time of a round" in table
    lines = table.rstrip().splitlines()
    assert lines[-2].rstrip().endswith("27.6 s")
    with (tmp_path / "table.csv").open(encoding="utf-8") as file:
        exact, compressed = (float(row["link_seconds"]) for row in csv.DictReader(file))
    assert exact == pytest.approx(27.6, abs=0.1)
    assert compressed < exact / 5
    assert cli.main(["run", *SHORT]) == 0
    assert "link time" not in capsys.readouterr().out


def test_compare_ablate_and_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = tmp_path / "runs"
    arguments = ["compare", *SHORT, "--codecs", "fedavg", "2,2,3", "--out", str(runs)]
    assert cli.main(arguments) == 0
    table = capsys.readouterr().out
    assert "fedavg" in table
    assert "2,2,3" in table
    assert cli.main([*arguments, "--json"]) == 0
    assert [row["label"] for row in json.loads(capsys.readouterr().out)] == ["fedavg", "2,2,3"]
    folders = [str(path) for path in runs.iterdir() if path.is_dir()]
    assert cli.main(["report", *folders, "--out", str(tmp_path / "report")]) == 0
    assert Path(capsys.readouterr().out.strip()).read_text().startswith("<!")
    study = ["ablate", "correction", "digits", "--quick", *SHORT, "--out", str(tmp_path / "s")]
    assert cli.main(study) == 0
    assert "anchor:2,3" in capsys.readouterr().out
    assert (tmp_path / "s" / "correction" / "correction.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "digits", "--codec", "9"], "codec: found '9'"),
        (["run", "mnist"], "task: found 'mnist', expected one of digits, emnist"),
        (["run", "emnist", "--data", "/nowhere"], "/nowhere"),
        (["run", "--client-lr", "1e39"], "client_lr: found 1e+39"),
        (["run", "--ef21", "--weighted"], "ef21: found with weighted"),
        (["run", "--lead-min", "3", "--lead-max", "2"], "lead_max: found 2"),
        (["run", "--config", "/nowhere.toml"], "/nowhere.toml"),
        (["ablate", "sigma", "digits"], "study: found 'sigma'"),
        (["ablate", "adaptive", "digits", "--adaptive-rho", "2"], "adaptive_rho: found 2.0"),
        (["ablate", "kv", "digits", "--capacity", "4"], "capacity: found 4, expected none"),
        (["run", "--data", "~nobody-here/x"], "data: found '~nobody-here/x'"),
        (["report", "/nowhere"], "/nowhere"),
    ],
)
def test_errors_are_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 1
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.startswith("docofl: ")
    assert captured.err.count("\n") == 1
    assert not captured.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--out", ""],
        ["run", "--config", ""],
        ["run", "--weak-link", ""],
        ["compare", "--out", ""],
        ["report", ""],
    ],
)
def test_empty_options(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(arguments)
    assert "found an empty text" in capsys.readouterr().err


def test_a_folder_below_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "run.toml"
    path.write_text('out = "~/a"\n')
    assert cli.main(["run", *SHORT, "--config", str(path)]) == 0
    assert cli.main(["run", *SHORT, "--out=~/b"]) == 0
    assert all((tmp_path / name / "result.json").exists() for name in "ab")
    path.write_text('out = "~nobody-here/a"\n')
    assert cli.main(["run", *SHORT, "--config", str(path)]) == 1
    assert "out: found '~nobody-here/a', but there is no such user" in capsys.readouterr().err


def test_a_folder_for_each_task_and_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["compare", *SHORT, "--codecs", "fedavg"]) == 0
    assert cli.main(["ablate", "rho", "digits", "--quick", *SHORT]) == 0
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.csv"))
    assert found == ["runs/ablate-digits-quick/rho/rho.csv", "runs/compare-digits/table.csv"]
    assert cli.main(["report", *map(str, Path("runs").iterdir())]) == 0
    assert Path("report/index.html").exists()


def test_a_diverged_run_has_its_own_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", *SHORT, "--codec", "fedavg", "--client-lr", "1e30"]) == cli.DIVERGED
    assert "diverged" in capsys.readouterr().out


def test_a_wrong_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["fly"])
    assert "usage: docofl" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--version"])
    assert __version__ in capsys.readouterr().out


def test_missing_extras_are_named() -> None:
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "from docofl_codec import cli; sys.exit(cli.main(['run']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "this needs torch: pip install" in done.stderr
