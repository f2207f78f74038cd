"""docofl_digits: the ServerApp."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg, Result, Strategy

from docofl_codec.integrations.flower import DoCoFLStrategy

from .task import Net, test

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train with each strategy of the configuration, and compare them."""
    config: dict[str, Any] = dict(context.run_config)
    torch.manual_seed(0)
    arrays = ArrayRecord(Net().state_dict())
    rows = []
    for name in config["strategies"].split(","):
        strategy: Strategy = FedAvg(
            fraction_train=config["fraction-train"],
            fraction_evaluate=0.0,  # the model is evaluated here, on the server
        )
        if name == "docofl":
            strategy = DoCoFLStrategy(
                strategy,
                anchor=config["anchor"],
                correction=config["correction"],
                uplink=config["uplink"],
                deploy_every=config["deploy-every"],
                lead=config["lead"],
            )
        result = strategy.start(
            grid=grid,
            initial_arrays=arrays,
            num_rounds=config["num-server-rounds"],
            train_config=ConfigRecord({"lr": config["learning-rate"]}),
            evaluate_fn=evaluate,
        )
        rows.append(summary(name, result, arrays, len(list(grid.get_node_ids())), config))
    for row in rows:
        print("{strategy:8} accuracy {accuracy:.1%}, {megabytes:.2f} MB sent".format(**row))
    if config["results"]:
        Path(config["results"]).write_text(json.dumps(rows), encoding="utf-8")


def evaluate(_server_round: int, arrays: ArrayRecord) -> MetricRecord:
    """Test the global model."""
    net = Net()
    net.load_state_dict(arrays.to_torch_state_dict())
    loss, accuracy = test(net)
    return MetricRecord({"loss": loss, "accuracy": accuracy})


def summary(
    name: str, result: Result, arrays: ArrayRecord, num_nodes: int, config: dict[str, Any]
) -> dict[str, Any]:
    """Return a run's last accuracy, and what it has sent both ways."""
    if name == "docofl":
        num_bytes: Any = sum(
            value
            for metrics in result.train_metrics_clientapp.values()
            for key, value in metrics.items()
            if key.startswith("docofl-") and key.endswith("-bytes")
        )
    else:
        per_round = max(int(num_nodes * config["fraction-train"]), 2)
        num_bytes = 2 * per_round * config["num-server-rounds"] * arrays.count_bytes()
    last = result.evaluate_metrics_serverapp[config["num-server-rounds"]]
    return {"strategy": name, "accuracy": last["accuracy"], "megabytes": num_bytes / 1e6}
