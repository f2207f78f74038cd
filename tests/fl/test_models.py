"""The networks: as many weights as the paper says, from a seed alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn

from docofl_codec.fl.models import CharLSTM, LeNet, ResNet9, SentimentLSTM, SmallMLP, build

MODELS: list[tuple[Callable[[], nn.Module], int, torch.Tensor, int]] = [
    (SmallMLP, 17_226, torch.zeros(2, 1, 8, 8), 10),
    (LeNet, 64_851, torch.zeros(2, 1, 28, 28), 47),
    (partial(ResNet9, 10), 4_903_242, torch.zeros(2, 3, 32, 32), 10),
    (partial(ResNet9, 100), 4_949_412, torch.zeros(2, 3, 32, 32), 100),
    (CharLSTM, 819_920, torch.zeros(2, 80, dtype=torch.int64), 80),
    (partial(SentimentLSTM, 30_400), 8_309_250, torch.zeros(2, 9, dtype=torch.int64), 2),
]


@pytest.mark.parametrize(("make", "size", "inputs", "num_classes"), MODELS)
def test_size_and_output(
    make: Callable[[], nn.Module], size: int, inputs: torch.Tensor, num_classes: int
) -> None:
    model = build(make, 0)
    assert sum(parameter.numel() for parameter in model.parameters()) == size
    assert list(model.buffers()) == []
    with torch.no_grad():
        logits = model(inputs)
    assert logits.shape == (2, num_classes)
    assert torch.isfinite(logits).all()


def test_initial_weights_follow_from_the_seed() -> None:
    before = torch.get_rng_state()
    first, again, other = (build(LeNet, seed).state_dict() for seed in (1, 1, 2**64 - 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)


def test_padding_does_not_count() -> None:
    model = build(partial(SentimentLSTM, 20), 0)
    with torch.no_grad():
        short = model(torch.tensor([[5, 6, 7]]))
        padded = model(torch.tensor([[5, 6, 7, 0, 0]]))
    torch.testing.assert_close(short, padded)
