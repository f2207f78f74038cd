"""Any bytes give tensors or a CodecError: damaged, truncated and forged state dicts."""

from __future__ import annotations

import resource
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docofl_codec import (
    CodecError,
    CorruptFrameError,
    LimitExceededError,
    TruncatedFrameError,
    UnsupportedFrameError,
    decode_state_dict,
    encode_state_dict,
    inspect_state_dict,
)
from docofl_codec.state_dict import index as layout
from docofl_codec.state_dict.index import Entry, Index, Section, parse_index, write_index
from docofl_codec.state_dict.reader import StateDictReader
from docofl_codec.state_dict.tensors import TensorSpec


def small() -> bytes:
    """Return a state dict with sections of all kinds, about a kilobyte."""
    rng = np.random.default_rng(0)
    shared = np.array([1.5, 2], np.float32)
    return encode_state_dict(
        {
            "w": rng.normal(size=(40, 60)).astype(np.float32),
            "b": rng.normal(size=5).astype(np.float32),
            "flags": np.tile([True, False], 100),
            "shared": shared,
            "tied": shared,
        },
        bits=3,
    )


BLOB = small()


def split(blob: bytes) -> tuple[bytes, Index]:
    """Return header and sections, and the index."""
    size = struct.unpack("<Q", blob[-15:-7])[0]
    body, trailer = blob[-15 - size : -15], blob[-15:]
    return blob[: -15 - size], parse_index(body, trailer, len(blob))


def forged(change: Callable[[Index], Index]) -> bytes:
    """Return the blob with another index and a valid checksum."""
    front, index = split(BLOB)
    return front + write_index(change(index))


def forged_body(change: Callable[[bytearray], bytes | bytearray]) -> bytes:
    """Return the blob with other bytes of the index and a valid checksum."""
    size = struct.unpack("<Q", BLOB[-15:-7])[0]
    body = bytes(change(bytearray(BLOB[-15 - size : -15])))
    length = struct.pack("<Q", len(body))
    checksum = struct.pack("<I", zlib.crc32(body + length))
    return BLOB[: -15 - size] + body + length + checksum + BLOB[-3:]


def refuse(blob: bytes, kind: type[CodecError] = CodecError) -> None:
    with pytest.raises(kind):
        decode_state_dict(blob)


def test_truncation_at_every_byte() -> None:
    for size in range(len(BLOB)):
        refuse(BLOB[:size], CorruptFrameError)
    refuse(BLOB + b"\0", TruncatedFrameError)


def test_every_flipped_bit() -> None:
    for place in range(len(BLOB)):
        for bit in range(8):
            damaged = bytearray(BLOB)
            damaged[place] ^= 1 << bit
            refuse(bytes(damaged))


def test_every_byte_of_the_index_with_a_valid_checksum() -> None:
    size = struct.unpack("<Q", BLOB[-15:-7])[0]
    for place in range(size):
        for value in (0, 1, 2, 4, 0x10, 0x7F, 0x80, 0xFF):

            def change(body: bytearray, place: int = place, value: int = value) -> bytearray:
                body[place] = value
                return body

            blob = forged_body(change)
            try:
                restored = decode_state_dict(blob, max_output_bytes=1 << 20)
            except CodecError:
                continue
            assert len(restored) == 5


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_noise(noise: bytes) -> None:
    for blob in (noise, BLOB[:4] + noise + BLOB[-15:], forged_body(lambda _: noise)):
        with pytest.raises(CodecError):
            decode_state_dict(blob)


def test_versions_and_flags() -> None:
    refuse(BLOB[:3] + b"\2" + BLOB[4:], UnsupportedFrameError)
    refuse(b"\xd0\xc0\xf1" + BLOB[3:], CorruptFrameError)

    def critical(body: bytearray) -> bytearray:
        body[0] |= 0x10
        return body

    refuse(forged_body(critical), UnsupportedFrameError)

    def harmless(body: bytearray) -> bytearray:
        body[0] |= 0x08
        return body

    assert len(decode_state_dict(forged_body(harmless))) == 5


def change_entry(number: int, **fields: Any) -> bytes:
    """Return a forged blob in which an entry differs."""

    def change(index: Index) -> Index:
        entries = list(index.entries)
        entry = entries[number]
        spec = {name: fields.pop(name) for name in ("name", "dtype", "shape") if name in fields}
        entries[number] = replace(entry, spec=replace(entry.spec, **spec), **fields)
        return replace(index, entries=tuple(entries))

    return forged(change)


def test_duplicate_names() -> None:
    refuse(change_entry(1, name="w"), CorruptFrameError)


@pytest.mark.parametrize(
    "shape",
    [
        (40, 61),
        (2400, 0),
        (1 << 62,),
        (1 << 32, 1 << 32),
        (1 << 63, 2, 0),
        (1 << 20, 1 << 20),
        (40, 60, 1 << 40),
    ],
)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_shapes_that_do_not_fit_their_section(number: int, shape: tuple[int, ...]) -> None:
    refuse(change_entry(number, shape=shape), CorruptFrameError)


def test_other_dtypes_and_stores() -> None:
    refuse(change_entry(0, dtype="float16"), CorruptFrameError)
    refuse(change_entry(0, store=layout.EXACT), CorruptFrameError)
    refuse(change_entry(2, dtype="float64"), CorruptFrameError)
    refuse(change_entry(2, store=layout.FLOAT16), CorruptFrameError)
    refuse(change_entry(2, store=layout.CODED), CorruptFrameError)
    refuse(change_entry(0, place=77), CorruptFrameError)
    refuse(change_entry(4, place=4), CorruptFrameError)
    refuse(change_entry(4, place=1 << 50), CorruptFrameError)


def test_bool_of_other_values() -> None:
    blob = bytearray(encode_state_dict({"x": np.array([True, False])}, bits=64))
    front, index = split(bytes(blob))
    section = replace(index.sections[0], checksum=zlib.crc32(b"\1\2"))
    refuse(
        front[:-2] + b"\1\2" + write_index(replace(index, sections=(section,))), CorruptFrameError
    )


def test_sections_that_do_not_fill_the_bytes() -> None:
    for delta in (-1, 1, 1 << 40):

        def change(index: Index, delta: int = delta) -> Index:
            first = index.sections[0]
            sections = (replace(first, num_bytes=first.num_bytes + delta), *index.sections[1:])
            return replace(index, sections=sections)

        refuse(forged(change), CorruptFrameError)
    refuse(forged(lambda index: replace(index, sections=())), CorruptFrameError)
    extra = Section(layout.RAW, 0)
    refuse(
        forged(lambda index: replace(index, sections=(*index.sections, extra))), CorruptFrameError
    )


def test_absurd_counts() -> None:
    many = b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
    refuse(forged_body(lambda body: body[:5] + many), CorruptFrameError)
    refuse(forged_body(lambda body: body[:5] + b"\0" + many), CorruptFrameError)
    refuse(forged_body(lambda body: body[:5] + b"\x80\0"), CorruptFrameError)
    refuse(forged_body(lambda body: body + b"\0"), CorruptFrameError)


def bomb(kind: int, unpacked: int, data: bytes) -> bytes:
    """Return a state dict of one tensor of bytes that claims a size."""
    index = Index(
        (Section(kind, len(data), zlib.crc32(data), unpacked),),
        (Entry(TensorSpec("x", "uint8", (unpacked,)), layout.EXACT, 0),),
        False,
        False,
        2.0,
    )
    return layout.HEADER + data + write_index(index)


def deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def test_deflate_that_lies() -> None:
    data = deflate(bytes(100_000))
    good = bomb(layout.DEFLATED, 100_000, data)
    assert np.asarray(decode_state_dict(good)["x"]).sum() == 0
    for claim in (50_000, 100_001, 1 << 40):
        refuse(bomb(layout.DEFLATED, claim, data), CorruptFrameError)
    for other in (data + b"\0", data[:-1], b"\xff" * 500):
        refuse(bomb(layout.DEFLATED, 100_000, other), CorruptFrameError)
    refuse(bomb(layout.DEFLATED, len(data), data), CorruptFrameError)


def test_limit() -> None:
    blob = encode_state_dict({"x": np.zeros((1000, 1000), np.float32), "n": np.zeros(7, np.int64)})
    assert len(blob) < 1000
    with pytest.raises(LimitExceededError, match=r"needs 4000056 bytes, expected at most 4000055"):
        decode_state_dict(blob, max_output_bytes=4_000_055)
    assert len(decode_state_dict(blob, max_output_bytes=4_000_056)) == 2


def test_little_memory_for_large_claims() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for shape in ((1 << 40,), (1 << 20, 1 << 20)):
        refuse(change_entry(0, shape=shape))
        refuse(change_entry(2, shape=shape))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


def test_a_frame_is_no_state_dict_and_the_other_way_round() -> None:
    from docofl_codec import decode, ecuq, inspect

    frame = ecuq.encode(np.arange(100, dtype=np.float32))
    refuse(frame, CorruptFrameError)
    with pytest.raises(CodecError):
        decode(BLOB)
    with pytest.raises(CodecError):
        inspect(BLOB)


@pytest.mark.parametrize("blob", [None, 3, "text", [1]])
def test_what_are_no_bytes(blob: Any) -> None:
    with pytest.raises(TypeError):
        decode_state_dict(blob)
    with pytest.raises(TypeError):
        inspect_state_dict(blob)


def test_other_buffers() -> None:
    for blob in (bytearray(BLOB), memoryview(BLOB), np.frombuffer(BLOB, np.uint8)):
        assert len(decode_state_dict(blob)) == 5  # type: ignore[arg-type]


def test_inspection_reads_a_frame_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 11: not once for each of the tensors that share it."""
    model = {f"w{k}": np.random.default_rng(k).normal(size=500) for k in range(50)}
    blob = encode_state_dict(model, bits=4, flatten=True)
    read: list[int] = []
    frame_info = StateDictReader.frame_info

    def counted(reader: StateDictReader, place: int) -> Any:
        read.append(place)
        return frame_info(reader, place)

    monkeypatch.setattr(StateDictReader, "frame_info", counted)
    assert len(inspect_state_dict(blob).tensors) == 50
    assert len(read) == len(set(read))


def test_an_empty_buffer_of_several_dimensions() -> None:
    with pytest.raises(TruncatedFrameError):
        decode_state_dict(np.zeros((0, 3), np.uint8))  # type: ignore[arg-type]
