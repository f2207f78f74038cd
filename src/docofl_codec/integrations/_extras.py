"""What to say where an optional package is absent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["needs"]


@contextmanager
def needs(package: str, *, extra: str) -> Iterator[None]:
    """Turn a failed import of a package into an error that names the extra.

    Examples
    --------
    >>> with needs("no_such_package", extra="zarr"):
    ...     import no_such_package
    Traceback (most recent call last):
    ModuleNotFoundError: no_such_package: not found, expected: pip install 'docofl_codec[zarr]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise ModuleNotFoundError(
            f"{package}: not found, expected: pip install 'docofl_codec[{extra}]'", name=package
        ) from error
