"""Beliefs over finitely many latents: normalised log-weights, always finite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from seerax.core import Action, Key, Latent, State

# log P(s' | s, a, phi); a constant that all hypotheses share may be left out
LogLikelihood = Callable[[State, Action, State, Latent], Array]
# log P(phi_j | s, a, s', phi_i) as a matrix [i, j]
LogTransition = Callable[[State, Action, State], Array]

# The most nats by which one observation may count against a hypothesis, relative to the best one.
HARDEST_EVIDENCE = 1e3
SUREST = 10.0  # log-odds beyond which a network need not distinguish beliefs


def evidence(log_likelihood: Array) -> Array:
    """Returns log-likelihoods relative to the best along the last axis, floored.

    The floor is -HARDEST_EVIDENCE. NaN counts as impossible, like -inf. An observation that is
    impossible under all hypotheses leaves the belief unchanged.
    """
    extremes = jnp.finfo(jnp.float32)
    finite = jnp.nan_to_num(
        log_likelihood, nan=extremes.min, neginf=extremes.min, posinf=extremes.max
    )
    best = finite.max(-1, keepdims=True)
    return jnp.maximum(finite - best, -HARDEST_EVIDENCE)


def condition(log_belief: Array, log_likelihood: Array) -> Array:
    """Applies Bayes' rule along the last axis."""
    return jax.nn.log_softmax(log_belief + evidence(log_likelihood), axis=-1)


def predict(log_belief: Array, log_transition: Array) -> Array:
    """Returns sum_i b(phi_i) P(phi_j | phi_i), in log space."""
    moved = jax.nn.logsumexp(
        log_belief[..., :, None] + jnp.maximum(log_transition, -HARDEST_EVIDENCE), axis=-2
    )
    return jax.nn.log_softmax(moved, axis=-1)


def entropies(log_belief: Array) -> Array:
    """Returns the entropy along the last axis, scaled to 1 for a uniform belief."""
    return -(jnp.exp(log_belief) * log_belief).sum(-1) / jnp.log(max(log_belief.shape[-1], 2))


def log_odds(log_belief: Array) -> Array:
    """Returns log p / (1 - p), clipped to +-SUREST.

    To a network 0.99 and 0.9999 look the same; their log-odds do not.
    """
    return jnp.clip(log_belief - jnp.log(-jnp.expm1(log_belief)), -SUREST, SUREST)


@dataclass(frozen=True, eq=False)
class Categorical:
    """A belief over finitely many latents: log-weights [k] on a support with leaves [k, ...]."""

    support: Latent
    log_likelihood: LogLikelihood
    log_prior: Array | None = None
    log_transition: LogTransition | None = None

    @property
    def size(self) -> int:
        """Returns the number of hypotheses."""
        return int(jax.tree.leaves(self.support)[0].shape[0])

    def init(self) -> Array:
        prior = jnp.zeros(self.size) if self.log_prior is None else jnp.asarray(self.log_prior)
        return condition(jnp.zeros(self.size), prior)

    def update(self, belief: Array, state: State, action: Action, next_state: State) -> Array:
        """Returns b'(phi') = eta * sum_phi b(phi) P(s' | s, phi, a) P(phi' | s, phi, a, s')."""
        likelihood = jax.vmap(self.log_likelihood, (None, None, None, 0))(
            state, action, next_state, self.support
        )
        belief = condition(belief, likelihood)
        if self.log_transition is None:
            return belief
        return predict(belief, self.log_transition(state, action, next_state))

    def vector(self, belief: Array) -> Array:
        return jnp.exp(belief)

    def features(self, belief: Array) -> Array:
        return jnp.concatenate([jnp.exp(belief), log_odds(belief)])

    def entropy(self, belief: Array) -> Array:
        return entropies(belief)

    def mode(self, belief: Array) -> Latent:
        return self._pick(jnp.argmax(belief))

    def sample(self, key: Key, belief: Array) -> Latent:
        return self._pick(jax.random.categorical(key, belief))

    def mean(self, belief: Array) -> Latent:
        return jax.tree.map(lambda values: jnp.tensordot(jnp.exp(belief), values, 1), self.support)

    def _pick(self, index: Array) -> Latent:
        return jax.tree.map(lambda values: values[index], self.support)


@dataclass(frozen=True, eq=False)
class Factored:
    """A belief over m independent unknowns with k candidates each: log-weights [m, k].

    The latent's leaves are [m, ...], the support's [k, m, ...]: entry j gives every factor its j-th
    candidate. `log_likelihood` returns one value per factor, [m].
    """

    support: Latent
    log_likelihood: LogLikelihood
    log_prior: Array | None = None
    log_transition: LogTransition | None = None  # [m, k, k]

    @property
    def shape(self) -> tuple[int, int]:
        """Returns the numbers of factors and of candidates."""
        candidates, factors = jax.tree.leaves(self.support)[0].shape[:2]
        return factors, candidates

    def init(self) -> Array:
        prior = jnp.zeros(self.shape) if self.log_prior is None else jnp.asarray(self.log_prior)
        return condition(jnp.zeros(self.shape), prior)

    def update(self, belief: Array, state: State, action: Action, next_state: State) -> Array:
        """Returns the belief of `Categorical.update` for every factor.

        It loops over the candidates instead of vmapping them: k is small, and rows of m numbers
        run faster than rows of k.
        """
        each = jax.lax.map(
            lambda latent: self.log_likelihood(state, action, next_state, latent), self.support
        )
        belief = condition(belief, each.T)
        if self.log_transition is None:
            return belief
        return predict(belief, self.log_transition(state, action, next_state))

    def vector(self, belief: Array) -> Array:
        return jnp.exp(belief).ravel()

    def features(self, belief: Array) -> Array:
        return jnp.concatenate([jnp.exp(belief), log_odds(belief)], -1).ravel()

    def entropy(self, belief: Array) -> Array:
        return entropies(belief).mean()

    def mode(self, belief: Array) -> Latent:
        return self._pick(jnp.argmax(belief, axis=-1))

    def sample(self, key: Key, belief: Array) -> Latent:
        return self._pick(jax.random.categorical(key, belief, axis=-1))

    def mean(self, belief: Array) -> Latent:
        return jax.tree.map(
            lambda values: jnp.einsum("mk,km...->m...", jnp.exp(belief), values), self.support
        )

    def _pick(self, index: Array) -> Latent:
        return jax.tree.map(lambda values: values[index, jnp.arange(index.size)], self.support)


def spread(values: Any, factors: int) -> Any:
    """Returns a support for `Factored` in which every factor has the same candidates [k, ...]."""
    return jax.tree.map(
        lambda v: jnp.broadcast_to(v[:, None], (v.shape[0], factors, *v.shape[1:])), values
    )
