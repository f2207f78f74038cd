"""Rows 7 and 8 for several code tables: layouts, block sizes and choices that break the rules."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from docofl_codec import CorruptFrameError, decode, inspect
from docofl_codec.reference import decode_frame
from tests.helpers.frames import (
    EcuqPayload,
    code_table,
    displaced_levels,
    entropy_coded_eden,
    explicit_levels,
    further_code,
    make_frame,
    outlier,
    pack_bits,
    several_tables,
    stream_sizes,
    uniform_levels,
)
from tests.helpers.hostile import decode_or_refuse

REFUSED = (
    "table|block size|mode|tuple|raw bits|alphabet|window|stream|payload|truncated|outlier|level"
)
BLOCK = 16_384
SIZE = 3 * BLOCK + 4
FOUR_EMPTY = stream_sizes(0, 0, 0, 0)

# Levels of one half from 0.25 on. The first block has one level and no words, with an outlier; the
# second one a bit a coordinate; the third one a bit a pair; the last one has raw bits.
GOOD = EcuqPayload(
    mode=2 | 4 | 8,
    coded_levels=2,
    levels=displaced_levels(16, levels=uniform_levels(0, 4, 8)),
    tables=several_tables(4),
    table=code_table([1, 1]),
    further=further_code([], coded_levels=1, base=3)
    + further_code([1, 1, 0, 0], tuple_size=2, base=1)
    + further_code(raw_bits=1, base=2),
    directory=FOUR_EMPTY
    + bytes([1, 0, 0, 0, 1])
    + stream_sizes(*[512] * 4)
    + bytes([0, 0, 0, 0, 0])
    + stream_sizes(*[256] * 4)
    + bytes([0, 0, 0, 0, 2])
    + stream_sizes(1)
    + bytes([0, 0, 0, 0, 3]),
    blocks=outlier(7, 6)
    + bytes([0b10101010]) * 2048
    + bytes([0b00001111]) * 1024
    + pack_bits("0011")
    + pack_bits("0101"),
)


def replace(**changes: Any) -> EcuqPayload:
    return dataclasses.replace(GOOD, **changes)


def check_refused(payload: EcuqPayload, *, size: int = SIZE, version: int = 2) -> None:
    frame = payload.frame(size, version=version)
    with pytest.raises(CorruptFrameError):
        decode(frame)
    with pytest.raises(ValueError, match=REFUSED):
        decode_frame(frame)


def test_the_payload_these_are_derived_from() -> None:
    frame = GOOD.frame(SIZE, version=2)
    for threads in (1, 3):
        x = decode(frame, threads=threads)
        assert x[:9].tolist() == [1.75] * 7 + [3.25] + [1.75]
        assert np.unique(x[:BLOCK]).tolist() == [1.75, 3.25]
        # Level 0 is displaced by a quarter of its width where it has a place in the code ...
        assert x[BLOCK : 2 * BLOCK].tolist() == [0.375, 0.75] * (BLOCK // 2)
        # ... and level 1, the first coded one here, is not.
        assert x[2 * BLOCK : 2 * BLOCK + 16].tolist() == [0.75, 1.25] * 4 + [0.75] * 8
        assert x[3 * BLOCK :].tolist() == [1.25, 1.75, 2.25, 2.75]
        assert np.array_equal(x, decode_frame(frame)[0])
    info = inspect(frame)
    assert (info.num_tables, info.coded_levels, info.num_outliers) == (4, 2, 1)
    assert decode_frame(frame)[1]["num_tables"] == 4


def test_displaced_levels_are_displaced_in_every_table() -> None:
    levels = displaced_levels(32, -32, levels=uniform_levels(0, 4, 8, base=2))
    further = further_code([], coded_levels=1, base=3) + further_code(
        [1, 1, 0, 0], tuple_size=2, base=1
    )
    blocks = GOOD.blocks[:-2] + pack_bits("0011")
    payload = replace(
        levels=levels,
        further=further + further_code(base=6),
        blocks=blocks,
    )
    x = decode(payload.frame(SIZE, version=2))
    assert np.array_equal(x, decode_frame(payload.frame(SIZE, version=2))[0])
    assert x[0] == 1.5  # level 3
    assert x[BLOCK : BLOCK + 2].tolist() == [1.5, 1.5]  # levels 2 and 3
    assert x[2 * BLOCK : 2 * BLOCK + 2].tolist() == [0.75, 1.5]  # levels 1 and 2
    assert x[3 * BLOCK :].tolist() == [3.25, 3.25, 3.75, 3.75]


@pytest.mark.parametrize("exponent", [15, 16])
def test_other_block_sizes(exponent: int) -> None:
    size = (1 << exponent) + 2
    directory = FOUR_EMPTY + bytes(4) + b"\1" + stream_sizes(1) + bytes(4) + b"\0"
    payload = replace(
        tables=several_tables(2, exponent),
        further=further_code([], coded_levels=1, base=3),
        directory=directory,
        blocks=pack_bits("10"),
    )
    x = decode(payload.frame(size, version=2))
    assert x[-4:].tolist() == [1.75, 1.75, 0.75, 0.375]
    assert np.array_equal(x, decode_frame(payload.frame(size, version=2))[0])


@pytest.mark.parametrize("exponent", [0, 1, 12, 13, 17, 63, 64, 255])
def test_block_sizes_out_of_range(exponent: int) -> None:
    check_refused(replace(tables=several_tables(4, exponent)))


@pytest.mark.parametrize("count", [1, 2, 3, 5, 16, 17, 256])
def test_numbers_of_tables(count: int) -> None:
    check_refused(replace(tables=several_tables(count)))


@pytest.mark.parametrize("choice", [4, 5, 15, 16, 255])
def test_tables_that_are_not_there(choice: int) -> None:
    for place in (12, 25, 38, 45):  # last bytes of the entries
        directory = bytearray(GOOD.directory)
        directory[place] = choice
        check_refused(replace(directory=bytes(directory)))


def test_streams_of_a_table_without_words() -> None:
    directory = stream_sizes(1, 0, 0, 0) + GOOD.directory[8:]
    check_refused(replace(directory=directory, blocks=b"\0" + GOOD.blocks))


def test_the_first_version_has_one_table() -> None:
    check_refused(GOOD, version=1)
    check_refused(replace(mode=8, levels=uniform_levels(0, 4, 8)), version=1)


def test_explicit_levels_have_one_table() -> None:
    for mode in (9, 11, 13, 15):
        check_refused(replace(mode=mode, levels=explicit_levels(0.0, 1.0)))


@pytest.mark.parametrize(
    "layout",
    [
        {"tuple_size": 0},
        {"tuple_size": 3},
        {"tuple_size": 8},
        {"raw_bits": 25},
        {"raw_bits": 1, "tuple_size": 2, "lengths": [2] * 4},
        {"coded_levels": 17, "tuple_size": 2},
        {"coded_levels": 1, "tuple_size": 2, "lengths": []},
        {"base": 7},
        {"base": 2**31},
        {"base": 2**32 - 1},
        {"base": 5, "raw_bits": 2},
        {"lengths": [1, 2]},
        {"lengths": [17, 1]},
    ],
)
def test_layouts_of_further_tables(layout: dict[str, Any]) -> None:
    for further in (
        further_code(**layout),
        further_code([], coded_levels=1, base=3) + further_code(**layout),
    ):
        count = 2 + (len(further) > len(further_code(**layout)))
        directory = stream_sizes(1) + bytes(4) + b"\0"
        payload = replace(
            tables=several_tables(count),
            further=further,
            directory=directory,
            blocks=pack_bits("0110"),
        )
        good = dataclasses.replace(
            payload,
            tables=several_tables(2),
            further=further_code([], coded_levels=1, base=3),
        )
        assert decode(good.frame(4, version=2)).shape == (4,)
        check_refused(payload, size=4)


def test_outliers_that_the_table_of_their_block_has_a_place_for() -> None:
    check_refused(replace(blocks=outlier(7, 3) + GOOD.blocks[6:]))
    # Coded by other tables, not by this one.
    for level in (0, 1, 2, 4, 5, 7):
        x = decode(replace(blocks=outlier(7, level) + GOOD.blocks[6:]).frame(SIZE, version=2))
        assert x[7] == 0.25 + level / 2
    check_refused(replace(blocks=outlier(7, 8) + GOOD.blocks[6:]))


def test_eden_has_one_table() -> None:
    payload = entropy_coded_eden(
        EcuqPayload(
            mode=8,
            levels=uniform_levels(-2, 2),
            tables=several_tables(2),
            further=further_code(),
            directory=stream_sizes(2) + b"\0",
            blocks=b"\x0f\x35",
        )
    )
    with pytest.raises(CorruptFrameError):
        decode(payload.frame())


def test_every_cut_and_every_changed_byte_of_the_header() -> None:
    frame = GOOD.frame(SIZE, version=2)
    good = decode(frame)
    payload = GOOD.payload()
    end = len(payload) - len(GOOD.blocks)
    for place in range(end):
        for change in (1, 0x80, 0xFF):
            changed = bytearray(payload)
            changed[place] ^= change
            decode_or_refuse(make_frame(bytes(changed), (SIZE,), version=2))
        decode_or_refuse(make_frame(payload[:place], (SIZE,), version=2))
    assert np.array_equal(decode(frame), good)
