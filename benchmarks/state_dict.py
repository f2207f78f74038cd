"""What a state dict costs beside the codec on its flat vector: ``python -m benchmarks.state_dict``.

The model has the tensors of a ResNet-18 for 32 x 32 images (`benchmarks.micro.datasets`), random,
each with the spread of its initialization: 11,173,962 coordinates. Both sides take turns; the least
times are compared.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.micro.datasets import resnet18_tensors
from benchmarks.timing import Call, available_cpus, interleaved_min
from docofl_codec import decode_state_dict, ecuq, encode_state_dict

BITS = (1.5, 2.0, 3.0, 4.0, 8.0)
REPEATS = 21


def resnet18() -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    """Return a state dict of 62 tensors."""
    rng = np.random.default_rng(2)
    model = {}
    for number, (size, mean, sigma) in enumerate(resnet18_tensors()):
        values = mean + sigma * rng.standard_normal(size, dtype=np.float32)
        rows = math.gcd(size, 512)
        shape = (size,) if size <= 512 else (rows, size // rows)
        model[f"layer{number}.weight"] = values.astype(np.float32).reshape(shape)
    return model


def flat(model: dict[str, np.ndarray[Any, np.dtype[np.float32]]]) -> Any:
    """Return all coordinates as one vector."""
    return np.concatenate([tensor.ravel() for tensor in model.values()])


def _calls(model: Any, vector: Any, bits: float, threads: int) -> dict[str, Call]:
    frame = ecuq.encode(vector, bits=bits)
    blob = encode_state_dict(model, bits=bits)
    return {
        "flat": lambda: ecuq.encode(vector, bits=bits, threads=threads),
        "dict": lambda: encode_state_dict(model, bits=bits, threads=threads),
        "flat back": lambda: ecuq.decode(frame, threads=threads),
        "dict back": lambda: decode_state_dict(blob, threads=threads),
    }


def main() -> None:
    """Print milliseconds and ratios."""
    model = resnet18()
    vector = flat(model)
    print(f"{vector.size:,} coordinates, least of {REPEATS} in turn, milliseconds")
    print("bits threads | flat encode  state dict  ratio | flat decode  state dict  ratio")
    for threads in (1, 2) if available_cpus() > 1 else (1,):
        for bits in BITS:
            best = interleaved_min(_calls(model, vector, bits, threads), REPEATS)
            cells = []
            for suffix in ("", " back"):
                one, other = best["flat" + suffix], best["dict" + suffix]
                cells.append(f"{1e3 * one:11.1f} {1e3 * other:11.1f} {other / one:6.2f}")
            print(f"{bits:4} {threads:7} | {cells[0]} | {cells[1]}")


if __name__ == "__main__":
    main()
