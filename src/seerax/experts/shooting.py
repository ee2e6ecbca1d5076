"""Model predictive control by shooting: hold each candidate action and take the cheapest one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seerax.core import Action, Expert, Latent, State
from seerax.numerics import simd

Way = Any  # where one candidate leads, a pytree
Hazard = Any  # what may be met on the way, at one time or place, a pytree


@dataclass(frozen=True, eq=False)
class Shooting:
    """The search for argmin_a cost(way_a) + sum_h danger(way_a, h); the first candidate wins a tie.

    The hazards do not depend on the candidate, so they are forecast once per decision.
    """

    candidates: Array  # [n, a]
    follow: Callable[[State, Action], Way]
    forecast: Callable[[State, Latent], Hazard]  # all hazards, leaves [m, ...]
    cost: Callable[[Way], Array]
    danger: Callable[[Way, Hazard], Array]

    def costs(self, state: State, latent: Latent) -> Array:
        """Returns the cost of every candidate, [n].

        The scan over hazards keeps memory at n numbers instead of n * m.
        """
        ways = jax.vmap(self.follow, (None, 0))(state, jax.vmap(simd.fill, 1, 1)(self.candidates))

        def add(total: Array, hazard: Hazard) -> tuple[Array, None]:
            return total + jax.vmap(self.danger, (0, None))(ways, hazard), None

        total, _ = jax.lax.scan(add, jax.vmap(self.cost)(ways), self.forecast(state, latent))
        return total[: len(self.candidates)]

    def act(self, state: State, latent: Latent) -> Action:
        """Returns the cheapest candidate."""
        return self.candidates[simd.argmin(self.costs(state, latent))]

    def expert(self) -> Expert:
        """Creates the expert that forecasts with the latent; it plans nothing beforehand."""
        return Expert(plan=lambda latent: latent, act=self.act)


def lattice(*axes: np.ndarray) -> Array:
    """Returns every combination of values, one axis per action dimension: [n, a], last fastest."""
    return jnp.asarray(
        np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes)), jnp.float32
    )
