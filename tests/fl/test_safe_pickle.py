"""Pickle streams: plain values come out, anything that would run is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from docofl_codec.fl.data import DataFormatError
from docofl_codec.fl.data.safe_pickle import read_plain_values
from tests.fl import files

ARRAY = files.cifar_python(files.random_bytes(2, 3, 32, 32), [1, 2])


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"N.", None),
        (b"\x80\x02K\x07.", 7),
        (b"\x80\x02J\xfb\xff\xff\xff.", -5),
        (b"\x80\x02\x8a\x06\x00\x00\x00\x00\x00\x01.", 2**40),
        (b"\x80\x02U\x02ab.", b"ab"),
        (b"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00\x8c\x02ab\x94.", "ab"),
        (b"\x80\x03C\x02ab.", b"ab"),
        (b"\x80\x02]q\x00(K\x01K\x02e.", [1, 2]),
        (b"(K\x01K\x02l.", [1, 2]),
        (b"\x80\x02K\x01K\x02K\x03\x87.", (1, 2, 3)),
        (b"\x80\x02}q\x00U\x01aq\x01h\x01s.", {b"a": b"a"}),
        (b"(U\x01aI01\nd.", {b"a": True}),
    ],
)
def test_plain_values(content: bytes, value: object) -> None:
    assert read_plain_values(content) == value


def test_an_array_of_numpy_2() -> None:
    content = (
        b"\x80\x05}\x8c\x01a\x8c\x13numpy._core.numeric\x8c\x0b_frombuffer\x93("
        b"\x96\x04\x00\x00\x00\x00\x00\x00\x00\x01\x00\x02\x00"
        b"\x8c\x05numpy\x8c\x05dtype\x93\x8c\x02u2K\x00K\x01\x87R(K\x03\x8c\x01<NNNJ\xff\xff\xff\xff"
        b"J\xff\xff\xff\xffK\x00tbK\x02\x85\x8c\x01CtRs."
    )
    array = read_plain_values(content)["a"]
    np.testing.assert_array_equal(array, np.array([1, 2], "<u2"))


@pytest.mark.parametrize(
    "stream",
    [
        b"cos\nsystem\nU\x0etouch {path}\x85R.",
        b"\x80\x02}U\x04datacos\nsystem\nU\x0etouch {path}\x85Rs.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93U\x0etouch {path}\x85R.",
        b"(U\x0etouch {path}ios\nsystem\n.",
        b"cbuiltins\neval\nU\x011\x85R.",
        b"cnumpy\nload\nU\x01a\x85R.",
        b"\x80\x02cnumpy\nndarray\n)\x81.",
        b"U\x01aQ.",
        b"\x80\x02\x82\x01.",
    ],
)
def test_nothing_runs(tmp_path: Path, stream: bytes) -> None:
    path = tmp_path / "ran"
    with pytest.raises(DataFormatError):
        read_plain_values(stream.replace(b"{path}", str(path).encode()))
    assert not path.exists()


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        b".",
        b"N",
        b"\x80\x02(.",
        b"\x80\x02h\x05.",
        b"\x80\x02e.",
        b"\x80\x02NK\x01a.",
        b"\x80\x02NK\x01K\x01s.",
        b"\x80\x02]K\x01K\x02u.",
        b"\x80\x02cnumpy\nndarray\n.",
        b"\x80\x02T\xff\xff\xff\x7fa.",
        ARRAY.replace(b"U\x02u1", b"U\x02O8"),
        ARRAY.replace(b"U\x02u1", b"U\x02zz"),
        ARRAY.replace(b"M\x00\x0c", b"M\x01\x0c"),
    ],
)
def test_broken_streams(stream: bytes) -> None:
    with pytest.raises(DataFormatError):
        read_plain_values(stream)


def test_every_truncation_fails_cleanly() -> None:
    header = ARRAY[: ARRAY.index(b"T\x00\x18")]
    for end in range(len(header)):
        with pytest.raises(DataFormatError):
            read_plain_values(ARRAY[:end])


def test_a_dictionary_within_itself_ends() -> None:
    assert read_plain_values(b"\x80\x02}q\x00U\x01ah\x00s.").keys() == {b"a"}
