"""Row 7: levels that are not numbers, not finite, in a wrong order or beyond the dtype."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from docofl_codec import CorruptFrameError, decode, inspect
from tests.helpers.frames import (
    BFLOAT16,
    FLOAT16,
    EcuqPayload,
    code_table,
    displaced_levels,
    explicit_levels,
    uniform_levels,
)

GOOD = EcuqPayload()
EXPLICIT = EcuqPayload(mode=1, levels=explicit_levels(-1.0, 2.0))
DISPLACED = EcuqPayload(mode=4, levels=displaced_levels(16, -32))
FLOAT32_MAX = float(np.finfo(np.float32).max)


def check_refused(payload: EcuqPayload, **options: Any) -> None:
    frame = payload.frame(**options)
    with pytest.raises(CorruptFrameError):
        decode(frame)
    with pytest.raises(CorruptFrameError):
        inspect(frame)


def test_the_payloads_these_are_derived_from() -> None:
    assert decode(GOOD.frame()).tolist() == [0.25, 0.75, 0.25]
    assert decode(EXPLICIT.frame()).tolist() == [-1, 2, -1]
    assert decode(DISPLACED.frame(version=2)).tolist() == [0.375, 0.5, 0.375]


@pytest.mark.parametrize("bad", [math.nan, -math.nan, math.inf, -math.inf])
def test_ends_that_are_not_finite(bad: float) -> None:
    check_refused(dataclasses.replace(GOOD, levels=uniform_levels(x_min=bad)))
    check_refused(dataclasses.replace(GOOD, levels=uniform_levels(x_max=bad)))


@pytest.mark.parametrize(
    ("x_min", "x_max"), [(1.0, 0.0), (1.0, 1.0), (0.0, -0.0), (-0.0, 0.0), (5.0, -5.0)]
)
def test_negative_and_empty_ranges(x_min: float, x_max: float) -> None:
    check_refused(dataclasses.replace(GOOD, levels=uniform_levels(x_min, x_max)))


@pytest.mark.parametrize("num_levels", [0, 2**30 + 1, 2**31, 2**32 - 1])
def test_number_of_levels(num_levels: int) -> None:
    check_refused(dataclasses.replace(GOOD, levels=uniform_levels(num_levels=num_levels)))


@pytest.mark.parametrize("base", [1, 2, 2**30, 2**31, 2**32 - 1])
def test_windows_beyond_the_grid(base: int) -> None:
    check_refused(dataclasses.replace(GOOD, levels=uniform_levels(base=base)))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0, -1e-40])
def test_entropy(bad: float) -> None:
    check_refused(dataclasses.replace(GOOD, entropy=bad))


@pytest.mark.parametrize(
    "values",
    [
        (math.nan, 1.0),
        (1.0, math.nan),
        (0.0, math.inf),
        (-math.inf, 0.0),
        (1.0, 1.0),
        (2.0, 1.0),
        (0.0, -0.0),
        (0.0, 0.0),
        (-0.0, -0.0),
    ],
)
def test_explicit_values(values: tuple[float, float]) -> None:
    check_refused(dataclasses.replace(EXPLICIT, levels=explicit_levels(*values)))


def test_minus_zero_comes_before_plus_zero() -> None:
    frame = dataclasses.replace(EXPLICIT, levels=explicit_levels(-0.0, 0.0)).frame()
    assert np.signbit(np.asarray(decode(frame))).tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("dtype", "overflow"), [(FLOAT16, 65520.0), (BFLOAT16, 2.0**128 - 2.0**119)]
)
def test_values_that_would_become_infinite(dtype: int, overflow: float) -> None:
    for payload in (
        dataclasses.replace(GOOD, levels=uniform_levels(0, overflow)),
        dataclasses.replace(GOOD, levels=uniform_levels(-overflow, 0)),
        dataclasses.replace(EXPLICIT, levels=explicit_levels(0, overflow)),
        dataclasses.replace(EXPLICIT, levels=explicit_levels(-overflow, 0)),
    ):
        check_refused(payload, dtype=dtype)
        assert np.isfinite(np.asarray(decode(payload.frame()))).all()


@pytest.mark.parametrize(
    ("dtype", "overflow"), [(FLOAT16, 65520.0), (BFLOAT16, 2.0**128 - 2.0**119)]
)
def test_values_that_just_stay_finite(dtype: int, overflow: float) -> None:
    limit = float(np.nextafter(np.float32(overflow), np.float32(0)))
    frame = dataclasses.replace(EXPLICIT, levels=explicit_levels(-limit, limit)).frame(dtype=dtype)
    assert np.isfinite(np.asarray(decode(frame)).astype(np.float32)).all()


def test_the_widest_range() -> None:
    levels = uniform_levels(-FLOAT32_MAX, FLOAT32_MAX)
    x = np.asarray(decode(dataclasses.replace(GOOD, levels=levels).frame()))
    assert x.tolist() == [-FLOAT32_MAX / 2, FLOAT32_MAX / 2, -FLOAT32_MAX / 2]


def test_the_narrowest_range() -> None:
    tiny = float(np.finfo(np.float32).smallest_subnormal)
    x = np.asarray(decode(dataclasses.replace(GOOD, levels=uniform_levels(0, tiny)).frame()))
    assert set(x.tolist()) <= {0.0, tiny}


def test_displaced_levels_belong_to_version_2() -> None:
    check_refused(DISPLACED)
    check_refused(dataclasses.replace(DISPLACED, mode=6))


@pytest.mark.parametrize("mode", [3, 5, 7, 8, 12, 0x84])
def test_modes_that_do_not_exist(mode: int) -> None:
    check_refused(dataclasses.replace(DISPLACED, mode=mode), version=2)


@pytest.mark.parametrize("bad", [-128, -33, 33, 127])
def test_displacements_beyond_the_bin(bad: int) -> None:
    check_refused(dataclasses.replace(DISPLACED, levels=displaced_levels(0, bad)), version=2)


@pytest.mark.parametrize(("first", "count"), [(1, 2), (2, 1), (255, 1), (0, 3), (0, 17), (0, 256)])
def test_displaced_levels_that_are_not_coded(first: int, count: int) -> None:
    levels = displaced_levels(*[0] * min(count, 3), first=first, count=count)
    check_refused(dataclasses.replace(DISPLACED, levels=levels), version=2)


def test_more_displaced_levels_than_there_may_be() -> None:
    table = code_table([5] * 32)
    levels = uniform_levels(num_levels=32)
    blocks = bytes(2)  # three words of five zero bits
    payload = EcuqPayload(
        mode=4,
        coded_levels=32,
        levels=displaced_levels(*[0] * 17, levels=levels),
        table=table,
        directory=(2).to_bytes(2, "little"),
        blocks=blocks,
    )
    check_refused(payload, version=2)
    good = dataclasses.replace(payload, levels=displaced_levels(*[32] * 16, levels=levels))
    assert decode(good.frame(version=2)).tolist() == [1 / 32] * 3


def test_displaced_levels_with_raw_bits() -> None:
    levels = displaced_levels(0, 0, levels=uniform_levels(num_levels=4))
    check_refused(dataclasses.replace(DISPLACED, raw_bits=1, levels=levels), version=2)


@pytest.mark.parametrize("ends", [(0.0, 1e-30), (-1e30, 1e30)])
def test_displaced_levels_of_a_wide_grid(ends: tuple[float, float]) -> None:
    levels = displaced_levels(0, 0, levels=uniform_levels(*ends))
    check_refused(dataclasses.replace(DISPLACED, levels=levels), version=2)
