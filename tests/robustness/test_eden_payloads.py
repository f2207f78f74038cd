"""Rows 7, 8 and 9: payloads of EDEN that break the rules of the format."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from docofl_codec import (
    CodecError,
    CorruptFrameError,
    TruncatedFrameError,
    UnsupportedFrameError,
    decode,
    eden,
    inspect,
)
from docofl_codec.reference import eden as reference
from tests.helpers.frames import (
    BFLOAT16,
    EDEN,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    EcuqPayload,
    EdenPayload,
    code_table,
    entropy_coded_eden,
    explicit_levels,
    make_frame,
    outlier,
    stream_sizes,
    uniform_levels,
)
from tests.helpers.hostile import agrees_with_reference, decode_or_refuse

GOOD = EdenPayload()
CODED = entropy_coded_eden()
MIXED = EdenPayload(width=1, fraction=2**31, scales=(1.0,), tail=(), words=bytes(6))
INNER = EcuqPayload(levels=uniform_levels(-2, 2), directory=stream_sizes(2), blocks=b"\x0f\x35")
FLOAT32_MAX = float(np.finfo(np.float32).max)


def check_refused(frame: bytes, error: type[CodecError] = CorruptFrameError) -> None:
    """Check that nobody takes a frame, nor even looks into it."""
    with pytest.raises(error):
        decode(frame)
    with pytest.raises(error):
        inspect(frame)
    with pytest.raises(error, match="frame 0: "):
        eden.decode_mean([frame])
    with pytest.raises(error):
        eden.Accumulator().add(frame)
    assert agrees_with_reference(frame)


def check_finite(frame: bytes) -> None:
    assert decode_or_refuse(frame)
    assert agrees_with_reference(frame)
    assert np.isfinite(np.asarray(eden.decode_mean([frame]))).all()


def test_the_payloads_these_are_derived_from() -> None:
    check_finite(GOOD.frame())
    check_finite(CODED.frame())
    check_finite(MIXED.frame(32))
    assert np.asarray(decode(GOOD.frame()))[16] == 0.5


# Parameters --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [2, 3, 0x80, 255])
def test_unknown_mode(mode: int) -> None:
    check_refused(dataclasses.replace(GOOD, mode=mode).frame(), UnsupportedFrameError)
    check_refused(dataclasses.replace(CODED, mode=mode).frame(), UnsupportedFrameError)


@pytest.mark.parametrize("width", [9, 0x80, 255])
@pytest.mark.parametrize("fraction", [0, 1, 2**32 - 1])
def test_width_beyond_8(width: int, fraction: int) -> None:
    words = bytes(2 * width + 2 * (fraction > 0))
    check_refused(dataclasses.replace(GOOD, width=width, fraction=fraction, words=words).frame())


@pytest.mark.parametrize("fraction", [1, 2**31, 2**32 - 1])
def test_width_8_with_wider_chunks(fraction: int) -> None:
    for words in (bytes(16), bytes(18)):
        payload = dataclasses.replace(GOOD, width=8, fraction=fraction, words=words)
        check_refused(payload.frame())


def test_no_width_at_all() -> None:
    check_refused(dataclasses.replace(GOOD, width=0, words=b"").frame())


@pytest.mark.parametrize(("width", "fraction"), [(1, 0), (0, 1), (8, 0), (255, 2**32 - 1)])
def test_widths_of_entropy_coded_words(width: int, fraction: int) -> None:
    check_refused(dataclasses.replace(CODED, width=width, fraction=fraction).frame())


@pytest.mark.parametrize("bits", [math.nan, math.inf, -math.inf, -1.0, 0.0, -0.0, -1e-45])
def test_bits(bits: float) -> None:
    check_refused(dataclasses.replace(GOOD, bits=bits).frame())
    check_refused(dataclasses.replace(CODED, bits=bits).frame())


@pytest.mark.parametrize("bits", [1e-45, 100.0, FLOAT32_MAX])
def test_bits_are_informative(bits: float) -> None:
    frame = dataclasses.replace(GOOD, bits=bits).frame()
    assert np.array_equal(decode(frame), decode(GOOD.frame()))


@pytest.mark.parametrize("seed", [0, 1, 2**63, 2**64 - 1])
def test_any_seed_is_good(seed: int) -> None:
    check_finite(dataclasses.replace(GOOD, seed=seed).frame())
    check_finite(dataclasses.replace(MIXED, seed=seed).frame(32))
    assert inspect(dataclasses.replace(GOOD, seed=seed).frame()).seed == seed


# Scales and exact values -------------------------------------------------------------------------

BAD_SCALES = [math.nan, -math.nan, math.inf, -math.inf, -1.0, -0.0, -1e-45]


@pytest.mark.parametrize("scale", BAD_SCALES)
def test_scales(scale: float) -> None:
    check_refused(dataclasses.replace(GOOD, scales=(scale,)).frame())
    check_refused(dataclasses.replace(CODED, scales=(scale,)).frame())
    two_blocks = dataclasses.replace(GOOD, words=bytes(6))
    check_finite(dataclasses.replace(two_blocks, scales=(1.0, 2.0)).frame(49))
    check_refused(dataclasses.replace(two_blocks, scales=(1.0, scale)).frame(49))


@pytest.mark.parametrize("scale", [0.0, 1e-45, 1e38, FLOAT32_MAX])
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64, FLOAT16, BFLOAT16])
def test_extreme_scales(scale: float, dtype: int) -> None:
    """What would be infinite becomes the largest finite value."""
    for payload in (GOOD, CODED):
        check_finite(dataclasses.replace(payload, scales=(scale,)).frame(dtype=dtype))


@pytest.mark.parametrize("sign", [-1, 1])
def test_results_beyond_float32_are_clamped(sign: int) -> None:
    spike = np.zeros(16, np.float32)
    spike[3] = sign
    words = reference.quantize(reference.rotate(spike, GOOD.seed, 0).reshape(1, 16), 1)
    payload = dataclasses.replace(
        GOOD, scales=(FLOAT32_MAX,), words=reference.pack_planes(words, 1)
    )
    assert np.asarray(decode(payload.frame()))[3] == sign * FLOAT32_MAX


@pytest.mark.parametrize("value", [math.nan, -math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("payload", [GOOD, CODED])
def test_tail(payload: EdenPayload, value: float) -> None:
    check_refused(dataclasses.replace(payload, tail=(value,)).frame())
    check_refused(dataclasses.replace(payload, tail=(1.0, value)).frame(18))
    check_refused(dataclasses.replace(payload, scales=(), tail=(value,), words=b"").frame(1))


@pytest.mark.parametrize("value", [0.0, -0.0, 1e-45, -FLOAT32_MAX, FLOAT32_MAX])
def test_extreme_tails_are_exact(value: float) -> None:
    x = np.asarray(decode(dataclasses.replace(GOOD, tail=(value,)).frame()))
    assert x[16:].tobytes() == np.float32(value).tobytes()


@pytest.mark.parametrize(
    ("dtype", "largest"), [(FLOAT16, 65504.0), (BFLOAT16, 2.0**128 - 2.0**120)]
)
def test_tails_beyond_the_dtype_are_clamped(dtype: int, largest: float) -> None:
    frame = dataclasses.replace(GOOD, tail=(FLOAT32_MAX, -FLOAT32_MAX)).frame(18, dtype=dtype)
    assert np.asarray(decode(frame)).astype(np.float64)[16:].tolist() == [largest, -largest]
    assert agrees_with_reference(frame)


# Sizes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [GOOD, CODED])
def test_size_of_the_payload(payload: EdenPayload) -> None:
    whole = payload.payload()
    for length in range(len(whole)):
        check_refused(make_frame(whole[:length], (17,), codec=EDEN))
    for extra in (b"\0", bytes(2), bytes(100)):
        check_refused(make_frame(whole + extra, (17,), codec=EDEN))


@pytest.mark.parametrize("size", [0, 1, 2, 15, 16, 18, 32, 33, 200, 32_769, 2**40])
def test_payload_in_a_frame_of_another_size(size: int) -> None:
    check_refused(GOOD.frame(size))
    assert not decode_or_refuse(CODED.frame(size))
    assert agrees_with_reference(CODED.frame(size))


@pytest.mark.parametrize(
    ("fraction", "wide"), [(1, 1), (2**30, 1), (2**30 + 1, 2), (3 * 2**30, 3), (2**32 - 1, 4)]
)
def test_words_of_two_widths(fraction: int, wide: int) -> None:
    """Four chunks; the number of wide ones is rounded up."""
    for width in (1, 7):
        check_words(64, width, fraction, 4 * width + wide)


@pytest.mark.parametrize(("size", "sent"), [(16, 1), (64, 4), (128, 8), (256, 5), (512, 9)])
def test_words_of_less_than_a_bit(size: int, sent: int) -> None:
    """Only blocks from 256 coordinates on drop chunks; here a bit more than three quarters."""
    check_words(size, 0, 2**30 + 1, sent)


def check_words(size: int, width: int, fraction: int, num_planes: int) -> None:
    """Check that a block takes so many planes of 16 bits, no more and no less."""
    for error in (-1, 0, 1):
        words = bytes(2 * (num_planes + error))
        payload = EdenPayload(width=width, fraction=fraction, scales=(1.0,), tail=(), words=words)
        assert decode_or_refuse(payload.frame(size)) == (error == 0)
        assert agrees_with_reference(payload.frame(size))


@pytest.mark.parametrize("payload", [b"\0", GOOD.payload(), bytes(18)])
def test_payload_of_an_empty_tensor(payload: bytes) -> None:
    check_refused(make_frame(payload, (0,), codec=EDEN))
    check_refused(make_frame(payload, (3, 0), codec=EDEN))


def test_entropy_coded_words_of_no_coordinates() -> None:
    """A tail alone has no words; one that brings some is refused."""
    payload = dataclasses.replace(CODED, scales=(), words=b"")
    check_finite(payload.frame(1))
    for words in (b"\0", INNER.payload()):
        check_refused(dataclasses.replace(payload, words=words).frame(1))


# The payload of ECUQ inside ----------------------------------------------------------------------


def with_inner(inner: EcuqPayload) -> bytes:
    return entropy_coded_eden(inner).frame()


def test_unknown_coder() -> None:
    check_refused(with_inner(dataclasses.replace(INNER, coder=1)), UnsupportedFrameError)


BAD_PARAMETERS = {
    "mode": dataclasses.replace(INNER, mode=3),
    "tuple size": dataclasses.replace(INNER, tuple_size=3),
    "raw bits": dataclasses.replace(INNER, raw_bits=25),
    "entropy": dataclasses.replace(INNER, entropy=math.nan),
    "range": dataclasses.replace(INNER, levels=uniform_levels(1, -1)),
    "x_min": dataclasses.replace(INNER, levels=uniform_levels(-math.inf, 1)),
    "x_max": dataclasses.replace(INNER, levels=uniform_levels(0, math.nan)),
    "K": dataclasses.replace(INNER, levels=uniform_levels(num_levels=0)),
    "base": dataclasses.replace(INNER, levels=uniform_levels(base=1)),
    "code": dataclasses.replace(INNER, table=code_table([1, 2])),
    "directory": dataclasses.replace(INNER, directory=stream_sizes(3)),
    "no directory": dataclasses.replace(INNER, directory=b"", blocks=b""),
    "explicit levels": dataclasses.replace(INNER, mode=1, levels=explicit_levels(1, 1)),
}


@pytest.mark.parametrize("name", BAD_PARAMETERS)
def test_parameters_of_ecuq(name: str) -> None:
    check_refused(with_inner(BAD_PARAMETERS[name]))


def outlying(*pairs: tuple[int, int]) -> EcuqPayload:
    """The window is levels 4 and 5 of ten."""
    return dataclasses.replace(
        INNER,
        mode=2,
        levels=uniform_levels(-5, 5, 10, base=4),
        directory=stream_sizes(2) + len(pairs).to_bytes(4, "little"),
        blocks=INNER.blocks + b"".join(outlier(*pair) for pair in pairs),
    )


BAD_BLOCKS = {
    "short stream": dataclasses.replace(INNER, directory=stream_sizes(1), blocks=b"\x0f"),
    "long stream": dataclasses.replace(INNER, directory=stream_sizes(3), blocks=bytes(3)),
    "padding": dataclasses.replace(
        INNER,
        mode=1,
        coded_levels=3,
        levels=explicit_levels(-1, 0, 1),
        table=code_table([1, 2, 2]),
        directory=stream_sizes(3),
        blocks=b"\0\0\x04",
    ),
    "outlier in the window": outlying((3, 4)),
    "outlier beyond the levels": outlying((3, 10)),
    "outlier out of order": outlying((3, 1), (3, 1)),
    "outlier beyond the block": outlying((16, 1)),
}


@pytest.mark.parametrize("name", BAD_BLOCKS)
def test_blocks_of_ecuq(name: str) -> None:
    """These are only noticed when the words are read."""
    frame = with_inner(BAD_BLOCKS[name])
    with pytest.raises(CorruptFrameError):
        decode(frame)
    with pytest.raises(CorruptFrameError):
        eden.decode_mean([frame])
    with pytest.raises(CorruptFrameError):
        eden.Accumulator().add(frame)
    assert agrees_with_reference(frame)


def test_good_blocks_of_ecuq() -> None:
    check_finite(with_inner(outlying((3, 1), (15, 9))))


@pytest.mark.parametrize("limit", [2.0**64, FLOAT32_MAX])
def test_levels_whose_sums_could_be_infinite(limit: float) -> None:
    """Sums of a block stay finite below 2^64."""
    below = float(np.nextafter(np.float32(2.0**64), np.float32(0)))
    for sign in (-1, 1):
        low, high = min(sign * limit, 0.0), max(sign * limit, 0.0)
        check_refused(with_inner(dataclasses.replace(INNER, levels=uniform_levels(low, high))))
        explicit = dataclasses.replace(INNER, mode=1, levels=explicit_levels(low, high))
        check_refused(with_inner(explicit))
    for levels in (uniform_levels(-below, below), explicit_levels(-below, below)):
        inner = dataclasses.replace(INNER, mode=int(len(levels) == 8), levels=levels)
        for scale in (1.0, FLOAT32_MAX):
            check_finite(dataclasses.replace(entropy_coded_eden(inner), scales=(scale,)).frame())


@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16])
def test_levels_may_be_beyond_the_dtype_of_the_frame(dtype: int) -> None:
    """The dtype that section 3 speaks of is float32: the scale may bring them back."""
    inner = dataclasses.replace(INNER, levels=uniform_levels(-1e6, 1e6))
    check_finite(dataclasses.replace(entropy_coded_eden(inner), scales=(1e-6,)).frame(dtype=dtype))


# Noise -------------------------------------------------------------------------------------------


def test_random_payloads() -> None:
    rng = np.random.default_rng(8)
    header = GOOD.payload()[:18]
    accepted = 0
    for _ in range(1000):
        noise = rng.integers(0, 256, rng.integers(0, 80), np.uint8).tobytes()
        shape = [int(rng.choice([1, 3, 17, 100, 5000]))]
        accepted += decode_or_refuse(make_frame(noise, shape, codec=EDEN))
        accepted += decode_or_refuse(make_frame(header + noise, shape, codec=EDEN))
    assert accepted < 100


def test_truncation_has_its_own_class() -> None:
    with pytest.raises(TruncatedFrameError):
        decode(dataclasses.replace(GOOD, scales=(), tail=(), words=b"").frame())
