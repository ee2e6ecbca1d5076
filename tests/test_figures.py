"""What is drawn is what was recorded: opacities, lengths, counts and curves are read back from the
pictures.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from panels import SEEDS, STEPS, blank, named
from PIL import Image

from seerax import drawing, figures
from seerax.core import BeliefMDP, Situation
from seerax.experts.flow import distance_to_segments
from seerax.figures import keyframes, sensing
from seerax.paper import exact
from seerax.problems import crowd, doors, maze, pointmass, tiger, tree
from seerax.rollout import Episode


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


# ---- scenes --------------------------------------------------------------------------------------


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


# ---- palette -------------------------------------------------------------------------------------


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


# ---- sheets and maps -----------------------------------------------------------------------------


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
    gaps = [
        figures.Gap(
            depth,
            exact.tree_optimum,
            exact.tree_posterior_sampling,
            [figures.Point(2, 1.0, 0.1)],
        )
        for depth in (1, 2)
    ]
    figures.tree_gaps(tmp_path / "gap.png", gaps)
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
    assert all(hasattr(figures, name) for name in figures.__all__)  # imports every file
    found = [getattr(figures, name) for name in figures.__all__]
    assert not any(isinstance(each, ModuleType) for each in found)
    with pytest.raises(AttributeError, match="no attribute 'curv'"):
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


# ---- keyframes -----------------------------------------------------------------------------------


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
    """Nothing is learned but in steps 10 to 13: half of the moments between first and last are
    found there.
    """
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
