"""Films: episodes side by side on one clock, each above a strip with its belief and sensing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator

from seerax.drawing import PALETTE
from seerax.figures.saving import atomically, check
from seerax.figures.scenes import Draw, scene
from seerax.figures.video import write_gif, write_mp4
from seerax.rollout import Episode

Senses = Callable[[Any, Any], Any]  # (state, action) -> bool

MOST_FRAMES = 240
LEAST_SECONDS = 6.0  # short episodes are slowed down, to one step a second at most
SIDE, STRIP, TITLE, CAPTION, LEGEND, GAP, GUTTER = 480, 80, 32, 40, 32, 8, 48  # pixels
DPI = 100


class Story(NamedTuple):
    """An episode as a panel shows it."""

    title: str
    episode: Episode
    earned: np.ndarray  # the return before each time
    senses: np.ndarray | None  # True where the step senses; None if the problem does not say
    belief: np.ndarray | None  # [time, hypotheses]; None if it is not a list of probabilities

    @property
    def last(self) -> int:
        return len(self.earned) - 1


@dataclass(frozen=True, eq=False)
class Panel:
    """One episode of a film: the scene, the strip below it and the caption."""

    story: Story
    stage: Axes
    strip: Axes
    cover: Rectangle  # hides what has not happened yet
    caption: Text

    def show(self, draw: Draw, time: int) -> None:
        """Shows one moment; after its end the episode stands still and its caption is bold."""
        now = min(time, self.story.last)
        wipe(self.stage)
        scene(draw, self.story.episode, now)(self.stage)
        self.cover.set(x=now + 0.5, width=self.strip.get_xlim()[1] - now - 0.5)
        self.caption.set_text(caption(self.story, now))
        self.caption.set_fontweight("bold" if now == self.story.last else "normal")

    @property
    def moving(self) -> tuple[Artist, ...]:
        """Returns the artists that change from frame to frame."""
        return self.stage, self.cover, self.caption


def film(
    path: str | Path,
    panels: Sequence[tuple[str, Episode]],
    draw: Draw,
    senses: Senses | None = None,
    fps: int = 20,
) -> None:
    """Writes an .mp4 or .gif of episodes side by side on one clock.

    With `senses`, the problem's test, the steps that sense are marked and counted.
    """
    check(path, "film")
    write = write_gif if Path(path).suffix.lower() == ".gif" else write_mp4
    stories = [tell(title, episode, senses) for title, episode in panels]
    with atomically(path) as temporary:
        write(temporary, render(stories, draw, fps), fps)


def tell(title: str, episode: Episode, senses: Senses | None) -> Story:
    """Returns an episode with its return, its sensing and its belief over time."""
    earned = np.concatenate([[0.0], np.cumsum(episode.reward[:-1])])
    flags = None
    if senses is not None:
        flags = (
            np.asarray(jax.vmap(senses)(episode.situation.state, episode.action)) & ~episode.over
        )
    return Story(title, episode, earned, flags, probabilities(episode.situation.belief))


def probabilities(belief: Any) -> np.ndarray | None:
    """Returns [time, hypotheses] if the belief is an array of log-weights [time, ..., k]."""
    if not isinstance(belief, np.ndarray) or belief.ndim < 2:
        return None
    chances = np.exp(belief)
    return chances.reshape(len(chances), -1) if np.allclose(chances.sum(-1), 1, atol=1e-3) else None


def schedule(last: int, fps: int) -> list[tuple[int, int]]:
    """Returns (time, number of frames that show it) for each moment of a film.

    Long episodes are thinned and short ones slowed down; the end is held for a second.
    """
    stride = -(-(last + 1) // MOST_FRAMES)
    times = list(range(0, last, stride))
    hold = int(np.clip(round(LEAST_SECONDS * fps / (len(times) + 1)), 1, fps))
    return [(time, hold) for time in times] + [(last, hold + fps)]


def render(stories: Sequence[Story], draw: Draw, fps: int) -> Iterator[np.ndarray]:
    """Yields frames [height, width, 3]; what stands still is drawn once, the rest on top of it."""
    figure, panels = lay_out(stories)
    canvas = FigureCanvasAgg(figure)
    moving = [artist for panel in panels for artist in panel.moving]
    for artist in moving:
        artist.set_animated(True)
    canvas.draw()
    background = canvas.copy_from_bbox(figure.bbox)
    for time, shown in schedule(max(story.last for story in stories), fps):
        for panel in panels:
            panel.show(draw, time)
        canvas.restore_region(background)
        for artist in moving:
            figure.draw_artist(artist)
        yield from [np.array(canvas.buffer_rgba())[..., :3]] * shown


def lay_out(stories: Sequence[Story]) -> tuple[Figure, list[Panel]]:
    """Creates the figure and its panels, in fixed places so that nothing moves between frames.

    The sides are multiples of 16 pixels, which video codecs need.
    """
    height = LEGEND + CAPTION + STRIP + GAP + SIDE + TITLE
    figure = Figure(figsize=(SIDE * len(stories) / DPI, height / DPI), dpi=DPI)
    last = max(story.last for story in stories)
    tight = {
        "frameon": False,
        "columnspacing": 1.4,
        "handletextpad": 0.5,
        "handlelength": 1.6,
        "borderaxespad": 0.6,
    }
    sensing = any(story.senses is not None for story in stories)
    figure.legend(handles=legend(sensing), loc="lower center", ncols=5, fontsize=9, **tight)
    return figure, [
        lay_panel(figure, SIDE * column, story, last) for column, story in enumerate(stories)
    ]


def lay_panel(figure: Figure, left: int, story: Story, last: int) -> Panel:
    """Creates one panel; from the bottom: caption, strip, stage, title."""
    across = 1 / figure.bbox.width
    up = 1 / figure.bbox.height
    floor = LEGEND + CAPTION
    stage_floor = floor + STRIP + GAP
    strip = figure.add_axes(
        ((left + GUTTER) * across, floor * up, (SIDE - 2 * GUTTER) * across, STRIP * up)
    )
    stage = figure.add_axes(
        ((left + 8) * across, (stage_floor + 8) * up, (SIDE - 16) * across, (SIDE - 16) * up)
    )
    middle = (left + SIDE / 2) * across
    figure.text(middle, (stage_floor + SIDE + 4) * up, story.title, ha="center", fontsize=14)
    words = figure.text(middle, (LEGEND + 14) * up, "", ha="center", fontsize=11)
    return Panel(story, stage, strip, draw_strip(strip, story, last), words)


def draw_strip(ax: Axes, story: Story, last: int) -> Rectangle:
    """Draws the whole episode as a strip, and returns the cover that hides its future."""
    ax.set_xlim(-0.5, last + 0.5)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(PALETTE["pale"])
    ax.spines["bottom"].set_position(("outward", 2))
    ax.tick_params(labelsize=7, length=0, labelbottom=False)
    if story.belief is None:
        draw_earnings(ax, story)
    else:
        draw_beliefs(ax, story.belief)
    if story.senses is not None:
        times = np.flatnonzero(story.senses)
        ax.vlines(
            times, 1.03, 1.1, PALETTE["sensing"], transform=ax.get_xaxis_transform(), clip_on=False
        )
    cover = Rectangle((0, -0.01), last + 1, 1.12, transform=ax.get_xaxis_transform(), clip_on=False)
    cover.set(facecolor=PALETTE["paper"], edgecolor="none")
    ax.add_patch(cover)
    return cover


def draw_beliefs(ax: Axes, belief: np.ndarray) -> None:
    """Draws one row per hypothesis, the first on top, as opaque as its probability."""
    steps, count = belief.shape
    image = np.empty((count, steps, 4))
    image[..., :3] = to_rgb(PALETTE["belief"])
    image[..., 3] = belief.T
    ax.imshow(
        image, aspect="auto", extent=(-0.5, steps - 0.5, count + 0.5, 0.5), interpolation="nearest"
    )
    ax.set_yticks(range(1, count + 1) if count <= 6 else (1, count))
    ax.set_ylabel("belief", fontsize=8)


def draw_earnings(ax: Axes, story: Story) -> None:
    """Draws the return over time, for beliefs that cannot be shown as rows."""
    ax.plot(story.earned, color=PALETTE["ink"], linewidth=1.5)
    ax.yaxis.set_major_locator(MaxNLocator(3))
    ax.set_ylabel("return", fontsize=8)


def caption(story: Story, now: int) -> str:
    """Returns the step, the return and the number of sensing steps so far, in words."""
    words = f"step {now}     return {story.earned[now]:.4g}"
    return words if story.senses is None else words + f"     sensed {story.senses[:now].sum()}"


def legend(sensing: bool = True) -> list[Line2D]:
    """Returns what the marks in a scene mean."""

    def mark(label: str, colour: str, marker: str, size: float, **look: Any) -> Line2D:
        look = {"color": PALETTE[colour], "linestyle": "none", **look}
        return Line2D([], [], marker=marker, markersize=size, label=label, **look)

    ring = mark("sensing", "sensing", "o", 8, markerfacecolor="none", markeredgewidth=2)
    return [
        mark("belief (opacity)", "belief", "o", 8),
        mark("truth", "truth", "*", 8, linestyle=":", linewidth=1.2),
        mark("advice", "advice", "", 0, linestyle="-", linewidth=1.2),
        mark("action", "action", "", 0, linestyle="-", linewidth=3),
        *[ring] * sensing,
    ]


def wipe(ax: Axes) -> None:
    """Removes all artists; `ax.clear()` is slower, because it builds new axis lines and ticks."""
    for artist in (*ax.patches, *ax.lines, *ax.collections, *ax.texts, *ax.images):
        artist.remove()
