"""Row 2: any flipped bit is noticed; with a forged checksum it does no harm."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from docofl_codec import Codec, CodecError, Ecuq, Eden, decode, eden
from tests.helpers.data import SEED, layered
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


@pytest.mark.parametrize("name", [name for name in SMALL_FRAMES if name.startswith("eden")])
def test_resealed_flips_do_no_harm_to_means(name: str) -> None:
    blob = SMALL_FRAMES[name]
    for flipped in flips(blob, -4):
        try:
            mean = np.asarray(eden.decode_mean([blob, reseal(flipped)], threads=1))
        except CodecError:
            continue
        assert mean.shape == decode(blob).shape
        assert np.isfinite(mean).all()


def test_random_damage_to_large_frames(isa: str) -> None:
    """Several bytes at once, in the payload, so that all kinds of nonsense reach the decoder."""
    assert isa
    rng = np.random.default_rng(3)
    frames: list[tuple[Codec, int]] = [
        (Ecuq(bits=1), 20_000),
        (Ecuq(bits=2), 70_000),
        (Ecuq(bits=4), 5000),
        (Ecuq(bits=12), 5000),
        (Ecuq(bits=1, quality="best"), 140_000),
        (Ecuq(bits=1, coder="rans"), 140_000),
        (Ecuq(bits=3, quality="best"), 70_000),
        (Ecuq(bits=2, quality="best"), 5000),
        (Eden(bits=0.3), 70_001),
        (Eden(bits=3), 20_000),
        (Eden(bits=2, entropy_coded=True), 70_001),
    ]
    for codec, size in frames:
        blob = np.frombuffer(codec.encode(layered(size), seed=SEED), np.uint8)
        for _ in range(10):
            damaged = blob.copy()
            places = rng.integers(20, damaged.size - 4, rng.integers(1, 6))
            damaged[places] = rng.integers(0, 256, places.size)
            decode_or_refuse(reseal(damaged.tobytes()))
