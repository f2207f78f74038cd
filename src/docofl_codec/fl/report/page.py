"""One HTML page with everything in it: the table of the runs, the curves, the settings."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from docofl_codec.fl.report.numbers import (
    format_bytes,
    format_percent,
    format_ratio,
    format_seconds,
    format_spread,
)
from docofl_codec.fl.report.runs import Group, Run, Series

__all__ = ["Image", "make_page"]

# Title, caption and the bytes of a PNG.
Image = tuple[str, str, bytes]

STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.45 system-ui, sans-serif; color: #1c1c1c; background: #fff;
       max-width: 1240px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.3rem; margin-top: 2.4rem; }
h3 { font-size: 1.05rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .85rem; }
.wide { overflow-x: auto; }
th, td { padding: .3rem .42rem; border-bottom: 1px solid #ddd; text-align: right;
         white-space: nowrap; }
th { vertical-align: bottom; font-weight: 600; white-space: normal; border-bottom: 2px solid #888; }
th:first-child, td:first-child { text-align: left; }
tr.group td { font-weight: 600; background: #f4f6f8; }
tr.seed td:first-child { padding-left: 1.6rem; font-weight: 400; }
.diverged { color: #b3261e; font-weight: 600; }
figure { margin: 1.6rem 0; } figure img { max-width: 100%; height: auto; }
figcaption, .note { color: #555; font-size: .92rem; }
details { margin: .4rem 0; } pre { background: #f4f6f8; padding: .7rem; overflow-x: auto; }
"""

COLUMNS = (
    "run",
    "rounds",
    "best accuracy",
    "final accuracy",
    "last accuracy",
    "online ratio",
    "downlink ratio",
    "uplink ratio",
    "anchors",
    "corrections",
    "updates",
    "a round",
)

NOTE = (
    "Accuracies are on the test set; several seeds as mean ± half of what lies between the least "
    "and the largest. The final accuracy is the mean of the last four evaluations, the last one "
    "that of the last evaluation alone. Bytes are counted from frames, over all clients and "
    "rounds. Ratios are to float32, four bytes a weight: the whole model for each client asked, "
    "an update of each that sent one; online counts corrections and anchors fetched in the round "
    "itself, downlink all anchors and corrections. "
    "“A round” is the mean time that a round took to compute. Curves of many rounds are running "
    "means; bands reach from the least to the largest seed."
)


def make_page(title: str, tasks: Mapping[str, tuple[Sequence[Group], Sequence[Image]]]) -> str:
    """Return the page.

    Parameters
    ----------
    title : str
        Of the page.
    tasks : mapping
        For each task its groups of runs and its images.
    """
    parts = [f"<h1>{escape(title)}</h1>"]
    for task, (groups, images) in tasks.items():
        parts.append(f"<h2>{escape(task or 'runs')}</h2>")
        parts.append(f'<div class="wide">{_table(groups)}</div><p class="note">{NOTE}</p>')
        parts.extend(_figure(image) for image in images)
        parts.append("<h3>Settings</h3>")
        parts.extend(_settings(group.label, run) for group in groups for run in group.runs)
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _table(groups: Sequence[Group]) -> str:
    header = "".join(f"<th>{column}</th>" for column in COLUMNS)
    rows = []
    for group in groups:
        rows.append(_row("group", group.label, group.runs))
        if len(group.runs) > 1:
            rows.extend(_row("seed", _seed_label(run), [run]) for run in group.runs)
    return f"<table><thead><tr>{header}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _seed_label(run: Run) -> str:
    return run.name if run.seed is None else f"seed {run.seed} ({run.name})"


def _row(kind: str, label: str, runs: Sequence[Run]) -> str:
    """Make a table row of one run, or of the means of several."""
    cells = [
        _rounds(runs),
        format_spread([run.best_accuracy for run in runs]),
        format_spread([run.final_accuracy for run in runs]),
        format_spread([run.last_accuracy for run in runs]),
        *_ratios(runs),
        *(
            format_bytes(
                _mean([float(np.nansum([run.series(key) for key in keys])) for run in runs])
            )
            for keys in (
                ("anchor_bytes", "late_anchor_bytes"),
                ("correction_bytes",),
                ("update_bytes",),
            )
        ),
        _seconds(runs),
    ]
    diverged = sum(run.diverged for run in runs)
    name = escape(label)
    if diverged:
        count = "" if len(runs) == 1 else f" {diverged} of {len(runs)}"
        name += f' <span class="diverged">diverged{count}</span>'
    data = "".join(f"<td>{cell}</td>" for cell in [name, *cells])
    return f'<tr class="{kind}">{data}</tr>'


def _rounds(runs: Sequence[Run]) -> str:
    counts = sorted({len(run.metrics) for run in runs})
    return f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"


def _ratios(runs: Sequence[Run]) -> list[str]:
    """Return how many times fewer bytes went online, down and up than as float32."""
    return [
        _ratio([run.float32_bytes for run in runs], [run.online_bytes for run in runs]),
        _ratio([run.float32_bytes for run in runs], [run.downlink_bytes for run in runs]),
        _ratio([run.float32_uplink_bytes for run in runs], [run.uplink_bytes for run in runs]),
    ]


def _ratio(wholes: Sequence[float | None], parts: Sequence[Series]) -> str:
    known = [whole for whole in wholes if whole is not None]
    if len(known) < len(wholes):
        return format_ratio(None, 0)
    return format_ratio(sum(known), sum(float(part[-1]) for part in parts if part.size))


def _seconds(runs: Sequence[Run]) -> str:
    seconds = np.concatenate([run.series("seconds") for run in runs])
    seconds = seconds[~np.isnan(seconds)]
    return format_seconds(float(seconds.mean())) if seconds.size else "–"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _figure(image: Image) -> str:
    title, caption, content = image
    data = base64.b64encode(content).decode("ascii")
    return (
        f'<figure><img alt="{escape(title)}" src="data:image/png;base64,{data}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _settings(label: str, run: Run) -> str:
    text = escape(json.dumps(run.config, indent=2, ensure_ascii=False))
    return (
        f"<details><summary>{escape(label)}, {escape(_seed_label(run))}, "
        f"{format_percent(run.final_accuracy)}</summary><pre>{text}</pre></details>"
    )
