"""The classes of errors, and what their messages say."""

from __future__ import annotations

import numpy as np
import pytest

import docofl_codec
from docofl_codec import (
    CodecError,
    CorruptFrameError,
    InvalidInputError,
    LimitExceededError,
    TruncatedFrameError,
    UnsupportedFrameError,
    decode,
    ecuq,
    errors,
)


@pytest.mark.parametrize(
    ("error", "parent"),
    [
        (CodecError, ValueError),
        (InvalidInputError, CodecError),
        (UnsupportedFrameError, CodecError),
        (CorruptFrameError, CodecError),
        (TruncatedFrameError, CorruptFrameError),
        (LimitExceededError, CodecError),
    ],
)
def test_hierarchy(error: type[Exception], parent: type[Exception]) -> None:
    assert error.__base__ is parent
    assert getattr(docofl_codec, error.__name__) is getattr(errors, error.__name__) is error


def test_all_errors_are_exported() -> None:
    assert set(errors.__all__) <= set(docofl_codec.__all__)
    classes = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert classes == set(errors.__all__)


def test_each_kind_of_failure_has_its_class(blob: bytes) -> None:
    with pytest.raises(InvalidInputError):
        ecuq.encode(np.array([np.nan], np.float32))
    with pytest.raises(UnsupportedFrameError):
        decode(blob[:3] + b"\x03" + blob[4:])
    with pytest.raises(TruncatedFrameError):
        decode(blob[:-1])
    with pytest.raises(CorruptFrameError) as caught:
        decode(blob + b"\0")
    assert type(caught.value) is CorruptFrameError
    with pytest.raises(LimitExceededError):
        decode(blob, max_output_bytes=1)


@pytest.mark.parametrize(
    ("change", "place", "found", "expected"),
    [
        ((3, 9), "version at byte 3", "found 9", "expected 1 to 2"),
        ((4, 7), "codec at byte 4", "found id 7", "expected 0 to 2"),
        ((5, 4), "dtype at byte 5", "found id 4", "expected 0 to 3"),
        ((6, 0x40), "flags at byte 6", "found the critical bits 64", "expected none"),
        ((7, 33), "ndim at byte 7", "found 33", "expected at most 32"),
    ],
)
def test_message_says_where_what_and_what_else(
    blob: bytes, change: tuple[int, int], place: str, found: str, expected: str
) -> None:
    position, value = change
    changed = blob[:position] + bytes([value]) + blob[position + 1 :]
    with pytest.raises(CodecError) as caught:
        decode(changed)
    message = str(caught.value)
    assert message.startswith(place)
    assert found in message
    assert expected in message


def test_other_bytes_are_no_frame() -> None:
    with pytest.raises(CorruptFrameError, match="not a docofl frame"):
        decode(b"PK\x03\x04 something else")
