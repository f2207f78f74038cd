"""The layout of a state dict in bytes: sections of values, and an index that says what they are.

docs/format.md, section 10. Reading checks every rule that needs no values.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from docofl_codec.errors import (
    CorruptFrameError,
    InvalidInputError,
    TruncatedFrameError,
    UnsupportedFrameError,
)
from docofl_codec.state_dict.tensors import (
    CODED_DTYPES,
    DTYPE_IDS,
    DTYPES,
    TensorSpec,
    check_shape,
)

__all__ = [
    "HEADER",
    "TRAILER_BYTES",
    "Entry",
    "Index",
    "Section",
    "Store",
    "parse_index",
    "parse_trailer",
    "write_entries",
    "write_index",
]

MAGIC = b"\xd0\xc0\xf2"
VERSION = 1
HEADER = MAGIC + bytes([VERSION])
END = MAGIC[::-1]
TRAILER_BYTES = 8 + 4 + len(END)
FLAG_TORCH = 0x01
FLAG_FLAT = 0x02
CRITICAL = 0xF0
MAX_NAME_BYTES = 65_535
# No stream of DEFLATE says more with a byte.
MAX_INFLATION = 1032

Store = int
EXACT, FLOAT16, BFLOAT16, CODED, ALIAS = range(5)
STORE_NAMES = ("exact", "float16", "bfloat16", "coded", "tied")
RAW, DEFLATED, FRAME = range(3)


@dataclass(frozen=True)
class Section:
    """A run of bytes: raw values, the same deflated, or a frame.

    `num_bytes` is what it takes, `unpacked` what it holds (0 for a frame, which says so itself).
    """

    kind: int
    num_bytes: int
    checksum: int = 0
    unpacked: int = 0


@dataclass(frozen=True)
class Entry:
    """A tensor and where it is: in which section, or which earlier entry it is tied to."""

    spec: TensorSpec
    store: Store
    place: int


@dataclass(frozen=True)
class Index:
    """What a state dict's bytes hold."""

    sections: tuple[Section, ...]
    entries: tuple[Entry, ...]
    from_torch: bool
    flat: bool
    bits: float


# --- writing -------------------------------------------------------------------------------------

_SMALL = [bytes([value]) for value in range(128)]


def _varint(value: int) -> bytes:
    if value < 128:
        return _SMALL[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_name(name: str) -> bytes:
    """Return a name's bytes; refuse what the index cannot hold."""
    try:
        raw = name.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"name {name!r}: found lone surrogates, expected text") from None
    if len(raw) > MAX_NAME_BYTES:
        raise InvalidInputError(
            f"name {name[:40]!r}…: found {len(raw)} bytes, expected at most {MAX_NAME_BYTES}"
        )
    return raw


def write_entries(entries: Sequence[Entry]) -> bytes:
    """Return the part of an index that tells of tensors."""
    parts = [_varint(len(entries))]
    for entry in entries:
        name = encode_name(entry.spec.name)
        parts += [_varint(len(name)), name, _SMALL[entry.store]]
        if entry.store != ALIAS:
            shape = entry.spec.shape
            parts += [_SMALL[DTYPE_IDS[entry.spec.dtype]], _SMALL[len(shape)]]
            parts += [_varint(dim) for dim in shape]
        parts.append(_varint(entry.place))
    return b"".join(parts)


def write_index(index: Index, entries: bytes | None = None) -> bytes:
    """Return the index and the trailer; `entries` is what :func:`write_entries` made of them."""
    flags = FLAG_TORCH * index.from_torch | FLAG_FLAT * index.flat
    parts = [bytes([flags]), struct.pack("<f", index.bits), _varint(len(index.sections))]
    for section in index.sections:
        parts += [bytes([section.kind]), _varint(section.num_bytes)]
        if section.kind != FRAME:
            parts.append(struct.pack("<I", section.checksum))
        if section.kind == DEFLATED:
            parts.append(_varint(section.unpacked))
    parts.append(write_entries(index.entries) if entries is None else entries)
    body = b"".join(parts)
    size = struct.pack("<Q", len(body))
    return body + size + struct.pack("<I", zlib.crc32(body + size)) + END


# --- reading -------------------------------------------------------------------------------------


class _Reader:
    """Takes fields off bytes, never beyond their end."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int, what: str) -> memoryview:
        if size > len(self._data) - self._at:
            raise CorruptFrameError(f"index: ends inside {what}")
        self._at += size
        return self._data[self._at - size : self._at]

    def byte(self, what: str) -> int:
        return self.take(1, what)[0]

    def varint(self, what: str) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self.byte(what)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if (byte == 0 and shift > 0) or value >= 1 << 64:
                    break
                return value
        raise CorruptFrameError(f"index, {what}: found a number that is not minimal or too large")

    def finish(self) -> None:
        if self._at != len(self._data):
            raise CorruptFrameError(
                f"index: found {len(self._data) - self._at} bytes too many at its end"
            )


def parse_trailer(header: bytes, trailer: bytes, total: int) -> int:
    """Return the size of the index of `total` bytes with this beginning and end."""
    if header[:3] != MAGIC[: len(header)]:
        raise CorruptFrameError(f"magic: found {header[:3].hex(' ')}, expected {MAGIC.hex(' ')}")
    if len(header) > 3 and header[3] != VERSION:
        raise UnsupportedFrameError(f"version: found {header[3]}, expected {VERSION}")
    least = len(HEADER) + TRAILER_BYTES
    if total < least:
        raise TruncatedFrameError(f"state dict: found {total} bytes, expected at least {least}")
    if trailer[-3:] != END:
        raise TruncatedFrameError(
            f"end of state dict: found {trailer[-3:].hex(' ')}, expected {END.hex(' ')}"
        )
    size: int = struct.unpack("<Q", trailer[:8])[0]
    if size > total - least:
        raise CorruptFrameError(
            f"size of the index: found {size}, expected at most {total - least}"
        )
    return size


def parse_index(body: bytes, trailer: bytes, total: int) -> Index:
    """Read an index; `total` is the size of header, sections, index and trailer."""
    checksum = struct.unpack("<I", trailer[8:12])[0]
    if zlib.crc32(trailer[:8], zlib.crc32(body)) != checksum:
        raise CorruptFrameError("checksum of the index: does not match its bytes")
    reader = _Reader(memoryview(body))
    flags = reader.byte("flags")
    if flags & CRITICAL:
        raise UnsupportedFrameError(f"flags: found {flags:#x}, which this release does not know")
    bits = struct.unpack("<f", reader.take(4, "bits"))[0]
    if not 0 <= bits <= 64:
        raise CorruptFrameError(f"bits: found {bits}, expected 0 to 64")
    sections = _parse_sections(reader, total - len(HEADER) - len(body) - TRAILER_BYTES)
    entries = _parse_entries(reader, sections)
    reader.finish()
    return Index(sections, entries, bool(flags & FLAG_TORCH), bool(flags & FLAG_FLAT), bits)


def _parse_sections(reader: _Reader, room: int) -> tuple[Section, ...]:
    sections = []
    for number in range(reader.varint("number of sections")):
        what = f"section {number}"
        kind = reader.byte(what)
        num_bytes = reader.varint(what)
        if num_bytes > room:
            raise CorruptFrameError(f"{what}: found {num_bytes} bytes, expected at most {room}")
        room -= num_bytes
        if kind == FRAME:
            sections.append(Section(kind, num_bytes))
            continue
        if kind not in (RAW, DEFLATED):
            raise UnsupportedFrameError(f"{what}: found kind {kind}, which is not known")
        checksum = struct.unpack("<I", reader.take(4, what))[0]
        unpacked = num_bytes
        if kind == DEFLATED:
            unpacked = reader.varint(what)
            if not num_bytes < unpacked <= MAX_INFLATION * num_bytes:
                raise CorruptFrameError(
                    f"{what}: found {unpacked} bytes in {num_bytes}, expected more than that and "
                    f"at most {MAX_INFLATION} times as many"
                )
        sections.append(Section(kind, num_bytes, checksum, unpacked))
    if room:
        raise CorruptFrameError(f"sections: found {room} bytes that belong to none")
    return tuple(sections)


def _parse_entries(reader: _Reader, sections: Sequence[Section]) -> tuple[Entry, ...]:
    entries: list[Entry] = []
    names: set[str] = set()
    filled = [0] * len(sections)
    kinds: list[tuple[bool, str] | None] = [None] * len(sections)
    for number in range(reader.varint("number of tensors")):
        entry = _parse_entry(reader, number, entries)
        name = entry.spec.name
        if name in names:
            raise CorruptFrameError(f"tensor {number}: found the name {name!r} a second time")
        names.add(name)
        entries.append(entry)
        if entry.store == ALIAS:
            continue
        if entry.place >= len(sections):
            raise CorruptFrameError(
                f"tensor {name!r}: found section {entry.place} of {len(sections)}"
            )
        is_coded = entry.store == CODED
        if is_coded != (sections[entry.place].kind == FRAME):
            raise CorruptFrameError(f"tensor {name!r}: its section is not of its kind")
        # A frame has one dtype; raw sections may hold several.
        kind = (is_coded, entry.spec.dtype if is_coded else "")
        if kinds[entry.place] not in (None, kind):
            raise CorruptFrameError(f"tensor {name!r}: found several dtypes in one frame")
        kinds[entry.place] = kind
        filled[entry.place] += 0 if is_coded else stored_bytes(entry)
    for number, section in enumerate(sections):
        if kinds[number] is None:
            raise CorruptFrameError(f"section {number}: holds no tensor")
        if section.kind != FRAME and filled[number] != section.unpacked:
            raise CorruptFrameError(
                f"section {number}: found {section.unpacked} bytes, "
                f"expected the {filled[number]} of its tensors"
            )
    return tuple(entries)


def _parse_entry(reader: _Reader, number: int, earlier: Sequence[Entry]) -> Entry:
    what = f"tensor {number}"
    size = reader.varint(what)
    if size > MAX_NAME_BYTES:
        raise CorruptFrameError(f"{what}: found a name of {size} bytes")
    try:
        name = bytes(reader.take(size, what)).decode()
    except UnicodeDecodeError:
        raise CorruptFrameError(f"{what}: found a name that is not UTF-8") from None
    store = reader.byte(what)
    if store > ALIAS:
        raise UnsupportedFrameError(f"tensor {name!r}: found store {store}, which is not known")
    if store == ALIAS:
        place = reader.varint(what)
        if place >= number or earlier[place].store == ALIAS:
            raise CorruptFrameError(f"tensor {name!r}: tied to no earlier tensor")
        first = earlier[place].spec
        return Entry(TensorSpec(name, first.dtype, first.shape, first.name), store, place)
    dtype = DTYPES.get(reader.byte(what))
    if dtype is None:
        raise UnsupportedFrameError(f"tensor {name!r}: found a dtype that is not known")
    if store != EXACT and dtype not in CODED_DTYPES:
        raise CorruptFrameError(f"tensor {name!r}: found {dtype}, expected it to be exact")
    ndim = reader.byte(what)
    shape = tuple(reader.varint(what) for _ in range(ndim))
    check_shape(f"tensor {name!r}", shape, CorruptFrameError)
    return Entry(TensorSpec(name, dtype, shape), store, reader.varint(what))


def stored_bytes(entry: Entry) -> int:
    """Return the bytes of a tensor in a raw section."""
    return 2 * entry.spec.size if entry.store in (FLOAT16, BFLOAT16) else entry.spec.num_bytes
