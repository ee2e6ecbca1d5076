"""Operations on pytrees of arrays."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


def select(condition: Array, yes: Any, no: Any) -> Any:
    """`jnp.where` for whole pytrees, with one scalar condition."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def strong_dtype(x: Array) -> Array:
    """The same array with a firm type: one that follows its context would compile everything twice."""
    x = jnp.asarray(x)
    return (
        x
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
        else jax.lax.convert_element_type(x, x.dtype)
    )


def all_finite(tree: Any) -> Array:
    """Whether every number in a pytree is."""
    numbers = [
        leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(jnp.result_type(leaf), jnp.inexact)
    ]
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in numbers] or [jnp.bool_(True)]).all()


def ravel(latent: Any) -> Array:
    """A latent as one vector of numbers."""
    return jnp.concatenate(
        [jnp.ravel(leaf).astype(jnp.float32) for leaf in jax.tree.leaves(latent)]
    )


def is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | jax.ShapeDtypeStruct) and jax.dtypes.issubdtype(
        leaf.dtype, jax.dtypes.prng_key
    )
