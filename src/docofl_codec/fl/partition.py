"""Who holds which samples.

Pure functions of the labels (or groups), the number of clients N and a seed. Each returns N arrays
of sample indices, in ascending order. No sample is given to two clients.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from docofl_codec.errors import InvalidInputError

__all__ = ["by_group", "dirichlet", "iid", "make_partition", "two_class"]

Indices = npt.NDArray[np.int64]
Labels = npt.NDArray[Any]

MAX_ALPHA = 1e6  # far beyond that its sums leave float64


def iid(num_samples: int, num_clients: int, seed: int) -> list[Indices]:
    """Deal all samples at random; sizes differ by one at most.

    Examples
    --------
    >>> sorted(len(client) for client in iid(10, 4, seed=0))
    [2, 2, 3, 3]
    """
    _check(num_samples, num_clients)
    order = _generator(seed).permutation(num_samples)
    return [np.sort(part) for part in np.array_split(order, num_clients)]


def two_class(
    labels: Labels, num_clients: int, seed: int, *, iid_share: float = 0.1
) -> list[Indices]:
    """Give each client 10 % i.i.d. samples and 90 % of two classes (the paper's EMNIST).

    The i.i.d. parts are dealt from all samples. What is left is cut, class by class, into shards
    of one size, the largest that gives 2 N of them, and each client gets two at random, of
    different classes as far as that can be. All clients have the same number of samples. The ends
    of the classes that fill no shard, and shards beyond 2 N, are used by nobody.

    Parameters
    ----------
    labels : array of int
        Of all samples.
    num_clients : int
        N.
    seed : int
        Of the deal.
    iid_share : float, default 0.1
        The part that is i.i.d.

    Raises
    ------
    InvalidInputError
        Where there are too few samples for 2 N shards.
    """
    _check(labels.size, num_clients)
    if not 0 <= iid_share < 1:
        raise InvalidInputError(f"iid_share: found {iid_share}, expected 0 to less than 1")
    generator = _generator(seed)
    order = generator.permutation(labels.size)
    per_client = round(iid_share * labels.size / num_clients)
    mixed, rest = np.split(order, [per_client * num_clients])

    classes, counts = np.unique(labels[rest], return_counts=True)
    size = rest.size // (2 * num_clients)
    while size and np.sum(counts // size) < 2 * num_clients:
        size -= 1
    if size == 0:
        raise InvalidInputError(
            f"labels: found {labels.size}, expected at least {2 * num_clients} beside the "
            f"i.i.d. parts of {num_clients} clients"
        )
    shards = [
        members[start : start + size]
        for label in classes
        for members in [rest[labels[rest] == label]]
        for start in range(0, members.size - size + 1, size)
    ]
    chosen = generator.permutation(len(shards))[: 2 * num_clients].reshape(num_clients, 2)
    shard_labels = np.array([labels[shard[0]] for shard in shards])
    _separate(chosen, shard_labels, generator)
    own = mixed.reshape(num_clients, per_client)
    return [
        np.sort(np.concatenate([own[client], shards[first], shards[second]]))
        for client, (first, second) in enumerate(chosen)
    ]


def _separate(pairs: npt.NDArray[np.int64], labels: Labels, generator: np.random.Generator) -> None:
    """Swap second members of pairs until no pair is of one class, where a swap can do that."""
    first, second = labels[pairs[:, 0]], labels[pairs[:, 1]]
    for client in np.flatnonzero(first == second):
        if first[client] != second[client]:
            continue
        fits = np.flatnonzero((second != first[client]) & (first != second[client]))
        if fits.size:
            other = generator.choice(fits)
            pairs[[client, other], 1] = pairs[[other, client], 1]
            second[[client, other]] = second[[other, client]]


def dirichlet(labels: Labels, num_clients: int, seed: int, *, alpha: float) -> list[Indices]:
    """Deal each class in proportions from Dirichlet(alpha); all samples are used.

    A client that would go empty gets one sample of the then largest client.

    Parameters
    ----------
    labels : array of int
        Of all samples.
    num_clients : int
        N.
    seed : int
        Of the deal.
    alpha : float
        Small: few classes a client; large: near i.i.d.
    """
    _check(labels.size, num_clients)
    if not 0 < alpha <= MAX_ALPHA:
        raise InvalidInputError(f"alpha: found {alpha}, expected above 0, at most {MAX_ALPHA:g}")
    generator = _generator(seed)
    clients: list[list[Indices]] = [[] for _ in range(num_clients)]
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        shares = generator.dirichlet(np.full(num_clients, alpha))
        ends = np.round(np.cumsum(shares)[:-1] * members.size).astype(np.int64)
        for client, part in zip(clients, np.split(members, ends), strict=True):
            client.append(part)
    parts = [np.concatenate(client) for client in clients]
    for empty in [index for index, part in enumerate(parts) if part.size == 0]:
        largest = max(range(num_clients), key=lambda index: parts[index].size)
        parts[empty], parts[largest] = parts[largest][:1], parts[largest][1:]
    return [np.sort(part) for part in parts]


def by_group(groups: Labels, num_clients: int | None, seed: int) -> list[Indices]:
    """Make each group a client, in the order of the groups' numbers.

    Parameters
    ----------
    groups : array of int
        The group of each sample: its role, say.
    num_clients : int, optional
        With fewer than there are groups, so many groups at random are kept.
    seed : int
        Of that choice.

    Raises
    ------
    InvalidInputError
        Where there are fewer groups than clients.
    """
    names = np.unique(groups)
    if num_clients is None:
        num_clients = names.size
    if not 1 <= num_clients <= names.size:
        raise InvalidInputError(f"num_clients: found {num_clients}, expected 1 to {names.size}")
    kept = np.sort(_generator(seed).permutation(names.size)[:num_clients])
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], names)
    parts = np.split(order, starts[1:])
    return [parts[index] for index in kept]


def make_partition(
    spelling: str,
    labels: Labels,
    num_clients: int | None,
    seed: int,
    *,
    groups: Labels | None = None,
) -> list[Indices]:
    """Partition as a short spelling says: iid, two_class, two_class:0.2, dirichlet:0.5 or group.

    Parameters
    ----------
    spelling : str
        The name of a partition and, behind a colon, its number.
    labels : array of int
        Of all samples.
    num_clients : int, optional
        N. Only groups have a number of their own.
    seed : int
        Of the deal.
    groups : array of int, optional
        Of all samples, for data that have them.

    Examples
    --------
    >>> import numpy as np
    >>> labels = np.arange(100) % 5
    >>> [len(part) for part in make_partition("iid", labels, 4, seed=0)]
    [25, 25, 25, 25]
    """
    name, _, text = spelling.partition(":")
    try:
        number = float(text) if text else None
    except ValueError:
        raise InvalidInputError(
            f"partition: found {spelling!r}, expected a number behind the colon"
        ) from None
    if name == "group" and number is None:
        if groups is None:
            raise InvalidInputError("partition: found 'group', expected data that have groups")
        return by_group(groups, num_clients, seed)
    if num_clients is None:
        raise InvalidInputError(f"num_clients: found none, expected a number for {spelling!r}")
    if name == "iid" and number is None:
        return iid(labels.size, num_clients, seed)
    if name == "two_class":
        share = 0.1 if number is None else number
        return two_class(labels, num_clients, seed, iid_share=share)
    if name == "dirichlet" and number is not None:
        return dirichlet(labels, num_clients, seed, alpha=number)
    raise InvalidInputError(
        f"partition: found {spelling!r}, expected iid, two_class, dirichlet:alpha or group"
    )


def _generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def _check(num_samples: int, num_clients: int) -> None:
    if not 1 <= num_clients <= num_samples:
        raise InvalidInputError(f"num_clients: found {num_clients}, expected 1 to {num_samples}")
