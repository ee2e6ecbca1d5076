"""Model predictive control by trying: hold each candidate action, look at what lies on its way, take the cheapest."""

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
    """argmin_a cost(way_a) + sum_h danger(way_a, h) over the candidates; the first wins a tie.

    The hazards do not depend on the candidate, so they are forecast once per decision.
    """

    candidates: Array  # [n, a]
    follow: Callable[[State, Action], Way]
    forecast: Callable[[State, Latent], Hazard]  # all hazards, leaves [m, ...]
    cost: Callable[[Way], Array]
    danger: Callable[[Way, Hazard], Array]

    def costs(self, state: State, latent: Latent) -> Array:
        """Of every candidate, [n]. The loop keeps memory at n numbers instead of n * m."""
        ways = jax.vmap(self.follow, (None, 0))(state, jax.vmap(simd.fill, 1, 1)(self.candidates))

        def add(total: Array, hazard: Hazard) -> tuple[Array, None]:
            return total + jax.vmap(self.danger, (0, None))(ways, hazard), None

        total, _ = jax.lax.scan(add, jax.vmap(self.cost)(ways), self.forecast(state, latent))
        return total[: len(self.candidates)]

    def act(self, state: State, latent: Latent) -> Action:
        return self.candidates[simd.argmin(self.costs(state, latent))]

    def expert(self) -> Expert:
        """Told the latent, it forecasts with it; there is nothing to plan beforehand."""
        return Expert(plan=lambda latent: latent, act=self.act)


def lattice(*axes: np.ndarray) -> Array:
    """Every combination of these values, one axis per action dimension: [n, a], the last axis fastest."""
    return jnp.asarray(
        np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes)), jnp.float32
    )
