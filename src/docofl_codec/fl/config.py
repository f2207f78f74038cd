"""What a run is: a task, three codecs, and numbers that default to the task's.

The same names are keys of a TOML file, options of the command ``docofl run`` (with hyphens) and
fields here.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from docofl_codec.codec import Codec, Ecuq, Eden, Identity, make_codec
from docofl_codec.errors import CodecError, InvalidInputError
from docofl_codec.fl.tasks import Settings, get_task
from docofl_codec.framework.budgets import AdaptiveBudgets
from docofl_codec.framework.server import Downlink

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

__all__ = ["Codecs", "RunConfig", "parse_codecs", "read_config"]

EXACT_BITS = 32.0
ADAPTIVE = ("adam", "yogi", "adagrad")
ADAPTIVE_LR = 0.01
MAX_LEAD = 10_000  # rounds that a server looks ahead, in each round

_MANY = 2**31 - 1
_LARGE = sys.float_info.max
_LARGEST_STEP = 1e37  # ten times of which, Adam's first step, is a float32
_RANGES: Mapping[str, tuple[float, float]] = {
    "seed": (0, 2**63 - 1),
    "rounds": (1, _MANY),
    "num_clients": (1, _MANY),
    "per_round": (1, _MANY),
    "batch_size": (1, _MANY),
    "local_epochs": (1, _MANY),
    "client_lr": (0, _LARGEST_STEP),
    "server_lr": (0, _LARGE),
    "server_momentum": (0, 1),
    "weight_decay": (0, _LARGE),
    "deploy_every": (1, _MANY),
    "capacity": (1, _MANY),
    "eval_every": (1, _MANY),
    "lead_min": (0, MAX_LEAD),
    "lead_max": (0, MAX_LEAD),
    "quorum": (1, _MANY),
    "max_delay": (0, _MANY),
    "anchor_bits_min": (0, EXACT_BITS),
    "anchor_bits_max": (0, EXACT_BITS),
    "correction_bits_min": (0, EXACT_BITS),
    "correction_bits_max": (0, EXACT_BITS),
    "threads": (1, 1024),
    "checkpoint_every": (1, _MANY),
}
_NEEDS = {
    "delayed": "max_delay",
    "weak_link": "strong_link",
    "adaptive_error": "adaptive_rho",
}


@dataclass(frozen=True)
class Codecs:
    """The three codecs of a run, and which of them the downlink uses."""

    anchor: Codec
    correction: Codec
    update: Codec
    downlink: Downlink


def parse_codecs(spelling: str) -> Codecs:
    """Read the codecs of a run.

    ``"2,2,3"`` is DoCoFL with b_w, b_c and b_g bits: ECUQ for anchors, EDEN for corrections and
    updates; 32 is no compression. ``"fedavg"`` compresses nothing, ``"direct:1,3"`` sends the model
    itself with 1 bit and updates with 3, ``"anchor:2,3"`` sends anchors without corrections. In
    place of a number, any codec's own spelling fits: ``"ecuq:2,eden:0.5,eden:1"``.

    Examples
    --------
    >>> parse_codecs("2,0.5,1").correction
    Eden(bits=0.5, scale='unbiased', entropy_coded=False, threads=None)
    >>> parse_codecs("direct:1,3").downlink
    'direct'
    """
    if spelling == "fedavg":
        return Codecs(Identity(), Identity(), Identity(), "direct")
    mode, separator, rest = spelling.partition(":")
    downlink: Downlink = "docofl"
    if separator and mode in ("direct", "anchor"):
        downlink = "direct" if mode == "direct" else "anchor"
    else:
        rest = spelling
    parts = [part.strip() for part in rest.split(",")]
    if len(parts) != (3 if downlink == "docofl" else 2):
        raise InvalidInputError(
            f'codec: found {spelling!r}, expected "fedavg", "b_w,b_c,b_g", "direct:b_w,b_g" or '
            '"anchor:b_w,b_g"'
        )
    update = _codec(parts[-1], Eden)
    if downlink == "direct":
        return Codecs(Identity(), _codec(parts[0], Eden), update, downlink)
    anchor = _codec(parts[0], Ecuq)
    if downlink == "anchor":
        return Codecs(anchor, Identity(), update, downlink)
    return Codecs(anchor, _codec(parts[1], Eden), update, downlink)


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """A run. What is None is the task's default.

    Attributes
    ----------
    task : str
        Its name.
    codec : str
        As for :func:`parse_codecs`.
    label : str, optional
        What the run is called in tables and legends; its codec by default.
    seed : int
        Of partition, initial weights, selection, batches and codecs. Runs with the same seed are
        paired: they differ by what their codecs do.
    lead_min, lead_max : int
        A client is told between so many rounds ahead of its own. By default from 1 to K (V - 1),
        so that its anchor is between 1 and K V rounds old and still there.
    dropout : float
        The share of participants that vanish in their round.
    delayed, max_delay : float, int
        The share of updates that come late, by 1 to `max_delay` rounds.
    weak_share, strong_link, weak_link : float, str
        The share of weakly connected clients, and the speeds of both classes as
        ``"downlink/uplink"`` in Mbit/s. With them the time that transfers take in each round is
        estimated, and weak clients are told `lead_max` rounds ahead, strong ones `lead_min`.
    adaptive_rho, adaptive_error : float, optional
        Targets of adaptive budgets; b_w stays within `anchor_bits_min` and `anchor_bits_max`, b_c
        within `correction_bits_min` and `correction_bits_max`.
    ef21 : bool
        EF21-PP: clients remember their last update and send changes, with EDEN's least error in
        place of its unbiased estimate, as the method needs a contraction.
    threads : int
        Of torch and of the codecs.
    checkpoint_every : int
        Rounds between checkpoints.
    """

    task: str = "digits"
    codec: str = "2,2,3"
    label: str | None = None
    seed: int = 0
    data: str | None = None
    rounds: int | None = None
    num_clients: int | None = None
    per_round: int | None = None
    partition: str | None = None
    batch_size: int | None = None
    local_epochs: int | None = None
    client_optimizer: Literal["sgd", "adam"] | None = None
    client_lr: float | None = None
    server_optimizer: Literal["sgd", "adam", "yogi", "adagrad"] | None = None
    server_lr: float | None = None
    server_momentum: float | None = None
    weight_decay: float | None = None
    deploy_every: int | None = None
    capacity: int | None = None
    eval_every: int | None = None
    lead_min: int | None = None
    lead_max: int | None = None
    weighted: bool = False
    shared_corrections: bool = False
    quorum: int = 1
    max_update_norm: float | None = None
    dropout: float = 0.0
    delayed: float = 0.0
    max_delay: int = 0
    weak_share: float = 0.0
    strong_link: str | None = None
    weak_link: str | None = None
    adaptive_rho: float | None = None
    adaptive_error: float | None = None
    anchor_bits_min: float = 1.5
    anchor_bits_max: float = 8.0
    correction_bits_min: float = 0.5
    correction_bits_max: float = 8.0
    ef21: bool = False
    threads: int = 1
    checkpoint_every: int = 50

    def __post_init__(self) -> None:
        for name, expected in _types().items():
            object.__setattr__(self, name, _checked(name, getattr(self, name), expected))
        get_task(self.task)
        parse_codecs(self.codec)
        if self.data == "":
            raise InvalidInputError("data: found an empty text, expected a folder")
        for name in ("dropout", "delayed", "weak_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidInputError(f"{name}: found {getattr(self, name)}, expected 0 to 1")
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise InvalidInputError(f"{name}: found {value}, expected {least} to {most:g}")
        for name, needed in _NEEDS.items():
            is_given = getattr(self, name) != getattr(type(self), name)
            if is_given and not getattr(self, needed):
                raise InvalidInputError(f"{name}: found without {needed}, expected both")
        self.budgets()
        if self.server_optimizer in ADAPTIVE:
            for name in ("server_momentum", "weight_decay"):
                if getattr(self, name) is not None:
                    raise InvalidInputError(
                        f"{name}: found with {self.server_optimizer}, expected sgd"
                    )
        least_lead = 1 if self.lead_min is None else self.lead_min
        if self.lead_max is not None and self.lead_max < least_lead:
            raise InvalidInputError(
                f"lead_max: found {self.lead_max}, expected at least lead_min, {least_lead}"
            )
        if self.ef21 and (self.weighted or self.max_delay):
            raise InvalidInputError("ef21: found with weighted or max_delay, expected neither")
        per_round = self.settings().per_round
        if self.quorum > per_round:
            raise InvalidInputError(f"quorum: found {self.quorum}, expected at most {per_round}")

    def budgets(self) -> AdaptiveBudgets | None:
        """Return the budgets that follow the run's targets, if it has any.

        Raises
        ------
        InvalidInputError
            Where the targets, bounds or codecs do not fit.
        """
        if self.adaptive_rho is None:
            return None
        codecs = parse_codecs(self.codec)
        try:
            budgets = AdaptiveBudgets(
                rho=self.adaptive_rho,
                anchor_bits=(self.anchor_bits_min, self.anchor_bits_max),
                error=self.adaptive_error,
                correction_bits=(self.correction_bits_min, self.correction_bits_max),
            )
            budgets.check(codecs.anchor, codecs.correction)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"adaptive budgets with codec {self.codec!r}: {error}"
            ) from None
        return budgets

    def settings(self) -> Settings:
        """Return the task's settings with what this run changes."""
        settings = get_task(self.task).settings
        names = [field.name for field in dataclasses.fields(settings)]
        changes = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.server_optimizer in ADAPTIVE:
            changes.setdefault("server_lr", ADAPTIVE_LR)
        return dataclasses.replace(settings, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, with the task's numbers in place."""
        fields = {**asdict(self), **asdict(self.settings())}
        fields["label"] = self.label or self.codec
        return fields

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunConfig:
        """Make a configuration of a mapping.

        Raises
        ------
        InvalidInputError
            Where a key is unknown or its value of the wrong type.
        """
        for name in values:
            if name not in _types():
                raise InvalidInputError(f"{name}: unknown, expected one of {', '.join(_types())}")
        return cls(**values)


def read_config(path: Path | str) -> dict[str, Any]:
    """Read the options of a run from a TOML file.

    Raises
    ------
    InvalidInputError
        Where it is not TOML.
    """
    try:
        options: dict[str, Any] = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path}: {error}") from None
    except RecursionError:
        raise InvalidInputError(f"{path}: found tables within tables, expected options") from None
    return options


@cache
def _types() -> dict[str, Any]:
    return get_type_hints(RunConfig)


def _codec(spelling: str, by_bits: type[Ecuq] | type[Eden]) -> Codec:
    try:
        bits = float(spelling)
    except ValueError:
        bits = None
    try:
        if bits is None:
            codec = make_codec(spelling)
        else:
            codec = Identity() if bits == EXACT_BITS else by_bits(bits=bits)
        codec.encode(np.zeros(1, dtype=np.float32), seed=0)  # refuses budgets out of range
    except CodecError as error:
        raise InvalidInputError(f"codec, {spelling!r}: {error}") from None
    return codec


def _checked(name: str, value: Any, expected: Any) -> Any:
    """Return an option of the expected type, NumPy's numbers as Python's."""
    if isinstance(value, np.generic):
        value = value.item()
    choices: list[Any] = []
    kinds: list[type] = []
    for option in get_args(expected) or (expected,):
        if get_origin(option) is Literal:
            choices.extend(get_args(option))
        else:
            kinds.append(option)
    if isinstance(value, str) and value in choices:
        return value
    for kind in kinds:
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value) if abs(value) <= _LARGE else math.inf
        if isinstance(value, kind) and isinstance(value, bool) == (kind is bool):
            return value
    named = [str(choice) for choice in choices]
    named += [kind.__name__ for kind in kinds if kind is not type(None)]
    raise InvalidInputError(f"{name}: found {value!r}, expected {' or '.join(named)}")
