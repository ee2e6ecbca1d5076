"""From a seed to JAX keys: one stream for training, one for evaluation, which never meet.

Internal.
"""

from __future__ import annotations

import jax
import numpy as np

from seerax.errors import UserError

TRAINING = 1
EVALUATION = 2


def checked_seed(seed: int, count: int = 1) -> int:
    """Returns the seed, or refuses it: beyond 31 bits it would be cut, and two seeds could become
    the same.
    """
    if count < 1:
        raise UserError(f"The number of seeds must be at least 1, not {count}.", "seeds")
    if not 0 <= seed <= seed + count <= 2**31:
        raise UserError(f"Seeds must lie between 0 and {2**31 - 1}, not from {seed} on.", "seed")
    return seed


def training_keys(seed: int, count: int) -> jax.Array:
    """Returns one key per seed, [count]."""
    seeds = checked_seed(seed, count) + np.arange(count)
    return jax.vmap(lambda s: jax.random.fold_in(jax.random.key(s), TRAINING))(seeds)


def evaluation_key(seed: int) -> jax.Array:
    """Returns the key of an evaluation; its i-th episode has this key folded with i."""
    return jax.random.fold_in(jax.random.key(checked_seed(seed)), EVALUATION)


def episode_key(seed: int, episode: int) -> jax.Array:
    """Returns the key of one episode of an evaluation."""
    if not 0 <= episode < 2**31:
        raise UserError(
            f"The episode must lie between 0 and {2**31 - 1}, not {episode}.", "episode"
        )
    return jax.random.fold_in(evaluation_key(seed), episode)
