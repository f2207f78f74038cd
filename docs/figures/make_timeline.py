"""Draw timeline.png: when anchors are deployed and fetched, and when corrections are sent.

Run ``python docs/figures/make_timeline.py``; needs matplotlib. K = 10, V = 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

DEPLOY_EVERY = 10
CAPACITY = 2
LAST_ROUND = 40
ANCHOR, CORRECTION, UPDATE, QUIET = "#0072B2", "#D55E00", "#000000", "#8a8a8a"


@dataclass(frozen=True)
class Visit:
    """One participation of a client: told in round s, downloads for a while, trains in round t."""

    client: str
    told: int
    fetched: int
    round: int

    @property
    def anchor(self) -> int:
        """The round of the latest anchor when the client is told."""
        return self.told // DEPLOY_EVERY * DEPLOY_EVERY


VISITS = (
    Visit("client 7", told=3, fetched=8, round=14),
    Visit("client 52", told=12, fetched=20, round=23),
    Visit("client 31", told=25, fetched=27, round=36),
)


def draw_server(axes: Axes, height: float) -> None:
    """Draw the anchors, each from its deployment until it leaves the queue."""
    for number, start in enumerate(range(0, LAST_ROUND, DEPLOY_EVERY)):
        y = height + 0.42 - 0.42 * (number % CAPACITY)
        end = min(start + CAPACITY * DEPLOY_EVERY, LAST_ROUND + 1)
        axes.barh(
            y, end - start - 0.25, left=start, height=0.34, color=ANCHOR, alpha=0.16, linewidth=0
        )
        axes.plot(start, y, marker="s", color=ANCHOR, markersize=8, clip_on=False, zorder=3)
        axes.text(start + 0.7, y, f"anchor $y_{{{start}}}$", va="center", color=ANCHOR, fontsize=9)


def draw_visit(axes: Axes, visit: Visit, height: float, server: float) -> None:
    """Draw what a client does, from its notification to its update."""
    below = server - 0.3
    axes.plot(
        [visit.told, visit.round],
        [height, height],
        color=QUIET,
        linewidth=1,
        linestyle=":",
        zorder=1,
    )
    axes.plot(visit.told, height, "o", color="white", markeredgecolor=QUIET, markersize=8, zorder=3)
    axes.barh(
        height, visit.fetched - visit.told, left=visit.told, height=0.2, color=ANCHOR, zorder=2
    )
    axes.text(
        (visit.told + visit.fetched) / 2,
        height - 0.3,
        f"fetches $\\hat{{y}}_{{{visit.anchor}}}$",
        ha="center",
        va="center",
        color=ANCHOR,
        fontsize=9,
    )
    for x, color, start, end in (
        (visit.round - 0.18, CORRECTION, below, height + 0.1),
        (visit.round + 0.42, UPDATE, height + 0.1, below),
    ):
        axes.annotate(
            "",
            xy=(x, end),
            xytext=(x, start),
            arrowprops={"arrowstyle": "-|>", "color": color, "linewidth": 1.4},
        )
    axes.text(
        visit.round + 0.9,
        height,
        f"trains on $\\hat{{y}}_{{{visit.anchor}}} + \\hat{{\\Delta}}_{{{visit.round}}}$",
        va="center",
        fontsize=9,
    )


def draw(path: Path) -> None:
    """Write the figure."""
    figure, axes = plt.subplots(figsize=(9.6, 4.2), layout="constrained")
    server = float(len(VISITS))
    draw_server(axes, server)
    for number, visit in enumerate(VISITS):
        draw_visit(axes, visit, server - 1 - number, server)
    axes.plot([], [], "s", color=ANCHOR, label="anchor deployed, kept while its bar lasts")
    axes.plot(
        [], [], "o", color="white", markeredgecolor=QUIET, label="client told that it takes part"
    )
    axes.plot([], [], color=ANCHOR, linewidth=5, label="anchor fetched: rounds ahead, no hurry")
    axes.plot([], [], color=CORRECTION, label="correction: in the round, small")
    axes.plot([], [], color=UPDATE, label="update")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3, frameon=False, fontsize=9)
    axes.set_yticks(
        [*range(len(VISITS)), server + 0.2], [*(v.client for v in reversed(VISITS)), "server"]
    )
    axes.set_ylim(-0.55, server + 0.85)
    axes.set_xlim(-0.8, LAST_ROUND + 1)
    axes.set_xticks(range(0, LAST_ROUND + 1, DEPLOY_EVERY // 2))
    axes.set_xlabel("round")
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.savefig(path, dpi=120, metadata={"Software": None})


if __name__ == "__main__":
    draw(Path(__file__).with_name("timeline.png"))
