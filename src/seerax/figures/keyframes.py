"""Keyframes: a few moments of an episode side by side, each with the path so far."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from seerax.drawing import PALETTE
from seerax.figures.films import Story, legend, tell
from seerax.figures.saving import save
from seerax.figures.scenes import scene
from seerax.rollout import Episode

FRAMES = 6
SIDE = 3.6  # inches of a frame, so that its labels have room
ABOVE_ALL = ("agent", "action", "advice")  # drawn over the trail


class Reel(NamedTuple):
    """One episode of a problem that can be drawn."""

    title: str
    problem: Any
    episode: Episode


def keyframe_rows(path: str | Path, reels: Sequence[Reel], frames: int = FRAMES) -> None:
    """Draws one row per episode, from its start to its end."""
    save(lay_out_reels(reels, frames), path, dpi=100)


def lay_out_reels(reels: Sequence[Reel], frames: int) -> Figure:
    """Creates the figure: one row per episode, and one legend below them all."""
    size = (SIDE * frames + 0.5, (SIDE + 0.5) * len(reels) + 0.5)
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.08))
    panels = figure.subplots(len(reels), frames, squeeze=False)
    for row, reel in zip(panels, reels, strict=True):
        draw_reel(row, reel)
    handles = marks(
        sensing=any(hasattr(reel.problem, "senses") for reel in reels),
        moving=any(hasattr(reel.problem, "place") for reel in reels),
    )
    figure.legend(handles=handles, loc="outside lower center", ncols=7, fontsize=17, frameon=False)
    return figure


def draw_reel(row: Sequence[Axes], reel: Reel) -> None:
    """Draws the chosen moments of an episode into a row of frames."""
    story = tell(reel.title, reel.episode, getattr(reel.problem, "senses", None))
    moments = choose(story, len(row))
    for ax, now in zip(row, moments, strict=False):
        draw_keyframe(ax, reel, story, now)
    for ax in row[len(moments) :]:
        ax.set_axis_off()
    beside: dict[str, Any] = {"rotation": 90, "ha": "right", "va": "center"}
    row[0].text(-0.04, 0.5, reel.title, transform=row[0].transAxes, fontsize=22, **beside)


def choose(story: Story, frames: int) -> list[int]:
    """Returns the first moment, the last, and moments between them.

    Those between divide evenly the sum of the time and of the changes of the belief.
    """
    time = np.linspace(0, 1, story.last + 1)
    if story.belief is not None:
        change = np.abs(np.diff(story.belief, axis=0)).sum(-1)
        learned = np.concatenate([[0.0], np.cumsum(change)])
        time = (time + learned / learned[-1]) / 2 if learned[-1] > 0 else time
    nearest = [int(np.argmin(np.abs(time - share))) for share in np.linspace(0, 1, frames)[1:-1]]
    return sorted({0, *nearest, story.last})


def draw_keyframe(ax: Axes, reel: Reel, story: Story, now: int) -> None:
    """Draws one moment with the path so far; the truth is shown in the last one only."""
    scene(reel.problem.draw, reel.episode, now)(ax)
    for artist in ax.get_children():
        if artist.get_gid() == "truth" and now < story.last:
            artist.remove()
        elif artist.get_gid() in ABOVE_ALL:
            artist.set_zorder(4)
    if hasattr(reel.problem, "place"):
        places = jax.vmap(reel.problem.place)(reel.episode.situation.state)
        draw_trail(ax, np.asarray(places), story, now)
    ax.text(
        0.5, -0.03, caption(story, now), transform=ax.transAxes, ha="center", va="top", fontsize=17
    )


def draw_trail(ax: Axes, places: np.ndarray, story: Story, now: int) -> None:
    """Draws the path [time, 2] until now, with a dot at the end of each step that sensed."""
    look: dict[str, Any] = {"linewidth": 1.8, "alpha": 0.7, "zorder": 3, "gid": "trail"}
    ax.plot(*places[: now + 1].T, color=PALETTE["agent"], **look)
    if story.senses is not None:
        sensed = places[1 : now + 1][story.senses[:now]]
        ax.plot(*sensed.T, "o", color=PALETTE["sensing"], markersize=3.5, zorder=3.5, gid="sensed")


def caption(story: Story, now: int) -> str:
    """Returns the step and, if known, the number of sensing steps so far, in words."""
    words = f"step {now}"
    return words if story.senses is None else f"{words}, sensed {story.senses[:now].sum()}"


def marks(sensing: bool, moving: bool) -> list[Line2D]:
    """Returns the legend of the scenes, and of the path where there is one."""
    way = Line2D([], [], color=PALETTE["agent"], linewidth=1.8, alpha=0.7, label="way so far")
    look: dict[str, Any] = {"marker": "o", "markersize": 4, "linestyle": "none"}
    dots = Line2D([], [], color=PALETTE["sensing"], label="sensed there", **look)
    return [*legend(sensing), *[way] * moving, *[dots] * (moving and sensing)]
