"""The second decoder of docs/format.md, on frames put together by hand."""

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from docofl_codec.reference import decode_frame, frame_checksum, xxh64

FLOAT32, FLOAT64, FLOAT16, BFLOAT16 = range(4)
IDENTITY, ECUQ = range(2)

# Bytes that were written down, not computed ------------------------------------------------------

IDENTITY_FRAME = bytes.fromhex(
    "D0C0F1 01 00 00 01 01"  # magic, version, identity, float32, from torch, ndim
    "02 08 0000C03F 000000C0"  # dims, payload size, values
    "0401E283"  # checksum
)
ECUQ_FRAME = bytes.fromhex(
    "D0C0F1 01 01 00 00 01"  # magic, version, ECUQ, float32, flags, ndim
    "04 1D"  # dims, payload size
    "00 00 01 00 01 0000803F"  # coder, mode, t, r, W - 1, entropy
    "00000000 0000803F 02000000 00000000"  # x_min, x_max, K, base
    "3C"  # lengths 1, 1: differences -3, 0: bits 00111, 1
    "0100"  # one stream of one byte
    "06"  # words 0, 1, 1, 0
    "1B2C71B6"  # checksum
)


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_xxh64(data: bytes, digest: int) -> None:
    assert xxh64(data) == digest


def test_checksum_is_over_digests_of_pieces() -> None:
    data = bytes(262_144) + b"tail"
    digests = struct.pack("<QQ", xxh64(bytes(262_144)), xxh64(b"tail"))
    assert frame_checksum(data) == xxh64(digests) & 0xFFFFFFFF


def test_identity_frame() -> None:
    values, info = decode_frame(IDENTITY_FRAME)
    assert values.dtype == np.float32
    assert values.tolist() == [1.5, -2.0]
    assert (info["codec"], info["dtype"], info["shape"], info["flags"]) == (
        "identity",
        "float32",
        (2,),
        1,
    )


def test_ecuq_frame() -> None:
    values, info = decode_frame(ECUQ_FRAME)
    assert values.dtype == np.float32
    assert values.tolist() == [0.25, 0.75, 0.75, 0.25]
    assert (info["num_levels"], info["entropy"], info["explicit_levels"]) == (2, 1.0, False)


@pytest.mark.parametrize("blob", [IDENTITY_FRAME, ECUQ_FRAME])
def test_truncated_or_extended_frames_are_refused(blob: bytes) -> None:
    for end in range(len(blob)):
        with pytest.raises(ValueError, match=r"truncated|follow the payload size"):
            decode_frame(blob[:end])
    with pytest.raises(ValueError, match="follow the payload size"):
        decode_frame(blob + b"\0")


@pytest.mark.parametrize("blob", [IDENTITY_FRAME, ECUQ_FRAME])
def test_checksum_is_verified(blob: bytes) -> None:
    for place in range(10, len(blob)):
        altered = blob[:place] + bytes([blob[place] ^ 1]) + blob[place + 1 :]
        with pytest.raises(ValueError, match="checksum"):
            decode_frame(altered)


# A writer of frames, right or wrong --------------------------------------------------------------


def varint(value: int) -> bytes:
    groups = []
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def frame(
    payload: bytes,
    dims: Sequence[int | bytes],
    codec: int = ECUQ,
    dtype: int = FLOAT32,
    *,
    prefix: bytes = b"\xd0\xc0\xf1\x01",
    flags: int = 0,
) -> bytes:
    """Put a frame together; ``dims`` are numbers, or bytes as they stand in the frame."""
    encoded_dims = b"".join(dim if isinstance(dim, bytes) else varint(dim) for dim in dims)
    body = prefix + bytes([codec, dtype, flags, len(dims)]) + encoded_dims
    body += varint(len(payload)) + payload
    return body + struct.pack("<I", frame_checksum(body))


def pack(bits: str) -> bytes:
    """Turn a string of bits into bytes, filled from the least significant bit."""
    octets = [bits[start : start + 8] for start in range(0, len(bits), 8)]
    return bytes(int(octet[::-1], 2) for octet in octets)


def table(lengths: Iterable[int]) -> bytes:
    """Write code lengths as in section 3.2."""
    bits, previous = "", 4
    for length in lengths:
        difference, previous = length - previous, length
        v = 2 * difference - 1 if difference > 0 else -2 * difference
        z = (v + 1).bit_length() - 1
        low_bits = f"{v + 1:b}"[1:]
        bits += "0" * z + "1" + low_bits[::-1]
    return pack(bits)


def words(symbols: Iterable[int], codes: Mapping[int, str] | Sequence[str]) -> bytes:
    """Write symbols whose code words are given as strings."""
    return pack("".join(codes[symbol] for symbol in symbols))


def parameters(
    coder: int = 0, mode: int = 0, t: int = 1, r: int = 0, w: int = 2, entropy: float = 1.0
) -> bytes:
    return struct.pack("<5Bf", coder, mode, t, r, w - 1, entropy)


def uniform(x_min: float = 0.0, x_max: float = 1.0, num_levels: int = 2, base: int = 0) -> bytes:
    return struct.pack("<ffII", x_min, x_max, num_levels, base)


def sizes(*stream_bytes: int) -> bytes:
    return struct.pack(f"<{len(stream_bytes)}H", *stream_bytes)


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


ONE_BIT = table([1, 1])


def decoded(payload: bytes, dims: Sequence[int]) -> Any:
    return decode_frame(frame(payload, dims))[0].tolist()


# Section 1: frame --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dims", "header", "message"),
    [
        ([1], {"prefix": b"\xd0\xc0\xf0\x01"}, "magic"),
        ([1], {"prefix": b"\xd0\xc0\xf1\x00"}, "version"),
        ([1], {"prefix": b"\xd0\xc0\xf1\x03"}, "version"),
        ([1], {"codec": 3}, "codec"),
        ([1], {"dtype": 4}, "dtype"),
        ([1], {"flags": 0x10}, "critical"),
        ([1], {"flags": 0x80}, "critical"),
        ([1] * 33, {}, "ndim"),
        ([b"\x81\x00"], {}, "not minimal"),
        ([b"\x80\x00"], {}, "not minimal"),
        ([b"\x80" * 9 + b"\x02"], {}, "64 bits"),
        ([b"\x80" * 10 + b"\x01"], {}, "64 bits"),
        ([1 << 60], {}, "too large"),
        ([0, 1 << 60], {}, "too large"),
        ([1 << 32, 1 << 32], {}, "too large"),
        ([2], {}, "truncated"),
        ([0], {}, "too many"),
    ],
)
def test_header_is_refused(
    dims: Sequence[int | bytes], header: dict[str, Any], message: str
) -> None:
    blob = frame(floats(1.0), dims, **{"codec": IDENTITY, **header})
    with pytest.raises(ValueError, match=message):
        decode_frame(blob)


@pytest.mark.parametrize("dims", [[], [1] * 32, [1, 1]])
def test_shape_of_one_value(dims: list[int]) -> None:
    values, _ = decode_frame(frame(floats(3.0), dims, IDENTITY, flags=0x0F))
    assert values.shape == tuple(dims)
    assert values.item() == 3.0


@pytest.mark.parametrize("codec", [IDENTITY, ECUQ])
def test_empty_tensor(codec: int) -> None:
    values, _ = decode_frame(frame(b"", [3, 0, 1 << 40], codec))
    assert values.shape == (3, 0, 1 << 40)
    with pytest.raises(ValueError, match="too many"):
        decode_frame(frame(b"\0", [0], codec))


# Section 2: identity -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "layout", "numpy_dtype"),
    [(FLOAT32, "<f4", "f4"), (FLOAT64, "<f8", "f8"), (FLOAT16, "<f2", "f2")],
)
def test_identity_dtypes(dtype: int, layout: str, numpy_dtype: str) -> None:
    expected = np.array([[-0.0, 1.1], [0.1, -7.7]], layout)
    values, _ = decode_frame(frame(expected.tobytes(), [2, 2], IDENTITY, dtype))
    assert values.dtype == numpy_dtype
    assert values.tobytes() == expected.astype(numpy_dtype).tobytes()
    with pytest.raises(ValueError, match="finite"):
        decode_frame(frame(np.array([np.inf], layout).tobytes(), [1], IDENTITY, dtype))


def test_identity_bfloat16_comes_as_float32() -> None:
    values, info = decode_frame(frame(b"\x80\x3f\x49\xc0", [2], IDENTITY, BFLOAT16))
    assert values.dtype == np.float32
    assert values.tolist() == [1.0, -3.140625]
    assert info["dtype"] == "bfloat16"
    with pytest.raises(ValueError, match="finite"):
        decode_frame(frame(b"\xc0\x7f", [1], IDENTITY, BFLOAT16))


# Section 3: parameters and levels ----------------------------------------------------------------

REST = ONE_BIT + sizes(1) + b"\x02"  # of a frame of two coordinates with levels 0, 1


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"", "truncated"),
        (parameters(coder=1) + uniform() + REST, "coder"),
        (parameters(mode=3) + uniform() + REST, "mode"),
        (parameters(mode=4) + uniform() + REST, "mode"),
        (parameters(t=0) + uniform() + REST, "tuple size"),
        (parameters(t=7) + uniform() + REST, "tuple size"),
        (parameters(r=25) + uniform(num_levels=2**30) + REST, "raw bits is 25"),
        (parameters(t=2, r=1) + uniform(num_levels=4) + REST, "raw bits"),
        (parameters(mode=1, r=1) + floats(0, 1) + REST, "raw bits"),
        (parameters(w=17, t=2) + uniform(num_levels=17) + REST, "alphabet"),
        (parameters(w=1, t=2) + uniform() + sizes(0), "tuple size"),
        (parameters(entropy=-1.0) + uniform() + REST, "entropy"),
        (parameters(entropy=math.nan) + uniform() + REST, "entropy"),
        (parameters(entropy=math.inf) + uniform() + REST, "entropy"),
        (parameters() + uniform(x_min=math.nan) + REST, "finite"),
        (parameters() + uniform(x_max=math.inf) + REST, "finite"),
        (parameters() + uniform(x_min=2.0) + REST, "below x_max"),
        (parameters() + uniform(x_min=1.0) + REST, "below x_max"),
        (parameters() + uniform(num_levels=0) + REST, "K is 0"),
        (parameters() + uniform(num_levels=2**30 + 1) + REST, "K is"),
        (parameters() + uniform(base=1) + REST, "window"),
        (parameters(r=1) + uniform() + REST, "window"),
        (parameters(mode=1) + floats(0, math.inf) + REST, "finite"),
        (parameters(mode=1) + floats(1, 1) + REST, "increasing"),
        (parameters(mode=1) + floats(0.0, -0.0) + REST, "increasing"),
        (parameters() + uniform() + REST + b"\0", "too many"),
    ],
)
def test_parameters_are_refused(payload: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode_frame(frame(payload, [2]))


def test_the_frame_those_were_derived_from_is_good() -> None:
    assert decoded(parameters() + uniform() + REST, [2]) == [0.25, 0.75]


@pytest.mark.parametrize(
    ("t", "r", "num_levels", "entropy"), [(6, 0, 2, 0.0), (1, 24, 2**30, 9.0), (1, 0, 2**30, 1.0)]
)
def test_extreme_parameters_are_accepted(t: int, r: int, num_levels: int, entropy: float) -> None:
    payload = parameters(t=t, r=r, entropy=entropy) + uniform(0, num_levels, num_levels)
    payload += table([t] * 2**t) + sizes(1) + pack("0" * t) + bytes(-(-r // 8))
    assert decoded(payload, [1]) == [0.5]


def test_one_uniform_level() -> None:
    payload = parameters(w=1) + uniform(2.0, 4.0, num_levels=1) + sizes(0)
    assert decoded(payload, [2]) == [3.0, 3.0]


def test_explicit_levels() -> None:
    payload = parameters(mode=1) + floats(-0.0, 0.0) + REST
    values, info = decode_frame(frame(payload, [2]))
    assert np.signbit(values).tolist() == [True, False]
    assert (info["explicit_levels"], info["num_levels"]) == (True, 2)
    assert np.signbit([info["x_min"], info["x_max"]]).tolist() == [True, False]


@pytest.mark.parametrize(
    ("dtype", "numpy_dtype", "expected"),
    [
        (FLOAT64, "f8", [float(np.float32(0.1)), 1.00390625, 1.01171875]),
        (FLOAT16, "f2", [float(np.float16(0.1)), 1.00390625, 1.01171875]),
        (BFLOAT16, "f4", [0.10009765625, 1.0, 1.015625]),  # the last two are ties
    ],
)
def test_values_are_converted_to_the_dtype_of_the_frame(
    dtype: int, numpy_dtype: str, expected: list[float]
) -> None:
    payload = parameters(mode=1, w=3) + floats(0.1, 1.00390625, 1.01171875)
    payload += table([1, 2, 2]) + sizes(1) + pack("0" + "10" + "11")
    values, _ = decode_frame(frame(payload, [3], dtype=dtype))
    assert values.dtype == numpy_dtype
    assert values.tolist() == expected


# Section 3.2: code table -------------------------------------------------------------------------


def test_code_is_canonical() -> None:
    lengths = [3, 1, 0, 3, 2]
    codes = {0: "110", 1: "0", 3: "111", 4: "10"}
    symbols = [0, 1, 3, 4, 4, 3, 1, 0]
    stream = words(symbols, codes)
    payload = parameters(mode=1, w=5) + floats(0, 1, 2, 3, 4) + table(lengths)
    assert decoded(payload + sizes(len(stream)) + stream, [8]) == symbols


def test_exp_golomb_fields_have_their_least_significant_bit_first() -> None:
    lengths = pack("00110" + "1" + "1" + "1")  # 2, 2, 2, 2: -2 is v = 4, v + 1 = 0b101
    payload = parameters(mode=1, w=4) + floats(0, 1, 2, 3) + lengths
    assert decoded(payload + sizes(1) + pack("00011011"), [4]) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("code_table", "message"),
    [
        (table([1, 2, 0, 0]), "complete"),
        (table([1, 1, 1, 0]), "complete"),
        (table([1, 0, 0, 0]), "complete"),
        (table([0, 0, 0, 0]), "complete"),
        (table([17, 1, 1, 1]), "length of symbol 0 is 17"),
        (table([1, -1, 1, 1]), "length of symbol 1 is -1"),
        (pack("00111" + "010" + "010" + "1" + "0001"), "padding"),  # 1, 2, 3, 3
        (bytes(8), "truncated"),
    ],
)
def test_code_table_is_refused(code_table: bytes, message: str) -> None:
    payload = parameters(mode=1, w=4) + floats(0, 1, 2, 3) + code_table + sizes(1) + b"\0"
    with pytest.raises(ValueError, match=message):
        decode_frame(frame(payload, [2]))


def test_largest_alphabets() -> None:
    code_table = table([8] * 256)
    bytes_of_words = sizes(1) + pack(f"{0xC5:08b}")
    singles = parameters(mode=1, w=256) + floats(*range(256)) + code_table
    assert decoded(singles + bytes_of_words, [1]) == [0xC5]
    pairs = parameters(mode=1, w=16, t=2) + floats(*range(16)) + code_table
    assert decoded(pairs + bytes_of_words, [2]) == [0xC, 0x5]


def test_longest_code() -> None:
    lengths = [*range(1, 17), 16]
    codes = ["1" * symbol + "0" for symbol in range(16)] + ["1" * 16]
    stream = words(range(17), codes)
    payload = parameters(mode=1, w=17) + floats(*range(17)) + table(lengths)
    assert decoded(payload + sizes(len(stream)) + stream, [17]) == list(range(17))


# Sections 3.3 and 3.4: directory and blocks ------------------------------------------------------


def test_one_level_takes_no_bits_and_no_table() -> None:
    payload = parameters(mode=1, w=1) + floats(2.5)
    assert decoded(payload + sizes(0), [3]) == [2.5] * 3
    with pytest.raises(ValueError, match="empty words"):
        decode_frame(frame(payload + sizes(1) + b"\0", [3]))


def test_directory_bounds_the_number_of_coordinates() -> None:
    with pytest.raises(ValueError, match="directory"):
        decode_frame(frame(parameters(mode=1, w=1) + floats(2.5) + sizes(0), [1 << 59]))


TUPLES = parameters(mode=1, t=2) + floats(0, 1) + table([2] * 4)


def test_first_coordinate_of_a_tuple_is_the_most_significant() -> None:
    assert decoded(TUPLES + sizes(1) + pack("0110"), [3]) == [0, 1, 1]


def test_tuple_completed_with_another_level_is_refused() -> None:
    with pytest.raises(ValueError, match="completed"):
        decode_frame(frame(TUPLES + sizes(1) + pack("0111"), [3]))


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (b"", "truncated"),
        (pack("01000000" + "0"), "end in byte 1 of 2"),
        (pack("010"), None),
        (pack("0101"), "padding"),
    ],
)
def test_stream_must_be_filled_by_its_words(stream: bytes, message: str | None) -> None:
    blob = frame(parameters() + uniform() + ONE_BIT + sizes(len(stream)) + stream, [3])
    if message is None:
        decode_frame(blob)
    else:
        with pytest.raises(ValueError, match=message):
            decode_frame(blob)


def test_raw_bits() -> None:
    payload = parameters(r=3) + uniform(0, 20, 20, base=5) + ONE_BIT
    payload += sizes(1) + pack("0110") + pack("100" + "001" + "111" + "000")
    # base + (j << r) + raw: 5 + 1, 13 + 4, 13 + 7 read as K - 1, 5 + 0
    assert decoded(payload, [4]) == [6.5, 17.5, 19.5, 5.5]
    assert payload[-1] == 0b0000_0001
    with pytest.raises(ValueError, match="padding"):
        decode_frame(frame(payload[:-1] + b"\x11", [4]))


def test_raw_bits_alone() -> None:
    raw = [7, 255, *range(20)]
    payload = parameters(w=1, r=8) + uniform(0, 256, 256) + sizes(0) + bytes(raw)
    assert decoded(payload, [len(raw)]) == [level + 0.5 for level in raw]


def outliers(*pairs: tuple[int, int], count: int | None = None) -> bytes:
    """Write a frame of three coordinates with window 4 … 5 of ten levels, and outliers."""
    payload = parameters(mode=2) + uniform(0, 10, 10, base=4) + ONE_BIT + sizes(1)
    payload += struct.pack("<I", len(pairs) if count is None else count) + pack("010")
    return frame(payload + b"".join(struct.pack("<HI", *pair) for pair in pairs), [3])


def test_outliers() -> None:
    values, info = decode_frame(outliers((0, 3), (2, 6)))
    assert values.tolist() == [3.5, 5.5, 6.5]
    assert info["num_outliers"] == 2
    assert decode_frame(outliers((0, 0), (1, 9), (2, 0)))[0].tolist() == [0.5, 9.5, 0.5]
    assert decode_frame(outliers())[0].tolist() == [4.5, 5.5, 4.5]


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        (outliers((1, 0), (1, 0)), "out of order"),
        (outliers((2, 0), (1, 0)), "out of order"),
        (outliers((3, 0)), "out of order"),
        (outliers((0, 10)), "not below K"),
        (outliers((0, 4)), "coded window"),
        (outliers((0, 5)), "coded window"),
        (outliers(count=4), "more outliers"),
        (outliers((0, 0), count=2), "truncated"),
        (outliers((0, 0), count=0), "too many"),
    ],
)
def test_outliers_are_refused(blob: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode_frame(blob)


@pytest.mark.parametrize(
    ("n", "blocks"),
    [
        (4095, [[683]]),
        (4096, [[171, 171, 171, 170]]),
        (65_536 + 4096, [[2731, 2731, 2731, 2730], [171, 171, 171, 170]]),
        (65_536 + 1, [[2731, 2731, 2731, 2730], [1]]),
    ],
)
def test_blocks_and_streams(n: int, blocks: list[list[int]]) -> None:
    """Sixes of two levels; 65,536 coordinates are 10,923 words."""
    levels = np.random.default_rng(n).integers(0, 2, n)
    directory, data = b"", b""
    for start, streams in zip(range(0, n, 65_536), blocks, strict=True):
        block = levels[start : start + 65_536]
        sixes = np.append(block, np.zeros(-block.size % 6, int)).reshape(-1, 6)
        symbols = sixes @ [32, 16, 8, 4, 2, 1]
        parts = np.split(symbols, np.cumsum(streams)[:-1])
        coded = [words(part, [f"{symbol:06b}" for symbol in range(64)]) for part in parts]
        directory += sizes(*map(len, coded))
        data += b"".join(coded)
    payload = parameters(mode=1, t=6) + floats(0, 1) + table([6] * 64) + directory + data
    assert decoded(payload, [n]) == levels.tolist()
