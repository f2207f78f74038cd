"""Row 8: code tables, directories, streams and outliers that break the rules of the format."""

from __future__ import annotations

import dataclasses
import struct

import numpy as np
import pytest

from docofl_codec import CorruptFrameError, decode
from tests.helpers.frames import (
    EcuqPayload,
    code_table,
    explicit_levels,
    make_frame,
    outlier,
    pack_bits,
    payload_of,
    stream_sizes,
    uniform_levels,
)
from tests.helpers.hostile import decode_or_refuse

GOOD = EcuqPayload()
FOUR = EcuqPayload(
    mode=1, coded_levels=4, levels=explicit_levels(0, 1, 2, 3), table=code_table([2] * 4)
)
PAIRS = EcuqPayload(tuple_size=2, table=code_table([2] * 4), blocks=pack_bits("0110"))
RAW = EcuqPayload(raw_bits=3, levels=uniform_levels(0, 16, 16), blocks=b"\x02" + bytes(2))


def check_refused(frame: bytes) -> None:
    with pytest.raises(CorruptFrameError):
        decode(frame)


def test_the_payloads_these_are_derived_from() -> None:
    for payload in (GOOD, FOUR, PAIRS, RAW):
        assert decode(payload.frame()).shape == (3,)


# Code tables -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lengths", [[1, 2, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0], [0] * 4, [2, 2, 2, 3], [1, 1, 16, 16]]
)
def test_incomplete_and_oversubscribed_codes(lengths: list[int]) -> None:
    check_refused(dataclasses.replace(FOUR, table=code_table(lengths)).frame())


@pytest.mark.parametrize("lengths", [[17, 1, 1, 1], [1, -1, 1, 1], [20, 2, 2, 1], [2, 2, 1, 90]])
def test_lengths_out_of_range(lengths: list[int]) -> None:
    check_refused(dataclasses.replace(FOUR, table=code_table(lengths)).frame())


def test_table_without_an_end() -> None:
    for size in (1, 3, 8, 100):
        check_refused(dataclasses.replace(FOUR, table=bytes(size)).frame())


def test_padding_of_the_table() -> None:
    table = bytearray(code_table([1, 2, 3, 3]))
    good = dataclasses.replace(FOUR, table=bytes(table)).frame()
    assert decode(good).shape == (3,)
    table[-1] |= 0x80
    check_refused(dataclasses.replace(FOUR, table=bytes(table)).frame())


# Directory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 2, 3, 0x7FFF, 0x8000, 0xFFFF])
def test_streams_that_leave_or_do_not_fill_the_payload(size: int) -> None:
    check_refused(dataclasses.replace(GOOD, directory=stream_sizes(size)).frame())


@pytest.mark.parametrize("extra", [b"\0", b"\x02", bytes(100)])
def test_bytes_after_the_last_block(extra: bytes) -> None:
    check_refused(dataclasses.replace(GOOD, blocks=GOOD.blocks + extra).frame())


def test_blocks_missing() -> None:
    check_refused(dataclasses.replace(GOOD, blocks=b"").frame())
    check_refused(dataclasses.replace(GOOD, blocks=b"", directory=b"").frame())


def test_streams_of_words_without_bits() -> None:
    payload = EcuqPayload(
        mode=1,
        coded_levels=1,
        levels=explicit_levels(7),
        table=b"",
        directory=stream_sizes(0),
        blocks=b"",
    )
    assert decode(payload.frame()).tolist() == [7, 7, 7]
    check_refused(dataclasses.replace(payload, directory=stream_sizes(1), blocks=b"\0").frame())


def test_sizes_that_add_up_but_belong_to_other_streams() -> None:
    """Four streams of 1,024 one-bit words take 128 bytes each, not 127 and 129."""
    for sizes, good in [((128,) * 4, True), ((127, 129, 128, 128), False), ((0, 0, 0, 512), False)]:
        frame = dataclasses.replace(GOOD, directory=stream_sizes(*sizes), blocks=bytes(512)).frame(
            4096
        )
        if good:
            assert decode(frame).shape == (4096,)
        else:
            check_refused(frame)


# Streams -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", ["0101", "01000001", "01000000" + "0", "01000000" + "1"])
def test_streams_with_more_than_their_words(bits: str) -> None:
    data = pack_bits(bits)
    check_refused(dataclasses.replace(GOOD, directory=stream_sizes(len(data)), blocks=data).frame())


def test_streams_with_less_than_their_words() -> None:
    check_refused(dataclasses.replace(GOOD, blocks=pack_bits("01000000")).frame(9))
    assert decode(dataclasses.replace(GOOD, blocks=pack_bits("01000000")).frame(8)).shape == (8,)


def test_words_that_end_beyond_the_stream() -> None:
    """A last word of 16 bits of which 15 are there."""
    lengths = [*range(1, 17), 16]
    payload = EcuqPayload(
        mode=1, coded_levels=17, levels=explicit_levels(*range(17)), table=code_table(lengths)
    )
    whole = pack_bits("0" + "1" * 16 + "0")
    good = dataclasses.replace(payload, directory=stream_sizes(3), blocks=whole)
    assert decode(good.frame()).tolist() == [0, 16, 0]
    short = dataclasses.replace(payload, directory=stream_sizes(2), blocks=pack_bits("1" * 16))
    assert decode(short.frame(1)).tolist() == [16]
    check_refused(short.frame(2))


def test_incomplete_tuples_are_filled_with_level_zero() -> None:
    assert decode(PAIRS.frame()).tolist() == [0.25, 0.75, 0.75]
    check_refused(dataclasses.replace(PAIRS, blocks=pack_bits("0111")).frame())


# Raw bits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [0x02, 0x04, 0x80])
def test_padding_of_raw_bits(last: int) -> None:
    """Three coordinates of three bits: nine bits, seven of padding."""
    assert decode(dataclasses.replace(RAW, blocks=b"\x02\0\x01").frame()).shape == (3,)
    check_refused(dataclasses.replace(RAW, blocks=b"\x02\0" + bytes([last])).frame())


@pytest.mark.parametrize(
    "change",
    [
        {"raw_bits": 25, "levels": uniform_levels(0, 1, 2**30)},
        {"raw_bits": 255, "levels": uniform_levels(0, 1, 2**30)},
        {"raw_bits": 1, "tuple_size": 2, "table": code_table([2] * 4)},
        {"raw_bits": 1, "mode": 1, "levels": explicit_levels(0, 1)},
    ],
)
def test_raw_bits_where_there_can_be_none(change: dict[str, object]) -> None:
    check_refused(dataclasses.replace(RAW, **change).frame())  # type: ignore[arg-type]


# Outliers ----------------------------------------------------------------------------------------


def with_outliers(*pairs: tuple[int, int], count: int | None = None) -> bytes:
    """Three coordinates; the window is levels 4 and 5 of ten."""
    number = struct.pack("<I", len(pairs) if count is None else count)
    return EcuqPayload(
        mode=2,
        levels=uniform_levels(0, 10, 10, base=4),
        directory=stream_sizes(1) + number,
        blocks=GOOD.blocks + b"".join(outlier(*pair) for pair in pairs),
    ).frame()


def test_good_outliers() -> None:
    assert decode(with_outliers((0, 3), (2, 9))).tolist() == [3.5, 5.5, 9.5]


@pytest.mark.parametrize(
    "pairs",
    [
        ((1, 0), (1, 0)),
        ((2, 0), (1, 0)),
        ((3, 0),),
        ((0xFFFF, 0),),
        ((0, 10),),
        ((0, 2**31),),
        ((0, 2**32 - 1),),
        ((0, 4),),
        ((0, 5),),
    ],
    ids=str,
)
def test_outliers_out_of_order_or_range(pairs: tuple[tuple[int, int], ...]) -> None:
    check_refused(with_outliers(*pairs))


@pytest.mark.parametrize("count", [0, 2, 3, 4, 2**31, 2**32 - 1])
def test_counts_of_outliers(count: int) -> None:
    check_refused(with_outliers((0, 3), count=count))


# Whole payloads ----------------------------------------------------------------------------------


def test_payload_in_a_frame_of_another_size() -> None:
    payload = payload_of(GOOD.frame())
    assert decode(make_frame(payload, (3,))).shape == (3,)
    for size in (0, 9, 200, 65_536, 70_000):
        check_refused(make_frame(payload, (size,)))


def test_random_payloads() -> None:
    rng = np.random.default_rng(8)
    header = payload_of(GOOD.frame())[:9]
    accepted = 0
    for _ in range(2000):
        noise = rng.integers(0, 256, rng.integers(0, 80), np.uint8).tobytes()
        shape = [int(rng.choice([1, 3, 100, 5000, 70_000]))]
        accepted += decode_or_refuse(make_frame(noise, shape))
        accepted += decode_or_refuse(make_frame(header + noise, shape))
    assert accepted < 10
