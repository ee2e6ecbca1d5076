"""The networks: an actor, a critic, and the running statistics that keep their numbers near one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from seerax.core import Key
from seerax.ppo.config import Config


class Network(Protocol):
    """What PPO trains: any `equinox.Module` with these two methods, called on rows of inputs [...,
    n].

    Where the optional methods exist, they are used:
      rescale_value(old, new) -> Network   the same value in units of another `Normaliser` (PopArt)
      cap_log_std(ceiling) -> Network      the same network, its exploration under a ceiling

    """

    def policy(self, x: Array) -> tuple[Array, Array]:
        """Returns the mean [..., a] and the log standard deviation of a Gaussian over raw actions."""
        ...

    def value(self, x: Array) -> Array:
        """Returns the expected return, [...], in units of the normalised value targets."""
        ...


NetworkFactory = Callable[[Key, int, int, Config], Any]  # (key, inputs, actions, config) -> Network


class MLP(eqx.Module):
    """Layers of tanh on row vectors; the last layer is linear."""

    weights: list[Array]
    biases: list[Array]

    def __init__(self, key: Key, sizes: tuple[int, ...], head_scale: float):
        """Draws normal weights that keep the size of their inputs; `head_scale` 0 makes every
        output zero.
        """
        keys = jax.random.split(key, len(sizes) - 1)
        gains = [1.0] * (len(sizes) - 2) + [head_scale]
        shapes = list(pairwise(sizes))
        self.weights = [
            gain * jax.random.normal(k, shape) / shape[0] ** 0.5
            for gain, k, shape in zip(gains, keys, shapes, strict=True)
        ]
        self.biases = [jnp.zeros(size) for size in sizes[1:]]

    def __call__(self, x: Array) -> Array:
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = jnp.tanh(x @ weight + bias)
        return x @ self.weights[-1] + self.biases[-1]


class ActorCritic(eqx.Module):
    """A Gaussian over raw actions, its spread independent of the input, and a value."""

    actor: MLP
    critic: MLP
    log_std: Array

    def __init__(self, key: Key, inputs: int, hidden: tuple[int, ...], exploration: Array):
        actor_key, critic_key = jax.random.split(key)
        self.actor = MLP(actor_key, (inputs, *hidden, exploration.size), head_scale=0.0)
        self.critic = MLP(critic_key, (inputs, *hidden, 1), head_scale=1.0)
        self.log_std = jnp.log(exploration)

    def policy(self, x: Array) -> tuple[Array, Array]:
        return self.actor(x), self.log_std

    def value(self, x: Array) -> Array:
        return self.critic(x)[..., 0]

    def rescale_value(self, old: Normaliser, new: Normaliser) -> ActorCritic:
        weight = self.critic.weights[-1] * old.std / new.std
        bias = (self.critic.biases[-1] * old.std + old.mean - new.mean) / new.std
        last_layer = lambda net: (net.critic.weights[-1], net.critic.biases[-1])  # noqa: E731
        return eqx.tree_at(last_layer, self, (weight, bias))

    def cap_log_std(self, ceiling: Array) -> ActorCritic:
        return eqx.tree_at(lambda net: net.log_std, self, jnp.minimum(self.log_std, ceiling))


def actor_critic(key: Key, inputs: int, actions: int, config: Config) -> ActorCritic:
    """Creates the default network. Its mean is zero, so a residual starts exactly at the advice."""
    return ActorCritic(key, inputs, config.hidden, exploration_of(config, actions))


def exploration_of(config: Config, actions: int) -> Array:
    """Returns the initial standard deviation of every raw action, [actions]."""
    return jnp.broadcast_to(jnp.asarray(config.exploration), (actions,))


def draw_raw(key: Key, mean: Array, log_std: Array) -> Array:
    """Draws raw actions from a diagonal Gaussian."""
    return mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape)


def log_prob(raw: Array, mean: Array, log_std: Array) -> Array:
    """Returns the log-density of a diagonal Gaussian, summed over the last axis."""
    z = (raw - mean) * jnp.exp(-log_std)
    return -(0.5 * z**2 + log_std + 0.5 * jnp.log(2 * jnp.pi)).sum(-1)


# Normalised numbers are clipped here. One accident, such as a return far below all others, would
# otherwise decide a whole update through the square of its value error; and inputs far outside of
# what was seen drive every tanh to its end. Training reports how many targets are clipped.
CLIP = 10.0  # standard deviations


class Normaliser(NamedTuple):
    """Running mean and variance."""

    mean: Array
    variance: Array
    weight: Array  # how many entries they stand for

    @staticmethod
    def init(*shape: int) -> Normaliser:
        return Normaliser(jnp.zeros(shape), jnp.ones(shape), jnp.float32(0))

    @property
    def std(self) -> Array:
        return jnp.sqrt(self.variance + 1e-8)

    def normalise(self, x: Array) -> Array:
        """Returns x in standard deviations from the mean, clipped to +-CLIP."""
        return jnp.clip((x - self.mean) / self.std, -CLIP, CLIP)

    def is_clipped(self, x: Array) -> Array:
        """True where `normalise` clips."""
        return jnp.abs(x - self.mean) > CLIP * self.std

    def restore(self, x: Array) -> Array:
        return x * self.std + self.mean

    def merge(self, mean: Array, variance: Array, count: Array) -> Normaliser:
        """Returns the statistics over the old entries and a new batch together (Chan et al.)."""
        total = self.weight + count
        share = count / jnp.maximum(total, 1)
        delta = mean - self.mean
        merged = (1 - share) * self.variance + share * variance + share * (1 - share) * delta**2
        return Normaliser(self.mean + share * delta, merged, total)
