"""EDEN's core does what its NumPy twin does, and keeps the promise about its bytes.

Decoding is exact to the bit. An encoder is free in how it takes sums, so scales may differ in their
last bits, and a coordinate that is as good as on a threshold may go to either side of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docofl_codec import InvalidInputError, decode, eden
from docofl_codec.reference import decode_frame
from docofl_codec.reference import eden as reference
from tests.helpers.data import DATA_SETS, SEED, Floats, layered, normal
from tests.helpers.frames import payload_of
from tests.property.strategies import structured, tensors

PARAMETER_BYTES = 18  # before the scales

seeds = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 2**63, 2**64 - 1]))
scales = st.sampled_from(["unbiased", "mse"])
budgets = st.one_of(
    st.floats(0.1, 8), st.integers(1, 8), st.sampled_from([0.1, 0.5, 1.5, 2.5, 7.999_999_999])
)
entropy_budgets = st.one_of(st.floats(1.5, 16), st.sampled_from([1.5, 2, 3, 4, 8, 16]))


def unpack_words(data: bytes, size: int, bits: float, seed: int) -> list[npt.NDArray[np.uint8]]:
    """Return the words of every rotation block, in the order of their coordinates."""
    width, fraction = reference.split_budget(bits)
    position = 0
    blocks = []
    for number, block_size in enumerate(reference.block_sizes(size)):
        words = np.zeros((block_size // 16, 16), np.uint8)
        for v, places in reference.chunk_groups(seed, number, len(words), width, fraction):
            end = position + 2 * v * places.size
            words[places] = reference.unpack_planes(data[position:end], v, places.size)
            position = end
        blocks.append(words.ravel())
    assert position == len(data)
    return blocks


def check_words(x: Floats, bits: float, seed: int, found: bytes, expected: bytes) -> list[bool]:
    """Check that words are the same, but where a coordinate lies on a threshold.

    Returns for every block whether all are the same.
    """
    if found == expected:
        return [True] * len(reference.block_sizes(x.size))
    width = reference.split_budget(bits)[0]
    both = [unpack_words(data, x.size, bits, seed) for data in (found, expected)]
    start = 0
    same = []
    for mine, twin in zip(*both, strict=True):
        block = x.ravel()[start : start + mine.size].astype(np.float64)
        (differ,) = np.nonzero(mine != twin)
        if differ.size:
            unit = (block / np.abs(block).max()).astype(np.float32)
            rotated = reference.rotate(unit, seed, start).astype(np.float64)
            t = np.abs(rotated[differ]) * np.sqrt(mine.size / np.sum(unit.astype(np.float64) ** 2))
            near = [
                np.abs(t[:, np.newaxis] / reference.thresholds(v) - 1).min(axis=1, initial=1)
                for v in (width, width + 1)
                if 1 <= v <= 8
            ]
            assert np.min(near, axis=0).max() < 3e-6, f"block at {start}, {differ}"
        same.append(differ.size == 0)
        start += mine.size
    return same


def check_agreement(x: Floats, bits: float, seed: int, scale: eden.Scale = "unbiased") -> None:
    # 1. Both take the tensor, or both refuse it.
    try:
        expected = reference.payload(reference.encode(x, bits, seed, scale))
    except ValueError:
        with pytest.raises(InvalidInputError, match="beyond float32"):
            eden.encode(x, bits=bits, seed=seed, scale=scale)
        return
    blob = eden.encode(x, bits=bits, seed=seed, scale=scale)
    found = payload_of(blob)
    assert len(found) == len(expected)
    check_decoding(blob)
    if x.size == 0:
        return

    # 2. Parameters, tail and words are the same.
    scales_end = PARAMETER_BYTES + 4 * len(reference.block_sizes(x.size))
    words_start = scales_end + 4 * (x.size % 16)
    assert found[:PARAMETER_BYTES] == expected[:PARAMETER_BYTES]
    assert found[scales_end:words_start] == expected[scales_end:words_start]
    assert found[scales_end:words_start] == x.ravel()[x.size - x.size % 16 :].tobytes()
    words = found[words_start:], expected[words_start:]
    same = np.array(check_words(x, bits, seed, *words), dtype=bool)

    # 3. Scales of the same words are nearly the same; those of other words fit their own.
    mine, twin = (
        np.frombuffer(payload[PARAMETER_BYTES:scales_end], "<f4") for payload in (found, expected)
    )
    np.testing.assert_allclose(mine[same], twin[same], rtol=1e-5, atol=1.5e-45)
    start = 0
    x_hat = np.asarray(eden.decode(blob), np.float64).ravel()
    for size, is_same in zip(reference.block_sizes(x.size), same, strict=True):
        block, restored = x.ravel()[start : start + size], x_hat[start : start + size]
        if not is_same:
            target = block.astype(np.float64) if scale == "unbiased" else restored
            assert np.dot(block, restored) == pytest.approx(np.dot(target, target), rel=1e-4)
        start += size


def check_decoding(blob: bytes) -> None:
    core = np.asarray(decode(blob, framework="numpy"))
    values, info = decode_frame(blob)
    if info["dtype"] == "bfloat16":
        core = core.astype(np.float32)
    assert (core.dtype, core.shape) == (values.dtype, values.shape)
    assert core.tobytes() == values.tobytes()


def largest_frame(x: npt.NDArray[np.floating], bits: float) -> float:
    """Return the promised bound, in bytes (docs/format.md, section 6)."""
    return bits * x.size / 8 + 176 + 10 * x.ndim + 6 * (x.size // 32_768 + 11)


# Words of fixed width ----------------------------------------------------------------------------


@given(x=tensors, bits=budgets, seed=seeds, scale=scales)
def test_small_tensors(x: Floats, bits: float, seed: int, scale: eden.Scale) -> None:
    check_agreement(x, bits, seed, scale)


@pytest.mark.parametrize("size", range(71))
def test_every_small_size(size: int) -> None:
    for bits in (0.1, 0.5, 1, 1.7, 2, 3, 4.2, 5, 6, 7, 8):
        check_agreement(normal(size), bits, seed=size)


@pytest.mark.parametrize("bits", [0.5, 1, 2.5, 4, 5, 8])
@pytest.mark.parametrize("size", [32_767, 32_768, 65_536 + 4096 + 17])
def test_large_blocks(size: int, bits: float) -> None:
    check_agreement(layered(size), bits, seed=size)


@pytest.mark.parametrize("bits", [0.3, 1, 3, 6])
def test_every_data_set(data_set: Callable[[int], Floats], bits: float) -> None:
    check_agreement(data_set(5000), bits, SEED)


def test_instruction_sets(isa: str) -> None:
    assert isa
    for name, bits in itertools.product(DATA_SETS, (0.5, 1, 2, 3, 4, 5, 6, 7, 8)):
        check_agreement(DATA_SETS[name](1000), bits, SEED)


# Entropy-coded -----------------------------------------------------------------------------------


def check_entropy_coded(x: Floats, bits: float, seed: int) -> None:
    try:
        blob = eden.encode(x, bits=bits, seed=seed, entropy_coded=True)
    except InvalidInputError:
        assert np.abs(x).max() > 1e37
        return
    assert len(blob) <= largest_frame(x, bits)
    check_decoding(blob)
    check_scales(x, blob)


def check_scales(x: Floats, blob: bytes) -> None:
    """Check that <x, x_hat> is |x|^2 in every block: with the unbiased scale, it must be."""
    flat, x_hat = x.ravel().astype(np.float64), np.asarray(eden.decode(blob)).ravel()
    ends = itertools.accumulate(reference.block_sizes(x.size), initial=0)
    for start, end in itertools.pairwise(ends):
        block, found = flat[start:end], x_hat[start:end].astype(np.float64)
        size = max(np.abs(block).max(), 1e-300)
        if size < 1e-36 or np.abs(found).max() > 3.4e38 or not found.any():
            continue  # rounded, clamped, or without a level that is not 0
        squares = np.sum((block / size) ** 2)
        noise = 1e-5 * np.sum(np.abs(block / size * (found / size)))
        assert np.sum(block / size * (found / size)) == pytest.approx(squares, rel=1e-4, abs=noise)


@given(x=structured(5000), bits=entropy_budgets, seed=seeds)
def test_entropy_coded(x: Floats, bits: float, seed: int) -> None:
    check_entropy_coded(x, bits, seed)


@pytest.mark.parametrize("size", range(71))
def test_every_small_size_entropy_coded(size: int) -> None:
    for bits in (1.5, 2, 3.3, 8, 16):
        check_entropy_coded(normal(size), bits, seed=size)


@pytest.mark.parametrize("bits", [1.5, 3, 9])
def test_every_data_set_entropy_coded(data_set: Callable[[int], Floats], bits: float) -> None:
    check_entropy_coded(data_set(5000), bits, SEED)


def test_many_blocks_entropy_coded() -> None:
    check_entropy_coded(layered(65_536 + 4096 + 17), 2, SEED)


# Other dtypes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
@pytest.mark.parametrize("entropy_coded", [False, True])
def test_other_dtypes(
    data_set: Callable[[int], Floats], dtype: npt.DTypeLike, entropy_coded: bool
) -> None:
    with np.errstate(over="ignore"):
        x = data_set(1000).astype(dtype)
    x = x[np.isfinite(x.astype(np.float32))]
    check_decoding(eden.encode(x, bits=2, seed=SEED, entropy_coded=entropy_coded))


# The bytes promise -------------------------------------------------------------------------------


@given(size=st.integers(0, 150_000), bits=budgets, seed=seeds)
def test_bytes_never_exceed_the_budget(size: int, bits: float, seed: int) -> None:
    x = np.ones(size, np.float32)
    assert len(eden.encode(x, bits=bits, seed=seed)) <= largest_frame(x, bits)


@given(x=structured(50_000), bits=entropy_budgets, seed=seeds)
def test_bytes_of_entropy_coded_frames(x: Floats, bits: float, seed: int) -> None:
    x = np.clip(x, -1e36, 1e36)
    blob = eden.encode(x, bits=bits, seed=seed, entropy_coded=True)
    assert len(blob) <= largest_frame(x, bits)


@pytest.mark.parametrize("entropy_coded", [False, True])
@pytest.mark.parametrize("ndim", [0, 1, 2, 8, 32])
def test_header_is_within_its_share(ndim: int, entropy_coded: bool) -> None:
    for x in (
        np.zeros((1,) * ndim, np.float32),
        np.empty((0,) + (2**15,) * min(ndim, 3), np.float32),
        normal(32_767).reshape((1,) * max(ndim - 1, 0) + (32_767,)),
    ):
        bits = 1.5 if entropy_coded else 0.1
        blob = eden.encode(x, bits=bits, seed=2**64 - 1, entropy_coded=entropy_coded)
        assert len(blob) <= largest_frame(x, bits)
