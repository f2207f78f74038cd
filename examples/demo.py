"""What ECUQ does to a real tensor: a network trained on handwritten digits, at several budgets.

The data are scikit-learn's embedded digits. The network's weights are compressed as one flat
vector, restored, and the restored network is tested again.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from docofl_codec import build_info, ecuq

Floats = npt.NDArray[np.float32]

BUDGETS = (8, 4, 3, 2, 1.5)
REPEATS = 20


def train() -> tuple[MLPClassifier, npt.NDArray[Any], npt.NDArray[Any]]:
    """Train a network of about 800,000 weights; return it with the test data."""
    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        images / 16.0, labels, test_size=0.4, random_state=0
    )
    network = MLPClassifier((768, 768, 192), max_iter=12, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        network.fit(train_x, train_y)
    return network, test_x, test_y


def get_weights(network: MLPClassifier) -> Floats:
    """Return all weights as one flat vector."""
    parts = [part.ravel() for part in (*network.coefs_, *network.intercepts_)]
    return np.concatenate(parts).astype(np.float32)


def set_weights(network: MLPClassifier, weights: Floats) -> None:
    """Put a flat vector back into the network."""
    start = 0
    for part in (*network.coefs_, *network.intercepts_):
        part[...] = weights[start : start + part.size].reshape(part.shape)
        start += part.size


def seconds(call: Callable[[], object]) -> float:
    """Return the least time of a few calls."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Print one row for each budget."""
    console = Console()
    with console.status("Training a small network on scikit-learn's digits …"):
        network, test_x, test_y = train()
    weights = get_weights(network)
    build = build_info()
    console.print(
        f"{weights.size:,} trained weights, {weights.nbytes / 1e6:.1f} MB as float32, "
        f"test accuracy {network.score(test_x, test_y):.1%}\n"
        f"docofl_codec {build['version']}, ISA level {build['isa']}, OpenMP {build['openmp']}"
    )
    table = Table(title="ECUQ; encode and decode in GB/s of float32")
    for name in ("budget", "real bits", "ratio", "NMSE", "encode", "decode", "accuracy"):
        table.add_column(name, justify="right", no_wrap=True)
    out = np.empty_like(weights)
    for bits in BUDGETS:
        blob = ecuq.encode(weights, bits=bits)
        encode_seconds = seconds(lambda bits=bits: ecuq.encode(weights, bits=bits))  # type: ignore[misc]
        decode_seconds = seconds(lambda blob=blob: ecuq.decode(blob, out=out))  # type: ignore[misc]
        restored = np.asarray(ecuq.decode(blob))
        set_weights(network, restored)
        nmse = np.sum((weights - restored) ** 2) / np.sum(weights**2)
        table.add_row(
            f"{bits:g}",
            f"{8 * len(blob) / weights.size:.3f}",
            f"{weights.nbytes / len(blob):.1f} x",
            f"{nmse:.2e}",
            f"{weights.nbytes / encode_seconds / 1e9:.2f}",
            f"{weights.nbytes / decode_seconds / 1e9:.2f}",
            f"{network.score(test_x, test_y):.1%}",
        )
    console.print(table)


if __name__ == "__main__":
    main()
