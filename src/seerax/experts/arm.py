"""A seven-joint arm: where it is, how its hand moves, and what it touches.

All functions take one configuration; vmap them for batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seerax.numerics import simd
from seerax.numerics.linalg import solve
from seerax.numerics.trig import sincos

# ---- kinematics ----------------------------------------------------------------------------------

FLANGE = 7  # the last frame
ELBOW, WRIST = 4, 5  # the ends of the forearm
ROUNDS = 2  # of inverse kinematics in one step


class Frames(NamedTuple):
    """The positions and axes of all links, in the world."""

    axes: Array  # [7, 3]: what each joint turns about
    origins: Array  # [8, 3]: where each joint turns, and the flange
    hand: Array  # [3 (left, up, forward), 3]


@dataclass(frozen=True, eq=False)
class Arm:
    """An arm in Denavit-Hartenberg parameters.

    Frame i follows from frame i-1 by Rot_z(q_i) Trans_z(d) Trans_x(a) Rot_x(alpha).
    """

    rows: np.ndarray  # [7, 3]: a, alpha, d
    base: np.ndarray  # [3]: the shoulder
    stand: np.ndarray  # [3 (x, y, z), 3]: the axes of the shoulder's frame, in the world
    low: np.ndarray  # [7], rad
    high: np.ndarray  # [7]
    rest: np.ndarray  # [7]: the posture that the spare degree of freedom is pulled to
    hold: np.ndarray  # [3 (left, up, forward), 3]: the wanted orientation of the hand
    grip: float  # from the flange to the point between the fingers
    pull: float = 0.05  # share of the way to the rest posture in one step, where the hand allows it
    position_slack: float = 1e-5  # m^2, against 1 rad^2 of every joint
    orientation_slack: float = 0.3  # rad^2: the hand turns only where it must to get there
    fastest: float = 0.15  # rad a joint may turn in one step

    def frames(self, joints: Array) -> Frames:
        """Returns the frames of all links.

        It scans over the joints: unrolled, the compiler would recompute every frame at each use.
        """
        a, alpha, d = self.rows.T.astype(np.float32)

        def link(
            frame: tuple[Array, ...], row: tuple[Array, ...]
        ) -> tuple[tuple[Array, ...], tuple[Array, Array]]:
            x, y, z, origin = frame
            sin, cos, sin_alpha, cos_alpha, a, d = row
            turned, y = cos * x + sin * y, cos * y - sin * x
            following = origin + d * z + a * turned
            frame = turned, cos_alpha * y + sin_alpha * z, cos_alpha * z - sin_alpha * y, following
            return frame, (z, following)

        stand = jnp.asarray(self.stand, jnp.float32)
        base = jnp.asarray(self.base, jnp.float32)
        rows = (*sincos(joints), np.sin(alpha), np.cos(alpha), a, d)
        (x, y, z, _), (axes, origins) = jax.lax.scan(link, (*stand, base), rows)
        return Frames(axes, jnp.concatenate([base[None], origins]), jnp.stack([x, y, z]))

    def point(self, frames: Frames) -> Array:
        """Returns the point between the fingers."""
        return frames.origins[FLANGE] + self.grip * frames.hand[2]

    def jacobian(self, frames: Frames) -> Array:
        """Returns how fast the grip moves and turns with each joint, [7, 6]."""
        return jnp.concatenate(
            [jnp.cross(frames.axes, self.point(frames) - frames.origins[:FLANGE]), frames.axes], 1
        )

    def moved(self, joints: Array, by: Array) -> Array:
        """Returns the joints after one step that moves the grip by `by` and turns it to `hold`."""
        target = self.point(self.frames(joints)) + by
        for _ in range(ROUNDS):
            joints = self._towards(joints, target)
        return joints

    def _towards(self, joints: Array, target: Array) -> Array:
        """Returns the joints after one round of damped least squares.

        dq = d + W J^T (J W J^T + S)^-1 (e - J d) conditions a Gaussian: beforehand dq ~ N(d, W),
        with d towards the rest posture and W vanishing at the joint limits; then J dq = e, the way
        that is left to go and to turn, is observed with variance S.
        """
        frames = self.frames(joints)
        J = self.jacobian(frames).T
        turn = 0.5 * jnp.cross(frames.hand, jnp.asarray(self.hold, jnp.float32)).sum(0)
        e = jnp.concatenate([target - self.point(frames), turn])
        d = self.pull / ROUNDS * (self.rest - joints)
        W = 4 * (joints - self.low) * (self.high - joints) / (self.high - self.low) ** 2
        S = jnp.diag(jnp.repeat(jnp.array([self.position_slack, self.orientation_slack]), 3))
        dq = d + W * (J.T @ solve((J * W) @ J.T + S, (e - J @ d)[:, None])[:, 0])
        dq = dq / jnp.maximum(1.0, jnp.abs(dq).max() * ROUNDS / self.fastest)
        return jnp.clip(joints + dq, self.low, self.high)


# ---- contacts ------------------------------------------------------------------------------------


class Capsules(NamedTuple):
    """All points within a radius of a segment."""

    ends: Array  # [n, 2, 3]
    radius: Array  # [n]


class Boxes(NamedTuple):
    """All points within a radius of an axis-aligned box, which may be a point, segment or plate."""

    low: Array  # [m, 3]
    high: Array  # [m, 3]
    radius: Array  # [m]


class Axis(NamedTuple):
    """One coordinate of pairs of a segment p + t v, 0 <= t <= 1, and a box."""

    p: Array
    v: Array
    low: Array
    high: Array

    def beyond(self, t: Array | float) -> Array:
        """Returns the offset from the nearest point of the box to the point at t."""
        point = self.p + t * self.v
        return point - jnp.clip(point, self.low, self.high)

    def crossings(self) -> list[Array]:
        """Returns the t at which the segment crosses the planes of the two faces, if it does."""
        v = jnp.where(jnp.abs(self.v) < 1e-9, 1e-9, self.v)
        return [jnp.clip((face - self.p) / v, 0, 1) for face in (self.low, self.high)]


def gaps(capsules: Capsules, boxes: Boxes) -> Array:
    """Returns the distances between surfaces, [n, m]; negative where they overlap.

    It computes with components, which is many times as fast as with vectors of three.
    """
    shape = capsules.radius.size, boxes.radius.size

    def pairs(values: Array) -> Array:
        return simd.fill(jnp.broadcast_to(values, shape).ravel())

    start = capsules.ends[:, 0, :, None]
    along = (capsules.ends[:, 1] - capsules.ends[:, 0])[..., None]
    sides = boxes.low, boxes.high
    axes = [
        Axis(pairs(start[:, i]), pairs(along[:, i]), *(pairs(side[:, i]) for side in sides))
        for i in range(3)
    ]
    t = nearest(axes)
    distance = jnp.sqrt(sum(jnp.square(axis.beyond(t)) for axis in axes))
    return distance[: shape[0] * shape[1]].reshape(shape) - capsules.radius[:, None] - boxes.radius


def nearest(axes: list[Axis]) -> Array:
    """Returns the exact t where segment and box are closest.

    Along a segment p + t v the squared distance to a box is convex, and half its slope,
    v . (p + t v - nearest), is linear between the knots where the segment crosses the planes of the
    faces. So the best t lies where that slope changes sign, between two neighbouring knots.
    """
    zero = jnp.zeros_like(axes[0].p)
    left, right, down, up = zero, zero + 1, zero - 1e9, zero + 1e9
    for knot in (zero, zero + 1, *(t for axis in axes for t in axis.crossings())):
        slope = sum(axis.v * axis.beyond(knot) for axis in axes)
        falling, rising = slope <= 0, slope >= 0
        left = jnp.maximum(left, jnp.where(falling, knot, 0))
        right = jnp.minimum(right, jnp.where(rising, knot, 1))
        down = jnp.maximum(down, jnp.where(falling, slope, -1e9))
        up = jnp.minimum(up, jnp.where(rising, slope, 1e9))
    return left + (right - left) * -down / jnp.maximum(up - down, 1e-12)


# ---- the WAM -------------------------------------------------------------------------------------

WAM_ROWS = np.array(
    [
        (0.0, -np.pi / 2, 0.0),
        (0.0, np.pi / 2, 0.0),
        (0.045, -np.pi / 2, 0.55),
        (-0.045, np.pi / 2, 0.0),
        (0.0, -np.pi / 2, 0.3),
        (0.0, np.pi / 2, 0.0),
        (0.0, 0.0, 0.06),
    ]
)
WAM_LOW = np.array([-2.6, -2.0, -2.8, -0.9, -4.76, -1.6, -3.0])
WAM_HIGH = np.array([2.6, 2.0, 2.8, 3.1, 1.24, 1.6, 3.0])
WAM_TOOL = 0.192  # from the wrist to the grip

FOREARM_RADIUS = 0.05
# Palm, two fingers on the right, a thumb on the left: both ends as (left, up, forward), from the
# wrist.
HAND = np.array(
    [
        [(0.0, 0.0, 0.0), (0.0, 0.0, 0.105)],
        [(-0.05, 0.025, 0.147), (-0.085, 0.025, 0.25)],
        [(-0.05, -0.025, 0.147), (-0.085, -0.025, 0.25)],
        [(0.05, 0.0, 0.147), (0.085, 0.0, 0.25)],
    ]
)
HAND_RADIUS = np.array([0.045, 0.012, 0.012, 0.012])


def body(frames: Frames) -> Capsules:
    """Returns the forearm, the palm and the fingers of a WAM."""
    wrist = frames.origins[WRIST]
    forearm = jnp.stack([frames.origins[ELBOW], wrist])
    hand = wrist + (HAND[..., None].astype(np.float32) * frames.hand).sum(-2)
    return Capsules(
        jnp.concatenate([forearm[None], hand]), jnp.asarray([FOREARM_RADIUS, *HAND_RADIUS])
    )
