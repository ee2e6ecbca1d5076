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
from seerax.ppo.params import Brain

if TYPE_CHECKING:
    from seerax.ppo.trainer import PPO


class Learner(NamedTuple):
    """All that changes from one iteration to the next."""

    brain: Brain
    optimiser: Any
    worlds: World  # [worlds]
    key: Key
    iteration: Array


class Played(NamedTuple):
    """What was seen, done and earned; every field is [length, worlds, ...]."""

    inputs: Array
    raw: Array
    log_prob: Array
    value: Array
    reward: Array  # the bonus included
    done: Array
    over: Array
    live: Array  # False for the step on which a world starts afresh
    score: Array  # the episode's return where `over`
    noted: Any = None  # of each step, what `play` was told to note; by default whether what came of it is sound


def staggered(key: Key, mdp: BeliefMDP, count: int) -> World:
    """Fresh worlds whose clocks stand anywhere: episodes that only the clock ends would else march in step for ever,
    and an iteration would see beginnings only, or ends only. The cut first episodes are bootstrapped like any other.
    """
    reset_key, clock_key = jax.random.split(key)
    worlds = jax.vmap(mdp.reset)(jax.random.split(reset_key, count))
    return worlds._replace(time=jax.random.randint(clock_key, (count,), 0, mdp.problem.horizon))


def streams(key: Key) -> tuple[Key, Key, Key]:
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
    brain: Brain,
    worlds: World,
    note: Callable[[World, Action, World], Any] = is_sound,
) -> tuple[World, Played, Array]:
    """Every world `length` steps on, with exploration noise."""
    network = brain.network
    count = worlds.over.shape[0]

    def look(worlds: World) -> tuple[Array, Array]:
        inputs = jax.vmap(partial(ppo.agent.inputs, ppo.mdp))(worlds.situation)
        return inputs, brain.values.restore(network.value(brain.inputs.normalise(inputs)))

    def body(
        carry: tuple[World, Array, Array], key: Key
    ) -> tuple[tuple[World, Array, Array], Played]:
        worlds, inputs, value = carry
        noise_key, step_key = jax.random.split(key)
        mean = network.actor(brain.inputs.normalise(inputs))
        raw = mean + jnp.exp(network.log_std) * jax.random.normal(noise_key, mean.shape)
        actions = jax.vmap(ppo.agent.compose)(worlds.situation, raw)
        following, outcome = jax.vmap(ppo.mdp.step)(
            jax.random.split(step_key, count), worlds, actions
        )
        probability = log_prob(raw, mean, network.log_std)
        earned = outcome.reward + outcome.bonus
        live = ~worlds.over
        noted = jax.vmap(note)(worlds, actions, following)
        ends = (outcome.done, outcome.over)
        played = Played(
            inputs, raw, probability, value, earned, *ends, live, following.score, noted
        )
        return (following, *look(following)), played

    first = (worlds, *look(worlds))
    (worlds, _, last_value), played = jax.lax.scan(
        body, first, jax.random.split(key, ppo.config.length)
    )
    return worlds, played, last_value
