"""Episodes: the same whichever way they are played, and counted rightly."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from jax import Array

from seerax import advice, agents, ppo, rollout
from seerax.compute import devices
from seerax.core import Action, BeliefMDP, Key, Latent, Situation, Step
from seerax.filters import Categorical
from seerax.problems import tiger
from seerax.rollout import evaluate, record

KEY = jax.random.key(11)

# ---- a problem with known statistics -------------------------------------------------------------

MEAN, STD, STOP, CLOCK = 1.0, 2.0, 0.25, 12


class LotteryState(NamedTuple):
    last: Array


@dataclass(frozen=True)
class Lottery:
    """Each step pays N(MEAN, STD^2) and is the last with probability STOP.

    Nothing that is done matters.
    """

    horizon: int = CLOCK
    discount: float = 1.0
    action_low: tuple[float, ...] = (-1.0,)
    action_high: tuple[float, ...] = (1.0,)

    def prior(self, key: Key) -> Latent:
        return jax.random.normal(key)

    def reset(self, key: Key, latent: Latent) -> LotteryState:
        return LotteryState(jnp.float32(0))

    def step(self, key: Key, state: LotteryState, action: Action, latent: Latent) -> Step:
        pay_key, stop_key = jax.random.split(key)
        paid = MEAN + STD * jax.random.normal(pay_key)
        return Step(LotteryState(paid), paid, jax.random.bernoulli(stop_key, STOP))

    def features(self, state: LotteryState) -> Array:
        return state.last[None]


@pytest.fixture(scope="module")
def lottery() -> BeliefMDP:
    filter = Categorical(jnp.zeros(2), lambda s, a, n, phi: 0.0)
    return BeliefMDP(Lottery(), filter, lambda moment, state, belief: jnp.zeros(1))


@pytest.fixture(scope="module")
def drawn(lottery: BeliefMDP) -> rollout.Evaluation:
    return evaluate(KEY, lottery, advice.follow_advice, 4096)


def test_lengths_and_returns_have_their_known_distribution(drawn: rollout.Evaluation) -> None:
    lengths = np.arange(1, CLOCK + 1)
    chances = STOP * (1 - STOP) ** (lengths - 1)
    chances[-1] = (1 - STOP) ** (CLOCK - 1)
    counts = np.bincount(drawn.lengths, minlength=CLOCK + 1)[1:]
    assert (np.abs(counts / 4096 - chances) < 4 * np.sqrt(chances * (1 - chances) / 4096)).all()
    mean_length = chances @ lengths
    variance = mean_length * STD**2 + MEAN**2 * (chances @ lengths**2 - mean_length**2)
    assert abs(drawn.mean - MEAN * mean_length) < 4 * np.sqrt(variance / 4096)
    assert drawn.stderr == pytest.approx(np.sqrt(variance / 4096), rel=0.1)


def test_the_summary_says_what_the_episodes_say(drawn: rollout.Evaluation) -> None:
    summary = drawn.summary()
    returns = drawn.returns.astype(np.float64)
    assert summary["episodes"] == 4096
    assert summary["mean"] == pytest.approx(returns.mean(), rel=1e-4)
    assert summary["stderr"] == pytest.approx(scipy.stats.sem(returns), rel=1e-4)
    interval = scipy.stats.t.interval(0.95, 4095, returns.mean(), scipy.stats.sem(returns))
    np.testing.assert_allclose(summary["ci95"], interval, rtol=1e-4)
    assert summary["length"] == pytest.approx(drawn.lengths.mean())
    assert summary["success"] is None and summary["sensing"] is None


def test_the_uncertainty_of_seeds_that_differ_is_that_between_them(
    drawn: rollout.Evaluation,
) -> None:
    parts = [replace(drawn, returns=drawn.returns + shift) for shift in (0.0, 1.0, 5.0)]
    whole = rollout.pool_seeds(parts)
    means = [part.mean for part in parts]
    assert whole.mean == pytest.approx(np.mean(means), rel=1e-5)
    assert whole.stderr == pytest.approx(scipy.stats.sem(means), rel=1e-4)
    interval = scipy.stats.t.interval(0.95, 2, np.mean(means), scipy.stats.sem(means))
    np.testing.assert_allclose(whole.interval(), interval, rtol=1e-4)


# ---- the i-th episode ----------------------------------------------------------------------------


def same(a: rollout.Evaluation, b: rollout.Evaluation, count: int) -> None:
    np.testing.assert_array_equal(a.lengths[:count], b.lengths[:count])
    np.testing.assert_allclose(a.returns[:count], b.returns[:count], rtol=1e-5)
    assert a.lengths.size >= count <= b.lengths.size


def test_the_ith_episode_does_not_depend_on_how_many_are_played(
    lottery: BeliefMDP, drawn: rollout.Evaluation
) -> None:
    few = evaluate(KEY, lottery, advice.follow_advice, 7)  # an odd number runs on one device
    assert few.returns.shape == (7,)
    same(few, drawn, 7)


def test_the_ith_episode_does_not_depend_on_the_batch(
    lottery: BeliefMDP, drawn: rollout.Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollout, "BATCH", 16)
    played: list[int] = []
    batched = evaluate(KEY, lottery, advice.follow_advice, 40, played.append)
    assert batched.returns.shape == (40,) and played == [16, 16, 8]
    same(batched, drawn, 40)


def test_the_ith_episode_does_not_depend_on_the_devices(
    lottery: BeliefMDP, drawn: rollout.Evaluation
) -> None:
    assert devices.mesh().size == devices.mesh(4096).size == 2
    keys = jax.vmap(lambda i: jax.random.fold_in(KEY, i))(jnp.arange(64))
    alone = jax.jit(lambda keys: rollout.play_batch(lottery, advice.follow_advice, keys))(keys)
    assert len(alone.episode_return.sharding.device_set) == 1
    np.testing.assert_array_equal(alone.length, drawn.lengths[:64])
    np.testing.assert_allclose(alone.episode_return, drawn.returns[:64], rtol=1e-5)


def test_episodes_of_an_evaluation_are_spread_over_both_devices(lottery: BeliefMDP) -> None:
    tally = rollout.play_batch_sharded(lottery, advice.follow_advice, jax.random.split(KEY, 4096))
    assert sorted(shard.data.shape[0] for shard in tally.episode_return.addressable_shards) == [
        2048,
        2048,
    ]


def test_different_keys_give_different_episodes(
    lottery: BeliefMDP, drawn: rollout.Evaluation
) -> None:
    other = evaluate(jax.random.key(12), lottery, advice.follow_advice, 4096)
    assert np.mean(other.returns == drawn.returns) < 0.01


@pytest.fixture(scope="module")
def on_tree(tree_mdp: BeliefMDP) -> rollout.Evaluation:
    return evaluate(KEY, tree_mdp, advice.follow_advice, 16)


def test_steps_that_sensed_are_counted_to_the_end_of_an_episode_and_not_beyond(
    tree_mdp: BeliefMDP, on_tree: rollout.Evaluation
) -> None:
    assert on_tree.sensed is not None and np.unique(on_tree.lengths).size > 2
    for i in range(10):
        readings = record(
            jax.random.fold_in(KEY, i), tree_mdp, advice.follow_advice
        ).situation.state.reading
        assert on_tree.sensed[i] == (readings != 0).any(-1).sum()


@pytest.mark.parametrize(("name", "evaluated"), [("lottery", "drawn"), ("tree_mdp", "on_tree")])
def test_a_recorded_episode_is_the_evaluated_one(
    name: str, evaluated: str, request: pytest.FixtureRequest
) -> None:
    mdp: BeliefMDP = request.getfixturevalue(name)
    evaluation: rollout.Evaluation = request.getfixturevalue(evaluated)
    for i in range(10):
        episode, length = (
            record(jax.random.fold_in(KEY, i), mdp, advice.follow_advice),
            evaluation.lengths[i],
        )
        assert len(episode.reward) == length + 1  # the last situation is shown, too
        assert episode.over.tolist() == [False] * length + [True]
        assert episode.reward.sum() == pytest.approx(evaluation.returns[i], rel=1e-5, abs=1e-5)


def test_a_recorded_return_is_the_sum_so_far_to_the_very_end(lottery: BeliefMDP) -> None:
    for i in range(10):
        episode = record(jax.random.fold_in(KEY, i), lottery, advice.follow_advice)
        np.testing.assert_allclose(
            episode.episode_return, np.cumsum(episode.reward), rtol=1e-4, atol=1e-4
        )


def test_no_action_is_recorded_with_the_last_situation(tree_mdp: BeliefMDP) -> None:
    episode = record(KEY, tree_mdp, advice.follow_advice)
    assert len(episode.reward) <= tree_mdp.problem.horizon  # ended by the task, not by the clock
    assert np.abs(episode.action[:-1]).sum(-1).min() > 0
    np.testing.assert_array_equal(episode.action[-1], 0)


def test_a_recorded_episode_is_one_life_with_one_latent(lottery: BeliefMDP) -> None:
    latents = []
    for i in range(8):
        episode = record(jax.random.fold_in(KEY, i), lottery, advice.follow_advice)
        assert len(set(episode.latent.tolist())) == 1
        np.testing.assert_array_equal(episode.situation.state.last[1:], episode.reward[:-1])
        latents.append(episode.latent[0])
    assert len(set(latents)) == 8


# ---- policies ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tree_mdp", "maze4_mdp"])
def test_an_untrained_residual_is_exactly_the_ensemble(
    name: str, request: pytest.FixtureRequest
) -> None:
    mdp: BeliefMDP = request.getfixturevalue(name)
    learner = ppo.PPO(mdp, agents.brpo, ppo.Config(worlds=2, rollout_length=2, minibatches=1))
    policy = learner.policy(jax.jit(learner.init)(jax.random.key(5)).params)
    untrained, ensemble = (
        evaluate(KEY, mdp, acting, 16) for acting in (policy, advice.follow_advice)
    )
    np.testing.assert_array_equal(untrained.returns, ensemble.returns)
    np.testing.assert_array_equal(untrained.lengths, ensemble.lengths)
    np.testing.assert_array_equal(untrained.sensed, ensemble.sensed)
    assert np.unique(ensemble.returns).size > 4


class ByEar(NamedTuple):
    """A policy for Tiger: one choice for each of silence, tiger heard left, tiger heard right."""

    choices: Array

    def __call__(self, key: Key, situation: Situation) -> Action:
        return jax.nn.one_hot(self.choices[situation.state.heard], 3)


def by_ear(mdp: BeliefMDP, *choices: int) -> rollout.Evaluation:
    return evaluate(KEY, mdp, ByEar(jnp.array(choices)), 2000)


def test_listening_for_ever_senses_always_and_never_succeeds(tiger_mdp: BeliefMDP) -> None:
    summary = by_ear(tiger_mdp, tiger.LISTEN, tiger.LISTEN, tiger.LISTEN).summary()
    assert (summary["sensing"], summary["success"], summary["length"], summary["mean"]) == (
        1,
        0,
        100,
        -100,
    )


def test_opening_at_once_senses_never_and_succeeds_half_the_time(tiger_mdp: BeliefMDP) -> None:
    summary = by_ear(tiger_mdp, tiger.OPEN_LEFT, tiger.OPEN_LEFT, tiger.OPEN_LEFT).summary()
    assert summary["sensing"] == 0 and summary["length"] == 1
    assert abs(summary["success"] - 0.5) < 4 * np.sqrt(0.25 / 2000)


def test_listening_once_senses_every_other_step_and_succeeds_as_often_as_one_hears_right(
    tiger_mdp: BeliefMDP,
) -> None:
    evaluation = by_ear(tiger_mdp, tiger.LISTEN, tiger.OPEN_RIGHT, tiger.OPEN_LEFT)
    assert evaluation.success is not None and evaluation.sensed is not None
    assert (evaluation.lengths == 2).all() and (evaluation.sensed == 1).all()
    assert evaluation.summary()["sensing"] == 0.5
    np.testing.assert_array_equal(evaluation.returns, np.where(evaluation.success, 10, -100) - 1)
    assert abs(evaluation.success.mean() - 0.85) < 4 * np.sqrt(0.85 * 0.15 / 2000)
