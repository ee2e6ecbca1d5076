"""Scenes: single moments of episodes, side by side on a sheet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from seerax.figures.saving import save
from seerax.rollout import Episode

Draw = Callable[[Any, Any, Any, Any], None]  # (ax, situation, action, latent)


def scene(draw: Draw, episode: Episode, time: int) -> Callable[[Axes], None]:
    """Returns a function that draws one moment, at the end without advice and action."""
    moment = jax.tree.map(lambda leaf: leaf[time], episode)
    situation = moment.situation
    action = moment.action
    if moment.over:
        situation = situation._replace(advice=np.zeros_like(situation.advice))
        action = np.zeros_like(action)

    def show(ax: Axes) -> None:
        draw(ax, situation, action, moment.latent)

    return show


def setup(path: str | Path, scenes: Sequence[tuple[str, Callable[[Axes], None]]]) -> None:
    """Draws a sheet of scenes, at most four in a row and the rows as even as possible."""
    rows = -(-len(scenes) // 4)
    columns = -(-len(scenes) // rows)
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1)
    figure = Figure(figsize=(3.6 * columns, 4.0 * rows), layout=layout)
    for place, (title, show) in enumerate(scenes):
        ax = figure.add_subplot(rows, columns, place + 1)
        show(ax)
        ax.set_anchor("N")  # aligns the titles
        ax.set_title(title, fontsize=13)
    save(figure, path)
