"""What the command prints on a narrow terminal, and as JSON."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from docofl_codec import cli
from docofl_codec.fl import ablate, compare
from docofl_codec.fl.compare import Row, summarize
from docofl_codec.fl.report import read_run
from tests.fl.run_folders import make_metrics, write_run


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@contextmanager
def terminal(columns: int = 80) -> Iterator[Terminal]:
    """Make standard output and standard error a terminal."""
    stream = Terminal()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        patch.setenv("TERM", "xterm")
        patch.setattr(sys, "stdout", stream)
        patch.setattr(sys, "stderr", stream)
        yield stream


@pytest.fixture
def rows(tmp_path: Path) -> list[Row]:
    """Return the rows of two configurations, of which one has diverged before an evaluation."""
    metrics = make_metrics(10)
    metrics[9]["diverged"] = True
    folders = [
        *(
            write_run(tmp_path / f"a{seed}", make_metrics(100, seed=seed), codec="fedavg")
            for seed in range(3)
        ),
        write_run(tmp_path / "b", metrics, codec="ecuq:2,eden:0.5,eden:1"),
    ]
    return summarize(folders)


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


# --- tables ------------------------------------------------------------------------------------


def test_cells_of_a_comparison_are_whole(rows: list[Row]) -> None:
    with terminal() as stream:
        cli._print_rows("emnist", rows)
    text = plain(stream.getvalue())
    assert "…" not in text
    for cell in ("fedavg", "ecuq:2,eden:0.5,eden:1 (1 diverged)", "final accuracy", " uplink"):
        assert cell in text
    assert len(re.findall(r"\d\d\.\d\d ± \d\.\d\d %", text)) == 2


def test_cells_of_a_study_are_whole(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "a", make_metrics(100), label="EDEN, 1 bit"))
    row = ablate._measured(run)
    cells = list(map(cli._cell, row.values()))
    with terminal() as stream:
        cli._print_table("ef21", list(row), [cells])
    text = plain(stream.getvalue())
    assert all(cell in text for cell in [*row, *cells])
    assert "…" not in text


def test_a_table_that_fits_is_not_widened() -> None:
    with terminal() as stream:
        cli._print_table("t", ["", "b"], [["a", "1"]])
    assert max(map(len, plain(stream.getvalue()).splitlines())) < 20


def test_a_wide_table_in_a_pipe_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    cells = [str(number) * 40 for number in range(9)]
    cli._print_table("t", ["" for _ in cells], [cells])
    text = capsys.readouterr().out
    assert all(cell in text for cell in cells)


# --- progress ----------------------------------------------------------------------------------


@pytest.mark.parametrize("title", ["digits 2,2,3", "emnist " + "x" * 90, "digits [/label]"])
def test_rounds_and_time_left_fit_a_terminal(title: str) -> None:
    text = "accuracy 89.8 %  loss 0.312  down 1.23 MB  up 950 kB"
    with terminal() as stream, cli._progress(title) as show:
        show(118, 2000, text)
    shown = re.split(r"[\r\n]+", plain(stream.getvalue()))
    line = [line for line in shown if line.strip()][-1]
    assert len(line.rstrip()) <= 80
    assert line.startswith(title[:12])
    assert re.search(r" +118/2000 (-|\d):..:.. accuracy 89", line)
    assert "…" in line


def test_a_wide_terminal_shows_everything() -> None:
    text = "accuracy 89.8 %  loss 0.312  down 1.23 MB  up 950 kB"
    with terminal(columns=120) as stream, cli._progress("digits 2,2,3") as show:
        show(118, 2000, text)
    assert text in plain(stream.getvalue())


# --- JSON --------------------------------------------------------------------------------------


def refuse(name: str) -> Any:
    raise ValueError(name)


def test_numbers_that_json_does_not_know_are_null(
    rows: list[Row], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compare, "compare", lambda *_, **__: rows)
    assert cli.main(["compare", "--json"]) == 0
    averaging, diverged = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert len(averaging["test_loss"]) == 3
    assert None not in averaging["test_loss"]
    assert diverged["test_loss"] == [None]
    assert [one["diverged"] for one in diverged["counts"]] == [1]
