"""Pytrees as matrices, keys as numbers, and z-scores that rounding cannot move."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

ROUNDING = 1e-5  # share of a column's largest number below which a difference is rounding


def is_key(leaf: Any) -> bool:
    """True if a leaf holds typed random keys."""
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def numbers(leaf: Any) -> np.ndarray:
    """Returns a leaf as a numpy array; for random keys, their data."""
    return np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf)


def name_leaves(root: str, tree: Any) -> list[tuple[str, Any]]:
    """Returns the leaves with their names, such as 'state.position'."""
    return [
        (root + jax.tree_util.keystr(path), leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    ]


def concatenate(trees: list, axis: int) -> Any:
    """Concatenates pytrees in numpy, and in JAX where a leaf holds random keys."""
    return jax.tree.map(
        lambda *parts: (jnp if is_key(parts[0]) else np).concatenate(parts, axis), *trees
    )


def take(tree: Any, index: Any) -> Any:
    """Indexes every leaf."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def columns(tree: Any) -> np.ndarray:
    """Returns a batched pytree as a matrix [many, numbers], random keys left out."""
    leaves = [leaf for leaf in jax.tree.leaves(tree) if not is_key(leaf)]
    flat = [np.reshape(np.asarray(leaf), (len(leaf), -1)).astype(float) for leaf in leaves]
    return np.concatenate(flat, 1)


def with_column(latents: Any, index: int, values: np.ndarray) -> Any:
    """Returns the same latents with other values for one coordinate."""
    matrix = columns(latents)
    matrix[:, index] = values
    leaves, structure = jax.tree.flatten(latents)
    ends = np.cumsum([leaf[0].size for leaf in leaves])[:-1]
    pairs = zip(np.split(matrix, ends, 1), leaves, strict=True)
    return jax.tree.unflatten(
        structure, [part.reshape(leaf.shape).astype(leaf.dtype) for part, leaf in pairs]
    )


def nearest(entries: np.ndarray, latents: np.ndarray) -> np.ndarray:
    """Returns for each latent the index of the entry that lies nearest to it."""
    return np.stack([np.square(latents - entry).sum(1) for entry in entries]).argmin(0)


def subtract(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Returns one - other, with 0 where two rows differ in a column by rounding alone.

    Single precision keeps seven digits of a number, not of its distance from the mean, so the scale
    of a column is its largest number.
    """
    difference = one - other
    scale = np.maximum(np.abs(one).max(0, initial=0.0), np.abs(other).max(0, initial=0.0))
    return np.where(np.abs(difference) <= ROUNDING * scale, 0.0, difference)


def z_score(differences: np.ndarray) -> np.ndarray:
    """Returns the z-score of the mean against zero, along the first axis; 0 where all are zero."""
    mean = differences.mean(0)
    error = differences.std(0, ddof=1) / math.sqrt(len(differences))
    return mean / np.maximum(error, np.maximum(1e-9 * np.abs(mean), np.finfo(float).tiny))
