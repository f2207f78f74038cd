"""Each format is read back as it was written, and what is wrong with a file is said."""

from __future__ import annotations

import gzip
import lzma
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from docofl_codec.fl.data import DataFormatError, MissingDataError
from docofl_codec.fl.data import files as data_files
from docofl_codec.fl.data.cifar_binary import read_cifar_binary
from docofl_codec.fl.data.cifar_python import read_cifar_python
from docofl_codec.fl.data.files import DataSet, data_root, read_bytes
from docofl_codec.fl.data.idx import read_idx
from docofl_codec.fl.data.leaf import read_leaf
from docofl_codec.fl.data.polarity_csv import read_polarity_csv
from docofl_codec.fl.data.role_text import read_role_text
from tests.fl import files

SOURCE = DataSet("The Set", ["set", "set/raw"], "https://example.org/set")


# --- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)]
)
def test_a_file_is_found_and_unpacked(
    tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    (tmp_path / "set" / "raw").mkdir(parents=True)
    path = tmp_path / "set" / "raw" / f"part-1{suffix}"
    path.write_bytes(pack(b"content"))
    assert SOURCE.find(tmp_path, "other", "part-*") == path
    assert read_bytes(path) == b"content"


def test_a_file_counts_once(tmp_path: Path) -> None:
    for name in ("part-2", "part-1.gz", "part-1", "part-1.xz"):
        (tmp_path / name).touch()
    assert SOURCE.find_all(tmp_path, "part-?") == [tmp_path / "part-1", tmp_path / "part-2"]


def test_the_root_itself_may_be_the_folder(tmp_path: Path) -> None:
    (tmp_path / "part").touch()
    assert SOURCE.find(tmp_path, "part") == tmp_path / "part"


def test_a_missing_file_says_all_that_is_needed(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError) as caught:
        SOURCE.find(tmp_path, "train.csv")
    for words in ("The Set", "train.csv", str(tmp_path / "set/raw"), "https://example.org/set"):
        assert words in str(caught.value)


def test_no_root_at_all() -> None:
    with pytest.raises(MissingDataError, match="DOCOFL_DATA"):
        SOURCE.find(None, "train.csv")


def test_the_option_goes_before_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCOFL_DATA", raising=False)
    assert data_root() is None
    monkeypatch.setenv("DOCOFL_DATA", "from/variable")
    assert data_root() == Path("from/variable")
    assert data_root("from/option") == Path("from/option")


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.gz", b"plain text"), ("a.gz", b"\x1f\x8b"), ("a.xz", b""), ("a.xz", b"plain text")],
)
def test_damaged_archives(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataFormatError, match=name):
        read_bytes(path)


def test_a_truncated_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"content" * 100)[:-9])
    with pytest.raises(DataFormatError, match="whole gz file"):
        read_bytes(path)


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_an_archive_that_unpacks_to_more_than_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setattr(data_files, "MAX_UNPACKED_BYTES", 1 << 22)
    path = tmp_path / f"a{suffix}"
    path.write_bytes(pack(bytes(1 << 22)))
    assert len(read_bytes(path)) == 1 << 22
    path.write_bytes(pack(bytes(1 << 26)))
    tracemalloc.start()
    try:
        with pytest.raises(DataFormatError, match="found over 4194304 bytes unpacked"):
            read_bytes(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 25  # xz has a window of 8 MiB
    finally:
        tracemalloc.stop()


# --- idx ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32"])
def test_idx(tmp_path: Path, dtype: str) -> None:
    values = np.arange(24).reshape(2, 3, 4).astype(dtype)
    path = tmp_path / "a-idx3"
    path.write_bytes(files.idx(values))
    read = read_idx(path, num_dims=3)
    np.testing.assert_array_equal(read, values)
    assert read.dtype == values.dtype


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "magic"),
        (b"\x1f\x8b\x08\x00" + bytes(9), "magic"),
        (files.idx(np.zeros((2, 2), np.uint8)), "found 2 dimensions, expected 1"),
        (b"\0\0\x08\x01\0\0", "header"),
        (files.idx(np.zeros(5, np.uint8))[:-1], "found 12 bytes, expected 13"),
        (files.idx(np.zeros(5, np.uint8)) + b"\0", "found 14 bytes, expected 13"),
        (b"\0\0\x08\x01\xff\xff\xff\xff\0", "expected 4294967303"),
    ],
)
def test_bad_idx(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    with pytest.raises(DataFormatError, match=message):
        read_idx(path, num_dims=1)


# --- CIFAR -------------------------------------------------------------------------------------

IMAGES = files.random_bytes(4, 3, 32, 32)
LABELS = np.array([3, 0, 99, 7], np.uint8)


def test_cifar_binary(tmp_path: Path) -> None:
    path = tmp_path / "a.bin.xz"
    path.write_bytes(lzma.compress(files.cifar_binary(IMAGES, LABELS)))
    images, labels = read_cifar_binary(path, label_bytes=1)
    np.testing.assert_array_equal(images, IMAGES)
    np.testing.assert_array_equal(labels, LABELS)


def test_of_two_labels_the_fine_one_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(files.cifar_binary(IMAGES, LABELS // 5, LABELS))
    images, labels = read_cifar_binary(path, label_bytes=2)
    np.testing.assert_array_equal(images, IMAGES)
    np.testing.assert_array_equal(labels, LABELS)


@pytest.mark.parametrize("size", [0, 3072, 3074])
def test_cifar_binary_of_no_whole_records(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(size))
    with pytest.raises(DataFormatError, match=f"found {size} bytes"):
        read_cifar_binary(path, label_bytes=1)


@pytest.mark.parametrize("key", ["labels", "fine_labels"])
def test_cifar_python(tmp_path: Path, key: str) -> None:
    path = tmp_path / "data_batch_1"
    path.write_bytes(files.cifar_python(IMAGES, LABELS.tolist(), key=key))
    images, labels = read_cifar_python(path, labels=key)
    np.testing.assert_array_equal(images, IMAGES)
    np.testing.assert_array_equal(labels, LABELS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (files.cifar_python(IMAGES, [1, 2, 3]), "expected one"),
        (files.cifar_python(IMAGES, [1, 2, 3, 300]), "no byte"),
        (files.cifar_python(IMAGES, LABELS.tolist(), key="numbers"), "'labels'"),
        (files.cifar_python(IMAGES, LABELS.tolist())[:-7], "data_batch_1"),
        (b"\x80\x02]q\x01.", "expected a dictionary"),
        (b"\x80\x02}q\x01.", "'data'"),
    ],
)
def test_bad_cifar_python(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "data_batch_1"
    path.write_bytes(content)
    with pytest.raises(DataFormatError, match=message):
        read_cifar_python(path, labels="labels")


# --- texts -------------------------------------------------------------------------------------


def test_role_text(tmp_path: Path) -> None:
    path = tmp_path / "play.txt"
    path.write_text(
        "ANNE:\nOne: two,\nthree.\n\nBOB:\nFour.\n\nGoes on.\n\nANNE:\nFive.\n", encoding="utf-8"
    )
    assert read_role_text(path) == {
        "ANNE": "One: two,\nthree.\nFive.",
        "BOB": "Four.\nGoes on.",
    }


def test_text_without_roles(tmp_path: Path) -> None:
    path = tmp_path / "play.txt"
    path.write_text("Once upon a time\n\nANNE:\nHello.\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match="Once upon a time"):
        read_role_text(path)


def test_leaf_joins_its_parts(tmp_path: Path) -> None:
    files.write_leaf(tmp_path / "a.json", {"u": (["ab"], ["c"]), "v": (["xy"], ["z"])})
    files.write_leaf(tmp_path / "b.json", {"u": (["de"], ["f"])})
    assert read_leaf([tmp_path / "a.json", tmp_path / "b.json"], length=2) == {
        "u": (["ab", "de"], ["c", "f"]),
        "v": (["xy"], ["z"]),
    }


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"users": ["u"]}',
        '{"users": ["u"], "user_data": {"u": {"x": ["a"], "y": []}}}',
        '{"users": ["u"], "user_data": {"u": {"x": [1], "y": ["a"]}}}',
    ],
)
def test_bad_leaf(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataFormatError, match=r"a\.json"):
        read_leaf([path], length=1)


def test_polarity(tmp_path: Path) -> None:
    path = tmp_path / "train.csv.gz"
    files.write_polarity(path, [("2", "Fine", 'A "good" book,\nreally'), ("1", "", "Bad", "music")])
    texts, labels = read_polarity_csv(path)
    assert texts == ['Fine A "good" book,\nreally', "Bad"]
    assert labels.tolist() == [1, 0]


@pytest.mark.parametrize("row", [("3", "a", "b"), ("1", "a"), ("label", "title", "text")])
def test_bad_polarity(tmp_path: Path, row: tuple[str, ...]) -> None:
    path = tmp_path / "train.csv.gz"
    files.write_polarity(path, [("1", "a", "b"), row])
    with pytest.raises(DataFormatError, match="line 2"):
        read_polarity_csv(path)
