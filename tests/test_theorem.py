"""The paper's theorem, exactly: a residual policy earns on its residual MDP what the mixture earns
on the original.

Tables in float64, trajectories enumerated one by one. Actions live on a cycle, so that a_e + a_r is
always an action.

For a residual policy that does not look at the recommendation, the residual MDP is the paper's:
T_r(s' | s, a_r) adds T(s' | s, a_e + a_r) up over a_e ~ pi_e(s). For one that does look, pi_r(a_r |
s, a_e), the recommendation must be part of the state, as it is in `Situation`; adding it up
beforehand describes another process.

The last part plays the same with `BeliefMDP` and the residual agent, where the MDP is one of two
and the experts are weighted by the belief, and compares with an enumeration of histories that
shares no line of code with it.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from seerax import agents, rollout
from seerax.core import Action, BeliefMDP, Key, Latent, Moment, Situation, State, Step
from seerax.filters import Categorical

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
    """The MDP under pi(a | s) = sum over a_r of pi_e(a - a_r | s) pi_r(a_r | s, a - a_r)."""
    policy = np.zeros((STATES, ACTIONS))
    for s, a, a_r in np.ndindex(STATES, ACTIONS, ACTIONS):
        a_e = (a - a_r) % ACTIONS
        policy[s, a] += setting.expert[s, a_e] * setting.residual[s, a_e, a_r]
    return Chain(setting.start, setting.moves, setting.pays, policy)


def residual(setting: Setting) -> Chain:
    """The paper's residual MDP: a_e is summed out of transitions and rewards.

    T_r(s' | s, a_r) = sum over a_e of T(s' | s, a_e + a_r) pi_e(a_e | s), R_r likewise.

    The policy on it is pi_r(a_r | s), what one sees of the residual policy without seeing the
    recommendation.
    """
    moves, pays = np.zeros((STATES, ACTIONS, STATES)), np.zeros((STATES, ACTIONS))
    for s, a_r, a_e in np.ndindex(STATES, ACTIONS, ACTIONS):
        moves[s, a_r] += setting.moves[s, (a_e + a_r) % ACTIONS] * setting.expert[s, a_e]
        pays[s, a_r] += setting.pays[s, (a_e + a_r) % ACTIONS] * setting.expert[s, a_e]
    policy = np.einsum("se,ser->sr", setting.expert, setting.residual)
    return Chain(setting.start, moves, pays, policy)


def augmented(setting: Setting) -> Chain:
    """The residual MDP over (s, a_e).

    T_r((s', a_e') | (s, a_e), a_r) = T(s' | s, a_e + a_r) pi_e(a_e' | s').
    """
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


# ---- all trajectories, one by one ----------------------------------------------------------------

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

    In the augmented MDP a state is (s, a_e): dividing its number by the count of recommendations
    gives s.
    """
    chances: dict[tuple[int, ...], float] = defaultdict(float)
    for states, _, chance in trajectories(chain):
        chances[tuple(s // recommendations for s in states)] += chance
    return np.array(
        [chances[states] for states in itertools.product(range(STATES), repeat=HORIZON + 1)]
    )


# ---- lemma and theorem ---------------------------------------------------------------------------


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


# ---- the same with BeliefMDP and the residual agent ----------------------------------------------

PRIOR = np.array([0.3, 0.7])
EPISODES = 100_000


class Hidden(NamedTuple):
    """Two MDPs with an expert each, one of them true, and a residual policy for both."""

    start: np.ndarray  # P_0(s)
    moves: np.ndarray  # [phi, s, a, s']
    pays: np.ndarray  # [phi, s, a]
    expert: np.ndarray  # [phi, s, a_e]
    residual: np.ndarray  # [s, a_e, a_r]


@cache
def hidden(seed: int, looking: bool) -> Hidden:
    one, other = (random_setting(number, looking) for number in (seed, seed + 100))
    both = [np.stack(pair) for pair in zip(one[1:4], other[1:4], strict=True)]
    return Hidden(one.start, *both, one.residual)


class Seat(NamedTuple):
    seat: Array


@dataclass(frozen=True, eq=False)
class Tables:
    """The latent says which of the two MDPs is true.

    An action is a whole number, and lives on a cycle.
    """

    tables: Hidden
    horizon: int = HORIZON
    discount: float = 1.0
    action_low: tuple[float, ...] = (0.0,)
    action_high: tuple[float, ...] = (2.0 * (ACTIONS - 1),)

    def prior(self, key: Key) -> Latent:
        return drawn(key, PRIOR)

    def reset(self, key: Key, latent: Latent) -> Seat:
        return Seat(drawn(key, self.tables.start))

    def step(self, key: Key, state: Seat, action: Action, latent: Latent) -> Step:
        choice = on_the_cycle(action)
        pays = jnp.asarray(self.tables.pays, jnp.float32)[latent, state.seat, choice]
        following = drawn(key, jnp.asarray(self.tables.moves)[latent, state.seat, choice])
        return Step(Seat(following), pays, jnp.bool_(False))

    def features(self, state: Seat) -> Array:
        return jax.nn.one_hot(state.seat, STATES)

    def log_likelihood(self, state: Seat, action: Action, following: Seat, latent: Latent) -> Array:
        moves = jnp.asarray(self.tables.moves)
        return jnp.log(moves[latent, state.seat, on_the_cycle(action), following.seat])


def drawn(key: Key, chances: Any) -> Array:
    return jax.random.categorical(key, jnp.log(jnp.asarray(chances)))


def on_the_cycle(action: Action) -> Array:
    return jnp.round(action[0]).astype(int) % ACTIONS


def belief_mdp(tables: Hidden) -> BeliefMDP:
    """The advisor draws a_e ~ pi_e(s, b), the belief-weighted mixture of the experts."""
    problem = Tables(tables)
    filter = Categorical(jnp.arange(2), problem.log_likelihood, jnp.log(jnp.asarray(PRIOR)))

    def advise(moment: Moment, state: State, belief: Any) -> Action:
        chances = filter.vector(belief) @ jnp.asarray(tables.expert)[:, state.seat]
        return drawn(moment.key, chances)[None].astype(jnp.float32)

    return BeliefMDP(problem, filter, advise)


def residual_policy(mdp: BeliefMDP, key: Key, situation: Situation) -> Action:
    """Draws a_r ~ pi_r(s, a_e) from what the residual agent sees, and lets it make the action."""
    tables: Hidden = mdp.problem.tables  # type: ignore[attr-defined]
    seen = agents.brpo.inputs(mdp, situation)
    seat, advised = jnp.argmax(seen[:STATES]), seen[-1].astype(int)
    correction = drawn(key, jnp.asarray(tables.residual)[seat, advised])
    return agents.brpo.compose(situation, correction[None].astype(jnp.float32))


def mixture_value(tables: Hidden) -> float:
    """The return of the mixture of expert and residual on the original problem, by all histories.

    pi(a | s, b) = sum over a_e of pi_e(a_e | s, b) pi_r(a - a_e | s, a_e)
    """

    def value(seat: int, weights: np.ndarray, left: int) -> float:
        if left == 0:
            return 0.0
        policy, expert = np.zeros(ACTIONS), weights @ tables.expert[:, seat]
        for a_e, a_r in np.ndindex(ACTIONS, ACTIONS):
            policy[(a_e + a_r) % ACTIONS] += expert[a_e] * tables.residual[seat, a_e, a_r]
        total = float(policy @ (weights @ tables.pays[:, seat]))
        for action, following in np.ndindex(ACTIONS, STATES):
            joint = weights * tables.moves[:, seat, action, following]
            later = value(following, joint / joint.sum(), left - 1)
            total += policy[action] * joint.sum() * later
        return total

    return sum(tables.start[seat] * value(seat, PRIOR, HORIZON) for seat in range(STATES))


@pytest.mark.parametrize("looking", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_the_residual_agent_earns_on_the_belief_mdp_what_the_mixture_earns(
    seed: int, looking: bool
) -> None:
    tables = hidden(seed, looking)
    mdp = belief_mdp(tables)
    policy = partial(residual_policy, mdp)
    found = rollout.evaluate(jax.random.key(seed), mdp, policy, EPISODES)
    assert abs(found.mean - mixture_value(tables)) < 4 * found.stderr < 0.05


def test_the_enumeration_tells_the_mixture_from_expert_residual_and_another_belief() -> None:
    """What the test above would miss if the values were alike."""
    tables = hidden(0, looking=True)
    silent = np.broadcast_to(np.eye(ACTIONS)[0], tables.residual.shape)
    others = [
        tables._replace(residual=silent),
        tables._replace(expert=np.broadcast_to(np.eye(ACTIONS)[0], tables.expert.shape)),
        tables._replace(expert=tables.expert[::-1]),
    ]
    for other in others:
        assert abs(mixture_value(other) - mixture_value(tables)) > 0.1


@pytest.mark.parametrize("seed", range(2))
def test_a_residual_action_moves_the_belief_mdp_by_the_experts_mixture(seed: int) -> None:
    """T_r(s' | s, phi, a_r) = sum over a_e of T(s' | s, phi, a_e + a_r) pi_e(a_e | s, b)."""
    tables = hidden(seed, looking=False)
    mdp = belief_mdp(tables)

    def stepped(correction: Array, key: Key) -> tuple[Array, ...]:
        reset_key, step_key = jax.random.split(key)
        world = mdp.reset(reset_key)
        action = agents.brpo.compose(world.situation, correction[None])
        following, outcome = mdp.step(step_key, world, action)
        where = world.situation.state.seat, following.situation.state.seat
        return world.latent, *where, outcome.reward

    keys = jax.random.split(jax.random.key(seed), EPISODES // 4)
    each = jax.vmap(jax.vmap(stepped, (None, 0)), (0, None))
    played = jax.jit(each)(jnp.arange(ACTIONS, dtype=jnp.float32), keys)
    for a_r, (latent, seat, following, reward) in enumerate(zip(*played, strict=True)):
        for phi, s in np.ndindex(2, STATES):
            here = (np.asarray(latent) == phi) & (np.asarray(seat) == s)
            expert = PRIOR @ tables.expert[:, s]
            pays, moves = (
                np.roll(each[phi, s], -a_r, axis=0) for each in (tables.pays, tables.moves)
            )
            count, expected = here.sum(), expert @ moves
            found = np.bincount(np.asarray(following)[here], minlength=STATES) / count
            noise = np.sqrt(expected * (1 - expected) / count)
            assert (np.abs(found - expected) < 4.5 * noise + 1e-6).all()
            spread = np.sqrt(expert @ pays**2 - (expert @ pays) ** 2)
            mean = np.asarray(reward, float)[here].mean()
            assert abs(mean - expert @ pays) < 4.5 * spread / np.sqrt(count) + 1e-5
