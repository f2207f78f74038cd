"""The commands for files of tensors: encode, decode, inspect, verify, bench and info."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import importlib.util
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docofl_codec import __version__, build_info, codec_from_config
from docofl_codec._progress import ProgressBar
from docofl_codec.codec import codec_names
from docofl_codec.errors import CodecError, InvalidInputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from docofl_codec.codec import Codec
    from docofl_codec.state_dict import StateDictInfo

__all__ = ["ABOVE_LIMIT", "add_commands"]

ABOVE_LIMIT = 4
BENCH_VALUES = 1 << 22
SLOW = {"ecq": 1 << 14, "eckmeans": 1 << 18}
REPEATS = 3
STEPS = 1000  # of a progress bar

Command = Callable[[argparse.Namespace], int]


def add_commands(commands: Any) -> None:
    """Add the commands to a parser's."""
    command = commands.add_parser("encode", help="compress a file of tensors to .docofl")
    command.add_argument("source", help=".safetensors, .npz, .npy, .pt or .docofl")
    command.add_argument("-o", "--out", metavar="FILE", help="default: the source's, as .docofl")
    command.add_argument("-b", "--bits", type=float, default=2.0, help="a coordinate; default: 2")
    command.add_argument(
        "--quality", choices=["fast", "best"], default="fast", help="best: slower, less error"
    )
    command.add_argument(
        "--coder",
        choices=["huffman", "rans", "auto"],
        help="rans: slower, less error where layers differ; auto: the better for each tensor",
    )
    command.add_argument("--flatten", action="store_true", help="one flat vector, as in the paper")
    command.add_argument(
        "--rule",
        action="append",
        default=[],
        metavar="PATTERN=HOW",
        help="code, half (16 bits) or exact for tensors of a name; may be repeated",
    )
    _add_common(command, key=True)
    command.set_defaults(run=_guarded(_encode))

    command = commands.add_parser("decode", help="restore a .docofl file")
    command.add_argument("source", help="a .docofl file")
    command.add_argument(
        "-o", "--out", metavar="FILE", help=".safetensors (default), .npz, .npy or .pt"
    )
    command.add_argument("--max-bytes", type=int, metavar="N", help="refuse larger models")
    _add_common(command)
    command.set_defaults(run=_guarded(_decode))

    command = commands.add_parser("inspect", help="what a .docofl file holds, without decoding")
    command.add_argument("source", help="a .docofl file")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_guarded(_inspect))

    command = commands.add_parser("verify", help="decode, and the error against the original")
    command.add_argument("source", help="a .docofl file")
    command.add_argument("original", help="what it was made of")
    command.add_argument(
        "--max-nmse", type=float, metavar="X", help=f"exit code {ABOVE_LIMIT} if above"
    )
    _add_common(command, key=True)
    command.set_defaults(run=_guarded(_verify))

    command = commands.add_parser("bench", help="all codecs at a budget, this machine, this file")
    command.add_argument("source", help=".safetensors, .npz, .npy, .pt or .docofl")
    command.add_argument("-b", "--bits", type=float, default=2.0, help="a coordinate; default: 2")
    command.add_argument("--codecs", nargs="+", metavar="NAME", help="default: all")
    command.add_argument(
        "--values", type=int, default=BENCH_VALUES, metavar="N", help="coordinates at most"
    )
    _add_common(command, key=True)
    command.set_defaults(run=_guarded(_bench))

    command = commands.add_parser("info", help="version, build and what is installed")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_info)


def _add_common(command: argparse.ArgumentParser, key: bool = False) -> None:
    if key:
        command.add_argument("--key", metavar="NAME", help=".pt: where the state dict is")
    command.add_argument("--threads", type=int, metavar="N", help="at most; default: all")
    command.add_argument("--json", action="store_true", help="print JSON")


def _guarded(command: Command) -> Command:
    """Make what a file can be wrong about an error of the user."""

    @functools.wraps(command)
    def run(options: argparse.Namespace) -> int:
        try:
            return command(options)
        except TypeError as error:
            raise InvalidInputError(str(error)) from error
        except MemoryError:
            raise InvalidInputError("not enough memory") from None

    return run


# --- the commands --------------------------------------------------------------------------------


def _encode(options: argparse.Namespace) -> int:
    from docofl_codec import files

    source = Path(options.source)
    out = Path(options.out) if options.out else source.with_suffix(".docofl")
    _check_different(source, out)
    start = time.perf_counter()
    with _bar("encoding") as progress:
        info = files.encode_file(
            source,
            out,
            bits=options.bits,
            quality=options.quality,
            coder=options.coder,
            flatten=options.flatten,
            rules=_rules(options.rule),
            key=options.key,
            threads=options.threads,
            progress=progress,
        )
    seconds = time.perf_counter() - start
    if options.json:
        _print_json({**_summary(info), "out": str(out), "seconds": seconds})
    else:
        plain = _plain_bytes(info)
        print(
            f"{out}: {info.frame_bytes:,} bytes, {info.bits_per_coordinate:.4g} bits a "
            f"coordinate, {plain / info.frame_bytes:.1f} x smaller, {seconds:.2f} s"
        )
    return 0


def _decode(options: argparse.Namespace) -> int:
    from docofl_codec import files

    source = Path(options.source)
    out = Path(options.out) if options.out else source.with_suffix(".safetensors")
    _check_different(source, out)
    start = time.perf_counter()
    with _bar("decoding") as progress:
        files.decode_file(
            source,
            out,
            max_output_bytes=options.max_bytes,
            threads=options.threads,
            progress=progress,
        )
    seconds = time.perf_counter() - start
    size = out.stat().st_size
    if options.json:
        _print_json({"out": str(out), "bytes": size, "seconds": seconds})
    else:
        print(f"{out}: {size:,} bytes, {seconds:.2f} s")
    return 0


def _inspect(options: argparse.Namespace) -> int:
    from docofl_codec import files

    info = files.inspect_file(options.source)
    if options.json:
        _print_json(_as_json(info))
    else:
        _print_info(options.source, info)
    return 0


def _verify(options: argparse.Namespace) -> int:
    from docofl_codec import files

    with _bar("verifying") as progress:
        info = files.verify_file(
            options.source,
            options.original,
            key=options.key,
            threads=options.threads,
            progress=progress,
        )
    nmse = 0.0 if info.nmse is None else info.nmse
    above = options.max_nmse is not None and not nmse <= options.max_nmse
    if options.json:
        _print_json({**_as_json(info), "ok": not above})
    else:
        _print_info(options.source, info)
        if above:
            print(f"docofl: NMSE {nmse:.3g} is above {options.max_nmse:g}", file=sys.stderr)
    return ABOVE_LIMIT if above else 0


def _bench(options: argparse.Namespace) -> int:
    import numpy as np

    values, total = _flat_values(options.source, options.key, options.values)
    names = options.codecs or codec_names()
    rows = []
    with ProgressBar("measuring", len(names)) as bar:
        for name in names:
            bar.step(name)
            some = values[:: -(-values.size // SLOW.get(name, values.size))]
            rows.append(_measure(name, np.ascontiguousarray(some), options.bits, options.threads))
    if options.json:
        _print_json({"coordinates": int(values.size), "of": total, "rows": rows})
        return 0
    part = "" if values.size == total else f" of {total:,}"
    title = f"{options.source}: {values.size:,}{part} coordinates, {options.bits:g} bits asked for"
    cells = [
        [
            row["codec"] + ("" if row["coordinates"] == values.size else " *"),
            f"{row['bits']:.3f}",
            f"{row['nmse']:.3g}",
            f"{1000 * row['encode_seconds']:.1f}",
            f"{1000 * row['decode_seconds']:.1f}",
        ]
        if "error" not in row
        else [row["codec"], "–", "–", "–", "–"]
        for row in rows
    ]
    print_table(title, ["codec", "bits", "NMSE", "encode ms", "decode ms"], cells)
    if any(cell[0].endswith("*") for cell in cells):
        print("* on an even part of the coordinates: these take minutes on millions")
    for row in rows:
        if "error" in row:
            print(f"docofl: {row['codec']}: {row['error']}", file=sys.stderr)
    return 0


def _info(options: argparse.Namespace) -> int:
    import numpy as np

    from docofl_codec import files

    extras = ("torch", "safetensors", "ml_dtypes", "matplotlib", "rich")
    found = {
        "version": __version__,
        **{key: value for key, value in build_info().items() if key != "version"},
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "installed": [name for name in extras if importlib.util.find_spec(name) is not None],
        "codecs": list(codec_names()),
        "files": list(files.SUFFIXES),
    }
    if options.json:
        _print_json(found)
        return 0
    for name, value in found.items():
        text = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value
        print(f"{name + ':':14}{text}")
    return 0


# --- what they share -----------------------------------------------------------------------------


def _check_different(source: Path, out: Path) -> None:
    if os.path.realpath(source) == os.path.realpath(out):
        raise InvalidInputError(f"{out}: is the source itself; --out names another file")


def _rules(texts: Sequence[str]) -> dict[str, Any] | None:
    rules: dict[str, Any] = {}
    for text in texts:
        pattern, separator, how = text.rpartition("=")
        if not separator:
            raise InvalidInputError(f'--rule: found {text!r}, expected "PATTERN=HOW"')
        rules.setdefault(pattern, how)
    return rules or None


@contextmanager
def _bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Show how much of something large is done."""
    with ProgressBar(title, STEPS) as bar:

        def show(done: int, total: int) -> None:
            bar.set(STEPS * done // max(total, 1))

        yield show


def _plain_bytes(info: StateDictInfo) -> int:
    from docofl_codec.state_dict.tensors import TensorSpec

    return sum(
        TensorSpec(tensor.name, tensor.dtype, tensor.shape).num_bytes
        for tensor in info.tensors
        if tensor.tied_to is None
    )


def _summary(info: StateDictInfo) -> dict[str, Any]:
    fields = dataclasses.asdict(info)
    del fields["tensors"]
    return {**fields, "plain_bytes": _plain_bytes(info)}


def _as_json(info: StateDictInfo) -> dict[str, Any]:
    return {**_summary(info), "tensors": [dataclasses.asdict(tensor) for tensor in info.tensors]}


def _print_json(value: Any) -> None:
    print(json.dumps(_finite(value), allow_nan=False))


def _finite(value: Any) -> Any:
    """Return a value as JSON has it: null for what is no number."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print_info(source: str, info: StateDictInfo) -> None:
    has_errors = info.nmse is not None
    columns = ["tensor", "shape", "dtype", "stored", "bits", "share"]
    columns += ["NMSE", "error share"] if has_errors else []
    rows = []
    for tensor in info.tensors:
        row = [
            tensor.name,
            "x".join(map(str, tensor.shape)) or "–",
            tensor.dtype,
            tensor.store if tensor.tied_to is None else f"tied to {tensor.tied_to}",
            f"{tensor.bits:.3f}",
            f"{100 * tensor.share:.1f} %",
        ]
        if has_errors:
            row += [f"{tensor.nmse:.3g}", f"{100 * (tensor.error_share or 0):.1f} %"]
        rows.append(row)
    print_table(source, columns, rows)
    print(
        f"{len(info.tensors)} tensors, {info.size:,} coordinates, {info.frame_bytes:,} bytes: "
        f"{info.bits_per_coordinate:.4g} bits a coordinate of {info.budget_bits:g}"
    )
    if has_errors:
        print(f"NMSE {info.nmse:.4g}")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, the first column to the left and the others to the right."""
    # Names of tensors are the file's: no control characters to the terminal.
    cells = [[_printable(cell) for cell in row] for row in [columns, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if number == 0 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    rule = "─" * max(map(len, lines))
    print("\n".join([_printable(title), lines[0], rule, *lines[1:], ""]))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


# --- measuring -----------------------------------------------------------------------------------


def _flat_values(path: str, key: str | None, most: int) -> tuple[npt.NDArray[np.float32], int]:
    """Return the floating-point coordinates of a file, or an even part of each tensor."""
    import numpy as np

    from docofl_codec import files
    from docofl_codec.state_dict.tensors import CODED_DTYPES, widen_bfloat16

    if most < 1:
        raise InvalidInputError(f"--values: found {most}, expected 1 or more")
    source = files.open_source(path, key=key)
    chosen = [
        (number, spec)
        for number, spec in enumerate(source.specs)
        if spec.dtype in CODED_DTYPES and not spec.alias_of
    ]
    total = sum(spec.size for _, spec in chosen)
    if total == 0:
        raise InvalidInputError(f"{path}: found no floating-point values")
    parts = []
    for number, spec in chosen:
        size = spec.size if total <= most else max(spec.size * most // total, 1)
        memory = source.load(number)
        flat = memory.flat[: min(size, spec.size)]
        parts.append(widen_bfloat16(flat) if spec.dtype == "bfloat16" else flat.astype(np.float32))
    return np.concatenate(parts), total


def _measure(
    name: str, values: npt.NDArray[np.float32], bits: float, threads: int | None
) -> dict[str, Any]:
    """Time a codec and take its error; `error` says why not."""
    import numpy as np

    try:
        codec = _codec(name, bits, threads)
        encode = decode = float("inf")
        for _ in range(REPEATS):
            start = time.perf_counter()
            blob = codec.encode(values, seed=0)
            middle = time.perf_counter()
            restored: Any = codec.decode(blob)
            end = time.perf_counter()
            encode, decode = min(encode, middle - start), min(decode, end - middle)
            if end - start > 1:
                break
    except CodecError as error:
        return {"codec": name, "error": str(error)}
    difference = restored.astype(np.float64) - values
    norm = float(np.dot(values.astype(np.float64), values))
    return {
        "codec": name,
        "coordinates": int(values.size),
        "bits": 8 * len(blob) / values.size,
        "nmse": float(difference @ difference) / norm if norm else 0.0,
        "encode_seconds": encode,
        "decode_seconds": decode,
    }


def _codec(name: str, bits: float, threads: int | None) -> Codec:
    options: dict[str, Any] = {} if name == "identity" else {"bits": bits}
    return codec_from_config({"codec": name, "threads": threads, **options})
