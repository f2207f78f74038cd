"""LEAF's JSON: ``{"users": […], "user_data": {user: {"x": […], "y": […]}}}``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from docofl_codec.fl.data.files import DataFormatError, read_bytes

__all__ = ["read_leaf"]


def read_leaf(paths: Iterable[Path]) -> dict[str, tuple[list[str], list[str]]]:
    """Read the texts x and y of each user, from all parts of a set.

    Raises
    ------
    DataFormatError
        Where a file is not of that form.
    """
    users: dict[str, tuple[list[str], list[str]]] = {}
    for path in paths:
        try:
            content = json.loads(read_bytes(path))
            parts = {
                user: (content["user_data"][user]["x"], content["user_data"][user]["y"])
                for user in content["users"]
            }
        except (ValueError, KeyError, TypeError) as error:
            raise DataFormatError(f"{path}: found {error!r}, expected LEAF's JSON") from error
        for user, (x, y) in parts.items():
            if not all(isinstance(text, str) for text in (*x, *y)) or len(x) != len(y):
                raise DataFormatError(
                    f"{path}: found user {user!r} with other than as many texts y as x"
                )
            known = users.setdefault(user, ([], []))
            known[0].extend(x)
            known[1].extend(y)
    return users
