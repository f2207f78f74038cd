"""Pictures of measured rows: errors above, encoding times below, a column a panel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from docofl_codec.figures.experiments import OURS, PRINTED
from docofl_codec.figures.rows import Row

__all__ = ["draw"]

TITLES = {
    "cnn": "CNN weights",
    "lstm": "LSTM weights",
    "lognormal": "LogNormal(0, 1)",
    "normal": "Normal(0, 1)",
    "shifted": "Normal(1, 0.1)",
}
HEADINGS = {
    "gradient": "ECUQ and gradient compressors",
    "dimension": "ECUQ, ECK-Means and ECQ over the dimension, 2 bits a coordinate",
    "budget": "ECUQ, ECK-Means and ECQ over the budget",
    "sparsification": "ECUQ, sparsification and sketching",
}
# Distinguishable without colours, and for most eyes with them (Okabe and Ito).
STYLES: dict[str, dict[str, Any]] = {
    OURS: {"color": "#000000", "marker": "o", "linewidth": 2.2, "zorder": 5},
    PRINTED: {"color": "#7f7f7f", "marker": "o", "linestyle": "--", "fillstyle": "none"},
    "EDEN": {"color": "#0072B2", "marker": "s"},
    "QSGD + Elias gamma": {"color": "#E69F00", "marker": "^"},
    "Kashin + SQ": {"color": "#009E73", "marker": "D"},
    "Hadamard + SQ": {"color": "#CC79A7", "marker": "v"},
    "ECQ": {"color": "#D55E00", "marker": "s"},
    "ECK-Means": {"color": "#0072B2", "marker": "^"},
    "Top-K": {"color": "#0072B2", "marker": "s"},
    "Rand-K": {"color": "#E69F00", "marker": "^"},
    "Count-Sketch": {"color": "#009E73", "marker": "D"},
}


def draw(rows: Sequence[Row], path: Path) -> None:
    """Write a PNG of the rows of one figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    name = rows[0].figure
    panels = list(dict.fromkeys(row.panel for row in rows))
    figure = Figure(figsize=(3.9 * len(panels) + 0.6, 6.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, len(panels), squeeze=False, sharex="col")
    for column, panel in enumerate(panels):
        mine = [row for row in rows if row.panel == panel]
        _draw_panel(axes[0][column], axes[1][column], mine, name)
        dimension = mine[0].dimension
        size = "" if name == "dimension" else f"\n{dimension:,} coordinates"
        axes[0][column].set_title(TITLES.get(panel, panel) + size, fontsize=11)
    axes[0][0].set_ylabel("NMSE (lower is better)")
    axes[1][0].set_ylabel("encoding time in CPU seconds\n(one thread, least of the repeats)")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=min(len(labels), 6), frameon=False
    )
    figure.suptitle(HEADINGS[name], fontsize=13)
    figure.savefig(path, dpi=110)


def _draw_panel(top: Any, bottom: Any, rows: Sequence[Row], name: str) -> None:
    for codec in dict.fromkeys(row.codec for row in rows):
        mine = [row for row in rows if row.codec == codec]
        x = [row.dimension if name == "dimension" else row.bits for row in mine]
        style = {"markersize": 5, **STYLES.get(codec, {})}
        top.plot(x, [row.nmse for row in mine], label=codec, **style)
        bottom.plot(x, [row.encode_seconds_least for row in mine], label=codec, **style)
    for axis in (top, bottom):
        axis.set_yscale("log")
        axis.grid(True, which="major", alpha=0.35)
        axis.grid(True, which="minor", alpha=0.1)
    if name == "dimension":
        bottom.set_xscale("log", base=2)
        bottom.set_xlabel("dimension (coordinates)")
    else:
        bottom.set_xlabel("real bits a coordinate (whole frame)")
