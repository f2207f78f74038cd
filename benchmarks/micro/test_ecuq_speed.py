"""Speed of ECUQ on 11,173,962 float32 values, beside Huff0 on the ready index bytes.

``pytest benchmarks/micro --benchmark-only`` prints the times; ``pytest benchmarks/micro -m bench``
checks the targets. Targets are ratios inside one run: both sides are timed in turn and the minima
compared, since absolute times move with the load of the machine.
"""

from __future__ import annotations

import timeit
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import huff0
from benchmarks.case import Case, Floats
from benchmarks.huff0 import Huff0
from benchmarks.micro import datasets
from benchmarks.micro.peak_memory import run as peak_memory_of
from benchmarks.targets import REPEATS, assert_ratio
from benchmarks.timing import Call, available_cpus
from docofl_codec import ecuq, reference

BITS = (1.5, 2.0, 3.0, 4.0, 8.0)
THREADS = (1, 2)
ROUNDS = 5

THREADS_BURST = 5  # a second thread sleeps between calls that do not need it
REFERENCE_BURST = 3  # the reference leaves the allocator and the caches in another state
REFERENCE_TOLERANCE = 0.1  # the listing as printed, its cheapest search

SMALL_SIZE = 1000
SMALL_SECONDS = 60e-6


@pytest.fixture(scope="module", params=datasets.NAMES)
def dataset(request: pytest.FixtureRequest) -> tuple[str, Floats]:
    """Return a data set with its name."""
    try:
        return request.param, datasets.load(request.param)
    except datasets.DatasetUnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module", params=BITS, ids="{}bits".format)
def case(request: pytest.FixtureRequest, dataset: tuple[str, Floats]) -> Case:
    """Return a data set at a budget."""
    name, values = dataset
    return Case.make(name, request.param, values)


@pytest.fixture(scope="module")
def yardstick() -> Huff0:
    """Return Huff0, where it can be built."""
    try:
        return huff0.load()
    except huff0.Huff0UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module", params=BITS, ids="{}bits".format)
def peak_memory(request: pytest.FixtureRequest, dataset: tuple[str, Floats]) -> dict[str, int]:
    """Return the bytes that a fresh process needs for one encode and one decode."""
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("peak memory: needs Linux's /proc/self/clear_refs")
    return peak_memory_of(dataset[0], f"ecuq:{request.param}")


@pytest.mark.parametrize("threads", THREADS)
def test_encode(benchmark: Any, case: Case, threads: int) -> None:
    """Time the whole encode."""
    _report(benchmark, case, "encode")
    _run(benchmark, encode_call(case, threads))


@pytest.mark.parametrize("threads", THREADS)
def test_decode(benchmark: Any, case: Case, threads: int) -> None:
    """Time the decode to floats, into memory that was touched before."""
    _report(benchmark, case, "decode")
    _run(benchmark, decode_call(case, threads))


def test_huff0_compress(benchmark: Any, case: Case, yardstick: Huff0) -> None:
    """Time Huff0 on the ready index bytes."""
    _report(benchmark, case, "encode")
    _run(benchmark, compress_call(case, yardstick))


def test_huff0_decompress(benchmark: Any, case: Case, yardstick: Huff0) -> None:
    """Time Huff0's decode to index bytes."""
    _report(benchmark, case, "decode")
    _run(benchmark, decompress_call(case, yardstick))


@pytest.mark.bench
class TestTargets:
    """The targets, one test for each; a message gives both times and the ratio."""

    def test_bytes_promise(self, case: Case) -> None:
        """The bytes meet the budget: speed is not bought with a loose code."""
        header_bits = 8 * (64 + 10 * case.values.ndim)  # docs/format.md, section 6
        allowed = case.bits * case.values.size + header_bits
        taken = 8 * len(case.blob)
        assert taken <= allowed, f"{_name(case)}: {taken} bits taken, {allowed:.0f} promised"

    def test_encode_against_huff0(self, case: Case, yardstick: Huff0) -> None:
        """The whole encode keeps up with Huff0's compress of ready bytes."""
        target = encode_target(case.dataset, case.bits)
        if target is None:
            pytest.skip(f"no encode target at {case.bits} bits")
        ours, huff0_compress = encode_call(case, 1), compress_call(case, yardstick)
        assert_ratio(f"{_name(case)}: encode / Huff0", ours, huff0_compress, target)

    def test_decode_against_huff0(self, case: Case, yardstick: Huff0) -> None:
        """The decode to floats keeps up with Huff0's decode to bytes."""
        ours, huff0_decompress = decode_call(case, 1), decompress_call(case, yardstick)
        target = decode_target(case.bits)
        assert_ratio(f"{_name(case)}: decode / Huff0", ours, huff0_decompress, target)

    @pytest.mark.skipif(available_cpus() < 2, reason="needs two processors")
    def test_encode_with_two_threads(self, case: Case) -> None:
        """Two threads encode at least 1.7 times as fast as one."""
        two, one = encode_call(case, 2), encode_call(case, 1)
        label = f"{_name(case)}: encode, two threads / one"
        assert_ratio(label, two, one, 1.7, burst=THREADS_BURST)

    @pytest.mark.skipif(available_cpus() < 2, reason="needs two processors")
    def test_decode_with_two_threads(self, case: Case) -> None:
        """Two threads decode at least 1.7 times as fast as one."""
        two, one = decode_call(case, 2), decode_call(case, 1)
        label = f"{_name(case)}: decode, two threads / one"
        assert_ratio(label, two, one, 1.7, burst=THREADS_BURST)

    def test_encode_against_reference(self, case: Case) -> None:
        """Our default encode is at least 25 times as fast as the listing in NumPy."""

        def by_reference() -> Any:
            return reference.ecuq.encode(case.values, case.bits, REFERENCE_TOLERANCE)

        label = f"{_name(case)}: encode / NumPy reference"
        assert_ratio(label, encode_call(case, 1), by_reference, 25.0, 2, burst=REFERENCE_BURST)

    @pytest.mark.parametrize("bits", BITS)
    def test_small_tensor(self, bits: float) -> None:
        """A small tensor takes under 60 us each way, call overhead included."""
        values = np.random.default_rng(0).standard_normal(SMALL_SIZE, dtype=np.float32)
        blob = ecuq.encode(values, bits=bits)
        for name, call in {
            "encode": lambda: ecuq.encode(values, bits=bits),
            "decode": lambda: ecuq.decode(blob),
        }.items():
            seconds = min(timeit.repeat(call, number=200, repeat=REPEATS)) / 200
            message = f"{name} of {SMALL_SIZE} values at {bits} bits took {seconds * 1e6:.1f} us"
            assert seconds < SMALL_SECONDS, f"{message}, target {SMALL_SECONDS * 1e6:.0f} us"

    def test_encode_memory(self, peak_memory: dict[str, int]) -> None:
        """Encoding takes at most 0.35 times the input, blob included."""
        share = peak_memory["encode_extra"] / peak_memory["input"]
        assert share <= 0.35, f"encoding took {share:.3f} x the input, blob included; target 0.35"

    def test_decode_memory(self, peak_memory: dict[str, int]) -> None:
        """Decoding takes at most 0.1 times the input beyond output and blob."""
        share = peak_memory["decode_extra"] / peak_memory["input"]
        assert share <= 0.1, f"decoding took {share:.3f} x beyond output and blob; target 0.1"


def encode_target(dataset: str, bits: float) -> float | None:
    """Return the least ratio to Huff0's compress, or None where there is no target."""
    if bits > 4:
        return None
    if dataset == "normal":
        return 0.75 if bits <= 2 else 0.6
    return 0.6 if bits <= 2 else 0.45


def decode_target(bits: float) -> float:
    """Return the least ratio to Huff0's decode."""
    for limit, target in ((2, 1.0), (3, 0.8), (4, 0.65)):
        if bits <= limit:
            return target
    return 0.5


def encode_call(case: Case, threads: int) -> Call:
    """Return the whole encode of a case."""
    return lambda: ecuq.encode(case.values, bits=case.bits, threads=threads)


def decode_call(case: Case, threads: int) -> Call:
    """Return the decode of a case into memory that was touched before."""
    out = np.ones_like(case.values)
    return lambda: ecuq.decode(case.blob, out=out, threads=threads)


def compress_call(case: Case, yardstick: Huff0) -> Call:
    """Return Huff0's compress of the ready index bytes."""
    symbols = case.symbols
    return lambda: yardstick.compress(symbols)


def decompress_call(case: Case, yardstick: Huff0) -> Call:
    """Return Huff0's decode to index bytes."""
    coded = yardstick.compress(case.symbols).copy()
    out = np.ones_like(case.symbols)
    return lambda: yardstick.decompress(coded, out)


def _name(case: Case) -> str:
    return f"{case.dataset} at {case.bits} bits"


def _report(benchmark: Any, case: Case, operation: str) -> None:
    benchmark.group = f"{_name(case)}: {operation}"
    benchmark.extra_info["real_bits"] = case.real_bits
    benchmark.extra_info["num_levels"] = case.num_levels
    benchmark.extra_info["num_values"] = case.values.size


def _run(benchmark: Any, call: Call) -> None:
    benchmark.pedantic(call, rounds=ROUNDS, warmup_rounds=1)
