"""Rows 1 to 9 and 11 for the payloads of the baselines (docs/format.md, section 9)."""

from __future__ import annotations

import contextlib
import itertools
import struct
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from docofl_codec import CodecError, CorruptFrameError, decode, inspect
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
from tests.helpers.data import SEED, layered, normal
from tests.helpers.frames import make_frame, payload_of, reseal
from tests.helpers.hostile import decode_or_refuse
from tests.helpers.processes import LIMIT_MEMORY, can_limit_memory, run_python

HADAMARD, KASHIN, QSGD_ID, RANDK, TOPK, SKETCH, ECQ_ID, ECKMEANS = range(16, 24)
SHAPES: list[tuple[int, ...]] = [(2**59 - 1,), (2**40,), (2**33,), (2**31,), (2**20, 2**20, 2**17)]

# Payloads of small valid frames, with the layout of their first fields.
HONEST: dict[int, tuple[Baseline, int, str]] = {
    HADAMARD: (HadamardSQ(bits=2), 32, "QhIHff"),
    KASHIN: (KashinSQ(bits=2), 28, "QhBIHff"),
    QSGD_ID: (QSGD(levels=9), 40, "BdI"),
    RANDK: (RandK(fraction=0.25), 40, "QBQffff"),
    TOPK: (TopK(fraction=0.25), 40, "Q"),
    SKETCH: (CountSketch(bits=4, rows=2), 40, "QhBIffff"),
}


def honest(codec: int) -> bytes:
    return payload_of(HONEST[codec][0].encode(normal(HONEST[codec][1]), seed=SEED))


def with_fields(codec: int, **changes: float) -> bytes:
    """Return an honest frame with some of its first fields changed: f0, f1, …"""
    _, size, layout = HONEST[codec]
    payload = honest(codec)
    head = struct.calcsize("<" + layout)
    fields = list(struct.unpack("<" + layout, payload[:head]))
    for name, value in changes.items():
        fields[int(name[1:])] = value
    return make_frame(struct.pack("<" + layout, *fields) + payload[head:], (size,), codec=codec)


@pytest.mark.parametrize("codec", HONEST)
def test_fields_are_read_back(codec: int) -> None:
    blob = with_fields(codec)
    assert blob == HONEST[codec][0].encode(normal(HONEST[codec][1]), seed=SEED)
    assert decode_or_refuse(blob)


@pytest.mark.parametrize(
    ("codec", "change", "message"),
    [
        (HADAMARD, {"f1": 201}, "exponent: found 201"),
        (HADAMARD, {"f1": -201}, "exponent: found -201"),
        (HADAMARD, {"f2": 0}, "levels: found 0, expected 2 to 65536"),
        (HADAMARD, {"f2": 1}, "levels: found 1"),
        (HADAMARD, {"f2": 65_537}, "levels: found 65537"),
        (HADAMARD, {"f2": 65_536, "f3": 1}, "levels: found 65536"),
        (HADAMARD, {"f2": 2}, "words: expected digits below 2"),
        (HADAMARD, {"f2": 5}, "words"),
        (HADAMARD, {"f4": 3.0, "f5": 2.0}, "low <= high"),
        (HADAMARD, {"f4": float("nan")}, "ranges: found NaN"),
        (HADAMARD, {"f5": float("inf")}, "ranges: found NaN or infinities"),
        (HADAMARD, {"f5": 2.0**65}, "at most 2\\^64"),
        (KASHIN, {"f2": 0}, "density: found 0, expected 16 to 32"),
        (KASHIN, {"f2": 15}, "density: found 15"),
        (KASHIN, {"f2": 33}, "density: found 33"),
        (KASHIN, {"f2": 27}, "levels|words|ranges"),
        (KASHIN, {"f1": 300}, "exponent"),
        (QSGD_ID, {"f0": 2}, "mode: found 2"),
        (QSGD_ID, {"f0": 1}, "gamma code|more bytes"),
        (QSGD_ID, {"f1": -1.0}, "norm: found -1.0"),
        (QSGD_ID, {"f1": float("nan")}, "norm: found nan"),
        (QSGD_ID, {"f1": float("inf")}, "norm: found inf"),
        (QSGD_ID, {"f1": 1e300}, "norm: found 1e\\+300"),
        (QSGD_ID, {"f2": 0}, "levels: found 0"),
        (QSGD_ID, {"f2": 2**30 + 1}, "levels: found 1073741825"),
        (RANDK, {"f1": 2}, "scale: found 2"),
        (RANDK, {"f2": 0}, "K: found 0, expected 1 to 40"),
        (RANDK, {"f2": 41}, "K: found 41"),
        (RANDK, {"f2": 9}, "more bytes"),
        (RANDK, {"f2": 11}, "values: expected 44 bytes, found 40"),
        (RANDK, {"f2": 2**64 - 1}, "K: found"),
        (RANDK, {"f3": float("nan")}, "values: found NaN"),
        (TOPK, {"f0": 0}, "K: found 0"),
        (TOPK, {"f0": 41}, "K: found 41"),
        (TOPK, {"f0": 9}, "positions|bytes"),
        (SKETCH, {"f1": 201}, "exponent"),
        (SKETCH, {"f2": 0}, "table: found 0 by"),
        (SKETCH, {"f2": 16}, "table: found 16 by"),
        (SKETCH, {"f3": 0}, "table: found 2 by 0"),
        (SKETCH, {"f3": 2**32 - 1}, "table: expected 34359738360 bytes"),
        (SKETCH, {"f5": float("-inf")}, "table: found NaN or infinities"),
    ],
)
def test_bad_fields(codec: int, change: dict[str, float], message: str) -> None:
    """Rows 6 and 7."""
    blob = with_fields(codec, **change)
    with pytest.raises(CorruptFrameError, match=message):
        decode(blob)


@pytest.mark.parametrize("codec", HONEST)
def test_fields_at_their_limits_in_pairs(codec: int) -> None:
    """Row 6: bytes of the first fields at 0, 1, maximum and sign bit."""
    payload, size = honest(codec), HONEST[codec][1]
    head = struct.calcsize("<" + HONEST[codec][2])
    for first, second in itertools.combinations(range(head), 2):
        for a, b in itertools.product((0, 1, 0x80, 0xFF), repeat=2):
            changed = bytearray(payload)
            changed[first], changed[second] = a, b
            decode_or_refuse(make_frame(bytes(changed), (size,), codec=codec))


@pytest.mark.parametrize("codec", HONEST)
def test_trailing_bytes(codec: int) -> None:
    """Row 8."""
    for tail in (b"\0", b"\1", bytes(8)):
        with pytest.raises(CorruptFrameError, match=r"more bytes|bytes left"):
            decode(make_frame(honest(codec) + tail, (HONEST[codec][1],), codec=codec))


@pytest.mark.parametrize("codec", [HADAMARD, KASHIN, QSGD_ID, TOPK])
def test_padding_bits(codec: int) -> None:
    """Row 8: some bit of the last byte of bit fields is padding, and may not be set."""
    size = HONEST[codec][1] - 1 if codec == TOPK else HONEST[codec][1] + 1
    if codec in (HADAMARD, KASHIN):
        size = HONEST[codec][1] * 3 // 2  # words that are not full
    blob = HONEST[codec][0].encode(normal(size), seed=SEED)
    payload = bytearray(payload_of(blob))
    place = len(payload) - 1 - (4 * round(0.25 * size) if codec == TOPK else 0)
    payload[place] |= 0x80
    if bytes(payload) == payload_of(blob):
        payload[place] ^= 0xC0
    with pytest.raises(CorruptFrameError):
        decode(make_frame(bytes(payload), (size,), codec=codec))


def test_filler_is_zero_and_of_the_right_size() -> None:
    size = 8192 * 40
    blob = TopK(fraction=0).encode(normal(size))
    payload = payload_of(blob)
    assert len(payload) == 40
    assert np.count_nonzero(decode(blob)) == 1
    with pytest.raises(CorruptFrameError, match="found 39 bytes for 327680 coordinates"):
        decode(make_frame(payload[:-1], (size,), codec=TOPK))
    with pytest.raises(CorruptFrameError, match="of value 0"):
        decode(make_frame(payload[:-1] + b"\1", (size,), codec=TOPK))
    with pytest.raises(CorruptFrameError, match="of value 0"):
        decode(make_frame(payload + b"\0", (size,), codec=TOPK))


def test_positions_must_increase() -> None:
    """Two positions with the same upper part and lower parts in the wrong order."""
    x = np.zeros(64, np.float32)
    x[[4, 5]] = 1.0
    blob = TopK(fraction=2 / 64).encode(x)
    payload = bytearray(payload_of(blob))
    assert payload[9] == 0b10  # the lowest plane: bits 0 and 1 of positions 4 and 5
    payload[9] = 0b01
    with pytest.raises(CorruptFrameError, match="positions: expected increasing numbers below 64"):
        decode(make_frame(bytes(payload), (64,), codec=TOPK))


@pytest.mark.parametrize("codec", range(16, 24))
@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_an_empty_tensor_has_an_empty_payload(codec: int, shape: tuple[int, ...]) -> None:
    assert decode(make_frame(b"", shape, codec=codec)).shape == shape
    with pytest.raises(CorruptFrameError):
        decode(make_frame(b"\0", shape, codec=codec))


def hostile_frames() -> list[bytes]:
    """Return frames of at most 200 bytes that claim gigabytes and more."""
    return [
        make_frame(payload, shape, codec=codec)
        for shape in SHAPES
        for codec in range(16, 24)
        for payload in (b"", bytes(60), *([honest(codec)] if codec in HONEST else []))
    ]


def test_hostile_sizes_are_refused() -> None:
    for frame in hostile_frames():
        with pytest.raises(CodecError):
            decode(frame)
        with pytest.raises(CodecError):
            inspect(frame)


@can_limit_memory
def test_hostile_sizes_under_a_memory_limit() -> None:
    """Row 5: `CodecError` before any allocation."""
    frames = hostile_frames()
    printed = run_python(
        LIMIT_MEMORY
        + f"""
from docofl_codec import CodecError, decode
frames = [bytes.fromhex(text) for text in {[frame.hex() for frame in frames]}]
limit_memory(32 << 20)
for frame in frames:
    try:
        decode(frame, threads=1)
    except CodecError:
        continue
    raise AssertionError(f"decoded {{frame.hex()}}")
print(len(frames))
"""
    )
    assert int(printed) == len(frames)


@pytest.mark.parametrize("codec", range(16, 24))
@pytest.mark.parametrize("shape", [(2**63,), (2**32, 2**32), (4,) * 32, (0, 2**62)])
def test_shapes_whose_size_overflows(codec: int, shape: tuple[int, ...]) -> None:
    with pytest.raises(CorruptFrameError, match="shape"):
        inspect(make_frame(bytes(64), shape, codec=codec))


LARGE: list[tuple[Baseline, int]] = [
    (HadamardSQ(bits=2.6), 70_001),
    (KashinSQ(bits=2), 60_000),
    (QSGD(bits=3), 20_000),
    (QSGD(bits=0.5), 70_001),
    (RandK(fraction=0.1), 20_000),
    (TopK(fraction=0.1), 20_000),
    (CountSketch(bits=2), 20_000),
    (ECQ(bits=2, starts=1, multipliers=4, iterations=5), 20_000),
    (ECKMeans(bits=2, iterations=10), 70_000),
]


@pytest.mark.parametrize(("codec", "size"), LARGE, ids=repr)
def test_random_damage_to_large_frames(codec: Baseline, size: int) -> None:
    """Row 2: several bytes at once, in the payload."""
    rng = np.random.default_rng(3)
    blob = np.frombuffer(codec.encode(layered(size), seed=SEED), np.uint8)
    for _ in range(20):
        damaged = blob.copy()
        places = rng.integers(12, damaged.size - 4, rng.integers(1, 6))
        damaged[places] = rng.integers(0, 256, places.size)
        decode_or_refuse(reseal(damaged.tobytes()))


def peak_bytes(call: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


THIRSTY: list[Baseline] = [
    HadamardSQ(bits=16),
    KashinSQ(bits=16, iterations=2),
    QSGD(bits=3),
    RandK(fraction=0.9),
    TopK(fraction=0.9),
    CountSketch(bits=64),
    CountSketch(bits=64, rows=15),
    CountSketch(bits=1, rows=15),
]


@pytest.mark.parametrize("codec", THIRSTY, ids=repr)
@pytest.mark.parametrize(
    ("size", "extra"),
    [(1 << 10, 2_000_000), (1 << 14, 2_000_000), (1 << 17, 2_000_000), (1 << 20, 0)],
)
def test_memory_is_at_most_twelve_times_the_output(codec: Baseline, size: int, extra: int) -> None:
    blob = codec.encode(normal(size), seed=SEED)
    assert peak_bytes(lambda: decode(blob, threads=1)) <= 12 * 4 * size + extra


@pytest.mark.parametrize("codec", [ECQ(bits=2), ECKMeans(bits=2)], ids=repr)
def test_memory_of_frames_that_take_long_to_make(codec: Baseline) -> None:
    size = 1 << 12
    blob = codec.encode(normal(size), seed=SEED)
    assert peak_bytes(lambda: decode(blob, threads=1)) <= 2 * 4 * size


@pytest.mark.parametrize("density", [1, 16])
def test_coefficients_that_no_byte_vouches_for(density: int) -> None:
    """Row 5: a density says how many coefficients there are; words have to be there for them."""
    size = 1 << 20
    payload = struct.pack("<QhBIH", SEED, 0, density, 2, 0).ljust(-(-size // 8192), b"\0")
    blob = make_frame(payload, (size,), codec=KASHIN)

    def refused() -> None:
        with pytest.raises(CorruptFrameError, match=r"density|ranges|words"):
            decode(blob, threads=1)

    assert peak_bytes(refused) <= 2 * 4 * size
    with contextlib.suppress(CorruptFrameError):
        assert peak_bytes(lambda: inspect(blob)) < 1 << 20


@pytest.mark.parametrize("codec", range(16, 22))
def test_decode_time_is_linear(codec: int) -> None:
    """Row 11: random bytes after honest fields take no longer than an honest payload could."""
    rng = np.random.default_rng(4)
    size = 1 << 17
    blob = HONEST[codec][0].encode(normal(size), seed=SEED)
    payload = bytearray(payload_of(blob))
    for _ in range(10):
        start = int(rng.integers(24, len(payload)))
        changed = bytes(payload[:start]) + rng.bytes(len(payload) - start)
        begin = time.perf_counter()
        decode_or_refuse(make_frame(changed, (size,), codec=codec))
        assert time.perf_counter() - begin < 2
