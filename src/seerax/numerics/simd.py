"""Rows as long as processors like them.

They work on eight numbers or more at once, but the compiler takes the last few of a row that is no multiple of eight
one by one: six logarithms cost thrice as much as eight. So fill rows up, calculate, and cut.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

LANES = 8


def full(count: int) -> int:
    """The next multiple of eight."""
    return -(-count // LANES) * LANES


def fill(row: Array) -> Array:
    """Zeros after a row."""
    return jnp.pad(row, (0, full(row.size) - row.size))


def argmin(row: Array) -> Array:
    """The first place of the smallest, by two minima: they are vectorised, `jnp.argmin` is not."""
    return jnp.where(row == row.min(), jnp.arange(row.size), row.size - 1).min()


def uniform(key: Array, count: int) -> Array:
    """[count], in [0, 1)."""
    return jax.random.uniform(key, (full(count),))[:count]


def normal(key: Array, count: int) -> Array:
    """[count], of mean 0 and variance 1."""
    return jax.random.normal(key, (full(count),))[:count]
