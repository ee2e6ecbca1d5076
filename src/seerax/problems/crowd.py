"""CrowdNav: a car must cross a band where six people walk to goals only they know. Hitting one is costly, and so is time.

The paper's appendix gives the car, the people's speeds and the rewards; the lengths of the road are those of the
authors' code. See docs/problems.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from seerax import advice
from seerax.core import Action, BeliefMDP, Expert, Key, Latent, Situation, State, Step
from seerax.filters import Factored

# ---- constants ---------------------------------------------------------------------------------------------------

WIDTH = 9.0  # the road is 0 <= x <= WIDTH, metres
TOP = 4.0  # people start in the band 0 <= y <= TOP; the car has passed once its rear is above it
BOTTOM = -5.0
START = (4.0, BOTTOM)  # of the car's rear point
START_SPEED = 0.4  # at most, m/s; one step is one second

CAR_WIDTH, CAR_LENGTH = 0.5, 2.0
ACCELERATION, STEERING = 0.12, 0.1  # what an action of 1 means: m/s^2 and radians in this step

PER_SIDE = 3  # the first three people start on the left, the others on the right
WALKERS = 2 * PER_SIDE
RADIUS = 0.5  # of a person
SLOWEST, FASTEST = 0.1, 1.0  # m/s
BESIDE = 0.5  # people start this far beside the road
GOALS_Y = (0.5, 1.5, 2.5)
NOISE = 0.5  # std of a person's heading in a step, radians

PASSED, LEFT_ROAD, STEP_COST = 250.0, -1000.0, 0.1

# ---- state -------------------------------------------------------------------------------------------------------


class CrowdState(NamedTuple):
    rear: Array  # [2]: middle of the car's rear edge
    heading: Array  # 0 is up (+y), positive is to the left
    speed: Array
    people: Array  # [6, 2]
    speeds: Array  # [6]: of those who still walk
    moved: Array  # [6, 2]: displacement in the last step
    hit: Array  # the car touched someone in the last step


# ---- problem -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CrowdNav:
    """The latent holds the people's goals, [6, 2]. Action: acceleration and steering, each in [-1, 1]."""

    horizon: int = 100
    discount: float = 0.99
    action_low: tuple[float, ...] = (-1.0, -1.0)
    action_high: tuple[float, ...] = (1.0, 1.0)

    def prior(self, key: Key) -> Latent:
        index = jax.random.randint(key, (WALKERS,), 0, len(GOALS_Y))
        return goals()[index, jnp.arange(WALKERS)]

    def reset(self, key: Key, latent: Latent) -> CrowdState:
        speed_key, place_key, pace_key = jax.random.split(key, 3)
        x = jnp.where(from_left(), -BESIDE, WIDTH + BESIDE)
        y = jax.random.uniform(place_key, (WALKERS,), maxval=TOP)
        return CrowdState(
            rear=jnp.array(START),
            heading=jnp.float32(0),
            speed=jax.random.uniform(speed_key, maxval=START_SPEED),
            people=jnp.stack([x, y], -1),
            speeds=jax.random.uniform(pace_key, (WALKERS,), minval=SLOWEST, maxval=FASTEST),
            moved=jnp.zeros((WALKERS, 2)),
            hit=jnp.bool_(False),
        )

    def step(self, key: Key, state: CrowdState, action: Action, latent: Latent) -> Step:
        """The car changes speed and heading, then it and the people move straight for one second."""
        speed = jnp.maximum(state.speed + ACCELERATION * action[0], 0.0)
        heading = state.heading + STEERING * action[1]
        rear = state.rear + speed * direction(heading)
        noise = NOISE * jax.random.normal(key, (WALKERS,))
        pace = jnp.where(walking(state), state.speeds, 0.0)
        moved = pace[:, None] * direction(bearing(latent - state.people) + noise)
        people = state.people + moved

        before = in_car_frame(state.people, state.rear, heading)
        after = in_car_frame(people, rear, heading)
        hit = (distance_to_car(before, after) < RADIUS).any()
        state = CrowdState(rear, heading, speed, people, state.speeds, moved, hit)
        left, passed = self._left_road(state), self._passed(state)
        ending = jnp.where(hit, -collision_cost(speed), jnp.where(left, LEFT_ROAD, jnp.where(passed, PASSED, 0.0)))
        return Step(state, ending - STEP_COST, hit | left | passed)

    def features(self, state: CrowdState) -> Array:
        """Of the car: rear, front, heading, speed. Of each person: offset from the car, last displacement, pace."""
        front = front_of(state.rear, state.heading)
        car = jnp.stack([*state.rear / 5, *front / 5, jnp.sin(state.heading), jnp.cos(state.heading), state.speed])
        offsets = (state.people - state.rear) / 5
        pace = jnp.where(walking(state), state.speeds, 0.0)
        return jnp.concatenate([car, offsets.ravel(), state.moved.ravel(), pace])

    def succeeded(self, state: CrowdState, latent: Latent, done: Array) -> Array:
        return self._passed(state) & ~self._left_road(state) & ~state.hit

    def log_likelihood(self, state: CrowdState, action: Action, next_state: CrowdState, latent: Latent) -> Array:
        """Of each person's heading, [6], if these were their goals. Who has arrived says nothing any more."""
        turn = bearing(next_state.moved) - bearing(latent - state.people)
        return jnp.where(walking(state), log_wrapped_normal(turn, NOISE), 0.0)

    def _left_road(self, state: CrowdState) -> Array:
        """To a side, or turned round and out at the bottom. The front is always the first part of the car to leave."""
        x, y = front_of(state.rear, state.heading)
        return (x <= 0) | (x >= WIDTH) | (y <= BOTTOM)

    def _passed(self, state: CrowdState) -> Array:
        return state.rear[1] >= TOP


def goals() -> Array:
    """The candidates of every person, [3, 6, 2]: on the other side of the road."""
    x = jnp.where(from_left(), WIDTH, 0.0)
    y = jnp.array(GOALS_Y)
    return jnp.stack(jnp.broadcast_arrays(x, y[:, None]), -1)


def from_left() -> Array:
    return jnp.arange(WALKERS) < PER_SIDE


def walking(state: CrowdState) -> Array:
    """People stop once they are across."""
    x = state.people[:, 0]
    return jnp.where(from_left(), x < WIDTH, x > 0)


def direction(heading: Array) -> Array:
    return jnp.stack([-jnp.sin(heading), jnp.cos(heading)], -1)


def bearing(offset: Array) -> Array:
    """The heading of a displacement: the inverse of `direction`."""
    return jnp.arctan2(-offset[..., 0], offset[..., 1])


def log_wrapped_normal(angle: Array, std: float) -> Array:
    """Log-density of an angle that is normal before it is wrapped; one turn either way is enough for std < 1."""
    angle = jnp.mod(angle + jnp.pi, 2 * jnp.pi) - jnp.pi
    turns = angle[..., None] + 2 * jnp.pi * jnp.arange(-1, 2)
    return jax.scipy.special.logsumexp(-0.5 * (turns / std) ** 2, axis=-1) - jnp.log(std * jnp.sqrt(2 * jnp.pi))


def collision_cost(speed: Array) -> Array:
    return 100 * (2 * speed) ** 2 + 0.5


# ---- car ---------------------------------------------------------------------------------------------------------


def front_of(rear: Array, heading: Array) -> Array:
    return rear + CAR_LENGTH * direction(heading)


def in_car_frame(points: Array, rear: Array, heading: Array) -> Array:
    """Points [..., 2] as (metres to the right of the car's middle line, metres ahead of its rear edge)."""
    x, y = (points - rear)[..., 0], (points - rear)[..., 1]
    sin, cos = jnp.sin(heading), jnp.cos(heading)
    return jnp.stack([cos * x + sin * y, cos * y - sin * x], -1)


def distance_to_car(start: Array, end: Array) -> Array:
    """Exact distance between the car's rectangle and straight ways start-end, [..., 2] in the car's frame."""
    corner = jnp.array([CAR_WIDTH / 2, CAR_LENGTH / 2])  # seen from the middle of the car
    start, end = start - jnp.array([0.0, CAR_LENGTH / 2]), end - jnp.array([0.0, CAR_LENGTH / 2])
    along = end - start
    corners = corner * jnp.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    ends = jnp.minimum(distance_to_box(start, corner), distance_to_box(end, corner))
    offset = corners - start[..., None, :]
    share = (offset * along[..., None, :]).sum(-1) / jnp.maximum((along**2).sum(-1), 1e-12)[..., None]
    nearest = offset - jnp.clip(share, 0, 1)[..., None] * along[..., None, :]
    corner_distance = jnp.sqrt((nearest**2).sum(-1)).min(-1)
    return jnp.where(crosses_box(start, along, corner), 0.0, jnp.minimum(ends, corner_distance))


def distance_to_box(point: Array, corner: Array) -> Array:
    """Of points [..., 2] to the box [-corner, corner]."""
    return jnp.sqrt((jnp.maximum(jnp.abs(point) - corner, 0.0) ** 2).sum(-1))


def crosses_box(start: Array, along: Array, corner: Array) -> Array:
    """Does start + t * along, 0 <= t <= 1, meet the box [-corner, corner]? It is inside one slab per axis for a while."""
    along = jnp.where(jnp.abs(along) < 1e-9, 1e-9, along)
    one, other = (-corner - start) / along, (corner - start) / along
    enter, leave = jnp.minimum(one, other).max(-1), jnp.maximum(one, other).min(-1)
    return jnp.maximum(enter, 0.0) <= jnp.minimum(leave, 1.0)
