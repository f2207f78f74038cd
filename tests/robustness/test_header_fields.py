"""Rows 6 and 9: fields at their limits, alone and in pairs, and fields that nobody knows yet."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from typing import TypeAlias

import pytest

from docofl_codec import CorruptFrameError, UnsupportedFrameError, decode, inspect
from tests.helpers.frames import (
    EcuqPayload,
    code_table,
    make_frame,
    pack_bits,
    payload_start,
    reseal,
    seal,
    varint,
)
from tests.helpers.hostile import SMALL_FRAMES, agrees_with_reference, decode_or_refuse
from tests.helpers.rans_frames import RansPayload


def extremes(width: int) -> list[bytes]:
    """Return 0, 1, the maximum and the sign bit of an unsigned field."""
    limit = 256**width
    return [value.to_bytes(width, "little") for value in (0, 1, limit - 1, limit // 2)]


EXTREME_VARINTS = [varint(value) for value in (0, 1, 2**64 - 1, 2**63)]

Fields: TypeAlias = list[tuple[str, int | None]]

# Fields of a frame of one dimension, in order; None is a varint.
HEADER: Fields = [
    ("magic", 3),
    ("version", 1),
    ("codec", 1),
    ("dtype", 1),
    ("flags", 1),
    ("ndim", 1),
    ("dim", None),
    ("payload size", None),
]
# With uniform levels.
ECUQ_FIELDS: Fields = [
    *HEADER,
    ("coder", 1),
    ("mode", 1),
    ("tuple size", 1),
    ("raw bits", 1),
    ("coded levels", 1),
    ("entropy", 4),
    ("x_min", 4),
    ("x_max", 4),
    ("K", 4),
    ("base", 4),
    ("first of the code table or directory", 1),
]
# With rANS, in version 2.
RANS_FIELDS: Fields = [
    *HEADER,
    ("coder", 1),
    ("mode", 1),
    ("tuple size", 1),
    ("tables", 1),
    ("coded levels", 1),
    ("entropy", 4),
    ("origin", 4),
    ("step", 4),
    ("base", 4),
    ("first displacement or frequency", 1),
]
EDEN_FIELDS: Fields = [
    *HEADER,
    ("mode", 1),
    ("width", 1),
    ("wide fraction", 4),
    ("bits", 4),
    ("seed", 8),
    ("first scale or exact value", 4),
]
FIELDS = {"eden": EDEN_FIELDS, "rans": RANS_FIELDS}


def split_fields(blob: bytes, fields: Fields) -> list[bytes]:
    """Cut a frame into fields and the rest, without the checksum."""
    pieces, position = [], 0
    for _, width in fields:
        if width is None:
            width = 1
            while blob[position + width - 1] >= 0x80:
                width += 1
        pieces.append(blob[position : position + width])
        position += width
    return [*pieces, blob[position:-4]]


def pairs_of_extremes(blob: bytes, fields: Fields) -> Iterator[bytes]:
    pieces = split_fields(blob, fields)
    choices = [EXTREME_VARINTS if width is None else extremes(width) for _, width in fields]
    for first, second in itertools.combinations(range(1, len(fields)), 2):
        for values in itertools.product(choices[first], choices[second]):
            changed = pieces.copy()
            changed[first], changed[second] = values
            yield seal(b"".join(changed))


@pytest.mark.parametrize(
    "name",
    [
        "fixed width",
        "coded",
        "raw bits",
        "outliers",
        "coded float16",
        "rans",
        "rans pairs",
        "rans outliers",
        "eden",
        "eden tail",
        "eden two widths",
        "eden wide",
        "eden coded",
    ],
)
def test_pairs_of_extremes(name: str) -> None:
    """Row 6: a clean error or a valid decode, and the reference thinks the same."""
    blob = SMALL_FRAMES[name]
    fields = FIELDS.get(name.split()[0], ECUQ_FIELDS)
    assert seal(b"".join(split_fields(blob, fields))) == blob
    for changed in pairs_of_extremes(blob, fields):
        decode_or_refuse(changed)
        assert agrees_with_reference(changed), changed.hex()


@pytest.mark.parametrize("value", [0, 3, 0x81, 255])
def test_unknown_version(blob: bytes, value: int) -> None:
    """Row 9. The rest may follow other rules: the checksum does not matter yet."""
    changed = blob[:3] + bytes([value]) + blob[4:]
    for frame in (changed, reseal(changed), changed[:4]):
        with pytest.raises(UnsupportedFrameError, match=f"version at byte 3: found {value}"):
            decode(frame)
        with pytest.raises(UnsupportedFrameError, match=f"version at byte 3: found {value}"):
            inspect(frame)


@pytest.mark.parametrize("value", [3, 4, 0x80, 255])
def test_unknown_codec(blob: bytes, value: int) -> None:
    with pytest.raises(UnsupportedFrameError, match=f"codec at byte 4: found id {value}"):
        decode(reseal(blob[:4] + bytes([value]) + blob[5:]))


@pytest.mark.parametrize("value", [4, 0x80, 255])
def test_unknown_dtype(blob: bytes, value: int) -> None:
    with pytest.raises(UnsupportedFrameError, match=f"dtype at byte 5: found id {value}"):
        decode(reseal(blob[:5] + bytes([value]) + blob[6:]))


@pytest.mark.parametrize("flags", [0x10, 0x20, 0x40, 0x80, 0xF0, 0x11])
def test_critical_flags(blob: bytes, flags: int) -> None:
    with pytest.raises(UnsupportedFrameError, match="flags at byte 6"):
        decode(reseal(blob[:6] + bytes([flags]) + blob[7:]))


@pytest.mark.parametrize("flags", [0x02, 0x04, 0x08, 0x0E])
def test_other_flags_are_ignored(blob: bytes, flags: int) -> None:
    flagged = reseal(blob[:6] + bytes([flags]) + blob[7:])
    assert decode(flagged).tolist() == decode(blob).tolist()


@pytest.mark.parametrize("coder", [1, 2, 0x80, 255])
def test_unknown_coder(coder: int) -> None:
    with pytest.raises(UnsupportedFrameError, match=f"coder: found {coder}, expected 0"):
        decode(EcuqPayload(coder=coder).frame())


@pytest.mark.parametrize("coder", [2, 0x80, 255])
def test_unknown_coder_in_version_2(coder: int) -> None:
    frame = RansPayload().frame()
    start = payload_start(frame)
    changed = reseal(frame[:start] + bytes([coder]) + frame[start + 1 :])
    with pytest.raises(UnsupportedFrameError, match=f"coder: found {coder}, expected 0 "):
        decode(changed)


@pytest.mark.parametrize(
    "bad",
    [b"\x80\x00", b"\x83\x00", b"\x83\x80\x00", b"\xff" * 9 + b"\x02", b"\x80" * 10 + b"\x01"],
)
def test_varints_are_minimal_and_have_64_bits(bad: bytes) -> None:
    pieces = split_fields(SMALL_FRAMES["fixed width"], HEADER)
    for field in (6, 7):
        changed = pieces.copy()
        changed[field] = bad
        with pytest.raises(CorruptFrameError, match="minimal varint of at most 64 bits"):
            decode(seal(b"".join(changed)))


@pytest.mark.parametrize("ndim", [33, 64, 0x80, 255])
def test_too_many_dimensions(ndim: int) -> None:
    payload = struct.pack("<f", 1.0)
    with pytest.raises(CorruptFrameError, match=f"ndim at byte 7: found {ndim}"):
        decode(make_frame(payload, [1] * ndim, codec=0))


@pytest.mark.parametrize("mode", [3, 4, 8, 0x80, 255])
def test_unknown_mode(mode: int) -> None:
    with pytest.raises(CorruptFrameError, match="mode"):
        decode(EcuqPayload(mode=mode).frame())


@pytest.mark.parametrize("tuple_size", [0, 3, 5, 7, 8, 255])
def test_tuple_sizes_that_do_not_exist(tuple_size: int) -> None:
    with pytest.raises(CorruptFrameError, match="tuple size"):
        decode(EcuqPayload(tuple_size=tuple_size).frame())


@pytest.mark.parametrize("tuple_size", [2, 3, 4, 5, 6])
def test_tuple_sizes_mean_the_same_to_the_reference(tuple_size: int) -> None:
    payload = EcuqPayload(
        tuple_size=tuple_size,
        table=code_table([tuple_size] * 2**tuple_size),
        blocks=pack_bits("0" * tuple_size),
    )
    frame = payload.frame(tuple_size)
    assert decode_or_refuse(frame) == (tuple_size % 2 == 0)
    assert agrees_with_reference(frame)
