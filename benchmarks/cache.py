"""The folder that holds what the benchmarks download or build."""

from __future__ import annotations

from docofl_codec.figures.weights import cache_dir

__all__ = ["cache_dir"]
