"""What posterior sampling loses on the tree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from seerax.drawing import PALETTE
from seerax.figures.saving import save
from seerax.figures.style import colours, shared_legend, tidy
from seerax.paper import exact


class TreePoint(NamedTuple):
    """A simulated mean return over `episodes` walks on one tree."""

    depth: int
    episodes: int
    policy: str
    mean: float
    stderr: float


def tree_gap(path: str | Path, rows: Sequence[TreePoint]) -> None:
    """What posterior sampling loses to acting Bayes-optimally: exact lines, simulated points (95 % intervals)."""
    depths = sorted({row.depth for row in rows})
    figure = Figure(figsize=(max(6.0, 3.2 * len(depths)), 3.8), layout="constrained")
    for ax, depth in zip(
        np.ravel(figure.subplots(1, len(depths), sharey=True)), depths, strict=True
    ):
        draw_gap(ax, depth, [row for row in rows if row.depth == depth])
        ax.set_title(f"depth {depth}, {2**depth} leaves", fontsize=11)
    figure.axes[0].set_ylabel("cumulative reward", fontsize=11)
    shared_legend(figure, 3)
    save(figure, path)


def draw_gap(ax: Axes, depth: int, rows: Sequence[TreePoint]) -> None:
    episodes = np.arange(1, max(row.episodes for row in rows) + 1)
    best = np.array([exact.tree_optimum(depth, int(count)) for count in episodes])
    sampled = np.array([exact.tree_posterior_sampling(depth, int(count)) for count in episodes])
    ax.fill_between(episodes, sampled, best, color=PALETTE["pale"], alpha=0.5, linewidth=0)
    ax.plot(episodes, best, color=PALETTE["optimal"], linewidth=2, label="Bayes-optimal, exact")
    ax.plot(
        episodes,
        sampled,
        color=PALETTE["posterior sampling"],
        linewidth=2,
        label="posterior sampling, exact",
    )
    policies = sorted({row.policy for row in rows})
    for policy, colour in zip(policies, colours(policies), strict=True):
        points = [row for row in rows if row.policy == policy]
        draw_points(ax, points, colour)
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    tidy(ax, "episodes on one tree, T", "")


def draw_points(ax: Axes, points: Sequence[TreePoint], colour: str) -> None:
    counts, means = [point.episodes for point in points], [point.mean for point in points]
    margins = [1.96 * point.stderr for point in points]
    look: dict[str, Any] = {"markerfacecolor": PALETTE["paper"], "markersize": 6, "capsize": 3}
    ax.errorbar(
        counts,
        means,
        margins,
        fmt="o",
        color=colour,
        label=f"{points[0].policy}, simulated",
        **look,
    )
