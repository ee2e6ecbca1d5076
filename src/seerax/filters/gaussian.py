"""The extended Kalman filter: a Gaussian belief that is always finite and positive definite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from seerax.core import Action, Key, Latent, State
from seerax.numerics.linalg import solve
from seerax.numerics.trees import select

Observe = Callable[[State, Latent], Array]  # h(s', phi): the reading without noise, [m]
Reading = Callable[[State], Array]  # the reading that s' contains, [m]
Noise = Callable[[State, Array, Array], Array]  # R(s', mean, covariance), [m, m]
Motion = Callable[[State, Action, State, Latent], Latent]  # f(s, a, s', phi)
Diffusion = Callable[[State, Action, State], Array]  # Q(s, a, s'), [n, n]

SURPRISE = 30.0  # standard deviations; readings farther off count as this far off
FARTHEST = 1e15  # bound of an innovation, so that squares stay finite
CONDITION = 1e-5  # smallest share of a variance that is left once all other coordinates are known
SHARPEST = 1e-5  # smallest standard deviation, in those of the prior
CERTAIN = 0.01  # standard deviation, in those of the prior, at which `entropy` is 0


class Gaussian(NamedTuple):
    """A normal distribution of the latent."""

    mean: Array  # [n]
    covariance: Array  # [n, n]


# ---- small matrices ------------------------------------------------------------------------------
# Elimination written out: fast in batches, and without LAPACK, whose batched QR can hang in jaxlib.


def root(A: Array) -> Array:
    """Returns the lower triangular L with L L^T = A, for a positive definite A."""
    columns = []
    for i in range(A.shape[0]):
        column = jnp.where(jnp.arange(A.shape[0]) < i, 0.0, A[:, i] / jnp.sqrt(A[i, i]))
        A = A - jnp.outer(column, column)
        columns.append(column)
    return jnp.stack(columns, 1)


def firm(covariance: Array, floor: Array | float = 0.0) -> Array:
    """Makes a covariance symmetric and, in spite of rounding, positive definite.

    No variance is below `floor`. Where a coordinate is all but determined by those before it, all
    variances are raised by a small share.
    """
    covariance = (covariance + covariance.T) / 2
    variance = jnp.diagonal(covariance)
    # What is left of each variance, given the coordinates before it.
    left = jnp.square(jnp.diagonal(root(covariance)))
    sound = (left > CONDITION * variance).all()
    raised = jnp.maximum(jnp.where(sound, 1.0, 1 + CONDITION) * variance, floor)
    return covariance + jnp.diag(raised - variance)


# ---- filter --------------------------------------------------------------------------------------


def spread(belief: Gaussian) -> Array:
    """Returns the standard deviations."""
    return jnp.sqrt(jnp.diagonal(belief.covariance))


def size(belief: Gaussian) -> Array:
    """Returns the differential entropy in nats, up to a constant."""
    return jnp.log(jnp.diagonal(root(belief.covariance))).sum()


@dataclass(frozen=True, eq=False)
class ExtendedKalman:
    """A filter that reads y = h(s', phi) + N(0, R) at every step.

    After that, phi may move to f(s, a, s', phi) + N(0, Q). Both h and f are linearised at the mean.
    R may depend on the belief: noise whose size depends on phi itself enters with its expected
    square.
    """

    prior: Gaussian
    observe: Observe
    reading: Reading
    noise: Noise
    motion: Motion | None = None
    diffusion: Diffusion | None = None

    def init(self) -> Gaussian:
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), self.prior)

    def update(self, belief: Gaussian, state: State, action: Action, next_state: State) -> Gaussian:
        belief = self._condition(belief, next_state)
        return belief if self.motion is None else self._predict(belief, state, action, next_state)

    def vector(self, belief: Gaussian) -> Array:
        """Returns means, then standard deviations, scaled so that the prior's are 0 and 1."""
        prior = self.init()
        scale = spread(prior)
        return jnp.concatenate([(belief.mean - prior.mean) / scale, spread(belief) / scale])

    def features(self, belief: Gaussian) -> Array:
        """Returns `vector` with the logarithms of the standard deviations.

        Standard deviations fall by orders of magnitude.
        """
        means, spreads = jnp.split(self.vector(belief), 2)
        return jnp.concatenate([means, jnp.log(spreads)])

    def entropy(self, belief: Gaussian) -> Array:
        """Returns 1 for the prior, 0 for `CERTAIN` in every direction, and linear in nats between.

        Beliefs less sure than the prior count as 1, those surer than `CERTAIN` as 0.
        """
        gained = (size(self.init()) - size(belief)) / belief.mean.size
        return jnp.clip(1 + gained / jnp.log(CERTAIN), 0.0, 1.0)

    def mode(self, belief: Gaussian) -> Latent:
        return belief.mean

    def mean(self, belief: Gaussian) -> Latent:
        return belief.mean

    def sample(self, key: Key, belief: Gaussian) -> Latent:
        return belief.mean + root(belief.covariance) @ jax.random.normal(key, belief.mean.shape)

    def _condition(self, belief: Gaussian, next_state: State) -> Gaussian:
        """Applies K = P H^T S^-1 with S = H P H^T + R, and Joseph's form of (I - K H) P."""
        mean, P = belief
        H = jax.jacfwd(self.observe, 1)(next_state, mean)
        R = self.noise(next_state, mean, P)
        told = self.reading(next_state) - self.observe(next_state, mean)
        innovation = jnp.clip(told, -FARTHEST, FARTHEST)
        solved = solve(firm(H @ P @ H.T + R), jnp.column_stack([innovation, H @ P]))
        surprise = jnp.sqrt(innovation @ solved[:, 0])
        K = solved[:, 1:].T
        mean = mean + K @ (innovation * jnp.minimum(1.0, SURPRISE / surprise))
        kept = jnp.eye(mean.size) - K @ H
        new = Gaussian(mean, kept @ P @ kept.T + K @ R @ K.T)
        return self._sound(jnp.isfinite(told).all(), belief, new)

    def _predict(
        self, belief: Gaussian, state: State, action: Action, next_state: State
    ) -> Gaussian:
        mean, P = belief

        def moved(latent: Latent) -> Latent:
            return self.motion(state, action, next_state, latent)  # type: ignore[misc]

        F = jax.jacfwd(moved)(mean)
        Q = 0.0 if self.diffusion is None else self.diffusion(state, action, next_state)
        return self._sound(jnp.bool_(True), belief, Gaussian(moved(mean), F @ P @ F.T + Q))

    def _sound(self, usable: Array, old: Gaussian, new: Gaussian) -> Gaussian:
        """Returns the new belief made firm, or the old one if the new one is not usable."""
        new = Gaussian(new.mean, firm(new.covariance, (SHARPEST * spread(self.init())) ** 2))
        finite = jnp.isfinite(new.mean).all() & jnp.isfinite(new.covariance).all()
        return select(usable & finite, new, old)
