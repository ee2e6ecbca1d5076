"""Advisors against the sums, maxima and frequencies they stand for."""

from __future__ import annotations

from collections import Counter
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from seerax import advice, rollout
from seerax.core import BeliefMDP, Expert, Latent, Moment
from seerax.filters import Categorical
from seerax.problems import tiger, tree

DRAWS = 20_000
SUPPORT = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
WEIGHTS = np.array([0.1, 0.2, 0.3, 0.4])
PRIOR = np.array([0.4, 0.3, 0.2, 0.1])
STATE = np.array([0.3, -1.2])
BELIEF = jnp.log(jnp.asarray(WEIGHTS))

four = Categorical(jnp.asarray(SUPPORT), lambda s, a, n, phi: 0.0, jnp.log(jnp.asarray(PRIOR)))
counting = Expert(
    plan=lambda latent: latent, act=lambda state, plan: plan
)  # its action is the latent it was told
keys = partial(jax.random.split, jax.random.key(7))


def moment(key: int = 0, episode: int = 0, time: int = 0) -> Moment:
    return Moment(jax.random.key(key), jax.random.key(episode), jnp.int32(time))


class Planner:
    """An expert that remembers which latents it planned for. It acts linearly in the state."""

    def __init__(self) -> None:
        self.planned: Counter[tuple[float, ...]] = Counter()
        self.expert = Expert(self.plan, lambda state, plan: plan @ state)

    def plan(self, latent: Latent) -> jax.Array:
        self.planned[tuple(np.asarray(latent).tolist())] += 1
        return self.matrix(latent)

    @staticmethod
    def matrix(latent: Latent) -> jax.Array:
        x, y = latent
        return jnp.array([[jnp.cos(x), y], [x - y, 1.0], [0.5, x * y]])


def actions_of_all() -> np.ndarray:
    return np.stack([np.asarray(Planner.matrix(phi), np.float64) @ STATE for phi in SUPPORT])


# ---- combinations --------------------------------------------------------------------------------


def test_weighted_is_the_belief_weighted_sum_of_the_experts_actions() -> None:
    advise = advice.weighted(four, Planner().expert)
    np.testing.assert_allclose(
        advise(moment(), STATE, BELIEF), WEIGHTS @ actions_of_all(), rtol=1e-5
    )


def random_gaussians(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Means [4, 3] and covariances [4, 3, 3]."""
    roots = rng.normal(size=(4, 3, 3))
    return rng.normal(size=(4, 3)), roots @ roots.transpose(0, 2, 1) + 0.2 * np.eye(3)


def precision_weighted(mu: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    filter = Categorical(jnp.arange(4), lambda s, a, n, phi: 0.0)
    means, covariances = jnp.asarray(mu), jnp.asarray(sigma)
    advise = advice.precision_weighted(
        filter, lambda i: i, lambda state, i: (means[i], covariances[i])
    )
    return np.asarray(advise(moment(), STATE, BELIEF))


@pytest.mark.parametrize("seed", range(3))
def test_precision_weighted_maximises_the_expected_log_density_of_the_experts(seed: int) -> None:
    mu, sigma = random_gaussians(np.random.default_rng(seed))

    def expected_log_density(action: np.ndarray) -> float:
        logs = [
            scipy.stats.multivariate_normal(m, s).logpdf(action)
            for m, s in zip(mu, sigma, strict=True)
        ]
        return float(WEIGHTS @ logs)

    best = scipy.optimize.minimize(lambda a: -expected_log_density(a), np.zeros(3), tol=1e-10)
    np.testing.assert_allclose(precision_weighted(mu, sigma), best.x, atol=1e-3)
    assert (
        expected_log_density(precision_weighted(mu, sigma)) >= expected_log_density(best.x) - 1e-5
    )


def test_precision_weighted_is_weighted_when_all_experts_are_equally_sure() -> None:
    mu, sigma = random_gaussians(np.random.default_rng(3))
    same = np.broadcast_to(sigma[0], sigma.shape)
    np.testing.assert_allclose(precision_weighted(mu, same), WEIGHTS @ mu, atol=1e-4)


def test_precision_weighted_listens_to_the_surest_expert() -> None:
    mu, sigma = random_gaussians(np.random.default_rng(4))
    sure = sigma.copy()
    sure[0] = 1e-5 * np.eye(3)
    np.testing.assert_allclose(precision_weighted(mu, sure), mu[0], atol=1e-2)


def test_most_likely_asks_the_expert_of_the_likeliest_latent() -> None:
    advise = advice.most_likely(four, Planner().expert)
    np.testing.assert_allclose(advise(moment(), STATE, BELIEF), actions_of_all()[3], rtol=1e-5)


def test_of_mean_asks_the_expert_of_the_mean_latent() -> None:
    advise = advice.at_mean(four, Planner().expert)
    expected = np.asarray(Planner.matrix(WEIGHTS @ SUPPORT)) @ STATE
    np.testing.assert_allclose(advise(moment(), STATE, BELIEF), expected, rtol=1e-5)


def test_plans_are_made_once_for_every_entry_of_the_support_however_often_advice_is_asked() -> None:
    planner = Planner()
    once_each = Counter({tuple(phi): 1 for phi in SUPPORT.tolist()})
    advise = advice.weighted(four, planner.expert)
    for time in range(3):
        advise(moment(time=time), STATE, BELIEF)
    assert planner.planned == once_each


def test_a_tabulated_expert_plans_beforehand_and_takes_the_plan_of_the_nearest_entry() -> None:
    planner = Planner()
    told = advice.tabulate(planner.expert, four.support)
    assert set(planner.planned.values()) == {1} and len(planner.planned) == 4
    latents = np.random.default_rng(0).uniform(-1, 4, (50, 2)).astype(np.float32)
    nearest = np.argmin(np.linalg.norm(latents[:, None] - SUPPORT, axis=-1), axis=1)
    actions = jax.vmap(lambda phi: told.act(STATE, told.plan(phi)))(latents)
    np.testing.assert_allclose(actions, actions_of_all()[nearest], rtol=1e-5)
    assert sum(planner.planned.values()) == 4


# ---- posterior sampling --------------------------------------------------------------------------


def four_sigma(weights: np.ndarray) -> np.ndarray:
    return 4 * np.sqrt(weights * (1 - weights) / DRAWS)


def frequencies(drawn: jax.Array) -> np.ndarray:
    """How often each entry of the support is among the actions of `counting`."""
    return (np.asarray(drawn)[:, None] == SUPPORT).all(-1).mean(0)


def test_sampled_per_step_draws_from_the_belief() -> None:
    advise = advice.posterior_sampling(four, counting)
    drawn = jax.vmap(lambda key: advise(moment()._replace(key=key), STATE, BELIEF))(keys(DRAWS))
    assert (np.abs(frequencies(drawn) - WEIGHTS) < four_sigma(WEIGHTS)).all()


def test_sampled_per_episode_is_constant_within_an_episode_whatever_the_belief() -> None:
    advise = advice.posterior_sampling(four, counting, per="episode")
    beliefs = jnp.log(jnp.asarray(np.random.default_rng(0).dirichlet(np.ones(4), 200)))
    ask = jax.vmap(lambda key, belief: advise(moment(episode=5)._replace(key=key), STATE, belief))
    assert np.max(frequencies(ask(keys(200), beliefs))) == 1


def test_sampled_per_episode_draws_from_the_prior_across_episodes() -> None:
    advise = advice.posterior_sampling(four, counting, per="episode")
    drawn = jax.vmap(lambda key: advise(moment()._replace(episode=key), STATE, BELIEF))(keys(DRAWS))
    assert (np.abs(frequencies(drawn) - PRIOR) < four_sigma(PRIOR)).all()


def test_sampled_per_stage_is_constant_within_a_stage_and_drawn_from_the_belief_across_stages() -> (
    None
):
    advise = advice.posterior_sampling(four, counting, per=lambda state: state)
    within = jax.vmap(
        lambda key: advise(moment(episode=5)._replace(key=key), jnp.int32(3), BELIEF)
    )(keys(200))
    across = jax.vmap(lambda stage: advise(moment(episode=5), stage, BELIEF))(jnp.arange(DRAWS))
    assert np.max(frequencies(within)) == 1
    assert (np.abs(frequencies(across) - WEIGHTS) < four_sigma(WEIGHTS)).all()


def leaves_reached(episode: rollout.Episode) -> list[tuple[float, ...]]:
    leaf = episode.situation.state.leaf
    return [tuple(row) for row in leaf[(leaf != 0).any(-1)].tolist()]


def test_posterior_sampling_tries_every_leaf_at_most_once_and_keeps_to_the_gold(
    tree_mdp: BeliefMDP,
) -> None:
    mdp = tree.posterior_sampling(tree_mdp)
    for seed in range(12):
        episode = rollout.record(jax.random.key(seed), mdp, advice.follow_advice)
        reached, gold = leaves_reached(episode), tuple(episode.latent[0].tolist())
        misses = reached[: reached.index(gold)] if gold in reached else reached
        assert len(reached) == 4
        assert len(set(misses)) == len(misses)
        assert set(reached[len(misses) :]) <= {gold}


def test_a_draw_for_the_whole_episode_leads_to_the_same_leaf_in_every_round(
    tree_mdp: BeliefMDP,
) -> None:
    mdp = tree_mdp.with_advisor(
        advice.posterior_sampling(tree_mdp.filter, tree.walking_expert(), per="episode")
    )
    reached = [
        leaves_reached(rollout.record(jax.random.key(seed), mdp, advice.follow_advice))
        for seed in range(12)
    ]
    assert all(len(leaves) == 4 and len(set(leaves)) == 1 for leaves in reached)
    assert len({leaves[0] for leaves in reached}) > 3


# ---- sensing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("probability", [0.0, 0.3, 0.5, 1.0])
def test_sometimes_senses_at_the_given_rate_and_leaves_the_other_votes_alone(
    probability: float,
) -> None:
    problem = tiger.Tiger()
    votes = jnp.array([0.0, 0.2, 0.8])
    advise = advice.sense_randomly(problem, lambda moment, state, belief: votes, probability)
    given = np.asarray(
        jax.vmap(lambda key: advise(moment()._replace(key=key), None, None))(keys(DRAWS))
    )
    rate = np.mean(given.argmax(-1) == tiger.LISTEN)
    assert abs(rate - probability) <= 4 * np.sqrt(probability * (1 - probability) / DRAWS)
    np.testing.assert_array_equal(given[:, 1:], np.broadcast_to(votes[1:], (DRAWS, 2)))


def test_the_coin_for_sensing_is_independent_of_what_the_advisor_draws() -> None:
    filter = Categorical(jnp.array([0.0, 1.0]), lambda s, a, n, phi: 0.0)
    advise = advice.sense_randomly(
        tiger.Tiger(), advice.posterior_sampling(filter, tiger.door_expert())
    )
    ask = jax.vmap(lambda key: advise(moment()._replace(key=key), None, filter.init()))
    given = np.asarray(ask(keys(DRAWS)))
    listens, left = (
        given.argmax(-1) == tiger.LISTEN,
        given[:, tiger.OPEN_LEFT] > given[:, tiger.OPEN_RIGHT],
    )
    table = np.array([[np.sum((listens == a) & (left == b)) for b in (0, 1)] for a in (0, 1)])
    assert scipy.stats.chi2_contingency(table).pvalue > 1e-3


def test_at_first_senses_in_exactly_the_first_steps_of_every_episode(tiger_mdp: BeliefMDP) -> None:
    doors = advice.weighted(tiger_mdp.filter, tiger.door_expert())
    mdp = tiger_mdp.with_advisor(advice.sense_first(tiger_mdp.problem, doors, 3))
    evaluation = rollout.evaluate(jax.random.key(0), mdp, advice.follow_advice, 64)
    assert (evaluation.lengths == 4).all()
    assert np.all(evaluation.sensed == 3)


# ---- told the latent -----------------------------------------------------------------------------


def test_the_clairvoyant_always_finds_the_gold(tiger_mdp: BeliefMDP) -> None:
    evaluation = rollout.evaluate(
        jax.random.key(0), tiger_mdp, advice.Clairvoyant(tiger.door_expert()), 64
    )
    assert (evaluation.returns == tiger.GOLD).all()


def test_the_ensemble_follows_the_advice_as_it_is(tiger_mdp: BeliefMDP) -> None:
    situation = tiger_mdp.reset(jax.random.key(3)).situation
    np.testing.assert_array_equal(
        advice.follow_advice(jax.random.key(0), situation), situation.advice
    )
