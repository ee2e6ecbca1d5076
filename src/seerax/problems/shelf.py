"""ArmShelf: a robot arm must find an object on two shelves and hold its hand there.

The paper gives the task and the noise; the robot, the shelves, the rewards and where the object can
be are the constants of the authors' code; the collision shapes are seerax's. See docs/problems.md.
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
from seerax.experts.arm import WAM_HIGH, WAM_LOW, WAM_ROWS, WAM_TOOL, Arm, Boxes, body, gaps
from seerax.filters.gaussian import ExtendedKalman, Gaussian
from seerax.problems.voting import SENSING_VOTE, set_vote

# ---- constants -----------------------------------------------------------------------------------
# Metres in the world frame: x points into the shelves, y to the left, z up.

STRIDE = 0.01  # the farthest the hand moves along each axis in one step
CLOSE = 0.08  # from hand to object: the hand has reached it
BLIND = 5.0  # standard deviation of a reading without sensing

FRONT, BACK, RIGHT, LEFT, TOP = -0.1, 0.3, -0.73, -0.03, 0.75
PLATES = (0.05, 0.40)  # height of the lower and the upper shelf
THICKNESS = 0.01
OBJECT_RADIUS, OBJECT_HALF = 0.03, 0.05  # it stands on its plate
OBJECT_LOW = np.array([0.0, -0.575])  # where it can be, x and y
OBJECT_HIGH = np.array([0.16, -0.175])
OBJECT_HEIGHTS = np.array([0.105, 0.455])
SITES = np.array([(FRONT, -0.38, PLATES[1]), (FRONT, -0.38, PLATES[0])])  # the poses of the shelves
SCALE = 0.3  # metres that count as 1 in the features

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


def shelf() -> tuple[np.ndarray, np.ndarray]:
    """Returns the (low, high) corners, [5, 3], of two plates, right wall, left wall and back.

    The lower plate comes first; there is no lid.
    """
    sheets = np.array(
        [
            [(FRONT, RIGHT, PLATES[0]), (BACK, LEFT, PLATES[0])],
            [(FRONT, RIGHT, PLATES[1]), (BACK, LEFT, PLATES[1])],
            [(FRONT, RIGHT, PLATES[0]), (BACK, RIGHT, TOP)],
            [(FRONT, LEFT, PLATES[0]), (BACK, LEFT, TOP)],
            [(BACK, RIGHT, PLATES[0]), (BACK, LEFT, TOP)],
        ]
    )
    thin = sheets[:, 0] == sheets[:, 1]
    return sheets[:, 0] - thin * THICKNESS / 2, sheets[:, 1] + thin * THICKNESS / 2


# ---- state ---------------------------------------------------------------------------------------


class ShelfState(NamedTuple):
    """The arm, what the last step read and touched, and the time."""

    joints: Array  # [7], rad
    hand: Array  # [3]: the point between the fingers
    reading: Array  # [3]: where the object seems to be; the hand itself before the first step
    sensed: Array
    time: Array  # steps taken
    touching: Array  # [2]: number of contacts of the last move with the shelf, with the object


# ---- problem -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArmShelf:
    """ArmShelf, where the latent is the object's position.

    The action is a move of the hand and a fourth number, which senses if it is positive.
    """

    horizon: int = 200
    discount: float = 0.99
    sensing_cost: float = 1.0
    action_low: tuple[float, ...] = (-1.0,) * 4
    action_high: tuple[float, ...] = (1.0,) * 4

    def prior(self, key: Key) -> Latent:
        place, shelf = jax.random.split(key)
        xy = jax.random.uniform(
            place, (2,), minval=jnp.asarray(OBJECT_LOW), maxval=jnp.asarray(OBJECT_HIGH)
        )
        return jnp.append(xy, jax.random.choice(shelf, jnp.asarray(OBJECT_HEIGHTS, jnp.float32)))

    def reset(self, key: Key, latent: Latent) -> ShelfState:
        joints = jnp.asarray(WAM.rest, jnp.float32)
        hand = WAM.point(WAM.frames(joints))
        return ShelfState(joints, hand, hand, jnp.bool_(False), jnp.int32(0), jnp.zeros(2))

    def step(self, key: Key, state: ShelfState, action: Action, latent: Latent) -> Step:
        joints, hand, touching = self._move(state, STRIDE * action[:3], latent)
        sensed = self.senses(state, action)
        distance = jnp.linalg.norm(latent - hand)
        reading = latent + jnp.where(sensed, distance, BLIND) * jax.random.normal(key, (3,))
        cost = distance + touching.sum() + self.sensing_cost * sensed
        reward = jnp.where(distance < CLOSE, 1.0, -cost)
        time = state.time + 1
        return Step(
            ShelfState(joints, hand, reading, sensed, time, touching), reward, time >= self.horizon
        )

    def features(self, state: ShelfState) -> Array:
        """Returns hand, joints, shelves and reading relative to the hand, noise, contacts and time.

        The noise is 1 without sensing and 0 with it: its true scale, the distance, would give the
        object away. The time is the share of the episode that is left.
        """
        sites = (jnp.asarray(SITES, jnp.float32) - state.hand).ravel() / SCALE
        reading = (state.reading - state.hand) / jnp.where(state.sensed, SCALE, BLIND)
        blind = ~state.sensed[None]
        hand = (state.hand - prior().mean) / SCALE
        left = 1 - state.time[None] / self.horizon
        return jnp.concatenate(
            [hand, state.joints - WAM.rest, sites, reading, blind, state.touching, left]
        )

    def senses(self, state: State, action: Action) -> Array:
        return action[3] > 0

    def with_sensing(self, action: Action, on: Array) -> Action:
        """Returns the action with a small vote for or against sensing."""
        return set_vote(action, 3, on)

    def succeeded(self, state: ShelfState, latent: Latent, terminated: Array) -> Array:
        return jnp.linalg.norm(latent - state.hand) < CLOSE

    def noise(self, state: ShelfState, mean: Array, covariance: Array) -> Array:
        """Returns R: E[d^2] I under the belief if the object was sensed from a distance d.

        The true distance is unknown to the filter.
        """
        square = jnp.square(state.hand - mean).sum() + jnp.trace(covariance)
        return jnp.where(state.sensed, square, BLIND**2) * jnp.eye(3)

    def draw(self, ax: Any, situation: Situation, action: Action, latent: Latent) -> None:
        draw_shelf(self, ax, situation, action, latent)

    def _move(self, state: ShelfState, by: Array, latent: Latent) -> tuple[Array, Array, Array]:
        """Returns (joints, hand, contacts); a move that would end in contact is not made."""
        joints = WAM.moved(state.joints, by)
        frames = WAM.frames(joints)
        hits = gaps(body(frames), obstacles(latent)) < 0
        touching = jnp.array([hits[:, :-1].sum(), hits[:, -1].sum()], jnp.float32)
        free = ~hits.any()
        return (
            jnp.where(free, joints, state.joints),
            jnp.where(free, WAM.point(frames), state.hand),
            touching,
        )


def obstacles(latent: Latent) -> Boxes:
    """Returns the shelf's boxes and, last, the object: a short upright segment with a radius."""
    low, high = (jnp.asarray(corner, jnp.float32) for corner in shelf())
    half = jnp.array([0, 0, OBJECT_HALF - OBJECT_RADIUS])
    radius = jnp.zeros(len(low) + 1).at[-1].set(OBJECT_RADIUS)
    return Boxes(jnp.vstack([low, latent - half]), jnp.vstack([high, latent + half]), radius)


def prior() -> Gaussian:
    """Returns mean and covariance of where the object can be."""
    mean = np.append((OBJECT_LOW + OBJECT_HIGH) / 2, OBJECT_HEIGHTS.mean())
    variance = np.append((OBJECT_HIGH - OBJECT_LOW) ** 2 / 12, OBJECT_HEIGHTS.var())
    return Gaussian(jnp.asarray(mean, jnp.float32), jnp.diag(jnp.asarray(variance, jnp.float32)))


# ---- expert --------------------------------------------------------------------------------------

HOLD = np.array([-0.04, 0.0, 0.015])  # from the object to where the hand stays
OUTSIDE = -0.2  # the fingers are clear of the shelf up to this x of the hand
BEFORE = 0.14  # the fingers are clear of the object if the hand is that far in front of it
ASIDE = 0.03  # they pass it on both sides if the hand is at most that far beside it
SURE = 0.1  # an object counts as on a shelf within this distance of its height there
FREE_Y = (-0.605, -0.145)  # where the hand is clear of the walls
# Where the hand is clear of the plates: below, between and above them.
FREE_Z = np.array([(-1.0, -0.01), (0.105, 0.34), (0.455, 0.75)])


def reaching_expert() -> Expert:
    """Creates the expert that brings the hand to the object without contact and never senses."""
    low = np.append(OBJECT_LOW, OBJECT_HEIGHTS[0])
    high = np.append(OBJECT_HIGH, OBJECT_HEIGHTS[1])

    def act(state: ShelfState, target: Latent) -> Action:
        way = (waypoint(state.hand, target) - state.hand) / STRIDE
        return jnp.append(jnp.clip(way, -1, 1), -SENSING_VOTE)

    return Expert(plan=lambda latent: jnp.clip(latent, low, high), act=act)


def waypoint(hand: Array, target: Array) -> Array:
    """Returns where the hand goes next on its way to the object.

    In front of the shelf it moves to the object's height and side, then in, then it puts the
    fingers around the object. Where it cannot move freely it backs out first; it stays out while
    the object seems to be between the shelves.
    """
    x, y, z = hand
    place = jnp.argmin(jnp.abs(target[2] - OBJECT_HEIGHTS))
    sure = jnp.abs(target[2] - jnp.asarray(OBJECT_HEIGHTS)[place]) < SURE
    low, high = jnp.asarray(FREE_Z)[1 + place]
    fits = sure & (low < z) & (z < high) & (FREE_Y[0] < y) & (y < FREE_Y[1])
    straight = jnp.abs(y - target[1]) < ASIDE
    free = (x < OUTSIDE + STRIDE) | (fits & (straight | (x < target[0] - BEFORE + STRIDE)))
    inside = jnp.where(straight, target[0] + HOLD[0], target[0] - BEFORE)
    height = jnp.where(sure, jnp.clip(target[2] + HOLD[2], low + STRIDE, high - STRIDE), target[2])
    # Clear of the plates, on the same side of them.
    level = jnp.clip(z, *jnp.asarray(FREE_Z)[(z > jnp.array(PLATES)).sum()])
    aside = jnp.where(free, jnp.array([target[1], height]), jnp.array([y, level]))
    return jnp.append(jnp.where(fits, inside, OUTSIDE), aside)


# ---- builder -------------------------------------------------------------------------------------


def armshelf(sensing: float = 0.5) -> BeliefMDP:
    """Builds a Gaussian belief and the expert for its mean, with random sensing."""
    problem = ArmShelf()
    filter = ExtendedKalman(
        prior(), lambda state, latent: latent, lambda state: state.reading, problem.noise
    )
    expert = reaching_expert()
    ensemble = advice.sense_randomly(problem, advice.most_likely(filter, expert), sensing)
    return BeliefMDP(problem, filter, ensemble, expert)


# ---- drawing -------------------------------------------------------------------------------------

LOW, HIGH = np.array([-0.84, -0.76, -0.02]), np.array([0.34, 0.02, 0.78])  # what is shown
ARROW = 0.12  # length of a full move
UPPER_ARM_RADIUS = 0.055
ELLIPSES = ((2.0, 0.2), (1.0, 0.35))  # standard deviations, opacity


class View(NamedTuple):
    """A view with x to the right and another axis upwards, drawn `drop` lower on the page."""

    up: int
    drop: float
    name: str

    def flat(self, points: Any) -> np.ndarray:
        """Projects points [..., 3] onto the page, [..., 2]."""
        return np.asarray(points)[..., [0, self.up]] - np.array([0, self.drop])


SIDE, ABOVE = View(2, 0.0, "from the side"), View(1, 0.06, "from above")


def draw_shelf(
    problem: ArmShelf, ax: Any, situation: Situation, action: Action, latent: Latent
) -> None:
    """Draws the view from the side and, below it, the view from above."""
    from seerax.drawing import Pen  # imports matplotlib, which only drawing needs

    pen = Pen(ax)
    pen.page(LOW[0] - 0.02, HIGH[0] + 0.02, ABOVE.flat(LOW)[1] - 0.02, HIGH[2] + 0.02)
    for view in (SIDE, ABOVE):
        (left, bottom), (right, top) = view.flat(LOW), view.flat(HIGH)
        frame = pen.box(
            (left, bottom), right - left, top - bottom, "paper", "pale", round=0.03, line=1
        )
        framed = pen.inside(frame)
        framed.text((left + 0.03, top - 0.05), view.name, 8, "faint", ha="left")
        draw_plates(framed, view)
        draw_arm(framed, view, situation.state)
        draw_belief(framed, view, situation.belief)
        draw_object(framed, view, np.asarray(latent))
        draw_choice(framed, view, problem, situation, action)


def draw_plates(pen: Any, view: View) -> None:
    """Draws the shelf, dark where it is seen edge on."""
    low, high = map(view.flat, shelf())
    thin = (high - low).min(-1) < 2 * THICKNESS
    for i in np.argsort(thin):
        colour = "wall" if thin[i] else "pale"
        pen.box(low[i], *(high[i] - low[i]), colour, colour, line=0)


def draw_belief(pen: Any, view: View, belief: Gaussian) -> None:
    """Draws the belief as ellipses of one and two standard deviations."""
    from matplotlib.patches import Polygon

    from seerax.drawing import PALETTE

    around = np.linspace(0, 2 * np.pi, 60)
    covariance = np.asarray(belief.covariance)[np.ix_([0, view.up], [0, view.up])]
    ring = np.stack([np.cos(around), np.sin(around)], -1) @ np.linalg.cholesky(covariance).T
    for width, opacity in ELLIPSES:
        outline = view.flat(belief.mean) + width * ring
        patch = Polygon(
            outline,
            facecolor=PALETTE["belief"],
            edgecolor="none",
            alpha=opacity,
            zorder=2,
            gid="belief",
        )
        pen.ax.add_patch(patch).set_clip_path(pen.within)


def draw_arm(pen: Any, view: View, state: ShelfState) -> None:
    """Draws the arm; the hand is red if its last move was blocked."""
    frames = WAM.frames(jnp.asarray(state.joints))
    ends, radius = map(np.asarray, body(frames))
    shoulder, elbow, forearm = view.flat(frames.origins)[[0, 3, 4]]
    pen.capsules(np.array([(shoulder, elbow), (elbow, forearm)]), UPPER_ARM_RADIUS, "faint")
    pen.capsules(view.flat(ends[:1]), radius[0], "faint")
    blocked = float(np.sum(state.touching)) > 0
    for segment, thick in zip(view.flat(ends[1:]), radius[1:], strict=True):
        pen.capsules(segment[None], thick, "action" if blocked else "agent")


def draw_object(pen: Any, view: View, latent: np.ndarray) -> None:
    """Draws the outline of the object."""
    middle = view.flat(latent)
    if view is ABOVE:
        pen.ring(middle, OBJECT_RADIUS, "truth", 1.2, style=":").set_gid("truth")
    else:
        half = (OBJECT_RADIUS, OBJECT_HALF)
        corners = middle + np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * half
        sides = list(zip(corners, np.roll(corners, -1, 0), strict=True))
        pen.lines(sides, "truth", 1.2, ":").set_gid("truth")


def draw_choice(
    pen: Any, view: View, problem: ArmShelf, situation: Situation, action: Action
) -> None:
    """Draws the moves of action and advice, a ring if the action senses, and the last reading."""
    state = situation.state
    hand = view.flat(state.hand)
    if state.sensed:
        pen.disc(view.flat(state.reading), 0.014, "sensing")
    if problem.senses(state, action):
        pen.ring(hand, 0.06, "sensing", 2.5)
    pen.disc(hand, 0.012, "paper")
    for move, width, colour in ((action, 0.014, "action"), (situation.advice, 0.006, "advice")):
        pen.arrow(hand, ARROW * np.asarray(move)[[0, view.up]], width, colour)
