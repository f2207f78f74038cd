"""Frames taken apart and put together by hand, after docs/format.md."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from docofl_codec.reference import frame_checksum
from docofl_codec.reference.bits import ByteReader

MAGIC = b"\xd0\xc0\xf1"
IDENTITY, ECUQ, EDEN = range(3)
FLOAT32, FLOAT64, FLOAT16, BFLOAT16 = range(4)
CHECKSUM_BYTES = 4


def seal(body: bytes) -> bytes:
    """Append the checksum."""
    return body + struct.pack("<I", frame_checksum(body))


def reseal(blob: bytes) -> bytes:
    """Replace the checksum of a frame by the one its bytes should have."""
    return seal(bytes(blob)[:-CHECKSUM_BYTES])


def varint(value: int) -> bytes:
    groups = []
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def make_frame(
    payload: bytes,
    shape: Sequence[int],
    *,
    codec: int = ECUQ,
    dtype: int = FLOAT32,
    flags: int = 0,
    version: int = 1,
    payload_size: int | None = None,
) -> bytes:
    """Wrap a payload in a sealed frame; `payload_size` overrides what the header says."""
    size = len(payload) if payload_size is None else payload_size
    header = MAGIC + bytes([version, codec, dtype, flags, len(shape)])
    header += b"".join(varint(dim) for dim in shape) + varint(size)
    return seal(header + payload)


def payload_start(blob: bytes) -> int:
    """Return where the payload begins."""
    reader = ByteReader(blob)
    ndim = reader.take(8, "fixed fields")[7]
    for _ in range(ndim + 1):
        reader.varint("dims and payload size")
    return reader.position


def payload_of(blob: bytes) -> bytes:
    return blob[payload_start(blob) : -CHECKSUM_BYTES]


def pack_bits(bits: str) -> bytes:
    """Pack bits, the first into the least significant place."""
    padded = bits + "0" * (-len(bits) % 8)
    return bytes(int(padded[i : i + 8][::-1], 2) for i in range(0, len(padded), 8))


def width_bits(width: int, previous: int) -> str:
    """Write a number as its difference to the one before (section 3.2)."""
    difference = width - previous
    mapped = 2 * difference - 1 if difference > 0 else -2 * difference
    binary = f"{mapped + 1:b}"
    return "0" * (len(binary) - 1) + "1" + binary[1:][::-1]


def code_table(lengths: Iterable[int]) -> bytes:
    """Write the code lengths of section 3.2."""
    bits, previous = "", 4
    for length in lengths:
        bits += width_bits(length, previous)
        previous = length
    return pack_bits(bits)


def uniform_levels(
    x_min: float = 0.0, x_max: float = 1.0, num_levels: int = 2, base: int = 0
) -> bytes:
    return struct.pack("<ffII", x_min, x_max, num_levels, base)


def displaced_levels(
    *displacements: int, first: int = 0, count: int | None = None, levels: bytes = uniform_levels()
) -> bytes:
    """Uniform levels, some of them displaced; `count` overrides how many the frame says."""
    count = len(displacements) if count is None else count
    return levels + struct.pack(f"<BB{len(displacements)}b", first, count - 1, *displacements)


def explicit_levels(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def several_tables(count: int = 2, exponent: int = 14) -> bytes:
    return bytes([count - 1, exponent])


def further_code(
    lengths: Iterable[int] = (1, 1),
    *,
    coded_levels: int = 2,
    tuple_size: int = 1,
    raw_bits: int = 0,
    base: int = 0,
) -> bytes:
    """Write a code table with its layout (section 3); none where there are no lengths."""
    layout = struct.pack("<3BI", tuple_size, raw_bits, coded_levels - 1, base)
    lengths = tuple(lengths)
    return layout + (code_table(lengths) if lengths else b"")


def stream_sizes(*sizes: int) -> bytes:
    return struct.pack(f"<{len(sizes)}H", *sizes)


def outlier(position: int, level: int) -> bytes:
    return struct.pack("<HI", position, level)


@dataclass(frozen=True)
class EcuqPayload:
    """The payload of section 3; as it stands, three coordinates at levels 0, 1, 0 of two."""

    coder: int = 0
    mode: int = 0
    tuple_size: int = 1
    raw_bits: int = 0
    coded_levels: int = 2
    entropy: float = 1.0
    levels: bytes = uniform_levels()
    tables: bytes = b""  # with mode bit 3: their number and the size of blocks
    table: bytes = code_table([1, 1])
    further: bytes = b""  # tables with their layouts
    directory: bytes = stream_sizes(1)
    blocks: bytes = pack_bits("010")

    def payload(self) -> bytes:
        parameters = struct.pack(
            "<5Bf",
            self.coder,
            self.mode,
            self.tuple_size,
            self.raw_bits,
            self.coded_levels - 1,
            self.entropy,
        )
        tables = self.tables + self.table + self.further
        return parameters + self.levels + tables + self.directory + self.blocks

    def frame(self, *shape: int, dtype: int = FLOAT32, version: int = 1) -> bytes:
        return make_frame(self.payload(), shape or (3,), dtype=dtype, version=version)


@dataclass(frozen=True)
class EdenPayload:
    """The payload of section 4; as it stands, 16 coordinates with one bit each and an exact one."""

    mode: int = 0
    width: int = 1
    fraction: int = 0
    bits: float = 1.0
    seed: int = 7
    scales: tuple[float, ...] = (1.0,)
    tail: tuple[float, ...] = (0.5,)
    words: bytes = b"\x0f\x35"

    def payload(self) -> bytes:
        parameters = struct.pack(
            "<BBIfQ", self.mode, self.width, self.fraction, self.bits, self.seed
        )
        values = (*self.scales, *self.tail)
        return parameters + struct.pack(f"<{len(values)}f", *values) + self.words

    def frame(self, *shape: int, dtype: int = FLOAT32) -> bytes:
        return make_frame(self.payload(), shape or (17,), codec=EDEN, dtype=dtype)


def entropy_coded_eden(ecuq: EcuqPayload | None = None) -> EdenPayload:
    """Return EDEN's payload with words of ECUQ, by default 16 coordinates at two levels."""
    default = EcuqPayload(
        levels=uniform_levels(-2, 2), directory=stream_sizes(2), blocks=b"\x0f\x35"
    )
    return EdenPayload(mode=1, width=0, words=(ecuq or default).payload())
