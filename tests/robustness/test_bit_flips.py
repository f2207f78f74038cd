"""Row 2: any flipped bit is noticed; with a forged checksum it does no harm."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from docofl_codec import CodecError, decode, ecuq
from tests.helpers.data import layered
from tests.helpers.frames import reseal
from tests.helpers.hostile import SMALL_FRAMES, agrees_with_reference, decode_or_refuse


def flips(blob: bytes, end: int | None = None) -> Iterator[bytes]:
    """Yield the frame with each of its bits flipped in turn."""
    for position in range(len(blob[:end])):
        for bit in range(8):
            flipped = bytearray(blob)
            flipped[position] ^= 1 << bit
            yield bytes(flipped)


@pytest.mark.parametrize("name", SMALL_FRAMES)
def test_checksum_notices_every_flip(name: str) -> None:
    for flipped in flips(SMALL_FRAMES[name]):
        with pytest.raises(CodecError):
            decode(flipped)


@pytest.mark.parametrize("name", SMALL_FRAMES)
def test_resealed_flips_are_refused_or_give_a_finite_tensor(name: str) -> None:
    outcomes = {decode_or_refuse(reseal(flipped)) for flipped in flips(SMALL_FRAMES[name], -4)}
    assert False in outcomes  # magic and version at least


@pytest.mark.parametrize("name", SMALL_FRAMES)
def test_resealed_flips_mean_the_same_to_the_reference(name: str) -> None:
    for flipped in flips(SMALL_FRAMES[name], -4):
        blob = reseal(flipped)
        assert agrees_with_reference(blob), blob.hex()


def test_random_damage_to_large_frames(isa: str) -> None:
    """Several bytes at once, in the payload, so that all kinds of nonsense reach the decoder."""
    assert isa
    rng = np.random.default_rng(3)
    for bits, size in [(1, 20_000), (2, 70_000), (4, 5000), (12, 5000)]:
        blob = np.frombuffer(ecuq.encode(layered(size), bits=bits), np.uint8)
        for _ in range(10):
            damaged = blob.copy()
            places = rng.integers(20, damaged.size - 4, rng.integers(1, 6))
            damaged[places] = rng.integers(0, 256, places.size)
            decode_or_refuse(reseal(damaged.tobytes()))
