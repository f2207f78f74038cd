"""The folder that holds what the benchmarks download or build."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """Return the cache folder, created if need be.

    Returns
    -------
    Path
        ``$DOCOFL_CACHE`` when that is set, else ``~/.cache/docofl_codec``.
    """
    chosen = os.environ.get("DOCOFL_CACHE")
    folder = Path(chosen) if chosen else Path.home() / ".cache" / "docofl_codec"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
