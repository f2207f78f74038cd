"""Made-up folders of runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

NUM_WEIGHTS = 64_851
CLIENTS = 20


def make_metrics(
    rounds: int,
    *,
    bits: tuple[float, float, float] | None = (2, 2, 3),
    seed: int = 0,
    best: float = 0.83,
    eval_every: int = 25,
    links: bool = False,
    adaptive: bool = False,
) -> list[dict[str, Any]]:
    """Make rounds that look like those of a run; without bits, like those of plain averaging."""
    random = np.random.default_rng(seed)
    metrics = []
    for t in range(rounds):
        progress = 1 - np.exp(-t / (0.25 * rounds))
        anchor, correction, update = bits or (0.0, 32.0, 32.0)
        if adaptive:
            anchor += 2 * (t > rounds / 2)
        rho = 1 + 20 * t / rounds / anchor**2 * random.uniform(0.9, 1.1) if bits else None
        entry: dict[str, Any] = {
            "round": t,
            "seconds": 0.3 + 0.02 * random.random(),
            "asked": CLIENTS,
            "accepted": CLIENTS,
            "dropped": 0,
            "updates": CLIENTS,
            "train_loss": 3.8 * (1 - 0.8 * progress) * random.uniform(0.9, 1.1),
            "update_norm": 1.0,
            "correction_norm": 0.5,
            "estimation_error": 0.01 * (2 - progress) * (rho or 0),
            "rho": rho,
            "anchor_bytes": int(CLIENTS * NUM_WEIGHTS * anchor / 8),
            "correction_bytes": int(CLIENTS * NUM_WEIGHTS * correction / 8),
            "update_bytes": int(CLIENTS * NUM_WEIGHTS * update / 8),
            "anchor_bits": anchor,
            "correction_bits": correction,
            "online_seconds": correction * 0.7 * random.uniform(0.8, 1.2) if links else None,
        }
        if (t + 1) % eval_every == 0:
            accuracy = best * progress + 0.02 * random.random()
            entry.update(
                test_accuracy=accuracy,
                test_loss=3.8 * (1 - 0.8 * progress),
                train_accuracy=min(1.0, accuracy + 0.02 * progress),
            )
        metrics.append(entry)
    return metrics


def write_run(path: Path, metrics: list[dict[str, Any]], **config: Any) -> Path:
    path.mkdir(parents=True)
    options = {"task": "emnist", "num_weights": NUM_WEIGHTS, "seed": 0, **config}
    (path / "config.json").write_text(json.dumps(options), encoding="utf-8")
    lines = "".join(json.dumps(entry) + "\n" for entry in metrics)
    (path / "metrics.jsonl").write_text(lines, encoding="utf-8")
    return path
