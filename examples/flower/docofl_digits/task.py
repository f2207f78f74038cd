"""Model, data and training: nothing here knows about federated learning."""

from __future__ import annotations

from functools import lru_cache

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

NUM_TEST = 360


class Net(nn.Module):
    """A multilayer perceptron of 52,000 weights, with a BatchNorm layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(64, 256),
            nn.BatchNorm1d(256),
            nn.ReLU(),
            nn.Linear(256, 128),
            nn.ReLU(),
            nn.Linear(128, 10),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the scores of the ten digits."""
        scores: torch.Tensor = self.layers(images)
        return scores


@lru_cache(maxsize=1)
def _digits() -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    return torch.tensor(images / 16, dtype=torch.float32)[order], torch.tensor(labels)[order]


def load_data(partition_id: int, num_partitions: int) -> DataLoader[tuple[torch.Tensor, ...]]:
    """Return a partition of the training data."""
    images, labels = _digits()
    mine = slice(NUM_TEST + partition_id, None, num_partitions)
    generator = torch.Generator().manual_seed(partition_id)
    data = TensorDataset(images[mine], labels[mine])
    return DataLoader(data, batch_size=32, shuffle=True, generator=generator)


def train(net: Net, data: DataLoader[tuple[torch.Tensor, ...]], epochs: int, lr: float) -> float:
    """Train in place; return the mean loss."""
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    net.train()
    losses = []
    for _ in range(epochs):
        for images, labels in data:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(images), labels)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(float(loss.detach()))
    return sum(losses) / max(len(losses), 1)


def test(net: Net) -> tuple[float, float]:
    """Return loss and accuracy on data that no partition has."""
    images, labels = (values[:NUM_TEST] for values in _digits())
    net.eval()
    with torch.no_grad():
        scores = net(images)
        loss = nn.functional.cross_entropy(scores, labels)
    return float(loss), float((scores.argmax(1) == labels).float().mean())
