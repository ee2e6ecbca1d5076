"""Information bonuses: extra reward for learning something, while training only."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from seerax.core import Belief, Bonus, Filter


def belief_change(epsilon: float) -> Bonus:
    """Returns the paper's information bonus, epsilon * ||b - b'||_1.

    It can change what is optimal.
    """

    def bonus(filter: Filter, belief: Belief, next_belief: Belief, terminated: Array) -> Array:
        return epsilon * jnp.abs(filter.vector(next_belief) - filter.vector(belief)).sum()

    return bonus


def information_gain(epsilon: float) -> Bonus:
    """Returns the bonus of the authors' code, epsilon * (H(b) - H(b')) with the normalised entropy
    H.

    What is known at the end stays paid.
    """

    def bonus(filter: Any, belief: Belief, next_belief: Belief, terminated: Array) -> Array:
        return epsilon * (filter.entropy(belief) - filter.entropy(next_belief))

    return bonus


def potential(epsilon: float, discount: float = 1.0) -> Bonus:
    """Returns potential-based shaping, gamma * Phi(b') - Phi(b) with Phi = -epsilon * normalised
    entropy.

    Phi is zero once the task has terminated, so with the learner's own discount no optimum changes
    (Ng et al., 1999).
    """

    def bonus(filter: Any, belief: Belief, next_belief: Belief, terminated: Array) -> Array:
        left = jnp.where(terminated, 0.0, filter.entropy(next_belief))
        return epsilon * (filter.entropy(belief) - discount * left)

    return bonus
