"""The table of ``make bench``: ECUQ beside Huff0 and other compressors, in one run.

Run it from the root of the repository: ``python -m benchmarks.compare --help``.
"""

from __future__ import annotations

import argparse
import csv
import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import docofl_codec
from benchmarks import huff0
from benchmarks.case import Case, nmse
from benchmarks.huff0 import Huff0
from benchmarks.micro import datasets
from benchmarks.peers import PEERS, Measurement, Peer, Row, gbps, row
from benchmarks.report import Table, progress, show
from benchmarks.timing import Call, available_cpus, interleaved_min
from docofl_codec import ecuq

RESULTS = Path(__file__).with_name("results")
BITS = (1.5, 2.0, 3.0, 4.0, 8.0)
OURS = "docofl_codec"
HUFF0 = "Huff0"
QUICK_SIZE = 2**20
COLUMNS = (*Row.__annotations__, *Measurement.__annotations__)  # of stored rows


@dataclass(frozen=True)
class Settings:
    """What to run.

    Attributes
    ----------
    names, bits
        Data sets and budgets.
    size
        Values in each vector.
    repeats, peer_repeats
        Timed calls, of us and Huff0 and of the slower peers.
    """

    names: Sequence[str]
    bits: Sequence[float]
    size: int
    repeats: int
    peer_repeats: int


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the tables and store the rows where asked.

    Parameters
    ----------
    arguments
        Command line, without the program's name.
    """
    options = _parse(arguments)
    settings = Settings(
        names=options.datasets,
        bits=options.bits,
        size=QUICK_SIZE if options.quick else datasets.NUM_VALUES,
        repeats=5 if options.quick else 9,
        peer_repeats=1 if options.quick else 3,
    )
    yardstick = _load_huff0()
    peers = _installed_peers()
    machine = describe_machine(settings, yardstick)
    for name, value in machine.items():
        print(f"{name}: {value}")

    rows: list[Row] = []
    for case in _cases(settings):
        rows += measure_ours(case, yardstick, settings.repeats)
        rows += _measure_peers(case, peers, settings.peer_repeats)
    progress("")
    show(speed_table(rows))
    for table in peer_tables(rows):
        show(table)
    if options.json:
        write_json(_results_path(options.json), machine, rows)
    if options.csv:
        write_csv(_results_path(options.csv), rows)


def describe_machine(settings: Settings, yardstick: Huff0 | None) -> dict[str, str]:
    """Return what a reader needs to place the figures: machine, builds, sizes and repeats."""
    build: Any = docofl_codec.build_info()
    described = ", ".join(f"{key} {value}" for key, value in _as_mapping(build).items())
    return {
        "machine": f"{_cpu_name()}, {available_cpus()} processors, {platform.system()}",
        "python": f"{platform.python_version()}, NumPy {np.__version__}",
        "build": described,
        "Huff0": f"zstd {yardstick.zstd_version}" if yardstick else "not available",
        "values": f"{settings.size} float32",
        "repeats": f"least of {settings.repeats} in turn; peers {settings.peer_repeats}",
    }


def measure_ours(case: Case, yardstick: Huff0 | None, repeats: int) -> list[Row]:
    """Time ECUQ with one and two threads and Huff0, all in turn.

    Parameters
    ----------
    case
        Vector and budget.
    yardstick
        Huff0, or None where it could not be built.
    repeats
        Timed calls of each.

    Returns
    -------
    list of Row
        One thread, two threads, Huff0.
    """
    progress(f"{case.dataset} at {case.bits:g} bits: {OURS}")
    out = np.ones_like(case.values)
    calls: dict[str, Call] = {}
    for threads in (1, 2):
        calls |= _our_calls(case, out, threads)
    if yardstick:
        calls |= _huff0_calls(case, yardstick)
    best = interleaved_min(calls, repeats)

    ecuq.decode(case.blob, out=out)
    error = nmse(case.values, out)
    rows = [
        row(case, OURS, threads, _measured(case, best, str(threads), case.real_bits, error))
        for threads in (1, 2)
    ]
    if yardstick:
        huff0_bits = 8 * yardstick.compress(case.symbols).size / case.values.size
        found = _measured(case, best, HUFF0, huff0_bits, None)
        rows.append(row(case, HUFF0, 1, found))
    return rows


def speed_table(rows: Sequence[Row]) -> Table:
    """Return our speeds, with the ratios to Huff0 on one thread."""
    columns = (
        *("data set", "bits", "levels", "real bits", "NMSE"),
        *("encode 1T", "encode 2T", "decode 1T", "decode 2T"),
        *("encode / Huff0", "decode / Huff0"),
    )
    cells = [
        (
            *(one.dataset, f"{one.bits:g}", str(one.num_levels), f"{one.real_bits:.4f}"),
            *(_error(one.nmse), f"{one.encode_gbps:.2f}", f"{two.encode_gbps:.2f}"),
            *(f"{one.decode_gbps:.2f}", f"{two.decode_gbps:.2f}"),
            *_ratios(one, yardstick),
        )
        for one, two, yardstick in _by_case(rows)
    ]
    title = "ECUQ, GB/s of float32; Huff0 codes the ready index bytes"
    return Table(title, columns, cells, left=("data set",))


def peer_tables(rows: Sequence[Row]) -> Iterator[Table]:
    """Yield one table for each case: we and the peers, one thread."""
    columns = ("method", "real bits", "NMSE", "encode GB/s", "decode GB/s", "note")
    for one, _, _ in _by_case(rows):
        cells = [
            (
                *(found.method, f"{found.real_bits:.4f}", _error(found.nmse)),
                *(f"{found.encode_gbps:.4f}", f"{found.decode_gbps:.4f}", found.note),
            )
            for found in rows
            if (found.dataset, found.bits, found.threads) == (one.dataset, one.bits, 1)
        ]
        title = f"{one.dataset} at {one.bits:g} bits, one thread"
        yield Table(title, columns, cells, left=("method", "note"))


def write_json(path: Path, machine: Mapping[str, str], rows: Sequence[Row]) -> None:
    """Store machine and rows."""
    content = {"machine": dict(machine), "rows": [_record(found) for found in rows]}
    path.write_text(json.dumps(content, indent=1) + "\n")


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """Store the rows, one line each."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(_record(found) for found in rows)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2^20 values and fewer repeats")
    parser.add_argument(
        "--datasets", nargs="+", choices=datasets.NAMES, default=datasets.NAMES, metavar="NAME"
    )
    parser.add_argument("--bits", nargs="+", type=float, default=BITS, metavar="BITS")
    where = "store the rows; a bare name goes to benchmarks/results/"
    parser.add_argument("--json", metavar="FILE", type=Path, help=where)
    parser.add_argument("--csv", metavar="FILE", type=Path, help=where)
    return parser.parse_args(arguments)


def _cases(settings: Settings) -> Iterator[Case]:
    for name in settings.names:
        progress(f"{name}: loading")
        try:
            values = datasets.load(name, settings.size)
        except datasets.DatasetUnavailableError as error:
            print(f"skipped: data set {error}")
            continue
        for bits in settings.bits:
            yield Case.make(name, bits, values)


def _load_huff0() -> Huff0 | None:
    try:
        return huff0.load()
    except huff0.Huff0UnavailableError as error:
        print(f"skipped: {error}")
        return None


def _installed_peers() -> list[Peer]:
    for peer in PEERS:
        if not peer.installed:
            print(f"skipped: {peer.method} ({peer.package} is not installed)")
    return [peer for peer in PEERS if peer.installed]


def _measure_peers(case: Case, peers: Sequence[Peer], repeats: int) -> Iterator[Row]:
    for peer in peers:
        progress(f"{case.dataset} at {case.bits:g} bits: {peer.method}")
        yield row(case, peer.method, 1, peer.measure(case, repeats))


def _our_calls(case: Case, out: Any, threads: int) -> dict[str, Call]:
    return {
        f"encode {threads}": lambda: ecuq.encode(case.values, bits=case.bits, threads=threads),
        f"decode {threads}": lambda: ecuq.decode(case.blob, out=out, threads=threads),
    }


def _huff0_calls(case: Case, yardstick: Huff0) -> dict[str, Call]:
    symbols = case.symbols
    coded = yardstick.compress(symbols).copy()
    restored = np.ones_like(symbols)
    return {
        f"encode {HUFF0}": lambda: yardstick.compress(symbols),
        f"decode {HUFF0}": lambda: yardstick.decompress(coded, restored),
    }


def _measured(
    case: Case, best: Mapping[str, float], key: str, real_bits: float, error: float | None
) -> Measurement:
    note = ""
    if key == HUFF0:
        note = "indices only, a table for each 128 KiB"
        note += ", clipped to 256 levels" if case.shares.size > 256 else ""
    return Measurement(
        real_bits=real_bits,
        nmse=error,
        encode_gbps=gbps(case.values.size, best[f"encode {key}"]),
        decode_gbps=gbps(case.values.size, best[f"decode {key}"]),
        note=note,
    )


def _by_case(rows: Sequence[Row]) -> Iterator[tuple[Row, Row, Row | None]]:
    """Yield our rows for one and two threads and Huff0's row, case by case."""
    by_key = {(found.dataset, found.bits, found.method, found.threads): found for found in rows}
    for dataset, bits, method, threads in by_key:
        if (method, threads) == (OURS, 1):
            yield (
                by_key[dataset, bits, OURS, 1],
                by_key[dataset, bits, OURS, 2],
                by_key.get((dataset, bits, HUFF0, 1)),
            )


def _results_path(path: Path) -> Path:
    if path.parent != Path():
        return path
    RESULTS.mkdir(exist_ok=True)
    return RESULTS / path


def _record(found: Row) -> dict[str, Any]:
    return {name: getattr(found, name) for name in COLUMNS}


def _as_mapping(build: Any) -> Mapping[str, Any]:
    return build if isinstance(build, Mapping) else asdict(build)


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _error(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _ratios(ours: Row, other: Row | None) -> tuple[str, str]:
    if other is None:
        return "", ""
    return (
        f"{ours.encode_gbps / other.encode_gbps:.2f}",
        f"{ours.decode_gbps / other.decode_gbps:.2f}",
    )


if __name__ == "__main__":
    main()
