"""The studies of the paper's appendix, each as a set of paired runs and one CSV file.

=============  ===================================================================================
name           what varies
=============  ===================================================================================
``kv``         K and V, under two correction budgets (the paper's ablation of the deployment rate)
``bw``         the anchors' budget b_w
``bc``         the corrections' budget b_c
``correction`` with and without corrections, for three kinds of anchors
``rho``        b_w, and with it ρ_t (appendix B)
``ef21``       EF21-PP with an exact, a direct and a DoCoFL downlink
``adaptive``   budgets that follow ρ_t beside fixed ones (open question 3)
=============  ===================================================================================
"""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from docofl_codec.errors import InvalidInputError
from docofl_codec.fl.compare import jobs_for
from docofl_codec.fl.config import ADAPTIVE, RunConfig
from docofl_codec.fl.report.runs import Run, read_run
from docofl_codec.fl.sweep import run_all

__all__ = ["STUDIES", "Study", "ablate"]

RHO_ROUNDS = slice(20, 60)

# The options of a run beyond the base's, by label.
Variants = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Study:
    """Runs that differ in one respect.

    Attributes
    ----------
    variants : mapping
        Options by label.
    quick_variants : sequence of str
        The labels of those that are enough to show the direction; by default all.
    rounds, quick_rounds : int
        T, and T of a run that only shows the direction.
    shared : mapping
        Options of all runs, where they are not given otherwise.
    """

    variants: Variants
    rounds: int
    quick_rounds: int
    quick_variants: Sequence[str] = ()
    shared: Mapping[str, Any] = dataclasses.field(default_factory=dict)


KV_CODECS = ("2,2,3", "2,0.5,3")


def _by_codec(*codecs: str) -> Variants:
    return {codec: {"codec": codec} for codec in codecs}


def _kv() -> Variants:
    return {
        f"K={k} V={v} {codec}": {"codec": codec, "deploy_every": k, "capacity": v}
        for codec in KV_CODECS
        for k in (10, 50, 100, 500)
        for v in (3, 5, 10)
    }


STUDIES: Mapping[str, Study] = {
    "kv": Study(
        _kv(),
        rounds=400,
        quick_rounds=100,
        quick_variants=[
            f"{kv} {codec}" for codec in KV_CODECS for kv in ("K=10 V=3", "K=50 V=3", "K=50 V=10")
        ],
    ),
    "bw": Study(_by_codec("32,2,3", "3,2,3", "2,2,3", "1.5,2,3"), rounds=400, quick_rounds=80),
    "bc": Study(
        _by_codec("2,32,3", "2,4,3", "2,2,3", "2,1,3", "2,0.5,3"), rounds=400, quick_rounds=80
    ),
    "correction": Study(
        {
            **_by_codec("2,2,3", "anchor:2,3", "32,2,3", "anchor:32,3"),
            "V=1 2,2,3": {"codec": "2,2,3", "capacity": 1},
            "V=1 anchor:2,3": {"codec": "anchor:2,3", "capacity": 1},
        },
        rounds=200,
        quick_rounds=60,
    ),
    "rho": Study(_by_codec("2,2,3", "3,2,3", "4,2,3", "8,2,3"), rounds=300, quick_rounds=60),
    "ef21": Study(
        {
            "exact": {"codec": "direct:32,1"},
            "EDEN, 1 bit": {"codec": "direct:1,1"},
            "EDEN, 2 bits": {"codec": "direct:2,1"},
            "EDEN, 3 bits": {"codec": "direct:3,1"},
            "DoCoFL (2,1)": {"codec": "2,1,1"},
        },
        rounds=400,
        quick_rounds=80,
        # The mean of all clients' latest updates reaches N / S rounds back: momentum enough.
        shared={"ef21": True, "num_clients": 200, "per_round": 10, "server_momentum": 0.0},
    ),
    "adaptive": Study(
        {
            "4,4,3": {"codec": "4,4,3"},
            "2,2,3": {"codec": "2,2,3"},
            "adaptive": {"codec": "2,3,3", "adaptive_rho": 3.0, "anchor_bits_max": 5.0},
        },
        rounds=600,
        quick_rounds=120,
    ),
}


def ablate(
    name: str,
    base: RunConfig,
    seeds: Sequence[int],
    out: Path | str,
    *,
    quick: bool = False,
    processes: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Do the runs of a study and write ``<name>.csv``.

    Parameters
    ----------
    name : str
        One of :data:`STUDIES`.
    base : RunConfig
        What the runs share; its rounds and what else it gives replace the study's, but it gives
        nothing that the study varies.
    seeds : sequence of int
        Runs with the same seed are paired.
    out : path-like
        A folder for the runs' folders and the table.
    quick : bool, default False
        Fewer rounds, and of ``kv`` fewer runs.
    processes, on_progress
        As for :func:`docofl_codec.fl.sweep.run_all`.

    Returns
    -------
    list of dict
        One for each run: label, seed, accuracies, bytes, and medians of ê² and ρ_t.
    """
    if name not in STUDIES:
        raise InvalidInputError(f"study: found {name!r}, expected one of {', '.join(STUDIES)}")
    study = STUDIES[name]
    _check_not_given({key for options in study.variants.values() for key in options}, base)
    rounds = base.rounds or (study.quick_rounds if quick else study.rounds)
    shared = _not_given(study.shared, base)
    labels = (study.quick_variants if quick else ()) or study.variants
    configs = [
        dataclasses.replace(base, label=label, rounds=rounds, **shared, **study.variants[label])
        for label in labels
    ]
    jobs = jobs_for(configs, seeds, Path(out))
    run_all(jobs, processes=processes, on_progress=on_progress)
    rows = [_measured(read_run(job.out)) for job in jobs]
    _write_csv(rows, Path(out) / f"{name}.csv")
    return rows


def _check_not_given(varied: Set[str], base: RunConfig) -> None:
    """Refuse a base with options of its own for what a study varies."""
    for field in dataclasses.fields(base):
        value = getattr(base, field.name)
        if field.name in varied and value != field.default:
            raise InvalidInputError(
                f"{field.name}: found {value}, expected none: the study varies it"
            )


def _not_given(shared: Mapping[str, Any], base: RunConfig) -> dict[str, Any]:
    """Return the options of a study that the base leaves open and its optimizer has."""
    return {
        name: value
        for name, value in shared.items()
        if not getattr(base, name)
        and not (name == "server_momentum" and base.server_optimizer in ADAPTIVE)
    }


def _measured(run: Run) -> dict[str, Any]:
    return {
        "label": run.label,
        "seed": run.seed,
        "rounds": len(run.metrics),
        "diverged": int(run.diverged),
        "final_accuracy": _share(run.final_accuracy),
        "last_accuracy": _share(run.last_accuracy),
        "final_train_accuracy": _share(run.final_train_accuracy),
        "estimation_error": _median(run.series("estimation_error")[-100:]),
        "rho": _median(run.series("rho")[RHO_ROUNDS]),
        "last_rho": _median(run.series("rho")[-100:]),
        "online_bytes": int(run.online_bytes[-1]),
        "downlink_bytes": int(run.downlink_bytes[-1]),
        "uplink_bytes": int(run.uplink_bytes[-1]),
    }


def _share(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 5)


def _median(values: np.ndarray[Any, np.dtype[np.float64]]) -> float | None:
    known = values[~np.isnan(values)]
    return float(f"{np.median(known):.6g}") if known.size else None


def _write_csv(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path.write_text(text.getvalue(), encoding="utf-8")
