"""Operations on pytrees of arrays."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


def select(condition: Array, yes: Any, no: Any) -> Any:
    """Applies `jnp.where` with one scalar condition to every leaf of two pytrees."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def row(tree: Any, index: int) -> Any:
    """Returns the index-th row of every leaf."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def strong_dtype(x: Array) -> Array:
    """Returns the same array with a strong dtype; a weak one would compile every program twice."""
    x = jnp.asarray(x)
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        return x
    return jax.lax.convert_element_type(x, x.dtype)


def all_finite(tree: Any) -> Array:
    """True if every floating-point leaf is finite."""
    numbers = [
        leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(jnp.result_type(leaf), jnp.inexact)
    ]
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in numbers] or [jnp.bool_(True)]).all()


def ravel(latent: Any) -> Array:
    """Returns all leaves of a latent as one float32 vector."""
    return jnp.concatenate(
        [jnp.ravel(leaf).astype(jnp.float32) for leaf in jax.tree.leaves(latent)]
    )


def is_key(leaf: Any) -> bool:
    """True if a leaf is an array of typed JAX keys."""
    return isinstance(leaf, jax.Array | jax.ShapeDtypeStruct) and jax.dtypes.issubdtype(
        leaf.dtype, jax.dtypes.prng_key
    )
