"""The NumPy twin of EDEN, and the second decoder of its payloads (docs/format.md, section 4)."""

from __future__ import annotations

import importlib.util
import itertools
import math
import struct
from pathlib import Path
from statistics import NormalDist
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from docofl_codec.reference import decode_eden_payload, decode_frame, eden
from tests.helpers.data import Floats, lognormal, normal
from tests.helpers.frames import BFLOAT16, EDEN, FLOAT16, FLOAT32, FLOAT64, make_frame

ROOT = Path(__file__).resolve().parents[2]
LARGEST = float(np.finfo(np.float32).max)
BUDGETS = (0.1, 0.5, 1, 1.5, 2, 2.75, 4, 7.9, 8)
ODD_SIZES = (127, 128, 129, 1000, 4097, 32_767, 32_768, 32_769, 70_001)


def f32(*values: float) -> Floats:
    return np.array(values, np.float32)


def nmse(x: Floats, x_hat: Floats) -> float:
    x64 = x.astype(np.float64)
    return float(np.sum((x64 - x_hat) ** 2) / np.sum(x64**2))


# Codebooks ---------------------------------------------------------------------------------------


def edges(levels: NDArray[np.float64]) -> list[float]:
    return [0.0, *((a + b) / 2 for a, b in itertools.pairwise(levels.tolist())), math.inf]


@pytest.mark.parametrize(
    ("width", "levels"),
    [
        (0, [0.0]),
        (1, [0.7978845608]),
        (2, [0.4527800, 1.5104176]),
        (3, [0.2450942, 0.7560053, 1.3439093, 2.1519457]),
    ],
)
def test_known_levels(width: int, levels: list[float]) -> None:
    assert eden.lloyd_max(width)[0] == pytest.approx(levels, abs=1e-7)


def test_known_distortions() -> None:
    found = [eden.lloyd_max(width)[1] for width in range(1, 7)]
    known = [0.3634, 0.1175, 0.03454, 0.009497, 0.002499, 0.000640]
    assert found == pytest.approx(known, rel=0.01)
    assert found[0] == pytest.approx(1 - 2 / math.pi, rel=1e-14)


@pytest.mark.parametrize("width", range(1, 9))
def test_levels_are_centroids_of_the_cells_between_midpoints(width: int) -> None:
    levels, _ = eden.lloyd_max(width)
    assert levels.shape == (2 ** (width - 1),)
    assert (np.diff(levels, prepend=0) > 0).all()
    density = NormalDist().pdf
    for level, (low, high) in zip(levels, itertools.pairwise(edges(levels)), strict=True):
        mass = (math.erfc(low / math.sqrt(2)) - math.erfc(high / math.sqrt(2))) / 2
        assert abs(level * mass - (density(low) - density(high))) < 1e-15
        assert level == pytest.approx((density(low) - density(high)) / mass, abs=1e-10)


@pytest.mark.parametrize("width", range(1, 9))
def test_distortion_is_the_mean_squared_error(width: int) -> None:
    levels, distortion = eden.lloyd_max(width)
    z = (np.arange(1_000_000) + 0.5) * 1e-5  # up to 10
    nearest = levels[np.searchsorted(edges(levels)[1:-1], z)]
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    assert distortion == pytest.approx(2e-5 * float(((z - nearest) ** 2) @ density), rel=1e-5)


@pytest.mark.parametrize("width", range(1, 9))
def test_thresholds_are_midpoints_of_the_float32_levels(width: int) -> None:
    levels = eden.codebook(width)
    assert levels.dtype == eden.thresholds(width).dtype == np.float32
    midpoints = [np.float32((float(a) + float(b)) / 2) for a, b in itertools.pairwise(levels)]
    assert eden.thresholds(width).tolist() == midpoints


needs_the_core = pytest.mark.skipif(not (ROOT / "cpp").exists(), reason="no sources of the core")


@pytest.fixture
def tool() -> ModuleType:
    path = ROOT / "tools" / "make_codebooks.py"
    spec = importlib.util.spec_from_file_location("make_codebooks", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@needs_the_core
def test_tables_of_the_core_are_current(tool: ModuleType) -> None:
    assert tool.main(["--check"]) == 0


def test_other_tables_are_found_and_replaced(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "TARGET", tmp_path / "eden" / "codebooks.inl")
    assert tool.main(["--check"]) == 1
    assert tool.main([]) == 0
    assert tool.main(["--check"]) == 0
    text = tool.TARGET.read_text()
    tool.TARGET.write_text(text.replace("0x1.988454p-1f", "0x1.988456p-1f"))
    assert tool.main(["--check"]) == 1


@needs_the_core
def test_tables_of_the_core_have_the_float32_levels(tool: ModuleType) -> None:
    definitions = tool.TARGET.read_text().split("constexpr ")[1:]
    arrays = {
        part[: part.index("[")]: [item.strip() for item in part[part.index("{") + 1 :].split(",")]
        for part in (definition[: definition.index("}")] for definition in definitions)
    }
    tables = {
        name.removeprefix("float "): [float.fromhex(item[:-1]) for item in items if item]
        for name, items in arrays.items()
        if name.startswith("float ")
    }
    expected = {f"kCodebook{width}": eden.codebook(width).tolist() for width in range(1, 9)}
    expected |= {f"kThresholds{width}": eden.thresholds(width).tolist() for width in range(2, 9)}
    assert tables == expected
    distortions = [float(item) for item in arrays["double kDistortion"] if item]
    assert distortions == pytest.approx([eden.lloyd_max(w)[1] for w in range(9)], rel=1e-9)
    assert max(map(len, tool.TARGET.read_text().splitlines())) <= 100


def test_theory() -> None:
    known = {1: 0.571, 2: 0.1331, 3: 0.0358, 4: 0.00959, 0.5: math.pi - 1}
    for bits, error in known.items():
        assert eden.theory_nmse(bits) == pytest.approx(error, rel=2e-3)
    fine = [eden.theory_nmse(bits) for bits in np.linspace(0.1, 8, 200)]
    assert all(a > b for a, b in itertools.pairwise(fine))


@pytest.mark.parametrize(
    ("bits", "expected"),
    [
        (1, (1, 0)),
        (8, (8, 0)),
        (0.25, (0, 2**30)),
        (7.75, (7, 3 * 2**30)),
        (0.1, (0, 429496729)),
        (1 + 2.0**-33, (1, 0)),
        (np.nextafter(8, 0), (7, 2**32 - 1)),
    ],
)
def test_budgets(bits: float, expected: tuple[int, int]) -> None:
    assert eden.split_budget(bits) == expected


# Rotation ----------------------------------------------------------------------------------------

MASK = 2**64 - 1


def splitmix(key: int, counter: int) -> int:
    """Section 4.1, in Python's integers."""
    z = (key + (counter + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return z ^ z >> 31


def sign(seed: int, round_number: int, i: int) -> int:
    return -1 if splitmix(splitmix(seed, round_number), i // 64) >> i % 64 & 1 else 1


def test_published_values_of_splitmix64() -> None:
    found = eden.counter_random(1234567, np.arange(5)).tolist()
    assert found == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


@pytest.mark.parametrize("key", [0, 7, 2**63, MASK])
def test_counter_random(key: int) -> None:
    counters = [0, 1, 2**32, 2**63, MASK]
    expected = [splitmix(key, counter) for counter in counters]
    assert eden.counter_random(key, counters).tolist() == expected
    assert [int(eden.counter_random(key, counter)) for counter in counters] == expected


@pytest.mark.parametrize(("start", "size"), [(0, 16), (16, 16), (32, 32), (65_536, 256)])
@pytest.mark.parametrize("round_number", [1, 2])
def test_signs(round_number: int, start: int, size: int) -> None:
    found = eden.signs(MASK, round_number, start, size)
    assert found.dtype == np.float32
    assert found.tolist() == [sign(MASK, round_number, start + i) for i in range(size)]


@pytest.mark.parametrize("size", [*range(100), *ODD_SIZES, 3 * 32_768 + 16_384 + 48 + 5])
def test_blocks_cover_all_but_the_tail(size: int) -> None:
    sizes = eden.block_sizes(size)
    assert sum(sizes) == size - size % 16
    assert sizes[: size // 32_768] == [32_768] * (size // 32_768)
    rest = sizes[size // 32_768 :]
    assert all(power in [2**p for p in range(4, 15)] for power in rest)
    assert all(a > b for a, b in itertools.pairwise(rest))


def sylvester(size: int) -> NDArray[np.float64]:
    """H_2k = [H_k H_k; H_k −H_k]."""
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("size", [1, 2, 16, 128])
def test_hadamard(size: int, descending: bool) -> None:
    x = np.random.default_rng(size).integers(-1000, 1000, (3, size)).astype(np.float32)
    assert (eden.hadamard(x, descending=descending) == x @ sylvester(size)).all()


@pytest.mark.parametrize(("size", "start"), [(16, 0), (16, 48), (128, 32_768)])
def test_rotation_is_the_orthogonal_matrix_of_the_format(size: int, start: int) -> None:
    g = min(size, 4096)
    d1, d2 = (np.diag([sign(7, r, start + i) for i in range(size)]) for r in (1, 2))
    expected = sylvester(size) @ d2 @ np.kron(np.eye(size // g), sylvester(g)) @ d1
    expected /= math.sqrt(g * size)
    assert expected @ expected.T == pytest.approx(np.eye(size), abs=1e-12)
    unit_vectors = np.eye(size, dtype=np.float32)
    rotated = np.stack([eden.rotate(unit, 7, start) for unit in unit_vectors], axis=1)
    assert rotated == pytest.approx(expected, abs=1e-6)
    rotated_back = np.stack([eden.rotate_back(unit, 7, start) for unit in unit_vectors], axis=1)
    assert rotated_back == pytest.approx(expected.T, abs=1e-6)


@pytest.mark.parametrize("size", [16, 128, 32_768])
def test_rotating_back_is_the_inverse(size: int) -> None:
    x = lognormal(size)
    rotated = eden.rotate(x, 7, size)
    assert rotated.dtype == np.float32
    assert np.linalg.norm(rotated) == pytest.approx(np.linalg.norm(x), rel=1e-5)
    assert nmse(x, eden.rotate_back(rotated, 7, size)) < 1e-12
    assert nmse(x, eden.rotate_back(rotated, 8, size)) > 1


def rotate_back_by_the_letter(q: Floats, seed: int, start: int) -> list[np.float32]:
    """Section 4.4, one float32 operation after the other."""

    def butterflies(part: list[np.float32]) -> list[np.float32]:
        part = list(part)
        distance = len(part) // 2
        while distance:
            for i in range(len(part)):
                if not i & distance:
                    a, b = part[i], part[i + distance]
                    part[i], part[i + distance] = a + b, a - b
            distance //= 2
        return part

    m, g = len(q), min(len(q), 4096)
    y = butterflies(list(q))
    y = [np.float32(sign(seed, 2, start + i)) * value for i, value in enumerate(y)]
    y = [value for first in range(0, m, g) for value in butterflies(y[first : first + g])]
    y = [np.float32(sign(seed, 1, start + i)) * value for i, value in enumerate(y)]
    return [value * np.float32(1 / math.sqrt(g * m)) for value in y]


@pytest.mark.parametrize("size", [16, 32, 512, 8192])
def test_rotating_back_is_exact_to_the_bit(size: int) -> None:
    q, g = normal(size), min(size, 4096)
    expected = np.array(rotate_back_by_the_letter(q, 7, 3 * size), np.float32)
    assert eden.rotate_back(q, 7, 3 * size).tobytes() == expected.tobytes()
    y = eden.hadamard(q) * eden.signs(7, 2, 3 * size, size)  # another order rounds otherwise
    y = eden.hadamard(y.reshape(-1, g)).ravel() * eden.signs(7, 1, 3 * size, size)
    factor = np.float32(1 / math.sqrt(g * size))
    assert (y * factor).tobytes() != expected.tobytes()


# Chunks and words --------------------------------------------------------------------------------


@pytest.mark.parametrize("num_chunks", [1, 2, 4, 64, 2048])
@pytest.mark.parametrize("block_number", [0, 1, 1000])
def test_order_of_chunks(block_number: int, num_chunks: int) -> None:
    bits = splitmix(splitmix(MASK, 3), block_number)
    a, o = bits % 2**32 | 1, bits >> 32
    expected = [(a * j + o) % num_chunks for j in range(num_chunks)]
    order = eden.chunk_order(MASK, block_number, num_chunks, fraction=1)
    assert order.tolist() == expected
    assert sorted(expected) == list(range(num_chunks))
    natural = eden.chunk_order(MASK, block_number, num_chunks, fraction=0)
    assert natural.tolist() == list(range(num_chunks))


@pytest.mark.parametrize(
    ("num_chunks", "fraction", "num_wide"),
    [
        (8, 0, 0),
        (8, 1, 1),
        (8, 2**29, 1),
        (8, 2**29 + 1, 2),
        (8, 2**32 - 1, 8),
        (1, 1, 1),
        (2048, 429496729, 205),
    ],
)
def test_first_chunks_are_wide(num_chunks: int, fraction: int, num_wide: int) -> None:
    groups = list(eden.chunk_groups(7, 1, num_chunks, 3, fraction))
    widths = [v for v, places in groups for _ in places]
    assert widths == [4] * num_wide + [3] * (num_chunks - num_wide)
    places = np.concatenate([places for _, places in groups])
    assert places.tolist() == eden.chunk_order(7, 1, num_chunks, fraction).tolist()


@pytest.mark.parametrize("width", range(1, 9))
def test_words_are_those_of_the_nearest_levels(width: int) -> None:
    t = np.append(normal(1000) * np.float32(1.5), f32(0.0, -0.0, 1e30, -1e30))
    words = eden.quantize(t, width)
    levels = eden.dequantize(words, width)
    magnitudes = eden.codebook(width)
    assert (np.abs(levels) == magnitudes[words & (2 ** (width - 1) - 1)]).all()
    assert (np.signbit(levels) == (words >> (width - 1) == 1)).all()
    assert (np.signbit(levels) == np.signbit(t)).all()
    distances = np.abs(np.abs(t)[:, np.newaxis] - magnitudes)
    assert np.abs(t - levels) == pytest.approx(distances.min(axis=1))


@pytest.mark.parametrize("width", range(2, 9))
def test_values_on_a_threshold_go_up(width: int) -> None:
    on = eden.thresholds(width)
    ranks = np.arange(1, on.size + 1)
    assert eden.quantize(on, width).tolist() == ranks.tolist()
    below = np.nextafter(on, np.float32(0))
    assert eden.quantize(-below, width).tolist() == (ranks - 1 + 2 ** (width - 1)).tolist()


def test_width_0_has_one_level() -> None:
    words = eden.quantize(f32(-3, 0, 5), 0)
    assert words.tolist() == [0, 0, 0]
    assert eden.dequantize(words, 0).tolist() == [0, 0, 0]
    assert eden.pack_planes(words[np.newaxis], 0) == b""


@pytest.mark.parametrize("width", range(1, 9))
def test_planes(width: int) -> None:
    words = np.random.default_rng(width).integers(0, 2**width, (5, 16)).astype(np.uint8)
    data = eden.pack_planes(words, width)
    planes = struct.unpack(f"<{5 * width}H", data)
    for (chunk, p), plane in zip(itertools.product(range(5), range(width)), planes, strict=True):
        assert plane == sum((int(words[chunk, i]) >> p & 1) << i for i in range(16))
    assert eden.unpack_planes(data, width, 5).tolist() == words.tolist()


# The codec ---------------------------------------------------------------------------------------


def num_wide_chunks(size: int, width: int, fraction: int) -> int:
    return sum(
        m // 16 if width == 0 and m < 256 else -(-(m // 16) * fraction // 2**32)
        for m in eden.block_sizes(size)
    )


def check_round_trip(x: Floats, bits: float, scale: Any = "unbiased") -> Floats:
    """Encode, write, read, decode; return what comes back."""
    encoded = eden.encode(x, bits, 7, scale)
    payload = eden.payload(encoded)
    n, num_blocks = x.size, len(eden.block_sizes(x.size))
    words = 2 * (n // 16 * encoded.width + num_wide_chunks(n, encoded.width, encoded.fraction))
    assert len(payload) == (18 + 4 * num_blocks + 4 * (n % 16) + words if n else 0)
    # The promise of section 6; 22 bytes of it belong to the frame.
    assert 8 * len(payload) <= bits * n + 8 * (176 - 22 + 6 * (n // 32_768 + 11))

    values, info = decode_eden_payload(payload, n)
    assert values.dtype == np.float32
    assert values.tobytes() == eden.decode(encoded).tobytes()
    assert values[n - n % 16 :].tobytes() == x.ravel()[n - n % 16 :].tobytes()
    if n:
        found = [info[key] for key in ("mode", "width", "fraction", "bits", "seed", "scales")]
        expected = [0, encoded.width, encoded.fraction, float(np.float32(bits)), 7]
        assert found == [*expected, encoded.scales.tolist()]
    return values


@pytest.mark.parametrize("size", range(101))
def test_small_sizes(size: int) -> None:
    x = normal(size)
    for bits in (0.5, 1, 3.3, 8):
        check_round_trip(x, bits)
    if size:
        assert nmse(x, check_round_trip(x, 8)) < 1e-3


@pytest.mark.parametrize("bits", BUDGETS)
@pytest.mark.parametrize("size", ODD_SIZES)
def test_odd_sizes(size: int, bits: float) -> None:
    x = lognormal(size)
    error = nmse(x, check_round_trip(x, bits))
    assert error < (1.5 if size >= 1000 else 3) * eden.theory_nmse(bits)


@pytest.mark.parametrize("x", [f32(0.1), f32(-0.0, 3e38), f32(1e-45, -7, 0.3)])
def test_one_two_or_three_values_are_exact(x: Floats) -> None:
    assert check_round_trip(x, 1).tobytes() == x.tobytes()


@pytest.mark.parametrize("bits", BUDGETS)
@pytest.mark.parametrize("scale", ["unbiased", "mse"])
def test_zero_blocks(scale: str, bits: float) -> None:
    assert not check_round_trip(np.zeros(1000, np.float32), bits, scale).any()
    x = normal(512 + 256 + 16)
    x[512 : 512 + 256] = 0
    encoded = eden.encode(x, bits, 7)
    assert encoded.scales.tolist()[1] == 0
    assert not encoded.words[512 : 512 + 256].any()
    values = check_round_trip(x, bits)
    assert not values[512 : 512 + 256].any()
    assert values[:512].any()


def test_shape_does_not_matter() -> None:
    x = normal(96)
    flat = eden.payload(eden.encode(x, 2, 7))
    assert eden.payload(eden.encode(x.reshape(4, 24), 2, 7)) == flat
    assert eden.payload(eden.encode(x.reshape(24, 4).T.copy().T, 2, 7)) == flat


@pytest.mark.parametrize("bits", [0.5, 1, 2.5, 8])
@pytest.mark.parametrize("power", [-100, 3, 120])
def test_powers_of_two_move_to_the_scale(power: int, bits: float) -> None:
    x = normal(1008)
    encoded, moved = eden.encode(x, bits, 7), eden.encode(x * np.float32(2.0**power), bits, 7)
    assert encoded.words.tobytes() == moved.words.tobytes()
    assert (encoded.scales * np.float32(2.0**power)).tolist() == moved.scales.tolist()


@pytest.mark.parametrize("bits", [0.5, 1, 2, 4])
def test_huge_values(bits: float) -> None:
    x = np.clip(normal(4096), -4, 4) * np.float32(LARGEST / 4)
    x[:2] = LARGEST, -LARGEST
    assert nmse(x, check_round_trip(x, bits)) < 1.2 * eden.theory_nmse(bits)


def test_values_whose_scale_would_be_infinite() -> None:
    x = np.full(4096, LARGEST, np.float32)
    with pytest.raises(ValueError, match="beyond float32"):
        eden.encode(x, 1, 7)
    assert np.isfinite(check_round_trip(x, 1, "mse")).all()
    assert np.isfinite(check_round_trip(x / np.float32(2), 1)).all()


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_denormal_values(bits: float) -> None:
    x = np.float32(1e-40) * normal(4096)
    assert nmse(x * np.float32(2.0**100), check_round_trip(x, bits) * np.float32(2.0**100)) < (
        1.1 * eden.theory_nmse(bits)
    )
    least = np.zeros(64, np.float32)
    least[5] = 1e-45
    assert np.isfinite(check_round_trip(least, bits)).all()


def test_values_far_below_the_largest_one() -> None:
    x = normal(4096) * np.float32(1e-38)
    x[17] = 3e38
    assert nmse(x, check_round_trip(x, 4)) < 0.03


@pytest.mark.parametrize("bits", BUDGETS)
def test_unbiased_scale_keeps_the_inner_product(bits: float) -> None:
    x = lognormal(1024)
    x_hat = eden.decode(eden.encode(x, bits, 7)).astype(np.float64)
    assert float(x_hat @ x) == pytest.approx(float(np.sum(x.astype(np.float64) ** 2)), rel=1e-5)


@pytest.mark.parametrize("bits", BUDGETS)
def test_mse_scale_has_the_least_error(bits: float) -> None:
    x = lognormal(1024)
    x_hat = eden.decode(eden.encode(x, bits, 7, "mse"))
    least = nmse(x, x_hat)
    for factor in (0.99, 0.999, 1.001, 1.01):
        assert least < nmse(x, x_hat * np.float32(factor))
    assert least <= nmse(x, eden.decode(eden.encode(x, bits, 7)))
    theory = eden.theory_nmse(bits)
    assert least == pytest.approx(theory / (1 + theory), rel=0.25)


def test_small_blocks_drop_nothing() -> None:
    for size in (16, 32, 64, 128):
        half = eden.payload(eden.encode(normal(size), 0.5, seed=3))
        assert len(half) == len(eden.payload(eden.encode(normal(size), 1, seed=3)))
    assert len(eden.payload(eden.encode(normal(256), 0.5, seed=3))) == 18 + 4 + 16


def test_seed_decides() -> None:
    x = normal(1024)
    payloads = {eden.payload(eden.encode(x, 1.5, seed)) for seed in (0, 1, 2**63, MASK)}
    assert len(payloads) == 4
    assert eden.payload(eden.encode(x, 1.5, MASK)) in payloads


@pytest.mark.parametrize(
    ("x", "bits", "seed", "scale", "message"),
    [
        (f32(1), 0.09, 7, "unbiased", "bits"),
        (f32(1), 8.01, 7, "unbiased", "bits"),
        (f32(1), math.nan, 7, "unbiased", "bits"),
        (f32(1), 1, -1, "unbiased", "seed"),
        (f32(1), 1, 2**64, "unbiased", "seed"),
        (f32(1), 1, 7, "best", "scale"),
        (f32(1, math.nan), 1, 7, "unbiased", "finite"),
        (f32(1, -math.inf), 1, 7, "unbiased", "finite"),
        (np.ones(1), 1, 7, "unbiased", "float64"),
    ],
)
def test_bad_input(x: Any, bits: float, seed: int, scale: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        eden.encode(x, bits, seed, scale)


# Payloads by hand --------------------------------------------------------------------------------


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def payload(
    mode: int = 0,
    width: int = 1,
    fraction: int = 0,
    bits: float = 1.0,
    seed: int = 7,
    rest: bytes = floats(1.0) + b"\x34\x12",
) -> bytes:
    """Write a payload; unless told otherwise, of one block of 16 coordinates."""
    return struct.pack("<BBIfQ", mode, width, fraction, bits, seed) + rest


def ecuq(levels: tuple[float, ...], words: bytes) -> bytes:
    """Write section 3 for explicit levels, one or two of them, and one block of one stream."""
    table = b"\x3c" if len(levels) == 2 else b""  # lengths 1, 1
    parameters = struct.pack("<5Bf", 0, 1, 1, 0, len(levels) - 1, 0.0)
    return parameters + floats(*levels) + table + struct.pack("<H", len(words)) + words


def test_words_by_hand() -> None:
    q = f32(*(-1.0 if 0x1234 >> i & 1 else 1.0 for i in range(16))) * eden.codebook(1)
    expected = eden.rotate_back(q, 7, 0) * np.float32(1.5)
    values, info = decode_eden_payload(payload(rest=floats(1.5) + b"\x34\x12"), 16)
    assert values.tobytes() == expected.tobytes()
    assert info == {
        "mode": 0,
        "width": 1,
        "fraction": 0,
        "bits": 1.0,
        "seed": 7,
        "scales": [1.5],
    }


def test_wide_chunks_come_first() -> None:
    wide, narrow = eden.chunk_order(7, 0, 2, 1).tolist()
    q = np.zeros((2, 16), np.float32)
    q[wide] = np.where(np.arange(16) == 3, -1, 1) * eden.codebook(2)[1]  # plane 0 is all ones
    q[narrow] = -eden.codebook(1)[0]
    words = struct.pack("<3H", 0xFFFF, 1 << 3, 0xFFFF)
    values, _ = decode_eden_payload(payload(fraction=1, rest=floats(1.0) + words), 32)
    assert values.tobytes() == eden.rotate_back(q.ravel(), 7, 0).tobytes()


def test_entropy_coded_words() -> None:
    rest = floats(1.5) + floats(8, 9) + ecuq((-0.5, 2.0), b"\x34\x12")
    q = np.where([0x1234 >> i & 1 for i in range(16)], np.float32(2.0), np.float32(-0.5))
    values, info = decode_eden_payload(payload(1, 0, rest=rest), 18)
    expected = np.append(eden.rotate_back(q, 7, 0) * np.float32(1.5), f32(8, 9))
    assert values.tobytes() == expected.tobytes()
    assert (info["mode"], info["ecuq"]["num_levels"]) == (1, 2)
    with pytest.raises(ValueError, match="end in byte 2 of 3"):
        decode_eden_payload(payload(1, 0, rest=floats(1) + ecuq((0, 1), b"\x34\x12\0")), 16)


def test_entropy_coded_words_of_no_coordinates_are_absent() -> None:
    tail = floats(*range(15))
    values, _ = decode_eden_payload(payload(1, 0, rest=tail), 15)
    assert values.tolist() == list(range(15))
    with pytest.raises(ValueError, match="too many"):
        decode_eden_payload(payload(1, 0, rest=tail + ecuq((2.5,), b"")), 15)


def test_levels_whose_rotation_is_not_a_number_are_refused() -> None:
    with pytest.raises(ValueError, match="beyond"):
        decode_eden_payload(payload(1, 0, rest=floats(1) + ecuq((LARGEST,), b"")), 16)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b"", "truncated"),
        (payload(mode=2), "mode 2 is not supported"),
        (payload(mode=255), "mode"),
        (payload(mode=1), "width is 1"),
        (payload(width=9), "width is 9"),
        (payload(mode=1, width=0, fraction=1), "fraction"),
        (payload(width=8, fraction=1, rest=floats(1) + bytes(16)), "fraction"),
        (payload(width=0), "both 0"),
        (payload(bits=0.0), "bits"),
        (payload(bits=-1.0), "bits"),
        (payload(bits=math.nan), "bits"),
        (payload(bits=math.inf), "bits"),
        (payload(rest=floats(-1.0) + b"\0\0"), "scales"),
        (payload(rest=floats(-0.0) + b"\0\0"), "scales"),
        (payload(rest=floats(math.nan) + b"\0\0"), "scales"),
        (payload(rest=floats(math.inf) + b"\0\0"), "scales"),
        (payload(rest=floats(1.0) + b"\0"), "truncated"),
        (payload(rest=floats(1.0) + b"\0\0\0"), "too many"),
        (payload(mode=1, width=0, rest=floats(1.0)), "truncated"),
    ],
)
def test_payloads_are_refused(bad: bytes, message: str) -> None:
    decode_eden_payload(payload(), 16)  # the one those were derived from is good
    with pytest.raises(ValueError, match=message):
        decode_eden_payload(bad, 16)
    with pytest.raises(ValueError, match=message):
        decode_frame(make_frame(bad, [2, 8], codec=EDEN))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_tails_that_are_not_finite_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="tail"):
        decode_eden_payload(payload(rest=floats(1.0, value)), 2)


def test_payloads_of_no_coordinates_are_empty() -> None:
    assert eden.payload(eden.encode(np.empty(0, np.float32), 1, 7)) == b""
    assert decode_eden_payload(b"", 0)[0].size == 0
    with pytest.raises(ValueError, match="too many"):
        decode_eden_payload(payload(), 0)
    values, _ = decode_frame(make_frame(b"", [0, 5], codec=EDEN))
    assert values.shape == (0, 5)


@pytest.mark.parametrize("bits", [0.1, 1, 2.5])
def test_truncated_and_extended_payloads_are_refused(bits: float) -> None:
    good = eden.payload(eden.encode(normal(37), bits, 7))
    for end in range(len(good)):
        with pytest.raises(ValueError, match="truncated"):
            decode_eden_payload(good[:end], 37)
    with pytest.raises(ValueError, match="too many"):
        decode_eden_payload(good + b"\0", 37)


def test_scales_bound_the_number_of_coordinates() -> None:
    with pytest.raises(ValueError, match="scales takes"):
        decode_frame(make_frame(payload(), [1 << 59], codec=EDEN))


def test_widest_words_are_read() -> None:
    values, _ = decode_eden_payload(payload(width=8, rest=floats(1) + bytes(16)), 16)
    expected = eden.rotate_back(np.repeat(eden.codebook(8)[:1], 16), 7, 0)
    assert values.tobytes() == expected.tobytes()
    wide = payload(width=7, fraction=2**32 - 1, rest=floats(1) + bytes(16))
    assert decode_eden_payload(wide, 16)[0].tobytes() == expected.tobytes()


# Frames ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "numpy_dtype"), [(FLOAT32, "f4"), (FLOAT64, "f8"), (FLOAT16, "f2"), (BFLOAT16, "f4")]
)
def test_frames(dtype: int, numpy_dtype: str) -> None:
    x = normal(100).reshape(4, 25)
    encoded = eden.encode(x, 4, 7)
    blob = make_frame(eden.payload(encoded), x.shape, codec=EDEN, dtype=dtype)
    values, info = decode_frame(blob)
    assert values.dtype == numpy_dtype
    assert values.shape == x.shape
    assert (info["codec"], info["width"], info["seed"]) == ("eden", 4, 7)
    exact = eden.decode(encoded)
    if dtype == BFLOAT16:
        assert not (values.view(np.uint32) & 0xFFFF).any()
        assert values.ravel() == pytest.approx(exact, rel=2**-8)
    else:
        assert values.ravel().tolist() == exact.astype(numpy_dtype).tolist()


@pytest.mark.parametrize(
    ("dtype", "largest"),
    [
        (FLOAT32, LARGEST),
        (FLOAT64, LARGEST),
        (FLOAT16, 65504.0),
        (BFLOAT16, float.fromhex("0x1.fep127")),
    ],
)
def test_what_would_be_infinite_is_the_largest_value(dtype: int, largest: float) -> None:
    bad = payload(rest=floats(LARGEST, LARGEST, -LARGEST) + b"\x34\x12")
    values, _ = decode_frame(make_frame(bad, [18], codec=EDEN, dtype=dtype))
    x_hat, _ = decode_eden_payload(bad, 18)
    assert np.abs(x_hat).max() == LARGEST
    assert values[-2:].tolist() == [largest, -largest]
    assert np.isfinite(values).all()
    beyond = np.abs(x_hat) >= largest
    assert beyond[:16].any()
    assert (values[beyond] == np.sign(x_hat[beyond]) * largest).all()
