"""Scenes, one moment of an episode each, side by side on a sheet."""

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
    """One moment of an episode, for a sheet. Once it is over there is nothing left to advise or to do."""
    moment = jax.tree.map(lambda leaf: leaf[time], episode)
    situation, action = moment.situation, moment.action
    if moment.over:
        situation, action = (
            situation._replace(advice=np.zeros_like(situation.advice)),
            np.zeros_like(action),
        )
    return lambda ax: draw(ax, situation, action, moment.latent)


def setup(path: str | Path, scenes: Sequence[tuple[str, Callable[[Axes], None]]]) -> None:
    """One sheet with all scenes, at most four in a row and the rows as even as possible."""
    rows = -(-len(scenes) // 4)
    columns = -(-len(scenes) // rows)
    figure = Figure(
        figsize=(3.6 * columns, 4.0 * rows), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1)
    )
    for place, (title, show) in enumerate(scenes):
        ax = figure.add_subplot(rows, columns, place + 1)
        show(ax)
        ax.set_anchor("N")  # titles in one line
        ax.set_title(title, fontsize=13)
    save(figure, path)
