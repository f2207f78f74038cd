"""Rows 4, 5 and 20: sizes that the frame's length does not vouch for are refused, not allocated."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from docofl_codec import (
    CodecError,
    CorruptFrameError,
    TruncatedFrameError,
    decode,
    ecuq,
    eden,
    inspect,
)
from tests.helpers.frames import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    IDENTITY,
    EcuqPayload,
    EdenPayload,
    entropy_coded_eden,
    explicit_levels,
    make_frame,
    stream_sizes,
    uniform_levels,
)
from tests.helpers.processes import LIMIT_MEMORY, can_limit_memory, run_python
from tests.helpers.rans_frames import RansPayload, rans_stream, rans_table

ONE_LEVEL = EcuqPayload(mode=1, coded_levels=1, levels=explicit_levels(2.5), table=b"", blocks=b"")
HUGE_SHAPES: list[tuple[int, ...]] = [
    (2**62,),
    (2**59 - 1,),
    (2**40,),
    (2**33,),
    (2**32,),
    (2**31,),
    (2**31, 2**28),
    (2**20, 2**20, 2**19),
    (3, 2**58 // 3),
]
OVERFLOWING_SHAPES: list[tuple[int, ...]] = [
    (2**63,),
    (2**64 - 1,),
    (2**32, 2**32),
    (2**63, 2),
    (2**61, 8),
    (2**16,) * 4,
    (4,) * 32,
    (2**62, 2**2),
    (0, 2**62),
    (2**32, 0, 2**32),
]


def one_level(size: int) -> bytes:
    """Return a frame whose code words have no bits, with a complete directory."""
    whole, rest = divmod(size, 65_536)
    directory = stream_sizes(0, 0, 0, 0) * whole
    if rest:
        directory += stream_sizes(0, 0, 0, 0) if rest >= 4096 else stream_sizes(0)
    payload = EcuqPayload(
        mode=1,
        coded_levels=1,
        levels=explicit_levels(2.5),
        table=b"",
        directory=directory,
        blocks=b"",
    )
    return payload.frame(size)


def next_to_no_words(size: int) -> bytes:
    """Return a frame of EDEN in which one chunk of each block has words."""
    blocks = size // 32_768
    return EdenPayload(
        width=0, fraction=1, scales=(1.0,) * blocks, tail=(), words=bytes(2 * blocks)
    ).frame(size)


@pytest.mark.parametrize("size", [1, 4095, 4096, 65_536, 65_537, 200_000])
def test_a_directory_vouches_for_code_words_without_bits(size: int) -> None:
    x = np.asarray(decode(one_level(size)))
    assert x.shape == (size,)
    assert (x == 2.5).all()


@pytest.mark.parametrize("size", [65_537, 70_000, 2**20, 2**31, 2**32, 2**40, 2**59])
def test_one_symbol_with_a_huge_count(size: int) -> None:
    """Row 4."""
    frame = EcuqPayload(
        mode=1,
        coded_levels=1,
        levels=explicit_levels(2.5),
        table=b"",
        directory=stream_sizes(0, 0, 0, 0),
        blocks=b"",
    ).frame(size)
    with pytest.raises(TruncatedFrameError):
        decode(frame)
    with pytest.raises(TruncatedFrameError):
        inspect(frame)


@pytest.mark.parametrize("blocks", [1, 2, 300])
def test_a_rans_stream_vouches_for_its_block(blocks: int) -> None:
    """Row 4: a directory alone, with streams that are empty or too short for their states."""
    for stream in (b"", bytes(4), bytes(127)):
        frame = RansPayload(stream=stream, num_blocks=blocks).frame(blocks * 131_072)
        for use in (inspect, decode):
            with pytest.raises(CorruptFrameError, match="stream of"):
                use(frame)


def nearly_no_bits(size: int) -> bytes:
    """Return a frame of rANS whose one symbol takes a 3000th of a bit."""
    frequencies = [4095, 1]
    return RansPayload(
        tables=rans_table(frequencies),
        stream=rans_stream(frequencies, [0] * 131_072, lanes=32),
        num_blocks=size // 131_072,
    ).frame(size)


@pytest.mark.parametrize("shape", OVERFLOWING_SHAPES, ids=str)
@pytest.mark.parametrize("codec", [0, 1, 2])
def test_shapes_whose_size_overflows(codec: int, shape: tuple[int, ...]) -> None:
    """Row 5: a product that wraps to 0 is refused."""
    for payload in (b"", bytes(64)):
        frame = make_frame(payload, shape, codec=codec)
        with pytest.raises(CorruptFrameError):
            decode(frame)
        with pytest.raises(CorruptFrameError, match="shape"):
            inspect(frame)


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64, FLOAT16, BFLOAT16])
def test_the_limit_counts_bytes(dtype: int) -> None:
    item = {FLOAT32: 4, FLOAT64: 8, FLOAT16: 2, BFLOAT16: 2}[dtype]
    limit = 2**62 // item
    assert inspect(make_frame(b"", (0, limit - 1), dtype=dtype)).size == 0
    with pytest.raises(CorruptFrameError, match="shape"):
        inspect(make_frame(b"", (0, limit), dtype=dtype))


def test_empty_tensors_with_large_dimensions() -> None:
    """Row 20: they take no memory, so they are decoded like any other."""
    assert decode(make_frame(b"", (2**40, 0, 3))).shape == (2**40, 0, 3)


@pytest.mark.parametrize("size", [2**31, 2**32, 2**33 + 4])
def test_identity_says_what_it_holds(size: int) -> None:
    with pytest.raises(CorruptFrameError):
        inspect(make_frame(bytes(16), (size,), codec=IDENTITY))


def hostile_frames() -> list[bytes]:
    """Return frames of at most 100 bytes that claim gigabytes and more."""
    frames = []
    for shape in HUGE_SHAPES:
        frames.append(make_frame(bytes(60), shape, codec=IDENTITY))
        for dtype in (FLOAT32, FLOAT64, FLOAT16, BFLOAT16):
            frames.append(make_frame(b"", shape, codec=IDENTITY, dtype=dtype))
            frames.append(EcuqPayload().frame(*shape, dtype=dtype))
            frames.append(ONE_LEVEL.frame(*shape, dtype=dtype))
            frames.append(EdenPayload().frame(*shape, dtype=dtype))
            frames.append(EdenPayload(width=0, fraction=1).frame(*shape, dtype=dtype))
            frames.append(EdenPayload(mode=1, width=0, words=b"").frame(*shape, dtype=dtype))
        frames.append(entropy_coded_eden(ONE_LEVEL).frame(*shape))
        frames.append(EcuqPayload(mode=2).frame(*shape))
        wide = uniform_levels(num_levels=2**30)
        frames.append(EcuqPayload(raw_bits=24, levels=wide).frame(*shape))
        for payload in (RansPayload(), RansPayload(mode=1), RansPayload(stream=b"", num_blocks=8)):
            frames.append(payload.frame(*shape))
    frames += [
        make_frame(bytes(20), (2**31,), payload_size=size) for size in (2**31, 2**63, 2**64 - 1)
    ]
    assert all(len(frame) <= 110 for frame in frames)
    return frames


@can_limit_memory
def test_hostile_frames_under_a_memory_limit() -> None:
    """Row 5: `CodecError` before any allocation."""
    frames = hostile_frames()
    printed = run_python(
        LIMIT_MEMORY
        + f"""
from docofl_codec import CodecError, decode, eden, inspect
frames = [bytes.fromhex(text) for text in {[frame.hex() for frame in frames]}]
limit_memory(32 << 20)
for frame in frames:
    for use in (decode, lambda frame, threads: eden.decode_mean([frame], threads=threads),
                lambda frame, threads: eden.Accumulator(threads=threads).add(frame)):
        try:
            use(frame, threads=1)
        except CodecError:
            continue
        except BaseException as error:
            raise AssertionError(f"{{type(error).__name__}} for {{frame.hex()}}") from error
        raise AssertionError(f"decoded {{frame.hex()}}")
print(len(frames))
"""
    )
    assert int(printed) == len(frames)


def test_hostile_frames_are_refused() -> None:
    for frame in hostile_frames():
        with pytest.raises(CodecError):
            decode(frame, threads=1)


@can_limit_memory
@pytest.mark.parametrize("make", [one_level, next_to_no_words, nearly_no_bits])
def test_limits_are_checked_before_memory_is_taken(make: Callable[[int], bytes]) -> None:
    """A frame may honestly need much more than itself; the caller's limits come first."""
    frame = make(2**24)
    assert len(frame) < 18_000
    run_python(
        LIMIT_MEMORY
        + f"""
from docofl_codec import InvalidInputError, LimitExceededError, decode
frame = bytes.fromhex("{frame.hex()}")
limit_memory(16 << 20)
for options, expected in [
    ({{"max_output_bytes": 1 << 20}}, LimitExceededError),
    ({{"expected_shape": (3,)}}, InvalidInputError),
    ({{}}, MemoryError),
]:
    try:
        decode(frame, threads=1, **options)
    except expected:
        continue
    raise AssertionError(options)
"""
    )


def test_more_than_two_to_the_31_coordinates() -> None:
    """Row 20: indices have 64 bits. Zeros that were never touched take no memory."""
    size = 2**31 + 70_001
    info = inspect(ecuq.encode(np.zeros(size, np.float16), bits=1))
    assert (info.size, info.shape, info.num_levels) == (size, (size,), 1)


def test_more_than_two_to_the_31_coordinates_of_eden() -> None:
    size = 2**31 + 70_001
    info = inspect(eden.encode(np.zeros(size, np.float16), bits=0.1, seed=1))
    assert (info.size, info.shape) == (size, (size,))
