"""How all curves look."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ["Look", "look", "new_figure"]

# Okabe and Ito's colours, told apart by colour-blind readers; yellow is too pale on white.
COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


@dataclass(frozen=True)
class Look:
    """Of one line."""

    colour: str
    dashes: str
    marker: str


def look(number: int) -> Look:
    """Return the look of line number 0, 1, …; 28 of them differ in colour or dashes."""
    return Look(
        COLOURS[number % len(COLOURS)],
        DASHES[number // len(COLOURS) % len(DASHES)],
        MARKERS[number % len(MARKERS)],
    )


def new_figure(num_panels: int = 1) -> tuple[Figure, list[Axes]]:
    """Make a figure of one or two panels side by side."""
    figure = Figure(figsize=(7.5 if num_panels == 1 else 12.5, 4.6), dpi=120, layout="constrained")
    axes = list(figure.subplots(1, num_panels, squeeze=False)[0])
    for panel in axes:
        panel.grid(True, which="major", color="#d8d8d8", linewidth=0.7)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=10)
    return figure, axes
