"""Play: every world some steps on, with exploration noise."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from seerax.compute import devices
from seerax.core import Action, BeliefMDP, Key, World, finite_parts
from seerax.ppo.networks import log_prob
from seerax.ppo.params import Params

if TYPE_CHECKING:
    from seerax.ppo.trainer import PPO


class TrainState(NamedTuple):
    """All that changes from one iteration to the next."""

    params: Params
    opt_state: Any
    worlds: World  # [worlds]
    key: Key
    iteration: Array


class Trajectory(NamedTuple):
    """What was seen, done and earned; every field is [length, worlds, ...]."""

    inputs: Array
    raw: Array
    log_prob: Array
    value: Array
    reward: Array  # the bonus included
    terminated: Array
    over: Array
    live: Array  # False for the step on which a world starts afresh
    episode_return: Array  # the episode's return where `over`
    extras: Any = None  # of each step, what `play` was told to note; by default whether what came of it is sound


def staggered_worlds(key: Key, mdp: BeliefMDP, count: int) -> World:
    """Fresh worlds whose clocks stand anywhere: episodes that only the clock ends would else march in step for ever,
    and an iteration would see beginnings only, or ends only. The cut first episodes are bootstrapped like any other.
    """
    reset_key, clock_key = jax.random.split(key)
    worlds = jax.vmap(mdp.reset)(jax.random.split(reset_key, count))
    return worlds._replace(time=jax.random.randint(clock_key, (count,), 0, mdp.problem.horizon))


def split_keys(key: Key) -> tuple[Key, Key, Key]:
    """(the next iteration's key, this device's key to play, and to shuffle)"""
    key, local = jax.random.split(key)
    play_key, shuffle_key = jax.random.split(
        jax.random.fold_in(local, jax.lax.axis_index(devices.WORLDS))
    )
    return key, play_key, shuffle_key


def is_sound(world: World, action: Action, following: World) -> Array:
    return jnp.stack(finite_parts(following.situation)).all()


def play(
    ppo: PPO,
    key: Key,
    params: Params,
    worlds: World,
    note: Callable[[World, Action, World], Any] = is_sound,
) -> tuple[World, Trajectory, Array]:
    """Every world `length` steps on, with exploration noise."""
    network = params.network
    count = worlds.over.shape[0]

    def look(worlds: World) -> tuple[Array, Array]:
        inputs = jax.vmap(partial(ppo.agent.inputs, ppo.mdp))(worlds.situation)
        return inputs, params.values.restore(network.value(params.inputs.normalise(inputs)))

    def body(
        carry: tuple[World, Array, Array], key: Key
    ) -> tuple[tuple[World, Array, Array], Trajectory]:
        worlds, inputs, value = carry
        noise_key, step_key = jax.random.split(key)
        mean = network.actor(params.inputs.normalise(inputs))
        raw = mean + jnp.exp(network.log_std) * jax.random.normal(noise_key, mean.shape)
        actions = jax.vmap(ppo.agent.compose)(worlds.situation, raw)
        following, outcome = jax.vmap(ppo.mdp.step)(
            jax.random.split(step_key, count), worlds, actions
        )
        probability = log_prob(raw, mean, network.log_std)
        earned = outcome.reward + outcome.bonus
        live = ~worlds.over
        extras = jax.vmap(note)(worlds, actions, following)
        ends = (outcome.terminated, outcome.over)
        trajectory = Trajectory(
            inputs, raw, probability, value, earned, *ends, live, following.episode_return, extras
        )
        return (following, *look(following)), trajectory

    first = (worlds, *look(worlds))
    (worlds, _, last_value), trajectory = jax.lax.scan(
        body, first, jax.random.split(key, ppo.config.rollout_length)
    )
    return worlds, trajectory, last_value
