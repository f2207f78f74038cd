"""Files made to do harm, and files without samples: each is refused, by its name."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from docofl_codec import InvalidInputError
from docofl_codec.fl.data import DataFormatError
from docofl_codec.fl.data.idx import read_idx
from docofl_codec.fl.data.leaf import read_leaf
from docofl_codec.fl.data.polarity_csv import read_polarity_csv
from docofl_codec.fl.data.safe_pickle import read_plain_values
from docofl_codec.fl.tasks import get_task
from docofl_codec.fl.training import Trainer
from tests.fl import files

MAX_MESSAGE = 250


def check_refused(stream: bytes, message: str) -> None:
    started = time.perf_counter()
    with pytest.raises(DataFormatError, match=message) as caught:
        read_plain_values(stream)
    assert time.perf_counter() - started < 2
    assert len(str(caught.value)) < MAX_MESSAGE


# --- pickle ------------------------------------------------------------------------------------


def test_a_deep_key_does_not_end_the_process(tmp_path: Path) -> None:
    path = tmp_path / "data_batch_1"
    path.write_bytes(b"\x80\x02}()" + b"\x85" * 300_000 + b"K\x01u.")
    program = (
        "import sys, pathlib\n"
        "from docofl_codec.fl.data.cifar_python import read_cifar_python\n"
        "try:\n"
        "    read_cifar_python(pathlib.Path(sys.argv[1]), labels='labels')\n"
        "except ValueError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"{path}: pickle: found values nested 33 deep, expected at most 32" in done.stdout


@pytest.mark.parametrize("key", [b")", b"K\x01\x85", b"N", b"\x96" + bytes(8), b"("])
def test_keys_are_plain(key: bytes) -> None:
    check_refused(b"\x80\x02}" + key + b"K\x01s.", "found a key of type")


@pytest.mark.parametrize(
    "stream",
    [
        b")" + b"\x85" * 40 + b".",
        b"]" * 40 + b"a" * 39 + b".",
        b"(" * 40 + b"l" * 40 + b".",
        b"}U\x01a" * 40 + b"Ns" + b"s" * 39 + b".",
        b"(" * 40 + b"t" * 40 + b".",
    ],
)
def test_nests_are_bounded(stream: bytes) -> None:
    check_refused(stream, "found values nested 33 deep, expected at most 32")


def test_a_moderate_nest_is_read() -> None:
    value = read_plain_values(b"]" * 32 + b"a" * 31 + b".")
    for _ in range(31):
        (value,) = value
    assert value == []


def test_a_nest_cannot_grow_from_within() -> None:
    chain = b"".join(b"]r%bah%c" % (number.to_bytes(4, "little"), number) for number in range(200))
    check_refused(b"\x80\x02]" + chain + b".", "found more items of a value within another")


def test_long_lists_and_shared_values_are_read() -> None:
    content = b"\x80\x02}(U\x01a]q\x01(K\x01K\x02e(K\x03eU\x01bh\x01U\x01c)U\x01d)uU\x01eNs."
    assert read_plain_values(content) == {
        b"a": [1, 2, 3],
        b"b": [1, 2, 3],
        b"c": (),
        b"d": (),
        b"e": None,
    }


@pytest.mark.parametrize(
    "stream",
    [
        b"\x80\x04" + b"]" * 30 + b"a" * 29 + b"\x8c\x01a\x93.",
        b"\x80\x04]q\x00" + b"".join(b"(h%ch%clq%c" % (i, i, i + 1) for i in range(23)) + b"N\x93.",
        b"\x80\x04\x8c\x01aK\x01\x93.",
    ],
)
def test_names_are_strings(stream: bytes) -> None:
    check_refused(stream, "found a name of .* expected strings")


@pytest.mark.parametrize(
    "stream",
    [b"c" + b"a" * 10**6 + b"\nb\n.", b"I" + b"x" * 10**6 + b"\n.", b"g" + b"9" * 4000 + b"\n."],
)
def test_messages_are_short(stream: bytes) -> None:
    check_refused(stream, "…")


def array(shape: bytes, *, code: bytes = b"u1", order: bytes = b"|") -> bytes:
    """Write an array of one byte with a tuple for its shape."""
    return (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nNN\x87R(K\x01"
        + shape
        + b"cnumpy\ndtype\nT"
        + len(code).to_bytes(4, "little")
        + code
        + b"\x85R(K\x03U"
        + bytes([len(order)])
        + order
        + b"tb\x89U\x01atb."
    )


def test_an_array_of_one_byte() -> None:
    np.testing.assert_array_equal(read_plain_values(array(b"K\x01K\x01\x86")), [[ord("a")]])


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (b"L10000000000000L\nU\x01a\x86", "a shape of other values"),
        (b"J\x00\xe1\xf5\x05U\x01a\x86", "a shape of other values"),
        (b"J\xff\xff\xff\xffJ\xff\xff\xff\xff\x86", "a shape of other values"),
        (b"K\x01]\x86", "a shape of other values"),
        (b"L" + b"9" * 4000 + b"L\n\x85", "a shape of other values"),
        (b"(" + b"K\x01" * 9 + b"t", "found 9 dimensions, expected at most 8"),
        (b"K\x02\x85", r"found 1 bytes, expected shape \(2,\) of uint8"),
    ],
)
def test_shapes(shape: bytes, message: str) -> None:
    check_refused(array(shape), message)


@pytest.mark.parametrize("code", [b"1" * 5000 + b"u1", b"f4," * 10**5, b"O8", b"a1", b"(2)u1"])
def test_dtypes(code: bytes) -> None:
    check_refused(array(b"K\x01\x85", code=code), "array: found dtype")


def test_byte_orders() -> None:
    check_refused(array(b"K\x01\x85", order=b"i4,"), "array: found byte order 'i4,'")


def test_bytes_are_made_once() -> None:
    text = b"X" + (10**5).to_bytes(4, "little") + b"a" * 10**5
    once = b"c_codecs\nencode\nq\x00" + text + b"q\x01U\x06latin1\x86R"
    assert read_plain_values(once + b".") == b"a" * 10**5
    check_refused(once + b"h\x00h\x01U\x06latin1\x86R.", "found a string encoded again")


@pytest.mark.parametrize("error", [MemoryError, RecursionError])
def test_lack_of_room_is_an_error_of_the_stream(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fail(_: bytes) -> None:
        raise error

    monkeypatch.setattr("pickletools.genops", fail)
    check_refused(b"N.", f"found {error.__name__}")


# --- no samples --------------------------------------------------------------------------------


def write_cifar(root: Path, count: int, name: str) -> Path:
    path = root / name
    images = files.random_bytes(max(count, 1), 3, 32, 32)
    content = files.cifar_python(images, [1] * count)
    if count == 0:
        content = content.replace(b"K\x01M\x00\x0c", b"K\x00M\x00\x0c")
        content = content.replace(b"T\x00\x0c\0\0" + images.tobytes(), b"T" + bytes(4))
    path.write_bytes(content)
    return path


def write_emnist(root: Path, count: int, part: str) -> Path:
    images, labels = files.random_bytes(count, 28, 28), np.zeros(count, np.uint8)
    files.write_emnist_part(root, f"emnist-balanced-{part}", images, labels)
    return root / f"emnist-balanced-{part}-images-idx3-ubyte.gz"


def write_leaf(root: Path, count: int, part: str) -> Path:
    path = root / part / "all.json"
    files.write_leaf(path, {"u": (["a" * 80] * count, ["b"] * count)} if count else {})
    return path


def write_leaf_users(root: Path, count: int, part: str) -> Path:
    path = root / part / "all.json"
    files.write_leaf(path, {"u": (["a" * 80] * count, ["b"] * count)})
    return path


def write_amazon(root: Path, count: int, part: str) -> Path:
    path = root / f"{part}.csv.gz"
    files.write_polarity(path, [("1", "a", "b")] * count)
    return path


@pytest.mark.parametrize("empty", [0, 1])
@pytest.mark.parametrize(
    ("task", "write", "names"),
    [
        ("cifar10", write_cifar, ("data_batch_1", "test_batch")),
        ("emnist", write_emnist, ("train", "test")),
        ("shakespeare", write_leaf, ("train", "test")),
        ("shakespeare", write_leaf_users, ("train", "test")),
        ("amazon", write_amazon, ("train", "test")),
    ],
)
def test_no_samples(
    tmp_path: Path,
    task: str,
    write: Callable[[Path, int, str], Path],
    names: tuple[str, str],
    empty: int,
) -> None:
    counts = [0 if position == empty else 20 for position in range(2)]
    paths = [write(tmp_path, count, name) for count, name in zip(counts, names, strict=True)]
    with pytest.raises(InvalidInputError) as caught:
        get_task(task).load(tmp_path, seed=0, num_clients=1, partition="iid")
    assert str(caught.value) == f"{paths[empty]}: found no samples, expected at least one"


def test_an_idx_file_of_nothing_but_large_sides(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\0\0\x08\x03" + bytes(4) + b"\xff" * 8)
    with pytest.raises(DataFormatError, match="a: found no samples"):
        read_idx(path, num_dims=3)


def test_a_trainer_without_test_samples() -> None:
    task = get_task("digits")
    federated = task.load(None, seed=0, num_clients=10, partition="iid")
    federated = replace(federated, test_x=federated.test_x[:0], test_y=federated.test_y[:0])
    with pytest.raises(InvalidInputError, match="test_y: found no samples"):
        Trainer(federated, task.settings)


# --- LEAF --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ("null", '["a"]', "user 'u', x: found NoneType, expected a list of texts"),
        ("5", '["a"]', "user 'u', x: found int, expected a list of texts"),
        ('{"ab": 1}', '["a"]', "user 'u', x: found dict, expected a list of texts"),
        ('"ab"', '["a"]', "user 'u', x: found str, expected a list of texts"),
        ('["ab"]', "null", "user 'u', y: found NoneType, expected a list of texts"),
        ('["ab", 7]', '["a", "b"]', "user 'u', x: found int, expected texts"),
        ('["ab", "abc"]', '["a", "b"]', "x: found a text of 3 characters, expected 2"),
        ('["ab"]', '["ab"]', "y: found a text of 2 characters, expected 1"),
        (r'["a\ud800"]', '["a"]', "x: found half a surrogate pair"),
        ('["ab"]', r'["\udc00"]', "y: found half a surrogate pair"),
        ('["ab"]', "[]", "user 'u': found 0 texts y, expected 1 as of x"),
    ],
)
def test_leaf_texts(tmp_path: Path, x: str, y: str, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(f'{{"users": ["u"], "user_data": {{"u": {{"x": {x}, "y": {y}}}}}}}')
    with pytest.raises(DataFormatError, match=message) as caught:
        read_leaf([path], length=2)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b'{"users": ' + b"[" * 100_000,
        b'{"users": [0], "user_data": [{"x": ["ab"], "y": ["c"]}]}',
        b'{"users": ["' + b"u" * 10**5 + b'"], "user_data": {}}',
        b"\xff" * 10**5,
    ],
)
def test_leaf_files(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(DataFormatError) as caught:
        read_leaf([path], length=2)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < MAX_MESSAGE + len(str(path))


def test_leaf_keeps_characters_beyond_ascii(tmp_path: Path) -> None:
    files.write_leaf(tmp_path / "a.json", {"u": (["é😀"], ["ø"])})
    assert read_leaf([tmp_path / "a.json"], length=2) == {"u": (["é😀"], ["ø"])}


# --- reviews -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rows",
    [
        '"1","a","b"\n"2","c","open\n"1","d","e"\n',
        '"1","a","b"\n"2","c","open\n1,d,e\n2,f,g\n',
        '"1","a","b"\n"2","c","d"e\n',
    ],
)
def test_an_open_quote(tmp_path: Path, rows: str) -> None:
    path = tmp_path / "train.csv"
    path.write_text(rows)
    with pytest.raises(DataFormatError, match=r"train\.csv, line 2: found a row with"):
        read_polarity_csv(path)


# --- options -----------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [-1, 0, 1025, 100_000])
def test_threads(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    given: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", given.append)
    task = get_task("digits")
    federated = task.load(None, seed=0, num_clients=10, partition="iid")
    with pytest.raises(InvalidInputError, match=f"threads: found {threads}, expected 1 to 1024"):
        Trainer(federated, task.settings, threads=threads)
    assert given == []
