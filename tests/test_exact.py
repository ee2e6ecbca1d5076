"""Exact values against enumeration, closed forms and simulation of the problems they are about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from seerax import advice, rollout
from seerax.core import Action, BeliefMDP, Key, Situation
from seerax.paper import exact
from seerax.problems import doors, tiger, tree

# ---- the tree, by enumeration --------------------------------------------------------------------


class Branches(NamedTuple):
    """What each of the three votes leads to if each latent were true, [votes, latents, ...]."""

    state: Any
    belief: Array
    reward: Array
    terminated: Array


def brancher(mdp: BeliefMDP) -> Callable[[Any, Any], Branches]:
    problem, filter = mdp.problem, mdp.filter
    latents: Any = filter.support  # type: ignore[attr-defined]

    def one(state: Any, belief: Array, action: Action, latent: Array) -> Branches:
        following, reward, terminated = problem.step(jax.random.key(0), state, action, latent)
        return Branches(
            following, filter.update(belief, state, action, following), reward, terminated
        )

    every = jax.vmap(jax.vmap(one, (None, None, None, 0)), (None, None, 0, None))
    return jax.jit(lambda state, belief: every(state, belief, jnp.eye(3), latents))


def signature(state: Any, belief: np.ndarray) -> bytes:
    """Two situations with the same signature are the same: beliefs differ by rounding only."""
    parts = [np.asarray(leaf, np.float32).tobytes() for leaf in jax.tree.leaves(state)]
    return b"".join([*parts, belief.round(4).astype(np.float32).tobytes()])


def best_by_search(mdp: BeliefMDP) -> float:
    """The best one can do in the real problem with the real filter, looking ahead over everything
    until the clock.
    """
    branches = brancher(mdp)
    known: dict[tuple[int, bytes], float] = {}

    def value(state: Any, belief: np.ndarray, time: int) -> float:
        name = (time, signature(state, np.exp(belief)))
        if name not in known:
            known[name] = look_ahead(state, belief, time)
        return known[name]

    def look_ahead(state: Any, belief: np.ndarray, time: int) -> float:
        ways = jax.device_get(branches(state, belief))
        weights = np.exp(belief)
        totals = [0.0, 0.0, 0.0]
        for vote, latent in np.ndindex(ways.reward.shape):
            if weights[latent] < 1e-6:
                continue
            total = float(ways.reward[vote, latent])
            if not ways.terminated[vote, latent] and time + 1 < mdp.problem.horizon:
                following = jax.tree.map(lambda x, at=(vote, latent): x[at], ways.state)
                total += value(following, ways.belief[vote, latent], time + 1)
            totals[vote] += float(weights[latent]) * total
        return max(totals)

    first = mdp.problem.reset(jax.random.key(0), jnp.ones(()))
    return value(jax.device_get(first), np.asarray(mdp.filter.init()), 0)


def sampling_by_enumeration(mdp: BeliefMDP, depth: int, rounds: int) -> float:
    """Posterior sampling in the real problem with the real filter, over all latents and draws."""
    problem, filter = mdp.problem, mdp.filter
    latents: Any = filter.support  # type: ignore[attr-defined]

    @jax.jit
    def walk(state: Any, belief: Array, drawn: Array, latent: Array) -> tuple[Any, Array, Array]:
        earned = jnp.float32(0)
        for turn in drawn:
            action = jnp.array([-turn, turn, -2.0])
            following, reward, _ = problem.step(jax.random.key(0), state, action, latent)
            state, belief, earned = (
                following,
                filter.update(belief, state, action, following),
                earned + reward,
            )
        return state, belief, earned

    def value(state: Any, belief: Array, latent: Array, left: int) -> float:
        if left == 0:
            return 0.0
        total = 0.0
        for weight, drawn in zip(np.exp(belief), latents, strict=True):
            if weight > 1e-6:
                after, learned, earned = walk(state, belief, drawn, latent)
                total += float(weight) * (float(earned) + value(after, learned, latent, left - 1))
        return total

    first = problem.reset(jax.random.key(0), latents[0])
    return float(np.mean([value(first, filter.init(), latent, rounds) for latent in latents]))


WITH_OPTIMUM = [(1, 1), (1, 2), (2, 1), (2, 2)]


@pytest.mark.parametrize(("depth", "rounds"), WITH_OPTIMUM)
def test_the_trees_optimum_is_that_of_an_exhaustive_search_through_the_problem(
    depth: int, rounds: int
) -> None:
    assert exact.tree_optimum(depth, rounds) == pytest.approx(
        best_by_search(tree.tree(depth, rounds)), abs=1e-3
    )


@pytest.mark.parametrize(("depth", "rounds"), WITH_OPTIMUM)
def test_posterior_sampling_on_the_tree_is_worth_what_its_enumeration_through_the_problem_says(
    depth: int, rounds: int
) -> None:
    enumerated = sampling_by_enumeration(tree.tree(depth, rounds), depth, rounds)
    assert exact.tree_posterior_sampling(depth, rounds) == pytest.approx(enumerated, abs=1e-3)


# ---- the tree, by formula and by simulation ------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 2, 4, 6])
def test_posterior_sampling_in_one_round_finds_the_gold_once_in_n(depth: int) -> None:
    n = 2**depth
    assert exact.tree_posterior_sampling(depth, 1) == pytest.approx(100 / n - 10 * (n - 1) / n)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_posterior_sampling_follows_the_papers_formula_once_there_are_rounds_enough(
    depth: int,
) -> None:
    n = 2**depth
    for rounds in (n - 1, n, 2 * n):
        mistakes = (n - 1) / 2
        expected = -10 * mistakes + 100 * (rounds - mistakes)
        assert exact.tree_posterior_sampling(depth, rounds) == pytest.approx(expected)
    if depth > 1:
        too_few = -10 * mistakes + 100 * (n - 2 - mistakes)
        assert exact.tree_posterior_sampling(depth, n - 2) != pytest.approx(too_few)


@pytest.mark.parametrize(("depth", "rounds"), [(1, 1), (2, 1), (4, 1), (4, 7), (6, 3)])
def test_the_trees_optimum_is_to_sense_once_and_then_to_know(depth: int, rounds: int) -> None:
    assert exact.tree_optimum(depth, rounds) == pytest.approx(100 * rounds - 0.1)


@pytest.mark.parametrize(("depth", "rounds"), [(2, 1), (2, 3), (3, 2), (4, 1), (4, 6)])
def test_simulated_posterior_sampling_earns_its_exact_value(depth: int, rounds: int) -> None:
    mdp = tree.posterior_sampling(tree.tree(depth, rounds))
    evaluation = rollout.evaluate(jax.random.key(0), mdp, advice.follow_advice, 4000)
    assert evaluation.sensed is not None and evaluation.sensed.sum() == 0
    assert (
        abs(evaluation.mean - exact.tree_posterior_sampling(depth, rounds)) < 4 * evaluation.stderr
    )


# ---- tiger ---------------------------------------------------------------------------------------


def listening_until(lead: int, discount: float, steps: int = 3000) -> float:
    """The value of listening until one side leads by so much, from the distribution of the lead at
    every step.
    """
    chances = np.zeros(2 * lead + 1)  # of every lead of the true side, -lead to lead
    chances[lead] = 1.0
    total = 0.0
    for step in range(steps):
        opens = discount**step * (tiger.GOLD * chances[-1] + tiger.TIGER * chances[0])
        chances[[0, -1]] = 0
        total += opens - discount**step * tiger.LISTENING_COST * chances.sum()
        chances = tiger.ACCURACY * np.roll(chances, 1) + (1 - tiger.ACCURACY) * np.roll(chances, -1)
    return total


@pytest.mark.parametrize(("discount", "known"), [(1.0, 5.1599190), (0.95, 3.7701893)])
def test_tigers_optimum_is_the_best_lead_to_wait_for(discount: float, known: float) -> None:
    best = max(listening_until(lead, discount) for lead in range(1, 8))
    assert exact.tiger_optimum(discount) == pytest.approx(best, abs=1e-8)
    assert exact.tiger_optimum(discount) == pytest.approx(known, abs=1e-7)


def lead_of_three(key: Key, situation: Situation) -> Action:
    """Listen until one side was heard three times more often, then open the other."""
    left, right = situation.belief
    lead = jnp.round((left - right) / jnp.log(tiger.ACCURACY / (1 - tiger.ACCURACY)))
    choice = jnp.where(
        jnp.abs(lead) < 3, tiger.LISTEN, jnp.where(lead > 0, tiger.OPEN_RIGHT, tiger.OPEN_LEFT)
    )
    return jax.nn.one_hot(choice, 3)


def test_waiting_for_a_lead_of_three_earns_tigers_optimum_in_simulation(
    tiger_mdp: BeliefMDP,
) -> None:
    evaluation = rollout.evaluate(jax.random.key(0), tiger_mdp, lead_of_three, 20_000)
    assert abs(evaluation.mean - exact.tiger_optimum()) < 4 * evaluation.stderr
    assert evaluation.stderr < 0.08


# ---- doors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", range(4))
def test_what_readings_and_trials_tell_of_doors_is_what_the_filter_learns_from_them(
    door: int,
) -> None:
    """Bodies that lean on the door sense, or run into it, in all worlds of the prior."""
    mdp = doors.door4()
    place = jnp.asarray(doors.CENTRES[door] - (0.0, doors.SPHERE.contact + 1e-4), jnp.float32)

    def change(key: Key, velocity: float, sensing: float) -> Array:
        prior_key, step_key = jax.random.split(key)
        latent = mdp.problem.prior(prior_key)
        state = mdp.problem.reset(key, latent)._replace(
            position=place, velocity=jnp.array([0.0, velocity])
        )
        action, before = jnp.array([0.0, 0.0, sensing]), mdp.filter.init()
        after = mdp.filter.update(
            before, state, action, mdp.problem.step(step_key, state, action, latent).state
        )
        return jnp.abs(jnp.exp(after) - jnp.exp(before)).sum()

    keys = jax.random.split(jax.random.key(door), 20_000)
    for wanted, (velocity, sensing) in zip(
        exact.door_changes(door), [(0.0, 1.0), (2.5, -1.0)], strict=True
    ):
        found = np.asarray(
            jax.jit(jax.vmap(lambda k, v=velocity, s=sensing: change(k, v, s)))(keys)
        )
        assert abs(found.mean() - wanted) < 4 * found.std() / np.sqrt(found.size)
