"""The vote for or against sensing, where an action senses if one of its numbers is positive."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from seerax.core import Action

SENSING_VOTE = 0.1  # small beside the bounds of 1, so that a residual can easily overrule it


def set_vote(action: Action, index: int, on: Array) -> Action:
    """Returns the action with its number at `index` set to the vote for sensing, or against it."""
    return action.at[index].set(jnp.where(on, SENSING_VOTE, -SENSING_VOTE))
