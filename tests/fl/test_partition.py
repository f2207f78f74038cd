"""Partitions: sizes, mixes of classes, and the same deal for the same seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from docofl_codec import InvalidInputError
from docofl_codec.fl.partition import by_group, dirichlet, iid, make_partition, two_class

Partition = Callable[[int], list[npt.NDArray[np.int64]]]

LABELS = np.random.default_rng(0).integers(0, 47, 20_000)
GROUPS = np.random.default_rng(1).integers(0, 40, LABELS.size)
CLIENTS = 200
PARTITIONS: dict[str, Partition] = {
    "iid": lambda seed: iid(LABELS.size, CLIENTS, seed),
    "two_class": lambda seed: two_class(LABELS, CLIENTS, seed),
    "dirichlet": lambda seed: dirichlet(LABELS, CLIENTS, seed, alpha=0.1),
    "group": lambda seed: by_group(GROUPS, 30, seed),
}


@pytest.mark.parametrize("name", PARTITIONS)
def test_a_seed_fixes_the_deal(name: str) -> None:
    first, again, other = (PARTITIONS[name](seed) for seed in (5, 5, 6))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("name", PARTITIONS)
def test_no_sample_is_held_twice(name: str) -> None:
    clients = PARTITIONS[name](0)
    held = np.concatenate(clients)
    assert np.unique(held).size == held.size
    assert 0 <= held.min() <= held.max() < LABELS.size
    assert min(client.size for client in clients) > 0
    assert all(client.dtype == np.int64 and (np.diff(client) > 0).all() for client in clients)


@pytest.mark.parametrize("name", ["iid", "dirichlet"])
def test_all_samples_are_held(name: str) -> None:
    assert sum(client.size for client in PARTITIONS[name](0)) == LABELS.size


def test_iid_has_all_classes_everywhere() -> None:
    clients = iid(LABELS.size, 10, 0)
    overall = np.bincount(LABELS, minlength=47) / LABELS.size
    for client in clients:
        share = np.bincount(LABELS[client], minlength=47) / client.size
        assert np.abs(share - overall).max() < 0.015


def test_two_class_mix() -> None:
    clients = two_class(LABELS, CLIENTS, 0)
    assert len({client.size for client in clients}) == 1
    size = clients[0].size
    assert size > 0.9 * LABELS.size / CLIENTS
    pairs = set()
    for client in clients:
        counts = np.bincount(LABELS[client], minlength=47)
        first, second = np.sort(np.argsort(counts)[-2:])
        pairs.add((first, second))
        assert 0.88 * size <= counts[first] + counts[second] <= 0.95 * size
        assert abs(int(counts[first]) - int(counts[second])) <= 5
    assert len(pairs) > 0.8 * CLIENTS


def test_two_class_with_few_classes_avoids_pairs_of_one() -> None:
    labels = np.arange(3000) % 3
    clients = two_class(labels, 50, 0, iid_share=0)
    assert all(np.unique(labels[client]).size == 2 for client in clients)


def test_two_class_of_one_class_still_deals() -> None:
    assert sum(map(len, two_class(np.zeros(100, int), 5, 0))) == 100


def test_small_alpha_means_few_classes() -> None:
    def classes(alpha: float) -> float:
        clients = dirichlet(LABELS, 20, 0, alpha=alpha)
        return float(np.mean([np.unique(LABELS[client]).size for client in clients]))

    assert classes(0.01) < classes(0.1) < classes(10)
    assert classes(10) == 47


def test_dirichlet_leaves_nobody_empty() -> None:
    clients = dirichlet(np.arange(60) % 3, 50, 0, alpha=0.01)
    assert min(client.size for client in clients) == 1
    assert sum(client.size for client in clients) == 60


def test_groups_are_clients() -> None:
    clients = by_group(GROUPS, None, 0)
    assert len(clients) == 40
    for group, client in enumerate(clients):
        np.testing.assert_array_equal(client, np.flatnonzero(group == GROUPS))
    some = by_group(GROUPS, 7, 3)
    assert len(some) == 7
    assert all(np.unique(GROUPS[client]).size == 1 for client in some)


@pytest.mark.parametrize(
    ("spelling", "expected"),
    [
        ("iid", iid(LABELS.size, 9, 4)),
        ("two_class", two_class(LABELS, 9, 4)),
        ("two_class:0.5", two_class(LABELS, 9, 4, iid_share=0.5)),
        ("dirichlet:0.3", dirichlet(LABELS, 9, 4, alpha=0.3)),
        ("group", by_group(GROUPS, 9, 4)),
    ],
)
def test_spellings(spelling: str, expected: list[npt.NDArray[np.int64]]) -> None:
    clients = make_partition(spelling, LABELS, 9, 4, groups=GROUPS)
    assert all(np.array_equal(a, b) for a, b in zip(clients, expected, strict=True))


@pytest.mark.parametrize(
    ("spelling", "num_clients", "message"),
    [
        ("even", 5, "found 'even'"),
        ("dirichlet", 5, "dirichlet:alpha"),
        ("dirichlet:x", 5, "number behind the colon"),
        ("dirichlet:0", 5, "alpha: found 0"),
        ("dirichlet:inf", 5, "alpha: found inf, expected above 0, at most 1e"),
        ("dirichlet:1e307", 5, "at most 1e"),
        ("dirichlet:nan", 5, "alpha: found nan"),
        ("dirichlet:-1", 5, "alpha: found -1"),
        ("iid:3", 5, "found 'iid:3'"),
        ("two_class:1", 5, "iid_share"),
        ("two_class", 60, "expected at least 120"),
        ("iid", 0, "num_clients: found 0"),
        ("iid", 101, "expected 1 to 100"),
        ("iid", None, "num_clients: found none"),
        ("group", 5, "data that have groups"),
    ],
)
def test_bad_options(spelling: str, num_clients: int | None, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make_partition(spelling, np.arange(100) % 5, num_clients, 0)


def test_more_clients_than_groups() -> None:
    with pytest.raises(InvalidInputError, match="expected 1 to 40"):
        by_group(GROUPS, 41, 0)
