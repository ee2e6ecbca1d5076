"""Curves, maps, sheets and films, from recorded episodes and saved numbers only: nothing is simulated here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import imageio_ffmpeg
import jax
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, ListedColormap, LogNorm, to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator
from PIL import Image
from scipy.special import stdtrit

from seerax import exact, statistics
from seerax.errors import Mistake
from seerax.problems.maze import Maze, draw_arena
from seerax.problems.sketch import METHODS, PALETTE, SPARE
from seerax.rollout import Episode

Draw = Callable[[Any, Any, Any, Any], None]  # (ax, situation, action, latent)
Senses = Callable[[Any, Any], Any]  # (state, action) -> bool
Run = tuple[np.ndarray, np.ndarray]  # (environment steps, held-out returns) of one seed

# ---- files -------------------------------------------------------------------------------------------------------


@contextmanager
def atomically(path: str | Path) -> Iterator[Path]:
    """A name to write to that becomes `path` once it is complete; after a failure nothing is left behind."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def save(figure: Figure, path: str | Path) -> None:
    with atomically(path) as temporary:
        figure.savefig(temporary, dpi=150)


# ---- training curves ---------------------------------------------------------------------------------------------


def curve(
    path: str | Path, runs: Mapping[str, Sequence[Run]], ensemble: float | None = None, clairvoyant: float | None = None
) -> None:
    """Held-out return over training for each label, against the experts' ensemble and the expert told phi."""
    figure = Figure(figsize=(7.6, 4.0), layout="constrained")
    draw_curves(figure.add_subplot(), runs, ensemble, clairvoyant)
    save(figure, path)


def draw_curves(
    ax: Axes, runs: Mapping[str, Sequence[Run]], ensemble: float | None = None, clairvoyant: float | None = None
) -> None:
    for (label, seeds), colour in zip(runs.items(), colours(runs), strict=True):
        steps, mean, margin = over_seeds(seeds)
        several = f" ({len(seeds)} seeds)" if len(seeds) > 1 else ""
        ax.plot(steps, mean, color=colour, linewidth=2, label=label + several)
        if len(seeds) > 1:
            ax.fill_between(steps, mean - margin, mean + margin, color=colour, alpha=0.18, linewidth=0)
    if ensemble is not None:
        ax.axhline(ensemble, color=PALETTE["ensemble"], linestyle="--", linewidth=1.5, label="ensemble of experts")
    if clairvoyant is not None:
        ax.axhline(clairvoyant, color=PALETTE["clairvoyant"], linestyle=":", linewidth=2, label="clairvoyant expert")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda steps, _: f"{steps / 1e6:g}"))
    tidy(ax, "environment steps (millions)", "held-out return")
    note = "shaded: 95 % interval" if any(len(seeds) > 1 for seeds in runs.values()) else None
    beside: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
    ax.legend(title=note, title_fontsize=10, frameon=False, fontsize=10, alignment="left", **beside)


def over_seeds(seeds: Sequence[Run]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Steps, means, and half of the 95 % interval by Student's t. Seeds count as far as the shortest has come."""
    if not seeds:
        raise Mistake("There is no held-out evaluation to draw a curve of yet.")
    count = min(len(steps) for steps, _ in seeds)
    steps = np.asarray(seeds[0][0])[:count]
    if any((np.asarray(other)[:count] != steps).any() for other, _ in seeds):
        raise Mistake("The seeds of a curve were not evaluated after the same numbers of steps.")
    values = np.stack([np.asarray(returns)[:count] for _, returns in seeds], axis=-1)
    if len(seeds) == 1:
        return steps, values[:, 0], np.zeros(count)
    return steps, values.mean(-1), stdtrit(len(seeds) - 1, 0.975) * statistics.standard_error(values)


def colours(labels: Iterable[str]) -> list[str]:
    """The paper's for its methods, however they are spelt; spare ones, in order, for the rest."""
    spare = iter(SPARE * len(list(labels)))
    known = [METHODS.get(label.lower().replace("-", "").replace("_", "")) for label in labels]
    return [colour or next(spare) for colour in known]


def tidy(ax: Axes, across: str, up: str) -> None:
    ax.set_xlabel(across, fontsize=11)
    ax.set_ylabel(up, fontsize=11)
    ax.tick_params(labelsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color=PALETTE["pale"], linewidth=0.6)
    ax.set_axisbelow(True)


# ---- the tree's gap ----------------------------------------------------------------------------------------------


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
    for ax, depth in zip(np.ravel(figure.subplots(1, len(depths), sharey=True)), depths, strict=True):
        draw_gap(ax, depth, [row for row in rows if row.depth == depth])
        ax.set_title(f"depth {depth}, {2**depth} leaves", fontsize=11)
    figure.axes[0].set_ylabel("cumulative reward", fontsize=11)
    shown = dict(pair[::-1] for ax in figure.axes for pair in zip(*ax.get_legend_handles_labels(), strict=True))
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=3, frameon=False, fontsize=10)
    save(figure, path)


def draw_gap(ax: Axes, depth: int, rows: Sequence[TreePoint]) -> None:
    episodes = np.arange(1, max(row.episodes for row in rows) + 1)
    best = np.array([exact.tree_optimum(depth, int(count)) for count in episodes])
    sampled = np.array([exact.tree_posterior_sampling(depth, int(count)) for count in episodes])
    ax.fill_between(episodes, sampled, best, color=PALETTE["pale"], alpha=0.5, linewidth=0)
    ax.plot(episodes, best, color=PALETTE["optimal"], linewidth=2, label="Bayes-optimal, exact")
    ax.plot(episodes, sampled, color=PALETTE["posterior sampling"], linewidth=2, label="posterior sampling, exact")
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
    ax.errorbar(counts, means, margins, fmt="o", color=colour, label=f"{points[0].policy}, simulated", **look)


# ---- sheets and maps ---------------------------------------------------------------------------------------------

VISITED = ListedColormap([PALETTE["pale"]])
SENSED = LinearSegmentedColormap.from_list("sensed", ["#A9D3EE", PALETTE["sensing"], "#081D33"])


def scene(draw: Draw, episode: Episode, time: int) -> Callable[[Axes], None]:
    """One moment of an episode, for a sheet. Once it is over there is nothing left to advise or to do."""
    moment = jax.tree.map(lambda leaf: leaf[time], episode)
    situation, action = moment.situation, moment.action
    if moment.over:
        situation, action = situation._replace(advice=np.zeros_like(situation.advice)), np.zeros_like(action)
    return lambda ax: draw(ax, situation, action, moment.latent)


def setup(path: str | Path, scenes: Sequence[tuple[str, Callable[[Axes], None]]]) -> None:
    """One sheet with all scenes, at most four in a row and the rows as even as possible."""
    rows = -(-len(scenes) // 4)
    columns = -(-len(scenes) // rows)
    figure = Figure(figsize=(3.6 * columns, 4.0 * rows), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))
    for place, (title, show) in enumerate(scenes):
        ax = figure.add_subplot(rows, columns, place + 1)
        show(ax)
        ax.set_title(title, fontsize=13)
    save(figure, path)


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


# ---- films -------------------------------------------------------------------------------------------------------

MOST_FRAMES = 240
LEAST_SECONDS = 6.0  # short episodes are slowed down, to one step a second at most
SIDE, STRIP, TITLE, CAPTION, LEGEND, GAP, GUTTER = 480, 80, 32, 40, 32, 8, 48  # pixels
DPI = 100


class Story(NamedTuple):
    """An episode as a panel tells it: at each time, what has been earned and how often it has sensed before."""

    title: str
    episode: Episode
    earned: np.ndarray
    senses: np.ndarray | None  # does it sense at this time? None: nobody says
    belief: np.ndarray | None  # [time, hypotheses]; None: not a list of probabilities

    @property
    def last(self) -> int:
        return len(self.earned) - 1


@dataclass(frozen=True, eq=False)
class Panel:
    story: Story
    stage: Axes
    strip: Axes
    cover: Rectangle  # over what has not happened yet
    caption: Text

    def show(self, draw: Draw, time: int) -> None:
        now = min(time, self.story.last)
        wipe(self.stage)
        scene(draw, self.story.episode, now)(self.stage)
        self.cover.set(x=now + 0.5, width=self.strip.get_xlim()[1] - now - 0.5)
        self.caption.set_text(caption(self.story, now))
        self.caption.set_fontweight("bold" if now == self.story.last else "normal")

    @property
    def moving(self) -> tuple[Artist, ...]:
        return self.stage, self.cover, self.caption


def film(
    path: str | Path, panels: Sequence[tuple[str, Episode]], draw: Draw, senses: Senses | None = None, fps: int = 20
) -> None:
    """Episodes side by side on one clock, as .mp4 or .gif. With `senses` (the problem's), sensing is counted too."""
    writers = {".mp4": write_mp4, ".gif": write_gif}
    suffix = Path(path).suffix.lower()
    if suffix not in writers:
        raise Mistake(f"A film ends in .mp4 or .gif, not in '{suffix}'.")
    stories = [tell(title, episode, senses) for title, episode in panels]
    with atomically(path) as temporary:
        writers[suffix](temporary, render(stories, draw, fps), fps)


def tell(title: str, episode: Episode, senses: Senses | None) -> Story:
    earned = np.concatenate([[0.0], np.cumsum(episode.reward[:-1])])
    flags = None
    if senses is not None:
        flags = np.asarray(jax.vmap(senses)(episode.situation.state, episode.action)) & ~episode.over
    return Story(title, episode, earned, flags, probabilities(episode.situation.belief))


def probabilities(belief: Any) -> np.ndarray | None:
    """[time, hypotheses] if the belief is one array of log-weights, [time, ..., k]."""
    if not isinstance(belief, np.ndarray) or belief.ndim < 2:
        return None
    chances = np.exp(belief)
    return chances.reshape(len(chances), -1) if np.allclose(chances.sum(-1), 1, atol=1e-3) else None


def schedule(last: int, fps: int) -> list[tuple[int, int]]:
    """(time, frames it is shown for): long episodes are thinned, short ones slowed down, the end held a second."""
    stride = -(-(last + 1) // MOST_FRAMES)
    times = list(range(0, last, stride))
    hold = int(np.clip(round(LEAST_SECONDS * fps / (len(times) + 1)), 1, fps))
    return [(time, hold) for time in times] + [(last, hold + fps)]


def render(stories: Sequence[Story], draw: Draw, fps: int) -> Iterator[np.ndarray]:
    """The frames [height, width, 3]. What stands still is drawn once; the rest is laid over it."""
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
    """Fixed places, so that nothing moves between frames; sides are multiples of 16, as codecs like them."""
    height = LEGEND + CAPTION + STRIP + GAP + SIDE + TITLE
    figure = Figure(figsize=(SIDE * len(stories) / DPI, height / DPI), dpi=DPI)
    last = max(story.last for story in stories)
    tight = {"frameon": False, "columnspacing": 1.4, "handletextpad": 0.5, "handlelength": 1.6, "borderaxespad": 0.6}
    figure.legend(handles=legend(), loc="lower center", ncols=5, fontsize=9, **tight)
    return figure, [lay_panel(figure, SIDE * column, story, last) for column, story in enumerate(stories)]


def lay_panel(figure: Figure, left: int, story: Story, last: int) -> Panel:
    """From the bottom: caption, strip, stage, title."""
    across, up = 1 / figure.bbox.width, 1 / figure.bbox.height
    floor, stage_floor = LEGEND + CAPTION, LEGEND + CAPTION + STRIP + GAP
    strip = figure.add_axes(((left + GUTTER) * across, floor * up, (SIDE - 2 * GUTTER) * across, STRIP * up))
    stage = figure.add_axes(((left + 8) * across, (stage_floor + 8) * up, (SIDE - 16) * across, (SIDE - 16) * up))
    middle = (left + SIDE / 2) * across
    figure.text(middle, (stage_floor + SIDE + 4) * up, story.title, ha="center", fontsize=14)
    words = figure.text(middle, (LEGEND + 14) * up, "", ha="center", fontsize=11)
    return Panel(story, stage, strip, draw_strip(strip, story, last), words)


def draw_strip(ax: Axes, story: Story, last: int) -> Rectangle:
    """The whole episode under its panel, and the cover that hides its future."""
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
        ax.vlines(times, 1.03, 1.1, PALETTE["sensing"], transform=ax.get_xaxis_transform(), clip_on=False)
    cover = Rectangle((0, -0.01), last + 1, 1.12, transform=ax.get_xaxis_transform(), clip_on=False)
    cover.set(facecolor=PALETTE["paper"], edgecolor="none")
    ax.add_patch(cover)
    return cover


def draw_beliefs(ax: Axes, belief: np.ndarray) -> None:
    """One row per hypothesis, the first on top, as opaque as it is believed."""
    steps, count = belief.shape
    image = np.empty((count, steps, 4))
    image[..., :3], image[..., 3] = to_rgb(PALETTE["belief"]), belief.T
    ax.imshow(image, aspect="auto", extent=(-0.5, steps - 0.5, count + 0.5, 0.5), interpolation="nearest")
    ax.set_yticks(range(1, count + 1) if count <= 10 else (1, count))
    ax.set_ylabel("belief", fontsize=8)


def draw_earnings(ax: Axes, story: Story) -> None:
    ax.plot(story.earned, color=PALETTE["ink"], linewidth=1.5)
    ax.yaxis.set_major_locator(MaxNLocator(3))
    ax.set_ylabel("return", fontsize=8)


def caption(story: Story, now: int) -> str:
    words = f"step {now}     return {story.earned[now]:.4g}"
    return words if story.senses is None else words + f"     sensed {story.senses[:now].sum()}"


def legend() -> list[Line2D]:
    def mark(label: str, colour: str, marker: str, size: float, **look: Any) -> Line2D:
        look = {"color": PALETTE[colour], "linestyle": "none", **look}
        return Line2D([], [], marker=marker, markersize=size, label=label, **look)

    return [
        mark("belief (opacity)", "belief", "o", 8),
        mark("truth", "truth", "*", 8),
        mark("advice", "advice", "", 0, linestyle="-", linewidth=1.2),
        mark("action", "action", "", 0, linestyle="-", linewidth=3),
        mark("sensing", "sensing", "o", 8, markerfacecolor="none", markeredgewidth=2),
    ]


def wipe(ax: Axes) -> None:
    """Quicker than `ax.clear()`, which also builds new axis lines and ticks."""
    for artist in (*ax.patches, *ax.lines, *ax.collections, *ax.texts, *ax.images):
        artist.remove()


def write_mp4(path: Path, frames: Iterator[np.ndarray], fps: int) -> None:
    first = next(frames)
    taken = [
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-s",
        f"{first.shape[1]}x{first.shape[0]}",
        "-r",
        str(fps),
        "-i",
        "-",
    ]
    given = ["-c:v", "libx264", "-crf", "20", "-pix_fmt", "yuv420p", "-movflags", "+faststart"]
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", "-y", *taken, *given, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        for frame in chain([first], frames):
            process.stdin.write(frame.tobytes())
    if process.returncode:
        raise RuntimeError(f"ffmpeg ended with {process.returncode} while writing {path}.")


def write_gif(path: Path, frames: Iterator[np.ndarray], fps: int) -> None:
    """One palette for all frames, so that what stands still costs nothing."""
    few = Image.new("P", (1, 1))
    few.putpalette(tints().ravel().tolist())
    images = (Image.fromarray(frame).quantize(palette=few, dither=Image.Dither.NONE) for frame in frames)
    next(images).save(path, save_all=True, append_images=images, duration=1000 / fps, loop=0)


def tints() -> np.ndarray:
    """White, and every colour of the palette from faint to full, at most 256 in all: [n, 3].

    Nothing else is as light as white's neighbours, or Pillow, which rounds colours to 4, would take that for white.
    """
    full = np.array([to_rgb(colour) for colour in sorted(set(PALETTE.values()))])
    share = np.linspace(1, 0, 255 // len(full), endpoint=False)[:, None, None]
    mixed = np.round(255 * (1 - share * (1 - full))).astype(int).reshape(-1, 3)
    return np.concatenate([[(255, 255, 255)], mixed[mixed.min(-1) < 246]])
