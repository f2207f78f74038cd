"""The baselines: what each keeps, its options, and what `inspect` tells of its frames."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from docofl_codec import (
    Codec,
    Eden,
    InvalidInputError,
    UnsupportedFrameError,
    codec_from_config,
    decode,
    eden,
    inspect,
    make_codec,
)
from docofl_codec.baselines import (
    ECQ,
    QSGD,
    CountSketch,
    ECKMeans,
    HadamardSQ,
    KashinSQ,
    RandK,
    TopK,
)
from docofl_codec.baselines._base import Baseline
from tests.helpers.data import SEED, Floats, lognormal, normal

RANDOM: list[Baseline] = [
    HadamardSQ(bits=2.5),
    KashinSQ(bits=3),
    QSGD(bits=2),
    QSGD(levels=7),
    RandK(fraction=0.3),
    CountSketch(bits=4, rows=2),
]
FIXED: list[Baseline] = [
    TopK(fraction=0.25),
    TopK(bits=3),
    ECQ(bits=2, starts=2, multipliers=4, iterations=20),
    ECKMeans(bits=2.5, budget="entropy"),
]


def nmse(x: Floats, x_hat: Any) -> float:
    error = np.asarray(x_hat, np.float64) - x
    return float(np.sum(error**2) / np.sum(x.astype(np.float64) ** 2))


@pytest.mark.parametrize("codec", [*RANDOM, *FIXED], ids=repr)
def test_protocol_and_config(codec: Baseline) -> None:
    assert isinstance(codec, Codec)
    assert codec_from_config(json.loads(json.dumps(codec.get_config()))) == codec
    assert codec in {codec}
    with pytest.raises(dataclasses.FrozenInstanceError):
        codec.threads = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    ("spelling", "codec"),
    [
        ("hadamard-sq:3", HadamardSQ(bits=3)),
        ("kashin-sq:2.5", KashinSQ(bits=2.5)),
        ("qsgd:2", QSGD(bits=2)),
        ("randk:0.05", RandK(fraction=0.05)),
        ("topk:0.1", TopK(fraction=0.1)),
        ("topk", TopK()),
        ("countsketch:4", CountSketch(bits=4)),
        ("ecq:3", ECQ(bits=3)),
        ("eckmeans:2", ECKMeans(bits=2)),
    ],
)
def test_short_spellings(spelling: str, codec: Baseline) -> None:
    assert make_codec(spelling) == codec


@pytest.mark.parametrize("codec", RANDOM, ids=repr)
def test_seed_fixes_the_frame(codec: Baseline) -> None:
    x = normal(1000)
    assert codec.encode(x, seed=7) == codec.encode(x, seed=7)
    assert len({codec.encode(x) for _ in range(3)} | {codec.encode(x, seed=7)}) == 4


@pytest.mark.parametrize("codec", FIXED, ids=repr)
def test_seed_changes_nothing(codec: Baseline) -> None:
    x = normal(1000)
    assert codec.encode(x, seed=7) == codec.encode(x, seed=8) == codec.encode(x)


@pytest.mark.parametrize("codec", [*RANDOM, *FIXED], ids=repr)
@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, "7", True])
def test_bad_seeds(codec: Baseline, seed: Any) -> None:
    with pytest.raises((InvalidInputError, TypeError), match="seed: found"):
        codec.encode(normal(10), seed=seed)


@pytest.mark.parametrize("codec", [*RANDOM, *FIXED], ids=repr)
def test_frames_of_other_codecs_are_refused(codec: Baseline) -> None:
    with pytest.raises(UnsupportedFrameError, match=f"codec: found eden, expected {codec.name}"):
        codec.decode(Eden().encode(normal(100), seed=SEED))
    blob = codec.encode(normal(100), seed=SEED)
    with pytest.raises(UnsupportedFrameError, match=f"codec: found {codec.name}, expected eden"):
        Eden().decode(blob)
    with pytest.raises(UnsupportedFrameError, match=f"codec: found {codec.name}, expected eden"):
        eden.decode_mean([blob])


@pytest.mark.parametrize("codec", [*RANDOM, *FIXED], ids=repr)
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_threads_change_nothing(codec: Baseline, threads: int) -> None:
    x = lognormal(100_000)
    blob = codec.encode(x, seed=SEED)
    assert dataclasses.replace(codec, threads=threads).encode(x, seed=SEED) == blob
    assert np.array_equal(decode(blob, threads=threads), decode(blob))


@pytest.mark.parametrize("codec", [*RANDOM, *FIXED], ids=repr)
def test_instruction_sets_change_nothing(codec: Baseline, isa: str) -> None:
    """The first set of a run is compared with the ones after it."""
    blob = codec.encode(lognormal(70_001), seed=SEED)
    decoded = np.asarray(decode(blob)).tobytes()
    assert SEEN.setdefault(repr(codec), (blob, decoded)) == (blob, decoded), isa


SEEN: dict[str, tuple[bytes, bytes]] = {}


@pytest.mark.parametrize(
    ("codec", "message"),
    [
        (HadamardSQ(bits=0.9), "bits: found 0.9, expected 1 to 16"),
        (HadamardSQ(bits=float("nan")), "bits: found nan"),
        (KashinSQ(bits=1.1), "bits: found 1.1"),
        (KashinSQ(iterations=0), "iterations: found 0"),
        (QSGD(bits=0.4), "bits: found 0.4, expected 0.5 to 32"),
        (QSGD(levels=0), "levels: found 0"),
        (RandK(fraction=1.01), "fraction: found 1.01, expected 0 to 1"),
        (TopK(fraction=-0.1), "fraction: found -0.1"),
        (TopK(bits=65), "bits: found 65"),
        (CountSketch(rows=16), "rows: found 16, expected 1 to 15"),
        (ECQ(bits=17), "bits: found 17"),
        (ECQ(starts=0), "starts: found 0"),
        (ECKMeans(iterations=0), "iterations: found 0"),
    ],
    ids=repr,
)
def test_options_out_of_range(codec: Baseline, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        codec.encode(normal(10))


def test_options_of_a_wrong_type() -> None:
    wrong: Any = "two"
    with pytest.raises(TypeError, match="bits: found str, expected a number"):
        HadamardSQ(bits=wrong).encode(normal(10))
    with pytest.raises(InvalidInputError, match="budget: found 'two'"):
        ECQ(budget=wrong).encode(normal(10))


# --- what each does ------------------------------------------------------------------------------


def test_topk_keeps_the_largest() -> None:
    x = lognormal(1000) * np.where(np.arange(1000) % 3, 1, -1).astype(np.float32)
    blob = TopK(fraction=0.05).encode(x)
    kept = np.argsort(-np.abs(x))[:50]
    expected = np.zeros_like(x)
    expected[kept] = x[kept]
    assert np.array_equal(decode(blob), expected)
    assert inspect(blob).num_kept == 50


def test_topk_prefers_the_first_of_equal_ones() -> None:
    x = np.array([1, -2, 2, 1, 2, -2], np.float32)
    assert np.asarray(decode(TopK(fraction=0.5).encode(x))).tolist() == [0, -2, 2, 0, 2, 0]


@pytest.mark.parametrize("fraction", [0, 1e-5, 0.001, 0.01, 0.1, 0.4, 0.5, 0.9, 0.9999, 1])
@pytest.mark.parametrize("size", [1, 2, 7, 1000, 70_001])
def test_topk_positions(fraction: float, size: int) -> None:
    x = normal(size)
    blob = TopK(fraction=fraction).encode(x)
    num_kept = inspect(blob).num_kept
    assert num_kept == max(round(fraction * size), 1)
    x_hat = np.asarray(decode(blob))
    assert np.count_nonzero(x_hat) == num_kept
    assert (x_hat[x_hat != 0] == x[x_hat != 0]).all()


@pytest.mark.parametrize("unbiased", [True, False])
def test_randk_keeps_and_scales(unbiased: bool) -> None:
    x = normal(1000)
    x_hat = np.asarray(decode(RandK(fraction=0.25, unbiased=unbiased).encode(x, seed=SEED)))
    kept = x_hat != 0
    assert kept.sum() == 250
    assert np.array_equal(x_hat[kept], x[kept] * (4 if unbiased else 1))


def test_randk_chooses_all_coordinates_alike() -> None:
    x = np.ones(50, np.float32)
    counts = sum(
        np.asarray(decode(RandK(fraction=0.2).encode(x, seed=seed))) != 0 for seed in range(2000)
    )
    assert np.abs(np.asarray(counts) - 400).max() < 5 * (2000 * 0.2 * 0.8) ** 0.5


@pytest.mark.parametrize("sparse", [False, True])
def test_qsgd_gives_neighbouring_multiples(sparse: bool) -> None:
    x = normal(3000)
    blob = QSGD(levels=2 if sparse else 200).encode(x, seed=SEED)
    info = inspect(blob)
    assert info.step is not None
    multiples = np.asarray(decode(blob), np.float64) / info.step
    assert np.allclose(multiples, np.round(multiples), atol=1e-5)
    assert np.abs(multiples - x / info.step).max() < 1 + 1e-5
    assert info.step == pytest.approx(np.linalg.norm(x.astype(np.float64)) / (info.num_levels or 0))


def test_kashin_narrows_the_range() -> None:
    x = normal(2**17)
    errors = [
        nmse(x, decode(codec(bits=4).encode(x, seed=SEED))) for codec in (HadamardSQ, KashinSQ)
    ]
    assert errors[1] < 0.9 * errors[0]


def test_kashin_without_quantization_is_the_vector() -> None:
    """With 16 bits a coordinate what is left is the error of a very fine grid."""
    x = lognormal(40_000)
    assert nmse(x, decode(KashinSQ(bits=16).encode(x, seed=SEED))) < 1e-6


def test_countsketch_finds_heavy_coordinates() -> None:
    x = np.zeros(10_000, np.float32)
    places = np.arange(7, 10_000, 1000)
    x[places] = np.arange(1, 11)
    x_hat = np.asarray(decode(CountSketch(bits=4, rows=5).encode(x, seed=SEED)))
    assert np.array_equal(x_hat[places], x[places])


def test_eckmeans_levels_are_means_of_their_cells() -> None:
    x = lognormal(3000)
    x_hat = np.asarray(decode(ECKMeans(bits=2).encode(x)))
    for level in np.unique(x_hat):
        assert level == pytest.approx(float(x[x_hat == level].mean(dtype=np.float64)), rel=1e-3)


@pytest.mark.parametrize("bits", [2, 3])
@pytest.mark.parametrize("data", [normal, lognormal])
def test_ecq_is_better_than_eckmeans(bits: float, data: Any) -> None:
    x = data(4096)
    assert nmse(x, decode(ECQ(bits=bits, starts=4).encode(x))) < nmse(
        x, decode(ECKMeans(bits=bits).encode(x))
    )


def test_ecq_reaches_the_best_scalar_quantizer() -> None:
    """The operational rate-distortion function of N(0, 1) at 2 bits is 0.0889."""
    x = np.random.default_rng(5).standard_normal(2**16, dtype=np.float32)
    codec = ECQ(bits=2, budget="entropy", starts=3)
    assert nmse(x, decode(codec.encode(x))) == pytest.approx(0.0889, rel=0.02)


def test_few_values_are_exact() -> None:
    x = np.array([0.5, -1, 3], np.float32)[np.random.default_rng(1).integers(0, 3, 2000)]
    for codec in (ECQ(bits=3), ECKMeans(bits=3)):
        assert np.array_equal(decode(codec.encode(x)), x)


def test_ecq_shows_its_progress(capsys: pytest.CaptureFixture[str]) -> None:
    codec = ECQ(bits=2, starts=2, multipliers=3, progress=True)
    codec.encode(normal(1000))
    assert "ECQ █" in capsys.readouterr().err
    dataclasses.replace(codec, progress=None).encode(normal(1000))
    assert capsys.readouterr().err == ""


def test_inspect_tells_the_parameters() -> None:
    x = normal(1000)
    info = inspect(HadamardSQ(bits=2).encode(x, seed=SEED))
    assert (info.codec, info.seed, info.bits) == ("hadamard-sq", SEED, 2)
    info = inspect(KashinSQ(bits=16).encode(x, seed=SEED))
    assert (info.codec, info.seed) == ("kashin-sq", SEED)
    assert 13.5 < (info.bits or 0) <= 14
    info = inspect(CountSketch(bits=2, rows=3).encode(x, seed=SEED))
    assert info.sketch_shape is not None
    assert info.sketch_shape[0] == 3
    info = inspect(RandK(fraction=0.1).encode(x, seed=SEED))
    assert (info.num_kept, info.seed) == (100, SEED)
    info = inspect(ECKMeans(bits=2).encode(x))
    assert (info.codec, info.explicit_levels) == ("eckmeans", True)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.float16, np.float32])
@pytest.mark.parametrize("codec", [TopK, RandK, CountSketch, HadamardSQ, KashinSQ, QSGD])
def test_narrow_numbers_are_numbers(codec: type[Baseline], kind: type[np.number[Any]]) -> None:
    x = normal(20_000)
    narrow = codec(bits=kind(2)).encode(x, seed=1)  # type: ignore[call-arg]
    assert narrow == codec(bits=2).encode(x, seed=1)  # type: ignore[call-arg]
