"""The report: what it reads, what it counts, and files that can be looked at."""

from __future__ import annotations

import base64
import json
import re
import struct
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docofl_codec.fl.compare import summarize
from docofl_codec.fl.report import RunFolderError, read_run, write_report
from docofl_codec.fl.report.curves import FIGURES, draw_all
from docofl_codec.fl.report.runs import Run, group_runs
from tests.fl.run_folders import CLIENTS, NUM_WEIGHTS, make_metrics, write_run

PNG = b"\x89PNG\r\n\x1a\n"


def png_size(content: bytes) -> tuple[int, int]:
    assert content[:8] == PNG
    width, height = struct.unpack(">II", content[16:24])
    return width, height


class Page(HTMLParser):
    """The images, tables and balance of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []
        self.links: list[str] = []
        self.rows: list[list[str]] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.links += [values[key] or "" for key in ("href", "src") if key in values]
        if tag == "img":
            self.sources.append(values["src"] or "")
        elif tag != "meta":
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


# --- reading -----------------------------------------------------------------------------------


def test_sums_and_rounds(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "a", make_metrics(50), label="DoCoFL"))
    assert run.rounds.tolist() == list(range(1, 51))
    per_round = CLIENTS * NUM_WEIGHTS * 2 // 8
    assert run.online_bytes[-1] == 50 * per_round
    assert run.downlink_bytes[9] == 20 * per_round
    assert run.float32_bytes == 50 * 4 * CLIENTS * NUM_WEIGHTS
    assert run.accuracies.size == 2
    assert not run.diverged


def test_rounds_done_again_count_once_and_half_a_line_not_at_all(tmp_path: Path) -> None:
    metrics = make_metrics(10)
    again = [{**entry, "train_loss": 9.0} for entry in metrics[6:]]
    path = write_run(tmp_path / "a", metrics[:8] + again)
    with (path / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"round": 10, "tra')
    run = read_run(path)
    assert [entry["round"] for entry in run.metrics] == list(range(10))
    assert run.series("train_loss")[6:].tolist() == [9.0] * 4


def test_a_round_that_was_not_evaluated_has_no_accuracy(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "a", make_metrics(30, eval_every=10)))
    assert np.flatnonzero(~np.isnan(run.series("test_accuracy"))).tolist() == [9, 19, 29]


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), 1e9])
def test_divergence(tmp_path: Path, loss: float) -> None:
    metrics = make_metrics(30)
    metrics[12]["train_loss"] = loss
    assert read_run(write_run(tmp_path / "a", metrics)).diverged


def test_a_run_says_itself_that_it_diverged(tmp_path: Path) -> None:
    metrics = make_metrics(30)
    metrics[-1].update(accepted=0, dropped=0, missing=CLIENTS, train_loss=None)
    assert not read_run(write_run(tmp_path / "a", metrics)).diverged
    metrics[-1]["diverged"] = True
    assert read_run(write_run(tmp_path / "b", metrics)).diverged


def test_clients_that_vanish_have_downloaded_and_sent_nothing(tmp_path: Path) -> None:
    metrics = make_metrics(10)
    for entry in metrics[1:]:
        size = entry["update_bytes"] * (CLIENTS - 3) // CLIENTS
        sent = CLIENTS - 3
        entry.update(accepted=CLIENTS - 5, dropped=2, missing=3, updates=sent, update_bytes=size)
    run = read_run(write_run(tmp_path / "a", metrics))
    assert run.float32_bytes == 10 * 4 * CLIENTS * NUM_WEIGHTS
    assert run.float32_uplink_bytes == 4 * (CLIENTS + 9 * (CLIENTS - 3)) * NUM_WEIGHTS


def test_clients_whose_training_failed_have_sent_nothing(tmp_path: Path) -> None:
    metrics = make_metrics(10)
    for entry in metrics[4:]:
        size = entry["update_bytes"] // 4
        sent = CLIENTS // 4
        entry.update(accepted=sent, dropped=CLIENTS - sent, updates=sent, update_bytes=size)
    metrics[9].update(accepted=0, dropped=CLIENTS, updates=0, update_bytes=0)
    folder = write_run(tmp_path / "a", metrics)
    rows = Page(write_report([folder], tmp_path / "out").read_text(encoding="utf-8")).rows
    assert dict(zip(*rows, strict=True))["uplink ratio"] == "10.67 ×"


def test_updates_of_rounds_in_which_all_are_refused(tmp_path: Path) -> None:
    metrics = make_metrics(3)
    for entry in metrics:
        entry.update(accepted=0, dropped=CLIENTS)
    run = read_run(write_run(tmp_path / "a", metrics))
    assert run.float32_uplink_bytes == 3 * 4 * CLIENTS * NUM_WEIGHTS


def test_labels_and_groups(tmp_path: Path) -> None:
    configs: dict[str, dict[str, Any]] = {
        "a": {"label": "x", "seed": 0},
        "b": {"codec": "2,2,3", "seed": 0},
        "c": {"label": "x", "seed": 1},
        "d": {"task": "digits"},
    }
    runs = [
        read_run(write_run(tmp_path / name, make_metrics(3), **config))
        for name, config in configs.items()
    ]
    groups = group_runs(runs)
    assert {
        task: {group.label: [run.name for run in group.runs] for group in members}
        for task, members in groups.items()
    } == {"emnist": {"x": ["a", "c"], "2,2,3": ["b"]}, "digits": {"d": ["d"]}}


def labels_of(tmp_path: Path, *configs: dict[str, Any]) -> dict[str, list[str]]:
    runs = [
        read_run(write_run(tmp_path / str(number), make_metrics(3), codec="2,2,3", **config))
        for number, config in enumerate(configs)
    ]
    (groups,) = group_runs(runs).values()
    return {group.label: [run.name for run in group.runs] for group in groups}


def test_runs_of_other_options_are_not_seeds(tmp_path: Path) -> None:
    sgd = {"server_optimizer": "sgd", "server_lr": 1.0, "rounds": 20}
    yogi = {"server_optimizer": "yogi", "server_lr": 0.01, "rounds": 20}
    assert labels_of(tmp_path, sgd, yogi, {**sgd, "seed": 1}) == {
        "2,2,3 (server_optimizer=sgd, server_lr=1.0)": ["0", "2"],
        "2,2,3 (server_optimizer=yogi, server_lr=0.01)": ["1"],
    }


def test_what_does_not_change_a_run_does_not_part_it(tmp_path: Path) -> None:
    config = {"seed": 0, "data": None, "threads": 1, "checkpoint_every": 50, "quorum": None}
    moved = {"seed": 1, "data": "/data", "threads": 4, "checkpoint_every": 5}
    assert labels_of(tmp_path, config, moved) == {"2,2,3": ["0", "1"]}


def test_an_option_that_only_one_run_has(tmp_path: Path) -> None:
    assert labels_of(tmp_path, {"max_update_norm": None}, {"max_update_norm": 5.0}) == {
        "2,2,3": ["0"],
        "2,2,3 (max_update_norm=5.0)": ["1"],
    }


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", None, "expected the file of a run"),
        ("metrics.jsonl", None, "expected the file of a run"),
        ("config.json", "{", "expected JSON"),
        ("config.json", "[1]", "expected an object"),
        ("metrics.jsonl", '{"round": 0}\nnonsense\n{"round": 1}\n', "line 2"),
        ("metrics.jsonl", '{"seconds": 1}\n', "no round"),
        ("config.json", '{"seed": 0,\n!}', r"config\.json, line 2: found .* expected JSON"),
        ("config.json", '{"num_weights": "x"}', r"config\.json: num_weights: found 'x', expected"),
        ("config.json", '{"task": "\udcff"}', r"config\.json, line 1: found byte 0xff"),
        ("config.json", "[" * 100_000, r"config\.json, line 1: found nested values"),
        ("config.json", '{"a": ' * 300 + "0" + "}" * 300, r"line 1: found nested values"),
        (
            "metrics.jsonl",
            '{"round": 0}\n{"round": 1, "test_accuracy": "x"}\n',
            r"metrics\.jsonl, line 2: test_accuracy: found 'x', expected a number",
        ),
        ("metrics.jsonl", '{"round": 0, "train_loss": [1]}\n', "line 1: train_loss: found "),
        ("metrics.jsonl", '{"round": 0, "asked": true}', "line 1: asked: found True, expected"),
        (
            "metrics.jsonl",
            f'{{"round": {10**400}}}',
            "line 1: round: found 1000.*expected a number",
        ),
        ("metrics.jsonl", '{"round": true}\n', "line 1: round: found True, expected a number"),
        (
            "metrics.jsonl",
            '{"round": 0}\n{"round": 1, "\udcff": 1}\n{"round": 2}\n',
            r"metrics\.jsonl, line 2: found byte 0xff, expected UTF-8",
        ),
        (
            "metrics.jsonl",
            '{"round": 0}\n' + '{"a": ' * 100_000,
            r"metrics\.jsonl, line 2: found nested values, expected at most 50 levels",
        ),
    ],
)
def test_bad_folders(tmp_path: Path, name: str, content: str | None, message: str) -> None:
    path = write_run(tmp_path / "a", make_metrics(3))
    (path / name).unlink()
    if content is not None:
        (path / name).write_text(content, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(RunFolderError, match=message):
        read_run(path)


def test_other_metrics_may_be_anything(tmp_path: Path) -> None:
    metrics = [{**entry, "note": "x", "more": [1]} for entry in make_metrics(3)]
    assert len(read_run(write_run(tmp_path / "a", metrics)).metrics) == 3


def test_no_runs(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="found no runs"):
        write_report([], tmp_path)


# --- writing -----------------------------------------------------------------------------------


def test_report(tmp_path: Path) -> None:
    folders = [
        write_run(
            tmp_path / f"averaging-{seed}",
            make_metrics(100, bits=None, seed=seed, links=True),
            label="FedAvg",
            seed=seed,
        )
        for seed in range(2)
    ]
    folders.append(
        write_run(
            tmp_path / "adaptive",
            make_metrics(100, adaptive=True, links=True),
            label="<DoCoFL> & more",
        )
    )
    page = write_report(folders, tmp_path / "out")
    names = {path.name for path in page.parent.iterdir()}
    assert names == {"index.html"} | {f"emnist-{curves.name}.png" for curves in FIGURES}

    read = Page(page.read_text(encoding="utf-8"))
    images = [base64.b64decode(source.partition("base64,")[2]) for source in read.sources]
    assert len(images) == len(FIGURES)
    for curves, image in zip(FIGURES, images, strict=True):
        assert image == (page.parent / f"emnist-{curves.name}.png").read_bytes()
        assert min(png_size(image)) > 400
    assert all(link.startswith("data:image/png;base64,") for link in read.links)

    header, averaging, *seeds, docofl = read.rows
    assert [row[0] for row in seeds] == ["seed 0 (averaging-0)", "seed 1 (averaging-1)"]
    assert docofl[0] == "<DoCoFL> & more"
    cells = dict(zip(header, averaging, strict=True))
    assert cells["rounds"] == "100"
    assert (cells["online ratio"], cells["downlink ratio"]) == ("1.00 ×", "1.00 ×")
    assert "±" in cells["best accuracy"]
    cells = dict(zip(header, docofl, strict=True))
    best = max(read_run(folders[2]).accuracies)
    assert cells["best accuracy"] == f"{100 * best:.2f} %"
    assert (cells["online ratio"], cells["uplink ratio"]) == ("16.00 ×", "10.67 ×")
    assert cells["corrections"] == "32.4 MB"


def test_the_final_accuracy_is_that_of_other_tables(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", make_metrics(200), label="x")
    text = write_report([folder], tmp_path / "out").read_text(encoding="utf-8")
    (row,) = summarize([folder])
    cells = dict(zip(*Page(text).rows, strict=True))
    assert row.final[0] != row.last[0]
    assert cells["final accuracy"] == f"{100 * row.final[0]:.2f} %"
    assert cells["last accuracy"] == f"{100 * row.last[0]:.2f} %"
    assert f"x, seed 0 (a), {100 * row.final[0]:.2f} %</summary>" in text


def test_runs_of_one_label_are_told_apart_on_the_page(tmp_path: Path) -> None:
    folders = [
        write_run(tmp_path / name, make_metrics(50), codec="2,2,3", server_optimizer=name)
        for name in ("sgd", "yogi")
    ]
    text = write_report(folders, tmp_path / "out").read_text(encoding="utf-8")
    labels = [f"2,2,3 (server_optimizer={name})" for name in ("sgd", "yogi")]
    assert [row[0] for row in Page(text).rows[1:]] == labels
    assert all(f"<summary>{label}, " in text for label in labels)
    assert list(drawn_lines([read_run(path) for path in folders], "rho")) == labels


def test_figures_without_values_are_left_out(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", make_metrics(60, bits=None), task="digits")
    out = write_report([folder], tmp_path / "out").parent
    names = {path.stem.removeprefix("digits-") for path in out.glob("*.png")}
    assert names == {
        "accuracy-rounds",
        "accuracy-downlink",
        "accuracy-online",
        "train-validation",
        "loss",
    }


def test_a_diverged_or_empty_run_is_reported_not_a_crash(tmp_path: Path) -> None:
    metrics = make_metrics(50)
    for entry in metrics[20:]:
        entry.update(train_loss=float("nan"), estimation_error=None, rho=None)
        if "test_loss" in entry:
            entry.update(test_loss=float("nan"), test_accuracy=0.02)
    folders = [
        write_run(tmp_path / "a", metrics, label="diverges"),
        write_run(tmp_path / "b", [], label="empty"),
    ]
    page = write_report(folders, tmp_path / "out")
    rows = Page(page.read_text(encoding="utf-8")).rows
    assert rows[1][0] == "diverges diverged"
    assert rows[2][:3] == ["empty", "0", "–"]


def test_unknown_size_means_no_ratios(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", make_metrics(3), num_weights=None)
    rows = Page(write_report([folder], tmp_path / "out").read_text(encoding="utf-8")).rows
    assert rows[1][5:8] == ["–", "–", "–"]


def test_task_names_make_file_names(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", make_metrics(3), task="../my task")
    out = write_report([folder], tmp_path / "out").parent
    assert all(re.fullmatch(r"my-task-[a-z-]+\.png", path.name) for path in out.glob("*.png"))
    assert len(list(out.glob("*.png"))) == 2


def test_settings_are_on_the_page(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", make_metrics(3), client_lr=0.0517)
    text = write_report([folder], tmp_path / "out").read_text(encoding="utf-8")
    assert json.dumps("client_lr").replace('"', "&quot;") + ": 0.0517" in text


# --- curves ------------------------------------------------------------------------------------


def drawn_lines(runs: list[Run], name: str) -> dict[str, tuple[list[float], list[float]]]:
    (groups,) = group_runs(runs).values()
    (figure,) = (figure for curves, figure in draw_all(groups, "") if curves.name == name)
    axis = figure.axes[-1]
    legend = axis.get_legend() or figure.legends[0]
    labels = [text.get_text() for text in legend.get_texts()]
    lines = [line for line in axis.get_lines() if len(line.get_xdata()) > 2]  # type: ignore[arg-type]
    return {
        label: (list(line.get_xdata()), list(line.get_ydata()))  # type: ignore[arg-type]
        for label, line in zip(labels, lines, strict=True)
    }


def test_a_line_is_the_mean_of_its_seeds(tmp_path: Path) -> None:
    runs = [
        read_run(write_run(tmp_path / str(seed), make_metrics(100, seed=seed), label="x"))
        for seed in range(3)
    ]
    x, y = drawn_lines(runs, "accuracy-rounds")["x"]
    assert x == [25, 50, 75, 100]
    np.testing.assert_allclose(y, np.mean([run.accuracies for run in runs], axis=0))


def test_a_line_is_the_mean_of_seeds_in_the_same_rounds(tmp_path: Path) -> None:
    """Seeds lack values in different rounds, as the loss of rounds from which all have vanished."""
    runs = []
    for seed, missing in enumerate(([0, 1, 5], [2, 5])):
        metrics = make_metrics(10, seed=seed)
        for t in missing:
            metrics[t]["train_loss"] = None
        metrics[9].update(test_loss=1.0)
        runs.append(read_run(write_run(tmp_path / str(seed), metrics, label="x")))
    (groups,) = group_runs(runs).values()
    (figure,) = (figure for curves, figure in draw_all(groups, "") if curves.name == "loss")
    (line,) = figure.axes[0].get_lines()
    losses = np.array([run.series("train_loss") for run in runs])
    kept = [0, 1, 2, 3, 4, 6, 7, 8, 9]
    np.testing.assert_array_equal(np.asarray(line.get_xdata()), np.array(kept) + 1)
    np.testing.assert_allclose(np.asarray(line.get_ydata()), np.nanmean(losses[:, kept], axis=0))


def test_bytes_on_the_axis_are_those_of_the_evaluated_rounds(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "a", make_metrics(100), label="x"))
    x, _ = drawn_lines([run], "accuracy-downlink")["x"]
    np.testing.assert_array_equal(x, run.downlink_bytes[24::25])


def test_seeds_of_different_lengths(tmp_path: Path) -> None:
    runs = [read_run(write_run(tmp_path / str(n), make_metrics(n), label="x")) for n in (100, 150)]
    x, y = drawn_lines(runs, "accuracy-rounds")["x"]
    assert x == [25, 50, 75, 100, 125, 150]
    assert y[-1] == runs[1].accuracies[-1]


@pytest.mark.parametrize("count", [2, 6])
def test_long_labels_fit_the_figure(tmp_path: Path, count: int) -> None:
    options = {f"an_option_with_a_name_{number}": number for number in range(9)}
    runs = [
        read_run(
            write_run(
                tmp_path / str(number),
                make_metrics(50),
                label="x",
                **{key: value + number for key, value in options.items()},
            )
        )
        for number in range(count)
    ]
    (groups,) = group_runs(runs).values()
    for _, figure in draw_all(groups, ""):
        figure.draw_without_rendering()
        legend = figure.axes[0].get_legend() or figure.legends[0]
        box = legend.get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.x1


def test_many_rounds_become_running_means(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "a", make_metrics(600), label="x"))
    _, y = drawn_lines([run], "rho")["x"]
    raw = run.series("rho")
    assert len(y) == 600
    assert np.abs(np.diff(y)).mean() < 0.3 * np.abs(np.diff(raw)).mean()
    assert y[300] == pytest.approx(raw[295:306].mean())


def test_a_peak_does_not_spread_on_a_logarithmic_axis(tmp_path: Path) -> None:
    metrics = make_metrics(600)
    metrics[300]["rho"] = 1e6
    run = read_run(write_run(tmp_path / "a", metrics, label="x"))
    _, y = drawn_lines([run], "rho")["x"]
    raw = run.series("rho")
    assert y[298] == pytest.approx(np.exp(np.log(raw[293:304]).mean()))


def test_ticks_of_rounds_are_whole_numbers(tmp_path: Path) -> None:
    metrics = make_metrics(30, eval_every=10)
    run = read_run(write_run(tmp_path / "a", metrics, codec="2,2,3"))
    figures = {curves.name: figure for curves, figure in draw_all(group_runs([run])["emnist"], "")}
    for axis in figures["loss"].axes[:2]:
        ticks = axis.get_xticks()
        assert len(ticks) > 2
        assert np.array_equal(ticks, np.round(ticks))


def test_folders_of_runs_and_the_tables_beside_them(tmp_path: Path) -> None:
    """As `report runs/*` gives them, after some runs, a comparison and a study."""
    runs = tmp_path / "runs"
    for name in ("a", "compare/x-s0", "compare/y-s0", "ablate/kv/z-s0"):
        write_run(runs / name, make_metrics(25), label=name)
    (runs / "compare" / "table.csv").write_text("label\n", encoding="utf-8")
    (runs / "notes.txt").write_text("mine", encoding="utf-8")
    page = write_report([*sorted(runs.iterdir()), runs / "a"], tmp_path / "out")
    rows = Page(page.read_text(encoding="utf-8")).rows
    assert [row[0] for row in rows[1:]] == ["a", "ablate/kv/z-s0", "compare/x-s0", "compare/y-s0"]
    (tmp_path / "empty").mkdir()
    for folders in ([tmp_path / "empty"], [runs / "a", tmp_path / "nowhere"], [runs / "notes.txt"]):
        with pytest.raises(RunFolderError):
            write_report(folders, tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("label", ["$\\frac$", "$a$ $", "\udcff", "模型 2", "<b>"])
def test_labels_are_drawn_as_they_are(tmp_path: Path, label: str) -> None:
    folder = write_run(tmp_path / "a", make_metrics(50), label=label, task=label)
    page = write_report([folder], tmp_path / "out", title=label)
    name = label.encode("utf-8", "replace").decode()
    assert Page(page.read_text(encoding="utf-8")).rows[1][0] == name
