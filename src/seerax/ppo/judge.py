"""Judge: what was played, as advantages and in sums."""

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
    """Generalised advantage estimates, backwards once.

    After a step that ended its episode the next recorded value is that of the last situation, because the fresh
    start comes a step later: it is used after a time-out and not after a true end.
    """

    def body(
        carry: tuple[Array, Array], step: tuple[Array, ...]
    ) -> tuple[tuple[Array, Array], Array]:
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
    """What an iteration's play amounts to, over all devices and live steps."""

    target: Moments
    advantage: Moments
    inputs: Moments
    steps: Array
    ended: Array  # episodes
    episode_return: Array  # their mean return, exploration included
    unsound: Array  # steps that led to a state, belief or advice that is not finite


def batch_statistics(
    params: Params, trajectory: Trajectory, advantage: Array, target: Array
) -> Summary:
    """All statistics in one message between the devices: several in no fixed order could wait for each other."""
    live = trajectory.live.astype(jnp.float32)
    measured = (target, advantage, trajectory.inputs)
    centres = (
        params.values.mean,
        jnp.zeros(()),
        params.inputs.mean,
    )  # near the means: exact enough in 32 bits

    def sums(x: Array, centre: Array) -> Moments:
        weight, away = live.reshape(*live.shape, *[1] * (x.ndim - 2)), x - centre
        return Moments((weight * away).sum((0, 1)), (weight * away**2).sum((0, 1)))

    unsound = (~trajectory.extras).sum().astype(jnp.float32)
    counts = (
        live.sum(),
        trajectory.over.sum().astype(jnp.float32),
        (trajectory.over * trajectory.episode_return).sum(),
        unsound,
    )
    local = ([sums(x, centre) for x, centre in zip(measured, centres, strict=True)], counts)
    each, (steps, ended, episode_return, unsound) = jax.tree.map(
        lambda x: x * jax.lax.psum(1, devices.WORLDS), mean_over_devices(local)
    )

    def moments(total: Moments, centre: Array) -> Moments:
        first, second = total.mean / steps, total.variance / steps
        return Moments(centre + first, jnp.maximum(second - first**2, 0.0))

    target_, advantage_, inputs_ = (
        moments(total, centre) for total, centre in zip(each, centres, strict=True)
    )
    return Summary(
        target_, advantage_, inputs_, steps, ended, episode_return / jnp.maximum(ended, 1), unsound
    )


def mean_over_devices(x: Any) -> Any:
    """The mean over all devices, as one message."""
    vector, unravel = ravel_pytree(x)
    return unravel(jax.lax.pmean(vector, devices.WORLDS))
