"""EMNIST: 47 classes of handwritten characters, LeNet (table 1 of the paper)."""

from __future__ import annotations

import glob
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from docofl_codec.fl.data.files import DataFormatError, DataSet
from docofl_codec.fl.data.idx import read_idx
from docofl_codec.fl.models import LeNet, build
from docofl_codec.fl.partition import make_partition
from docofl_codec.fl.tasks.images import normalize
from docofl_codec.fl.tasks.task import Federated, Settings, Task, as_tensor

__all__ = ["TASK"]

NUM_CLASSES = 47
SOURCE = DataSet(
    "EMNIST (Cohen et al. 2017)",
    ["emnist", "EMNIST/raw", "emnist/gzip", "gzip"],
    "https://www.nist.gov/itl/products-and-services/emnist-dataset",
)
# The splits of 47 classes; files under the names of MNIST are taken for such a split.
PREFIXES = ("emnist-balanced-", "emnist-bymerge-", "emnist-bymerge*-", "")
IMAGES = "-images-idx3-ubyte"
TRAIN_NAME = "train"
TEST_NAMES = ("test", "t10k")


def find_images(root: Path | None) -> tuple[Path, Path]:
    """Return the images for training and for the test, both of the same split."""
    train = SOURCE.find(root, *(f"{prefix}{TRAIN_NAME}{IMAGES}" for prefix in PREFIXES))
    prefix = glob.escape(train.name.partition(f"{TRAIN_NAME}{IMAGES}")[0])
    return train, SOURCE.find(root, *(f"{prefix}{name}{IMAGES}" for name in TEST_NAMES))


def read_part(
    root: Path | None, images_path: Path
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Read images, n x 1 x 28 x 28, and labels of one part of the set.

    The files hold images with rows and columns exchanged; they are put upright.
    """
    images = read_idx(images_path, num_dims=3)
    labels_name = images_path.name.replace("images-idx3", "labels-idx1")
    labels_path = SOURCE.find(root, labels_name.removesuffix(".gz").removesuffix(".xz"))
    labels = read_idx(labels_path, num_dims=1)
    if images.shape[1:] != (28, 28) or images.dtype != np.uint8:
        raise DataFormatError(
            f"{images_path}: found {images.shape[1:]} {images.dtype}, expected 28 x 28 bytes"
        )
    if len(images) != len(labels):
        raise DataFormatError(f"{labels_path}: found {len(labels)}, expected {len(images)} labels")
    if not np.issubdtype(labels.dtype, np.integer):
        raise DataFormatError(f"{labels_path}: found {labels.dtype}, expected whole numbers")
    if not 0 <= labels.min() <= labels.max() < NUM_CLASSES:
        raise DataFormatError(
            f"{labels_path}: found labels {labels.min()} to {labels.max()}, expected 0 to "
            f"{NUM_CLASSES - 1} as in the splits balanced and bymerge"
        )
    upright = np.ascontiguousarray(images.transpose(0, 2, 1))[:, None]
    return upright, labels.astype(np.int64)


def load(root: Path | None, *, seed: int, num_clients: int | None, partition: str) -> Federated:
    """Read and split the set."""
    train_x, train_y, test_x, test_y = (
        part for path in find_images(root) for part in read_part(root, path)
    )
    return Federated(
        train_x=as_tensor(train_x),
        train_y=as_tensor(train_y),
        test_x=as_tensor(test_x),
        test_y=as_tensor(test_y),
        clients=make_partition(partition, train_y, num_clients, seed),
        make_model=partial(build, partial(LeNet, NUM_CLASSES)),
        prepare=normalize([0.174], [0.332]),
    )


TASK = Task(
    "emnist",
    Settings(
        rounds=600,
        num_clients=1000,
        per_round=20,
        partition="two_class",
        batch_size=64,
        client_lr=0.05,
        eval_every=25,
    ),
    load,
)
