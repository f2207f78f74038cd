"""The curves: one function draws a metric against another, a table says which are drawn.

Runs that differ by seed alone become one line, their mean, in a band from the least to the
largest. Lines of many rounds are running means.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    MultipleLocator,
    NullFormatter,
    PercentFormatter,
)

from docofl_codec.fl.report.numbers import format_bytes, nice_step, time_unit
from docofl_codec.fl.report.runs import Group, Run
from docofl_codec.fl.report.style import look, new_figure

__all__ = ["FIGURES", "Curves", "draw_all"]

Series = npt.NDArray[np.float64]
Metric = Callable[[Run], Series]
# x and y of those rounds, counted from 1, in which a run has both.
Points = dict[float, tuple[float, float]]

MAX_MARKERS = 40
# Lines of more points are drawn as running means of a sixtieth of them.
MAX_RAW = 120
LOG_FROM = 20
# Characters of a line of a legend, and of labels that leave room for curves beside them.
MAX_LABEL = 60
MAX_INSIDE = 30


@dataclass(frozen=True)
class Panel:
    """A metric against another.

    Parameters
    ----------
    x, y : callable
        From a run to a value for each round; rounds where one is NaN are left out.
    x_label, y_label : str
        Of the axes.
    x_unit, y_unit : {"", "bytes", "percent", "seconds"}
        How ticks are written.
    x_log, y_log : bool
        Whether values that differ by more than 20 times get a logarithmic axis.
    level : float, optional
        A horizontal line to compare with.
    steps : bool
        Whether values hold until the next one.
    """

    x: Metric
    y: Metric
    x_label: str
    y_label: str
    x_unit: str = ""
    y_unit: str = ""
    x_log: bool = False
    y_log: bool = False
    level: float | None = None
    steps: bool = False


@dataclass(frozen=True)
class Curves:
    """A figure: file name, title, what it shows, and its panels.

    It is drawn if all panels have values, or if any has where not `needs_all`.
    """

    name: str
    title: str
    caption: str
    panels: Sequence[Panel]
    needs_all: bool = True


def _metric(key: str) -> Metric:
    return lambda run: run.series(key)


def _rounds(run: Run) -> Series:
    return run.rounds


def _time(run: Run) -> Series:
    seconds = run.series("online_seconds")
    return np.full(seconds.size, np.nan) if np.isnan(seconds).all() else np.nancumsum(seconds)


def _changing(key: str) -> Metric:
    """Return a metric that is NaN throughout in runs where it never changes."""

    def values(run: Run) -> Series:
        series = run.series(key)
        known = series[~np.isnan(series)]
        constant = known.size == 0 or np.ptp(known) == 0
        return np.full(series.size, np.nan) if constant else series

    return values


def _by_rounds(key: str, y_label: str, **options: object) -> Panel:
    return Panel(_rounds, _metric(key), "rounds", y_label, **options)  # type: ignore[arg-type]


_TEST = _by_rounds("test_accuracy", "validation accuracy", y_unit="percent")

FIGURES = (
    Curves("accuracy-rounds", "Validation accuracy against rounds", "", [_TEST]),
    Curves(
        "accuracy-downlink",
        "Validation accuracy against all downlink bytes",
        "Anchors and corrections of all clients, counted from frames.",
        [
            Panel(
                lambda run: run.downlink_bytes,
                _metric("test_accuracy"),
                "total downlink",
                "validation accuracy",
                x_unit="bytes",
                y_unit="percent",
                x_log=True,
            )
        ],
    ),
    Curves(
        "accuracy-online",
        "Validation accuracy against online downlink bytes",
        "What clients download within their round: corrections, or whole models without anchors.",
        [
            Panel(
                lambda run: run.online_bytes,
                _metric("test_accuracy"),
                "online downlink",
                "validation accuracy",
                x_unit="bytes",
                y_unit="percent",
                x_log=True,
            )
        ],
    ),
    Curves(
        "train-validation",
        "Training and validation accuracy",
        "On a fixed part of the training samples (left) and on the test set (right).",
        [_by_rounds("train_accuracy", "training accuracy", y_unit="percent"), _TEST],
    ),
    Curves(
        "loss",
        "Training and validation loss",
        "Mean over the round's clients while they train (left); on the test set (right).",
        [
            _by_rounds("train_loss", "clients' training loss"),
            _by_rounds("test_loss", "validation loss"),
        ],
    ),
    Curves(
        "estimation-error",
        "Estimation error of the clients' models",
        "Squared distance of the model that a client rebuilds from the server's; mean of a round.",
        [_by_rounds("estimation_error", "mean ê²", y_log=True)],
    ),
    Curves(
        "rho",
        "Ratio of estimation errors, ρ",
        "Error with compressed anchors over error with exact ones, at the same correction budget.",
        [_by_rounds("rho", "ρ", y_log=True, level=1.0)],
    ),
    Curves(
        "budgets",
        "Adaptive budgets",
        "Bits per coordinate in runs that change them.",
        [
            Panel(
                _rounds,
                _changing(f"{part}_bits"),
                "rounds",
                f"{part}, bits per coordinate",
                steps=True,
            )
            for part in ("anchor", "correction")
        ],
        needs_all=False,
    ),
    Curves(
        "round-time",
        "Time on the given links",
        "What a round waits for its clients' links (left); what is reached in the sum of that time "
        "(right).",
        [
            _by_rounds("online_seconds", "link time of a round", y_unit="seconds"),
            Panel(
                _time,
                _metric("test_accuracy"),
                "link time so far",
                "validation accuracy",
                x_unit="seconds",
                y_unit="percent",
            ),
        ],
    ),
)


def draw_all(groups: Sequence[Group], title: str) -> list[tuple[Curves, Figure]]:
    """Draw the figures that the runs have values for.

    Parameters
    ----------
    groups : sequence of Group
        Of one task.
    title : str
        Put before each figure's own.
    """
    drawn = []
    for curves in FIGURES:
        panels = [panel for panel in curves.panels if _has_values(panel, groups)]
        if not panels or (curves.needs_all and len(panels) < len(curves.panels)):
            continue
        figure, axes = new_figure(len(panels))
        seen = [_draw(panel, axis, groups) for panel, axis in zip(panels, axes, strict=True)]
        name = _literal(title)
        figure.suptitle(f"{name}: {curves.title}" if title else curves.title, fontsize=13)
        lines = {label: line for lines in seen for label, line in lines.items()}
        _add_legend(figure, lines)
        drawn.append((curves, figure))
    return drawn


def _literal(text: str) -> str:
    """Return a text that is drawn as it is: no formula, and no bytes that were never UTF-8."""
    return text.encode("utf-8", "replace").decode().replace("$", r"\$")


def _add_legend(figure: Figure, lines: dict[str, Line2D]) -> None:
    """Add a legend to a single panel's free corner, or below where it needs more room."""
    labels = [textwrap.fill(_literal(label), MAX_LABEL) for label in lines]
    longest = max(map(len, lines))
    is_single = len(figure.axes) == 1
    if is_single and len(lines) <= 4 and longest <= MAX_INSIDE:
        figure.axes[0].legend(lines.values(), labels, fontsize=10, frameon=True, framealpha=0.9)
        return
    most, room = (3, 96) if is_single else (4, 160)
    columns = max(1, min(len(lines), most, room // (8 + min(longest, MAX_LABEL))))
    height = math.ceil(len(lines) / columns) * max(label.count("\n") + 1 for label in labels)
    figure.set_figheight(figure.get_figheight() + 0.2 * max(0, height - 4))
    figure.legend(lines.values(), labels, fontsize=10, loc="outside lower center", ncols=columns)


def _draw(panel: Panel, axis: Axes, groups: Sequence[Group]) -> dict[str, Line2D]:
    """Draw the lines of all groups that have values; return them by label."""
    found = {
        number: [points for run in group.runs if (points := _points(panel, run))]
        for number, group in enumerate(groups)
    }
    summaries = {number: _summarize(parts) for number, parts in found.items() if parts}
    _dress(
        panel,
        axis,
        np.concatenate([summary[0] for summary in summaries.values()]),
        np.concatenate([summary[2] for summary in summaries.values()]),
    )
    lines: dict[str, Line2D] = {}
    for number, (x, low, mean, high) in summaries.items():
        style = look(number)
        if x.size > MAX_RAW and not panel.steps:
            smooth = _running_ratio if axis.get_yscale() == "log" else _running_mean
            low, mean, high = (smooth(series) for series in (low, mean, high))
        if len(found[number]) > 1:
            axis.fill_between(x, low, high, color=style.colour, alpha=0.15, linewidth=0)
        (lines[groups[number].label],) = axis.plot(
            x,
            mean,
            color=style.colour,
            linestyle=style.dashes,
            drawstyle="steps-post" if panel.steps else "default",
            linewidth=1.6,
            marker=style.marker if x.size <= MAX_MARKERS else None,
            markersize=4.5,
        )
    return lines


def _has_values(panel: Panel, groups: Sequence[Group]) -> bool:
    return any(_points(panel, run) for group in groups for run in group.runs)


def _points(panel: Panel, run: Run) -> Points:
    x, y = panel.x(run), panel.y(run)
    kept = np.isfinite(x) & np.isfinite(y)
    if panel.x_log:
        kept &= x > 0
    if panel.y_log:
        kept &= y > 0
    points = zip(x[kept].tolist(), y[kept].tolist(), strict=True)
    return dict(zip(run.rounds[kept].tolist(), points, strict=True))


def _summarize(parts: Sequence[Points]) -> tuple[Series, Series, Series, Series]:
    """Return x and the least, mean and largest y of several seeds, round by round.

    A seed counts in the rounds in which it has a value. Where x differs between seeds (bytes), it
    is their mean.
    """
    rounds = {number: at for at, number in enumerate(sorted(set().union(*parts)))}
    table = np.full((2, len(parts), len(rounds)), np.nan)
    for row, points in enumerate(parts):
        table[:, row, [rounds[number] for number in points]] = np.array([*points.values()]).T
    x, y = table
    return np.nanmean(x, 0), np.nanmin(y, 0), np.nanmean(y, 0), np.nanmax(y, 0)


def _running_mean(values: Series) -> Series:
    """Return means of a window around each value, which is cut off at the ends."""
    reach = max(1, values.size // 120)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    at = np.arange(values.size)
    low, high = np.maximum(at - reach, 0), np.minimum(at + reach + 1, values.size)
    means: Series = (sums[high] - sums[low]) / (high - low)
    return means


def _running_ratio(values: Series) -> Series:
    """Return running means for a logarithmic axis: geometric ones."""
    means: Series = np.exp(_running_mean(np.log(values)))
    return means


def _dress(panel: Panel, axis: Axes, x: Series, y: Series) -> None:
    """Set labels, scales and ticks for the given values."""
    x_label, y_label = panel.x_label, panel.y_label
    if panel.x is _rounds:
        axis.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    if panel.level is not None:
        axis.axhline(panel.level, color="#606060", linewidth=1, linestyle=(0, (2, 2)))
    if panel.x_log and x.max() > LOG_FROM * x.min():
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_minor_formatter(NullFormatter())
    if panel.y_log and y.max() > LOG_FROM * y.min():
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_minor_formatter(NullFormatter())
    x_label += _write_ticks(axis.xaxis, panel.x_unit, float(x.max()))
    y_label += _write_ticks(axis.yaxis, panel.y_unit, float(y.max()))
    axis.set_xlabel(x_label, fontsize=11)
    axis.set_ylabel(y_label, fontsize=11)


def _write_ticks(direction: Axis, unit: str, largest: float) -> str:
    """Set how ticks are written; return what the axis label has to say of it."""
    if unit == "bytes":
        direction.set_major_formatter(FuncFormatter(lambda value, _: format_bytes(value)))
    elif unit == "percent":
        direction.set_major_formatter(PercentFormatter(1.0, decimals=None))
    elif unit == "seconds":
        name, size = time_unit(largest)
        direction.set_major_locator(MultipleLocator(size * nice_step(largest / size)))
        direction.set_major_formatter(FuncFormatter(lambda value, _: f"{value / size:g}"))
        return f" ({name})"
    else:
        direction.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    return ""
