"""The gap between the Bayes-optimal return and that of posterior sampling on the tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from seerax.drawing import PALETTE
from seerax.figures.saving import save
from seerax.figures.style import shared_legend, tidy


class Point(NamedTuple):
    """A simulated mean return over `episodes` walks on one tree."""

    episodes: int
    mean: float
    stderr: float


class Gap(NamedTuple):
    """A tree: exact returns as functions of (depth, episodes), and simulated posterior sampling."""

    depth: int
    optimal: Callable[[int, int], float]
    sampled: Callable[[int, int], float]
    points: Sequence[Point]


def tree_gaps(path: str | Path, gaps: Sequence[Gap]) -> None:
    """Draws one panel per tree: exact lines, and simulated points with 95 % intervals."""
    figure = Figure(figsize=(max(6.0, 3.2 * len(gaps)), 3.8), layout="constrained")
    panels = np.ravel(figure.subplots(1, len(gaps), sharey=True))
    for ax, gap in zip(panels, gaps, strict=True):
        draw_gap(ax, gap)
        ax.set_title(f"depth {gap.depth}, {2**gap.depth} leaves", fontsize=11)
    figure.axes[0].set_ylabel("cumulative reward", fontsize=11)
    shared_legend(figure, 3)
    save(figure, path)


def draw_gap(ax: Axes, gap: Gap) -> None:
    """Draws both returns over the number of episodes, and shades the gap between them."""
    episodes = np.arange(1, max(point.episodes for point in gap.points) + 1)
    best = np.array([gap.optimal(gap.depth, int(count)) for count in episodes])
    sampled = np.array([gap.sampled(gap.depth, int(count)) for count in episodes])
    colour = PALETTE["posterior sampling"]
    ax.fill_between(episodes, sampled, best, color=PALETTE["pale"], alpha=0.5, linewidth=0)
    ax.plot(episodes, best, color=PALETTE["optimal"], linewidth=2, label="Bayes-optimal, exact")
    ax.plot(episodes, sampled, color=colour, linewidth=2, label="posterior sampling, exact")
    draw_points(ax, gap.points, colour)
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    tidy(ax, "episodes on one tree, T", "")


def draw_points(ax: Axes, points: Sequence[Point], colour: str) -> None:
    """Draws simulated means with their 95 % intervals."""
    counts = [point.episodes for point in points]
    means = [point.mean for point in points]
    margins = [1.96 * point.stderr for point in points]
    look: dict[str, Any] = {"markerfacecolor": PALETTE["paper"], "markersize": 6, "capsize": 3}
    label = "posterior sampling, simulated"
    ax.errorbar(counts, means, margins, fmt="o", color=colour, label=label, **look)
