"""Improve: epochs of the clipped surrogate on what was played."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from seerax.compute import devices
from seerax.core import Key
from seerax.ppo.config import Config
from seerax.ppo.judge import mean_over_devices
from seerax.ppo.networks import ActorCritic, log_prob
from seerax.ppo.params import Params
from seerax.ppo.play import Trajectory

if TYPE_CHECKING:
    from seerax.ppo.trainer import PPO


class Minibatch(NamedTuple):
    inputs: Array
    raw: Array
    log_prob: Array
    advantage: Array
    target: Array
    weight: Array


def loss(network: ActorCritic, batch: Minibatch, config: Config) -> tuple[Array, dict[str, Array]]:
    """The clipped surrogate, the value error and the entropy. Weights of a whole minibatch sum to one."""
    mean = network.actor(batch.inputs)
    change = log_prob(batch.raw, mean, network.log_std) - batch.log_prob
    ratio = jnp.exp(change)
    clipped = jnp.clip(ratio, 1 - config.clip_ratio, 1 + config.clip_ratio)
    surrogate = jnp.minimum(ratio * batch.advantage, clipped * batch.advantage)
    error = 0.5 * (network.value(batch.inputs) - batch.target) ** 2
    entropy = network.log_std.sum()
    average = lambda x: (x * batch.weight).sum()  # noqa: E731
    policy_loss, value_loss = -average(surrogate), average(error)
    total = (
        policy_loss + config.value_weight * value_loss - config.entropy_weight * average(entropy)
    )
    kl = average(ratio - 1 - change)  # Schulman's low-variance estimate
    share_clipped = average((jnp.abs(ratio - 1) > config.clip_ratio).astype(jnp.float32))
    return total, {
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "kl": kl,
        "clipped": share_clipped,
    }


def gradient_of(
    network: ActorCritic, batch: Minibatch, config: Config
) -> tuple[Any, dict[str, Array]]:
    """(gradient, metrics), summed over slices that stay in a core's cache: a third faster than all rows at once."""
    batch = batch._replace(weight=batch.weight / jnp.maximum(batch.weight.sum(), 1))
    count = devices.slices(batch.weight.shape[0])
    slices = jax.tree.map(lambda x: x.reshape(count, -1, *x.shape[1:]), batch)
    part = lambda some: jax.grad(loss, has_aux=True)(network, some, config)  # noqa: E731
    nothing = jax.tree.map(
        lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(part, first(slices))
    )
    add = lambda total, some: (jax.tree.map(jnp.add, total, part(some)), None)  # noqa: E731
    return jax.lax.scan(add, nothing, slices)[0]


def fast_permutation(key: Key, count: int) -> Array:
    """A random order of `count` things: random bits above, the index below, one sort of plain numbers.

    Eight times as fast as `jax.random.permutation`; equal bits, which keep their order, do no harm to minibatches.
    """
    below = max(count - 1, 1).bit_length()
    bits = jax.random.bits(key, (count,), jnp.uint32) >> below << below
    mask = jnp.uint32((1 << below) - 1)
    return jnp.sort(bits | jnp.arange(count, dtype=jnp.uint32)) & mask


def improve(
    ppo: PPO,
    key: Key,
    params: Params,
    optimiser: Any,
    trajectory: Trajectory,
    advantage: Array,
    target: Array,
) -> tuple[Params, Any, dict[str, Array]]:
    """Epochs of minibatches on what was played."""
    config = ppo.config
    whole = Minibatch(
        params.inputs.normalise(trajectory.inputs),
        trajectory.raw,
        trajectory.log_prob,
        advantage,
        params.values.normalise(target),
        trajectory.live.astype(jnp.float32),
    )
    whole = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), whole)

    def update(carry: tuple, batch: Minibatch) -> tuple[tuple, dict[str, Array]]:
        network, state, stopped = carry
        gradient, metrics = mean_over_devices(gradient_of(network, batch, config))
        change, new_state = ppo.optimiser.update(gradient, state)
        new = (optax.apply_updates(network, change), new_state)
        if config.target_kl is not None:
            stopped = stopped | (metrics["kl"] > config.target_kl)
            new = jax.tree.map(lambda a, b: jnp.where(stopped, a, b), (network, state), new)
        return (*new, stopped), metrics

    def epoch(carry: tuple, key: Key) -> tuple[tuple, dict[str, Array]]:
        order = fast_permutation(key, whole.weight.shape[0])
        batches = jax.tree.map(
            lambda x: x[order].reshape(config.minibatches, -1, *x.shape[1:]), whole
        )
        return jax.lax.scan(update, carry, batches)

    start = (params.network, optimiser, jnp.bool_(False))
    (network, optimiser, _), metrics = jax.lax.scan(
        epoch, start, jax.random.split(key, config.epochs)
    )
    return params._replace(network=network), optimiser, jax.tree.map(jnp.mean, metrics)


def first(many: Any) -> Any:
    """The first row of every leaf."""
    return jax.tree.map(lambda x: x[0], many)
