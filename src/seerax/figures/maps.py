"""Where an agent senses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, ListedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from seerax.figures.files import save
from seerax.problems.maze import Maze, draw_arena
from seerax.problems.sketch import PALETTE

VISITED = ListedColormap([PALETTE["pale"]])
SENSED = LinearSegmentedColormap.from_list("sensed", ["#A9D3EE", PALETTE["sensing"], "#081D33"])


def sensing_map(path: str | Path, maze: Maze, positions: np.ndarray, sensed: np.ndarray) -> None:
    """Where the agent senses: steps that sensed per cell in colour, everywhere it has been in grey."""
    figure = Figure(figsize=(6.0, 5.2), layout="constrained")
    ax = figure.add_subplot()
    mesh = draw_sensing(ax, maze, positions, sensed)
    ticks: dict[str, Any] = {
        "ticks": LogLocator(subs=(1, 2, 5)),
        "format": FuncFormatter(lambda count, _: f"{count:g}"),
    }
    bar = figure.colorbar(mesh, ax=ax, shrink=0.85, pad=0.02, **ticks)
    bar.minorticks_off()
    bar.set_label("steps that sensed, per cell", fontsize=11)
    bar.outline.set_visible(False)
    save(figure, path)


def draw_sensing(ax: Axes, maze: Maze, positions: np.ndarray, sensed: np.ndarray, cells: int = 70) -> Any:
    """Positions [n, 2] and flags [n]; returns the coloured mesh."""
    draw_arena(maze, ax)
    edges = np.linspace(-maze.half, maze.half, cells + 1)
    positions, sensed = np.clip(positions, -maze.half, maze.half), np.asarray(sensed, bool)
    visits, counts = per_cell(positions, edges), per_cell(positions[sensed], edges)
    ax.pcolormesh(edges, edges, visits, cmap=VISITED, zorder=3)
    return ax.pcolormesh(edges, edges, counts, cmap=SENSED, norm=LogNorm(1, max(2.0, counts.max())), zorder=4)


def per_cell(positions: np.ndarray, edges: np.ndarray) -> np.ma.MaskedArray:
    """How many of the positions lie in each cell [y, x], empty ones masked."""
    counts, _, _ = np.histogram2d(positions[:, 1], positions[:, 0], bins=[edges, edges])
    return np.ma.masked_equal(counts, 0)
