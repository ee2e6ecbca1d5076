"""Small dense linear algebra that vectorises over many worlds."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array


def solve(A: Array, B: Array) -> Array:
    """Returns A^-1 B for a positive definite A, [n, n], and a B, [n, k], by elimination."""
    n = A.shape[0]
    both = jnp.concatenate([A, B], 1)
    for i, unit in enumerate(jnp.eye(n)):
        row = both[i] / both[i, i]
        both = both - (both[:, i] - unit)[:, None] * row
    return both[:, n:]
