"""Phases of training, each from the same start, and what each has cost."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg, Strategy

from docofl_codec.integrations.flower import DoCoFLStrategy

from .task import accuracy, initial_weights

app = ServerApp()


class CountingGrid:
    """A grid that counts the bytes of all messages, both ways."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self.num_bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Count and push."""
        messages = list(messages)
        self._count(messages)
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Pull and count."""
        replies = list(self._grid.pull_messages(message_ids))
        self._count(replies)
        return replies

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Send, receive and count."""
        messages = list(messages)
        self._count(messages)
        replies = list(self._grid.send_and_receive(messages, timeout=timeout))
        self._count(replies)
        return replies

    def _count(self, messages: Iterable[Message]) -> None:
        for message in messages:
            if message.has_content():
                for record in message.content.array_records.values():
                    self.num_bytes += sum(len(array.data) for array in record.values())
                for config in message.content.config_records.values():
                    self.num_bytes += sum(len(str(value)) for value in config.values())


def weights_of(arrays: ArrayRecord) -> dict[str, Any]:
    """Return a model's arrays."""
    return {name: array.numpy() for name, array in arrays.items()}


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Do the phases and write what they gave."""
    config: dict[str, Any] = dict(context.run_config)
    results = Path(config["results"])
    rows: list[dict[str, Any]] = []
    for phase in config["phases"].split():
        counting: Any = CountingGrid(grid)
        strategy: Strategy = FedAvg(
            fraction_train=config["fraction-train"],
            fraction_evaluate=0.0,
            min_available_nodes=config["min-nodes"],
        )
        if phase != "fedavg":
            strategy = DoCoFLStrategy(
                strategy,
                deploy_every=config["deploy-every"],
                lead=config["lead"],
                patience=config["patience"],
            )
        row: dict[str, Any] = {"phase": phase, "accuracies": []}
        rows.append(row)

        def evaluate(_server_round: int, arrays: ArrayRecord) -> None:
            row["accuracies"].append(accuracy(weights_of(arrays)))  # noqa: B023
            write(results, rows)

        initial = {name: Array(np.asarray(values)) for name, values in initial_weights().items()}
        begin = time.monotonic()
        result = strategy.start(
            counting,
            ArrayRecord(initial),
            config["rounds"],
            timeout=config["seconds"],
            train_config=ConfigRecord({"faults": config["faults"] if phase == "faulty" else ""}),
            evaluate_fn=evaluate,
        )
        row["seconds"] = time.monotonic() - begin
        row["bytes"] = counting.num_bytes
        row["num_batches"] = int(result.arrays["num_batches"].numpy())
        row["metrics"] = [dict(m) for _, m in sorted(result.train_metrics_clientapp.items())]
    write(results, rows)


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Replace the results, so that a reader finds the old or the new ones."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(rows), encoding="utf-8")
    new.replace(path)
