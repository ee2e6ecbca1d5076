"""Episodes are played and counted rightly: each test fails on a fault once overlooked."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from seerax import advice, agents, ppo, rollout
from seerax.bonuses import potential
from seerax.core import Action, BeliefMDP, Key, Outcome, Situation
from seerax.errors import UserError
from seerax.experiments import Experiment
from seerax.players import baseline
from seerax.problems import tiger
from seerax.rollout import Evaluation
from seerax.runs.policies import load_params

KEY = jax.random.key(11)
LISTEN, OPEN_LEFT = jnp.array([1.0, 0.0, 0.0]), jnp.array([0.0, 1.0, 0.0])


def listen(key: Key, situation: Situation) -> Action:
    return LISTEN


# ---- the potential at an episode's end -----------------------------------------------------------

EPSILON, DISCOUNT = 3.0, 0.9


def last_step(mdp: BeliefMDP, action: Action) -> Outcome:
    """The outcome of an episode's last step before the clock runs out, from an undecided belief."""
    world = mdp.reset(KEY)._replace(time=jnp.int32(mdp.problem.horizon - 1))
    _, outcome = mdp.step(jax.random.key(1), world, action)
    assert outcome.over
    return outcome


def test_the_potential_is_not_forgotten_when_only_the_time_is_over() -> None:
    """The critic's value is used after a time-out, and it holds what the potential still owes."""
    mdp = tiger.tiger().with_bonus(potential(EPSILON, DISCOUNT))
    outcome = last_step(mdp, LISTEN)
    assert not outcome.terminated
    entropy = scipy.stats.entropy([0.85, 0.15], base=2)
    assert float(outcome.bonus) == pytest.approx(EPSILON * (1 - DISCOUNT * entropy), rel=1e-4)


def test_the_potential_is_zero_where_the_task_is_over() -> None:
    mdp = tiger.tiger().with_bonus(potential(EPSILON, DISCOUNT))
    outcome = last_step(mdp, OPEN_LEFT)
    assert outcome.terminated
    assert float(outcome.bonus) == pytest.approx(EPSILON, rel=1e-5)


# ---- keys ----------------------------------------------------------------------------------------


def words(key: Key) -> tuple[int, ...]:
    return tuple(np.asarray(jax.random.key_data(key)).tolist())


def test_no_step_has_a_key_of_the_reset_or_of_another_step() -> None:
    telling: Any = SimpleNamespace(reset=lambda key: key)
    reset_key: Any = rollout.start(telling, KEY)
    of_reset = [KEY, reset_key, *jax.random.split(reset_key), *jax.random.split(reset_key, 3)]
    of_steps = [key for time in range(20) for key in rollout.step_keys(KEY, time)]
    assert len({words(key) for key in of_steps}) == 40
    assert {words(key) for key in of_steps}.isdisjoint(words(key) for key in of_reset)


def test_an_episodes_steps_do_not_depend_on_the_policy(tiger_mdp: BeliefMDP) -> None:
    """So that policies are compared on the same chance: whoever listens hears the same."""
    always = rollout.record(KEY, tiger_mdp, listen)

    def curious(key: Key, situation: Situation) -> Action:
        return LISTEN + 0.5 * jax.random.uniform(key, (3,))

    wavering = rollout.record(KEY, tiger_mdp, curious)
    np.testing.assert_array_equal(
        always.situation.state.heard[:50], wavering.situation.state.heard[:50]
    )


# ---- posterior sampling --------------------------------------------------------------------------


def test_the_baseline_of_posterior_sampling_believes_one_draw_for_a_whole_episode(
    tiger_mdp: BeliefMDP,
) -> None:
    player = baseline(tiger_mdp, "posterior_sampling")
    play = jax.jit(jax.vmap(lambda key: rollout._record(key, player.mdp, listen)))
    advised = play(jax.random.split(KEY, 40)).situation.advice  # [episodes, steps, 3]
    left = np.asarray(advised[..., tiger.OPEN_LEFT] > advised[..., tiger.OPEN_RIGHT])
    assert left.shape == (40, 101)
    assert (left == left[:, :1]).all()
    assert 8 <= left[:, 0].sum() <= 32


# ---- sensing -------------------------------------------------------------------------------------


def test_sensing_is_counted_as_it_is_done_after_clipping(tiger_mdp: BeliefMDP) -> None:
    """Votes of 11 and 12 are both 10 to the problem, which then listens; so the count must say."""
    found = rollout.evaluate(
        KEY, tiger_mdp, lambda key, situation: jnp.array([11.0, 12.0, 0.0]), 16
    )
    assert (found.lengths == 100).all() and (found.returns == -100).all()
    assert found.summary()["sensing"] == 1


def evaluation(returns: Any, **more: Any) -> Evaluation:
    returns = np.asarray(returns, float)
    about = {"lengths": np.ones(returns.size), "sensed": None, "success": None}
    return Evaluation(returns, **(about | more))


def test_sensing_is_a_share_of_all_steps_and_not_a_mean_over_episodes() -> None:
    found = evaluation([0, 0], lengths=np.array([1, 9]), sensed=np.array([1.0, 0.0]))
    assert found.summary()["sensing"] == pytest.approx(0.1)
    assert found.summary()["length"] == 5


# ---- intervals over seeds ------------------------------------------------------------------------


def test_seeds_that_agree_do_not_hide_the_noise_of_their_episodes() -> None:
    """Each of three seeds returns 1 on average, over episodes that return -9, 1 or 11."""
    one = evaluation([-9.0, 1.0, 11.0] * 20)
    whole = rollout.pool_seeds([one] * 3)
    every = np.tile(one.returns, 3)
    assert whole.mean == 1 and whole.seeds == 3
    assert whole.stderr == pytest.approx(scipy.stats.sem(every), rel=1e-9)
    expected = scipy.stats.t.interval(0.95, every.size - 1, 1.0, scipy.stats.sem(every))
    np.testing.assert_allclose(whole.interval(), expected, rtol=1e-9)
    np.testing.assert_allclose(whole.summary()["ci95"], expected, rtol=1e-9)


def test_many_episodes_do_not_hide_that_seeds_differ() -> None:
    parts = [evaluation(np.full(10_000, mean) + [-1, 1] * 5_000) for mean in (0.0, 1.0, 5.0)]
    whole = rollout.pool_seeds(parts)
    stderr = scipy.stats.sem([0.0, 1.0, 5.0])
    assert whole.stderr == pytest.approx(stderr, rel=1e-9)
    expected = scipy.stats.t.interval(0.95, 2, 2.0, stderr)
    np.testing.assert_allclose(whole.interval(), expected, rtol=1e-9)


def test_one_seed_has_the_interval_of_its_episodes_and_one_episode_none() -> None:
    values = np.random.default_rng(0).normal(size=50)
    expected = scipy.stats.t.interval(0.95, 49, values.mean(), scipy.stats.sem(values))
    np.testing.assert_allclose(evaluation(values).interval(), expected, rtol=1e-9)
    assert evaluation([3.0]).interval() == (3.0, 3.0)


# ---- what is not a number ------------------------------------------------------------------------

TINY = ppo.Config(worlds=2, rollout_length=2, minibatches=1, hidden=(4,))


def broken(mdp: BeliefMDP, agent: str) -> ppo.LearnedPolicy:
    """A policy whose every parameter is NaN."""
    learner = ppo.PPO(mdp, agents.AGENTS[agent], TINY)
    shapes = jax.eval_shape(learner.init, KEY).params
    params = jax.tree.map(lambda leaf: jnp.full(leaf.shape, jnp.nan, leaf.dtype), shapes)
    return learner.policy(params)


@pytest.mark.parametrize("agent", ["brpo", "bpo"])
@pytest.mark.parametrize("name", ["tiger_mdp", "tree_mdp"])
def test_a_policy_of_nan_is_blamed_by_name_where_votes_hide_it(
    name: str, agent: str, request: pytest.FixtureRequest
) -> None:
    """The largest of three votes is always one of them, even if none is a number."""
    mdp: BeliefMDP = request.getfixturevalue(name)
    with pytest.raises(UserError, match=r"The policy's action was NaN .* in 8 of 8 episodes"):
        rollout.evaluate(KEY, mdp, broken(mdp, agent), 8)


def test_a_policy_of_nan_is_refused_when_it_is_loaded(tiger_mdp: BeliefMDP, tmp_path: Path) -> None:
    experiment = Experiment("tiger", ppo=TINY)
    trainer, path = experiment.trainer(tiger_mdp), tmp_path / "policy.safetensors"
    params = jax.jit(trainer.learner.init)(KEY).params
    save = partial(
        replace, trainer.learner.policy(params), about={"experiment": asdict(experiment)}
    )
    save().save(path)
    kept = load_params(trainer, path).params
    jax.tree.map(np.testing.assert_array_equal, kept, params)
    one = params.network.log_std.at[1].set(jnp.nan)
    object.__setattr__(params.network, "log_std", one)  # a single number among hundreds
    save(params=params).save(path)
    with pytest.raises(UserError, match="log_std holds NaN or infinity"):
        load_params(trainer, path)


def test_following_the_advice_of_tiger_is_finite(tiger_mdp: BeliefMDP) -> None:
    found = rollout.evaluate(KEY, tiger_mdp, advice.follow_advice, 8)
    assert np.isfinite(found.returns).all()
