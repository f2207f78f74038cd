"""Small state dicts of all kinds."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def small_model(seed: int = 0) -> dict[str, Array]:
    """Return a network with everything that a state dict may hold, about 140,000 coordinates."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(scale=0.05, size=(300, 128)).astype(np.float32)
    return {
        "embedding.weight": shared,
        "block.0.weight": rng.normal(scale=0.3, size=(128, 64, 3, 3)).astype(np.float32),
        "block.0.bias": rng.normal(size=128).astype(np.float32),
        "bn.weight": rng.normal(1, 0.1, size=64).astype(np.float32),
        "bn.running_var": np.abs(rng.normal(scale=4e5, size=64)).astype(np.float32),
        "bn.num_batches_tracked": np.array(12345, dtype=np.int64),
        "mask": np.tril(np.ones((40, 40), dtype=bool)),
        "half": rng.normal(size=(200, 60)).astype(np.float16),
        "double": rng.normal(size=(100, 150)),
        "fourier": (rng.normal(size=(5, 5)) + 1j).astype(np.complex64),
        "empty": np.zeros((0, 3), dtype=np.float32),
        "scalar": np.array(0.25, dtype=np.float32),
        "head.weight": shared,
    }


def num_coordinates(model: dict[str, Any]) -> int:
    """Count the coordinates, tied tensors once."""
    different = {id(tensor): tensor for tensor in model.values()}
    return sum(int(np.prod(tensor.shape)) for tensor in different.values())
