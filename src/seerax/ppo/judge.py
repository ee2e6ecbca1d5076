"""Judge: what was played, as advantages and as statistics of the whole batch."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from seerax.compute import devices
from seerax.ppo.params import Params
from seerax.ppo.play import Trajectory


def advantages(
    trajectory: Trajectory, last_value: Array, discount: float, gae_lambda: float
) -> Array:
    """Computes generalised advantage estimates in one backward pass.

    After a step that ended its episode the next recorded value is that of the last situation,
    because the fresh start comes one step later. It is used after a time-out and not after a true
    end.
    """

    def body(carry: tuple[Array, Array], step: tuple[Array, ...]) -> tuple[tuple, Array]:
        following, next_value = carry
        reward, value, terminated, over = step
        surprise = reward + discount * (1 - terminated) * next_value - value
        advantage = surprise + discount * gae_lambda * (1 - over) * following
        return (advantage, value), advantage

    steps = (
        trajectory.reward,
        trajectory.value,
        trajectory.terminated.astype(jnp.float32),
        trajectory.over.astype(jnp.float32),
    )
    _, advantage = jax.lax.scan(body, (jnp.zeros_like(last_value), last_value), steps, reverse=True)
    return advantage


class Moments(NamedTuple):
    mean: Array
    variance: Array


class Summary(NamedTuple):
    """Statistics of one iteration's play, over all devices and live steps."""

    target: Moments
    advantage: Moments
    inputs: Moments
    steps: Array
    ended: Array  # episodes
    episode_return: Array  # their mean, exploration included
    unsound: Array  # steps that led to a state, belief or advice that is not finite


def batch_statistics(
    params: Params, trajectory: Trajectory, advantage: Array, target: Array
) -> Summary:
    """All-reduces the statistics as one vector: several messages in no fixed order could wait for
    each other.
    """
    live = trajectory.live.astype(jnp.float32)
    measured = (target, advantage, trajectory.inputs)
    # Sums around a point near the mean are exact enough in 32 bits.
    centres = (params.values.mean, jnp.zeros(()), params.inputs.mean)

    def sums(x: Array, centre: Array) -> Moments:
        weight = live.reshape(*live.shape, *[1] * (x.ndim - 2))
        away = x - centre
        return Moments((weight * away).sum((0, 1)), (weight * away**2).sum((0, 1)))

    counts = (
        live.sum(),
        trajectory.over.sum().astype(jnp.float32),
        (trajectory.over * trajectory.episode_return).sum(),
        (~trajectory.extras).sum().astype(jnp.float32),
    )
    local = ([sums(x, centre) for x, centre in zip(measured, centres, strict=True)], counts)
    each, (steps, ended, returns, unsound) = sum_over_devices(local)

    def moments(total: Moments, centre: Array) -> Moments:
        first = total.mean / steps
        second = total.variance / steps
        return Moments(centre + first, jnp.maximum(second - first**2, 0.0))

    of_target, of_advantage, of_inputs = map(moments, each, centres)
    mean_return = returns / jnp.maximum(ended, 1)
    return Summary(of_target, of_advantage, of_inputs, steps, ended, mean_return, unsound)


def sum_over_devices(x: Any) -> Any:
    """Sums a pytree over all devices in one all-reduce."""
    count = jax.lax.psum(1, devices.WORLDS)
    return jax.tree.map(lambda leaf: leaf * count, mean_over_devices(x))


def mean_over_devices(x: Any) -> Any:
    """Averages a pytree over all devices in one all-reduce."""
    vector, unravel = ravel_pytree(x)
    return unravel(jax.lax.pmean(vector, devices.WORLDS))
