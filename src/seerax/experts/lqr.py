"""Linear-quadratic regulators, u = -K s: solved once on a lattice of latents, then looked up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.ndimage import map_coordinates

# (state [n], control [m], latent [d]) -> next state; 0 is at rest
Dynamics = Callable[[Array, Array, Array], Array]

DOUBLINGS = 20  # 2^20, a million steps ahead, stands for an infinite horizon


def gain(a: np.ndarray, b: np.ndarray, q: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Returns K, [..., m, n], which minimises the infinite sum of s' Q s + u' R u.

    The state follows s_next = A s + B u.
    """
    p = cost_to_go(a, b, q, r)
    b_p = b.swapaxes(-1, -2) @ p
    return np.linalg.solve(r + b_p @ b, b_p @ a)


def cost_to_go(a: np.ndarray, b: np.ndarray, q: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Solves the discrete Riccati equation for P, by doubling (Chu, Fan, Lin and Wang, 2004).

    After k rounds `h` is the cost of the next 2^k steps. A stack of pairs (A, B) works like one.
    """
    g = b @ np.linalg.solve(r, b.swapaxes(-1, -2))
    h = q
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
    """Returns A [k, n, n] and B [k, n, m] at rest, per latent [k, d], in double precision."""
    with jax.enable_x64(True):
        state, control = jnp.zeros(states), jnp.zeros(controls)
        slopes = jax.jit(jax.vmap(jax.jacfwd(dynamics, (0, 1)), (None, None, 0)))
        return jax.device_get(slopes(state, control, jnp.asarray(latents)))


@dataclass(frozen=True, eq=False)
class Lattice:
    """A bilinear interpolation of values at the nodes of a square, [nodes, nodes, *shape]."""

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
    """Returns the regulators for all pairs of latents in [low, high]^2."""
    axis = np.linspace(low, high, nodes)
    latents = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    table = gain(*linearise(dynamics, latents, len(q), len(r)), q, r)
    return Lattice(
        jnp.asarray(table.reshape(nodes, nodes, *table.shape[1:]), jnp.float32), low, high
    )
