"""Run the fuzz targets of cpp/fuzz for a while: `make fuzz SECONDS=60`.

Each target starts from its committed corpus and from seeds made of the golden frames, and goes on
in build/fuzz-corpus. Executions and coverage are printed at the end; the inputs that broke
something are in build/fuzz-findings. With --merge, the committed corpus becomes the smallest part
of build/fuzz-corpus that covers as many edges.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "build/fuzz/cpp/fuzz"
COMMITTED = ROOT / "cpp/fuzz/corpus"
CORPUS = ROOT / "build/fuzz-corpus"
FINDINGS = ROOT / "build/fuzz-findings"
GOLDEN = ("v1", "v1-baselines", "v2", "latest", "latest-best")
# A single allocation of more than 64 MB is a finding: inputs have kilobytes.
LIMITS = ("-timeout=20", "-rss_limit_mb=2048", "-malloc_limit_mb=64")
MAX_COMMITTED_INPUT = 2000


@dataclass(frozen=True)
class Outcome:
    """What a target printed: executions, edges covered and edges there are, features, inputs."""

    target: str
    executions: int
    edges: int
    all_edges: int
    features: int
    inputs: int
    passed: bool


def targets() -> list[str]:
    """Return the names of the targets."""
    return sorted(path.stem for path in (ROOT / "cpp/fuzz").glob("fuzz_*.cpp"))


def make_seeds() -> None:
    """Write seeds from the golden frames to build/fuzz-corpus."""
    frames = [path for name in GOLDEN for path in (ROOT / "tests/golden" / name).glob("*.docofl")]
    subprocess.run([PROGRAMS / "make_seeds", CORPUS, *sorted(frames)], check=True)


def last_number(pattern: str, text: str) -> int:
    """Return the number in the last match of a pattern, 0 without one."""
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def run(target: str, seconds: int) -> Outcome:
    """Fuzz one target and return what came of it."""
    for folder in (CORPUS / target, FINDINGS):
        folder.mkdir(parents=True, exist_ok=True)
    command = [
        str(PROGRAMS / target),
        *LIMITS,
        f"-max_total_time={seconds}",
        f"-artifact_prefix={FINDINGS}/{target}-",
        "-print_final_stats=1",
        str(CORPUS / target),
        *([str(COMMITTED / target)] if (COMMITTED / target).exists() else []),
    ]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    if done.returncode != 0:
        print(done.stderr[-6000:], file=sys.stderr)
    return Outcome(
        target,
        last_number(r"stat::number_of_executed_units:\s*(\d+)", done.stderr),
        last_number(r"cov: (\d+)", done.stderr),
        last_number(r"\((\d+) inline 8-bit counters\)", done.stderr),
        last_number(r"ft: (\d+)", done.stderr),
        len(list((CORPUS / target).iterdir())),
        done.returncode == 0,
    )


def merge(target: str) -> None:
    """Make the committed corpus the part of build/fuzz-corpus that covers as many edges."""
    smallest = CORPUS / f"{target}.smallest"
    shutil.rmtree(smallest, ignore_errors=True)
    smallest.mkdir()
    command = [
        str(PROGRAMS / target),
        "-set_cover_merge=1",
        "-use_counters=0",
        f"-max_len={MAX_COMMITTED_INPUT}",
        str(smallest),
        str(CORPUS / target),
    ]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    shutil.rmtree(COMMITTED / target, ignore_errors=True)
    shutil.move(smallest, COMMITTED / target)
    sizes = [path.stat().st_size for path in (COMMITTED / target).iterdir()]
    print(f"{target:22} {len(sizes):5} inputs, {sum(sizes):7} bytes")


def main() -> int:
    """Run all targets, or those that are named."""
    parser = argparse.ArgumentParser(description="Run the fuzz targets of cpp/fuzz.")
    parser.add_argument("names", nargs="*", default=targets(), help="targets; default: all")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--jobs", type=int, default=2, help="targets at a time")
    parser.add_argument("--merge", action="store_true", help="write the committed corpus instead")
    options = parser.parse_args()
    if options.merge:
        COMMITTED.mkdir(exist_ok=True)
        for name in options.names:
            merge(name)
        return 0
    make_seeds()
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(lambda name: run(name, options.seconds), options.names))
    print(f"{'target':22} {'executions':>11} {'edges':>6} {'of':>6} {'features':>9} {'inputs':>7}")
    for outcome in outcomes:
        print(
            f"{outcome.target:22} {outcome.executions:11} {outcome.edges:6} {outcome.all_edges:6} "
            f"{outcome.features:9} {outcome.inputs:7} {'' if outcome.passed else 'FAILED'}".rstrip()
        )
    return 0 if all(outcome.passed for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
