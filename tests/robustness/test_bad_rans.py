"""Rows 3 and 7 for the rANS payload: every rule of sections 3.5 to 3.9 that a frame can break."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from docofl_codec import CodecError, CorruptFrameError, UnsupportedFrameError, decode, inspect
from tests.helpers.frames import BFLOAT16, FLOAT16, FLOAT32
from tests.helpers.hostile import agrees_with_reference
from tests.helpers.rans_frames import RansPayload, rans_outlier, rans_stream, rans_table

GOOD = RansPayload()
DEPENDENT = RansPayload(mode=1)
WITH_OUTLIERS = RansPayload(mode=8, outliers=rans_outlier(0, 7.5) + rans_outlier(2, -1e30))
LEVELS = [0, 1] * 17
TRANSFORMED = RansPayload(mode=17, stream=rans_stream([3000, 1096], LEVELS), spikes=b"")
LARGEST = float(np.finfo(np.float32).max)
EVEN = [2048, 2048]


def check_refused(payload: RansPayload, *shape: int, dtype: int = FLOAT32) -> None:
    frame = payload.frame(*shape, dtype=dtype)
    with pytest.raises(CorruptFrameError):
        decode(frame)
    assert agrees_with_reference(frame)


def test_the_good_ones_decode() -> None:
    assert decode(GOOD.frame()).tolist() == [0, 1, 0]
    assert decode(dataclasses.replace(GOOD, base=-1, step=0.5).frame()).tolist() == [-0.5, 0, -0.5]
    # States 0, 0, 1: the third coordinate has the second quantizer, whose levels are 0 and 1.
    assert decode(DEPENDENT.frame()).tolist() == [0, 2, 0]
    assert decode(WITH_OUTLIERS.frame()).tolist() == [7.5, 1, np.float32(-1e30)]
    displaced = dataclasses.replace(GOOD, mode=4, displacements=bytes([16, 256 - 32]))
    assert decode(displaced.frame()).tolist() == [0.25, 0.5, 0.25]


def test_the_state_machine() -> None:
    """Levels 1, 1, 1, ... go through states 0, 1, 3, 6, 5, 2, 4, 0."""
    levels = [1] * 9
    payload = dataclasses.replace(
        DEPENDENT, tables=rans_table(EVEN), stream=rans_stream(EVEN, levels)
    )
    assert decode(payload.frame(9)).tolist() == [2, 1, 1, 2, 1, 2, 2, 2, 1]
    mirrored = dataclasses.replace(payload, mode=3)
    assert decode(mirrored.frame(9)).tolist() == [2, -2, -2, 2, -2, 2, 2, 2, -2]


def test_a_transform() -> None:
    """Of 34 values two runs, 16 bands of two coefficients, and two that are no run."""
    plain = dataclasses.replace(TRANSFORMED, mode=1, spikes=None)
    coefficients = np.asarray(decode(plain.frame(34)))
    expected = inverse_cosine_transform(coefficients[:32].reshape(16, 2)).ravel()
    values = np.asarray(decode(TRANSFORMED.frame(34)))
    np.testing.assert_allclose(values[:32], expected, atol=1e-6)
    np.testing.assert_array_equal(values[32:], coefficients[32:])
    assert agrees_with_reference(TRANSFORMED.frame(34))
    # Outliers are coefficients, spikes are values.
    other = dataclasses.replace(
        TRANSFORMED, mode=25, outliers=rans_outlier(3, 100.0), spikes=rans_outlier(5, 77.0)
    )
    coefficients[3] = 100
    expected = inverse_cosine_transform(coefficients[:32].reshape(16, 2)).ravel()
    expected[5] = 77
    np.testing.assert_allclose(decode(other.frame(34))[:32], expected, atol=1e-5)
    assert agrees_with_reference(other.frame(34))


def inverse_cosine_transform(bands: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    t, k = np.arange(16)[:, np.newaxis], np.arange(16)
    basis = np.cos(np.pi * k * (2 * t + 1) / 32) * np.where(k == 0, 0.25, np.sqrt(0.125))
    values: npt.NDArray[np.float64] = (basis @ bands.astype(np.float64)).T
    return values


@pytest.mark.parametrize(
    "change",
    [
        {"spikes": None},
        {"spikes": rans_outlier(34, 1.0)},
        {"spikes": rans_outlier(5, 1.0) + rans_outlier(5, 1.0)},
        {"spikes": rans_outlier(5, math.inf)},
        {"spikes": b"".join(rans_outlier(i, 1.0) for i in range(35))},
        {"mode": 25, "outliers": rans_outlier(5, 2.0**120)},
        {"mode": 25, "outliers": rans_outlier(5, math.nan)},
        {"origin": 2.0**120},
        {"step": 2.0**120},
    ],
    ids=repr,
)
def test_a_bad_transform(change: dict[str, Any]) -> None:
    check_refused(dataclasses.replace(TRANSFORMED, **change), 34)


@pytest.mark.parametrize(
    ("dtype", "largest"), [(FLOAT16, 65504.0), (BFLOAT16, float.fromhex("0x1.fep127"))]
)
def test_a_transform_beyond_the_dtype(dtype: int, largest: float) -> None:
    """Coefficients may be larger than values; what they give stays within the dtype."""
    frame = dataclasses.replace(
        TRANSFORMED, mode=25, outliers=rans_outlier(0, 2.0**119) + rans_outlier(33, -(2.0**119))
    ).frame(34, dtype=dtype)
    values = np.asarray(decode(frame)).astype(np.float64)
    assert np.isfinite(values).all()
    if dtype == FLOAT16:
        assert (values[:16] == largest).all()
        assert values[33] == -largest
    assert agrees_with_reference(frame)


def test_version_1_does_not_have_it() -> None:
    frame = GOOD.frame(version=1)
    for call in (decode, inspect):
        with pytest.raises(UnsupportedFrameError, match="coder"):
            call(frame)


@pytest.mark.parametrize(
    "change",
    [
        {"mode": 32},
        {"mode": 16, "spikes": b""},
        {"mode": 2},
        {"mode": 0x80},
        {"tuple_size": 0},
        {"tuple_size": 3},
        {"num_tables": 17},
        {"coded_levels": 1},
        {"entropy": -1.0},
        {"entropy": math.nan},
        {"origin": math.inf},
        {"step": 0.0},
        {"step": -1.0},
        {"step": math.nan},
        {"step": math.inf},
        {"base": (1 << 20) + 1},
        {"base": -(1 << 20) - 1},
        {"step": LARGEST, "base": 2},
        {"origin": LARGEST, "step": LARGEST / 4},
        {"tables": rans_table([3000, 1095])},
        {"tables": rans_table([3000, 1097])},
        {"tables": rans_table([0, 0])},
        {"tables": b"\xff\xff"},
        {"stream": b""},
        {"stream": b"\0\0\x01"},
        {"stream": b"\0\0\0\0"},
        {"stream": GOOD.stream + b"\0"},
        {"stream": GOOD.stream + b"\0\0"},
        {"stream": rans_stream([3000, 1096], [0, 1, 0, 1])},
        {"stream": rans_stream([3000, 1096], [0, 1])},
        {"choices": b"\0"},
        {"outliers": b""},
    ],
    ids=repr,
)
def test_fields(change: dict[str, Any]) -> None:
    check_refused(dataclasses.replace(GOOD, **change))


def test_an_odd_base_of_dependent_levels() -> None:
    check_refused(dataclasses.replace(DEPENDENT, base=1))
    assert decode(dataclasses.replace(DEPENDENT, base=-2).frame()).tolist() == [-3, -1, -4]


def test_too_many_levels() -> None:
    frequencies = [3968 - 128, *[2] * 128]
    many = dataclasses.replace(GOOD, coded_levels=129, tables=rans_table(frequencies))
    many = dataclasses.replace(many, stream=rans_stream(frequencies, [0, 128, 0]))
    assert decode(many.frame()).tolist() == [0, 128, 0]
    check_refused(dataclasses.replace(many, mode=1))
    check_refused(dataclasses.replace(GOOD, tuple_size=2, coded_levels=17))


def test_tables_of_segments() -> None:
    tables = rans_table([4095, 1]) + rans_table([3000, 1096])
    two = dataclasses.replace(GOOD, num_tables=2, tables=tables, choices=b"\x01")
    assert decode(two.frame()).tolist() == [0, 1, 0]
    for choices in (b"\x02", b"\x11", b"\x0f", b"", b"\x01\0"):
        check_refused(dataclasses.replace(two, choices=choices))


def test_the_last_of_pairs() -> None:
    frequencies = [1000, 1000, 1000, 1096]
    pairs = dataclasses.replace(GOOD, tuple_size=2, tables=rans_table(frequencies))
    whole = dataclasses.replace(pairs, stream=rans_stream(frequencies, [1, 2]))
    assert decode(whole.frame(4)).tolist() == [0, 1, 1, 0]
    assert decode(whole.frame(3)).tolist() == [0, 1, 1]
    check_refused(dataclasses.replace(pairs, stream=rans_stream(frequencies, [1, 3])), 3)


@pytest.mark.parametrize(
    "outliers",
    [
        rans_outlier(3, 1.0),
        rans_outlier(1, 1.0) + rans_outlier(1, 2.0),
        rans_outlier(2, 1.0) + rans_outlier(0, 2.0),
        rans_outlier(1 << 16, 1.0),
        rans_outlier(1, math.nan),
        rans_outlier(1, -math.inf),
        b"".join(rans_outlier(i, 1.0) for i in range(4)),
    ],
)
def test_outliers(outliers: bytes) -> None:
    check_refused(dataclasses.replace(WITH_OUTLIERS, outliers=outliers))


@pytest.mark.parametrize(
    ("dtype", "limit"), [(FLOAT16, 65520.0), (BFLOAT16, float.fromhex("0x1.ffp127"))]
)
def test_values_beyond_the_dtype(dtype: int, limit: float) -> None:
    below = float(np.nextafter(np.float32(limit), np.float32(0)))
    for value, fits in ((limit, False), (-limit, False), (below, True)):
        payloads = (
            dataclasses.replace(GOOD, origin=value, step=1e-30),
            dataclasses.replace(WITH_OUTLIERS, outliers=rans_outlier(1, value)),
        )
        for payload in payloads:
            frame = payload.frame(dtype=dtype)
            assert agrees_with_reference(frame)
            if fits:
                decode(frame)
            else:
                with pytest.raises(CodecError):
                    decode(frame)


def test_a_huge_tensor_in_few_bytes() -> None:
    for shape in ((1 << 40,), (1 << 20, 1 << 20)):
        with pytest.raises(CorruptFrameError):
            decode(GOOD.frame(*shape))
