"""The paper's theorem, exactly: a residual policy earns on its residual MDP what the mixture earns on the original.

Tables in float64, trajectories enumerated one by one. Actions live on a cycle, so that a_e + a_r is always an action.

For a residual policy that does not look at the recommendation, the residual MDP is the paper's: T_r(s' | s, a_r)
adds T(s' | s, a_e + a_r) up over a_e ~ pi_e(s). For one that does look, pi_r(a_r | s, a_e), the recommendation must
be part of the state, as it is in `Situation`; adding it up beforehand describes another process.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest

STATES, ACTIONS, HORIZON = 3, 3, 3


class Setting(NamedTuple):
    """An MDP, a stochastic expert for it, and a residual policy."""

    start: np.ndarray  # P_0(s)
    moves: np.ndarray  # T(s' | s, a) as [s, a, s']
    pays: np.ndarray  # R(s, a)
    expert: np.ndarray  # pi_e(a_e | s) as [s, a_e]
    residual: np.ndarray  # pi_r(a_r | s, a_e) as [s, a_e, a_r]


def random_setting(seed: int, looking: bool) -> Setting:
    rng = np.random.default_rng(seed)
    residual = rng.dirichlet(np.full(ACTIONS, 0.3), (STATES, ACTIONS))
    if not looking:
        residual = np.broadcast_to(residual[:, :1], residual.shape)
    return Setting(
        start=rng.dirichlet(np.ones(STATES)),
        moves=rng.dirichlet(np.full(STATES, 0.5), (STATES, ACTIONS)),
        pays=rng.normal(size=(STATES, ACTIONS)),
        expert=rng.dirichlet(np.full(ACTIONS, 0.5), STATES),
        residual=residual,
    )


class Chain(NamedTuple):
    """An MDP and a policy on it."""

    start: np.ndarray  # [s]
    moves: np.ndarray  # [s, a, s']
    pays: np.ndarray  # [s, a]
    policy: np.ndarray  # [s, a]


def mixture(setting: Setting) -> Chain:
    """The original MDP under pi(a | s) = sum over a_r of pi_e(a - a_r | s) pi_r(a_r | s, a - a_r)."""
    policy = np.zeros((STATES, ACTIONS))
    for s, a, a_r in np.ndindex(STATES, ACTIONS, ACTIONS):
        a_e = (a - a_r) % ACTIONS
        policy[s, a] += setting.expert[s, a_e] * setting.residual[s, a_e, a_r]
    return Chain(setting.start, setting.moves, setting.pays, policy)


def residual(setting: Setting) -> Chain:
    """The paper's residual MDP: T_r(s' | s, a_r) = sum over a_e of T(s' | s, a_e + a_r) pi_e(a_e | s), R_r likewise.

    The policy on it is pi_r(a_r | s), what one sees of the residual policy without seeing the recommendation.
    """
    moves, pays = np.zeros((STATES, ACTIONS, STATES)), np.zeros((STATES, ACTIONS))
    for s, a_r, a_e in np.ndindex(STATES, ACTIONS, ACTIONS):
        moves[s, a_r] += setting.moves[s, (a_e + a_r) % ACTIONS] * setting.expert[s, a_e]
        pays[s, a_r] += setting.pays[s, (a_e + a_r) % ACTIONS] * setting.expert[s, a_e]
    policy = np.einsum("se,ser->sr", setting.expert, setting.residual)
    return Chain(setting.start, moves, pays, policy)


def augmented(setting: Setting) -> Chain:
    """The residual MDP over (s, a_e): T_r((s', a_e') | (s, a_e), a_r) = T(s' | s, a_e + a_r) pi_e(a_e' | s')."""
    both = STATES * ACTIONS
    shifted = np.stack(
        [np.roll(setting.moves, -a_e, axis=1) for a_e in range(ACTIONS)], axis=1
    )  # [s, a_e, a_r, s']
    moves = shifted[..., None] * setting.expert
    pays = np.stack([np.roll(setting.pays, -a_e, axis=1) for a_e in range(ACTIONS)], axis=1)
    start = setting.start[:, None] * setting.expert
    return Chain(
        start.ravel(),
        moves.reshape(both, ACTIONS, both),
        pays.reshape(both, ACTIONS),
        setting.residual.reshape(both, ACTIONS),
    )


# ---- all trajectories, one by one --------------------------------------------------------------------------------

Trajectory = tuple[tuple[int, ...], tuple[int, ...], float]  # states, actions, and its chance


def trajectories(chain: Chain) -> Iterator[Trajectory]:
    count, choices = chain.policy.shape
    for states in itertools.product(range(count), repeat=HORIZON + 1):
        for actions in itertools.product(range(choices), repeat=HORIZON):
            chance = chain.start[states[0]]
            for s, a, following in zip(states, actions, states[1:], strict=False):
                chance *= chain.policy[s, a] * chain.moves[s, a, following]
            yield states, actions, float(chance)


def expected_return(chain: Chain) -> float:
    total = 0.0
    for states, actions, chance in trajectories(chain):
        total += chance * sum(chain.pays[s, a] for s, a in zip(states, actions, strict=False))
    return total


def sequence_chances(chain: Chain, recommendations: int = 1) -> np.ndarray:
    """The chance of every sequence of states: the sum over all trajectories that hold it.

    In the augmented MDP a state is (s, a_e): dividing its number by the count of recommendations gives s.
    """
    chances: dict[tuple[int, ...], float] = defaultdict(float)
    for states, _, chance in trajectories(chain):
        chances[tuple(s // recommendations for s in states)] += chance
    return np.array(
        [chances[states] for states in itertools.product(range(STATES), repeat=HORIZON + 1)]
    )


# ---- lemma and theorem -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_the_enumeration_misses_nothing(seed: int) -> None:
    setting = random_setting(seed, looking=True)
    for chain, recommendations in (
        (mixture(setting), 1),
        (residual(setting), 1),
        (augmented(setting), ACTIONS),
    ):
        assert sequence_chances(chain, recommendations).sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_sequences_of_states_are_as_likely_on_the_residual_mdp_as_under_the_mixture(
    seed: int,
) -> None:
    setting = random_setting(seed, looking=False)
    np.testing.assert_allclose(
        sequence_chances(residual(setting)), sequence_chances(mixture(setting)), atol=1e-12
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_residual_policy_earns_on_its_residual_mdp_what_the_mixture_earns(seed: int) -> None:
    setting = random_setting(seed, looking=False)
    assert expected_return(residual(setting)) == pytest.approx(
        expected_return(mixture(setting)), abs=1e-10
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_policy_that_sees_the_recommendation_has_the_mixtures_sequences_on_the_augmented_mdp(
    seed: int,
) -> None:
    setting = random_setting(seed, looking=True)
    seen = sequence_chances(augmented(setting), ACTIONS)
    np.testing.assert_allclose(seen, sequence_chances(mixture(setting)), atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_a_policy_that_sees_the_recommendation_earns_on_the_augmented_mdp_what_the_mixture_earns(
    seed: int,
) -> None:
    setting = random_setting(seed, looking=True)
    assert expected_return(augmented(setting)) == pytest.approx(
        expected_return(mixture(setting)), abs=1e-10
    )


@pytest.mark.parametrize("seed", range(3))
def test_for_a_policy_that_sees_the_recommendation_the_marginal_residual_mdp_is_another_process(
    seed: int,
) -> None:
    setting = random_setting(seed, looking=True)
    assert (
        np.abs(sequence_chances(residual(setting)) - sequence_chances(mixture(setting))).max()
        > 1e-3
    )
    assert abs(expected_return(residual(setting)) - expected_return(mixture(setting))) > 1e-4


def test_without_any_residual_the_mixture_is_the_expert() -> None:
    setting = random_setting(0, looking=False)
    silent = setting._replace(residual=np.broadcast_to(np.eye(ACTIONS)[0], setting.residual.shape))
    np.testing.assert_allclose(mixture(silent).policy, setting.expert, atol=1e-15)
    np.testing.assert_allclose(residual(silent).policy[:, 0], 1, atol=1e-15)
