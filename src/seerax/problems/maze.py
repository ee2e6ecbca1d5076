"""Latent-goal mazes: a point mass must find the active goal. Reaching a wrong one is costly.

Maze4 follows the paper's appendix; what the paper leaves out (body, walls, goals, radii, noise) are
the constants of the authors' code. See docs/problems.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seerax import advice
from seerax.core import Action, BeliefMDP, Expert, Key, Latent, Situation, State, Step
from seerax.experts import Flow, FlowPlanner
from seerax.filters import Categorical
from seerax.problems import pointmass
from seerax.problems.pointmass import SPHERE, Body
from seerax.problems.voting import SENSING_VOTE, set_vote

# ---- constants -----------------------------------------------------------------------------------

MAZE4_GOALS = np.array([(-0.25, 0.3), (1.2, 1.2), (1.2, 0.6), (0.25, 0.8)])
MAZE4_WALLS = np.array(
    [
        [(-0.5, -0.5), (-0.5, 0.5)],
        [(0.5, 0.5), (0.5, 1.5)],
        [(-0.5, 0.5), (0.5, 0.5)],
        [(-1.0, -1.0), (0.5, -1.0)],
        [(1.0, -0.95), (1.0, 1.0)],
        [(0.0, -1.0), (0.0, 1.0)],
        [(-1.0, -1.0), (-1.0, 1.0)],
    ]
)

# The contact distance is half a wall's thickness, 0.015 m, and the body's radius, 0.036 m.
MAZE10_BODY = Body(mass=0.1, gear=0.3, damping=0.1, seconds=0.06, substeps=5, contact=0.051)
MAZE10_GOALS = np.array(
    [
        (0.3, 0.6), (0.375, -1.325), (0.325, 0.2), (-0.65, 0.4), (-1.0, -1.325),
        (-1.325, -1.325), (-1.325, 1.325), (-0.65, 0.75), (0.0, -1.325), (-0.65, 1.325),
    ]
)  # fmt: skip
MAZE10_UPRIGHT = [  # x, from y, to y: walls 0.03 m thick
    (-0.165, -1.5, 0.87), (1.155, -1.17, 1.05), (0.495, -0.33, 1.44), (0.165, -0.84, 0.45),
    (-0.495, -0.6, 0.6), (-0.795, 0.33, 1.44), (0.825, -0.84, 0.24), (-1.155, -0.84, 0.15),
    (-0.825, -1.5, -0.81), (-1.155, -1.5, -1.14), (0.165, -1.5, -1.2),
]  # fmt: skip
MAZE10_LEVEL = [  # y, from x, to x
    (-0.825, 0.21, 0.84), (0.435, 0.21, 0.51), (-0.285, -0.78, -0.48), (-0.825, -1.11, -0.81),
    (0.585, -0.75, -0.48), (-1.155, 0.15, 1.17),
]  # fmt: skip
MAZE10_THICKNESS = 0.03

# ---- state ---------------------------------------------------------------------------------------


class MazeState(NamedTuple):
    """The body, what was read in the last step, and whether it is at the active goal."""

    position: Array
    velocity: Array
    reading: Array  # sensed distance to the active goal, 0 if not sensed
    sensed: Array
    home: Array  # at the active goal: the episode has terminated


# ---- problem -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Maze:
    """A maze, where the latent is the position of the active goal.

    The action is two thrusts and a third number, which senses if it is positive.
    """

    goals: Array  # [k, 2]
    walls: Array  # [m, 2 (ends), 2]
    body: Body
    half: float  # the arena is [-half, half]^2
    start_low: tuple[float, float]
    start_high: tuple[float, float]
    noise: float  # std of a reading, per metre of true distance
    sensing_cost: float
    right_radius: float
    wrong_radius: float
    wrong_cost: float
    wrong_ends: bool  # does reaching a wrong goal end the episode?
    horizon: int
    reward: float = 500.0
    discount: float = 1.0
    action_low: tuple[float, ...] = (-1.0, -1.0, -1.0)
    action_high: tuple[float, ...] = (1.0, 1.0, 1.0)

    def prior(self, key: Key) -> Latent:
        return jax.random.choice(key, self.goals)

    def reset(self, key: Key, latent: Latent) -> MazeState:
        low, high = jnp.asarray(self.start_low), jnp.asarray(self.start_high)
        position = jax.random.uniform(key, (2,), minval=low, maxval=high)
        return MazeState(position, jnp.zeros(2), jnp.float32(0), jnp.bool_(False), jnp.bool_(False))

    def step(self, key: Key, state: MazeState, action: Action, latent: Latent) -> Step:
        position, velocity, *_ = pointmass.move(
            self.body, self.walls, self.half, state.position, state.velocity, action[:2]
        )
        sensed = self.senses(state, action)
        true = jnp.linalg.norm(latent - position)
        reading = true + self.noise * true * jax.random.normal(key)
        right, wrong = self._arrived(position, latent)
        home = right & ~wrong
        reward = (
            jnp.where(home, self.reward, 0.0) - wrong * self.wrong_cost - sensed * self.sensing_cost
        )
        terminated = home | (wrong & self.wrong_ends)
        state = MazeState(position, velocity, jnp.where(sensed, reading, 0.0), sensed, home)
        return Step(state, reward, terminated)

    def features(self, state: MazeState) -> Array:
        """Returns position, velocity, offsets to all goals, and the reading (0 without sensing)."""
        offsets = (self.goals - state.position).ravel()
        return jnp.concatenate([state.position, state.velocity, offsets, state.reading[None]])

    def senses(self, state: State, action: Action) -> Array:
        return action[2] > 0

    def with_sensing(self, action: Action, on: Array) -> Action:
        """Returns the action with a small vote for or against sensing."""
        return set_vote(action, 2, on)

    def succeeded(self, state: MazeState, latent: Latent, terminated: Array) -> Array:
        right, wrong = self._arrived(state.position, latent)
        return right & ~wrong

    def log_likelihood(
        self, state: State, action: Action, next_state: MazeState, latent: Latent
    ) -> Array:
        """Returns that of the reading and of being home or not, if the goal were here.

        Each hypothesis has its own distance and so its own standard deviation. A body that stands
        at this goal and is not home has shown that another goal is the active one.
        """
        distance = jnp.linalg.norm(latent - next_state.position)
        std = self.noise * distance
        log_pdf = -0.5 * ((next_state.reading - distance) / std) ** 2 - jnp.log(std)
        told = jnp.where((distance < self.right_radius) == next_state.home, 0.0, -jnp.inf)
        return jnp.where(next_state.sensed, log_pdf, 0.0) + told

    def _arrived(self, position: Array, latent: Latent) -> tuple[Array, Array]:
        """Returns (at the active goal, at a wrong one)."""
        distance = jnp.linalg.norm(self.goals - position, axis=-1)
        active = (self.goals == latent).all(-1)
        right = (active & (distance < self.right_radius)).any()
        return right, (~active & (distance < self.wrong_radius)).any()

    def draw(self, ax: Any, situation: Situation, action: Action, latent: Latent) -> None:
        draw_maze(self, ax, situation, action, latent)

    def draw_place(self, ax: Any) -> Any:
        return draw_arena(self, ax)

    def place(self, state: MazeState) -> Array:
        """Returns where the agent is in the drawing."""
        return state.position


# ---- expert --------------------------------------------------------------------------------------


def flow_expert(maze: Maze, speed: float, gain: float, margin: float) -> Expert:
    """Creates the expert that follows the shortest path to its goal at a steady speed.

    It ignores what other goals cost and never senses.
    """
    planner = FlowPlanner(np.asarray(maze.walls), margin, maze.half)

    def act(state: MazeState, flow: Flow) -> Action:
        target = planner.target(state.position, flow)
        thrust = pointmass.pursue(target, state.position, state.velocity, speed, gain)
        return jnp.append(thrust, -SENSING_VOTE)

    return advice.tabulate(Expert(lambda goal: planner.plan(np.asarray(goal)), act), maze.goals)


# ---- builder -------------------------------------------------------------------------------------


def belief_mdp(maze: Maze, expert: Expert) -> BeliefMDP:
    """Builds a belief over the goals, the belief-weighted sum of experts and random sensing."""
    filter = Categorical(maze.goals, maze.log_likelihood)
    ensemble = advice.sense_randomly(maze, advice.weighted(filter, expert))
    return BeliefMDP(maze, filter, ensemble, expert)


def maze10_walls() -> np.ndarray:
    """Returns the walls' centre lines, half a thickness shorter at both ends for the round caps."""
    cap = MAZE10_THICKNESS / 2
    upright = [[(x, low + cap), (x, high - cap)] for x, low, high in MAZE10_UPRIGHT]
    level = [[(low + cap, y), (high - cap, y)] for y, low, high in MAZE10_LEVEL]
    return np.array(upright + level)


def maze10() -> BeliefMDP:
    """Builds Maze10, in which a wrong goal costs 50 a step and the episode goes on."""
    maze = Maze(
        goals=jnp.asarray(MAZE10_GOALS, jnp.float32),
        walls=jnp.asarray(maze10_walls(), jnp.float32),
        body=MAZE10_BODY,
        half=1.434,
        start_low=(0.0, -0.2),
        start_high=(0.0, 0.2),
        noise=0.5,
        sensing_cost=0.1,
        right_radius=0.0866,
        wrong_radius=0.1,
        wrong_cost=50.0,
        wrong_ends=False,
        horizon=750,
    )
    return belief_mdp(maze, flow_expert(maze, speed=0.8, gain=3.0, margin=0.07))


def better_sensing(mdp: BeliefMDP, steps: int = 150) -> BeliefMDP:
    """Returns the problem with the paper's hand-tuned ensemble, which senses in the first steps."""
    by_belief = advice.weighted(mdp.filter, mdp.expert)  # type: ignore[arg-type]
    return mdp.with_advisor(advice.sense_first(mdp.problem, by_belief, steps))


def maze10_better_sensing() -> BeliefMDP:
    """Builds Maze10 with the paper's hand-tuned ensemble."""
    return better_sensing(maze10())


def maze4() -> BeliefMDP:
    """Builds Maze4, in which a wrong goal costs 500 and ends the episode."""
    maze = Maze(
        goals=jnp.asarray(MAZE4_GOALS, jnp.float32),
        walls=jnp.asarray(MAZE4_WALLS, jnp.float32),
        body=SPHERE,
        half=1.4,
        start_low=(-0.5, -1.3),
        start_high=(0.5, -1.3),
        noise=1 / (1.8 * 2**0.5),
        sensing_cost=1.0,
        right_radius=0.2,
        wrong_radius=0.3,
        wrong_cost=500.0,
        wrong_ends=True,
        horizon=500,
    )
    return belief_mdp(maze, flow_expert(maze, speed=1.0, gain=3.0, margin=0.12))


# ---- drawing -------------------------------------------------------------------------------------


def draw_maze(maze: Maze, ax: Any, situation: Situation, action: Action, latent: Latent) -> None:
    """Draws the goals with their probabilities as opacity, and a star at the active one.

    A reading is a circle around the agent.
    """
    state, belief, advised = situation
    pen = draw_arena(maze, ax, np.exp(belief))
    pen.star(latent + max(0.7 * maze.right_radius, 0.1), 11)  # beside the goal's number
    if state.sensed and state.reading > 0:
        pen.ring(state.position, float(state.reading), "sensing", 1.5, 0.45)
    pointmass.draw_body(pen, maze.body, state.position, bool(maze.senses(state, action)))
    pointmass.draw_thrusts(pen, maze.body, state.position, action, advised)


def draw_arena(maze: Maze, ax: Any, belief: np.ndarray | None = None) -> Any:
    """Draws frame, goals and walls, and returns the pen.

    The halo of a goal is where it counts as reached if it is a wrong one.
    """
    pen = pointmass.draw_frame(ax, maze.body, maze.half)
    goals = np.asarray(maze.goals)
    for goal in goals:
        pen.disc(goal, maze.wrong_radius, "pale", 0.45)
    for number, goal in enumerate(goals):
        pen.disc(goal, maze.right_radius, "paper")
        if belief is not None:
            pen.disc(goal, maze.right_radius, "belief", float(belief[number]), "goal")
        pen.ring(goal, maze.right_radius, "faint", 1.2)
        pen.text(goal, str(number + 1), 9)
    pointmass.draw_walls(pen, maze.body, np.asarray(maze.walls))
    return pen
