"""CrowdNav: a car must pass six people whose goals it does not know. Hitting one is costly.

The paper's appendix gives the car, the people's speeds and the rewards; the lengths of the road are
those of the authors' code. See docs/problems.md.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from seerax import advice
from seerax.core import Action, BeliefMDP, Key, Latent, Situation, Step
from seerax.experts.shooting import Shooting, lattice
from seerax.filters import Factored
from seerax.numerics import simd
from seerax.numerics.trig import arctan2, sincos

# ---- constants -----------------------------------------------------------------------------------

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

# ---- state ---------------------------------------------------------------------------------------


class CrowdState(NamedTuple):
    """The car, the people, and what the last step did to both."""

    rear: Array  # [2]: middle of the car's rear edge
    heading: Array  # 0 is up (+y), positive is to the left
    speed: Array
    people: Array  # [6, 2]
    speeds: Array  # [6]: of those who still walk
    moved: Array  # [6, 2]: displacement in the last step
    hit: Array  # the car touched someone in the last step


# ---- problem -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CrowdNav:
    """CrowdNav: the latent is the people's goals, [6, 2]; an action is (acceleration, steering)."""

    horizon: int = 100
    discount: float = 0.99
    action_low: tuple[float, ...] = (-1.0, -1.0)
    action_high: tuple[float, ...] = (1.0, 1.0)

    def prior(self, key: Key) -> Latent:
        index = (len(GOALS_Y) * simd.uniform(key, WALKERS)).astype(int)
        return goals()[index, jnp.arange(WALKERS)]

    def reset(self, key: Key, latent: Latent) -> CrowdState:
        car, place, pace = jnp.split(simd.uniform(key, 1 + 2 * WALKERS), [1, 1 + WALKERS])
        x = jnp.where(from_left(), -BESIDE, WIDTH + BESIDE)
        return CrowdState(
            rear=jnp.array(START),
            heading=jnp.float32(0),
            speed=START_SPEED * car[0],
            people=jnp.stack([x, TOP * place], -1),
            speeds=SLOWEST + (FASTEST - SLOWEST) * pace,
            moved=jnp.zeros((WALKERS, 2)),
            hit=jnp.bool_(False),
        )

    def step(self, key: Key, state: CrowdState, action: Action, latent: Latent) -> Step:
        """Changes the car's speed and heading; then car and people move straight for one second."""
        speed = jnp.maximum(state.speed + ACCELERATION * action[0], 0.0)
        heading = state.heading + STEERING * action[1]
        rear = state.rear + speed * direction(heading)
        moved = strides(key, state, latent)
        people = state.people + moved
        before = seen_from_car(state.people - state.rear, heading)
        after = seen_from_car(people - rear, heading)
        hit = (distance_of_way(before, after) < RADIUS).any()
        state = CrowdState(rear, heading, speed, people, state.speeds, moved, hit)
        left = self._left_road(state)
        passed = self._passed(state)
        ending = jnp.where(
            hit, -collision_cost(speed), jnp.where(left, LEFT_ROAD, jnp.where(passed, PASSED, 0.0))
        )
        return Step(state, ending - STEP_COST, hit | left | passed)

    def features(self, state: CrowdState) -> Array:
        """Returns the car's rear, front, heading, speed; the people's offsets, strides, speeds."""
        front = front_of(state.rear, state.heading)
        car = jnp.stack([*state.rear / 5, *front / 5, *sincos(state.heading), state.speed])
        offsets = (state.people - state.rear) / 5
        pace = jnp.where(walking(state), state.speeds, 0.0)
        return jnp.concatenate([car, offsets.ravel(), state.moved.ravel(), pace])

    def succeeded(self, state: CrowdState, latent: Latent, terminated: Array) -> Array:
        return self._passed(state) & ~self._left_road(state) & ~state.hit

    def log_likelihood(
        self, state: CrowdState, action: Action, next_state: CrowdState, latent: Latent
    ) -> Array:
        """Returns that of each heading, [6], given these goals; 0 for people who have arrived."""
        x, y = map(simd.fill, (latent - state.people).T)
        moved_x, moved_y = map(simd.fill, next_state.moved.T)
        turn = arctan2(x * moved_y - y * moved_x, x * moved_x + y * moved_y)
        return jnp.where(walking(state), log_wrapped_normal(turn, NOISE)[:WALKERS], 0.0)

    def draw(self, ax: Any, situation: Situation, action: Action, latent: Latent) -> None:
        draw_crowd(ax, situation, action, latent)

    def place(self, state: CrowdState) -> Array:
        """Returns where the agent is in the drawing: the middle of the car."""
        return (state.rear + front_of(state.rear, state.heading)) / 2

    def _left_road(self, state: CrowdState) -> Array:
        """True if the front, which the rear follows, is beyond a side or the bottom of the road."""
        x, y = front_of(state.rear, state.heading)
        return (x <= 0) | (x >= WIDTH) | (y <= BOTTOM)

    def _passed(self, state: CrowdState) -> Array:
        return state.rear[1] >= TOP


def goals() -> Array:
    """Returns the candidate goals of every person, [3, 6, 2], on the other side of the road."""
    x = jnp.where(from_left(), WIDTH, 0.0)
    y = jnp.array(GOALS_Y)
    return jnp.stack(jnp.broadcast_arrays(x, y[:, None]), -1)


def from_left() -> Array:
    """True for each person, [6], who starts on the left."""
    return jnp.arange(WALKERS) < PER_SIDE


def walking(state: CrowdState) -> Array:
    """True for each person, [6], who is not yet across the road; the others stand."""
    x = state.people[:, 0]
    return jnp.where(from_left(), x < WIDTH, x > 0)


def strides(key: Key, state: CrowdState, goals: Latent) -> Array:
    """Draws one second of walking towards the goals with a noisy heading, [6, 2]."""
    sin, cos = sincos(NOISE * simd.normal(key, WALKERS))
    x, y = (goals - state.people).T
    scale = jnp.where(walking(state), state.speeds, 0.0) / jnp.maximum(jnp.sqrt(x**2 + y**2), 1e-9)
    return jnp.stack([scale * (cos * x - sin * y), scale * (sin * x + cos * y)], -1)


def direction(heading: Array) -> Array:
    """Returns the unit vector of a heading."""
    sin, cos = sincos(heading)
    return jnp.stack([-sin, cos], -1)


def log_wrapped_normal(angle: Array, std: float) -> Array:
    """Returns the log-density of a wrapped normal angle; for std < 1 two turns are enough."""
    near = jnp.abs(angle - 2 * jnp.pi * jnp.round(angle / (2 * jnp.pi)))
    weight = sum(jnp.exp(-0.5 * (turns / std) ** 2) for turns in (near, 2 * jnp.pi - near))
    return jnp.log(weight / (std * (2 * jnp.pi) ** 0.5))


def collision_cost(speed: Array) -> Array:
    """Returns the cost of hitting a person at this speed, from the paper's appendix."""
    return 100 * (2 * speed) ** 2 + 0.5


# ---- car -----------------------------------------------------------------------------------------


def front_of(rear: Array, heading: Array) -> Array:
    """Returns the middle of the car's front edge."""
    return rear + CAR_LENGTH * direction(heading)


def in_car_frame(x: Array, y: Array, sin: Array, cos: Array) -> tuple[Array, Array]:
    """Converts offsets from the rear point to metres right of the car's centre and ahead of it."""
    return cos * x + sin * y, cos * y - sin * x - CAR_LENGTH / 2


def seen_from_car(offset: Array, heading: Array) -> Array:
    """Applies `in_car_frame` to offsets [n, 2]."""
    right, ahead = in_car_frame(offset[:, 0], offset[:, 1], *sincos(heading))
    return jnp.stack([right, ahead], -1)


def distance_of_point(x: Array, y: Array) -> Array:
    """Returns the distance from the car's rectangle to a point in the car's frame."""
    beside = jnp.abs(x) - CAR_WIDTH / 2
    beyond = jnp.abs(y) - CAR_LENGTH / 2
    return jnp.sqrt(jnp.maximum(beside, 0.0) ** 2 + jnp.maximum(beyond, 0.0) ** 2)


def distance_of_way(start: Array, end: Array) -> Array:
    """Returns the exact gap from the car's rectangle to straight ways, [..., 2] in its frame."""
    x, y = jnp.moveaxis(start, -1, 0)
    end_x, end_y = jnp.moveaxis(end, -1, 0)
    way = x, y, end_x - x, end_y - y
    # Apart, the nearest pair of points has an end of the way or a corner of the rectangle in it.
    ends = jnp.minimum(distance_of_point(x, y), distance_of_point(end_x, end_y))
    corners = [
        distance_to_corner(*way, a * CAR_WIDTH / 2, b * CAR_LENGTH / 2)
        for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1))
    ]
    return jnp.where(meets(*way), 0.0, functools.reduce(jnp.minimum, corners, ends))


def distance_to_corner(
    x: Array, y: Array, along_x: Array, along_y: Array, corner_x: float, corner_y: float
) -> Array:
    """Returns the distance from the way (x, y) + t * along, 0 <= t <= 1, to a point."""
    x = corner_x - x
    y = corner_y - y
    squared = jnp.maximum(along_x**2 + along_y**2, 1e-12)
    share = jnp.clip((x * along_x + y * along_y) / squared, 0, 1)
    return jnp.sqrt((x - share * along_x) ** 2 + (y - share * along_y) ** 2)


def meets(x: Array, y: Array, along_x: Array, along_y: Array) -> Array:
    """True if (x, y) + t * along, 0 <= t <= 1, is in both slabs of the car at the same time."""
    enter_x, leave_x = slab(x, along_x, CAR_WIDTH / 2)
    enter_y, leave_y = slab(y, along_y, CAR_LENGTH / 2)
    enter = jnp.maximum(jnp.maximum(enter_x, enter_y), 0.0)
    return enter <= jnp.minimum(jnp.minimum(leave_x, leave_y), 1.0)


def slab(x: Array, along: Array, half: float) -> tuple[Array, Array]:
    """Returns the times t at which x + t * along enters and leaves [-half, half]."""
    along = jnp.where(jnp.abs(along) < 1e-9, 1e-9, along)
    one = (-half - x) / along
    other = (half - x) / along
    return jnp.minimum(one, other), jnp.maximum(one, other)


# ---- expert --------------------------------------------------------------------------------------

LOOKAHEAD = np.arange(1.0, 16.0, 2.0)  # seconds
HEADWAY = float(np.exp(-(NOISE**2) / 2))  # E[cos(noise)]: metres towards the goal per metre walked
SPEED_WEIGHT, HEADING_WEIGHT, DANGER_WEIGHT, EDGE_WEIGHT = 10.0, 1.0, 0.1, 15.0
CLOSEST = 0.05  # metres: gaps below this are all the same
EDGE = 1.0  # metres from the side where it begins to cost


class Way(NamedTuple):
    """Driving straight on after one change of speed and heading, by scalars for a faster search."""

    x: Array  # of the rear point
    y: Array
    heading: Array
    sin: Array
    cos: Array
    speed: Array


class Scene(NamedTuple):
    """The positions of the people some seconds from now."""

    x: Array  # [6]
    y: Array
    time: Array


def follow(state: CrowdState, action: Action) -> Way:
    """Returns the way of the car after this action."""
    heading = state.heading + STEERING * action[1]
    speed = jnp.maximum(state.speed + ACCELERATION * action[0], 0.0)
    return Way(state.rear[0], state.rear[1], heading, *sincos(heading), speed)


def forecast(state: CrowdState, goals: Latent) -> Scene:
    """Predicts people who walk straight to their goals and stay there; leaves [8, ...]."""
    x, y = (goals - state.people).T
    headway = jnp.where(walking(state), HEADWAY * state.speeds, 0.0)
    pace = headway / jnp.maximum(jnp.sqrt(x**2 + y**2), 1e-6)
    share = jnp.minimum(LOOKAHEAD[:, None] * pace, 1.0)
    time = jnp.asarray(LOOKAHEAD, jnp.float32)
    return Scene(state.people[:, 0] + share * x, state.people[:, 1] + share * y, time)


def cost(way: Way) -> Array:
    """Returns the cost of driving slowly and of heading away from the top."""
    return HEADING_WEIGHT * jnp.abs(way.heading) - SPEED_WEIGHT * way.speed


def danger(way: Way, scene: Scene) -> Array:
    """Returns the cost of nearing sides and people (inverse square); 0 once the car has passed."""
    travelled = scene.time * way.speed
    front = way.x - (travelled + CAR_LENGTH) * way.sin
    total = EDGE_WEIGHT * jnp.maximum(jnp.abs(front - WIDTH / 2) - (WIDTH / 2 - EDGE), 0.0)
    for x, y in zip(scene.x, scene.y, strict=True):
        right, ahead = in_car_frame(x - way.x, y - way.y, way.sin, way.cos)
        gap = distance_of_point(right, ahead - travelled) - RADIUS
        total = total + DANGER_WEIGHT / jnp.maximum(gap, CLOSEST) ** 2
    return jnp.where(way.y + travelled * way.cos < TOP, total, 0.0)


def driver() -> Shooting:
    """Creates the search over nine accelerations by five changes of heading."""
    candidates = lattice(np.linspace(-1, 1, 9), np.linspace(-1, 1, 5))
    return Shooting(candidates, follow, forecast, cost, danger)


# ---- builder -------------------------------------------------------------------------------------


def crowdnav() -> BeliefMDP:
    """Builds a belief over each person's goal and the advice for the mean of these goals."""
    problem = CrowdNav()
    expert = driver().expert()
    filter = Factored(goals(), problem.log_likelihood)
    return BeliefMDP(problem, filter, advice.at_mean(filter, expert), expert)


# ---- drawing -------------------------------------------------------------------------------------

DRIVING, WALKING = 5.0, 2.5  # seconds of motion that the arrows of car and people show


def draw_crowd(ax: Any, situation: Situation, action: Action, latent: Latent) -> None:
    """Draws arrows for the next seconds, and dotted lines to the people's true goals.

    A goal's probability is its arrow's opacity; the car's are the action (red), the advice (black).
    """
    state, belief, advised = situation
    pen = draw_road(ax)
    truth = np.stack([state.people, latent], axis=1)[np.asarray(walking(state))]
    pen.lines(truth, "faint", 0.8, (0, (1, 3))).set_gid("truth")
    for number in range(WALKERS):
        draw_person(pen, state, number, np.exp(belief[number]))
    draw_car(pen, state)
    for choice, width, colour in ((action, 0.16, "action"), (advised, 0.06, "advice")):
        way = follow(state, choice)
        ahead = np.array([-way.sin, way.cos])
        front = np.asarray(state.rear) + CAR_LENGTH * ahead
        pen.arrow(front, DRIVING * float(way.speed) * ahead, width, colour)


def draw_road(ax: Any) -> Any:
    """Draws the road, the people's starting band, the goals and the finish; returns the pen."""
    from seerax.drawing import Pen  # imports matplotlib, which only drawing needs

    pen = Pen(ax)
    pen.page(-1.4, WIDTH + 1.4, BOTTOM - 0.4, TOP + 3.6)
    road = pen.box((0, BOTTOM - 1), WIDTH, TOP - BOTTOM + 6, "paper", "wall", line=2)
    for x in np.arange(0.375, WIDTH, 0.75):
        pen.inside(road).box((x - 0.19, 0), 0.38, TOP, "pale", "pale", line=0).set_alpha(0.5)
    pen.lines([[(0, TOP), (WIDTH, TOP)]], "clairvoyant", 2, (0, (4, 2)))
    pen.text((WIDTH - 0.15, TOP + 0.3), "passed", 9, "faint", ha="right")
    for x, y in np.asarray(goals()[:, [0, PER_SIDE]]).reshape(-1, 2):
        pen.disc((x, y), 0.13, "paper")
        pen.ring((x, y), 0.13, "wall", 1.5)
    return pen


def draw_person(pen: Any, state: CrowdState, number: int, chances: np.ndarray) -> None:
    """Draws a person, and an arrow towards each goal with its probability as opacity."""
    place = np.asarray(state.people[number])
    pen.disc(place, RADIUS, "person", 0.35, "person")
    pen.ring(place, RADIUS, "person", 1.2)
    if not walking(state)[number]:
        return
    for goal, chance in zip(np.asarray(goals())[:, number], chances, strict=True):
        along = (goal - place) / np.hypot(*(goal - place))
        edge = place + RADIUS * along
        tip = place + (RADIUS + WALKING * float(state.speeds[number])) * along
        barbs = [tip - 0.2 * (along + side * 0.7 * along[::-1] * [-1, 1]) for side in (-1, 1)]
        arrow = pen.lines([[edge, tip], *([barb, tip] for barb in barbs)], "belief", 2.5)
        arrow.set_alpha(float(chance))


def draw_car(pen: Any, state: CrowdState) -> None:
    """Draws the car, in the colour of the action if it has hit someone."""
    from matplotlib.transforms import Affine2D

    x, y = np.asarray(state.rear)
    turned = Affine2D().rotate_around(x, y, float(state.heading)) + pen.ax.transData
    colour = "action" if state.hit else "agent"
    body = pen.box((x - CAR_WIDTH / 2, y), CAR_WIDTH, CAR_LENGTH, colour, round=0.12)
    window = pen.box((x - 0.17, y + 1.2), 0.34, 0.3, "paper", "paper", round=0.05, line=0)
    for part in (body, window):
        part.set(transform=turned, gid="agent")
