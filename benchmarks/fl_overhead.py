"""What the loop adds to training: rounds of FedAvg and DoCoFL beside plain torch.

``python -m benchmarks.fl_overhead`` prints the times of a round of 20 clients with LeNet, on
made-up images of EMNIST's shape and number, with one thread. Then what the loop itself takes of
the processor, with clients that do not train: a few milliseconds that, on a busy machine, the
differences of whole rounds do not show.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import torch

from benchmarks.report import Table, show
from benchmarks.timing import Call
from docofl_codec import Ecuq, Eden, Identity
from docofl_codec.fl.models import LeNet, build
from docofl_codec.fl.partition import make_partition
from docofl_codec.fl.tasks import Federated, get_task
from docofl_codec.fl.tasks.images import normalize
from docofl_codec.fl.training import Trainer, Vector
from docofl_codec.framework import SGD, Loop, Server, Trained, UniformParticipation
from docofl_codec.framework.loop import TrainClient

NUM_IMAGES, NUM_CLASSES = 97_348, 47
REPEATS = 8
CODECS = ("fedavg", "2,2,3")
OWN_WARM_UP, OWN_ROUNDS = 30, 100  # the queue of anchors is full after K V rounds


def make_federated() -> Federated:
    """Return images of noise, split as the task splits EMNIST."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, size=(NUM_IMAGES, 1, 28, 28), dtype=np.uint8)
    labels = rng.integers(0, NUM_CLASSES, size=NUM_IMAGES)
    settings = get_task("emnist").settings
    clients = make_partition(settings.partition, labels, settings.num_clients, 0)
    few = slice(0, 100)
    return Federated(
        train_x=torch.from_numpy(images),
        train_y=torch.from_numpy(labels),
        test_x=torch.from_numpy(images[few]),
        test_y=torch.from_numpy(labels[few]),
        clients=clients,
        make_model=partial(build, partial(LeNet, NUM_CLASSES)),
        prepare=normalize([0.174], [0.332]),
    )


def make_trainer() -> Trainer:
    """Return the training of EMNIST's clients on those images."""
    return Trainer(make_federated(), get_task("emnist").settings, threads=1)


def local_training(trainer: Trainer) -> TrainClient:
    """Return what a client does."""

    def train(client: int, t: int, weights: Vector) -> Trained:
        result = trainer.train(client, t, weights, seed=0)
        return Trained(result.update, result.num_samples)

    return train


def make_loop(trainer: Trainer, codec: str, train: TrainClient) -> Loop:
    """Return the loop of FedAvg or of (2, 2, 3) bits, with the task's settings."""
    settings = trainer.settings
    exact = codec == "fedavg"
    server = Server(
        trainer.initial_weights(seed=0),
        UniformParticipation(trainer.num_clients, settings.per_round, (1, 20)),
        anchor_codec=Ecuq(bits=2, threads=1),
        correction_codec=Identity(threads=1) if exact else Eden(bits=2, threads=1),
        update_codec=Identity(threads=1) if exact else Eden(bits=3, threads=1),
        downlink="direct" if exact else "docofl",
        optimizer=SGD(settings.server_lr, settings.server_momentum, settings.weight_decay),
        deploy_every=settings.deploy_every,
        capacity=settings.capacity,
    )
    return Loop(server, train)


def plain_round(federated: Federated, trainer: Trainer, t: int) -> None:
    """Train the clients of a round with torch alone, as its tutorials do."""
    settings = trainer.settings
    module = federated.make_model(0)
    start = {name: value.clone() for name, value in module.state_dict().items()}
    process = UniformParticipation(trainer.num_clients, settings.per_round, (1, 20))
    for client in process.participants(t):
        module.load_state_dict(start)
        optimizer = torch.optim.SGD(module.parameters(), lr=settings.client_lr)
        samples = torch.from_numpy(federated.clients[client])
        for batch in torch.split(samples[torch.randperm(len(samples))], settings.batch_size):
            optimizer.zero_grad()
            logits = module(federated.prepare(federated.train_x[batch]))
            federated.loss(logits, federated.train_y[batch]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()


def measure(trainer: Trainer, rounds: int = 10, repeats: int = REPEATS) -> dict[str, float]:
    """Return the mean seconds of a round of each, every round being the quickest of its repeats.

    The three take turns round by round, so that whatever else the machine does meets them all.
    """
    federated = trainer.federated
    loops = {name: make_loop(trainer, name, local_training(trainer)) for name in CODECS}
    states = {name: loop.state() for name, loop in loops.items()}
    seconds = {name: np.full((repeats, rounds), np.inf) for name in ("plain torch", *loops)}
    for repeat in range(repeats):
        for name, loop in loops.items():
            loop.restore(states[name])
        for t in range(rounds):
            calls: dict[str, Call] = {
                "plain torch": partial(plain_round, federated, trainer, t),
                **{name: loop.step for name, loop in loops.items()},
            }
            for name, call in calls.items():
                began = time.perf_counter()
                call()
                seconds[name][repeat, t] = time.perf_counter() - began
    return {name: float(found.min(axis=0).mean()) for name, found in seconds.items()}


def measure_own(trainer: Trainer) -> dict[str, float]:
    """Return the median processor seconds of a round whose clients return the same update."""
    update = (np.random.default_rng(0).normal(size=trainer.num_weights) / 100).astype(np.float32)
    seconds = {}
    for name in CODECS:
        loop = make_loop(trainer, name, lambda *_: Trained(update, 1))
        took = []
        for _ in range(OWN_WARM_UP + OWN_ROUNDS):
            began = time.process_time()
            loop.step()
            took.append(time.process_time() - began)
        seconds[name] = float(np.median(took[OWN_WARM_UP:]))
    return seconds


def main() -> None:
    """Print the tables."""
    trainer = make_trainer()
    seconds = measure(trainer)
    plain = seconds["plain torch"]
    fedavg = seconds["fedavg"]
    rows = [
        [name, f"{1e3 * s:.1f}", f"{s / plain:.3f}", f"{s / fedavg:.3f}"]
        for name, s in seconds.items()
    ]
    title = "A round of 20 clients, LeNet, one thread"
    show(Table(title, ["", "ms", "of plain torch", "of FedAvg"], rows, left=[""]))
    rows = [
        [name, f"{1e3 * s:.1f}", f"{s / plain:.3f}"] for name, s in measure_own(trainer).items()
    ]
    title = "Of these, what the loop takes itself"
    show(Table(title, ["", "ms of processor time", "of plain torch"], rows, left=[""]))


if __name__ == "__main__":
    main()
