"""Clients, of which some do what they should not."""

from __future__ import annotations

from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from docofl_codec import Eden
from docofl_codec.integrations.flower import docofl_mod
from docofl_codec.integrations.flower.wire import EXACT, FRAMES, frames_record

from .task import NUM_FEATURES
from .task import train as train_fn


def faults(message: Any, context: Context, call_next: Any) -> Message:
    """Spoil the replies of partitions that the message's configuration names."""
    config = message.content.get("config", {})
    wanted = dict(item.split(":") for item in str(config.get("faults", "")).split())
    reply: Message = call_next(message, context)
    fault = wanted.get(str(context.node_config["partition-id"]))
    if fault == "garbage":
        reply.content[FRAMES] = frames_record(1, update=b"garbage" * 1000)
    elif fault == "shape":
        frame = Eden().encode(np.ones(7, dtype=np.float32))
        reply.content[FRAMES] = frames_record(7, update=frame)
    elif fault == "nan":
        exact = dict(reply.content.array_records[EXACT])
        exact["running_mean"] = Array(np.full(NUM_FEATURES, np.nan, dtype=np.float32))
        reply.content[EXACT] = ArrayRecord(exact)
    elif fault == "huge":
        size = reply.content.array_records[FRAMES]["update"].shape[0]
        frame = Eden(bits=3).encode(np.full(size, 1e38, dtype=np.float32))
        reply.content[FRAMES] = frames_record(size, update=frame)
    elif fault == "raise":
        raise RuntimeError("on purpose")
    return reply


app = docofl_mod.register(ClientApp(mods=[faults, docofl_mod]))


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train on the partition's data."""
    content: Any = message.content
    weights = {name: array.numpy() for name, array in content["arrays"].items()}
    partition = int(context.node_config["partition-id"])
    local = train_fn(weights, partition, content["config"]["server-round"])
    arrays = ArrayRecord({name: Array(np.asarray(values)) for name, values in local.items()})
    metrics = MetricRecord({"num-examples": 500, "mask": 2.0**partition})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)
