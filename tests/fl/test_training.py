"""Local training: one flat vector, torch's own arithmetic, the same result for the same seed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from docofl_codec import InvalidInputError
from docofl_codec.fl.tasks import Federated, Settings, get_task
from docofl_codec.fl.training import FlatModel, Trainer
from docofl_codec.framework import derive_seed

TASK = get_task("digits")
SETTINGS = replace(TASK.settings, client_lr=0.1)


@pytest.fixture(scope="module")
def federated() -> Federated:
    return TASK.load(None, seed=0, num_clients=10, partition="iid")


@pytest.fixture
def trainer(federated: Federated) -> Trainer:
    return Trainer(federated, SETTINGS)


def test_weights_and_gradients_are_views(trainer: Trainer) -> None:
    model = trainer.model
    trainer.train(0, 0, trainer.initial_weights(seed=0), seed=0)
    start = 0
    for parameter in model.module.parameters():
        for tensor, flat in ((parameter, model.weights), (parameter.grad, model.gradients)):
            assert tensor is not None
            assert tensor.data_ptr() == flat.data_ptr() + 4 * start
        start += parameter.numel()
    assert start == model.weights.numel() == trainer.num_weights
    assert float(model.gradients.abs().sum()) > 0


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_training_is_that_of_torch(federated: Federated, optimizer: str) -> None:
    settings = replace(SETTINGS, client_optimizer=optimizer, client_lr=0.01, local_epochs=2)  # type: ignore[arg-type]
    trainer = Trainer(federated, settings)
    weights = trainer.initial_weights(seed=3)
    trainer.train(1, 0, weights, seed=3)  # Leaves no trace.
    result = trainer.train(4, 7, weights, seed=3)

    model = federated.make_model(3)
    make = torch.optim.SGD if optimizer == "sgd" else torch.optim.Adam
    steps = make(model.parameters(), lr=0.01)
    shuffle = np.random.Generator(np.random.PCG64(derive_seed(3, "batches", 7, 4)))
    client = federated.clients[4]
    total = 0.0
    for _ in range(2):
        order = client[shuffle.permutation(client.size)]
        for start in range(0, client.size, settings.batch_size):
            batch = torch.from_numpy(order[start : start + settings.batch_size])
            steps.zero_grad()
            logits = model(federated.prepare(federated.train_x[batch]))
            loss = nn.functional.cross_entropy(logits, federated.train_y[batch])
            loss.backward()  # type: ignore[no-untyped-call]
            steps.step()
            total += float(loss.detach()) * len(batch)
    expected = nn.utils.parameters_to_vector(model.parameters()).detach().numpy() - weights
    assert result.num_samples == client.size
    assert result.mean_loss == pytest.approx(total / (2 * client.size), rel=1e-5)
    np.testing.assert_allclose(result.update, expected, atol=2e-6)


def test_runs_are_paired(federated: Federated) -> None:
    first, second = Trainer(federated, SETTINGS), Trainer(federated, SETTINGS)
    weights = first.initial_weights(seed=0)
    np.testing.assert_array_equal(weights, second.initial_weights(seed=0))
    second.train(2, 1, weights + 1, seed=0)
    second.evaluate(weights)
    update = first.train(2, 1, weights, seed=0).update
    np.testing.assert_array_equal(update, second.train(2, 1, weights, seed=0).update)
    for client, round_number, seed in ((3, 1, 0), (2, 2, 0), (2, 1, 1)):
        other = first.train(client, round_number, weights, seed=seed).update
        assert not np.array_equal(update, other)


def test_the_caller_keeps_its_vectors(trainer: Trainer) -> None:
    weights = trainer.initial_weights(seed=0)
    kept = weights.copy()
    weights.flags.writeable = False
    first = trainer.train(0, 0, weights, seed=0).update
    copy = first.copy()
    trainer.train(1, 0, weights, seed=0)
    trainer.evaluate(weights)
    np.testing.assert_array_equal(weights, kept)
    np.testing.assert_array_equal(first, copy)


def test_the_generator_of_torch_is_left_alone(trainer: Trainer) -> None:
    before = torch.get_rng_state()
    trainer.train(0, 0, trainer.initial_weights(seed=9), seed=0)
    assert torch.equal(torch.get_rng_state(), before)


def test_averaging_learns(trainer: Trainer) -> None:
    weights = trainer.initial_weights(seed=0)
    start = trainer.evaluate(weights)
    losses = []
    for t in range(8):
        results = [trainer.train(client, t, weights, seed=0) for client in range(10)]
        weights = weights + np.mean([result.update for result in results], axis=0)
        losses.append(np.mean([result.mean_loss for result in results]))
    end = trainer.evaluate(weights)
    assert losses[-1] < 0.3 * losses[0]
    assert end.test_accuracy > 0.9 > 0.3 > start.test_accuracy
    assert end.test_loss < 0.3 * start.test_loss
    assert end.train_accuracy > 0.9
    assert end.train_subset_loss < 0.3 * start.train_subset_loss


def test_evaluation_counts_every_sample(trainer: Trainer, federated: Federated) -> None:
    weights = trainer.initial_weights(seed=1)
    model = federated.make_model(1)
    with torch.no_grad():
        logits = model(federated.prepare(federated.test_x))
    answers = federated.test_y
    evaluation = trainer.evaluate(weights)
    assert evaluation.test_accuracy == float((logits.argmax(1) == answers).double().mean())
    loss = float(nn.functional.cross_entropy(logits, answers))
    assert evaluation.test_loss == pytest.approx(loss, rel=1e-5)


def test_divergence_is_returned(federated: Federated) -> None:
    trainer = Trainer(federated, replace(SETTINGS, client_lr=1e30))
    result = trainer.train(0, 0, trainer.initial_weights(seed=0), seed=0)
    assert not np.isfinite(result.update).all()
    assert not np.isfinite(result.mean_loss)
    evaluation = trainer.evaluate(np.full(trainer.num_weights, np.nan, np.float32))
    assert np.isnan(evaluation.test_loss)
    good = Trainer(federated, SETTINGS)
    weights = good.initial_weights(seed=0)
    trainer = Trainer(federated, SETTINGS)
    trainer.train(0, 0, weights * np.float32(np.nan), seed=0)
    np.testing.assert_array_equal(
        trainer.train(0, 1, weights, seed=0).update, good.train(0, 1, weights, seed=0).update
    )


def test_weights_of_another_size(trainer: Trainer) -> None:
    with pytest.raises(InvalidInputError, match=r"expected \(17226,\)"):
        trainer.train(0, 0, np.zeros(3, np.float32), seed=0)


def test_running_statistics_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="running_mean"):
        FlatModel(nn.BatchNorm1d(3))


def test_unknown_optimizer(federated: Federated) -> None:
    settings: Settings = replace(SETTINGS, client_optimizer="lion")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="found 'lion', expected sgd or adam"):
        Trainer(federated, settings)


def test_threads_are_set_when_asked_for(federated: Federated) -> None:
    Trainer(federated, SETTINGS)
    assert torch.get_num_threads() == 1
    Trainer(federated, SETTINGS, threads=2)
    assert torch.get_num_threads() == 2
