"""A point mass among walls, with exact motion between contacts that have no bounce or friction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

PRESSED = 1e-6  # metres of overlap; less is rounding and does not count as touching a wall


@dataclass(frozen=True)
class Body:
    """A body with mass * dv/dt = gear * u - damping * v on each axis, for u in [-1, 1]."""

    mass: float
    gear: float
    damping: float
    seconds: float  # one step
    substeps: int  # contacts are resolved this many times in a step
    contact: float  # distance of the centre to a wall's centre line at contact


# The body of Maze4 and Door4.
SPHERE = Body(mass=0.5336, gear=2.0, damping=0.1, seconds=0.05, substeps=5, contact=0.0849)


class Motion(NamedTuple):
    """One step of the body."""

    position: Array
    velocity: Array
    path: Array  # [substeps + 1, 2]: every position on the way, the first one included
    touched: Array  # [m]: walls pressed against in any substep


def move(
    body: Body,
    walls: Array,
    half: float,
    position: Array,
    velocity: Array,
    thrust: Array,
    there: Array | None = None,
) -> Motion:
    """Moves the body one step in [-half, half]^2 among walls [m, 2 (ends), 2].

    Only the walls that are `there` [m] exist.
    """
    there = jnp.ones(walls.shape[0], bool) if there is None else there
    rate = body.damping / body.mass
    dt = body.seconds / body.substeps
    decay = float(np.exp(-rate * dt))
    terminal = body.gear / body.damping * thrust

    def substep(
        moving: tuple[Array, Array], _: None
    ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        position, velocity = moving
        drift = velocity - terminal
        position = position + terminal * dt + drift * (1 - decay) / rate
        velocity = terminal + drift * decay
        position, velocity, first = push_out(body.contact, walls, there, position, velocity)
        # The second pass resolves corners.
        position, velocity, second = push_out(body.contact, walls, there, position, velocity)
        inside = jnp.clip(position, -half, half)
        velocity = jnp.where(inside == position, velocity, 0.0)
        return (inside, velocity), (inside, first | second)

    moved, (path, touched) = jax.lax.scan(substep, (position, velocity), length=body.substeps)
    return Motion(*moved, jnp.concatenate([position[None], path]), touched.any(0))


def pursue(target: Array, position: Array, velocity: Array, speed: float, gain: float) -> Array:
    """Returns the thrust that brings the body to a target at a steady speed.

    It computes with components, which is many times as fast as with vectors of two.
    """
    x = target[0] - position[0]
    y = target[1] - position[1]
    pace = speed / jnp.maximum(jnp.sqrt(x**2 + y**2), 1e-6)
    thrust_x = gain * (pace * x - velocity[0])
    thrust_y = gain * (pace * y - velocity[1])
    excess = jnp.maximum(1.0, jnp.maximum(jnp.abs(thrust_x), jnp.abs(thrust_y)))
    return jnp.stack([thrust_x / excess, thrust_y / excess])


def push_out(
    contact: float, walls: Array, there: Array, position: Array, velocity: Array
) -> tuple[Array, Array, Array]:
    """Moves the body out of the wall it has entered deepest and removes its speed into that wall.

    Returns (position, velocity, which walls it has entered [m]). It computes with components, which
    is three times as fast as with vectors of two.
    """
    (start_x, start_y), (end_x, end_y) = walls.transpose(1, 2, 0)
    along_x = end_x - start_x
    along_y = end_y - start_y
    x = position[0] - start_x
    y = position[1] - start_y
    share = jnp.clip((x * along_x + y * along_y) / (along_x**2 + along_y**2), 0, 1)
    x = x - share * along_x
    y = y - share * along_y
    distance = jnp.where(there, jnp.sqrt(x**2 + y**2 + 1e-12), jnp.inf)
    nearest = jnp.argmin(distance)
    normal = jnp.stack([x[nearest], y[nearest]]) / distance[nearest]
    depth = contact - distance
    hit = depth[nearest] > 0
    position = position + jnp.where(hit, depth[nearest], 0.0) * normal
    velocity = velocity - jnp.where(hit, jnp.minimum(velocity @ normal, 0.0), 0.0) * normal
    return position, velocity, depth > PRESSED


# ---- drawing -------------------------------------------------------------------------------------

AGENT_SHARE = 0.53  # of the contact distance; the rest is half a wall's thickness
ARROW = 0.5  # length of full thrust


def draw_frame(ax: Any, body: Body, half: float) -> Any:
    """Draws the frame around all that the body can cover, and returns a pen for its inside."""
    from seerax.drawing import Pen  # imports matplotlib, which only drawing needs

    edge = half + AGENT_SHARE * body.contact
    pen = Pen(ax)
    pen.page(-edge - 0.02, edge + 0.02, -edge - 0.02, edge + 0.02)
    return pen.inside(
        pen.box((-edge, -edge), 2 * edge, 2 * edge, "paper", "wall", round=0.06, line=2)
    )


def draw_walls(pen: Any, body: Body, walls: np.ndarray, colour: str = "wall") -> Any:
    """Draws walls as capsules of their thickness and returns these."""
    return pen.capsules(np.asarray(walls), (1 - AGENT_SHARE) * body.contact, colour)


def draw_body(pen: Any, body: Body, at: Array, senses: bool, hit: bool = False) -> None:
    """Draws the body, red if it is hit, and a ring around it if it senses."""
    radius = AGENT_SHARE * body.contact
    if senses:
        pen.ring(at, 2 * radius, "sensing", 2.5)
    pen.disc(at, radius, "action" if hit else "agent", name="agent")


def draw_thrusts(pen: Any, body: Body, at: Array, action: Array, advised: Array) -> None:
    """Draws the thrusts of the action and of the advice as arrows."""
    for thrust, width, colour in ((action[:2], 0.03, "action"), (advised[:2], 0.012, "advice")):
        pen.arrow(at, ARROW * thrust, width, colour, AGENT_SHARE * body.contact)
