"""Updates over several devices, clipped value targets, and which policy is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jax.sharding import PartitionSpec as P

from seerax import agents
from seerax.compute import devices
from seerax.core import BeliefMDP, Step
from seerax.filters import Categorical
from seerax.keys import training_keys
from seerax.ppo import PPO, Config, Trainer
from seerax.ppo.improve import Minibatch, gradient_of
from seerax.ppo.networks import CLIP, ActorCritic, Normaliser
from seerax.ppo.trainer import is_better

ROWS, INPUTS, ACTIONS = 64, 5, 2


def minibatch(live: np.ndarray) -> Minibatch:
    keys = jax.random.split(jax.random.key(0), 5)
    vector = lambda key: jax.random.normal(key, (ROWS,))  # noqa: E731
    return Minibatch(
        inputs=jax.random.normal(keys[0], (ROWS, INPUTS)),
        raw=jax.random.normal(keys[1], (ROWS, ACTIONS)),
        log_prob=vector(keys[2]) - 3,
        advantage=vector(keys[3]),
        target=3 * vector(keys[4]),
        weight=jnp.asarray(live, jnp.float32),
    )


def gradient_on(count: int, batch: Minibatch) -> Array:
    """Returns the gradient and the metrics on so many devices, as one vector."""
    network = ActorCritic(jax.random.key(1), INPUTS, (8,), jnp.ones(ACTIONS))
    config = Config()
    mesh = jax.make_mesh(
        (count,),
        (devices.WORLDS,),
        axis_types=(jax.sharding.AxisType.Auto,),
        devices=jax.devices()[:count],
    )
    body = lambda batch: gradient_of(network, batch, config)  # noqa: E731
    found = devices.sharded(body, mesh, (P(devices.WORLDS),), P())(batch)
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(found)])


@pytest.mark.parametrize("dead", [0, ROWS // 4, ROWS // 2 - 1, ROWS // 2])
def test_the_gradient_is_the_mean_over_all_live_rows_however_they_are_sharded(dead: int):
    """All dead rows lie on the first device: the mean of each device's mean would weigh its rows more."""
    live = np.arange(ROWS) >= dead
    np.testing.assert_allclose(
        gradient_on(2, minibatch(live)), gradient_on(1, minibatch(live)), rtol=2e-4, atol=1e-6
    )


def test_dead_rows_do_not_count():
    live = np.arange(ROWS) % 3 > 0
    batch = minibatch(live)
    other = batch._replace(target=jnp.where(live, batch.target, 1e3))
    np.testing.assert_array_equal(gradient_on(1, batch), gradient_on(1, other))


# ---- which policy is kept ------------------------------------------------------------------------


def test_a_challenger_must_be_better_by_a_paired_test():
    rng = np.random.default_rng(0)
    best = rng.normal(size=(4, 400))
    noise = rng.normal(size=(4, 400))
    gain = np.array([0.0, 0.02, 0.5, -0.5])[:, None]
    assert is_better(best + gain + noise, best).tolist() == [False, False, True, False]
    assert is_better(best + 0.01, best).all()  # certain, however small
    assert not is_better(best, best).any()


def test_what_is_not_a_number_is_never_better_and_anything_is_better_than_that():
    numbers, nan = np.zeros((1, 8)), np.full((1, 8), np.nan)
    assert not is_better(nan, numbers)[0]
    assert is_better(numbers, nan)[0]
    assert not is_better(nan, nan)[0]


class Risk(NamedTuple):
    outcome: Array


@dataclass(frozen=True)
class Gamble:
    """Every stake has the same small loss on average and more noise: the advice, no stake, is optimal."""

    horizon: int = 4
    discount: float = 1.0
    action_low: tuple[float, ...] = (-1.0,)
    action_high: tuple[float, ...] = (1.0,)

    def prior(self, key):
        return jax.random.randint(key, (), 0, 2).astype(float)

    def reset(self, key, latent):
        return Risk(jnp.float32(0))

    def step(self, key, state, action, latent):
        outcome = jax.random.normal(key)
        return Step(Risk(outcome), 5 * action[0] * outcome - 0.05 * jnp.abs(action[0]), False)

    def features(self, state):
        return jnp.stack([state.outcome])


def gamble(evaluations: int = 16) -> Trainer:
    problem = Gamble()
    filter = Categorical(jnp.array([0.0, 1.0]), lambda s, a, n, phi: 0.0 * phi)
    mdp = BeliefMDP(problem, filter, lambda moment, state, belief: jnp.zeros(1))
    config = Config(
        steps=evaluations * 256,
        worlds=32,
        rollout_length=8,
        minibatches=2,
        learning_rate=1e-2,
        evaluations=evaluations,
        evaluation_episodes=64,
    )
    return Trainer(PPO(mdp, agents.brpo, config))


def test_luck_does_not_replace_an_optimal_ensemble():
    """With a plain comparison most of these seeds would return a policy that only was lucky."""
    trainer = gamble()
    seeds = 8
    challengers = np.zeros(seeds, bool)
    for progress in trainer.train(seed=0, seeds=seeds):
        if progress.evaluated:
            challengers |= progress.held_out > progress.start
    assert challengers.sum() >= 6
    kept = progress.best_return > progress.start
    assert kept.sum() <= 2


def test_the_share_of_clipped_targets_is_reported():
    far = Normaliser(jnp.float32(1.0), jnp.float32(4.0), jnp.float32(10))
    edge = 1 + 2 * CLIP
    assert far.is_clipped(jnp.array([edge - 0.1, edge + 0.1, -edge])).tolist() == [
        False,
        True,
        True,
    ]
    trainer = gamble(evaluations=1)
    state = trainer.learner.init(training_keys(0, 1)[0])
    _, metrics = trainer.iterate(state)
    assert float(metrics["clipped_targets"]) == 0.0
    tight = state.params.values._replace(variance=jnp.float32(1e-6), weight=jnp.float32(1e12))
    _, metrics = trainer.iterate(state._replace(params=state.params._replace(values=tight)))
    assert float(metrics["clipped_targets"]) > 0.9
