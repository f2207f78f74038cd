"""Row 1: a frame cut off at any byte is refused."""

from __future__ import annotations

import pytest

from docofl_codec import CorruptFrameError, TruncatedFrameError, decode, inspect
from tests.helpers.frames import payload_of, payload_start, reseal, seal, varint
from tests.helpers.hostile import SMALL_FRAMES, decode_or_refuse


@pytest.mark.parametrize("name", SMALL_FRAMES)
def test_every_prefix(name: str) -> None:
    blob = SMALL_FRAMES[name]
    assert decode_or_refuse(blob)
    for length in range(len(blob)):
        with pytest.raises(TruncatedFrameError):
            decode(blob[:length])
        with pytest.raises(TruncatedFrameError):
            inspect(blob[:length])


@pytest.mark.parametrize("name", SMALL_FRAMES)
def test_every_prefix_of_the_payload_in_a_frame_of_its_size(name: str) -> None:
    """The header says what is there, the checksum is right, and the payload is short."""
    blob = SMALL_FRAMES[name]
    start, payload = payload_start(blob), payload_of(blob)
    header = blob[: start - len(varint(len(payload)))]
    for length in range(len(payload)):
        cut = seal(header + varint(length) + payload[:length])
        with pytest.raises(CorruptFrameError):
            decode(cut)


@pytest.mark.parametrize("name", SMALL_FRAMES)
def test_trailing_bytes(name: str) -> None:
    blob = SMALL_FRAMES[name]
    for tail in (b"\0", b"\xff", blob):
        with pytest.raises(CorruptFrameError, match="after the checksum"):
            decode(blob + tail)
        with pytest.raises(CorruptFrameError):
            decode(reseal(blob + tail))
