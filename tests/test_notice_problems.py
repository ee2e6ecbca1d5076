"""Problems and what others see of them: each test fails on a fault once overlooked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import seerax
from seerax import gym
from seerax.core import Action, BeliefMDP, Key, Latent, Situation, Step
from seerax.filters import Categorical
from seerax.interop.pilot import Pilot
from seerax.problems import doors, maze, pointmass
from seerax.problems.doors import Doors, DoorState
from seerax.problems.maze import MazeState
from seerax.problems.pointmass import SPHERE
from seerax.problems.tiger import TigerState

CONTACT = SPHERE.contact

# ---- doors ---------------------------------------------------------------------------------------


def at_the_wall(x: float, speed: float) -> DoorState:
    """Below the wall in touch with it, and on the way along it."""
    nothing = jnp.zeros(4, bool)
    return DoorState(
        jnp.array([x, doors.WALL_Y - CONTACT]),
        jnp.array([speed, 0.0]),
        nothing,
        nothing,
        jnp.zeros(4),
        jnp.bool_(False),
    )


UP = jnp.array([0.0, 1.0, -1.0])


def test_two_doors_touched_in_one_step_are_both_known_and_cost_one_crash() -> None:
    """At 6 m/s along the wall a step leads from the end of one door to the next one."""
    closed = jnp.array([0.0, 0.0, 1.0, 1.0])
    state, reward, _ = Doors().step(jax.random.key(0), at_the_wall(-0.87, 6.0), UP, closed)
    assert state.crashed.tolist() == [True, True, False, False]
    assert float(reward) == -10


@pytest.mark.parametrize("door", range(4))
def test_a_body_at_one_door_crashes_into_no_other(door: int) -> None:
    start = at_the_wall(float(doors.DOORS_X[door]), 0.0)
    state, reward, _ = Doors().step(jax.random.key(0), start, UP, jnp.zeros(4))
    assert state.crashed.tolist() == np.eye(4, dtype=bool)[door].tolist()
    assert float(reward) == -10


def test_crashes_are_counted_in_steps_from_the_return() -> None:
    returns, sensed, success = np.array([100.0 - 20 - 3]), np.array([3.0]), np.array([True])
    assert doors.crashes(Doors(), returns, sensed, success).tolist() == [2]


# ---- walls ---------------------------------------------------------------------------------------

WALL = jnp.array([[(-1.0, 0.0), (1.0, 0.0)]])
FAR = WALL + 50.0


def moved(walls: Array, position: Any, velocity: Any, thrust: Any, half: float = 1e3) -> Any:
    about = (jnp.asarray(each, jnp.float32) for each in (position, velocity, thrust))
    return pointmass.move(SPHERE, walls, half, *about)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_body_slides_along_a_wall_as_if_it_were_not_there(side: float) -> None:
    """Pressed against it all the time, it loses nothing of its speed along it."""
    start, velocity, thrust = (0.1, side * CONTACT), (0.7, -0.2 * side), (0.4, -1.0 * side)
    along, free = moved(WALL, start, velocity, thrust), moved(FAR, start, velocity, thrust)
    assert along.touched.all() and not free.touched.any()
    assert float(along.position[0]) == pytest.approx(float(free.position[0]), abs=1e-6)
    assert float(along.velocity[0]) == pytest.approx(float(free.velocity[0]), abs=1e-6)
    assert float(along.velocity[1]) == pytest.approx(0, abs=1e-6)
    assert float(along.position[1]) == pytest.approx(side * CONTACT, abs=1e-6)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_wall_does_not_hold_what_leaves_it(side: float) -> None:
    """Even from a little inside, where rounding may put a body: it keeps its speed away."""
    start, velocity, thrust = (0.1, side * 0.9 * CONTACT), (0.3, 0.5 * side), (0.0, 1.0 * side)
    away, free = moved(WALL, start, velocity, thrust), moved(FAR, start, velocity, thrust)
    np.testing.assert_allclose(away.velocity, free.velocity, atol=1e-6)
    assert side * float(away.position[1]) >= CONTACT


@pytest.mark.parametrize("axis", [0, 1])
def test_a_body_slides_along_the_edge_of_the_arena(axis: int) -> None:
    start, velocity, thrust = (np.roll(each, axis) for each in ([1.4, 0.2], [0.5, 0.7], [1.0, 0.4]))
    along = moved(FAR, start, velocity, thrust, half=1.4)
    free = moved(FAR, start, velocity, thrust)
    other = 1 - axis
    assert float(along.position[axis]) == pytest.approx(1.4)
    assert float(along.velocity[axis]) == 0
    assert float(along.velocity[other]) == pytest.approx(float(free.velocity[other]), abs=1e-6)
    assert float(along.position[other]) == pytest.approx(float(free.position[other]), abs=1e-6)


# ---- goals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "ends"), [("maze4", True), ("maze10", False)])
def test_who_stands_in_a_wrong_goal_too_has_not_reached_the_right_one(
    name: str, ends: bool
) -> None:
    """Two goals whose circles overlap: no maze of the paper has them, one of your own may."""
    problem: Any = getattr(maze, name)().problem
    start = np.array([0.3, -0.3])
    right, wrong = (
        jnp.asarray(start + np.array([share, 0.0]), jnp.float32)
        for share in (-0.5 * problem.right_radius, 0.5 * problem.wrong_radius)
    )
    close = replace(
        problem, goals=jnp.stack([right, wrong]), walls=np.asarray(problem.walls) + 50.0
    )
    state = MazeState(
        jnp.asarray(start, jnp.float32),
        jnp.zeros(2),
        jnp.float32(0),
        jnp.bool_(False),
        jnp.bool_(False),
    )
    still = jnp.array([0.0, 0.0, -1.0])

    def stepped(problem: Any) -> tuple[MazeState, float, bool, bool]:
        state_after, reward, terminated = problem.step(jax.random.key(0), state, still, right)
        success = problem.succeeded(state_after, right, terminated)
        return state_after, float(reward), bool(terminated), bool(success)

    after, reward, terminated, success = stepped(close)
    assert reward == -problem.wrong_cost
    assert terminated is ends and success is False and not after.home
    alone = replace(close, goals=jnp.stack([right, wrong + 1.0]))
    after, reward, terminated, success = stepped(alone)
    assert reward == problem.reward
    assert terminated is True and success is True and after.home


# ---- actions of an environment -------------------------------------------------------------------


class Payment(NamedTuple):
    paid: Array


@dataclass(frozen=True)
class Pay:
    """Pays the action, whose bounds are anything but symmetric."""

    horizon: int = 4
    discount: float = 1.0
    action_low: tuple[float, ...] = (2.0, -1.0)
    action_high: tuple[float, ...] = (6.0, 0.0)

    def prior(self, key: Key) -> Latent:
        return jax.random.normal(key)

    def reset(self, key: Key, latent: Latent) -> Payment:
        return Payment(jnp.zeros(2))

    def step(self, key: Key, state: Payment, action: Action, latent: Latent) -> Step:
        return Step(Payment(action), action[0] + 10 * action[1], jnp.bool_(False))

    def features(self, state: Payment) -> Array:
        return state.paid


@pytest.fixture(scope="module")
def pay() -> BeliefMDP:
    filter = Categorical(jnp.zeros(2), lambda s, a, n, phi: 0.0)
    return BeliefMDP(Pay(), filter, lambda moment, state, belief: jnp.array([3.0, -0.5]))


BOX = np.array([[-1.0, -1.0], [1.0, 1.0], [0.0, 0.0], [-0.5, 1.0]], np.float32)
UNITS = np.array([[2.0, -1.0], [6.0, 0.0], [4.0, -0.5], [3.0, 0.0]])


def test_the_unit_box_reaches_from_the_lowest_to_the_highest_action(pay: BeliefMDP) -> None:
    np.testing.assert_allclose(gym.to_problem_units(pay, BOX), UNITS, atol=1e-6)
    np.testing.assert_allclose(gym.to_unit_box(pay, UNITS), BOX, atol=1e-6)


def test_an_environment_acts_in_the_problems_units(pay: BeliefMDP) -> None:
    env = gym.BeliefEnv(pay)
    observation, _ = env.reset(seed=0)
    np.testing.assert_allclose(observation[gym.layout(pay)["advice"]], [3.0, -0.5])
    for action, units in zip(BOX, UNITS, strict=True):
        observation, reward, *_ = env.step(action)
        np.testing.assert_allclose(observation[:2], units, atol=1e-6)
        assert reward == pytest.approx(units @ [1, 10], abs=1e-5)


# ---- a pilot's episodes --------------------------------------------------------------------------


def test_every_episode_of_a_pilot_has_chance_of_its_own(tiger_mdp: BeliefMDP) -> None:
    """Of the policy and of the advisor; with a key it repeats itself."""

    def dice(key: Key, situation: Situation) -> Action:
        return jax.random.uniform(key, (3,))

    pilot, silence = Pilot(dice, tiger_mdp), TigerState(jnp.int32(0), jnp.int32(0))
    thrown = []
    for _ in range(4):
        pilot.reset(silence)
        thrown.append(pilot.act())
    assert all(np.abs(one - other).max() > 1e-3 for one, other in combinations(thrown, 2))
    pilot.reset(silence, jax.random.key(3))
    again = pilot.act()
    pilot.reset(silence, jax.random.key(3))
    np.testing.assert_array_equal(pilot.act(), again)


def test_every_episode_of_a_pilot_asks_its_advisor_afresh(tiger_mdp: BeliefMDP) -> None:
    """The ensemble senses with probability 0.5: among 20 first moments are both."""
    pilot, silence = Pilot(seerax.follow_advice, tiger_mdp), TigerState(jnp.int32(0), jnp.int32(0))
    votes = []
    for _ in range(20):
        pilot.reset(silence)
        votes.append(float(pilot.act()[0]))
    assert len(set(votes)) == 2
