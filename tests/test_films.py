"""Films show every step, at a pace that one can follow, with what was earned and sensed."""

from __future__ import annotations

import itertools
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import imageio_ffmpeg
import jax
import numpy as np
import pytest
from panels import blank
from PIL import Image

from seerax import advice, figures, rollout
from seerax.core import BeliefMDP
from seerax.errors import UserError
from seerax.rollout import Episode


def read_film(path: Path) -> np.ndarray:
    """[frames, height, width, 3], decoded to a row of PPM pictures whose heads tell their size."""
    command = [
        imageio_ffmpeg.get_ffmpeg_exe(),
        "-i",
        str(path),
        "-f",
        "image2pipe",
        "-c:v",
        "ppm",
        "-",
    ]
    raw = subprocess.run(command, check=True, capture_output=True).stdout
    head = re.match(rb"P6\n(\d+) (\d+)\n255\n", raw)
    assert head
    width, height = int(head[1]), int(head[2])
    pictures = np.frombuffer(raw, np.uint8).reshape(-1, head.end() + 3 * width * height)
    return pictures[:, head.end() :].reshape(-1, height, width, 3)


@pytest.mark.parametrize("last", [1, 2, 13, 138, 239, 240, 500, 750, 5000])
def test_long_episodes_are_thinned_and_short_ones_slowed(last: int) -> None:
    times, shown = zip(*figures.schedule(last, 20), strict=True)
    assert times[0] == 0 and times[-1] == last and (np.diff(times) > 0).all()
    assert len(np.unique(np.diff(times)[:-1])) <= 1  # an even pace
    assert len(times) <= figures.MOST_FRAMES + 1
    assert set(shown[:-1]) == {shown[0]} and shown[-1] == shown[0] + 20
    assert shown[0] == {1: 20, 2: 20, 13: 9}.get(last, 1)


def test_the_story_counts_return_and_sensing(maze4_mdp: BeliefMDP, maze_episode: Episode) -> None:
    story = figures.tell("", maze_episode, maze4_mdp.problem.senses)
    flags = maze_episode.action[:-1, 2] > 0
    half = len(flags) // 2
    assert story.earned[half] == pytest.approx(maze_episode.reward[:half].sum())
    assert story.earned[-1] == pytest.approx(maze_episode.reward.sum())
    words = figures.caption(story, half).split()
    assert words == [
        "step",
        str(half),
        "return",
        f"{-flags[:half].sum():g}",
        "sensed",
        str(flags[:half].sum()),
    ]
    assert figures.caption(story, story.last).split()[-1] == str(flags.sum())


def test_a_panel_holds_its_end_while_others_go_on(
    tree_mdp: BeliefMDP, tree_episode: Episode
) -> None:
    short = jax.tree.map(lambda leaf: leaf[-4:], tree_episode)
    stories = [
        figures.tell("", episode, tree_mdp.problem.senses) for episode in (tree_episode, short)
    ]
    _, (long_panel, short_panel) = figures.lay_out(stories)
    for panel in (long_panel, short_panel):
        panel.show(tree_mdp.problem.draw, 5)
    assert (
        long_panel.caption.get_text().startswith("step 5 ")
        and long_panel.caption.get_fontweight() == "normal"
    )
    assert (
        short_panel.caption.get_text().startswith("step 3 ")
        and short_panel.caption.get_fontweight() == "bold"
    )
    for panel, now in (
        (long_panel, 5),
        (short_panel, 3),
    ):  # hidden: from now on to the end of the common clock
        assert panel.cover.get_x() == now + 0.5
        assert panel.cover.get_x() + panel.cover.get_width() == stories[0].last + 0.5


def test_the_strip_is_as_opaque_as_the_belief(tree_mdp: BeliefMDP, tree_episode: Episode) -> None:
    ax, story = blank(), figures.tell("", tree_episode, tree_mdp.problem.senses)
    figures.draw_strip(ax, story, story.last)
    [image], [ticks] = ax.images, ax.collections
    np.testing.assert_allclose(image.get_array()[..., 3], np.exp(tree_episode.situation.belief).T)
    sensed = np.flatnonzero(
        tree_episode.situation.state.reading[1:].any(-1)
    )  # a reading follows at once
    assert [segment[0, 0] for segment in ticks.get_segments()] == sensed.tolist() != []


class Gaussian(NamedTuple):
    mean: np.ndarray
    covariance: np.ndarray


def test_only_lists_of_probabilities_are_shown_as_such(
    maze4_mdp: BeliefMDP, maze_episode: Episode
) -> None:
    factored = np.log(np.full((5, 3, 2), 0.5))
    assert figures.probabilities(factored).shape == (5, 6)
    assert figures.probabilities(np.zeros((5, 2))) is None
    belief = Gaussian(
        np.zeros((len(maze_episode.over), 2)), np.zeros((len(maze_episode.over), 2, 2))
    )
    episode = maze_episode._replace(situation=maze_episode.situation._replace(belief=belief))
    ax, story = blank(), figures.tell("", episode, None)
    figures.draw_strip(ax, story, story.last)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), story.earned)


def test_films_play(tree_mdp: BeliefMDP, tree_episode: Episode, tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    figures.film(
        path,
        [("one", tree_episode), ("two", tree_episode)],
        tree_mdp.problem.draw,
        tree_mdp.problem.senses,
        10,
    )
    frames = read_film(path)
    planned = figures.schedule(len(tree_episode.over) - 1, 10)
    assert len(frames) == sum(shown for _, shown in planned)
    assert frames.shape[1:] == (672, 960, 3) and not any(side % 16 for side in frames.shape[1:3])
    first = np.cumsum([0, *(shown for _, shown in planned)])[:-1]
    change = np.abs(np.diff(frames[first].astype(int), axis=0)).max((1, 2, 3))
    assert change.min() > 100  # every step shows something new
    held = np.abs(frames[-10].astype(int) - frames[-1]).max()
    assert held < 30  # up to compression
    assert [file.name for file in tmp_path.iterdir()] == ["film.mp4"]


def test_gifs_play(tiger_mdp: BeliefMDP, tmp_path: Path) -> None:
    episode = rollout.record(jax.random.key(1), tiger_mdp, advice.follow_advice)
    path = tmp_path / "film.gif"
    figures.film(path, [("tiger", episode)], tiger_mdp.problem.draw, fps=10)
    film = Image.open(path)
    assert film.size == (480, 672) and film.n_frames == len(episode.over)
    pictures, lasting = [], 0
    for number in range(film.n_frames):
        film.seek(number)
        lasting += film.info["duration"]
        pictures.append(np.asarray(film.convert("RGB")))
    assert lasting == 100 * sum(shown for _, shown in figures.schedule(len(episode.over) - 1, 10))
    assert all((a != b).any() for a, b in itertools.pairwise(pictures))
    assert (pictures[0][0, 0] == 255).all()  # white stays white


def test_a_film_must_be_mp4_or_gif(
    tree_mdp: BeliefMDP, tree_episode: Episode, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"\.mp4 or \.gif"):
        figures.film(tmp_path / "film.avi", [("", tree_episode)], tree_mdp.problem.draw)
