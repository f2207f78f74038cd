"""encode, decode, inspect, verify, bench and info: what they print, write and return."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docofl_codec import __version__, cli, files
from tests.helpers.processes import child_environment
from tests.state_dict.models import small_model

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    files.save("m.npz", small_model())
    return tmp_path


def run_json(capsys: Capture, *arguments: str) -> Any:
    assert cli.main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_there_and_back(folder: Path, capsys: Capture) -> None:
    assert cli.main(["encode", "m.npz", "-b", "3"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("m.docofl: ")
    assert "x smaller" in text
    assert cli.main(["inspect", "m.docofl"]) == 0
    table = capsys.readouterr().out
    assert "embedding.weight" in table
    assert "128x64x3x3" in table
    assert cli.main(["verify", "m.docofl", "m.npz"]) == 0
    assert "\nNMSE " in capsys.readouterr().out
    assert cli.main(["decode", "m.docofl"]) == 0
    assert (folder / "m.safetensors").exists()
    assert cli.main(["decode", "m.docofl", "-o", "again.npz"]) == 0
    assert list(np.load("again.npz")) == list(small_model())


def test_json(folder: Path, capsys: Capture) -> None:
    encoded = run_json(capsys, "encode", "m.npz", "--bits", "2.5", "--out", "x.docofl")
    assert encoded["out"] == "x.docofl"
    assert encoded["bits_per_coordinate"] <= 2.5
    assert encoded["frame_bytes"] == (folder / "x.docofl").stat().st_size
    inspected = run_json(capsys, "inspect", "x.docofl")
    assert inspected["tensors"][0]["name"] == "embedding.weight"
    assert inspected["tensors"][0]["nmse"] is None
    verified = run_json(capsys, "verify", "x.docofl", "m.npz")
    assert verified["ok"] is True
    assert verified["tensors"][1]["nmse"] > 0
    assert run_json(capsys, "decode", "x.docofl", "-o", "x.npz")["bytes"] > 0


def test_verify_with_a_limit(folder: Path, capsys: Capture) -> None:
    assert cli.main(["encode", "m.npz", "-b", "2"]) == 0
    assert cli.main(["verify", "m.docofl", "m.npz", "--max-nmse", "0.9"]) == 0
    assert cli.main(["verify", "m.docofl", "m.npz", "--max-nmse", "1e-9"]) == 4
    assert "is above 1e-09" in capsys.readouterr().err
    assert not list(folder.glob("*.new"))


def test_coders(folder: Path, capsys: Capture) -> None:
    blobs = {}
    for coder in ("huffman", "rans", "auto"):
        run_json(capsys, "encode", "m.npz", "-b", "3", "--coder", coder)
        blobs[coder] = (folder / "m.docofl").read_bytes()
    run_json(capsys, "encode", "m.npz", "-b", "3")
    assert (folder / "m.docofl").read_bytes() == blobs["huffman"] != blobs["rans"]


def test_rules_and_flatten(folder: Path, capsys: Capture) -> None:
    assert folder.exists()
    rules = ["--rule", "bn.*=exact", "--rule", "double=half"]
    run_json(capsys, "encode", "m.npz", "-b", "6", *rules)
    stores = {t["name"]: t["store"] for t in run_json(capsys, "inspect", "m.docofl")["tensors"]}
    assert stores["bn.weight"] == "exact"
    assert stores["double"] in ("float16", "bfloat16")
    assert run_json(capsys, "encode", "m.npz", "-b", "6", "--flatten")["flat"] is True


def test_bench(capsys: Capture, folder: Path) -> None:
    assert folder.exists()
    codecs = ["ecuq", "eden", "topk", "identity", "ecq"]
    found = run_json(capsys, "bench", "m.npz", "-b", "3", "--values", "20000", "--codecs", *codecs)
    rows = {row["codec"]: row for row in found["rows"]}
    assert list(rows) == codecs
    assert rows["ecuq"]["bits"] < 3.1
    assert rows["ecuq"]["nmse"] < rows["topk"]["nmse"]
    assert rows["identity"]["nmse"] == 0
    assert cli.main(["bench", "m.npz", "--values", "5000", "--codecs", "ecuq", "nothing"]) == 0
    captured = capsys.readouterr()
    assert "encode ms" in captured.out
    assert "codec: found 'nothing'" in captured.err


def test_info(capsys: Capture) -> None:
    found = run_json(capsys, "info")
    assert found["version"] == __version__
    assert "ecuq" in found["codecs"]
    assert ".safetensors" in found["files"]
    assert cli.main(["info"]) == 0
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["encode", "none.npz"],
        ["encode", "m.npz", "-b", "0"],
        ["encode", "m.npz", "-b", "nan"],
        ["encode", "m.npz", "-o", "m.npz"],
        ["encode", "m.npz", "-o", "missing/m.docofl"],
        ["encode", "m.npz", "--rule", "x"],
        ["encode", "m.npz", "--rule", "*=nothing"],
        ["encode", "m.npz", "--threads", "0"],
        ["encode", "m.npz", "--key", "x"],
        ["encode", "."],
        ["encode", "text.npz"],
        ["encode", "objects.npz"],
        ["encode", "integers.npz"],
        ["decode", "m.npz"],
        ["decode", "text.docofl"],
        ["inspect", "m.npz"],
        ["inspect", "none.docofl"],
        ["verify", "text.docofl", "m.npz"],
        ["bench", "integers.npz"],
        ["bench", "m.npz", "--values", "0"],
    ],
)
def test_errors_of_the_user(folder: Path, capsys: Capture, arguments: list[str]) -> None:
    (folder / "text.npz").write_text("text")
    (folder / "text.docofl").write_text("text")
    np.savez("objects.npz", x=np.array([None]))
    np.savez("integers.npz", x=np.random.default_rng(0).integers(0, 2**62, 3000))
    before = sorted(folder.iterdir())
    assert cli.main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("docofl: ")
    assert captured.err.count("\n") == 1
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("arguments", [[], ["nothing"], ["encode"], ["encode", "m", "-b", "x"]])
def test_a_wrong_command_line(arguments: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    assert stopped.value.code == 2
    assert "usage: docofl" in capsys.readouterr().err


def test_names_cannot_play_with_the_terminal(folder: Path, capsys: Capture) -> None:
    assert folder.exists()
    files.save("evil.npz", {"\x1b[31mred\nline": np.zeros(3)})
    assert cli.main(["encode", "evil.npz"]) == 0
    assert cli.main(["inspect", "evil.docofl"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_a_folder_that_cannot_be_written(folder: Path, capsys: Capture) -> None:
    locked = folder / "locked"
    locked.mkdir()
    locked.chmod(0o500)
    try:
        (locked / "probe").touch()
    except OSError:
        assert cli.main(["encode", "m.npz", "-o", "locked/m.docofl"]) == 1
        assert "locked" in capsys.readouterr().err
        return
    pytest.skip("this user may write anywhere")


def test_start_up(tmp_path: Path) -> None:
    """At most 0.3 s more processor time than Python itself: torch would take seconds."""

    # As installed, with compiled modules. Threads of OpenBLAS wait busily, beside the start.
    environment = {
        **os.environ,
        "PYTHONPYCACHEPREFIX": str(tmp_path),
        "OPENBLAS_NUM_THREADS": "1",
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def seconds(*arguments: str) -> float:
        times = []
        for _ in range(9):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(
                [sys.executable, *arguments],
                check=True,
                stdout=subprocess.DEVNULL,
                env=environment,
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(times)

    bare = seconds("-c", "pass")
    assert seconds("-m", "docofl_codec.cli", "--version") - bare < 0.3


def test_torch_is_imported_where_it_is_needed_alone(folder: Path) -> None:
    code = (
        "import sys\n"
        "from docofl_codec.cli import main\n"
        "for line in ('encode m.npz', 'decode m.docofl', 'inspect m.docofl',\n"
        "             'verify m.docofl m.npz', 'info', 'bench m.npz --codecs ecuq'):\n"
        "    assert main(line.split()) == 0\n"
        "assert not {'torch', 'matplotlib', 'rich', 'sklearn'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_output_that_knows_few_characters(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "model.npz"
    files.save(path, {"x": np.ones(1000, np.float32)})
    files.encode_file(path, tmp_path / "model.docofl")
    done = subprocess.run(
        [sys.executable, "-m", "docofl_codec.cli", "inspect", str(tmp_path / "model.docofl")],
        env={**child_environment(), "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"x" in done.stdout
