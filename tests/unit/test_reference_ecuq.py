"""The NumPy twin of ECUQ: algorithm 3, its extensions, and its encoder."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from docofl_codec.reference import (
    ecuq,
    entropy,
    find_num_levels,
    huffman_lengths,
    quantize,
    reconstruct,
)
from docofl_codec.reference.bits import BitReader, pack_fields
from docofl_codec.reference.huffman import PrefixDecoder, is_complete


def normal(size: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(size=size).astype(np.float32)


def f32(*values: object) -> NDArray[np.float32]:
    return np.array(values, np.float32)


# Quantize and reconstruct ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("num_levels", "x_max", "index"),
    [
        (10, 1.0, 7),  # 10 * float32(0.7) rounds up to 7 in float32 …
        (10, 2.0**96, 7),
        (10, 2.0**97, 6),  # … and is 6.9999999 in float64
        (10, 2.0**-96, 7),
        (10, 2.0**-97, 6),
        (10 * 2**10, 1.0, 7 * 2**10),
        (10 * 2**11, 1.0, 7 * 2**11 - 1),
    ],
)
def test_arithmetic_is_float32_where_narrow_and_float64_elsewhere(
    num_levels: int, x_max: float, index: int
) -> None:
    x = f32(0.7) * np.float32(x_max)
    assert quantize(x, num_levels, 0.0, x_max).tolist() == [index]


@pytest.mark.parametrize(
    ("x", "num_levels", "index"),
    [(0.525, 2**14, 12288), (0.42, 2**14 + 1, 9830)],  # 12287.999… and 9830.999…
)
def test_narrow_means_at_most_16384_levels(x: float, num_levels: int, index: int) -> None:
    assert quantize(f32(x), num_levels, 0.0, float(np.float32(0.7))).tolist() == [index]


def test_reconstruction_rounds_each_narrow_operation() -> None:
    x_max = float(np.float32(0.7))
    step = np.float32((x_max + 1.0) / 3)
    expected = np.float32(-1.0) + np.float32(1.5) * step
    assert expected != np.float32(-1.0 + 1.5 * ((x_max + 1.0) / 3))
    assert reconstruct(np.array([1]), 3, -1.0, x_max).tolist() == [expected]


def test_wide_reconstruction_is_rounded_once() -> None:
    num_levels, x_max = 2**20, float(np.float32(0.7))
    indices = np.arange(0, num_levels, 997)
    expected = [np.float32(-1.0 + (k + 0.5) * ((x_max + 1.0) / num_levels)) for k in indices]
    result = reconstruct(indices, num_levels, -1.0, x_max)
    assert result.dtype == np.float32
    assert result.tolist() == expected


def test_ends_of_the_range_go_to_the_first_and_last_level() -> None:
    x = f32(-3e38, 3e38, 0.0)
    assert quantize(x, 2**30, -3e38, 3e38).tolist() == [0, 2**30 - 1, 2**29]


@pytest.mark.parametrize("num_levels", [1, 2, 7, 1000, 2**20])
def test_every_coordinate_goes_to_the_nearest_level(num_levels: int) -> None:
    x = normal(2000)
    x_min, x_max = float(x.min()), float(x.max())
    indices = quantize(x, num_levels, x_min, x_max)
    values = reconstruct(indices, num_levels, x_min, x_max)
    half_step = (x_max - x_min) / num_levels / 2
    assert np.abs(values - x.astype(np.float64)).max() <= half_step + 1e-6


# Entropy -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 2**23])
def test_entropy(offset: int) -> None:
    assert entropy(np.array([1, 1, 1, 1, 2, 2, 3, 9]) + offset) == 1.75


def test_entropy_of_little() -> None:
    assert entropy(np.empty(0, np.int64)) == 0
    assert math.copysign(1, entropy(np.array([4, 4]))) == 1


# The search --------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [1, 2, 2.5, 4, 7.3])
@pytest.mark.parametrize("outlier", [0.0, 1e4])
def test_entropy_is_within_the_tolerance_of_the_budget(bits: float, outlier: float) -> None:
    x = normal(100_000)
    x[7] = outlier
    result = ecuq.ecuq(x, bits)
    assert bits - 0.1 - 1e-9 <= result.entropy <= bits + 1e-9
    assert result.entropy == entropy(result.indices)
    assert result.num_levels == find_num_levels(x, bits) > result.indices.max()


def probes(
    monkeypatch: pytest.MonkeyPatch, x: NDArray[np.float32], bits: float, tolerance: float = 0.1
) -> tuple[int, list[int]]:
    """Return the result of the search and the level counts it tried."""
    tried: list[int] = []
    count = ecuq._count_levels

    def record(
        x: NDArray[np.float32], num_levels: int, x_min: float, x_max: float
    ) -> NDArray[np.int64]:
        tried.append(num_levels)
        return count(x, num_levels, x_min, x_max)

    monkeypatch.setattr(ecuq, "_count_levels", record)
    return find_num_levels(x, bits, tolerance), tried


def test_initial_levels_are_accepted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert probes(monkeypatch, f32(0, 1, 2, 3), 2) == (4, [4])


def test_levels_double_then_halve(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.append(np.arange(16), 1000).astype(np.float32)  # the entropy jumps over 3 after K = 466
    num_levels, tried = probes(monkeypatch, x, 3, tolerance=0.01)
    assert tried[:11] == [8, 9, 10, 12, 16, 24, 40, 72, 136, 264, 520]
    assert tried[11:] == [392, 456, 488, 472, 464, 468, 466, 467]
    assert num_levels == 466


def test_fractional_budget_starts_from_one_level(monkeypatch: pytest.MonkeyPatch) -> None:
    assert probes(monkeypatch, f32(0, 0, 0, 0, 0, 0, 0, 1), 0.6) == (2, [1, 2])


def test_search_without_a_hit_gives_the_largest_within_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = f32(0, 0.6, 0.9, 1)  # entropy 0.81 with two levels, 1.5 with three
    assert probes(monkeypatch, x, 1, tolerance=0.01) == (2, [2, 3, 2])


def test_search_ends_at_max_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.zeros(300, np.float32)
    x[1:] = 2.0 ** -np.arange(1, 300, dtype=np.float64) + 1e-30 * np.arange(1, 300)
    num_levels, tried = probes(monkeypatch, x, 10)
    assert tried == [2**10] + [2**10 + 2**p for p in range(30)]
    assert num_levels == tried[-1]
    assert find_num_levels(x, 29) == 2**29 + 2**29


@pytest.mark.parametrize("bits", [31, 5000])
def test_budget_beyond_max_levels(bits: float) -> None:
    assert find_num_levels(f32(0, 1, 5), bits) == 2**30


def test_slack_absorbs_rounding() -> None:
    x = f32(0, 1, 2)
    assert find_num_levels(x, math.log2(3) + 5e-10, tolerance=0) == 3


# Exact levels, and vectors with little in them ---------------------------------------------------


def test_few_distinct_values_are_kept_exactly() -> None:
    x = f32([0.0, -0.0, 3.3], [-1.5, 1e-40, 0.0])
    result = ecuq.ecuq(x, 8)
    assert result.num_levels == 5
    assert result.indices.tolist() == [[2, 1, 4], [0, 3, 2]]
    assert result.values.tobytes() == x.tobytes()
    assert result.entropy == entropy(result.indices)


def test_exact_levels_are_at_most_256() -> None:
    assert ecuq.ecuq(np.arange(256, dtype=np.float32), 9).num_levels == 256
    assert ecuq.ecuq(np.arange(257, dtype=np.float32), 9).num_levels == 2**9 + 2**29


def test_exact_levels_must_meet_the_budget() -> None:
    x = np.append(np.arange(200), 1e30).astype(np.float32)
    result = ecuq.ecuq(x, 2)
    assert result.entropy <= 2
    assert result.num_levels == 4 + 2**29


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_constant(shape: tuple[int, ...]) -> None:
    x = np.full(shape, -0.1, np.float32)
    result = ecuq.ecuq(x, 2)
    assert (result.num_levels, result.entropy) == (1, 0)
    assert result.values.tobytes() == x.tobytes()
    assert result.values.shape == result.indices.shape == shape
    assert find_num_levels(x, 2) == 1
    assert ecuq.encode(x, 2)[1] == b""


def test_empty() -> None:
    x = np.empty((0, 3), np.float32)
    result, packed = ecuq.encode(x, 2)
    assert (result.num_levels, result.values.shape, packed) == (0, (0, 3), b"")
    assert find_num_levels(x, 2) == 0


@pytest.mark.parametrize("function", [find_num_levels, ecuq.ecuq, ecuq.encode])
@pytest.mark.parametrize(
    ("x", "bits", "tolerance", "message"),
    [
        (f32(1, np.nan, 2), 2, 0.1, "finite"),
        (f32(1, np.inf), 2, 0.1, "finite"),
        (f32(-np.inf, 1), 2, 0.1, "finite"),
        (np.array([1.0, 2.0]), 2, 0.1, "float64"),
        (f32(1, 2), 0, 0.1, "bits"),
        (f32(1, 2), math.nan, 0.1, "bits"),
        (f32(1, 2), math.inf, 0.1, "bits"),
        (f32(1, 2), 2, -0.1, "tolerance"),
        (f32(1, 2), 2, math.nan, "tolerance"),
        (f32(1, 2), 2, math.inf, "tolerance"),
    ],
)
def test_invalid_input(
    function: Callable[..., object],
    x: NDArray[np.float32],
    bits: float,
    tolerance: float,
    message: str,
) -> None:
    with pytest.raises(ValueError, match=message):
        function(x, bits, tolerance)


# Huffman and bit packing -------------------------------------------------------------------------


def test_huffman_lengths_are_optimal() -> None:
    counts = [45, 13, 12, 16, 9, 5]
    assert huffman_lengths(counts).tolist() == [1, 3, 3, 3, 4, 4]


def test_huffman_lengths_are_not_limited() -> None:
    fibonacci = [1, 1]
    while len(fibonacci) < 41:
        fibonacci.append(sum(fibonacci[-2:]))
    lengths = huffman_lengths(fibonacci)
    assert lengths.max() == 40
    assert is_complete(lengths)


@pytest.mark.parametrize("counts", [[], [0, 0], [0, 9]])
def test_fewer_than_two_symbols_need_no_bits(counts: list[int]) -> None:
    assert huffman_lengths(counts).tolist() == [0] * len(counts)


@pytest.mark.parametrize("max_width", [1, 3, 17, 33, 64])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 64, 1001])
def test_pack_fields(max_width: int, size: int) -> None:
    rng = np.random.default_rng(max_width)
    widths = rng.integers(0, max_width, size, dtype=np.uint8, endpoint=True)
    fields = [int.from_bytes(rng.bytes(8), "little") & ((1 << int(w)) - 1) for w in widths]
    shifts = itertools.accumulate([0, *widths.tolist()])
    stream = sum(field << shift for field, shift in zip(fields, shifts, strict=False))
    expected = stream.to_bytes((int(widths.sum(dtype=int)) + 7) // 8, "little")
    assert pack_fields(np.array(fields, np.uint64), widths) == expected


@pytest.mark.parametrize("widths", [[33, 32], [32, 32], [64, 0], [0, 64], [64, 64], [1, 64, 63]])
def test_pack_full_fields(widths: list[int]) -> None:
    fields = np.array([2**width - 1 for width in widths], np.uint64)
    total = sum(widths)
    expected = (2**total - 1).to_bytes(-(-total // 8), "little")
    assert pack_fields(fields, np.array(widths, np.uint8)) == expected


@pytest.mark.parametrize("bits", [1, 2, 5])
@pytest.mark.parametrize("outlier", [0.0, 1e9])
def test_encoded_indices_can_be_read_back(bits: float, outlier: float) -> None:
    x = normal(5000)
    x[7] = outlier
    quantized, packed = ecuq.encode(x, bits)
    assert quantized.num_levels == find_num_levels(x, bits)
    distinct, counts = np.unique(quantized.indices, return_counts=True)
    reader, decoder = BitReader(packed), PrefixDecoder(huffman_lengths(counts))
    decoded = distinct[[decoder.read(reader) for _ in range(x.size)]]
    assert np.array_equal(decoded, quantized.indices)
    assert reader.finish("stream") == len(packed)
    assert quantized.entropy <= 8 * len(packed) / x.size <= quantized.entropy + 1
