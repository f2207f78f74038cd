"""The golden state dict: every store, section and dtype of the layout, in a few kilobytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

FOLDER = Path(__file__).parent / "v1-state-dict"
BITS = 6.0


def make() -> dict[str, npt.NDArray[Any]]:
    """Return the tensors; integers of a generator, as those are the same everywhere."""
    rng = np.random.default_rng(7)

    def bell(*shape: int) -> npt.NDArray[np.float64]:
        return np.asarray(rng.integers(-1000, 1001, size=(4, *shape)).sum(axis=0) / 1024.0)

    shared = bell(40, 30).astype(np.float32)
    return {
        "embedding.weight": shared,
        "layer.weight": (bell(50, 40) / 8).astype(np.float32),
        "layer.bias": bell(16).astype(np.float32),
        "norm.running_var": np.array([1e-20, 497160.0, 3.5], np.float32),
        "double": bell(30, 40),
        "half": bell(35, 40).astype(np.float16),
        "brain": bell(40, 35).astype(ml_dtypes.bfloat16),
        "небо/сила": np.array([[True, False]] * 40),
        "steps": np.array(-3, np.int64),
        "phase": np.array([1 + 2j], np.complex64),
        "empty": np.zeros((0, 3), np.float32),
        "": np.arange(5, dtype=np.uint16),
        "head.weight": shared,
    }
