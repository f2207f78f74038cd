"""What the loop adds to training: rounds of FedAvg and DoCoFL beside plain torch.

``python -m benchmarks.fl_overhead`` prints the times of a round of 20 clients with LeNet, on
made-up images of EMNIST's shape and number, with one thread.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

from benchmarks.report import Table, show
from benchmarks.timing import Call, interleaved_min
from docofl_codec import Ecuq, Eden, Identity
from docofl_codec.fl.models import LeNet, build
from docofl_codec.fl.partition import make_partition
from docofl_codec.fl.tasks import Federated, get_task
from docofl_codec.fl.tasks.images import normalize
from docofl_codec.fl.training import Trainer, Vector
from docofl_codec.framework import SGD, Loop, Server, Trained, UniformParticipation

NUM_IMAGES, NUM_CLASSES = 97_348, 47
REPEATS = 5


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


def make_loop(trainer: Trainer, codec: str) -> Loop:
    """Return the loop of FedAvg or of (2, 2, 3) bits, with the task's settings."""
    settings = trainer.settings

    def train(client: int, t: int, weights: Vector) -> Trained:
        result = trainer.train(client, t, weights, seed=0)
        return Trained(result.update, result.num_samples)

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


def measure(rounds: int = 10) -> dict[str, float]:
    """Return the least seconds of some rounds of each."""
    federated = make_federated()
    trainer = Trainer(federated, get_task("emnist").settings, threads=1)
    loops = {name: make_loop(trainer, name) for name in ("fedavg", "2,2,3")}

    def plain() -> None:
        for t in range(rounds):
            plain_round(federated, trainer, t)

    def steps(name: str) -> None:
        loop = loops[name]
        loop.server.restore(states[name]["server"])
        loop.holding.clear()
        for _ in range(rounds):
            loop.step()

    states = {name: loop.state() for name, loop in loops.items()}
    calls: dict[str, Call] = {
        "plain torch": plain,
        **{name: partial(steps, name) for name in loops},
    }
    best = interleaved_min(calls, REPEATS)
    return {name: seconds / rounds for name, seconds in best.items()}


def main() -> None:
    """Print the table."""
    seconds = measure()
    plain = seconds["plain torch"]
    rows = [[name, f"{1e3 * s:.1f}", f"{s / plain:.3f}"] for name, s in seconds.items()]
    title = "A round of 20 clients, LeNet, one thread"
    show(Table(title, ["", "ms", "of plain torch"], rows, left=[""]))


if __name__ == "__main__":
    main()
