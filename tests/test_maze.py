"""Mazes: rewards and ends from float64 distances, readings by their law, walls that hold, Bayes'
rule written out.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax
from scipy.stats import norm

from seerax import rollout
from seerax.core import BeliefMDP, Step
from seerax.problems import maze
from seerax.problems.maze import Maze, MazeState

NAMES = ["maze4", "maze10"]
# as docs/problems.md has them
RIGHT, WRONG = {"maze4": 0.2, "maze10": 0.0866}, {"maze4": 0.3, "maze10": 0.1}
WRONG_COST, ENDS = {"maze4": 500.0, "maze10": 50.0}, {"maze4": True, "maze10": False}
READING_COST, NOISE = {"maze4": 1.0, "maze10": 0.1}, {"maze4": 1 / (1.8 * 2**0.5), "maze10": 0.5}
HORIZON, CONTACT = {"maze4": 500, "maze10": 750}, {"maze4": 0.0849, "maze10": 0.051}
STILL = jnp.array([0.0, 0.0, -1.0])
SENSE = jnp.array([0.0, 0.0, 1.0])


@pytest.fixture(scope="module")
def mdps() -> dict[str, BeliefMDP]:
    return {"maze4": maze.maze4(), "maze10": maze.maze10()}


# ---- independent answers -------------------------------------------------------------------------


def at(
    position: np.ndarray, reading: float = 0.0, sensed: bool = False, home: bool = False
) -> MazeState:
    place = jnp.asarray(position, jnp.float32)
    return MazeState(place, jnp.zeros(2), jnp.float32(reading), jnp.bool_(sensed), jnp.bool_(home))


def resting(positions: np.ndarray) -> MazeState:
    """Many bodies at once."""
    return jax.vmap(lambda place: at(np.zeros(2))._replace(position=place))(
        jnp.asarray(positions, jnp.float32)
    )


@partial(jax.jit, static_argnums=0)
def stepped(
    problem: Maze, states: MazeState, actions: jax.Array, latent: jax.Array, seed: int = 0
) -> Step:
    keys = jax.random.split(jax.random.key(seed), len(states.position))
    return jax.vmap(problem.step, (0, 0, 0, None))(
        keys, states, jnp.broadcast_to(actions, (len(keys), 3)), latent
    )


def distances(problem: Maze, positions: jax.Array) -> np.ndarray:
    """[n, k] to all goals."""
    return np.linalg.norm(
        np.asarray(positions, float)[:, None] - np.asarray(problem.goals, float), axis=-1
    )


def around(problem: Maze, reach: float, count: int) -> np.ndarray:
    """Places within reach of the goals, [k, count, 2]: as many inside as outside of any radius one
    may think of.
    """
    rng = np.random.default_rng(0)
    angle, share = rng.uniform(0, 2 * np.pi, (2, len(problem.goals), count)) / [
        [[1]],
        [[2 * np.pi]],
    ]
    offset = reach * share[..., None] * np.stack([np.cos(angle), np.sin(angle)], -1)
    return np.asarray(problem.goals, float)[:, None] + offset


def wall_distances(walls: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """[..., m] to the walls' centre lines."""
    start, along = walls[:, 0], walls[:, 1] - walls[:, 0]
    away = positions[..., None, :] - start
    share = np.clip((away * along).sum(-1) / (along**2).sum(-1), 0, 1)
    return np.linalg.norm(away - share[..., None] * along, axis=-1)


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def crossings(walls: np.ndarray, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """[n, m]: whether the straight way from before to after cuts the walls' centre lines."""
    before, after, (start, end) = before[:, None], after[:, None], walls.transpose(1, 0, 2)
    apart = cross(end - start, before - start) * cross(end - start, after - start) < 0
    return apart & (cross(after - before, start - before) * cross(after - before, end - before) < 0)


# ---- rewards and ends ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("vote", [-1.0, 1.0])
def test_reward_and_end_follow_from_where_one_arrives(
    mdps: dict[str, BeliefMDP], name: str, vote: float
) -> None:
    """Around every goal, for every active goal, at any thrust."""
    problem = mdps[name].problem
    places = around(problem, 1.5 * WRONG[name], 100).reshape(-1, 2)
    thrust = jax.random.uniform(jax.random.key(1), (len(places), 3), minval=-1).at[:, 2].set(vote)
    for active, latent in enumerate(problem.goals):
        state, reward, terminated = stepped(problem, resting(places), thrust, latent)
        distance = distances(problem, state.position)
        others = np.delete(distance, active, axis=1).min(1)
        home, wrong = distance[:, active] < RIGHT[name], others < WRONG[name]
        clear = (abs(distance[:, active] - RIGHT[name]) > 1e-5) & (abs(others - WRONG[name]) > 1e-5)
        expected = 500 * home - WRONG_COST[name] * wrong - READING_COST[name] * (vote > 0)
        assert home.any() and wrong.any() and not (home & wrong).any() and not (home | wrong).all()
        np.testing.assert_allclose(np.asarray(reward)[clear], expected[clear], atol=1e-4)
        np.testing.assert_array_equal(
            np.asarray(terminated)[clear], (home | (wrong & ENDS[name]))[clear]
        )
        np.testing.assert_array_equal(np.asarray(state.home)[clear], home[clear])
        arrived = jax.vmap(problem.succeeded, (0, None, 0))(state, latent, terminated)
        np.testing.assert_array_equal(np.asarray(arrived)[clear], home[clear])


def test_maze10_pays_for_every_step_inside_a_wrong_goal(mdps: dict[str, BeliefMDP]) -> None:
    problem = mdps["maze10"].problem
    states, active = resting(problem.goals[1:]), problem.goals[0]
    for time in range(20):
        states, reward, terminated = stepped(problem, states, STILL, active, time)
        np.testing.assert_array_equal(reward, -50.0)
        assert not terminated.any()


@pytest.mark.parametrize("name", NAMES)
def test_who_does_nothing_is_there_to_the_horizon(mdps: dict[str, BeliefMDP], name: str) -> None:
    """At no cost; and looking at every step costs its price at every step."""
    idle, looking = (
        rollout.evaluate(jax.random.key(0), mdps[name], lambda key, situation, a=action: a, 4)
        for action in (STILL, SENSE)
    )
    assert idle.lengths.tolist() == looking.lengths.tolist() == [HORIZON[name]] * 4
    np.testing.assert_array_equal(idle.returns, 0)
    np.testing.assert_allclose(looking.returns, -READING_COST[name] * HORIZON[name], rtol=1e-4)


# ---- readings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_readings_are_gaussian_and_as_rough_as_the_goal_is_far(
    mdps: dict[str, BeliefMDP], name: str
) -> None:
    problem, count, start = (
        mdps[name].problem,
        20000,
        np.array([0.0, -1.3] if name == "maze4" else [0.0, 0.1]),
    )
    for number, latent in enumerate(problem.goals):
        state = stepped(problem, resting(np.tile(start, (count, 1))), SENSE, latent, number).state
        assert state.sensed.all()
        distance = np.linalg.norm(np.asarray(latent) - start)
        noise = (np.asarray(state.reading, float) - distance) / (NOISE[name] * distance)
        assert abs(noise.mean()) * np.sqrt(count) < 4
        assert abs(noise.std() - 1) * np.sqrt(2 * count) < 4


@pytest.mark.parametrize("name", NAMES)
def test_without_sensing_there_is_no_reading(mdps: dict[str, BeliefMDP], name: str) -> None:
    problem = mdps[name].problem
    state = stepped(problem, resting(np.zeros((100, 2))), STILL, problem.goals[0]).state
    np.testing.assert_array_equal(state.reading, 0)
    assert not state.sensed.any()


# ---- walls ---------------------------------------------------------------------------------------


FASTEST = {"maze4": 4.6, "maze10": 3.0}  # m/s: full thrust across the arena, and the terminal speed


def pushed(problem: Maze, states: MazeState, thrusts: np.ndarray) -> np.ndarray:
    """Every position on the way, [t + 1, n, 2], under thrusts [t, n, 2]."""

    def move(states: MazeState, thrust: jax.Array) -> tuple[MazeState, jax.Array]:
        actions = jnp.pad(thrust, ((0, 0), (0, 1)))
        step = jax.vmap(problem.step, (None, 0, 0, None))
        states = step(jax.random.key(0), states, actions, problem.goals[0]).state
        return states, states.position

    way = jax.jit(lambda *about: jax.lax.scan(move, *about)[1])(
        states, jnp.asarray(thrusts, jnp.float32)
    )
    return np.concatenate([states.position[None], way]).astype(float)


def free_places(problem: Maze, contact: float, count: int, rng: np.random.Generator) -> np.ndarray:
    """Anywhere, and close to the ends of walls, where corners are."""
    walls = np.asarray(problem.walls, float)
    ends = rng.choice(walls.reshape(-1, 2), count) + rng.uniform(-0.2, 0.2, (count, 2))
    places = np.concatenate([rng.uniform(-problem.half, problem.half, (count, 2)), ends])
    places = np.clip(places, -problem.half, problem.half)
    return places[wall_distances(walls, places).min(-1) > contact]


@pytest.mark.parametrize("name", NAMES)
def test_no_speed_and_no_thrust_lead_through_a_wall(mdps: dict[str, BeliefMDP], name: str) -> None:
    """Into all directions, now and then another one.

    A corner may be entered for a moment, a wall never crossed.
    """
    problem, contact, rng = mdps[name].problem, CONTACT[name], np.random.default_rng(2)
    walls, places = np.asarray(problem.walls, float), free_places(problem, contact, 1000, rng)
    angles = rng.uniform(0, 2 * np.pi, (6, len(places)))
    ways = np.stack([np.cos(angles), np.sin(angles)], -1)
    thrusts = (ways[1:] / np.abs(ways[1:]).max(-1, keepdims=True)).repeat(60, axis=0)
    start = resting(places)._replace(velocity=jnp.asarray(FASTEST[name] * ways[0], jnp.float32))
    way = pushed(problem, start, thrusts)
    near = wall_distances(walls, way).min(-1)
    assert near.min() > contact / 2
    assert (near < contact - 1e-3).mean() < 2e-4
    assert (near < contact + 1e-3).mean() > 0.1  # they do press against walls
    assert np.abs(way).max() <= problem.half + 1e-6
    assert not any(crossings(walls, *pair).any() for pair in pairwise(way))


# ---- belief --------------------------------------------------------------------------------------


def log_bayes(name: str, belief: np.ndarray, distance: np.ndarray, reading: float) -> np.ndarray:
    return log_softmax(
        np.asarray(belief, float) + norm.logpdf(reading, distance, NOISE[name] * distance)
    )


def assert_sound(belief: jax.Array) -> None:
    assert np.isfinite(belief).all()
    assert np.exp(belief).sum() == pytest.approx(1, abs=1e-5)


def some_belief(problem: Maze) -> jax.Array:
    return jax.nn.log_softmax(jnp.linspace(0, 2, len(problem.goals)))


@pytest.mark.parametrize("name", NAMES)
def test_at_a_goal_and_not_home_excludes_it(mdps: dict[str, BeliefMDP], name: str) -> None:
    """That one alone: the others keep their odds."""
    problem, filter = mdps[name].problem, mdps[name].filter
    before = some_belief(problem)
    for number, place in enumerate(around(problem, 0.99 * RIGHT[name], 1)[:, 0]):
        after = filter.update(before, at(place), STILL, at(place))
        others = np.delete(before, number)
        assert_sound(after)
        assert np.exp(after[number]) < 1e-30
        np.testing.assert_allclose(
            np.delete(after, number), log_softmax(others.astype(float)), atol=1e-5
        )


@pytest.mark.parametrize("name", NAMES)
def test_at_home_the_belief_collapses_on_the_right_goal(
    mdps: dict[str, BeliefMDP], name: str
) -> None:
    """However little it was believed in, whatever was read."""
    problem, filter = mdps[name].problem, mdps[name].filter
    for number, place in enumerate(around(problem, 0.99 * RIGHT[name], 1)[:, 0]):
        doubting = jax.nn.log_softmax(jnp.zeros(len(problem.goals)).at[number].set(-20.0))
        for reading, sensed in ((0.0, False), (0.1, True)):
            after = filter.update(doubting, at(place), STILL, at(place, reading, sensed, home=True))
            assert_sound(after)
            assert np.exp(after[number]) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_elsewhere_only_readings_count(mdps: dict[str, BeliefMDP], name: str) -> None:
    problem, filter, rng = mdps[name].problem, mdps[name].filter, np.random.default_rng(3)
    update, before = jax.jit(filter.update), some_belief(problem)
    places = rng.uniform(-problem.half, problem.half, (100, 2))
    distance = distances(problem, jnp.asarray(places))
    away = distance.min(-1) > RIGHT[name] + 1e-3
    assert away.sum() > 50
    for place, far in zip(places[away], distance[away], strict=True):
        np.testing.assert_allclose(update(before, at(place), STILL, at(place)), before, atol=1e-5)
        reading = float(rng.uniform(0, 2))
        after = update(before, at(place), STILL, at(place, reading, sensed=True))
        np.testing.assert_allclose(
            np.exp(after), np.exp(log_bayes(name, before, far, reading)), atol=1e-4
        )


@pytest.mark.parametrize("name", NAMES)
def test_step_and_filter_agree_about_home(mdps: dict[str, BeliefMDP], name: str) -> None:
    """Whoever plays by the rules never excludes the active goal."""
    problem, filter = mdps[name].problem, mdps[name].filter
    places = around(problem, 1.5 * WRONG[name], 200).reshape(-1, 2)
    update = jax.jit(jax.vmap(filter.update, (None, 0, None, 0)))
    for active, latent in enumerate(problem.goals):
        before = resting(places)
        after = stepped(problem, before, STILL, latent).state
        belief = update(filter.init(), before, STILL, after)
        assert np.exp(belief[:, active]).min() >= 1 / len(problem.goals) - 1e-5
        np.testing.assert_allclose(np.exp(belief[:, active])[after.home], 1, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reading", [1e30, -1e30, 0.0, np.inf, -np.inf, 1e4])
def test_belief_survives_absurd_readings(
    mdps: dict[str, BeliefMDP], name: str, reading: float
) -> None:
    """Far from all goals, near one and exactly at one, home or not."""
    problem, filter = mdps[name].problem, mdps[name].filter
    update, belief = jax.jit(filter.update), filter.init()
    goal = np.asarray(problem.goals[0])
    for place in (np.zeros(2), goal + 0.01, goal):
        for home in (False, True):
            belief = update(belief, at(place), SENSE, at(place, reading, True, home))
            assert_sound(belief)
