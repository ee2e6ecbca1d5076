"""What is drawn is what was recorded: opacities, lengths, counts and curves are read back from the pictures."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import imageio_ffmpeg
import jax
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from PIL import Image

from seerax import advice, cli, drawing, figures, logs, pictures, rollout, runs
from seerax.core import BeliefMDP, Situation
from seerax.errors import UserError
from seerax.experiments import Experiment, settings, told_apart
from seerax.experts.flow import distance_to_segments
from seerax.figures import keyframes, sensing, yscale
from seerax.paper import charts
from seerax.problems import crowd, doors, maze, pointmass, tiger, tree
from seerax.rollout import Episode
from seerax.system import files

# ---- helpers -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def maze_episode(maze4_mdp: BeliefMDP) -> Episode:
    return rollout.record(jax.random.key(3), maze4_mdp, advice.follow_advice)


@pytest.fixture(scope="module")
def tree_episode(tree_mdp: BeliefMDP) -> Episode:
    return rollout.record(jax.random.key(0), tree_mdp, advice.follow_advice)


def blank() -> Axes:
    return Figure().add_subplot()


def named(ax: Axes, name: str) -> list[Any]:
    return [artist for artist in ax.get_children() if artist.get_gid() == name]


def sensing_rings(ax: Axes) -> list[float]:
    blue = drawing.PALETTE["sensing"]
    return [
        patch.radius
        for patch in ax.patches
        if not patch.get_fill() and to_hex(patch.get_edgecolor()) == blue.lower()
    ]


def maze_moment(
    sensed: bool = True, action: tuple = (0.6, -0.8, 0.1), advised: tuple = (0.0, 0.5, -0.1)
) -> tuple:
    seen = (np.float32(0.7 * sensed), np.bool_(sensed))
    state = maze.MazeState(np.array([0.2, -1.2]), np.zeros(2), *seen, home=np.bool_(False))
    belief = np.log([0.1, 0.2, 0.3, 0.4])
    return Situation(state, belief, np.array(advised)), np.array(action), maze.MAZE4_GOALS[2]


def tree_state(**known: Any) -> tree.TreeState:
    nothing = np.zeros(3)
    return tree.TreeState(nothing, 0, 0, nothing, nothing, False)._replace(**known)


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


# ---- scenes ------------------------------------------------------------------------------------------------------


def test_goals_are_as_opaque_as_they_are_believed_in(
    maze4_mdp: BeliefMDP, maze_episode: Episode
) -> None:
    for time in (0, len(maze_episode.over) // 2, -1):
        ax = blank()
        figures.scene(maze4_mdp.problem.draw, maze_episode, time)(ax)
        goals = named(ax, "goal")
        np.testing.assert_allclose(
            [goal.get_alpha() for goal in goals], np.exp(maze_episode.situation.belief[time])
        )
        np.testing.assert_allclose([goal.center for goal in goals], maze4_mdp.problem.goals)


def test_walls_have_their_true_width_and_leave_room_for_the_agent(maze4_mdp: BeliefMDP) -> None:
    problem, ax = maze4_mdp.problem, blank()
    problem.draw(ax, *maze_moment())
    [walls], [agent] = named(ax, "walls"), named(ax, "agent")
    thickness = problem.body.contact - agent.radius
    assert thickness == pytest.approx(0.04, abs=1e-3)
    for outline, wall in zip(walls.get_paths(), np.asarray(problem.walls), strict=True):
        np.testing.assert_allclose(
            distance_to_segments(outline.vertices, wall[None]), thickness, atol=1e-6
        )


@pytest.mark.parametrize("name", ["action", "advice"])
def test_arrows_point_where_the_thrust_does(maze4_mdp: BeliefMDP, name: str) -> None:
    ax, moment = blank(), maze_moment()
    maze4_mdp.problem.draw(ax, *moment)
    [arrow], [agent] = named(ax, name), named(ax, "agent")
    thrust = {"action": moment[1], "advice": moment[0].advice}[name][:2]
    heading = thrust / np.linalg.norm(thrust)
    tip = max(arrow.get_xy(), key=lambda corner: heading @ corner)
    np.testing.assert_allclose(
        tip, agent.center + agent.radius * heading + pointmass.ARROW * thrust, atol=1e-9
    )


def test_action_and_advice_look_different(maze4_mdp: BeliefMDP) -> None:
    ax = blank()
    maze4_mdp.problem.draw(ax, *maze_moment())
    [action], [advised] = named(ax, "action"), named(ax, "advice")
    assert action.get_facecolor() != advised.get_facecolor()
    assert np.ptp(action.get_xy(), axis=0).min() > np.ptp(advised.get_xy(), axis=0).min()


@pytest.mark.parametrize(("sensed", "vote"), list(itertools.product([True, False], [0.1, -0.1])))
def test_a_ring_for_sensing_and_a_circle_for_the_reading(
    maze4_mdp: BeliefMDP, sensed: bool, vote: float
) -> None:
    ax = blank()
    maze4_mdp.problem.draw(ax, *maze_moment(sensed, (0.6, -0.8, vote)))
    rings = sensing_rings(ax)
    assert [ring for ring in rings if ring > 0.3] == ([pytest.approx(0.7)] if sensed else [])
    assert len([ring for ring in rings if ring < 0.3]) == (vote > 0)


def test_the_star_is_at_the_active_goal(maze4_mdp: BeliefMDP) -> None:
    ax = blank()
    maze4_mdp.problem.draw(ax, *maze_moment())
    [star] = named(ax, "truth")
    distance = np.linalg.norm(np.ravel(star.get_data()) - maze.MAZE4_GOALS, axis=1)
    assert np.argmin(distance) == 2 and distance[2] < maze4_mdp.problem.right_radius


def test_nothing_is_done_once_it_is_over(maze4_mdp: BeliefMDP, maze_episode: Episode) -> None:
    ax = blank()
    figures.scene(maze4_mdp.problem.draw, maze_episode, -1)(ax)
    assert not named(ax, "action") and not named(ax, "advice")


def test_tigers_are_as_opaque_as_they_are_believed_in(tiger_mdp: BeliefMDP) -> None:
    ax, votes = blank(), np.array([0.0, 1.0, 0.0])
    closed = tiger.TigerState(np.int32(tiger.LEFT), np.int32(0))
    tiger_mdp.problem.draw(ax, Situation(closed, np.log([0.85, 0.15]), votes), votes, np.float32(0))
    np.testing.assert_allclose([face.get_alpha() for face in named(ax, "tiger")], [0.85, 0.15])


@pytest.mark.parametrize(("latent", "faces"), [(0.0, 2), (1.0, 1)])
def test_an_open_door_shows_what_is_behind_it(
    tiger_mdp: BeliefMDP, latent: float, faces: int
) -> None:
    """The left door is opened: a tiger for sure, or gold in its stead."""
    ax, votes = blank(), np.zeros(3)
    opened = tiger.TigerState(np.int32(tiger.SILENCE), np.int32(tiger.OPEN_LEFT))
    tiger_mdp.problem.draw(
        ax, Situation(opened, np.log([0.15, 0.85]), votes), votes, np.float32(latent)
    )
    shown = [face.get_alpha() for face in named(ax, "tiger")]
    assert shown == pytest.approx([1.0, 0.85][-faces:])
    assert ("+10" in [text.get_text() for text in ax.texts]) == (latent == 1.0)


def test_gold_is_as_opaque_as_it_is_believed_in(tree_mdp: BeliefMDP) -> None:
    """Leaves stand from left to right as in the filter's support."""
    ax, votes = blank(), np.array([1.0, 0.0, -1.0])
    chances = np.arange(1, 9) / 36
    tree_mdp.problem.draw(
        ax, Situation(tree_state(), np.log(chances), votes), votes, np.array([1.0, -1.0, 1.0])
    )
    leaves = named(ax, "leaf")
    np.testing.assert_allclose([leaf.get_alpha() for leaf in leaves], chances)
    np.testing.assert_allclose([leaf.center[0] for leaf in leaves], (2 * np.arange(8) + 1) / 8 - 1)
    [star] = named(ax, "truth")
    assert star.get_xdata()[0] == leaves[5].center[0]  # right, left, right is 101


def test_the_walker_stands_where_its_turns_lead(tree_mdp: BeliefMDP) -> None:
    ax, votes = blank(), np.array([1.0, 0.0, 2.0])
    state = tree_state(path=np.array([1.0, -1.0, 0.0]), level=2)
    tree_mdp.problem.draw(ax, Situation(state, np.full(8, -np.log(8)), votes), votes, np.ones(3))
    [agent], [arrow] = named(ax, "agent"), named(ax, "action")
    np.testing.assert_allclose(agent.center, (0.25, -tree.DROP * 2 / 3))
    assert (
        arrow.get_xy()[:, 0].mean() < agent.center[0]
    )  # left: votes for sensing count at the root only


@pytest.mark.parametrize(("votes", "rings"), [((0.0, 1.0, 1.1), 1), ((0.0, 1.0, -1.1), 0)])
def test_sensing_at_the_root_is_marked(tree_mdp: BeliefMDP, votes: tuple, rings: int) -> None:
    ax, votes = blank(), np.array(votes)
    tree_mdp.problem.draw(
        ax, Situation(tree_state(), np.full(8, -np.log(8)), 0 * votes), votes, np.ones(3)
    )
    assert len(sensing_rings(ax)) == rings
    assert len(named(ax, "action")) == 1 - rings


# ---- palette -----------------------------------------------------------------------------------------------------

# Machado, Oliveira & Fernandes (2009), severity 1, on linear RGB
SIGHT = {
    "all": np.eye(3),
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(colour: str, sight: Any) -> np.ndarray:
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = XYZ @ np.clip(np.array(sight) @ linear, 0, 1) / XYZ.sum(1)
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize(
    "together", [("brpo", "ensemble", "bpo", "upmle"), ("belief", "action", "advice", "sensing")]
)
def test_colours_shown_together_can_be_told_apart(sight: str, together: tuple[str, ...]) -> None:
    """20 is about nine times the difference one just notices."""
    seen = [lab(drawing.PALETTE[name], SIGHT[sight]) for name in together]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 20


def test_methods_keep_their_colours_however_they_are_spelt() -> None:
    red, purple, green = (drawing.PALETTE[name] for name in ("brpo", "bpo", "upmle"))
    first, second = drawing.SPARE[:2]
    labels = ["brpo", "BPO", "UP-MLE", "BRPO without belief", "mine"]
    assert figures.colours(labels) == [red, purple, green, first, second]


# ---- curves ------------------------------------------------------------------------------------------------------

STEPS = np.array([0, 1_000_000, 2_000_000])
SEEDS = np.array([[0.0, 10.0, 30.0], [3.0, 14.0, 30.0], [6.0, 15.0, 30.0]])


def test_the_curve_shows_means_and_intervals_over_seeds() -> None:
    ax = blank()
    figures.draw_curves(ax, {"BRPO": [(STEPS, seed) for seed in SEEDS]}, 12.5, 40.0)
    line, ensemble, clairvoyant = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), STEPS)
    np.testing.assert_allclose(line.get_ydata(), [3.0, 13.0, 30.0])
    margin = (
        4.302653 * np.array([3.0, np.sqrt(7.0), 0.0]) / np.sqrt(3)
    )  # Student's t, two degrees of freedom
    [band] = ax.collections
    for step, mean, half in zip(STEPS, (3.0, 13.0, 30.0), margin, strict=True):
        heights = [y for x, y in band.get_paths()[0].vertices if x == step]
        assert (min(heights), max(heights)) == pytest.approx((mean - half, mean + half), rel=1e-6)
    assert (
        ensemble.get_ydata()[0] == 12.5
        and ensemble.get_color() == drawing.BLACK
        and ensemble.get_linestyle() == "--"
    )
    assert clairvoyant.get_ydata()[0] == 40.0 and clairvoyant.get_linestyle() == ":"
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["BRPO (3 seeds)", "ensemble of experts", "clairvoyant expert"]
    assert ax.xaxis.get_major_formatter()(1_500_000) == "1.5"


def test_a_long_label_leaves_the_curves_their_room() -> None:
    figure = Figure(figsize=(7.6, 4.0), layout="constrained")
    label = "brpo, bonus 0.5, bonus_form potential, ppo.exploration 2.0 2.0 1.0"
    figures.draw_curves(ax := figure.add_subplot(), {label: [(STEPS, SEEDS[0])]})
    figure.draw_without_rendering()
    assert ax.get_position().width > 0.5
    assert ax.get_legend().get_texts()[0].get_text().replace("\n", " ") == label


def test_one_seed_has_no_interval() -> None:
    ax = blank()
    figures.draw_curves(ax, {"bpo": [(STEPS, SEEDS[0])]})
    assert not ax.collections
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), SEEDS[0])


def test_seeds_count_as_far_as_the_shortest_and_must_agree_on_steps() -> None:
    steps, mean, _ = figures.over_seeds([(STEPS, SEEDS[0]), (STEPS[:2], SEEDS[1][:2])])
    assert (steps.tolist(), mean.tolist()) == ([0, 1_000_000], [1.5, 12.0])
    with pytest.raises(UserError, match="same numbers of steps"):
        figures.over_seeds([(STEPS, SEEDS[0]), (STEPS + 1, SEEDS[1])])
    with pytest.raises(UserError, match="no held-out evaluation"):
        figures.over_seeds([])


def test_the_gap_shows_exact_lines_and_simulated_points() -> None:
    ax = blank()
    figures.draw_gap(ax, 2, [figures.TreePoint(2, 1, "posterior sampling", 18.0, 2.0)])
    optimal, sampled, points = ax.lines[:3]
    assert optimal.get_ydata() == pytest.approx([99.9])
    assert sampled.get_ydata() == pytest.approx([100 / 4 - 10 * 3 / 4])
    assert points.get_ydata() == pytest.approx([18.0])
    [bars] = [segment for collection in ax.collections[1:] for segment in collection.get_segments()]
    np.testing.assert_allclose(bars[:, 1], [18.0 - 3.92, 18.0 + 3.92])


def kept_run(folder: Path, experiment: Experiment, seed: int, returns: float) -> str:
    """As much of a run's folder as a curve is drawn from."""
    run = runs.Run(experiment, seed, 1, runs.RunFolder(folder))
    folder.mkdir()
    files.write_json(run.folder.config, run.config())
    rows = [
        {"steps": steps, "seed": seed, "seconds": 1.0, "held_out": returns} for steps in (0, 1000)
    ]
    run.folder.metrics.write_text("".join(logs.as_line(row) for row in rows))
    return str(folder)


OURS = settings("maze4")
BOLDER = replace(OURS, ppo=replace(OURS.ppo, exploration=(2.0, 2.0, 1.0)))


def curves_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *experiments: Experiment
) -> dict[str, list[float]]:
    """What `seerax figure curve` shows of runs with returns 0, 1, 2, ...: labels, and the first return of each seed."""
    folders = [kept_run(tmp_path / str(i), each, i, float(i)) for i, each in enumerate(experiments)]
    shown: dict[str, Any] = {}
    monkeypatch.setattr(
        figures, "curve", lambda path, curves, **lines: shown.update(curves), raising=False
    )
    pictures.curve(tmp_path / "curve.png", cli.Figure("curve", tuple(folders)))
    return {label: [returns[0] for _, returns in seeds] for label, seeds in shown.items()}


def test_runs_that_differ_only_in_their_seed_are_one_curve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = settings("maze4", "bpo")
    assert curves_of(tmp_path, monkeypatch, OURS, other, OURS) == {"brpo": [0.0, 2.0], "bpo": [1.0]}


def test_runs_with_other_settings_are_curves_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = curves_of(tmp_path, monkeypatch, OURS, BOLDER, settings("maze4", "bpo"), BOLDER)
    assert shown == {
        "brpo, ppo.exploration 1.0": [0.0],
        "brpo, ppo.exploration 2.0 2.0 1.0": [1.0, 3.0],
        "bpo": [2.0],
    }


def test_runs_on_different_problems_are_not_one_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="runs on one problem, not on maze4 and tiger"):
        curves_of(tmp_path, monkeypatch, OURS, settings("tiger"))


def test_labels_name_every_setting_that_differs() -> None:
    others = [BOLDER, replace(OURS, bonus=0.5)]
    told = told_apart([OURS, *others])
    assert told[0] == "brpo, bonus 0.0, ppo.exploration 1.0"
    assert told[1:] == [
        "brpo, bonus 0.0, ppo.exploration 2.0 2.0 1.0",
        "brpo, bonus 0.5, ppo.exploration 1.0",
    ]


# ---- sheets and maps ---------------------------------------------------------------------------------------------


def test_the_sensing_map_counts_every_step(maze4_mdp: BeliefMDP) -> None:
    rng = np.random.default_rng(0)
    positions = rng.uniform(-1.4, 1.4, (400, 2)).astype(np.float32)
    positions[:7], positions[7] = (0.61, -1.25), (1.4, -1.4)
    sensed = rng.random(400) < 0.4
    sensed[:8] = [True, True, True, False, True, True, False, True]
    ax = blank()
    mesh = figures.draw_sensing(ax, maze4_mdp.problem, positions, sensed, cells=14)
    visits = next(
        artist for artist in ax.collections if artist is not mesh and artist.get_gid() is None
    )
    counts = mesh.get_array().filled(0).reshape(14, 14)
    assert counts.sum() == sensed.sum() and visits.get_array().sum() == 400
    here = (np.abs(positions - (0.7, -1.3)) <= 0.1).all(1)
    assert (
        counts[0, 10] == (here & sensed).sum() >= 5
    )  # row: y in [-1.4, -1.2], column: x in [0.6, 0.8]


def test_a_reading_is_mapped_where_its_step_ends(
    maze4_mdp: BeliefMDP, maze_episode: Episode
) -> None:
    shown = figures.gather("", maze4_mdp.problem, [maze_episode, maze_episode])
    assert shown.sensed.sum() == 2 * (maze_episode.action[:-1, 2] > 0).sum()
    first = np.flatnonzero(maze_episode.action[:, 2] > 0)[0]
    assert np.flatnonzero(shown.sensed)[0] == first
    np.testing.assert_array_equal(
        shown.positions[first], maze_episode.situation.state.position[first + 1]
    )


def test_maps_beside_each_other_share_one_scale(maze4_mdp: BeliefMDP) -> None:
    here, often = np.zeros((9, 2)), np.ones(9, bool)
    places = [
        ("Maze4", maze4_mdp.problem, here[:3], often[:3]),
        ("Door4", doors.Doors(), here, often),
    ]
    figure = sensing.lay_out_maps([figures.Sensing(*place) for place in places])
    first, second, bar = figure.axes
    assert [ax.get_title() for ax in (first, second)] == ["Maze4", "Door4"]
    assert {ax.collections[-1].norm.vmax for ax in (first, second)} == {9.0}
    assert bar.get_ylabel() == "steps that sensed, per cell"
    assert named(second, "walls") and not named(second, "agent")  # the place, without anybody in it


def test_stills_are_written_whole(maze4_mdp: BeliefMDP, tmp_path: Path) -> None:
    problem, moment = maze4_mdp.problem, maze_moment()
    scenes = [(f"scene {number}", lambda ax: problem.draw(ax, *moment)) for number in range(5)]
    figures.setup(tmp_path / "deep" / "setup.png", scenes)
    figures.sensing_maps(
        tmp_path / "sensing.png",
        [figures.Sensing("", problem, np.zeros((3, 2)), np.zeros(3, bool))],
    )
    figures.curve(tmp_path / "curve.png", {"brpo": [(STEPS, SEEDS[0])]}, 1.0)
    figures.tree_gap(
        tmp_path / "gap.png", [figures.TreePoint(depth, 2, "brpo", 1.0, 0.1) for depth in (1, 2)]
    )
    sizes = {path.name: Image.open(path).size for path in tmp_path.rglob("*") if path.is_file()}
    assert sizes == {
        "setup.png": (1620, 1200),
        "sensing.png": (900, 780),
        "curve.png": (1140, 600),
        "gap.png": (960, 570),
    }


def test_matplotlib_is_for_those_who_draw() -> None:
    program = "import sys; from seerax import figures; figures.__all__; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_name_of_figures_has_a_home() -> None:
    assert all(hasattr(figures, name) for name in figures.__all__)
    with pytest.raises(AttributeError, match="no 'curv'"):
        _ = figures.curv


def test_a_failed_picture_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), figures.atomically(path) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError
    assert [file.name for file in tmp_path.iterdir()] == [
        "picture.png"
    ] and path.read_text() == "old"


# ---- keyframes ---------------------------------------------------------------------------------------------------


def test_the_trail_is_the_way_so_far_with_every_sensing(
    maze4_mdp: BeliefMDP, maze_episode: Episode
) -> None:
    problem, ax, now = maze4_mdp.problem, blank(), 20
    story = figures.tell("", maze_episode, problem.senses)
    keyframes.draw_keyframe(ax, figures.Reel("", problem, maze_episode), story, now)
    [trail], [sensed], [agent] = named(ax, "trail"), named(ax, "sensed"), named(ax, "agent")
    np.testing.assert_array_equal(
        trail.get_xydata(), maze_episode.situation.state.position[: now + 1]
    )
    flags = maze_episode.action[:now, 2] > 0
    np.testing.assert_array_equal(
        sensed.get_xydata(), maze_episode.situation.state.position[1 : now + 1][flags]
    )
    np.testing.assert_allclose(trail.get_xydata()[-1], agent.center)
    assert trail.get_zorder() < sensed.get_zorder() < agent.get_zorder()
    assert f"step {now}, sensed {flags.sum()}" in [text.get_text() for text in ax.texts]


def test_moments_share_out_time_and_change_of_belief() -> None:
    """Nothing is learned but in steps 10 to 13: half of the moments between first and last are found there."""
    belief = np.ones((101, 2)) * [1.0, 0.0]
    belief[10:14] = [(0.8, 0.2), (0.6, 0.4), (0.4, 0.6), (0.2, 0.8)]
    belief[14:] = (0.0, 1.0)
    story = figures.Story("", None, np.zeros(101), None, belief)
    moments = keyframes.choose(story, 6)
    assert len(moments) == 6 and moments[0] == 0 and moments[-1] == 100
    assert sum(9 <= moment <= 14 for moment in moments) == 2
    assert keyframes.choose(story._replace(belief=None), 6) == [0, 20, 40, 60, 80, 100]
    assert keyframes.choose(story._replace(belief=belief[:1].repeat(101, 0)), 3) == [0, 50, 100]
    assert keyframes.choose(figures.Story("", None, np.zeros(3), None, None), 6) == [0, 1, 2]


def test_the_truth_is_told_in_the_last_frame_only(
    maze4_mdp: BeliefMDP, maze_episode: Episode
) -> None:
    figure = keyframes.lay_out_reels([figures.Reel("Maze4", maze4_mdp.problem, maze_episode)], 4)
    assert [len(named(ax, "truth")) for ax in figure.axes] == [0, 0, 0, 1]
    assert [len(named(ax, "trail")) for ax in figure.axes] == [1, 1, 1, 1]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[-3:] == ["sensing", "way so far", "sensed there"]


def test_problems_without_sensing_or_way_say_nothing_of_them() -> None:
    labels = [mark.get_label() for mark in keyframes.marks(sensing=False, moving=True)]
    assert "way so far" in labels and not any("sens" in label for label in labels)
    assert "way so far" not in [
        mark.get_label() for mark in keyframes.marks(sensing=True, moving=False)
    ]


def test_the_car_is_followed_by_its_middle() -> None:
    state = crowd.CrowdState(np.array([2.0, -3.0]), np.float32(0), *[None] * 5)
    np.testing.assert_allclose(
        crowd.crowdnav().problem.place(state), (2.0, -3.0 + crowd.CAR_LENGTH / 2), atol=1e-6
    )


# ---- the paper's charts ------------------------------------------------------------------------------------------


def entry(*seeds: Any, mean: float = 0.0, **extra: Any) -> dict[str, Any]:
    curves = [
        {"seed": i, "steps": STEPS.tolist(), "held_out": list(seed)} for i, seed in enumerate(seeds)
    ]
    return {
        "curves": curves,
        "evaluation": {"mean": mean, "ci95": [mean - 2, mean + 3]},
        "extra": extra,
    }


def legend_of(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_the_benchmark_shows_what_was_saved_and_leaves_out_the_rest() -> None:
    results = {
        "maze4-brpo": entry(*SEEDS),
        "maze4-bpo": entry(SEEDS[0] - 5),
        "maze4-ensemble": entry(mean=12.5),
        "door4-brpo": entry(*SEEDS),
        "door4-clairvoyant": entry(mean=40.0),
        "cartpole-ensemble": entry(mean=1.0),
    }
    figure = charts.lay_out_curves(results, tuple(charts.TITLES), charts.BENCHMARK, rows=2)
    panels = {ax.get_title(): ax for ax in figure.axes}
    assert list(panels) == ["CrowdNav", "Cartpole", "ArmShelf", "Maze4", "Maze10", "Door4"]
    ours, ensemble, bpo = panels["Maze4"].lines
    np.testing.assert_allclose(ours.get_ydata(), SEEDS.mean(0))
    np.testing.assert_array_equal(bpo.get_ydata(), SEEDS[0] - 5)
    assert ensemble.get_ydata()[0] == 12.5 and ensemble.get_linestyle() == "--"
    assert [line.get_color() for line in (ours, ensemble, bpo)] == [
        drawing.RED,
        drawing.BLACK,
        drawing.PURPLE,
    ]
    assert len(panels["Maze4"].collections) == 1  # an interval needs several seeds
    for empty in ("CrowdNav", "Cartpole", "Maze10"):
        assert [text.get_text() for text in panels[empty].texts] == ["not run yet"] and not panels[
            empty
        ].lines
    assert legend_of(figure) == ["BRPO", "ensemble of experts", "BPO", "clairvoyant expert"]
    assert (
        figure.legends[0].get_title().get_text()
        == "lines: means over 3 seeds, shaded: 95 % intervals"
    )


def test_a_shared_legend_overlaps_nothing(tmp_path: Path) -> None:
    results = {f"{name}-brpo": entry(*SEEDS) for name in charts.TITLES}
    results |= {f"{name}-brpo_without_belief": entry(*SEEDS) for name in charts.TITLES}
    figure = charts.lay_out_curves(results, charts.WITH_SENSING, charts.INPUTS)
    figures.save(figure, tmp_path / "inputs.png")
    legend = figure.legends[0].get_window_extent()
    assert legend.x0 >= 0 and legend.x1 <= figure.bbox.x1
    assert not any(ax.get_tightbbox().overlaps(legend) for ax in figure.axes)


def test_catastrophes_do_not_squash_what_one_came_to_see() -> None:
    ours, theirs = np.array([10.0, 20.0, 30.0]), np.array([-9000.0, -5000.0, -4000.0])
    ax = blank()
    assert yscale.fit(ax, [ours, np.array([40.0])], [ours, np.array([40.0]), theirs])
    place = ax.transData.transform([(0, height) for height in (-5000.0, 20.0, 40.0)])[:, 1]
    low, high = ax.bbox.y0, ax.bbox.y1
    assert low < place[0] < place[1] < place[2] < high
    assert (place[2] - place[1]) / (high - low) > 0.15  # on a straight scale it would be 0.004
    straight = blank()
    assert not yscale.fit(straight, [ours], [ours, ours - 10])
    assert (
        straight.get_yscale() == "linear"
        and straight.get_ylim()[0] < 10 < 30 < straight.get_ylim()[1]
    )


def test_the_beginning_of_what_matters_is_in_sight_unless_it_lies_too_deep() -> None:
    for first, seen in ((5.0, True), (-500.0, False)):
        ax, ours = blank(), np.array([first, 20.0, 20.0, 30.0])
        yscale.fit(ax, [ours], [ours])
        assert (ax.get_ylim()[0] < first) == seen


@pytest.mark.parametrize("height", [-1e4, -3.0, 0.0, 0.999, 1.0, 7.0])
def test_the_bent_scale_can_be_read_back(height: float) -> None:
    bend = yscale.Bend(knee=1.0, unit=2.0)
    assert bend.height(bend.place(height)) == pytest.approx(height)
    assert bend.place(height) == height if height >= 1 else bend.place(height) > height


def test_the_bonus_is_shown_with_intervals_and_crashes() -> None:
    last = {"crashes": {"mean": 9.0, "ci95": [8.0, 10.0]}}
    results = {
        "door4-brpo": entry(mean=80.0, crashes={"mean": 0.5, "ci95": [0.4, 0.7]}),
        "door4-brpo-bonus100": entry(
            mean=70.0, crashes={"mean": 0.2, "ci95": [0.1, 0.4]}, at_the_end=last
        ),
        "door4-ensemble": entry(mean=60.0),
    }
    maze4, _, door4, crashes = charts.lay_out_bonuses(results).axes
    assert [text.get_text() for text in maze4.texts] == ["not run yet"]
    points = door4.lines[0]
    assert points.get_xydata().tolist() == [
        [0, 80],
        [2, 70],
    ]  # 10 was not run, its place stays empty
    [bars] = [collection.get_segments() for collection in door4.collections]
    np.testing.assert_allclose([bar[:, 1] for bar in bars], [(78, 83), (68, 73)])
    returned, last_ones = (points for points in crashes.lines if points.get_marker() == "o")
    assert returned.get_ydata().tolist() == [0.5, 0.2]
    assert (
        last_ones.get_xydata().tolist() == [[2, 9]] and last_ones.get_markerfacecolor() == "white"
    )


def test_other_forms_of_the_bonus_stand_aside() -> None:
    results = {
        f"maze4-brpo-{form}100": entry(mean=height)
        for form, height in (("bonus", 70.0), ("gain", 75.0))
    }
    figure = charts.lay_out_bonuses({**results, "maze4-brpo-gain10": entry(mean=80.0)})
    ours, code = (line.get_xydata() for line in figure.axes[0].lines if line.get_marker() == "o")
    np.testing.assert_allclose(ours, [[2, 70]])
    np.testing.assert_allclose(code, [[0.8, 80], [1.8, 75]])
    assert legend_of(figure) == ["the paper's bonus", "the authors' code's"]


def test_the_composition_compares_sum_and_blends() -> None:
    results = {"maze10-brpo": entry(*SEEDS), "maze10-brpo-blend0.5": entry(SEEDS[1])}
    figure = charts.lay_out_curves(results, ("maze10",), charts.COMPOSITION)
    assert legend_of(figure) == ["BRPO: sum", "blend, w = 0.5"]


@pytest.mark.parametrize(
    "draw", [charts.benchmark, charts.bonus, charts.inputs, charts.composition]
)
def test_nothing_to_draw_is_a_mistake(draw: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="run the paper's entries first"):
        draw(
            tmp_path / "nothing.png",
            {"maze4-ensemble": entry(mean=1.0), "tiger-brpo": entry(*SEEDS)},
        )
    assert not list(tmp_path.iterdir())


# ---- films -------------------------------------------------------------------------------------------------------


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
