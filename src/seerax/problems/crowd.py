"""CrowdNav: a car must cross a band where six people walk to goals only they know. Hitting one is costly.

The paper's appendix gives the car, the people's speeds and the rewards; the lengths of the road are those of the
authors' code. See docs/problems.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seerax import advice
from seerax.core import Action, BeliefMDP, Key, Latent, Situation, Step
from seerax.filters import Factored
from seerax.planning.shooting import Shooting, lattice

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
        car, place, pace = jnp.split(jax.random.uniform(key, (1 + 2 * WALKERS,)), [1, 1 + WALKERS])
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
        """The car changes speed and heading, then it and the people move straight for one second."""
        speed = jnp.maximum(state.speed + ACCELERATION * action[0], 0.0)
        heading = state.heading + STEERING * action[1]
        rear = state.rear + speed * direction(heading)
        noise = NOISE * jax.random.normal(key, (WALKERS,))
        pace = jnp.where(walking(state), state.speeds, 0.0)
        moved = pace[:, None] * direction(bearing(latent - state.people) + noise)
        people = state.people + moved

        before, after = seen_from_car(state.people - state.rear, heading), seen_from_car(people - rear, heading)
        hit = (distance_of_way(before, after) < RADIUS).any()
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

    def draw(self, ax: Any, situation: Situation, action: Action, latent: Latent) -> None:
        draw_crowd(ax, situation, action, latent)

    def _left_road(self, state: CrowdState) -> Array:
        """To a side, or turned round and out at the bottom. The rear only ever follows the front."""
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


def in_car_frame(x: Array, y: Array, sin: Array, cos: Array) -> tuple[Array, Array]:
    """Offsets from the rear point as metres to the right of the car's centre and ahead of it."""
    return cos * x + sin * y, cos * y - sin * x - CAR_LENGTH / 2


def seen_from_car(offset: Array, heading: Array) -> Array:
    """`in_car_frame` for offsets [n, 2]."""
    right, ahead = in_car_frame(offset[:, 0], offset[:, 1], jnp.sin(heading), jnp.cos(heading))
    return jnp.stack([right, ahead], -1)


def distance_of_point(x: Array, y: Array) -> Array:
    """Between the car's rectangle and a point in the car's frame."""
    beside, beyond = jnp.abs(x) - CAR_WIDTH / 2, jnp.abs(y) - CAR_LENGTH / 2
    return jnp.sqrt(jnp.maximum(beside, 0.0) ** 2 + jnp.maximum(beyond, 0.0) ** 2)


def distance_of_way(start: Array, end: Array) -> Array:
    """Between the car's rectangle and straight ways start-end, [..., 2] in the car's frame: exact at any speed.

    If they do not meet, the nearest pair has an end of the way or a corner of the rectangle in it.
    """
    corner, along = jnp.array([CAR_WIDTH, CAR_LENGTH]) / 2, end - start
    ends = jnp.minimum(*(distance_of_point(point[..., 0], point[..., 1]) for point in (start, end)))
    offset = corner * jnp.array([[1, 1], [1, -1], [-1, 1], [-1, -1]]) - start[..., None, :]
    share = (offset * along[..., None, :]).sum(-1) / jnp.maximum((along**2).sum(-1), 1e-12)[..., None]
    nearest = offset - jnp.clip(share, 0, 1)[..., None] * along[..., None, :]
    corners = jnp.sqrt((nearest**2).sum(-1)).min(-1)
    return jnp.where(meets(start, along, corner), 0.0, jnp.minimum(ends, corners))


def meets(start: Array, along: Array, corner: Array) -> Array:
    """Does start + t * along, 0 <= t <= 1, meet the box [-corner, corner]? It must be in both slabs at one time."""
    along = jnp.where(jnp.abs(along) < 1e-9, 1e-9, along)
    one, other = (-corner - start) / along, (corner - start) / along
    enter, leave = jnp.minimum(one, other).max(-1), jnp.maximum(one, other).min(-1)
    return jnp.maximum(enter, 0.0) <= jnp.minimum(leave, 1.0)


# ---- expert ------------------------------------------------------------------------------------------------------

LOOKAHEAD = np.arange(1.0, 16.0, 2.0)  # seconds
HEADWAY = float(np.exp(-(NOISE**2) / 2))  # E[cos(noise)]: metres made good per metre walked
SPEED_WEIGHT, HEADING_WEIGHT, DANGER_WEIGHT, EDGE_WEIGHT = 10.0, 1.0, 0.1, 15.0
CLOSEST = 0.05  # metres: gaps below this are all the same
EDGE = 1.0  # metres from the side where it begins to cost


class Way(NamedTuple):
    """Straight on after one change of speed and heading. Numbers rather than vectors: the search runs faster."""

    x: Array  # of the rear point
    y: Array
    heading: Array
    sin: Array
    cos: Array
    speed: Array


class Encounter(NamedTuple):
    """Where a person will be, seconds from now."""

    x: Array
    y: Array
    time: Array


def follow(state: CrowdState, action: Action) -> Way:
    heading = state.heading + STEERING * action[1]
    speed = jnp.maximum(state.speed + ACCELERATION * action[0], 0.0)
    return Way(state.rear[0], state.rear[1], heading, jnp.sin(heading), jnp.cos(heading), speed)


def forecast(state: CrowdState, goals: Latent) -> Encounter:
    """People walk straight to their goals, as fast as their noise lets them, and stay there: leaves [48]."""
    offset = goals - state.people
    distance = jnp.sqrt((offset**2).sum(-1))
    pace = jnp.where(walking(state), HEADWAY * state.speeds, 0.0)
    share = jnp.minimum(LOOKAHEAD[:, None] * pace / jnp.maximum(distance, 1e-6), 1.0)
    x, y = (state.people[:, axis] + share * offset[:, axis] for axis in range(2))
    return Encounter(x.ravel(), y.ravel(), jnp.repeat(jnp.asarray(LOOKAHEAD, jnp.float32), WALKERS))


def cost(way: Way) -> Array:
    """Slowness, heading away from the top, and nearing a side."""
    travelled = way.speed * LOOKAHEAD
    front = way.x - (travelled + CAR_LENGTH) * way.sin
    nearing = jnp.maximum(jnp.abs(front - WIDTH / 2) - (WIDTH / 2 - EDGE), 0.0)
    edge = jnp.where(way.y + travelled * way.cos < TOP, nearing, 0.0).sum()
    return HEADING_WEIGHT * jnp.abs(way.heading) - SPEED_WEIGHT * way.speed + EDGE_WEIGHT * edge


def danger(way: Way, encounter: Encounter) -> Array:
    """The inverse square of the gap between car and person, as long as the car has not passed."""
    travelled = encounter.time * way.speed
    right, ahead = in_car_frame(encounter.x - way.x, encounter.y - way.y, way.sin, way.cos)
    gap = distance_of_point(right, ahead - travelled) - RADIUS
    passed = way.y + travelled * way.cos >= TOP
    return jnp.where(passed, 0.0, DANGER_WEIGHT / jnp.maximum(gap, CLOSEST) ** 2)


def driver() -> Shooting:
    """Nine accelerations by five changes of heading."""
    candidates = lattice(np.linspace(-1, 1, 9), np.linspace(-1, 1, 5))
    return Shooting(candidates, follow, forecast, cost, danger)


# ---- builder -----------------------------------------------------------------------------------------------------


def crowdnav() -> BeliefMDP:
    """Belief over each person's goal; the expert drives as if everyone went to the mean of their goals."""
    problem, expert = CrowdNav(), driver().expert()
    filter = Factored(goals(), problem.log_likelihood)
    return BeliefMDP(problem, filter, advice.of_mean(filter, expert), expert)


# ---- drawing -----------------------------------------------------------------------------------------------------

DRIVING, WALKING = 5.0, 2.5  # seconds that the arrows of the car and of the people show


def draw_crowd(ax: Any, situation: Situation, action: Action, latent: Latent) -> None:
    """Arrows show the next seconds: one towards each goal of a person, as opaque as it is believed in, and where the
    action (red) and the advice (black) would take the car. Dotted lines lead to the true goals."""
    state, belief, advised = situation
    pen = draw_road(ax)
    pen.lines(np.stack([state.people, latent], axis=1)[np.asarray(walking(state))], "faint", 0.8, (0, (1, 3)))
    for number in range(WALKERS):
        draw_person(pen, state, number, np.exp(belief[number]))
    draw_car(pen, state)
    for choice, width, colour in ((action, 0.16, "action"), (advised, 0.06, "advice")):
        way = follow(state, choice)
        ahead = np.array([-way.sin, way.cos])
        pen.arrow(np.asarray(state.rear) + CAR_LENGTH * ahead, DRIVING * float(way.speed) * ahead, width, colour)


def draw_road(ax: Any) -> Any:
    """The road, the band where people start, the goals, and the line that the rear has to pass."""
    from seerax.problems.sketch import Pen  # matplotlib is for those who draw

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
    place = np.asarray(state.people[number])
    pen.disc(place, RADIUS, "optimal", 0.35, "person")
    pen.ring(place, RADIUS, "optimal", 1.2)
    if not walking(state)[number]:
        return
    for goal, chance in zip(np.asarray(goals())[:, number], chances, strict=True):
        along = (goal - place) / np.hypot(*(goal - place))
        edge, tip = place + RADIUS * along, place + (RADIUS + WALKING * float(state.speeds[number])) * along
        barbs = [tip - 0.2 * (along + side * 0.7 * along[::-1] * [-1, 1]) for side in (-1, 1)]
        pen.lines([[edge, tip], *([barb, tip] for barb in barbs)], "belief", 2.5).set_alpha(float(chance))


def draw_car(pen: Any, state: CrowdState) -> None:
    from matplotlib.transforms import Affine2D

    x, y = np.asarray(state.rear)
    turned = Affine2D().rotate_around(x, y, float(state.heading)) + pen.ax.transData
    body = pen.box((x - CAR_WIDTH / 2, y), CAR_WIDTH, CAR_LENGTH, "action" if state.hit else "agent", round=0.12)
    window = pen.box((x - 0.17, y + 1.2), 0.34, 0.3, "paper", "paper", round=0.05, line=0)
    for part in (body, window):
        part.set_transform(turned)
