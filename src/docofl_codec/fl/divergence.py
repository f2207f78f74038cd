"""When a run is said to have diverged: one rule for its result, for tables and for reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from docofl_codec.fl.run_files import known

__all__ = ["has_diverged"]

# No loss of a model that learns is as large.
MAX_LOSS = 1e6
LOSSES = ("train_loss", "test_loss", "train_subset_loss")
# A model that ends with so many times the loss of its initial weights has learned nothing.
MAX_GROWTH = 1.5


def has_diverged(metrics: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether the rounds so far are those of a run that diverged.

    It has if it was stopped for it, if a loss was above 10^6 or the loss of an evaluation not
    finite, or if the model now loses more than 1.5 times what its initial weights did, both on the
    same training samples.

    Parameters
    ----------
    metrics : sequence of mapping
        One for each round. What was not finite is None. Without an ``initial_loss`` the last rule
        says nothing.

    Examples
    --------
    >>> first = {"round": 0, "initial_loss": 2.3}
    >>> has_diverged([first, {"round": 1, "train_subset_loss": 1.4}])
    False
    >>> has_diverged([first, {"round": 1, "train_subset_loss": 4.1}])
    True
    """
    if any(entry.get("diverged") for entry in metrics):
        return True
    if any(_has_left_bounds(entry) for entry in metrics):
        return True
    began = known(metrics, "initial_loss")[:1]
    ended = known(metrics, "train_subset_loss")[-1:]
    return bool(began and ended) and ended[0] > MAX_GROWTH * began[0]


def _has_left_bounds(entry: Mapping[str, Any]) -> bool:
    losses = {name: entry[name] for name in LOSSES if name in entry}
    is_evaluated = entry.get("test_accuracy") is not None
    return any(
        (name != "train_loss" and is_evaluated) if loss is None else not abs(loss) < MAX_LOSS
        for name, loss in losses.items()
    )
