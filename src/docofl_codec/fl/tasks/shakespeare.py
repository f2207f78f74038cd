"""Shakespeare: the next character after 80, a client for each role (McMahan et al. 2017, LEAF).

Sample i of a role is its characters i to i + 79 and, as the answer, character i + 80. In reading
order the first 80 % of a role's samples are for training and the rest for the test, and of both
the first 10 % are used, at least two (the paper's appendix). Roles of less than 200 characters are
skipped. LEAF's own JSON, split into train and test by LEAF, is read the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from docofl_codec.fl.data.files import DataFormatError, DataSet
from docofl_codec.fl.data.leaf import read_leaf
from docofl_codec.fl.data.role_text import read_role_text
from docofl_codec.fl.models import CharLSTM, build
from docofl_codec.fl.partition import make_partition
from docofl_codec.fl.tasks.task import Federated, Settings, Task, as_tensor

__all__ = ["TASK", "encode"]

Characters = npt.NDArray[np.uint8]
# Inputs, n x 80, and answers.
Samples = tuple[Characters, Characters]

LENGTH = 80
MIN_CHARACTERS = 200
TRAIN_SHARE = 0.8
KEPT_SHARE = 0.1
MIN_SAMPLES = 2
# LEAF's 80 characters. Others, which are rare, are read as spaces.
ALPHABET = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
SOURCE = DataSet(
    "Shakespeare",
    ["shakespeare", "shakespeare/data"],
    "https://github.com/karpathy/char-rnn (data/tinyshakespeare/input.txt) and "
    "https://leaf.cmu.edu (LEAF)",
)


def encode(text: str) -> Characters:
    """Return the numbers of a text's characters.

    Examples
    --------
    >>> encode("Abé").tolist()
    [25, 54, 1]
    """
    code_points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    return _TABLE[np.minimum(code_points, _TABLE.size - 1)]


def _make_table() -> Characters:
    table = np.full(256, ALPHABET.index(" "), np.uint8)
    for number, character in enumerate(ALPHABET):
        table[ord(character)] = number
    return table


_TABLE = _make_table()


def load(root: Path | None, *, seed: int, num_clients: int | None, partition: str) -> Federated:
    """Read and split the set: LEAF's JSON if it is there, or else plain text."""
    train_files = SOURCE.find_all(root, "train/*.json")
    if train_files:
        test_files = SOURCE.find_all(root, "test/*.json")
        if not test_files:
            raise SOURCE.missing(root, "test/*.json")
        train, test = _read_leaf(train_files), _read_leaf(test_files)
    else:
        path = SOURCE.find(root, "*shakespeare*.txt", "input.txt", "train/*.json")
        roles = [encode(text) for text in read_role_text(path).values()]
        roles = [role for role in roles if role.size >= MIN_CHARACTERS]
        if not roles:
            raise DataFormatError(
                f"{path}: found no role of {MIN_CHARACTERS} characters, expected one"
            )
        splits = [_split(role) for role in roles]
        train, test = [one for one, _ in splits], [one for _, one in splits]
    groups = np.repeat(np.arange(len(train)), [answers.size for _, answers in train])
    train_x, train_y = _join(train)
    test_x, test_y = _join(test)
    return Federated(
        train_x=train_x,
        train_y=train_y,
        test_x=test_x,
        test_y=test_y,
        clients=make_partition(partition, train_y.numpy(), num_clients, seed, groups=groups),
        make_model=partial(build, partial(CharLSTM, len(ALPHABET))),
        prepare=torch.Tensor.long,
    )


def _split(role: Characters) -> tuple[Samples, Samples]:
    """Return the samples of a role that are kept for training and for the test."""
    windows = np.lib.stride_tricks.sliding_window_view(role, LENGTH)[:-1]
    answers = role[LENGTH:]
    num_train = round(TRAIN_SHARE * answers.size)
    return (
        _keep(windows[:num_train], answers[:num_train]),
        _keep(windows[num_train:], answers[num_train:]),
    )


def _keep(inputs: Characters, answers: Characters) -> Samples:
    kept = max(MIN_SAMPLES, int(KEPT_SHARE * answers.size))
    return inputs[:kept], answers[:kept]


def _read_leaf(paths: Iterable[Path]) -> list[Samples]:
    """Return the kept samples of each user, in the order of their names."""
    samples = []
    for _, (inputs, answers) in sorted(read_leaf(paths, length=LENGTH).items()):
        kept = max(MIN_SAMPLES, int(KEPT_SHARE * len(answers)))
        windows = encode("".join(inputs[:kept])).reshape(-1, LENGTH)
        samples.append((windows, encode("".join(answers[:kept]))))
    return samples


def _join(samples: Sequence[Samples]) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = np.concatenate([inputs for inputs, _ in samples])
    answers = np.concatenate([answers for _, answers in samples])
    return as_tensor(inputs), as_tensor(answers.astype(np.int64))


TASK = Task(
    "shakespeare",
    Settings(
        rounds=200,
        num_clients=None,
        per_round=20,
        partition="group",
        batch_size=4,
        client_lr=0.5,
        eval_every=10,
    ),
    load,
)
