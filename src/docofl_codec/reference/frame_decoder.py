"""A second decoder for the frame format, in the order of ``docs/format.md``.

Slow and plain: it reads every field as the specification states it and refuses, with a
`ValueError`, whatever the specification says MUST NOT be. Use it to check other decoders.
"""

import dataclasses
import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import eden
from .bits import BitReader, ByteReader, unpack_fields
from .checksum import frame_checksum
from .ecuq import is_narrow, reconstruct
from .huffman import PrefixDecoder, read_width
from .rans import decode_rans_payload

Values = NDArray[np.floating[Any]]

MAGIC = b"\xd0\xc0\xf1"
VERSIONS = (1, 2)
SECOND_VERSION = 2
HUFFMAN, RANS = 0, 1
CODECS = ("identity", "ecuq", "eden")
DTYPES = ("float32", "float64", "float16", "bfloat16")
ITEM_BYTES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2}
# The least magnitude that rounds to an infinity.
OVERFLOW = {
    "float32": math.inf,
    "float64": math.inf,
    "float16": 65520.0,
    "bfloat16": float.fromhex("0x1.ffp127"),
}
LARGEST = {"float16": 65504.0, "bfloat16": float.fromhex("0x1.fep127")}
LARGEST_FLOAT32 = float.fromhex("0x1.fffffep127")

MAX_ROTATED_LEVEL = 2.0**64  # sums of a block's levels must stay finite
MAX_LEVELS = 2**30
MAX_ALPHABET = 256
MAX_DISPLACED = 16
MAX_DISPLACEMENT = 32  # half a step
MAX_CODE_LENGTH = 16
MAX_TABLES = 16
BLOCK = 65_536
LOCAL_BLOCKS = (14, 15, 16)  # exponents, where blocks choose among code tables
MIN_BLOCK_OF_FOUR_STREAMS = 4_096


@dataclass(frozen=True)
class _Layout:
    """Section 3: how code words are made of levels."""

    tuple_size: int
    raw_bits: int
    coded_levels: int
    base: int = 0

    @property
    def alphabet(self) -> int:
        return int(self.coded_levels**self.tuple_size)

    def in_window(self, level: int) -> bool:
        return 0 <= level - self.base < self.coded_levels << self.raw_bits


@dataclass(frozen=True)
class _Levels:
    """Section 3.1: what the levels mean."""

    explicit: NDArray[np.float32] | None  # the values themselves; None for uniform levels
    x_min: float
    x_max: float
    num_levels: int
    displacements: dict[int, int]  # of levels that do not lie at the centres of their bins

    def values(
        self, levels: NDArray[np.int64], displaced: NDArray[np.bool_]
    ) -> NDArray[np.float32]:
        """Return what levels stand for; `displaced` where they may lie beside their centres."""
        if self.explicit is not None:
            return self.explicit[levels]
        shifts = np.zeros(levels.shape, np.int64)
        for level, displacement in self.displacements.items():
            shifts[displaced & (levels == level)] = displacement
        return reconstruct(levels, self.num_levels, self.x_min, self.x_max, shifts)


@dataclass(frozen=True)
class _Table:
    """Section 3.2: a layout with a code."""

    layout: _Layout
    code: PrefixDecoder | None  # None where there is but one code word, of no bits


@dataclass(frozen=True)
class _Block:
    """Section 3.3: one entry of the directory."""

    size: int
    stream_bytes: tuple[int, ...]
    num_outliers: int
    table: _Table


def decode_frame(blob: bytes) -> tuple[Values, dict[str, Any]]:
    """Decode a frame (section 1).

    Parameters
    ----------
    blob : bytes
        One frame.

    Returns
    -------
    values : ndarray
        The tensor, in its dtype and shape; bfloat16 values come as float32.
    info : dict
        The fields of the header and, for ECUQ and EDEN, the parameters of sections 3 and 4.

    Raises
    ------
    ValueError
        When the frame is not valid, or of a kind that its version does not have.
    """
    reader = ByteReader(blob)
    _check(reader.take(3, "magic") == MAGIC, "magic: not a frame")
    version = reader.byte("version")
    _check(version in VERSIONS, f"version is {version}, expected 1 or 2")
    codec_id = reader.byte("codec")
    _check(codec_id < len(CODECS), f"codec {codec_id} is not supported")
    dtype_id = reader.byte("dtype")
    _check(dtype_id < len(DTYPES), f"dtype {dtype_id} is unknown")
    flags = reader.byte("flags")
    _check(flags & 0xF0 == 0, f"flags {flags:#04x}: unknown critical flag")
    ndim = reader.byte("ndim")
    _check(ndim <= 32, f"ndim is {ndim}, expected at most 32")
    shape = tuple(reader.varint("dims") for _ in range(ndim))
    codec, dtype = CODECS[codec_id], DTYPES[dtype_id]
    extent = math.prod(dim for dim in shape if dim > 0) * ITEM_BYTES[dtype]
    _check(extent < 1 << 62, f"dims {shape} are too large")
    payload_bytes = reader.varint("payload size")
    _check(
        reader.remaining == payload_bytes + 4,
        f"{reader.remaining} bytes follow the payload size, expected {payload_bytes} + 4",
    )
    payload = ByteReader(reader.take(payload_bytes, "payload"))
    (checksum,) = reader.unpack("I", "checksum")
    _check(checksum == frame_checksum(blob[:-4]), "checksum does not match")

    info: dict[str, Any] = {
        "version": version,
        "codec": codec,
        "dtype": dtype,
        "flags": flags,
        "shape": shape,
        "payload_bytes": payload_bytes,
    }
    n = math.prod(shape)
    if codec == "identity":
        values = _decode_identity(payload, n, dtype)
    else:
        if codec == "ecuq":
            largest = LARGEST.get(dtype, LARGEST_FLOAT32)
            decoded, parameters = _decode_ecuq(payload, n, OVERFLOW[dtype], version, largest)
        else:
            decoded, parameters = _decode_eden(payload, n)
        values = _convert(decoded, dtype)
        info.update(parameters)
    _check(payload.remaining == 0, f"payload: {payload.remaining} bytes too many")
    return values.reshape(shape), info


def decode_eden_payload(payload: bytes, size: int) -> tuple[NDArray[np.float32], dict[str, Any]]:
    """Decode what section 4 describes, without a frame around it.

    Parameters
    ----------
    payload : bytes
        The payload.
    size : int
        n, the number of coordinates.

    Returns
    -------
    values : ndarray of float32
        A flat vector.
    info : dict
        The fields before the words; in mode 1, those of section 3 too, as ``ecuq``.

    Raises
    ------
    ValueError
        When the payload is not valid.
    """
    reader = ByteReader(payload)
    values, info = _decode_eden(reader, size)
    _check(reader.remaining == 0, f"payload: {reader.remaining} bytes too many")
    return values, info


def _decode_identity(payload: ByteReader, n: int, dtype: str) -> Values:
    """Section 2."""
    data = payload.take(n * ITEM_BYTES[dtype], "values")
    values: Values
    if dtype == "bfloat16":
        values = (np.frombuffer(data, "<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)
    else:
        values = np.frombuffer(data, np.dtype(dtype).newbyteorder("<")).astype(dtype)
    _check(bool(np.isfinite(values).all()), "values: not all are finite")
    return values


def _decode_ecuq(
    payload: ByteReader,
    n: int,
    overflow: float,
    version: int = 1,
    largest: float = LARGEST_FLOAT32,
) -> tuple[NDArray[np.float32], dict[str, Any]]:
    """Section 3; values of `overflow` and more are infinite in the frame's dtype."""
    if n == 0:
        return np.empty(0, np.float32), {}
    coder = payload.byte("coder")
    if coder == RANS and version >= SECOND_VERSION:
        return decode_rans_payload(payload, n, overflow, largest)
    _check(coder == HUFFMAN, f"coder {coder} is not supported")
    mode = payload.byte("mode")
    modes = (0, 1, 2) if version < SECOND_VERSION else (0, 1, 2, 4, 6, 8, 10, 12, 14)
    _check(mode in modes, f"mode is {mode:#04x}, expected one of {modes}")
    layout = _read_layout(payload, may_have_raw_bits=mode & 5 == 0)
    (entropy,) = payload.unpack("f", "entropy")
    _check(math.isfinite(entropy) and entropy >= 0, f"entropy is {entropy}")

    levels, layout = _read_levels(payload, mode, layout)
    _check(-overflow < levels.x_min <= levels.x_max < overflow, "levels: beyond the frame's dtype")
    tables, block_size = _read_tables(payload, mode, levels, layout)
    directory = _read_directory(payload, n, block_size, mode, tables)
    blocks = [_read_block(payload, block, levels) for block in directory]

    return np.concatenate(blocks), {
        "entropy": entropy,
        "explicit_levels": levels.explicit is not None,
        "centroids": bool(mode & 4),
        "num_tables": len(tables),
        "num_levels": levels.num_levels,
        "coded_levels": layout.coded_levels,
        "tuple_size": layout.tuple_size,
        "raw_bits": layout.raw_bits,
        "base": layout.base,
        "x_min": levels.x_min,
        "x_max": levels.x_max,
        "num_outliers": sum(block.num_outliers for block in directory),
    }


def _read_layout(payload: ByteReader, *, may_have_raw_bits: bool) -> _Layout:
    """Section 3: the fields before the entropy; the base comes later."""
    tuple_size = payload.byte("tuple size")
    _check(tuple_size in (1, 2, 4, 6), f"tuple size is {tuple_size}, expected 1, 2, 4 or 6")
    raw_bits = payload.byte("raw bits")
    _check(raw_bits <= 24, f"raw bits is {raw_bits}, expected at most 24")
    _check(
        raw_bits == 0 or (tuple_size == 1 and may_have_raw_bits),
        "raw bits go with single coordinates and centres of uniform levels only",
    )
    coded_levels = payload.byte("W - 1") + 1
    _check(coded_levels**tuple_size <= MAX_ALPHABET, "alphabet: W^t exceeds 256")
    _check(coded_levels > 1 or tuple_size == 1, "tuple size must be 1 where W is 1")
    return _Layout(tuple_size, raw_bits, coded_levels)


def _with_base(layout: _Layout, base: int, num_levels: int) -> _Layout:
    last = base + ((layout.coded_levels - 1) << layout.raw_bits)
    _check(last < num_levels, f"coded window reaches level {last}, beyond K = {num_levels}")
    return dataclasses.replace(layout, base=base)


def _read_levels(payload: ByteReader, mode: int, layout: _Layout) -> tuple[_Levels, _Layout]:
    """Section 3.1: the levels, and the layout with its base."""
    coded_levels = layout.coded_levels
    if mode == 1:
        explicit = np.frombuffer(payload.take(4 * coded_levels, "levels"), "<f4").astype(np.float32)
        _check(bool(np.isfinite(explicit).all()), "levels: not all are finite")
        ordered = [(value, not np.signbit(value)) for value in explicit.tolist()]
        increasing = all(a < b for a, b in itertools.pairwise(ordered))
        _check(increasing, "levels: not strictly increasing")
        x_min, x_max = ordered[0][0], ordered[-1][0]
        return _Levels(explicit, x_min, x_max, coded_levels, {}), layout

    x_min, x_max, num_levels, base = payload.unpack("ffII", "levels")
    _check(math.isfinite(x_min) and math.isfinite(x_max), "x_min, x_max: not finite")
    _check(x_min < x_max, f"x_min is {x_min}, expected below x_max, {x_max}")
    _check(1 <= num_levels <= MAX_LEVELS, f"K is {num_levels}, expected 1 to {MAX_LEVELS}")
    layout = _with_base(layout, base, num_levels)
    displacements = {}
    if mode & 4:
        _check(is_narrow(num_levels, x_min, x_max), "displaced levels: the grid is not narrow")
        first, count = payload.byte("first displaced"), payload.byte("displaced") + 1
        _check(count <= MAX_DISPLACED, f"{count} displaced levels, expected at most 16")
        _check(first + count <= coded_levels, "displaced levels: not all are coded")
        for level, displacement in enumerate(payload.unpack(f"{count}b", "displacements"), first):
            _check(abs(displacement) <= MAX_DISPLACEMENT, "displacement beyond its bin")
            displacements[base + level] = displacement
    return _Levels(None, x_min, x_max, num_levels, displacements), layout


def _read_tables(
    payload: ByteReader, mode: int, levels: _Levels, first: _Layout
) -> tuple[list[_Table], int]:
    """Section 3.2: the code table, or several with layouts of their own; the size of blocks."""
    count, block_size = 1, BLOCK
    if mode & 8:
        count = payload.byte("T - 1") + 1
        _check(2 <= count <= MAX_TABLES, f"{count} code tables, expected 2 to {MAX_TABLES}")
        exponent = payload.byte("block size")
        _check(exponent in LOCAL_BLOCKS, f"block size is 2^{exponent}, expected 2^14 to 2^16")
        block_size = 1 << exponent
    tables = []
    for number in range(count):
        layout = first
        if number > 0:
            layout = _read_layout(payload, may_have_raw_bits=True)
            (base,) = payload.unpack("I", "base")
            layout = _with_base(layout, base, levels.num_levels)
        lengths = _read_code_table(payload, layout.alphabet) if layout.alphabet > 1 else None
        tables.append(_Table(layout, None if lengths is None else PrefixDecoder(lengths)))
    return tables, block_size


def _read_code_table(payload: ByteReader, alphabet: int) -> list[int]:
    """Section 3.2: the lengths of the code words."""
    reader = BitReader(payload.peek(2 * alphabet))  # a valid entry has at most 11 bits
    lengths: list[int] = []
    previous = 4
    for symbol in range(alphabet):
        what = f"code table: length of symbol {symbol}"
        previous = read_width(reader, previous, MAX_CODE_LENGTH, what)
        lengths.append(previous)
    payload.take(reader.finish("code table"), "code table")
    return lengths


def _read_directory(
    payload: ByteReader, n: int, block_size: int, mode: int, tables: list[_Table]
) -> list[_Block]:
    """Section 3.3."""
    directory = []
    for start in range(0, n, block_size):
        size = min(block_size, n - start)
        num_streams = 4 if size >= MIN_BLOCK_OF_FOUR_STREAMS else 1
        stream_bytes = payload.unpack(f"{num_streams}H", "directory")
        (num_outliers,) = payload.unpack("I", "directory") if mode & 2 else (0,)
        choice = payload.byte("directory") if mode & 8 else 0
        _check(choice < len(tables), f"directory: table {choice} of {len(tables)}")
        table = tables[choice]
        _check(table.code is not None or not any(stream_bytes), "directory: stream of empty words")
        _check(num_outliers <= size, "directory: more outliers than coordinates")
        directory.append(_Block(size, stream_bytes, num_outliers, table))
    return directory


def _read_block(payload: ByteReader, block: _Block, levels: _Levels) -> NDArray[np.float32]:
    """Section 3.4: the values of one block."""
    layout, code = block.table.layout, block.table.code

    # 1. Streams.
    num_words = -(-block.size // layout.tuple_size)
    num_streams = len(block.stream_bytes)
    quota = -(-num_words // num_streams)
    symbols: list[int] = []
    for stream_bytes in block.stream_bytes:
        data = payload.take(stream_bytes, "stream")
        count = min(quota, num_words - len(symbols))
        if code is None:
            symbols += [0] * count
            continue
        reader = BitReader(data)
        symbols += [code.read(reader) for _ in range(count)]
        used = reader.finish("stream")
        _check(used == stream_bytes, f"stream: words end in byte {used} of {stream_bytes}")

    place = layout.coded_levels ** np.arange(layout.tuple_size - 1, -1, -1, dtype=np.int64)
    digits = np.array(symbols, np.int64)[:, np.newaxis] // place % layout.coded_levels
    coded = digits.ravel()
    _check(not coded[block.size :].any(), "stream: last tuple is not completed with level 0")
    coded = coded[: block.size]

    # 2. Raw bits.
    data = payload.take(-(-block.size * layout.raw_bits // 8), "raw bits")
    raw = unpack_fields(data, block.size, layout.raw_bits)
    level = layout.base + (coded << layout.raw_bits) + raw
    result: NDArray[np.int64] = np.minimum(level, levels.num_levels - 1)

    # 3. Outliers.
    previous = -1
    displaced = np.full(block.size, layout.raw_bits == 0)
    for _ in range(block.num_outliers):
        position, outlier = payload.unpack("HI", "outlier")
        _check(previous < position < block.size, f"outlier: position {position} is out of order")
        _check(outlier < levels.num_levels, f"outlier: level {outlier} is not below K")
        _check(not layout.in_window(outlier), f"outlier: level {outlier} is in the coded window")
        result[position] = outlier
        displaced[position] = False
        previous = position
    return levels.values(result, displaced)


def _decode_eden(payload: ByteReader, n: int) -> tuple[NDArray[np.float32], dict[str, Any]]:
    """Section 4."""
    if n == 0:
        return np.empty(0, np.float32), {}
    mode = payload.byte("mode")
    _check(mode in (0, 1), f"mode {mode} is not supported")
    width, fraction, bits, seed = payload.unpack("BIfQ", "parameters")
    max_width = eden.MAX_WIDTH if mode == 0 else 0
    _check(width <= max_width, f"width is {width}, expected at most {max_width}")
    _check(width < max_width or fraction == 0, f"wide fraction is {fraction}, expected 0")
    _check(mode == 1 or width + fraction > 0, "width and wide fraction are both 0")
    _check(math.isfinite(bits) and bits > 0, f"bits is {bits}")

    num_rotated = n - n % eden.CHUNK
    num_blocks = num_rotated // eden.MAX_BLOCK + (num_rotated % eden.MAX_BLOCK).bit_count()
    scales = _read_floats(payload, num_blocks, "scales")
    _check(not np.signbit(scales).any(), "scales: some are negative")
    tail = _read_floats(payload, n % eden.CHUNK, "tail")
    info = {
        "mode": mode,
        "width": width,
        "fraction": fraction,
        "bits": bits,
        "seed": seed,
        "scales": scales.tolist(),
    }

    if mode == 1:
        levels, info["ecuq"] = _decode_ecuq(payload, num_rotated, MAX_ROTATED_LEVEL)
        return eden.restore(levels, scales, tail, seed), info

    words = np.empty(num_rotated, np.uint8)
    start = 0
    for number, size in enumerate(eden.block_sizes(num_rotated)):
        chunks = words[start : start + size].reshape(-1, eden.CHUNK)
        for v, places in eden.chunk_groups(seed, number, len(chunks), width, fraction):
            data = payload.take(2 * v * places.size, "words")
            chunks[places] = eden.unpack_planes(data, v, places.size)
        start += size
    encoded = eden.Encoded(bits, width, fraction, seed, scales, tail, words)
    return eden.decode(encoded), info


def _read_floats(payload: ByteReader, count: int, what: str) -> NDArray[np.float32]:
    values = np.frombuffer(payload.take(4 * count, what), "<f4").astype(np.float32)
    _check(bool(np.isfinite(values).all()), f"{what}: not all are finite")
    return values


def _convert(values: NDArray[np.float32], dtype: str) -> Values:
    """Round to the frame's dtype, to nearest, ties to even, and to no infinity (section 4.4)."""
    if dtype in LARGEST:
        largest = np.float32(LARGEST[dtype])
        values = np.clip(values, -largest, largest)
    if dtype == "bfloat16":
        pattern = values.view(np.uint32).astype(np.uint64)
        rounded = (pattern + 0x7FFF + (pattern >> 16 & 1)) >> 16 << 16
        return rounded.astype(np.uint32).view(np.float32)
    return values.astype(dtype)


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
