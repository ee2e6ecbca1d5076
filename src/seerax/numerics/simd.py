"""Rows padded to a multiple of eight, for SIMD.

XLA vectorises full SIMD lanes and handles the remainder of a row one by one: six logarithms cost
three times as much as eight. So pad rows, calculate, and cut.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

LANES = 8


def full(count: int) -> int:
    """Returns the next multiple of eight."""
    return -(-count // LANES) * LANES


def fill(row: Array) -> Array:
    """Pads a row with zeros to a multiple of eight."""
    return jnp.pad(row, (0, full(row.size) - row.size))


def argmin(row: Array) -> Array:
    """Returns the first index of the minimum.

    It takes two minima, which XLA vectorises; it does not vectorise `jnp.argmin`.
    """
    return jnp.where(row == row.min(), jnp.arange(row.size), row.size - 1).min()


def uniform(key: Array, count: int) -> Array:
    """Draws [count] numbers uniformly from [0, 1)."""
    return jax.random.uniform(key, (full(count),))[:count]


def normal(key: Array, count: int) -> Array:
    """Draws [count] numbers from the standard normal distribution."""
    return jax.random.normal(key, (full(count),))[:count]
