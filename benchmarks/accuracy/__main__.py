"""Do the runs behind benchmarks/results: ``python -m benchmarks.accuracy [NAME …]``.

Data come from the folder that DOCOFL_DATA names. Runs go to ``runs/`` and are kept there, so that a
second call goes on where the first was stopped; tables and curves go to ``benchmarks/results``.
Runs on another machine do not repeat those bit for bit, as torch's sums differ: with ``--runs`` and
``--results`` they have folders of their own.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

from docofl_codec.cli import main as docofl

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"

# Options of tasks whose rounds take long on two cores: fewer rounds than the paper's.
SHAKESPEARE = ("--rounds", "14", "--eval-every", "2", "--seeds", "2")
AMAZON = ("--rounds", "200", "--seeds", "2")
CIFAR10 = ("--rounds", "30", "--client-lr", "0.003", "--eval-every", "5", "--seeds", "3")

# Three clients in ten have a slow link.
LINKS = ("--weak-share", "0.3", "--strong-link", "20/5", "--weak-link", "1/0.25")

# The command of each table and the name of the file that it writes into its folder of runs.
COMMANDS: dict[str, tuple[Sequence[str], str]] = {
    "emnist": (("compare", "emnist", "--rounds", "600", "--seeds", "3"), "table.csv"),
    "emnist-direct": (
        ("compare", "emnist", "--rounds", "400", "--seeds", "3", "--codecs", "2,1,3", "direct:1,3"),
        "table.csv",
    ),
    "links": (
        (
            "compare",
            "emnist",
            "--rounds",
            "100",
            *LINKS,
            "--codecs",
            "fedavg",
            "direct:4,3",
            "2,2,3",
        ),
        "table.csv",
    ),
    "shakespeare": (
        ("compare", "shakespeare", *SHAKESPEARE, "--codecs", "fedavg", "4,4,4", "6,6,2"),
        "table.csv",
    ),
    "amazon": (
        ("compare", "amazon", *AMAZON, "--codecs", "fedavg", "4,4,4", "6,6,2"),
        "table.csv",
    ),
    "cifar10": (("compare", "cifar10", *CIFAR10, "--codecs", "fedavg", "2,2,1"), "table.csv"),
    **{
        study: (("ablate", study, "emnist", *options), f"{study}.csv")
        for study, options in (
            ("rho", ("--quick",)),
            ("correction", ()),
            ("adaptive", ("--seeds", "3")),
            ("ef21", ("--rounds", "300", "--seeds", "3")),
            ("kv", ("--quick",)),
            ("bw", ("--rounds", "200")),
            ("bc", ("--rounds", "200")),
        )
    },
}

# Of the curves of a table's runs, those that are kept beside it.
CURVES: dict[str, Sequence[str]] = {
    "emnist": (
        "accuracy-downlink",
        "accuracy-online",
        "accuracy-rounds",
        "estimation-error",
        "rho",
        "train-validation",
    ),
    "shakespeare": ("accuracy-rounds",),
    "amazon": ("accuracy-rounds",),
    "cifar10": ("loss",),
    "links": ("round-time",),
    "kv": ("accuracy-rounds",),
    "ef21": ("accuracy-rounds",),
}


def do(name: str, runs: Path, results: Path) -> None:
    """Do the runs of a table, draw their curves, copy the table and some of the curves."""
    command, table = COMMANDS[name]
    out = runs if command[0] == "ablate" else runs / name
    if docofl([*command, "--out", str(out)]) != 0:
        raise SystemExit(f"{name}: the command failed")
    folder = runs / name
    results.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(folder / table, results / f"{name}.csv")
    run_folders = sorted(str(path.parent) for path in folder.glob("*/metrics.jsonl"))
    docofl(["report", *run_folders, "--out", str(folder / "report"), "--title", name])
    task = command[2 if command[0] == "ablate" else 1]
    for curve in CURVES.get(name, ()):
        drawn = folder / "report" / f"{task}-{curve}.png"
        shutil.copyfile(drawn, results / f"{name}-{curve}.png")


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what is asked for, by default everything."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(COMMANDS))
    parser.add_argument("--runs", type=Path, default=ROOT / "runs", help="folder of the runs")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="folder of the tables and curves"
    )
    options = parser.parse_args(arguments)
    for name in options.names or COMMANDS:
        if name not in COMMANDS:
            parser.error(f"found {name}, expected one of {', '.join(COMMANDS)}")
        do(name, options.runs, options.results)


if __name__ == "__main__":
    main()
