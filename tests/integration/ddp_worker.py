"""What the ranks of the DDP tests do; each scenario returns numbers and leaves its arrays."""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from docofl_codec.integrations.ddp import EdenState, eden_hook

STEPS = 200
SMALL_BUCKETS_MB = 0.03
Result = dict[str, Any]


def digest(model: nn.Module) -> str:
    """Return a checksum of all weights."""
    sha = hashlib.sha256()
    for parameter in model.parameters():
        sha.update(parameter.detach().float().numpy().tobytes())
    return sha.hexdigest()


def network(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    """Return a classifier of 42,634 weights in four layers, the same on all ranks."""
    torch.manual_seed(0)
    hidden = [nn.Linear(64, 128), nn.Linear(128, 128), nn.Linear(128, 128)]
    layers = [layer for linear in hidden for layer in (linear, nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(128, 10)).to(dtype)


def noisy_digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Return 4096 points in ten classes, of which a fifth have a random label."""
    generator = torch.Generator().manual_seed(1)
    centres = torch.randn(10, 64, generator=generator)
    labels = torch.randint(10, (4096,), generator=generator)
    points = centres[labels] + 1.5 * torch.randn(4096, 64, generator=generator)
    noisy = torch.rand(4096, generator=generator) < 0.2
    labels[noisy] = torch.randint(10, (int(noisy.sum()),), generator=generator)
    return points, labels


class CountingState(EdenState):
    """Notes how often the hook was called."""

    calls = 0
    calls_last_step = 0

    def count(self, sent: int, plain: int, *, is_last: bool) -> None:
        """Count the call."""
        self.calls += 1
        self.calls_last_step = self.calls_last_step + 1 if self._bytes else 1
        super().count(sent, plain, is_last=is_last)


def wrap(model: nn.Module, state: EdenState | None) -> DistributedDataParallel:
    """Return the model under DDP with small buckets, and with the hook if there is a state."""
    ddp = DistributedDataParallel(model, bucket_cap_mb=SMALL_BUCKETS_MB)
    if state is not None:
        ddp.register_comm_hook(state, eden_hook)
    return ddp


def train(rank: int, state: CountingState | None, *, accumulate: int = 1) -> Result:
    """Train for 200 steps; return the loss over all data, checksum and bytes."""
    points, labels = noisy_digits()
    model = network()
    ddp = wrap(model, state)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(100 + rank)
    for _ in range(STEPS):
        optimizer.zero_grad()
        for i in range(accumulate):
            batch = torch.randint(len(points), (64 // accumulate,), generator=generator)
            with ddp.no_sync() if i < accumulate - 1 else nullcontext():
                loss = nn.functional.cross_entropy(ddp(points[batch]), labels[batch])
                (loss / accumulate).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    with torch.no_grad():
        loss = nn.functional.cross_entropy(model(points), labels)
    result: Result = {"loss": float(loss), "digest": digest(model)}
    if state is not None:
        result |= {
            "steps": state.steps,
            "bytes": state.bytes_last_step,
            "plain_bytes": state.plain_bytes_last_step,
            "total_bytes": state.total_bytes,
            "calls": state.calls,
            "buckets": state.calls_last_step,
        }
    return result


def gradients(
    rank: int, dtype: torch.dtype, *, bad: float | None = None, repeats: int = 1
) -> Result:
    """Average gradients that are known; `bad` is a value that rank 1 has once in the first step."""
    model = network(dtype)
    size = sum(p.numel() for p in model.parameters())
    true = [np.random.default_rng(r).standard_normal(size) for r in range(dist.get_world_size())]
    ddp = wrap(model, EdenState(bits=4, seed=3))
    means, finite = [], []
    for step in range(repeats):
        own = torch.from_numpy(true[rank]).to(dtype)
        if bad is not None and rank == 1 and step == 0:
            own[7] = bad
        ddp.zero_grad()
        flat = torch.cat([p.reshape(-1) for p in ddp.parameters()])
        # The forward pass tells DDP to expect gradients; their values are those of `own`.
        zero = ddp(torch.zeros(2, 64, dtype=dtype)).sum() * 0
        ((flat * own).sum() + zero).backward()
        mean = torch.cat([p.grad.reshape(-1) for p in ddp.parameters()])  # type: ignore[union-attr]
        finite.append(bool(mean.isfinite().all()))
        means.append(mean.float().numpy())
    target = np.mean(true, axis=0)

    def nmse(values: Any) -> float:
        return float(np.sum((values - target) ** 2) / np.sum(target**2))

    return {
        "digest": hashlib.sha256(np.stack(means).tobytes()).hexdigest(),
        "dtype": str(mean.dtype),
        "finite": finite,
        "first_nmse": nmse(means[0]),
        "mean_nmse": nmse(np.mean(means, axis=0)),
    }


def subgroup(rank: int) -> Result:
    """Use the copy of a state for one rank alone, without its group, then with it."""
    groups = [dist.new_group([r]) for r in range(dist.get_world_size())]
    state = copy.deepcopy(EdenState(groups[rank], bits=4))
    everybody = copy.deepcopy(EdenState(dist.group.WORLD, bits=4))
    model = network()
    ddp = DistributedDataParallel(model, process_group=groups[rank])
    ddp.register_comm_hook(state, eden_hook)
    error = ""
    try:
        ddp(torch.ones(2, 64)).sum().backward()
    except Exception as found:
        error = str(found)
    state.process_group = groups[rank]
    ddp = DistributedDataParallel(network(), process_group=groups[rank])
    ddp.register_comm_hook(state, eden_hook)
    ddp(torch.ones(2, 64)).sum().backward()
    return {
        "digest": digest(network()),
        "error": error,
        "steps": state.steps,
        "is_world": everybody.ranks is dist.group.WORLD,
    }


def scenarios(rank: int, state: CountingState) -> dict[str, Callable[[], Result]]:
    """Return everything that a pair of ranks does."""
    return {
        "plain": lambda: train(rank, None),
        "eden": lambda: train(rank, state),
        "plain accumulated": lambda: train(rank, None, accumulate=4),
        "eden accumulated": lambda: train(rank, CountingState(bits=4, seed=5), accumulate=4),
        "float32": lambda: gradients(rank, torch.float32, repeats=64),
        "float64": lambda: gradients(rank, torch.float64),
        "float16": lambda: gradients(rank, torch.float16),
        "bfloat16": lambda: gradients(rank, torch.bfloat16),
        "nan": lambda: gradients(rank, torch.float32, bad=float("nan"), repeats=2),
        "inf": lambda: gradients(rank, torch.float16, bad=float("inf"), repeats=2),
        "subgroup": lambda: subgroup(rank),
    }


def main(rank: int, num_ranks: int, folder: Path, state: CountingState) -> None:
    """Join the group, do all scenarios, write what they returned to a file."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    rendezvous = f"file://{folder / 'rendezvous'}"
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=num_ranks)
    try:
        results = {name: scenario() for name, scenario in scenarios(rank, state).items()}
        (folder / f"rank{rank}.json").write_text(json.dumps(results), encoding="utf-8")
        torch.save({"state": state}, folder / f"rank{rank}.pt")
    finally:
        dist.destroy_process_group()
