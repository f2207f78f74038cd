"""The command ``docofl``.

Results go to standard output, progress and complaints to standard error. Exit codes: 0, 1 for what
the user can mend (a message says what), 2 for a wrong command line, 3 for a run that diverged, 4
for a file whose error `verify` finds above the limit, 130 for Ctrl-C.

What a command needs is imported when it runs: torch takes seconds.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docofl_codec import CodecError, InvalidInputError, __version__
from docofl_codec._cli_models import add_commands

if TYPE_CHECKING:
    from docofl_codec.fl.compare import Row
    from docofl_codec.fl.config import RunConfig

__all__ = ["main"]

DIVERGED = 3
EXTRA = "pip install 'docofl_codec[fl]'"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what a command line says; return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # which may know ASCII alone
            stream.reconfigure(errors="replace")
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
        return code
    except KeyboardInterrupt:
        print(
            "docofl: stopped; files are as they were, and a run that has a folder (--out) goes on "
            "from its last checkpoint",
            file=sys.stderr,
        )
        return 130
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("docofl_codec"):
            raise
        print(f"docofl: this needs {error.name}: {EXTRA}", file=sys.stderr)
    except (CodecError, OSError, ValueError) as error:
        print(f"docofl: {error}", file=sys.stderr)
    except Exception as error:
        from docofl_codec.framework import FrameworkError

        if not isinstance(error, FrameworkError):
            raise
        print(f"docofl: {error}", file=sys.stderr)
    return 1


# --- the command line ----------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="docofl", description="Compression for federated learning: codecs, and DoCoFL's loop."
    )
    parser.add_argument("--version", action="version", version=f"docofl {__version__}")
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="command", parser_class=_LateParser
    )
    add_commands(commands)

    command = commands.add_parser("run", help="train one model as a configuration says")
    command.add_argument("task", nargs="?", help="digits (default), emnist, cifar10, cifar100, …")
    command.add_argument(
        "--config", type=_path, metavar="FILE", help="a TOML file with the same keys"
    )
    command.add_argument(
        "--out", type=_path, metavar="DIR", help="folder for metrics and checkpoints"
    )
    command.add_argument("--json", action="store_true", help="print the result as JSON")
    _add_run_options(command)
    command.set_defaults(run=_run)

    command = commands.add_parser("compare", help="FedAvg beside DoCoFL, paired by seed: a table")
    command.add_argument("task", nargs="?", default="digits")
    command.add_argument("--codecs", nargs="+", metavar="CODEC", help="the paper's by default")
    _add_sweep_options(command, "runs/compare-TASK")
    command.set_defaults(run=_compare)

    command = commands.add_parser("ablate", help="a study of the paper's appendix: a CSV file")
    command.add_argument("study", help="kv, bw, bc, correction, rho, ef21 or adaptive")
    command.add_argument("task", nargs="?", default="emnist")
    command.add_argument("--quick", action="store_true", help="fewer rounds and runs")
    _add_sweep_options(command, "runs/ablate-TASK, with --quick runs/ablate-TASK-quick")
    command.set_defaults(run=_ablate)

    command = commands.add_parser("report", help="curves of runs as PNG and one HTML page")
    command.add_argument(
        "runs", nargs="+", type=_path, metavar="DIR", help="folders of runs, or of such folders"
    )
    command.add_argument("--out", type=_path, default=Path("report"), metavar="DIR")
    command.add_argument("--title", default="DoCoFL runs")
    command.set_defaults(run=_report)

    command = commands.add_parser("figures", help="the paper's comparisons of compressors")
    command.fill = _fill_figures
    return parser


class _LateParser(argparse.ArgumentParser):
    """A parser whose arguments may be added when they are needed."""

    fill: Callable[[argparse.ArgumentParser], None] | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, with all arguments there."""
        fill, self.fill = self.fill, None
        if fill is not None:
            fill(self)
        return super().parse_known_args(args, namespace)


def _fill_figures(parser: argparse.ArgumentParser) -> None:
    from docofl_codec.figures import command

    command.add_arguments(parser)
    parser.set_defaults(run=command.main)


def _add_sweep_options(command: argparse.ArgumentParser, out: str) -> None:
    command.add_argument("--seeds", type=int, default=1, metavar="N", help="seeds 0 to N - 1")
    command.add_argument("--jobs", type=int, metavar="N", help="runs at a time; all processors")
    command.add_argument("--out", type=_path, metavar="DIR", help=f"by default {out}")
    command.add_argument("--json", action="store_true", help="print rows as JSON")
    _add_run_options(command, without=("codec", "label", "seed"))


def _add_run_options(command: argparse.ArgumentParser, without: Sequence[str] = ()) -> None:
    """Add an option for every field of a run's configuration, without reading torch for it."""
    group = command.add_argument_group(
        "the run", "what is not given is the task's default; see docs/guides/running.md"
    )
    for name, kind in _RUN_OPTIONS.items():
        if name in without:
            continue
        flag = "--" + name.replace("_", "-")
        if kind is bool:
            group.add_argument(flag, action="store_true", default=None)
        else:
            group.add_argument(
                flag, type=_text if kind is str else kind, metavar=kind.__name__.upper()
            )


def _text(value: str) -> str:
    """Refuse an empty option: a variable of the shell that is not set, most often."""
    if not value:
        raise argparse.ArgumentTypeError("found an empty text, expected some")
    return value


def _path(value: str) -> Path:
    """Return a path; a leading ~ is the home folder."""
    try:
        return Path(_text(value)).expanduser()
    except RuntimeError:
        raise argparse.ArgumentTypeError(f"found {value!r}, but there is no such user") from None


# The fields of fl.RunConfig but the task; a test compares the two.
_RUN_OPTIONS: dict[str, type] = {
    "codec": str,
    "label": str,
    "seed": int,
    "data": str,
    "rounds": int,
    "num_clients": int,
    "per_round": int,
    "partition": str,
    "batch_size": int,
    "local_epochs": int,
    "client_optimizer": str,
    "client_lr": float,
    "server_optimizer": str,
    "server_lr": float,
    "server_momentum": float,
    "weight_decay": float,
    "deploy_every": int,
    "capacity": int,
    "eval_every": int,
    "lead_min": int,
    "lead_max": int,
    "weighted": bool,
    "shared_corrections": bool,
    "quorum": int,
    "max_update_norm": float,
    "dropout": float,
    "delayed": float,
    "max_delay": int,
    "weak_share": float,
    "strong_link": str,
    "weak_link": str,
    "adaptive_rho": float,
    "adaptive_error": float,
    "anchor_bits_min": float,
    "anchor_bits_max": float,
    "correction_bits_min": float,
    "correction_bits_max": float,
    "ef21": bool,
    "threads": int,
    "checkpoint_every": int,
}


def _config(options: argparse.Namespace) -> RunConfig:
    """Return the configuration of the file, overridden by the command line; set its folder."""
    from docofl_codec.fl.config import RunConfig, read_config

    values: dict[str, Any] = {}
    if getattr(options, "config", None):
        values |= read_config(options.config)
        out = values.pop("out", None)
        if out is not None:
            out = _path_of_file(options.config, out)
        options.out = options.out or out
    if options.task is not None:
        values["task"] = options.task
    for name in _RUN_OPTIONS:
        if getattr(options, name, None) is not None:
            values[name] = getattr(options, name)
    return RunConfig.from_dict(values)


def _path_of_file(path: Path, out: Any) -> Path:
    """Return the folder that a configuration file names."""
    if not isinstance(out, str):
        raise InvalidInputError(f"{path}: out: found {out!r}, expected a folder")
    try:
        return _path(out)
    except argparse.ArgumentTypeError as error:
        raise InvalidInputError(f"{path}: out: {error}") from None


# --- the commands --------------------------------------------------------------------------------


def _run(options: argparse.Namespace) -> int:
    config = _config(options)
    from docofl_codec.fl.report.numbers import format_bytes, format_percent, format_seconds
    from docofl_codec.fl.runner import Runner

    runner = Runner(config, options.out)
    total = runner.settings.rounds
    with _progress(f"{config.task} {config.label or config.codec}") as show:
        accuracy = "–"
        for metrics in runner.rounds():
            if metrics.get("test_accuracy") is not None:
                accuracy = f"{100 * metrics['test_accuracy']:.1f} %"
            loss = metrics.get("train_loss")
            text = f"accuracy {accuracy}  loss {loss:.3f}" if loss else f"accuracy {accuracy}"
            ledger = runner.server.ledger
            down, up = format_bytes(ledger.downlink), format_bytes(ledger.total("update"))
            show(runner.server.round, total, f"{text}  down {down}  up {up}")
    result = runner.result()
    ledger = runner.server.ledger
    summary = {
        **result.summary(),
        "online_downlink_bytes": ledger.online_downlink,
        "downlink_bytes": ledger.downlink,
        "uplink_bytes": ledger.total("update"),
    }
    if options.json:
        _print_json(summary)
    else:
        print(f"{config.task}, {config.label or config.codec}, seed {config.seed}: {result.status}")
        final, best = format_percent(result.final_accuracy), format_percent(result.best_accuracy)
        print(f"test accuracy: {final} (best {best})")
        asked = sum(metrics.get("asked", 0) for metrics in result.metrics)
        for name, size, models in (
            ("downlink in rounds", ledger.online_downlink, asked),
            ("downlink in all", ledger.downlink, asked),
            ("uplink", ledger.total("update"), ledger.num_frames("update")),
        ):
            plain = 4 * ledger.model_size * models
            ratio = f", {plain / size:.1f} x fewer than float32" if size else ""
            print(f"{name}: {format_bytes(size)}{ratio}")
        if runner.links:
            print(f"link time: {format_seconds(result.link_seconds)} a round")
    return DIVERGED if result.status == "diverged" else 0


def _compare(options: argparse.Namespace) -> int:
    base = _config(options)
    from docofl_codec.fl.compare import PAPER, compare

    codecs = options.codecs or ["fedavg", *PAPER[base.task]]
    with _progress(f"{base.task}, {options.seeds} seeds") as on_progress:
        rows = compare(
            base,
            codecs,
            range(options.seeds),
            options.out or f"runs/compare-{base.task}",
            processes=options.jobs,
            on_progress=on_progress,
        )
    if options.json:
        _print_json([dataclasses.asdict(row) for row in rows])
    else:
        _print_rows(f"{base.task}, seeds {', '.join(map(str, rows[0].seeds))}", rows)
    return 0


def _ablate(options: argparse.Namespace) -> int:
    base = _config(options)
    from docofl_codec.fl.ablate import ablate

    quick = "-quick" if options.quick else ""
    out = Path(options.out or f"runs/ablate-{base.task}{quick}") / options.study
    with _progress(f"{options.study} on {base.task}") as on_progress:
        rows = ablate(
            options.study,
            base,
            range(options.seeds),
            out,
            quick=options.quick,
            processes=options.jobs,
            on_progress=on_progress,
        )
    if options.json:
        _print_json(rows)
    else:
        _print_table(options.study, list(rows[0]), [list(map(_cell, row.values())) for row in rows])
        print(f"written to {out / (options.study + '.csv')}")
    return 0


def _report(options: argparse.Namespace) -> int:
    from docofl_codec.fl.report import write_report

    print(write_report(options.runs, options.out, title=options.title))
    return 0


# --- tables and progress -------------------------------------------------------------------------


def _print_json(value: Any) -> None:
    """Print a result; numbers that JSON does not know are null."""
    print(json.dumps(_finite(value), allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print_rows(title: str, rows: Sequence[Row]) -> None:
    from statistics import fmean

    from docofl_codec.fl.report.numbers import (
        format_bytes,
        format_ratio,
        format_seconds,
        format_spread,
    )

    columns = ["", "final accuracy", "best", "downlink in rounds", "", "downlink", "", "uplink", ""]
    has_links = any(math.isfinite(seconds) for row in rows for seconds in row.link_seconds)
    if has_links:
        columns.append("link time of a round")
    cells = []
    for row in rows:
        line = [row.label, format_spread(row.final), format_spread(row.best)]
        for size, plain in (
            (row.online_bytes, row.float32_bytes),
            (row.downlink_bytes, row.float32_bytes),
            (row.uplink_bytes, row.float32_uplink_bytes),
        ):
            line += [format_bytes(size), format_ratio(plain, size)]
        if has_links:
            known = [seconds for seconds in row.link_seconds if math.isfinite(seconds)]
            line.append(format_seconds(fmean(known) if known else math.nan))
        if row.diverged:
            line[0] += f" ({row.diverged} diverged)"
        cells.append(line)
    _print_table(title, columns, cells)


def _print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with whole cells, wider than the terminal if need be."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right", no_wrap=True)
    for cells in rows:
        table.add_row(*cells)
    console = Console(width=None if sys.stdout.isatty() else 240)
    needed = console.measure(table, options=console.options.update(max_width=sys.maxsize)).maximum
    console.width = max(console.width, needed)
    console.print(table)


def _cell(value: Any) -> str:
    return "–" if value is None else str(value)


@contextmanager
def _progress(title: str) -> Iterator[Callable[..., None]]:
    """Show a bar with time left on a terminal's standard error.

    On a narrow terminal the bar is shorter, then the text and the title are cut.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TimeRemainingColumn,
    )
    from rich.table import Column
    from rich.text import Text

    class CutColumn(ProgressColumn):
        """Text of one line that gives way to columns of fixed width."""

        def __init__(self, get: Callable[[Task], str]) -> None:
            self.get = get
            super().__init__()

        def render(self, task: Task) -> Text:
            return Text(self.get(task), no_wrap=True, overflow="ellipsis")

    console = Console(stderr=True)
    columns = (
        CutColumn(lambda task: task.description),
        BarColumn(max(8, min(24, console.width - 88)), table_column=Column(no_wrap=True)),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        TimeRemainingColumn(table_column=Column(no_wrap=True)),
        CutColumn(lambda task: str(task.fields["text"])),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task(title, total=None, text="")

        def show(done: int, total: int, text: str = "") -> None:
            progress.update(bar, completed=done, total=total, text=text)

        yield show


if __name__ == "__main__":
    sys.exit(main())
