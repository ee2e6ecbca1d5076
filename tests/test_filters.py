"""Filters against Bayes' rule written out in float64, and against evidence no filter should ever be
shown.
"""

from __future__ import annotations

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax

from seerax.filters import Categorical, Factored, log_odds, spread

STATES, ACTIONS, SIZE = 3, 2, 4
ABSURD = [
    float("nan"),
    float("inf"),
    float("-inf"),
    1e30,
    -1e30,
    3e38,
    -3e38,
    1e4,
    -1e4,
    -1e3,
    -1.0,
    0.0,
    2.0,
]


# ---- random models and their brute-force answers -------------------------------------------------


def random_story(rng: np.random.Generator, length: int) -> list[tuple[int, int, int]]:
    """(state, action, next state) along one random walk."""
    states = rng.integers(STATES, size=length + 1)
    actions = rng.integers(ACTIONS, size=length)
    return list(zip(states[:-1].tolist(), actions.tolist(), states[1:].tolist(), strict=True))


def random_likelihood(rng: np.random.Generator, *size: int) -> np.ndarray:
    """P(s' | s, a, phi) as [s, a, s', phi]."""
    return np.moveaxis(rng.dirichlet(np.ones(STATES), (STATES, ACTIONS, *size)), -1, 2)


def random_transition(rng: np.random.Generator, *size: int) -> np.ndarray:
    """P(phi' | s, a, s', phi) as [s, a, s', phi, phi']; a few moves are impossible."""
    table = rng.dirichlet(np.full(size[-1], 0.5), (STATES, ACTIONS, STATES, *size))
    table[table < 0.02] = 0.0
    return table / table.sum(-1, keepdims=True)


def lookup(likelihood: np.ndarray) -> Categorical:
    """A filter over indices that reads its likelihood from a table."""
    table = jnp.log(jnp.asarray(likelihood, jnp.float32))
    return Categorical(jnp.arange(likelihood.shape[-1]), lambda s, a, n, phi: table[s, a, n, phi])


def moving(filter: Categorical, transition: np.ndarray, log_prior: np.ndarray) -> Categorical:
    with np.errstate(divide="ignore"):
        table = jnp.asarray(np.log(transition), jnp.float32)
    return Categorical(
        filter.support,
        filter.log_likelihood,
        jnp.asarray(log_prior),
        lambda s, a, n: table[s, a, n],
    )


def filtered(filter: Categorical | Factored, story: list[tuple[int, int, int]]) -> np.ndarray:
    update = jax.jit(filter.update)
    belief = filter.init()
    for step in story:
        belief = update(belief, *step)
    return np.exp(np.asarray(belief, np.float64))


def forward_pass(
    prior: np.ndarray, likelihood: np.ndarray, transition: np.ndarray, story: list
) -> np.ndarray:
    """The forward pass of a hidden Markov model whose matrices hang on what was seen."""
    weights = prior
    for s, a, n in story:
        weights = (weights * likelihood[s, a, n]) @ transition[s, a, n]
        weights = weights / weights.sum()
    return weights


def sum_over_paths(
    prior: np.ndarray, likelihood: np.ndarray, transition: np.ndarray, story: list
) -> np.ndarray:
    """P(phi_T | everything seen), adding up every way the latent can have gone."""
    size = prior.size
    weights = np.zeros(size)
    for path in itertools.product(range(size), repeat=len(story) + 1):
        weight = prior[path[0]]
        for (s, a, n), phi, after in zip(story, path[:-1], path[1:], strict=True):
            weight *= likelihood[s, a, n, phi] * transition[s, a, n, phi, after]
        weights[path[-1]] += weight
    return weights / weights.sum()


# ---- equal to brute force ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_categorical_equals_bayes_rule_over_the_whole_sequence(seed: int) -> None:
    rng = np.random.default_rng(seed)
    likelihood, story = random_likelihood(rng, SIZE), random_story(rng, 25)
    expected = softmax(sum(np.log(likelihood[step]) for step in story))
    np.testing.assert_allclose(filtered(lookup(likelihood), story), expected, atol=2e-6)


@pytest.mark.parametrize("seed", range(3))
def test_categorical_with_a_moving_latent_equals_the_forward_pass(seed: int) -> None:
    rng = np.random.default_rng(seed)
    likelihood, transition, story = (
        random_likelihood(rng, SIZE),
        random_transition(rng, SIZE),
        random_story(rng, 40),
    )
    prior = rng.dirichlet(np.ones(SIZE))
    filter = moving(lookup(likelihood), transition, np.log(prior))
    np.testing.assert_allclose(
        filtered(filter, story),
        forward_pass(prior, likelihood, transition, story),
        rtol=1e-4,
        atol=2e-6,
    )


def test_categorical_with_a_moving_latent_equals_the_sum_over_all_latent_paths() -> None:
    rng = np.random.default_rng(3)
    likelihood, transition, story = (
        random_likelihood(rng, SIZE),
        random_transition(rng, SIZE),
        random_story(rng, 5),
    )
    prior = rng.dirichlet(np.ones(SIZE))
    filter = moving(lookup(likelihood), transition, np.log(prior))
    np.testing.assert_allclose(
        filtered(filter, story),
        sum_over_paths(prior, likelihood, transition, story),
        rtol=1e-4,
        atol=2e-6,
    )


def factored_model(rng: np.random.Generator) -> tuple[Factored, np.ndarray, np.ndarray, np.ndarray]:
    """Two factors with three candidates each: the filter, likelihood [s, a, s', m, k], transition,
    prior [m, k].
    """
    factors, candidates = 2, 3
    likelihood = random_likelihood(rng, factors, candidates)
    transition = random_transition(rng, factors, candidates)
    prior = rng.dirichlet(np.ones(candidates), factors)
    told = jnp.log(jnp.asarray(likelihood, jnp.float32))
    with np.errstate(divide="ignore"):
        moves = jnp.asarray(np.log(transition), jnp.float32)
    filter = Factored(
        spread(jnp.arange(candidates), factors),
        lambda s, a, n, phi: told[s, a, n, jnp.arange(factors), phi],
        jnp.log(prior),
        lambda s, a, n: moves[s, a, n],
    )
    return filter, likelihood, transition, prior


@pytest.mark.parametrize("seed", range(2))
def test_factored_equals_bayes_rule_on_all_joint_hypotheses(seed: int) -> None:
    rng = np.random.default_rng(seed)
    filter, likelihood, transition, prior = factored_model(rng)
    story = random_story(rng, 15)
    joint_prior = np.kron(*prior)
    joint_likelihood = np.einsum("sanj,sank->sanjk", likelihood[..., 0, :], likelihood[..., 1, :])
    joint_transition = np.einsum(
        "sanij,sankl->sanikjl", transition[..., 0, :, :], transition[..., 1, :, :]
    )
    shape = (STATES, ACTIONS, STATES, 9)
    joint = forward_pass(
        joint_prior, joint_likelihood.reshape(shape), joint_transition.reshape(*shape, 9), story
    )
    expected = np.stack([joint.reshape(3, 3).sum(1), joint.reshape(3, 3).sum(0)])
    np.testing.assert_allclose(filtered(filter, story), expected, rtol=1e-4, atol=2e-6)


def test_factored_equals_one_categorical_for_each_factor() -> None:
    rng = np.random.default_rng(5)
    filter, likelihood, transition, prior = factored_model(rng)
    story = random_story(rng, 15)
    alone = [
        filtered(
            moving(lookup(likelihood[..., m, :]), transition[..., m, :, :], np.log(prior[m])), story
        )
        for m in range(2)
    ]
    np.testing.assert_allclose(filtered(filter, story), np.stack(alone), rtol=1e-5, atol=1e-6)


# ---- whatever the evidence -----------------------------------------------------------------------

showing = Categorical(
    jnp.arange(SIZE), lambda s, a, shown, phi: shown[phi]
)  # the next state is the evidence itself
showing_each = Factored(
    spread(jnp.arange(3), 2),
    lambda s, a, shown, phi: jnp.take_along_axis(shown, phi[:, None], 1)[:, 0],
)


@partial(jax.jit, static_argnums=0)
def shown(filter: Categorical | Factored, belief: jax.Array, evidence: jax.Array) -> jax.Array:
    return jax.lax.scan(lambda b, e: (filter.update(b, None, None, e), None), belief, evidence)[0]


def evidence(values: st.SearchStrategy[float], *shape: int) -> st.SearchStrategy[np.ndarray]:
    size = int(np.prod(shape))
    flat = st.lists(values, min_size=size, max_size=size)
    return flat.map(lambda numbers: np.array(numbers, np.float32).reshape(shape))


@given(evidence(st.sampled_from(ABSURD) | st.floats(width=32), 5, SIZE))
def test_a_categorical_belief_is_finite_and_normalised_whatever_the_evidence(
    absurd: np.ndarray,
) -> None:
    belief = np.asarray(shown(showing, showing.init(), absurd), np.float64)
    assert np.isfinite(belief).all()
    assert abs(logsumexp(belief)) < 1e-4


@given(evidence(st.sampled_from(ABSURD) | st.floats(width=32), 5, 2, 3))
def test_a_factored_belief_is_finite_and_normalised_whatever_the_evidence(
    absurd: np.ndarray,
) -> None:
    belief = np.asarray(shown(showing_each, showing_each.init(), absurd), np.float64)
    assert np.isfinite(belief).all()
    np.testing.assert_allclose(logsumexp(belief, axis=-1), 0, atol=1e-4)


@given(
    evidence(st.floats(-30, 0, width=32) | st.just(float("-inf")), 5, SIZE),
    st.permutations(range(5)),
)
def test_the_order_of_independent_evidence_does_not_matter(
    given_evidence: np.ndarray, order: list[int]
) -> None:
    one = np.exp(shown(showing, showing.init(), given_evidence))
    other = np.exp(shown(showing, showing.init(), given_evidence[np.array(order)]))
    np.testing.assert_allclose(one, other, atol=2e-3)


@given(
    evidence(st.floats(-20, 0, width=32), 5, SIZE),
    evidence(st.sampled_from([float("nan"), float("-inf")]), 5, SIZE),
)
def test_what_is_impossible_under_all_hypotheses_says_nothing(
    seen: np.ndarray, impossible: np.ndarray
) -> None:
    belief = shown(showing, showing.init(), seen)
    np.testing.assert_allclose(shown(showing, belief, impossible), belief, rtol=1e-5, atol=1e-5)


@given(st.lists(st.booleans(), min_size=SIZE, max_size=SIZE).filter(any))
def test_what_is_impossible_under_some_hypotheses_rules_out_just_these(
    possible: list[bool],
) -> None:
    observation = np.where(possible, 0.0, -np.inf).astype(np.float32)
    weights = np.exp(shown(showing, showing.init(), np.tile(observation, (5, 1))))
    np.testing.assert_allclose(weights, np.array(possible) / sum(possible), atol=1e-6)


@pytest.mark.parametrize("faint", [-1e3, -1e20, -1e29, -1e32, -3e38])
def test_the_faintest_hypothesis_is_still_likelier_than_an_impossible_one(faint: float) -> None:
    observation = np.array([faint, -np.inf, np.nan, -np.inf], np.float32)
    weights = np.exp(shown(showing, showing.init(), np.tile(observation, (5, 1))))
    np.testing.assert_allclose(weights, [1, 0, 0, 0], atol=1e-6)


def test_a_hypothesis_once_ruled_out_comes_back_when_all_others_are_ruled_out_twice() -> None:
    against_first = np.array([-np.inf, 0, 0, 0], np.float32)
    for_first = np.array([0, -np.inf, -np.inf, -np.inf], np.float32)
    weights = np.exp(
        shown(showing, showing.init(), np.stack([against_first, for_first, for_first]))
    )
    np.testing.assert_allclose(weights, [1, 0, 0, 0], atol=1e-6)


def test_a_prior_that_excludes_a_hypothesis_gives_a_finite_belief_that_excludes_it() -> None:
    filter = Categorical(
        jnp.arange(3), lambda s, a, n, phi: 0.0, jnp.log(jnp.array([0.25, 0.0, 0.75]))
    )
    assert np.isfinite(filter.init()).all()
    np.testing.assert_allclose(filter.vector(filter.init()), [0.25, 0, 0.75], atol=1e-6)


# ---- what a belief tells -------------------------------------------------------------------------

DRAWS = 20_000
WEIGHTS = np.array([0.1, 0.5, 0.15, 0.25])
POINTS = np.array([[0.0, 1.0], [2.0, -1.0], [5.0, 5.0], [-3.0, 0.5]])
places = Categorical(
    {"place": jnp.asarray(POINTS), "name": jnp.arange(4)}, lambda s, a, n, phi: 0.0
)
BELIEF = jnp.log(jnp.asarray(WEIGHTS))

FACTOR_WEIGHTS = np.array([[0.7, 0.2, 0.1], [0.25, 0.3, 0.45]])
FACTOR_VALUES = np.array([[10.0, 1.0], [20.0, 2.0], [30.0, 4.0]])  # [k, m]
levels = Factored(jnp.asarray(FACTOR_VALUES), lambda s, a, n, phi: jnp.zeros(2))
FACTOR_BELIEF = jnp.log(jnp.asarray(FACTOR_WEIGHTS))


def four_sigma(weights: np.ndarray) -> np.ndarray:
    return 4 * np.sqrt(weights * (1 - weights) / DRAWS)


def test_categorical_mode_is_the_heaviest_entry_of_the_support() -> None:
    mode = places.mode(BELIEF)
    assert int(mode["name"]) == 1
    np.testing.assert_array_equal(mode["place"], POINTS[1])


def test_categorical_mean_is_the_weighted_mean_of_the_support() -> None:
    np.testing.assert_allclose(
        places.mean(BELIEF)["place"], np.average(POINTS, 0, WEIGHTS), rtol=1e-5
    )


def test_categorical_samples_have_the_belief_as_their_frequencies() -> None:
    names = jax.vmap(lambda key: places.sample(key, BELIEF)["name"])(
        jax.random.split(jax.random.key(0), DRAWS)
    )
    share = np.bincount(names, minlength=4) / DRAWS
    assert (np.abs(share - WEIGHTS) < four_sigma(WEIGHTS)).all()


def test_categorical_entropy_is_shannons_in_units_of_the_uniform_beliefs() -> None:
    np.testing.assert_allclose(
        places.entropy(BELIEF), scipy.stats.entropy(WEIGHTS) / np.log(4), rtol=1e-5
    )
    np.testing.assert_allclose(places.entropy(places.init()), 1, rtol=1e-6)
    certain = shown(showing, showing.init(), np.array([[0, -np.inf, -np.inf, -np.inf]], np.float32))
    np.testing.assert_allclose(showing.entropy(certain), 0, atol=1e-6)


@pytest.mark.parametrize(
    "filter",
    [
        Categorical(jnp.zeros(1), lambda s, a, n, phi: 0.0),
        Factored(jnp.zeros((1, 2)), lambda s, a, n, phi: jnp.zeros(2)),
    ],
    ids=["categorical", "factored"],
)
def test_the_entropy_of_a_belief_with_only_one_candidate_is_zero(
    filter: Categorical | Factored,
) -> None:
    assert float(filter.entropy(filter.init())) == 0


def test_a_network_sees_probabilities_and_log_odds_that_tell_near_certainties_apart() -> None:
    odds = np.log(WEIGHTS / (1 - WEIGHTS))
    np.testing.assert_allclose(places.features(BELIEF), np.concatenate([WEIGHTS, odds]), rtol=1e-5)
    factor_odds = np.log(FACTOR_WEIGHTS / (1 - FACTOR_WEIGHTS))
    expected = np.hstack([FACTOR_WEIGHTS, factor_odds]).ravel()
    np.testing.assert_allclose(levels.features(FACTOR_BELIEF), expected, rtol=1e-5)
    nearly, surely = (log_odds(jnp.log(jnp.array([1 - rest, rest]))) for rest in (1e-2, 1e-4))
    assert float(surely[0] - nearly[0]) > 4
    np.testing.assert_allclose(log_odds(jnp.array([0.0, -1000.0])), [10, -10])


def test_factored_mode_mean_and_entropy_are_those_of_each_factor() -> None:
    np.testing.assert_array_equal(levels.mode(FACTOR_BELIEF), [10.0, 4.0])
    expected = [FACTOR_WEIGHTS[m] @ FACTOR_VALUES[:, m] for m in range(2)]
    np.testing.assert_allclose(levels.mean(FACTOR_BELIEF), expected, rtol=1e-5)
    entropies = [scipy.stats.entropy(weights) / np.log(3) for weights in FACTOR_WEIGHTS]
    np.testing.assert_allclose(levels.entropy(FACTOR_BELIEF), np.mean(entropies), rtol=1e-5)
    np.testing.assert_allclose(levels.vector(FACTOR_BELIEF), FACTOR_WEIGHTS.ravel(), rtol=1e-5)


def test_factored_samples_draw_every_factor_independently() -> None:
    keys = jax.random.split(jax.random.key(1), DRAWS)
    drawn = np.asarray(jax.vmap(lambda key: levels.sample(key, FACTOR_BELIEF))(keys))
    joint = np.array(
        [
            [np.mean((drawn == (a, b)).all(1)) for b in FACTOR_VALUES[:, 1]]
            for a in FACTOR_VALUES[:, 0]
        ]
    )
    expected = np.outer(*FACTOR_WEIGHTS)
    assert (np.abs(joint - expected) < four_sigma(expected)).all()


def test_spread_gives_every_factor_the_same_candidates() -> None:
    support = spread({"goal": jnp.arange(6.0).reshape(3, 2)}, 4)["goal"]
    assert support.shape == (3, 4, 2)
    for m in range(4):
        np.testing.assert_array_equal(support[:, m], np.arange(6.0).reshape(3, 2))
