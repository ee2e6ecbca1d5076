"""Play: every world some steps on, with exploration noise."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from seerax.agents import Agent
from seerax.compute import devices
from seerax.core import Action, BeliefMDP, Key, World, finite_parts
from seerax.ppo.networks import draw_raw, log_prob
from seerax.ppo.params import Params

Note = Callable[[World, Action, World], Any]  # what to record of a step besides


class Trajectory(NamedTuple):
    """What was seen, done and earned; every field is [rollout_length, worlds, ...]."""

    inputs: Array
    raw: Array
    log_prob: Array
    value: Array
    reward: Array  # the bonus included
    terminated: Array
    over: Array
    live: Array  # False for the step on which a world starts afresh
    episode_return: Array  # where `over`
    extras: Any = None  # what `play` was asked to note of each step


def staggered_worlds(key: Key, mdp: BeliefMDP, count: int) -> World:
    """Creates fresh worlds whose clocks stand anywhere.

    Episodes that only the clock ends would otherwise stay in step for ever, and an iteration would
    see beginnings only, or ends only. The shortened first episodes are bootstrapped like any other.
    """
    reset_key, clock_key = jax.random.split(key)
    worlds = jax.vmap(mdp.reset)(jax.random.split(reset_key, count))
    return worlds._replace(time=jax.random.randint(clock_key, (count,), 0, mdp.problem.horizon))


def split_keys(key: Key) -> tuple[Key, Key, Key]:
    """Returns the next iteration's key, and this device's keys to play and to shuffle."""
    key, local = jax.random.split(key)
    local = jax.random.fold_in(local, jax.lax.axis_index(devices.WORLDS))
    play_key, shuffle_key = jax.random.split(local)
    return key, play_key, shuffle_key


def is_sound(world: World, action: Action, following: World) -> Array:
    """True if a step led to a state, belief and advice that are finite."""
    return jnp.stack(finite_parts(following.situation)).all()


def play(
    mdp: BeliefMDP,
    agent: Agent,
    length: int,
    key: Key,
    params: Params,
    worlds: World,
    note: Note = is_sound,
) -> tuple[World, Trajectory, Array]:
    """Returns every world `length` steps on, what happened on the way, and the value of where each
    stands.
    """
    network = params.network
    count = worlds.over.shape[0]

    def look(worlds: World) -> tuple[Array, Array]:
        inputs = jax.vmap(partial(agent.inputs, mdp))(worlds.situation)
        value = network.value(params.inputs.normalise(inputs))
        return inputs, params.values.restore(value)

    def body(carry: tuple[World, Array, Array], key: Key) -> tuple[tuple, Trajectory]:
        worlds, inputs, value = carry
        noise_key, step_key = jax.random.split(key)
        mean, log_std = network.policy(params.inputs.normalise(inputs))
        raw = draw_raw(noise_key, mean, log_std)
        actions = jax.vmap(agent.compose)(worlds.situation, raw)
        step_keys = jax.random.split(step_key, count)
        following, outcome = jax.vmap(mdp.step)(step_keys, worlds, actions)
        trajectory = Trajectory(
            inputs=inputs,
            raw=raw,
            log_prob=log_prob(raw, mean, log_std),
            value=value,
            reward=outcome.reward + outcome.bonus,
            terminated=outcome.terminated,
            over=outcome.over,
            live=~worlds.over,
            episode_return=following.episode_return,
            extras=jax.vmap(note)(worlds, actions, following),
        )
        return (following, *look(following)), trajectory

    start = (worlds, *look(worlds))
    (worlds, _, last_value), trajectory = jax.lax.scan(body, start, jax.random.split(key, length))
    return worlds, trajectory, last_value
