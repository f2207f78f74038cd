"""Do the runs behind benchmarks/results: ``python -m benchmarks.accuracy [NAME …]``.

Data come from the folder that DOCOFL_DATA names. Runs go to ``runs/`` and are kept there, so that a
second call goes on where the first was stopped; tables and curves go to ``benchmarks/results``.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

from docofl_codec.cli import main as docofl

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"

# The command of each table; its folder of runs and the name of the file that it writes there.
COMMANDS: dict[str, tuple[Sequence[str], str]] = {
    "emnist": (("compare", "emnist", "--rounds", "600", "--seeds", "3"), "table.csv"),
    "emnist-direct": (
        ("compare", "emnist", "--rounds", "400", "--seeds", "3", "--codecs", "2,1,3", "direct:1,3"),
        "table.csv",
    ),
    "shakespeare": (
        ("compare", "shakespeare", "--seeds", "2", "--codecs", "fedavg", "4,4,4", "6,6,2"),
        "table.csv",
    ),
    "amazon": (
        ("compare", "amazon", "--seeds", "2", "--codecs", "fedavg", "4,4,4", "6,6,2"),
        "table.csv",
    ),
    "cifar10": (
        ("compare", "cifar10", "--rounds", "30", "--codecs", "fedavg", "2,2,1", "2,0.5,1"),
        "table.csv",
    ),
    "rho": (("ablate", "rho", "emnist", "--quick"), "rho.csv"),
    **{
        study: (("ablate", study, "emnist", "--seeds", seeds), f"{study}.csv")
        for study, seeds in (
            ("correction", "1"),
            ("adaptive", "3"),
            ("ef21", "1"),
            ("kv", "1"),
            ("bw", "1"),
            ("bc", "1"),
        )
    },
}


def do(name: str, runs: Path) -> None:
    """Do the runs of a table, copy the table and draw the curves."""
    command, table = COMMANDS[name]
    out = runs if command[0] == "ablate" else runs / name
    if docofl([*command, "--out", str(out)]) != 0:
        raise SystemExit(f"{name}: the command failed")
    folder = runs / name
    RESULTS.mkdir(exist_ok=True)
    shutil.copyfile(folder / table, RESULTS / f"{name}.csv")
    run_folders = sorted(str(path.parent) for path in folder.glob("*/metrics.jsonl"))
    docofl(["report", *run_folders, "--out", str(folder / "report"), "--title", name])


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what is asked for, by default everything."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(COMMANDS))
    parser.add_argument("--runs", type=Path, default=ROOT / "runs", help="folder of the runs")
    options = parser.parse_args(arguments)
    for name in options.names or COMMANDS:
        if name not in COMMANDS:
            parser.error(f"found {name}, expected one of {', '.join(COMMANDS)}")
        do(name, options.runs)


if __name__ == "__main__":
    main()
