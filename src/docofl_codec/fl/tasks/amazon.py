"""Amazon reviews: positive or negative, LSTM (table 1 of the paper)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from docofl_codec.fl.data.files import DataSet
from docofl_codec.fl.data.polarity_csv import read_polarity_csv
from docofl_codec.fl.models import SentimentLSTM, build
from docofl_codec.fl.partition import make_partition
from docofl_codec.fl.tasks.task import Federated, Settings, Task, as_tensor

__all__ = ["TASK", "make_vocabulary", "tokenize", "words_of"]

# Words of the vocabulary, padding and unknown words among them; 8.3 M weights in all.
MAX_WORDS = 30_400
PADDING, UNKNOWN = 0, 1
LENGTH = 100
WORD = re.compile(r"[a-z0-9]+|['’][a-z]+|[!?]")
SOURCE = DataSet(
    "Amazon review polarity (Zhang et al. 2015)",
    ["amazon", "amazon_review_polarity_csv"],
    "https://course.fast.ai/datasets (amazon_review_polarity_csv)",
)


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case; of the marks, ! and ? count.

    Examples
    --------
    >>> words_of("It's GREAT, isn't it?")
    ['it', "'s", 'great', 'isn', "'t", 'it', '?']
    """
    return WORD.findall(text.lower())


def make_vocabulary(texts: Iterable[str], *, max_words: int = MAX_WORDS) -> dict[str, int]:
    """Give numbers from 2 on to the most frequent words; ties in alphabetical order.

    Examples
    --------
    >>> make_vocabulary(["a b b", "c b a"], max_words=4)
    {'b': 2, 'a': 3}
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(words_of(text))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return {word: number for number, word in enumerate(ranked[: max_words - 2], 2)}


def tokenize(
    texts: Sequence[str], vocabulary: Mapping[str, int], *, length: int = LENGTH
) -> npt.NDArray[np.int16]:
    """Return the numbers of each text's first words, n x length, padded at the end.

    Examples
    --------
    >>> tokenize(["b x", "a b b"], {"b": 2, "a": 3}, length=3).tolist()
    [[2, 1, 0], [3, 2, 2]]
    """
    numbers = np.full((len(texts), length), PADDING, np.int16)
    for row, text in zip(numbers, texts, strict=True):
        words = [vocabulary.get(word, UNKNOWN) for word in words_of(text)[:length]]
        row[: len(words)] = words
    return numbers


def load(root: Path | None, *, seed: int, num_clients: int | None, partition: str) -> Federated:
    """Read and split the set; the vocabulary is that of all training texts."""
    train_texts, train_y = read_polarity_csv(SOURCE.find(root, "train.csv"))
    test_texts, test_y = read_polarity_csv(SOURCE.find(root, "test.csv"))
    vocabulary = make_vocabulary(train_texts)
    return Federated(
        train_x=as_tensor(tokenize(train_texts, vocabulary)),
        train_y=as_tensor(train_y.astype(np.int64)),
        test_x=as_tensor(tokenize(test_texts, vocabulary)),
        test_y=as_tensor(test_y.astype(np.int64)),
        clients=make_partition(partition, train_y, num_clients, seed),
        make_model=partial(build, partial(SentimentLSTM, len(vocabulary) + 2)),
        prepare=torch.Tensor.long,
    )


TASK = Task(
    "amazon",
    Settings(
        rounds=200,
        num_clients=500,
        per_round=10,
        partition="iid",
        batch_size=64,
        client_optimizer="adam",
        client_lr=0.005,
        server_lr=0.1,
        eval_every=10,
    ),
    load,
)
