"""LEAF's JSON: ``{"users": […], "user_data": {user: {"x": […], "y": […]}}}``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from docofl_codec.fl.data.files import DataFormatError, check_num_samples, read_bytes, shorten

__all__ = ["read_leaf"]


def read_leaf(paths: Iterable[Path], *, length: int) -> dict[str, tuple[list[str], list[str]]]:
    """Read the texts x and y of each user, from all parts of a set.

    Parameters
    ----------
    paths : iterable of Path
        Of the parts, plain or compressed.
    length : int
        The expected number of characters of each x; each y has one.

    Raises
    ------
    DataFormatError
        Where a file is not of that form, or holds no texts.
    """
    users: dict[str, tuple[list[str], list[str]]] = {}
    for path in paths:
        try:
            content = json.loads(read_bytes(path))
            parts = {
                user: (content["user_data"][user]["x"], content["user_data"][user]["y"])
                for user in content["users"]
            }
        except DataFormatError:
            raise
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            found = shorten(f"{type(error).__name__}: {error}")
            raise DataFormatError(f"{path}: found {found}, expected LEAF's JSON") from error
        for user, (x, y) in parts.items():
            if not isinstance(user, str):
                raise DataFormatError(
                    f"{path}: found a user of type {type(user).__name__}, expected names"
                )
            place = f"{path}, user {shorten(user)!r}"
            _check_texts(f"{place}, x", x, length)
            _check_texts(f"{place}, y", y, 1)
            if len(x) != len(y):
                raise DataFormatError(f"{place}: found {len(y)} texts y, expected {len(x)} as of x")
            known = users.setdefault(user, ([], []))
            known[0].extend(x)
            known[1].extend(y)
        check_num_samples(path, sum(len(y) for _, y in parts.values()))
    return users


def _check_texts(place: str, texts: Any, length: int) -> None:
    if not isinstance(texts, list):
        raise DataFormatError(f"{place}: found {type(texts).__name__}, expected a list of texts")
    for text in texts:
        if not isinstance(text, str):
            raise DataFormatError(f"{place}: found {type(text).__name__}, expected texts")
        if len(text) != length:
            raise DataFormatError(
                f"{place}: found a text of {len(text)} characters, expected {length}"
            )
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            raise DataFormatError(f"{place}: found half a surrogate pair, expected Unicode")
