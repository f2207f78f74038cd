"""Tasks read their files, in all forms, and split them as the paper says."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from docofl_codec import InvalidInputError
from docofl_codec.fl.data import DataFormatError, MissingDataError
from docofl_codec.fl.data.files import data_root
from docofl_codec.fl.tasks import NAMES, Federated, get_task
from docofl_codec.fl.tasks.shakespeare import ALPHABET, encode
from tests.fl import files


def load(name: str, root: Path | None, **options: object) -> Federated:
    settings = get_task(name).settings
    chosen = {
        "seed": 0,
        "num_clients": settings.num_clients,
        "partition": settings.partition,
        **options,
    }
    return get_task(name).load(root, **chosen)  # type: ignore[arg-type]


# --- settings ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "clients", "batch", "optimizer", "client_lr", "server_lr"),
    [
        ("emnist", (1000, 20), 64, "sgd", 0.05, 1),
        ("cifar100", (200, 10), 128, "sgd", 0.05, 1),
        ("amazon", (500, 10), 64, "adam", 0.005, 0.1),
        ("shakespeare", (None, 20), 4, "sgd", 0.5, 1),
    ],
)
def test_settings_of_the_paper(
    name: str,
    clients: tuple[int | None, int],
    batch: int,
    optimizer: str,
    client_lr: float,
    server_lr: float,
) -> None:
    settings = get_task(name).settings
    assert (settings.num_clients, settings.per_round) == clients
    assert (settings.batch_size, settings.client_optimizer) == (batch, optimizer)
    assert (settings.client_lr, settings.server_lr) == (client_lr, server_lr)
    assert (settings.server_optimizer, settings.server_momentum) == ("sgd", 0.9)
    assert (settings.weight_decay, settings.local_epochs) == (1e-5, 1)
    assert (settings.deploy_every, settings.capacity) == (10, 3)


@pytest.mark.parametrize("name", NAMES)
def test_names(name: str) -> None:
    assert get_task(name).name == name


def test_unknown_name() -> None:
    with pytest.raises(InvalidInputError, match=r"found 'mnist', expected one of digits, emnist"):
        get_task("mnist")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "digits"])
def test_missing_data(name: str, tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="published at https://"):
        load(name, tmp_path)


# --- images ------------------------------------------------------------------------------------


def test_digits() -> None:
    federated = load("digits", None)
    assert len(federated.train_y) + len(federated.test_y) == 1797
    assert sum(map(len, federated.clients)) == len(federated.train_y)
    prepared = federated.prepare(federated.train_x)
    assert abs(float(prepared.mean())) < 0.05
    assert abs(float(prepared.std()) - 1) < 0.05


@pytest.mark.parametrize("folder", ["emnist", "EMNIST/raw", "."])
def test_emnist(tmp_path: Path, folder: str) -> None:
    images, labels = files.write_emnist(tmp_path / folder, 470, 94)
    federated = load("emnist", tmp_path, num_clients=5)
    np.testing.assert_array_equal(federated.train_x, images)
    np.testing.assert_array_equal(federated.train_y, labels)
    assert federated.test_x.shape == (94, 1, 28, 28)
    assert len(federated.clients) == 5


def test_emnist_under_the_names_of_mnist(tmp_path: Path) -> None:
    images, _ = files.write_emnist(tmp_path / "emnist", 47, 47, prefix="")
    for path in (tmp_path / "emnist").glob("test-*"):
        path.rename(path.with_name(path.name.replace("test", "t10k")))
    federated = load("emnist", tmp_path, num_clients=2, partition="iid")
    np.testing.assert_array_equal(federated.train_x, images)


def test_the_split_of_47_classes_is_preferred(tmp_path: Path) -> None:
    files.write_emnist(tmp_path / "emnist", 60, 20, prefix="emnist-byclass-")
    files.write_emnist(tmp_path / "emnist", 50, 10, prefix="emnist-bymerge-")
    federated = load("emnist", tmp_path, num_clients=2, partition="iid")
    assert (len(federated.train_y), len(federated.test_y)) == (50, 10)


def test_both_parts_are_of_one_split(tmp_path: Path) -> None:
    files.write_emnist(tmp_path, 60, 20, prefix="emnist-bymerge-")
    files.write_emnist(tmp_path, 50, 10, prefix="emnist-balanced-")
    for path in tmp_path.glob("emnist-balanced-test-*"):
        path.unlink()
    with pytest.raises(MissingDataError, match="no emnist-balanced-test-images-idx3-ubyte or"):
        load("emnist", tmp_path, num_clients=2)


def test_a_split_of_other_classes_is_not_taken(tmp_path: Path) -> None:
    files.write_emnist(tmp_path, 50, 10, prefix="emnist-letters-")
    with pytest.raises(MissingDataError, match="no emnist-balanced-train-images"):
        load("emnist", tmp_path, num_clients=2)


def test_too_many_classes(tmp_path: Path) -> None:
    files.write_emnist(tmp_path, 50, 10)
    path = tmp_path / "emnist-balanced-train-labels-idx1-ubyte"
    path.with_name(path.name + ".gz").unlink()
    path.write_bytes(files.idx(np.full(50, 61, np.uint8)))
    with pytest.raises(DataFormatError, match="found labels 61 to 61, expected 0 to 46"):
        load("emnist", tmp_path, num_clients=2)


@pytest.mark.parametrize("form", ["binary", "python"])
@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("cifar10", ["data_batch_1", "data_batch_2", "test_batch"]),
        ("cifar100", ["train", "test"]),
    ],
)
def test_cifar(tmp_path: Path, name: str, names: list[str], form: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    written = []
    for number, file_name in enumerate(names):
        images = files.random_bytes(6, 3, 32, 32, seed=number)
        labels = files.random_bytes(6, seed=number) % 10
        written.append((images, labels))
        if form == "binary":
            coarse = [labels // 5] if name == "cifar100" else []
            content = files.cifar_binary(images, *coarse, labels)
            (folder / f"{file_name}.bin").write_bytes(content)
        else:
            key = "fine_labels" if name == "cifar100" else "labels"
            (folder / file_name).write_bytes(files.cifar_python(images, labels.tolist(), key=key))
    federated = load(name, tmp_path, num_clients=3)
    train = written[:-1]
    np.testing.assert_array_equal(federated.train_x, np.concatenate([x for x, _ in train]))
    np.testing.assert_array_equal(federated.train_y, np.concatenate([y for _, y in train]))
    np.testing.assert_array_equal(federated.test_x, written[-1][0])
    np.testing.assert_array_equal(federated.test_y, written[-1][1])


@pytest.mark.parametrize("suffix", ["", ".bin"])
def test_a_batch_of_cifar_that_is_missing_between_others(tmp_path: Path, suffix: str) -> None:
    images, labels = files.random_bytes(6, 3, 32, 32), files.random_bytes(6) % 10
    for name in ("data_batch_1", "data_batch_3", "test_batch"):
        content = (
            files.cifar_binary(images, labels)
            if suffix
            else files.cifar_python(images, labels.tolist())
        )
        (tmp_path / f"{name}{suffix}").write_bytes(content)
    with pytest.raises(MissingDataError, match=f"found no data_batch_2{suffix} "):
        load("cifar10", tmp_path, num_clients=2)


# --- texts -------------------------------------------------------------------------------------


def speech(length: int, seed: int) -> str:
    letters = np.random.default_rng(seed).integers(ALPHABET.index("a"), ALPHABET.index("z"), length)
    return "".join(ALPHABET[letter] for letter in letters)


def test_shakespeare_text(tmp_path: Path) -> None:
    anne, bob = speech(1080, 0), speech(200, 1)
    text = f"ANNE:\n{anne[:500]}\n\nCY:\nToo short.\n\nBOB:\n{bob}\n\nANNE:\n{anne[501:]}\n"
    (tmp_path / "shakespeare.txt").write_text(text, encoding="utf-8")
    anne = anne[:500] + "\n" + anne[501:]
    federated = load("shakespeare", tmp_path)
    # Of 1,000 samples 800 are for training, and 80 of them are kept; of 120, 96 and 9.
    assert [len(client) for client in federated.clients] == [80, 9]
    for position, (role, start) in enumerate([(anne, 0), (bob, 0)]):
        for number, sample in enumerate(federated.clients[position]):
            window = encode(role[start + number : start + number + 81])
            np.testing.assert_array_equal(federated.train_x[sample], window[:80])
            assert federated.train_y[sample] == window[80]
    assert len(federated.test_y) == 20 + 2
    np.testing.assert_array_equal(federated.test_x[0], encode(anne[800:880]))
    assert federated.test_y[0] == encode(anne[880])[0]


def test_shakespeare_leaf(tmp_path: Path) -> None:
    users = {name: speech(180, seed) for seed, name in enumerate(["V", "U"])}
    for part, start, end in (("train", 0, 50), ("test", 50, 60)):
        samples = {
            name: (
                [text[i : i + 80] for i in range(start, end)],
                [text[i + 80] for i in range(start, end)],
            )
            for name, text in users.items()
        }
        files.write_leaf(tmp_path / "shakespeare" / "data" / part / "all_data.json", samples)
    federated = load("shakespeare", tmp_path)
    assert [len(client) for client in federated.clients] == [5, 5]
    assert len(federated.test_y) == 2 * 2
    np.testing.assert_array_equal(federated.train_x[5], encode(users["V"][:80]))
    np.testing.assert_array_equal(federated.test_x[0], encode(users["U"][50:130]))
    assert federated.test_y[0] == encode(users["U"][130])[0]


def test_amazon(tmp_path: Path) -> None:
    rows = [("2", "Great", "good book, good music"), ("1", "", "bad music!")] * 4
    files.write_polarity(tmp_path / "amazon" / "train.csv.gz", rows)
    files.write_polarity(tmp_path / "amazon" / "test.csv.gz", [("1", "", "bad unseen good")])
    federated = load("amazon", tmp_path, num_clients=2)
    # good and music come twice as often as !, bad, book and great.
    assert federated.train_x[0, :6].tolist() == [7, 2, 6, 2, 3, 0]
    assert federated.train_x[1, :4].tolist() == [5, 3, 4, 0]
    assert federated.train_y[:2].tolist() == [1, 0]
    assert federated.test_x[0, :4].tolist() == [5, 1, 2, 0]
    assert federated.train_x.shape == (8, 100)


def test_texts_that_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    text = f"\ufeffANNE:\n{speech(300, 0)}\n\nBOB:\n{speech(300, 1)}\n\nANNE:\n{speech(300, 2)}\n"
    (tmp_path / "shakespeare.txt").write_text(text, encoding="utf-8")
    assert len(load("shakespeare", tmp_path).clients) == 2
    for name in ("train", "test"):
        (tmp_path / f"{name}.csv").write_text("\ufeff1,,bad\n2,,good\n", encoding="utf-8")
    assert load("amazon", tmp_path, num_clients=2).train_y.tolist() == [0, 1]


def test_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    assert data_root("~/data") == Path("/somewhere/data")


# --- real data ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in NAMES if name != "digits"])
def test_real_data(name: str) -> None:
    if not os.environ.get("DOCOFL_DATA"):
        pytest.skip(f"DOCOFL_DATA names no folder with {name}")
    try:
        federated = load(name, data_root())
    except MissingDataError as error:
        pytest.skip(str(error))
    num_clients = get_task(name).settings.num_clients
    assert len(federated.clients) == num_clients or num_clients is None
    assert min(map(len, federated.clients)) >= 2
    for labels in (federated.train_y, federated.test_y):
        assert len(labels) >= 1000
    assert set(federated.test_y.tolist()) <= set(federated.train_y.tolist())
    if name in ("emnist", "cifar10", "cifar100"):
        prepared = federated.prepare(federated.train_x[:5000])
        assert abs(float(prepared.mean())) < 0.1
        assert abs(float(prepared.std()) - 1) < 0.1
