"""What is learned, and what acts by it."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from seerax.agents import Agent
from seerax.core import Action, BeliefMDP, Key, Situation
from seerax.ppo.config import Config
from seerax.ppo.networks import ActorCritic, Normaliser


class Params(NamedTuple):
    """All that is learned."""

    network: ActorCritic
    inputs: Normaliser
    values: Normaliser


class LearnedPolicy(eqx.Module):
    """A brain at work. Without noise it answers with the mean action."""

    params: Params
    mdp: BeliefMDP = eqx.field(static=True)
    agent: Agent = eqx.field(static=True)
    noisy: bool = eqx.field(static=True, default=False)

    def __call__(self, key: Key, situation: Situation) -> Action:
        network, inputs, _ = self.params
        raw = network.actor(inputs.normalise(self.agent.inputs(self.mdp, situation)))
        if self.noisy:
            raw = raw + jnp.exp(network.log_std) * jax.random.normal(key, raw.shape)
        return self.agent.compose(situation, raw)


def popart(params: Params, values: Normaliser) -> Params:
    """The same value function in new units (PopArt: van Hasselt et al., 2016)."""
    old, critic = params.values, params.network.critic
    weight = critic.weights[-1] * old.std / values.std
    bias = (critic.biases[-1] * old.std + old.mean - values.mean) / values.std
    critic = eqx.tree_at(lambda c: (c.weights[-1], c.biases[-1]), critic, (weight, bias))
    return Params(eqx.tree_at(lambda n: n.critic, params.network, critic), params.inputs, values)


def cap_exploration(config: Config, params: Params, iteration: Array) -> Params:
    """Exploration held under its ceiling, so that in the end what was trained is what is deployed: the mean."""
    share = 1 + (config.exploration_end - 1) * iteration / config.iterations
    ceiling = jnp.log(jnp.asarray(config.exploration) * jnp.maximum(share, 1e-3))
    log_std = params.network.log_std
    if config.exploration_end < 1:
        log_std = jnp.minimum(log_std, ceiling)
    return params._replace(network=eqx.tree_at(lambda n: n.log_std, params.network, log_std))
