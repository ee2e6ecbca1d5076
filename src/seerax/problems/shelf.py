"""ArmShelf: a robot arm must find an object on one of two shelves, and hold its hand there without bumping into things.

The paper gives the task and the noise; the robot, the shelves, the rewards and where the object can be are the
constants of the authors' code; the shapes that touch each other are ours. See docs/problems.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seerax import advice
from seerax.arm import WAM_HIGH, WAM_LOW, WAM_ROWS, WAM_TOOL, Arm, Boxes, body, gaps
from seerax.core import Action, BeliefMDP, Expert, Key, Latent, Situation, State, Step
from seerax.gaussian import ExtendedKalman, Gaussian

# ---- constants ---------------------------------------------------------------------------------------------------
# Metres in the world frame: x points into the shelves, y to the left, z up.

STRIDE = 0.01  # the farthest the hand moves along each axis in one step
CLOSE = 0.08  # hand to object: there
BLIND = 5.0  # standard deviation of what is observed without sensing

FRONT, BACK, RIGHT, LEFT, TOP = -0.1, 0.3, -0.73, -0.03, 0.75
PLATES = (0.05, 0.40)  # height of the lower and the upper shelf
THICKNESS = 0.01
OBJECT_RADIUS, OBJECT_HALF = 0.03, 0.05  # it stands on its plate
OBJECT_LOW, OBJECT_HIGH = np.array([0.0, -0.575]), np.array([0.16, -0.175])  # where it can be, x and y
OBJECT_HEIGHTS = np.array([0.105, 0.455])

WAM = Arm(
    rows=WAM_ROWS,
    base=np.array([-0.654, -0.14, 0.62]),
    stand=np.array([(0, 0, -1), (0, 1, 0), (1, 0, 0)]),
    low=WAM_LOW,
    high=WAM_HIGH,
    rest=np.array([-0.685, 1.705, 2.145, 2.208, -1.323, -1.033, 0.021]),
    hold=np.array([(0, 1, 0), (0, 0, 1), (1, 0, 0)]),
    grip=WAM_TOOL - WAM_ROWS[-1, 2],
)


def shelf_boxes() -> tuple[np.ndarray, np.ndarray]:
    """(low, high) corners, [5, 3]: lower plate, upper plate, right wall, left wall, back."""
    low, high = (FRONT, RIGHT, PLATES[0]), (BACK, LEFT, TOP)
    centres = [
        [(FRONT, RIGHT, PLATES[0]), (BACK, LEFT, PLATES[0])],
        [(FRONT, RIGHT, PLATES[1]), (BACK, LEFT, PLATES[1])],
        [low, (BACK, RIGHT, TOP)],
        [(FRONT, LEFT, PLATES[0]), high],
        [(BACK, RIGHT, PLATES[0]), high],
    ]
    corners = np.array(centres)
    flat = corners[:, 0] == corners[:, 1]
    return corners[:, 0] - flat * THICKNESS / 2, corners[:, 1] + flat * THICKNESS / 2


# ---- state -------------------------------------------------------------------------------------------------------


class ShelfState(NamedTuple):
    joints: Array  # [7], rad
    hand: Array  # [3]: the point between the fingers
    reading: Array  # [3]: where the object seems to be; the hand itself before the first step
    sensed: Array
    touching: Array  # [2]: what the last move ran into: pairs of (part of the arm, part of the shelf), (part, object)


# ---- problem -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArmShelf:
    """The latent is the object's position. Action: three displacements of the hand, and sensing if the fourth is positive."""

    horizon: int = 200
    discount: float = 0.99
    sensing_cost: float = 1.0
    action_low: tuple[float, ...] = (-1.0,) * 4
    action_high: tuple[float, ...] = (1.0,) * 4

    def prior(self, key: Key) -> Latent:
        place, shelf = jax.random.split(key)
        xy = jax.random.uniform(place, (2,), minval=jnp.asarray(OBJECT_LOW), maxval=jnp.asarray(OBJECT_HIGH))
        return jnp.append(xy, jax.random.choice(shelf, jnp.asarray(OBJECT_HEIGHTS, jnp.float32)))

    def reset(self, key: Key, latent: Latent) -> ShelfState:
        joints = jnp.asarray(WAM.rest, jnp.float32)
        hand = WAM.point(WAM.frames(joints))
        return ShelfState(joints, hand, hand, jnp.bool_(False), jnp.zeros(2))

    def step(self, key: Key, state: ShelfState, action: Action, latent: Latent) -> Step:
        joints, hand, touching = self._move(state, STRIDE * action[:3], latent)
        sensed = self.senses(state, action)
        distance = jnp.linalg.norm(latent - hand)
        reading = latent + jnp.where(sensed, distance, BLIND) * jax.random.normal(key, (3,))
        cost = distance + touching.sum() + self.sensing_cost * sensed
        reward = jnp.where(distance < CLOSE, 1.0, -cost)
        return Step(ShelfState(joints, hand, reading, sensed, touching), reward, jnp.bool_(False))

    def features(self, state: ShelfState) -> Array:
        raise NotImplementedError

    def senses(self, state: State, action: Action) -> Array:
        return action[3] > 0

    def with_sensing(self, action: Action, on: Array) -> Action:
        """A small vote for or against sensing, which a residual can easily overrule."""
        return action.at[3].set(jnp.where(on, 0.1, -0.1))

    def succeeded(self, state: ShelfState, latent: Latent, done: Array) -> Array:
        return jnp.linalg.norm(latent - state.hand) < CLOSE

    def noise(self, state: ShelfState, mean: Array, covariance: Array) -> Array:
        """E[d^2] under the belief where the object was sensed from a distance d: nobody knows the true one."""
        square = jnp.square(state.hand - mean).sum() + jnp.trace(covariance)
        return jnp.where(state.sensed, square, BLIND**2) * jnp.eye(3)

    def _move(self, state: ShelfState, by: Array, latent: Latent) -> tuple[Array, Array, Array]:
        """(joints, hand, what it ran into): a move that would end in something solid is not made."""
        joints = WAM.moved(state.joints, by)
        frames = WAM.frames(joints)
        hits = gaps(body(frames), obstacles(latent)) < 0
        touching = jnp.array([hits[:, :-1].sum(), hits[:, -1].sum()], jnp.float32)
        free = ~hits.any()
        return jnp.where(free, joints, state.joints), jnp.where(free, WAM.point(frames), state.hand), touching


def obstacles(latent: Latent) -> Boxes:
    """The shelf, and last the object: a cylinder with rounded rims, all points within its radius of a short segment."""
    low, high = (jnp.asarray(corner, jnp.float32) for corner in shelf_boxes())
    half = jnp.array([0, 0, OBJECT_HALF - OBJECT_RADIUS])
    radius = jnp.zeros(len(low) + 1).at[-1].set(OBJECT_RADIUS)
    return Boxes(jnp.vstack([low, latent - half]), jnp.vstack([high, latent + half]), radius)


# ---- expert ------------------------------------------------------------------------------------------------------

STANDOFF = np.array([-0.04, 0.0, 0.015])  # from the object to where the hand holds
OUTSIDE = -0.20  # x of the hand at which the fingers are clear of the shelf
BEFORE = 0.14  # x from the object to the hand at which the fingers are clear of the object
ASIDE = 0.03  # y from the object to the hand at which the fingers pass it on both sides
FREE = np.array([(0.115, 0.33), (0.465, 0.65)])  # heights at which the hand clears the plates
SURE = 0.1  # the object is on a shelf if its height is that close


def reaching_expert(standoff=STANDOFF, outside=OUTSIDE, sure=SURE, before=BEFORE, aside=ASIDE) -> Expert:
    def act(state: ShelfState, target: Latent) -> Action:
        x, y, z = state.hand
        shelf = jnp.argmin(jnp.abs(target[2] - OBJECT_HEIGHTS))
        on = jnp.abs(target[2] - jnp.asarray(OBJECT_HEIGHTS)[shelf]) < sure
        low, high = jnp.asarray(FREE)[shelf]
        goal = target + standoff
        level = jnp.where(on, jnp.clip(goal[2], low, high), target[2])
        fits = on & (z > low - 0.01) & (z < high + 0.01) & (y > -0.605) & (y < -0.145)
        out = x < outside + 0.01
        ready = jnp.abs(y - target[1]) < aside
        free = ready | (x < target[0] - before + 0.01)
        gx = jnp.where(fits, jnp.where(ready, goal[0], target[0] - before), outside)
        gy = jnp.where(free | out, goal[1], y)
        gz = jnp.where((fits & free) | out, level, z)
        goal = jnp.array([gx, gy, gz])
        return jnp.append(jnp.clip((goal - state.hand) / STRIDE, -1, 1), -0.1)

    LO,HI = np.append(OBJECT_LOW, OBJECT_HEIGHTS[0]), np.append(OBJECT_HIGH, OBJECT_HEIGHTS[1])
    return Expert(plan=lambda latent: jnp.clip(latent, LO, HI), act=act)


# ---- builder -----------------------------------------------------------------------------------------------------


def prior() -> Gaussian:
    low, high = np.append(OBJECT_LOW, 0), np.append(OBJECT_HIGH, 0)
    mean = (low + high) / 2 + np.array([0, 0, OBJECT_HEIGHTS.mean()])
    variance = (high - low) ** 2 / 12 + np.array([0, 0, OBJECT_HEIGHTS.var()])
    return Gaussian(jnp.asarray(mean, jnp.float32), jnp.diag(jnp.asarray(variance, jnp.float32)))


def armshelf(probability: float = 0.5, **kw) -> BeliefMDP:
    problem = ArmShelf()
    filter = ExtendedKalman(prior(), lambda state, latent: latent, lambda state: state.reading, problem.noise)
    expert = reaching_expert(**kw)
    ensemble = advice.sometimes(problem, advice.most_likely(filter, expert), probability)
    return BeliefMDP(problem, filter, ensemble, expert)
