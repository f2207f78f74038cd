"""The networks of table 1, each with its number of weights.

None has running statistics: a model is one flat vector of weights, and what a client would count
over its own few samples has no place in it. Where the paper's ResNet would have BatchNorm there is
GroupNorm, with as many weights.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

__all__ = ["CharLSTM", "LeNet", "ResNet9", "SentimentLSTM", "SmallMLP", "build"]

GROUPS = 32


def build(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    """Make a network with initial weights that follow from the seed alone.

    The global generator of torch is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed % 2**63)
        return make()


class SmallMLP(nn.Module):
    """Two hidden layers for the 8 x 8 digits: 17,226 weights."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(),
            nn.Linear(64, 128),
            nn.ReLU(),
            nn.Linear(128, 64),
            nn.ReLU(),
            nn.Linear(64, 10),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits of n x 1 x 8 x 8 images."""
        logits: torch.Tensor = self.layers(images)
        return logits


class LeNet(nn.Module):
    """LeNet-5 with rectifiers and maxima for 28 x 28 images: 64,851 weights for 47 classes."""

    def __init__(self, num_classes: int = 47) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(16 * 5 * 5, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, num_classes),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits of n x 1 x 28 x 28 images."""
        logits: torch.Tensor = self.layers(images)
        return logits


class _ResidualBlock(nn.Module):
    """Two convolutions beside a shortcut, as in ResNet-18."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.first_norm = nn.GroupNorm(GROUPS, outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.second_norm = nn.GroupNorm(GROUPS, outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.GroupNorm(GROUPS, outputs)
            )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = F.relu(self.first_norm(self.first(images)), inplace=True)
        hidden = self.second_norm(self.second(hidden))
        hidden += self.shortcut(images)
        return F.relu(hidden, inplace=True)


class ResNet9(nn.Module):
    """Nine 3 x 3 convolutions, one residual block for each of 64, 128, 256, 512 channels.

    4,903,242 weights for 10 classes, 4,949,412 for 100.
    """

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 64, 3, padding=1, bias=False),
            nn.GroupNorm(GROUPS, 64),
            nn.ReLU(inplace=True),
            _ResidualBlock(64, 64, 1),
            _ResidualBlock(64, 128, 2),
            _ResidualBlock(128, 256, 2),
            _ResidualBlock(256, 512, 2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(512, num_classes),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits of n x 3 x 32 x 32 images."""
        logits: torch.Tensor = self.layers(images)
        return logits


class CharLSTM(nn.Module):
    """The next character from those before (McMahan et al. 2017, LEAF): 819,920 weights for 80.

    Embedding of 8, two LSTM layers of 256, the last state into a linear layer.
    """

    def __init__(self, num_characters: int = 80) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_characters, 8)
        self.lstm = nn.LSTM(8, 256, num_layers=2, batch_first=True)
        self.output = nn.Linear(256, num_characters)

    def forward(self, characters: torch.Tensor) -> torch.Tensor:
        """Return the logits of n x length characters' successors."""
        states, _ = self.lstm(self.embedding(characters))
        logits: torch.Tensor = self.output(states[:, -1])
        return logits


class SentimentLSTM(nn.Module):
    """Polarity of a text: 8,309,250 weights for a vocabulary of 30,400.

    Embedding of 256, one LSTM layer of 256, its states' mean over the words into a linear layer.
    Word 0 is padding, at the end.
    """

    def __init__(self, num_words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_words, 256)
        self.lstm = nn.LSTM(256, 256, batch_first=True)
        self.output = nn.Linear(256, 2)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Return the logits of n x length texts."""
        real = (words != 0).unsqueeze(2)
        states, _ = self.lstm(self.embedding(words))
        mean = (states * real).sum(1) / real.sum(1).clamp(min=1)
        logits: torch.Tensor = self.output(mean)
        return logits
