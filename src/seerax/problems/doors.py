"""Door4: find an open one of four doors in a wall. Sensing costs little, crashing costs much.

Rules and rewards follow the paper; body, wall, doors, start and target are the constants of the
authors' code. See docs/problems.md.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seerax import advice
from seerax.core import Action, BeliefMDP, Expert, Key, Latent, Situation, State, Step
from seerax.filters import Categorical
from seerax.problems import pointmass
from seerax.problems.pointmass import SPHERE
from seerax.problems.voting import SENSING_VOTE, set_vote

# ---- constants -----------------------------------------------------------------------------------

HALF = 1.4  # the arena is [-HALF, HALF]^2
WALL_Y = 0.3
DOORS_X = np.array([-1.0, -0.4, 0.4, 1.0])  # centres
DOOR_WIDTH = 0.4
# The wall between the doors.
PIECES_X = [(-1.5, -1.2), (-0.8, -0.6), (-0.2, 0.2), (0.6, 0.8), (1.2, 1.5)]
PIECES = np.array([[(low, WALL_Y), (high, WALL_Y)] for low, high in PIECES_X])
CENTRES = np.array([(x, WALL_Y) for x in DOORS_X])
# The closed doors.
BARS = np.array([[(x - DOOR_WIDTH / 2, WALL_Y), (x + DOOR_WIDTH / 2, WALL_Y)] for x in DOORS_X])
START_X, START_Y = 1.0, -1.0  # x ~ U(-START_X, START_X)
TARGET = np.array([0.0, 1.2])
TARGET_RADIUS = 0.2
TARGET_REWARD, CRASH_COST, SENSING_COST = 100.0, 10.0, 1.0
OPEN, UNKNOWN, CLOSED = 1.0, 0.0, -1.0  # what a reading says of a door
SPEED, GAIN = 1.0, 3.0  # the experts' speed, and thrust per missing m/s
IN_FRONT, BEHIND = 0.1, 0.5  # y of the experts' waypoints before and after the wall
IN_LINE = 0.08  # they go through when they are this close to the middle of the door

# ---- state ---------------------------------------------------------------------------------------


class DoorState(NamedTuple):
    """The body, what its last step did at the doors, and what was read of them."""

    position: Array
    velocity: Array
    crashed: Array  # [4]: this step touched that closed door
    passed: Array  # [4]: this step crossed the wall's centre line through that door
    reading: Array  # [4]: OPEN, CLOSED, or UNKNOWN if not sensed
    sensed: Array


# ---- problem -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Doors:
    """Door4, where the latent is 1 for each open door and 0 for each closed one, [4], never all 0.

    The action is two thrusts and a third number, which senses if it is positive.
    """

    sensing_cost: float = SENSING_COST
    horizon: int = 300
    discount: float = 1.0
    action_low: tuple[float, ...] = (-1.0, -1.0, -1.0)
    action_high: tuple[float, ...] = (1.0, 1.0, 1.0)

    def prior(self, key: Key) -> Latent:
        return jax.random.choice(key, configurations()[1:])

    def reset(self, key: Key, latent: Latent) -> DoorState:
        x = jax.random.uniform(key, minval=-START_X, maxval=START_X)
        nothing = jnp.zeros(4, bool)
        position = jnp.stack([x, jnp.float32(START_Y)])
        return DoorState(
            position, jnp.zeros(2), nothing, nothing, jnp.full(4, UNKNOWN), jnp.bool_(False)
        )

    def step(self, key: Key, state: DoorState, action: Action, latent: Latent) -> Step:
        walls = jnp.asarray(np.concatenate([PIECES, BARS]), jnp.float32)
        there = jnp.append(jnp.ones(len(PIECES), bool), latent == 0)
        motion = pointmass.move(
            SPHERE, walls, HALF, state.position, state.velocity, action[:2], there
        )
        crashed = motion.touched[len(PIECES) :]
        passed = crossings(motion.path)
        sensed = self.senses(state, action)
        right = jax.random.bernoulli(key, accuracy(motion.position))
        reading = jnp.where(sensed, jnp.where(right == (latent == 1), OPEN, CLOSED), UNKNOWN)
        state = DoorState(motion.position, motion.velocity, crashed, passed, reading, sensed)
        terminated = arrived(state)
        return Step(
            state,
            TARGET_REWARD * terminated - CRASH_COST * crashed.any() - self.sensing_cost * sensed,
            terminated,
        )

    def features(self, state: DoorState) -> Array:
        """Returns position, velocity, offset to the target, and each door's crash and passage."""
        offset = TARGET - state.position
        return jnp.concatenate(
            [state.position, state.velocity, offset, state.crashed, state.passed]
        )

    def senses(self, state: State, action: Action) -> Array:
        return action[2] > 0

    def with_sensing(self, action: Action, on: Array) -> Action:
        """Returns the action with a small vote for or against sensing."""
        return set_vote(action, 2, on)

    def succeeded(self, state: DoorState, latent: Latent, terminated: Array) -> Array:
        return arrived(state)

    def log_likelihood(
        self, state: State, action: Action, next_state: DoorState, latent: Latent
    ) -> Array:
        """Returns that of the reading, bit by bit; a crash or passage reveals its door exactly."""
        right = accuracy(next_state.position)
        said_open = next_state.reading == OPEN
        told = jnp.where(next_state.sensed, jnp.log(jnp.stack([right, 1 - right])), 0.0)
        if_open = jnp.where(next_state.crashed, -jnp.inf, jnp.where(said_open, told[0], told[1]))
        if_closed = jnp.where(next_state.passed, -jnp.inf, jnp.where(said_open, told[1], told[0]))
        return jnp.where(latent == 1, if_open, if_closed).sum()

    def draw(self, ax: Any, situation: Situation, action: Action, latent: Latent) -> None:
        draw_doors(ax, situation, action, latent)

    @property
    def half(self) -> float:
        """Returns half the side of the drawing, which shows [-half, half]^2."""
        return HALF

    def draw_place(self, ax: Any) -> Any:
        return draw_room(ax)

    def place(self, state: DoorState) -> Array:
        """Returns where the agent is in the drawing."""
        return state.position


def configurations() -> Array:
    """Returns all 16 combinations, [16, 4], in binary order: 1 is open, and door 0 counts 8.

    The first, with all doors closed, never occurs.
    """
    return jnp.array(list(itertools.product([0.0, 1.0], repeat=4)))


def accuracy(position: Array) -> Array:
    """Returns for each door, [4], the probability that its bit is right.

    It is 0.5 + 0.5 exp(-distance to the door's centre).
    """
    x = CENTRES[:, 0] - position[0]
    y = CENTRES[:, 1] - position[1]
    return 0.5 + 0.5 * jnp.exp(-jnp.sqrt(x**2 + y**2))


def crossings(path: Array) -> Array:
    """True for each door, [4], in whose opening the path [n, 2] crosses the wall's centre line.

    In an opening the body's centre keeps its contact distance from both posts, so any point of the
    crossing identifies the door.
    """
    above = path[:, 1] > WALL_Y
    crosses = above[1:] != above[:-1]
    within = jnp.abs(path[1:, :1] - DOORS_X) < DOOR_WIDTH / 2
    return (crosses[:, None] & within).any(0)


def arrived(state: DoorState) -> Array:
    """True if the body is within the target."""
    return jnp.linalg.norm(TARGET - state.position) < TARGET_RADIUS


def crashes(
    problem: Doors, returns: np.ndarray, sensed: np.ndarray, success: np.ndarray
) -> np.ndarray:
    """Returns how many steps of whole episodes touched a closed door.

    They follow from the return, to which everything else contributes a known amount.
    """
    return np.rint((TARGET_REWARD * success - problem.sensing_cost * sensed - returns) / CRASH_COST)


# ---- expert --------------------------------------------------------------------------------------


def nearest_door_expert() -> Expert:
    """Creates the expert that goes through the closest open door and never senses."""

    def act(state: DoorState, latent: Latent) -> Action:
        target = waypoint(state.position, latent)
        thrust = pointmass.pursue(target, state.position, state.velocity, SPEED, GAIN)
        return jnp.append(thrust, -SENSING_VOTE)

    return Expert(plan=lambda latent: latent, act=act)


def waypoint(position: Array, latent: Latent) -> Array:
    """Returns a place in front of the closest open door, then one behind it, then the target."""
    x = jnp.float32(0)
    aside = jnp.float32(jnp.inf)
    for number, door in enumerate(DOORS_X):  # for 16 experts a loop is faster than argmin
        # All doors lie on one line, so the closest along this line is the closest.
        distance = jnp.abs(door - position[0])
        closer = (latent[number] == 1) & (distance < aside)
        x = jnp.where(closer, door, x)
        aside = jnp.where(closer, distance, aside)
    y = jnp.where(aside < IN_LINE, BEHIND, IN_FRONT)
    below = position[1] < WALL_Y
    return jnp.stack([jnp.where(below, x, TARGET[0]), jnp.where(below, y, TARGET[1])])


# ---- builder -------------------------------------------------------------------------------------


def door4(sensing_cost: float = SENSING_COST) -> BeliefMDP:
    """Builds a belief over the configurations, the weighted sum of experts and random sensing."""
    problem = Doors(sensing_cost)
    expert = nearest_door_expert()
    log_prior = jnp.where(configurations().any(-1), 0.0, -jnp.inf)
    filter = Categorical(configurations(), problem.log_likelihood, log_prior)
    ensemble = advice.sense_randomly(problem, advice.weighted(filter, expert))
    return BeliefMDP(problem, filter, ensemble, expert)


def door4_cheap_sensing() -> BeliefMDP:
    """Builds Door4 with the sensing cost of the authors' code, 0.1; the paper says 1."""
    return door4(sensing_cost=0.1)


# ---- drawing -------------------------------------------------------------------------------------


def draw_doors(ax: Any, situation: Situation, action: Action, latent: Latent) -> None:
    """Draws each door with the probability that it is closed as opacity; a ring shows sensing.

    A star marks each door that is really open.
    """
    state, belief, advised = situation
    pen = draw_room(ax, 1 - np.exp(belief) @ np.asarray(configurations()))
    for x in DOORS_X[np.asarray(latent) == 1]:
        pen.star((x, WALL_Y + 0.16), 9)
    if state.sensed:
        draw_reading(pen, state.reading)
    pointmass.draw_body(pen, SPHERE, state.position, bool(action[2] > 0), bool(state.crashed.any()))
    pointmass.draw_thrusts(pen, SPHERE, state.position, action, advised)


def draw_room(ax: Any, blocked: np.ndarray | None = None) -> Any:
    """Draws frame, wall, target and doors, and returns the pen.

    Doors are outlines if the probabilities that they are blocked are not given.
    """
    pen = pointmass.draw_frame(ax, SPHERE, HALF)
    pen.ring(TARGET, TARGET_RADIUS, "faint", 1.2)
    pen.text(TARGET, "target", 9)
    if blocked is None:
        pen.lines(BARS, "faint", 1.0, (0, (2, 2)))
    else:
        for segment, chance in zip(BARS, blocked, strict=True):
            bar = pointmass.draw_walls(pen, SPHERE, segment[None], "action")
            bar.set(alpha=float(np.clip(chance, 0, 1)), gid="door")
    pointmass.draw_walls(pen, SPHERE, PIECES)
    return pen


def draw_reading(pen: Any, reading: np.ndarray) -> None:
    """Writes what the sensor read below each door."""
    for x, bit in zip(DOORS_X, reading, strict=True):
        pen.text((x, WALL_Y - 0.15), "open" if bit == OPEN else "closed", 8, "sensing")
