"""A run from its configuration to its folder: the framework's loop around local training.

A folder holds ``config.json``, ``metrics.jsonl`` (one object a round) and ``run.ckpt``, from which
a run that was stopped goes on, and one that has ended with more rounds; it ends in the same
weights, bit for bit. ``result.json`` is there once it has ended.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from docofl_codec._files import replace_file
from docofl_codec.codec import Codec, Eden
from docofl_codec.errors import InvalidInputError
from docofl_codec.fl.config import MAX_LEAD, RunConfig, parse_codecs
from docofl_codec.fl.data.files import data_root
from docofl_codec.fl.divergence import has_diverged
from docofl_codec.fl.folder_lock import lock_folder, unlock_folder
from docofl_codec.fl.run_files import CONFIG, METRICS, Metrics, known, parse_object, parse_round
from docofl_codec.fl.tasks import Settings, get_task
from docofl_codec.fl.training import Evaluation, Trainer, Vector
from docofl_codec.framework import (
    SGD,
    Adagrad,
    Adam,
    CheckpointError,
    ConnectivityClasses,
    DivergenceError,
    Link,
    Loop,
    ParticipationProcess,
    RoundReport,
    Server,
    ServerOptimizer,
    Trained,
    UniformParticipation,
    Yogi,
    derive_seed,
    load_checkpoint,
    save_checkpoint,
)
from docofl_codec.framework.checkpoint import previous_path

__all__ = ["Metrics", "RunResult", "Runner", "run"]

Status = Literal["finished", "diverged"]

CHECKPOINT, RESULT = "run.ckpt", "result.json"
IRRELEVANT = {"data", "label", "checkpoint_every"}  # options that change no number
LAST_EVALUATIONS = 4
DIVERGED_ROUNDS = 3  # without a finite update from anybody
WITHOUT_FINITE = "rounds_without_finite_loss"  # a metric, where there are any
FAR_AHEAD = 1000  # rounds
SMALL_MODEL = 1 << 20  # its frames are not worth a second thread


@dataclass(frozen=True)
class RunResult:
    """How a run ended.

    Attributes
    ----------
    status : {"finished", "diverged"}
        Diverged: see :func:`docofl_codec.fl.divergence.has_diverged`.
    rounds : int
        Rounds done.
    best_accuracy, final_accuracy : float
        On the test set; the final one is the mean of the last four evaluations. NaN without any.
    link_seconds : float
        What a round waits for its clients' links, the mean of all rounds. NaN without links.
    weights : ndarray of float32
        The model.
    metrics : list of dict
        Of every round.
    """

    status: Status
    rounds: int
    best_accuracy: float
    final_accuracy: float
    link_seconds: float
    weights: Vector
    metrics: list[Metrics]

    def summary(self) -> dict[str, Any]:
        """Return what fits a line; None where nothing was measured."""
        names = ("status", "rounds", "best_accuracy", "final_accuracy", "link_seconds")
        return _finite({name: getattr(self, name) for name in names})


def run(
    config: RunConfig,
    out: Path | str | None = None,
    *,
    on_round: Callable[[Metrics], None] | None = None,
) -> RunResult:
    """Train as a configuration says.

    Parameters
    ----------
    config : RunConfig
        The run.
    out : path-like, optional
        A folder for metrics and checkpoints. A run of the same configuration that was stopped there
        goes on, as does one of fewer rounds.
    on_round : callable, optional
        Called with the metrics of each round.

    Examples
    --------
    >>> from docofl_codec import fl
    >>> result = fl.run(fl.RunConfig(task="digits", codec="4,2,3", rounds=20, eval_every=10))
    >>> result.status, result.final_accuracy > 0.5
    ('finished', True)
    """
    runner = Runner(config, None if out is None else Path(out))
    try:
        for metrics in runner.rounds():
            if on_round is not None:
                on_round(metrics)
    finally:
        runner.close()
    return runner.result()


class Runner:
    """A run that goes round by round.

    Parameters
    ----------
    config : RunConfig
        The run.
    out : Path, optional
        Its folder.

    Raises
    ------
    InvalidInputError
        Where the folder holds a run of another configuration.
    MissingDataError
        Where the task's data are not there.
    """

    def __init__(self, config: RunConfig, out: Path | None = None) -> None:
        self.config = config
        self.settings = config.settings()
        self.out = out
        task = get_task(config.task)
        federated = task.load(
            data_root(config.data),
            seed=config.seed,
            num_clients=self.settings.num_clients,
            partition=self.settings.partition,
        )
        self.data_digest = federated.digest()
        self.trainer = Trainer(federated, self.settings, threads=config.threads)
        self.links = _links(config, self.trainer.num_clients)
        self.server = _make_server(config, self.settings, self.trainer)
        self.loop = Loop(self.server, self._train, delay=self._delay if config.delayed else None)
        self.metrics: list[Metrics] = []
        self.status: Status = "finished"
        self._losses: list[float] = []
        self._rounds_without_finite = 0
        if out is not None:
            self._open(out)

    def rounds(self) -> Iterator[Metrics]:
        """Do the rounds that are left; yield the metrics of each."""
        while self.server.round < self.settings.rounds and self.status != "diverged":
            yield self._step()
        if self.out is not None:
            _write_json(self.out / RESULT, self.result().summary())
        self.close()

    def close(self) -> None:
        """Let other processes have the folder, as the end of all rounds does."""
        if self.out is not None:
            unlock_folder(self.out)

    def result(self) -> RunResult:
        """Return how the run stands."""
        accuracies = known(self.metrics, "test_accuracy")
        last = accuracies[-LAST_EVALUATIONS:]
        seconds = known(self.metrics, "online_seconds")
        return RunResult(
            status="diverged" if has_diverged(self.metrics) else "finished",
            rounds=len(self.metrics),
            best_accuracy=max(accuracies, default=math.nan),
            final_accuracy=float(np.mean(last)) if last else math.nan,
            link_seconds=float(np.mean(seconds)) if seconds else math.nan,
            weights=self.server.weights.copy(),
            metrics=self.metrics,
        )

    def _step(self) -> Metrics:
        began = time.perf_counter()
        self._losses = []
        metrics: Metrics = {"round": self.server.round}
        if self.server.round == 0:
            initial_loss = self.trainer.train_subset_loss(self.server.weights)
            metrics |= _finite({"initial_loss": initial_loss})
        frames = self.server.ledger.num_frames("update")
        try:
            report = self.loop.step()
        except DivergenceError:
            asked = len(set(self.server.participation.participants(self.server.round)))
            metrics |= {"asked": asked, "accepted": 0, **self._sent_in(self.server.round)}
            metrics["diverged"] = True
            self.status = "diverged"
        else:
            metrics |= self._metrics_of(report)
            nobody = bool(self._losses) and not any(map(math.isfinite, self._losses))
            self._rounds_without_finite = self._rounds_without_finite + 1 if nobody else 0
            if nobody:
                metrics[WITHOUT_FINITE] = self._rounds_without_finite
            is_last = self.server.round == self.settings.rounds
            if self._rounds_without_finite == DIVERGED_ROUNDS or (nobody and is_last):
                metrics["diverged"] = True
                self.status = "diverged"
            elif self._is_evaluated(report.round):
                evaluation = self.trainer.evaluate(self.server.weights)
                metrics |= _finite(evaluation._asdict())
        metrics["updates"] = self.server.ledger.num_frames("update") - frames
        metrics["seconds"] = round(time.perf_counter() - began, 6)
        self.metrics.append(metrics)
        if self.out is not None:
            self._save(metrics)
        return metrics

    def _metrics_of(self, report: RoundReport) -> Metrics:
        estimation = report.estimation
        metrics: Metrics = {
            "asked": report.asked,
            "accepted": report.accepted,
            "dropped": report.dropped,
            "missing": report.missing,
            "train_loss": float(np.mean(self._losses)) if self._losses else math.nan,
            "update_norm": report.update_norm,
            "correction_norm": estimation.correction_norm,
            "drift_norm": estimation.drift_norm,
            "estimation_error": estimation.error,
            "rho": estimation.rho,
            **self._sent_in(report.round),
            **{f"{kind}_bits": bits for kind, bits in report.bits.items()},
        }
        return _finite(metrics)

    def _sent_in(self, round_number: int) -> Metrics:
        """Return the bytes of the latest round, and how long links took for them."""
        ledger = self.server.ledger
        sent: Metrics = {f"{kind}_bytes": n for kind, n in ledger.of_round(round_number).items()}
        if self.links:
            sent["online_seconds"] = ledger.online_seconds(self.links)
        return sent

    def _is_evaluated(self, round_number: int) -> bool:
        done = round_number + 1
        return done % self.settings.eval_every == 0 or done == self.settings.rounds

    def _train(self, client: int, t: int, weights: Vector) -> Trained | None:
        config = self.config
        if config.dropout and _uniform(config.seed, "dropout", t, client) < config.dropout:
            return None
        result = self.trainer.train(client, t, weights, seed=config.seed)
        self._losses.append(result.mean_loss)
        return Trained(result.update, result.num_samples)

    def _delay(self, client: int, t: int) -> int:
        config = self.config
        if _uniform(config.seed, "delayed", t, client) >= config.delayed:
            return 0
        return 1 + int(_uniform(config.seed, "delay", t, client) * config.max_delay)

    # --- the folder ----------------------------------------------------------------------------

    def _open(self, out: Path) -> None:
        """Make the folder, or go on with the run in it."""
        out.mkdir(parents=True, exist_ok=True)
        is_mine = lock_folder(out)
        try:
            self._resume(out)
        except BaseException:
            if is_mine:
                unlock_folder(out)
            raise

    def _resume(self, out: Path) -> None:
        """Take over what the folder holds; a run that diverged does so again."""
        config = self.config.to_dict()
        config |= {"num_weights": self.trainer.num_weights, "data_digest": self.data_digest}
        path = out / CONFIG
        found: dict[str, Any] = {}
        if path.exists():
            found = parse_object(path, 1, path.read_bytes())
            may_differ = {"rounds"} if self._has_more_rounds_than(found) else set()
            _check_same(found, config, path, irrelevant=IRRELEVANT | may_differ)
        checkpoint = out / CHECKPOINT
        if checkpoint.exists() or previous_path(checkpoint).exists():
            if not found:
                raise CheckpointError(f"{path}: found none beside a checkpoint, expected its run's")
            load_checkpoint(checkpoint, self.loop)
        known = _read_metrics(out / METRICS, self.server.round)
        self.metrics = [self._as_scheduled(metrics) for metrics in known]
        if self.metrics:
            self._rounds_without_finite = self.metrics[-1].get(WITHOUT_FINITE, 0)
        # Nothing was written so far: a folder that is refused stays as it was.
        if self.server.round < self.settings.rounds:
            (out / RESULT).unlink(missing_ok=True)
        kept = found or config
        changed = {**kept, **{name: config[name] for name in IRRELEVANT | {"rounds"}}}
        if changed != found:
            _write_json(path, changed)
        replace_file(out / METRICS, [_line(metrics) for metrics in self.metrics])

    def _has_more_rounds_than(self, found: dict[str, Any]) -> bool:
        """Tell whether this is the run of a folder with more rounds, and the same up to there."""
        rounds = found.get("rounds")
        if type(rounds) is not int or not 0 < rounds < self.settings.rounds:
            return False
        shorter = dataclasses.replace(self.settings, rounds=rounds)
        return _leads(self.config, shorter) == _leads(self.config, self.settings)

    def _as_scheduled(self, metrics: Metrics) -> Metrics:
        """Return a round's metrics without the evaluation of what was the last round once."""
        if self._is_evaluated(metrics["round"]):
            return metrics
        return {name: metrics[name] for name in metrics if name not in Evaluation._fields}

    def _save(self, metrics: Metrics) -> None:
        assert self.out is not None
        with (self.out / METRICS).open("ab") as file:
            file.write(_line(metrics))
            is_last = self.server.round == self.settings.rounds
            is_due = is_last or self.server.round % self.config.checkpoint_every == 0
            if is_due and self.status != "diverged":
                file.flush()
                os.fsync(file.fileno())  # a checkpoint never knows more rounds than the metrics
                save_checkpoint(self.out / CHECKPOINT, self.loop)


def _make_server(config: RunConfig, settings: Settings, trainer: Trainer) -> Server:
    codecs = parse_codecs(config.codec)
    threads = 1 if trainer.num_weights < SMALL_MODEL else config.threads
    return Server(
        trainer.initial_weights(seed=config.seed),
        _participation(config, settings, trainer.num_clients),
        anchor_codec=_with_threads(codecs.anchor, threads),
        correction_codec=_with_threads(codecs.correction, threads),
        update_codec=_with_threads(_contracting(codecs.update, config), threads),
        downlink=codecs.downlink,
        optimizer=_optimizer(settings),
        deploy_every=settings.deploy_every,
        capacity=settings.capacity,
        max_lead=max(100, *_leads(config, settings)),
        shared_corrections=config.shared_corrections,
        budgets=config.budgets(),
        weighted=config.weighted,
        max_delay=config.max_delay,
        error_feedback_clients=trainer.num_clients if config.ef21 else None,
        quorum=config.quorum,
        max_update_norm=config.max_update_norm,
        seed=config.seed,
    )


def _participation(config: RunConfig, settings: Settings, num_clients: int) -> ParticipationProcess:
    low, high = _leads(config, settings)
    if config.weak_share:
        return ConnectivityClasses(
            num_clients,
            settings.per_round,
            weak=_weak_clients(config, num_clients),
            strong_window=low,
            weak_window=high,
            seed=config.seed,
        )
    return UniformParticipation(num_clients, settings.per_round, (low, high), config.seed)


def _leads(config: RunConfig, settings: Settings) -> tuple[int, int]:
    low = 1 if config.lead_min is None else config.lead_min
    # A client is not told before the first round.
    first = min(max(settings.rounds, FAR_AHEAD), MAX_LEAD)
    high = min(settings.deploy_every * (settings.capacity - 1), first)
    return low, max(low, high) if config.lead_max is None else config.lead_max


def _optimizer(settings: Settings) -> ServerOptimizer:
    if settings.server_optimizer == "sgd":
        return SGD(settings.server_lr, settings.server_momentum, settings.weight_decay)
    adaptive = {"adam": Adam, "yogi": Yogi, "adagrad": Adagrad}
    return adaptive[settings.server_optimizer](lr=settings.server_lr)


def _weak_clients(config: RunConfig, num_clients: int) -> frozenset[int]:
    generator = np.random.Generator(np.random.PCG64(derive_seed(config.seed, "weak clients")))
    chosen = generator.permutation(num_clients)[: round(config.weak_share * num_clients)]
    return frozenset(chosen.tolist())


def _links(config: RunConfig, num_clients: int) -> dict[int, Link]:
    if config.strong_link is None:
        return {}
    strong = _link("strong_link", config.strong_link)
    weak = _link("weak_link", config.weak_link) if config.weak_link else strong
    slow = _weak_clients(config, num_clients)
    return {client: weak if client in slow else strong for client in range(num_clients)}


def _link(name: str, spelling: str) -> Link:
    try:
        downlink, uplink = (1e6 * float(part) for part in spelling.split("/"))
    except ValueError:
        downlink = uplink = math.nan
    if not (0 < downlink < math.inf and 0 < uplink < math.inf):
        raise InvalidInputError(
            f'{name}: found {spelling!r}, expected "downlink/uplink" in Mbit/s, both above 0'
        )
    return Link(downlink, uplink)


def _contracting(codec: Codec, config: RunConfig) -> Codec:
    if config.ef21 and isinstance(codec, Eden):
        return dataclasses.replace(codec, scale="mse")
    return codec


def _with_threads(codec: Codec, threads: int) -> Codec:
    if dataclasses.is_dataclass(codec) and hasattr(codec, "threads"):
        changed: Codec = dataclasses.replace(codec, threads=threads)
        return changed
    return codec


def _uniform(seed: int, purpose: str, *numbers: int) -> float:
    return derive_seed(seed, purpose, *numbers) / 2.0**64


def _finite(metrics: Metrics) -> Metrics:
    """Replace what JSON does not know by None."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in metrics.items()
    }


def _check_same(
    found: dict[str, Any], expected: dict[str, Any], path: Path, *, irrelevant: Set[str]
) -> None:
    for name, value in json.loads(json.dumps(expected)).items():
        if name not in irrelevant and found.get(name) != value:
            raise InvalidInputError(
                f"{path}: {name}: found {found.get(name, 'nothing')}, expected {value}; give the "
                "run a folder of its own (--out)"
            )


def _read_metrics(path: Path, count: int) -> list[Metrics]:
    """Return the metrics of the first rounds, those that the checkpoint knows."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    found = [parse_round(path, number, line) for number, line in enumerate(lines[:count], 1)]
    for expected, metrics in enumerate(found):
        if metrics["round"] != expected:
            raise CheckpointError(
                f"{path}, line {expected + 1}: found round {metrics['round']}, expected {expected}"
            )
    if len(found) < count:
        raise CheckpointError(
            f"{path}: found {len(found)} rounds, expected the {count} of the checkpoint"
        )
    return found


def _line(metrics: Metrics) -> bytes:
    return json.dumps(metrics).encode() + b"\n"


def _write_json(path: Path, value: Any) -> None:
    replace_file(path, [json.dumps(value, indent=2).encode() + b"\n"])
