"""docofl_digits: the ClientApp."""

from __future__ import annotations

from collections.abc import Sized
from typing import cast

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from docofl_codec.integrations.flower import docofl_mod

from .task import Net, load_data
from .task import train as train_fn

app = ClientApp(mods=[docofl_mod])
docofl_mod.register(app)  # anchors come ahead of the rounds


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the model on local data; there is nothing of DoCoFL in here."""
    torch.set_num_threads(1)
    net = Net()
    net.load_state_dict(cast(ArrayRecord, message.content["arrays"]).to_torch_state_dict())
    data = load_data(
        cast(int, context.node_config["partition-id"]),
        cast(int, context.node_config["num-partitions"]),
    )
    config = cast(ConfigRecord, message.content["config"])
    loss = train_fn(
        net,
        data,
        epochs=cast(int, context.run_config["local-epochs"]),
        lr=cast(float, config["lr"]),
    )
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(cast(Sized, data.dataset))})
    content = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)
