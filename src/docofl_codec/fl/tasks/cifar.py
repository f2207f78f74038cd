"""CIFAR-10 and CIFAR-100, binary or python version, ResNet-9 (table 1 of the paper).

Images are not augmented: the paper mentions no augmentation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from docofl_codec.fl.data.cifar_binary import read_cifar_binary
from docofl_codec.fl.data.cifar_python import read_cifar_python
from docofl_codec.fl.data.files import DataFormatError, DataSet
from docofl_codec.fl.models import ResNet9, build
from docofl_codec.fl.partition import make_partition
from docofl_codec.fl.tasks.images import normalize
from docofl_codec.fl.tasks.task import Federated, Settings, Task, as_tensor

__all__ = ["CIFAR10", "CIFAR100", "make_task"]

PUBLISHED = "https://www.cs.toronto.edu/~kriz/cifar.html"


@dataclass(frozen=True)
class _Variant:
    """What tells the two sets apart."""

    source: DataSet
    num_classes: int
    label_bytes: int
    label_key: str
    train: str
    test: str
    mean: Sequence[float]
    deviation: Sequence[float]

    def read(
        self, root: Path | None, name: str
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Read all batches of a name, of the binary version if it is there."""
        parts = {
            path: read_cifar_binary(path, label_bytes=self.label_bytes)
            for path in self._find(root, f"{name}.bin")
        } or {
            path: read_cifar_python(path, labels=self.label_key) for path in self._find(root, name)
        }
        if not parts:
            raise self.source.missing(root, f"{name}.bin", name)
        for path, (_, labels) in parts.items():
            if labels.max() >= self.num_classes:
                raise DataFormatError(
                    f"{path}: found label {labels.max()}, expected 0 to {self.num_classes - 1}"
                )
        images, labels = (np.concatenate(part) for part in zip(*parts.values(), strict=True))
        return images, labels.astype(np.int64)

    def _find(self, root: Path | None, name: str) -> list[Path]:
        """Return the files of a name; of numbered ones those from the first on, without a gap."""
        found = self.source.find_all(root, name)
        for number, path in enumerate(found, 1):
            expected = name.replace("[1-5]", str(number))
            if path.name.removesuffix(".gz").removesuffix(".xz") != expected:
                raise self.source.missing(root, expected)
        return found

    def load(
        self, root: Path | None, *, seed: int, num_clients: int | None, partition: str
    ) -> Federated:
        """Read and split the set."""
        train_x, train_y = self.read(root, self.train)
        test_x, test_y = self.read(root, self.test)
        return Federated(
            train_x=as_tensor(train_x),
            train_y=as_tensor(train_y),
            test_x=as_tensor(test_x),
            test_y=as_tensor(test_y),
            clients=make_partition(partition, train_y, num_clients, seed),
            make_model=partial(build, partial(ResNet9, self.num_classes)),
            prepare=normalize(self.mean, self.deviation),
        )


CIFAR10 = _Variant(
    DataSet(
        "CIFAR-10 (Krizhevsky 2009)",
        ["cifar10", "cifar-10-batches-bin", "cifar-10-batches-py"],
        PUBLISHED,
    ),
    num_classes=10,
    label_bytes=1,
    label_key="labels",
    train="data_batch_[1-5]",
    test="test_batch",
    mean=(0.491, 0.482, 0.447),
    deviation=(0.247, 0.243, 0.262),
)
CIFAR100 = _Variant(
    DataSet(
        "CIFAR-100 (Krizhevsky 2009)",
        ["cifar100", "cifar-100-binary", "cifar-100-python"],
        PUBLISHED,
    ),
    num_classes=100,
    label_bytes=2,
    label_key="fine_labels",
    train="train",
    test="test",
    mean=(0.507, 0.487, 0.441),
    deviation=(0.267, 0.256, 0.276),
)


def make_task(name: str, variant: _Variant) -> Task:
    """Make the task of one of the sets, with the paper's settings of CIFAR-100."""
    return Task(
        name,
        Settings(
            rounds=1000,
            num_clients=200,
            per_round=10,
            partition="iid",
            batch_size=128,
            client_lr=0.05,
            eval_every=50,
        ),
        variant.load,
    )
