"""The paper's tasks, and one that needs no download. Each is a small module with a ``TASK``."""

from __future__ import annotations

from importlib import import_module

from docofl_codec.errors import InvalidInputError
from docofl_codec.fl.tasks.task import Federated, Settings, Task

__all__ = ["NAMES", "Federated", "Settings", "Task", "get_task"]

NAMES = ("digits", "emnist", "cifar10", "cifar100", "shakespeare", "amazon")


def get_task(name: str) -> Task:
    """Return a task by its name.

    Examples
    --------
    >>> get_task("emnist").settings.num_clients
    1000
    """
    if name not in NAMES:
        raise InvalidInputError(f"task: found {name!r}, expected one of {', '.join(NAMES)}")
    task: Task = import_module(f"docofl_codec.fl.tasks.{name}").TASK
    return task
