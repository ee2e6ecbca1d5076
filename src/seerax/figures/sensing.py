"""Maps of where an agent senses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, ListedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from seerax.drawing import PALETTE
from seerax.figures.saving import save
from seerax.rollout import Episode

VISITED = ListedColormap([PALETTE["pale"]])
SENSED = LinearSegmentedColormap.from_list("sensed", ["#A9D3EE", PALETTE["sensing"], "#081D33"])


class Arena(Protocol):
    """A problem in [-half, half]^2 that can draw its place without an agent in it."""

    @property
    def half(self) -> float: ...

    def draw_place(self, ax: Any) -> Any: ...


class Sensing(NamedTuple):
    """Positions of an agent [n, 2], and whether each of these steps sensed [n]."""

    title: str
    arena: Any
    positions: np.ndarray
    sensed: np.ndarray


def gather(title: str, arena: Any, episodes: Sequence[Episode]) -> Sensing:
    """Collects the positions where steps end, which is where readings are taken."""
    states = [episode.situation.state for episode in episodes]
    positions = np.concatenate([state.position[1:] for state in states])
    return Sensing(title, arena, positions, np.concatenate([state.sensed[1:] for state in states]))


def sensing_maps(path: str | Path, maps: Sequence[Sensing]) -> None:
    """Draws maps side by side: cells by their number of sensing steps, visited cells in grey."""
    save(lay_out_maps(maps), path)


def lay_out_maps(maps: Sequence[Sensing]) -> Figure:
    """Creates the figure, all maps on one colour scale."""
    figure = Figure(figsize=(4.8 * len(maps) + 1.2, 5.2), layout="constrained")
    panels = np.ravel(figure.subplots(1, len(maps)))
    meshes = [draw_sensing(ax, *shown[1:]) for ax, shown in zip(panels, maps, strict=True)]
    scale = LogNorm(1, max(mesh.norm.vmax for mesh in meshes))
    for ax, mesh, shown in zip(panels, meshes, maps, strict=True):
        mesh.set_norm(scale)
        ax.set_title(shown.title, fontsize=13)
    draw_scale(figure, meshes[0], list(panels))
    return figure


def draw_scale(figure: Figure, mesh: Any, panels: Sequence[Axes]) -> None:
    """Draws the colour bar of all panels."""
    ticks: dict[str, Any] = {
        "ticks": LogLocator(subs=(1, 2, 5)),
        "format": FuncFormatter(lambda count, _: f"{count:g}"),
    }
    bar = figure.colorbar(mesh, ax=list(panels), shrink=0.85, pad=0.02, aspect=24, **ticks)
    bar.minorticks_off()
    bar.set_label("steps that sensed, per cell", fontsize=11)
    bar.outline.set_visible(False)


def draw_sensing(
    ax: Axes, arena: Arena, positions: np.ndarray, sensed: np.ndarray, cells: int = 70
) -> Any:
    """Draws one map of positions [n, 2] and flags [n]; returns the coloured mesh."""
    arena.draw_place(ax)
    for label in ax.texts:
        label.set_zorder(5)
    edges = np.linspace(-arena.half, arena.half, cells + 1)
    positions = np.clip(positions, -arena.half, arena.half)
    visits = per_cell(positions, edges)
    counts = per_cell(positions[np.asarray(sensed, bool)], edges)
    ax.pcolormesh(edges, edges, visits, cmap=VISITED, zorder=3)
    norm = LogNorm(1, max(2.0, counts.max()))
    return ax.pcolormesh(edges, edges, counts, cmap=SENSED, norm=norm, zorder=4)


def per_cell(positions: np.ndarray, edges: np.ndarray) -> np.ma.MaskedArray:
    """Counts the positions in each cell [y, x]; empty cells are masked."""
    counts, _, _ = np.histogram2d(positions[:, 1], positions[:, 0], bins=[edges, edges])
    return np.ma.masked_equal(counts, 0)
