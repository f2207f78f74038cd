"""The table of errors at equal bytes: ECUQ in three ways, beside the paper's and other codecs.

Run it from the root of the repository: ``python -m benchmarks.quality --help``. For every data set
and budget the paper's ECUQ takes as many levels as its Huffman code can afford; ours get the bytes
that it took. Of the other compressors each gets about as many, and ours is run again with just
theirs: a ratio below 1 means less error for the same bytes.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import bounds
from benchmarks.case import nmse
from benchmarks.report import Table, progress, show
from benchmarks.timing import interleaved_min
from docofl_codec import ecuq, reference
from docofl_codec.figures.weights import WeightsUnavailableError, load_published
from docofl_codec.reference.huffman import huffman_lengths

Floats = npt.NDArray[np.float32]

SIZE = 1 << 20
BITS = (1.0, 1.5, 2.0, 3.0, 4.0)
MAX_LEVELS = 1 << 24
SAMPLE = 1 << 20  # values on which the paper's number of levels is searched
SPEED_REPEATS = 3
# Ways of ours, by name.
WAYS: dict[str, dict[str, Any]] = {
    "fast": {},
    "auto": {"coder": "auto"},
    "best": {"quality": "best"},
}


def data_set(name: str) -> Floats:
    """Return a vector: drawn from a fixed seed, or the weights of a published network."""
    if name in ("cnn", "lstm"):
        return load_published(name)
    x = np.random.default_rng(0).standard_normal(SIZE).astype(np.float32)
    return x if name == "normal" else np.exp(x)


@dataclass(frozen=True)
class Coded:
    """What a compressor made of a vector."""

    real_bits: float
    nmse: float


# --- the paper's ECUQ -----------------------------------------------------------------------------


def paper(x: Floats, bits: float) -> Coded:
    """Quantize to the most uniform levels whose Huffman code, a word a coordinate, fits `bits`."""
    sample = x[:: -(-x.size // SAMPLE)].copy()
    sample[:2] = x.min(), x.max()

    def cost(values: Floats, num_levels: int) -> float:
        _, counts = np.unique(levels_of(values, num_levels), return_counts=True)
        if counts.size == 1:
            return 0.0
        return float(counts @ huffman_lengths(counts).astype(np.int64)) / values.size

    low, high = 1, MAX_LEVELS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if cost(sample, middle) <= bits else (low, middle)
    low = max(low, 2)
    indices = levels_of(x, low)
    step = (float(x.max()) - float(x.min())) / low
    restored = float(x.min()) + (indices + 0.5) * step
    return Coded(cost(x, low), nmse(x, restored.astype(np.float32)))


def levels_of(x: Floats, num_levels: int) -> npt.NDArray[np.int64]:
    """Return the level of each value."""
    return reference.quantize(x, num_levels, float(x.min()), float(x.max()))


# --- others, at about so many bits ----------------------------------------------------------------


def _closest(
    code: Callable[[float], tuple[int, Floats]], x: Floats, bits: float, start: float, unit: float
) -> Coded:
    """Search the setting of a compressor that comes closest; a bit less is `unit` more of it."""
    setting, best = start, None
    for _ in range(8):
        num_bytes, restored = code(setting)
        found = Coded(8 * num_bytes / x.size, nmse(x, restored))
        if best is None or abs(found.real_bits - bits) < abs(best.real_bits - bits):
            best = found
        if abs(found.real_bits - bits) < 0.03:
            break
        setting += unit * (found.real_bits - bits)
    assert best is not None
    return best


def _sz3(x: Floats, bits: float) -> Coded:
    pysz = importlib.import_module("pysz")
    config = pysz.szConfig(x.shape)
    config.errorBoundMode = pysz.szErrorBoundMode.ABS
    config.cmprAlgo = pysz.szAlgorithm.NOPRED

    def code(exponent: float) -> tuple[int, Floats]:
        config.absErrorBound = 2.0**exponent
        coded = pysz.sz.compress(x, config)[0]
        return coded.nbytes, pysz.sz.decompress(coded, np.float32, x.shape)[0]

    spread = float(np.quantile(x, 0.9) - np.quantile(x, 0.1))
    return _closest(code, x, bits, np.log2(spread) - bits, 1.0)


def _zfp(x: Floats, bits: float) -> Coded:
    zfpy = importlib.import_module("zfpy")
    cube = np.pad(x, (0, -x.size % (4 * 4 * 64)), mode="edge").reshape(-1, 4, 64)
    coded = zfpy.compress_numpy(cube, rate=bits)
    restored = zfpy.decompress_numpy(coded).ravel()[: x.size]
    return Coded(8 * len(coded) / x.size, nmse(x, restored))


@cache
def _import_nnc() -> Any:
    """Import nncodec, which imports torchvision, whose operators are absent beside a CPU torch."""
    torch = importlib.import_module("torch")
    try:
        library = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    except RuntimeError:
        library = None  # they are there
    nn: Any = importlib.import_module("nncodec.nn")
    nn.operators = library  # kept as long as the module is
    return nn


def _nnc(x: Floats, bits: float) -> Coded:
    nn = _import_nnc()
    side = 1024
    matrix = np.pad(x, (0, -x.size % side)).reshape(-1, side)

    def code(qp: float) -> tuple[int, Floats]:
        with tempfile.TemporaryDirectory() as folder:
            options = {"qp": round(qp), "results": folder, "verbose": False}
            coded = nn.encode({"weight": matrix}, options)
            restored = nn.decode(coded)["weight"]
        return len(coded), np.asarray(restored, np.float32).ravel()[: x.size]

    # The step of quantization parameter qp is about 2^(qp / 4); a bit is four of them.
    spread = float(np.quantile(x, 0.9) - np.quantile(x, 0.1))
    return _closest(code, x, bits, 4 * (np.log2(spread) - bits), 4.0)


PEERS: dict[str, tuple[str, Callable[[Floats, float], Coded]]] = {
    "ISO NNC": ("nncodec", _nnc),
    "SZ3": ("pysz", _sz3),
    "zfp": ("zfpy", _zfp),
}


# --- ours -----------------------------------------------------------------------------------------


def ours(x: Floats, bits: float, way: str) -> Coded:
    """Code with a budget."""
    blob = ecuq.encode(x, bits=bits, **WAYS[way])
    return Coded(8 * len(blob) / x.size, nmse(x, np.asarray(ecuq.decode(blob))))


def speeds(x: Floats, bits: float) -> dict[str, float]:
    """Return millions of coordinates a second on one thread, by call."""
    blobs = {way: ecuq.encode(x, bits=bits, **options) for way, options in WAYS.items()}
    out = np.empty_like(x)
    calls: dict[str, Any] = {
        f"encode {way}": partial(ecuq.encode, x, bits=bits, threads=1, **options)
        for way, options in WAYS.items()
    }
    calls |= {
        f"decode {way}": partial(ecuq.decode, blob, out=out, threads=1)
        for way, blob in blobs.items()
    }
    found = interleaved_min(calls, SPEED_REPEATS)
    return {name: x.size / seconds / 1e6 for name, seconds in found.items()}


def limits(name: str, x: Floats, base: Coded, best: Coded) -> list[str]:
    """Return what scalar quantizers and any codes could do, where the density is known."""
    if name not in ("normal", "lognormal"):
        return ["", "", ""]
    source = bounds.Source.of(name)
    power = float(np.mean(np.square(x, dtype=np.float64)))
    least = {
        bound: bound(source, bits) / power
        for bound, bits in ((bounds.scalar, base.real_bits), (bounds.shannon, best.real_bits))
    }
    distance = 10 * np.log10(best.nmse / least[bounds.shannon])
    ratios = [f"{error / base.nmse:.3f}" for error in least.values()]
    return [*ratios, f"{distance:.2f}"]


def compare(name: str, x: Floats, bits: float) -> tuple[list[str], list[str]]:
    """Return the cells of a row of errors and of one of speeds."""
    progress(f"{name}, {bits:g} bits")
    base = paper(x, bits)
    fast, auto, best = (ours(x, base.real_bits, way) for way in WAYS)
    first = [name, f"{base.real_bits:.3f}"]
    speed = [f"{value:.0f}" for value in speeds(x, base.real_bits).values()]
    cells = [
        *first,
        f"{base.nmse:.3g}",
        f"{fast.nmse / base.nmse:.3f}",
        f"{auto.nmse / base.nmse:.3f}",
        f"{best.nmse / base.nmse:.3f}",
        *limits(name, x, base, best),
    ]
    for package, code in PEERS.values():
        if importlib.util.find_spec(package) is None:
            cells.append("not installed")
            continue
        peer = code(x, bits)
        mine = ours(x, max(peer.real_bits, 0.01), "best")
        cells.append(f"{mine.nmse / peer.nmse:.3f} at {peer.real_bits:.2f}")
    progress("")
    return cells, [*first, *speed]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = ["normal", "lognormal", "lstm", "cnn"]
    parser.add_argument("--data", nargs="+", choices=names, default=names)
    parser.add_argument("--bits", nargs="+", type=float, default=BITS)
    options = parser.parse_args(arguments)
    rows = []
    for name in options.data:
        try:
            x = data_set(name)
        except WeightsUnavailableError as error:
            print(f"{name} is left out: {error}")
            continue
        rows += [compare(name, x, bits) for bits in options.bits]
    errors = [
        "paper's NMSE",
        "fast / paper",
        "auto / paper",
        "best / paper",
        "scalar bound / paper",
        "Shannon / paper",
        "best, dB from Shannon",
        *(f"best / {name}" for name in PEERS),
    ]
    calls = [f"{call} {way}" for call in ("encode", "decode") for way in WAYS]
    for title, columns, cells in (
        ("Squared error at equal bytes", errors, [row for row, _ in rows]),
        ("Millions of coordinates a second, one thread", calls, [row for _, row in rows]),
    ):
        show(Table(title, ["data", "bits", *columns], cells, ["data"]))


if __name__ == "__main__":
    main()
