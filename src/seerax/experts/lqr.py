"""Linear-quadratic regulators, u = -K s: worked out beforehand on a lattice of latents, looked up in no time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.ndimage import map_coordinates

Dynamics = Callable[
    [Array, Array, Array], Array
]  # (state [n], control [m], latent [d]) -> next state; 0 is at rest

DOUBLINGS = 20  # a million steps ahead is for ever


def gain(a: np.ndarray, b: np.ndarray, q: np.ndarray, r: np.ndarray) -> np.ndarray:
    """K, [..., m, n], minimising the endless sum of s' Q s + u' R u under s_next = A s + B u."""
    p = cost_to_go(a, b, q, r)
    b_p = b.swapaxes(-1, -2) @ p
    return np.linalg.solve(r + b_p @ b, b_p @ a)


def cost_to_go(a: np.ndarray, b: np.ndarray, q: np.ndarray, r: np.ndarray) -> np.ndarray:
    """P of the discrete Riccati equation by doubling: after k rounds `h` is the cost of the next 2^k steps.

    Alike for one pair (A, B) and for a stack of them. See Chu, Fan, Lin and Wang (2004).
    """
    g, h = b @ np.linalg.solve(r, b.swapaxes(-1, -2)), q
    for _ in range(DOUBLINGS):
        shared = np.linalg.inv(np.eye(len(q)) + g @ h)
        g, h, a = (
            g + a @ shared @ g @ a.swapaxes(-1, -2),
            h + a.swapaxes(-1, -2) @ h @ shared @ a,
            a @ shared @ a,
        )
    return h


def linearise(
    dynamics: Dynamics, latents: np.ndarray, states: int, controls: int
) -> tuple[np.ndarray, np.ndarray]:
    """A [k, n, n] and B [k, n, m] at rest, one pair per latent [k, d], in double precision."""
    with jax.enable_x64(True):
        state, control = jnp.zeros(states), jnp.zeros(controls)
        slopes = jax.jit(jax.vmap(jax.jacfwd(dynamics, (0, 1)), (None, None, 0)))
        return jax.device_get(slopes(state, control, jnp.asarray(latents)))


@dataclass(frozen=True, eq=False)
class Lattice:
    """Values at the evenly spaced nodes of a square, [nodes, nodes, *shape], and bilinear in between."""

    values: Array
    low: float
    high: float

    def __call__(self, point: Array) -> Array:
        nodes, _, *shape = self.values.shape
        steps = (point - self.low) * ((nodes - 1) / (self.high - self.low))
        look_up = jax.vmap(
            lambda layer: map_coordinates(layer, list(steps), order=1, mode="nearest"), in_axes=-1
        )
        return look_up(self.values.reshape(nodes, nodes, -1)).reshape(shape)


def gains(
    dynamics: Dynamics, q: np.ndarray, r: np.ndarray, low: float, high: float, nodes: int
) -> Lattice:
    """The regulators for all pairs of latents in [low, high]^2."""
    axis = np.linspace(low, high, nodes)
    latents = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    table = gain(*linearise(dynamics, latents, len(q), len(r)), q, r)
    return Lattice(
        jnp.asarray(table.reshape(nodes, nodes, *table.shape[1:]), jnp.float32), low, high
    )
