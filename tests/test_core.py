"""The belief MDP step by step, and what the information bonuses do to what is optimal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from seerax import advice, rollout
from seerax.bonuses import belief_change, information_gain, potential
from seerax.core import Action, BeliefMDP, Key, Latent, Moment, Outcome, Step, World
from seerax.filters import Categorical

# ---- a line to walk on ---------------------------------------------------------------------------

CANDIDATES = jnp.array([0.0, 1.0, 2.0])


class LineState(NamedTuple):
    place: Array
    shown: Array  # the latent as it was when the step was taken


@dataclass(frozen=True)
class Line:
    """Walk from 0 by clipped actions and earn the place you reach; the task ends at 2 or beyond,
    the clock at 4.
    """

    horizon: int = 4
    discount: float = 0.9
    action_low: tuple[float, ...] = (-1.0,)
    action_high: tuple[float, ...] = (1.0,)

    def prior(self, key: Key) -> Latent:
        return jax.random.normal(key)

    def reset(self, key: Key, latent: Latent) -> LineState:
        return LineState(jnp.float32(0), jnp.float32(0))

    def step(self, key: Key, state: LineState, action: Action, latent: Latent) -> Step:
        place = state.place + action[0]
        return Step(LineState(place, latent), place, place >= 2)

    def features(self, state: LineState) -> Array:
        return state.place[None]


class DriftingLine(Line):
    """The latent moves by the action taken."""

    def evolve(
        self, key: Key, state: LineState, action: Action, next_state: LineState, latent: Latent
    ) -> Latent:
        return latent + action[0]


@dataclass
class Notebook:
    """An advisor that writes down when it was asked, and recommends the place it sees and half as
    much again.
    """

    asked: list[tuple[Moment, float]] = field(default_factory=list)

    def __call__(self, moment: Moment, state: LineState, belief: Any) -> Action:
        self.asked.append((moment, float(state.place)))
        return 1.5 * state.place[None]


def line(problem: Line, advisor: Any) -> BeliefMDP:
    closeness = lambda s, a, n, phi: -jnp.square(n.place - phi)  # noqa: E731
    return BeliefMDP(problem, Categorical(CANDIDATES, closeness), advisor)


def live(mdp: BeliefMDP, actions: list[float], seed: int = 0) -> tuple[list[World], list[Outcome]]:
    """Worlds [n + 1] and outcomes [n] of these actions, not compiled."""
    worlds, outcomes = [mdp.reset(jax.random.key(seed))], []
    for time, action in enumerate(actions):
        world, outcome = mdp.step(jax.random.key(1000 + time), worlds[-1], jnp.array([action]))
        worlds.append(world)
        outcomes.append(outcome)
    return worlds, outcomes


# The first episode is done at its third step, the second runs out of time; dead steps lie between.
ACTIONS = [0.5, 1.0, 0.75, 0.9, 0.5, -1.0, 0.25, 0.5, 0.9, 1.0, 1.0]
PLACES = [0.0, 0.5, 1.5, 2.25, 0.0, 0.5, -0.5, -0.25, 0.25, 0.0, 1.0, 2.0]
DEAD = [3, 8]  # steps taken from a world that is over
DONE = [2, 10]
TIMED_OUT = [7]


@pytest.fixture(scope="module")
def life() -> tuple[list[World], list[Outcome], Notebook]:
    notebook = Notebook()
    worlds, outcomes = live(line(Line(), notebook), ACTIONS)
    return worlds, outcomes, notebook


Life = tuple[list[World], list[Outcome], Notebook]


def test_a_world_starts_afresh_on_the_step_after_its_end(life: Life) -> None:
    worlds, _, _ = life
    assert [float(world.situation.state.place) for world in worlds] == PLACES
    assert [int(world.time) for world in worlds] == [0, 1, 2, 3, 0, 1, 2, 3, 4, 0, 1, 2]
    assert [step for step, world in enumerate(worlds[:-1]) if world.over] == DEAD


def test_the_step_that_starts_afresh_pays_nothing_and_ends_nothing(life: Life) -> None:
    _, outcomes, _ = life
    for step in DEAD:
        assert [float(x) for x in outcomes[step]] == [0, 0, 0, 0]


def test_every_other_step_pays_what_the_problem_says(life: Life) -> None:
    _, outcomes, _ = life
    paid = [0.0 if step in DEAD else place for step, place in enumerate(PLACES[1:])]
    assert [float(outcome.reward) for outcome in outcomes] == paid


def test_the_clock_ends_an_episode_without_finishing_the_task(life: Life) -> None:
    _, outcomes, _ = life
    assert [step for step, outcome in enumerate(outcomes) if outcome.terminated] == DONE
    assert [step for step, outcome in enumerate(outcomes) if outcome.over] == sorted(
        DONE + TIMED_OUT
    )


def test_the_return_is_the_sum_of_the_episodes_rewards(life: Life) -> None:
    worlds, outcomes, _ = life
    episode_return = 0.0
    for world, outcome, following in zip(worlds, outcomes, worlds[1:], strict=False):
        episode_return = 0.0 if world.over else episode_return + float(outcome.reward)
        assert float(following.episode_return) == pytest.approx(episode_return)


def test_advice_is_asked_for_exactly_once_at_the_start_and_once_a_step(life: Life) -> None:
    _, _, notebook = life
    assert len(notebook.asked) == len(ACTIONS) + 1


def test_advice_is_born_with_its_situation_and_clipped(life: Life) -> None:
    worlds, _, notebook = life
    assert [place for _, place in notebook.asked] == PLACES
    given = [float(world.situation.advice[0]) for world in worlds]
    np.testing.assert_allclose(given, np.clip(1.5 * np.array(PLACES), -1, 1), rtol=1e-6)


def test_the_advisors_episode_key_lasts_an_episode_and_its_own_key_a_step(life: Life) -> None:
    worlds, _, notebook = life
    moments = [moment for moment, _ in notebook.asked]
    assert [int(moment.time) for moment in moments] == [int(world.time) for world in worlds]
    episodes = [jax.random.key_data(moment.episode).tobytes() for moment in moments]
    assert [len(set(episodes[a:b])) for a, b in ((0, 4), (4, 9), (9, 12))] == [1, 1, 1]
    assert len(set(episodes)) == 3
    assert len({jax.random.key_data(moment.key).tobytes() for moment in moments}) == len(moments)


def test_every_episode_has_a_fresh_latent_that_stays(life: Life) -> None:
    worlds, _, _ = life
    latents = [float(world.latent) for world in worlds]
    assert [len(set(latents[a:b])) for a, b in ((0, 4), (4, 9), (9, 12))] == [1, 1, 1]
    assert len(set(latents)) == 3


def test_the_belief_follows_the_filter_and_starts_afresh_with_the_world(life: Life) -> None:
    worlds, _, _ = life
    log_weights = np.zeros(3)
    for step, (world, place) in enumerate(zip(worlds, PLACES, strict=True)):
        fresh = step == 0 or step - 1 in DEAD
        log_weights = np.zeros(3) if fresh else log_weights - (place - np.asarray(CANDIDATES)) ** 2
        expected = np.exp(log_weights) / np.exp(log_weights).sum()
        np.testing.assert_allclose(np.exp(world.situation.belief), expected, atol=1e-6)


@pytest.mark.parametrize("action", [0.3, -0.3, 7.0, -7.0, float("inf"), float("-inf")])
def test_actions_are_clipped_before_the_problem_sees_them(action: float) -> None:
    worlds, _ = live(line(Line(), lambda moment, state, belief: jnp.zeros(1)), [action])
    assert float(worlds[1].situation.state.place) == pytest.approx(np.clip(action, -1, 1))


def test_the_latent_evolves_after_the_step_it_has_shaped() -> None:
    worlds, _ = live(
        line(DriftingLine(), lambda moment, state, belief: jnp.zeros(1)), [0.25, -1.0, 0.5]
    )
    latents = [float(world.latent) for world in worlds]
    shown = [float(world.situation.state.shown) for world in worlds[1:]]
    np.testing.assert_allclose(np.diff(latents), [0.25, -1.0, 0.5], atol=1e-6)
    np.testing.assert_allclose(shown, latents[:-1], atol=1e-6)


# ---- a random table ------------------------------------------------------------------------------

PHIS, SEATS, CHOICES, DEPTH = 2, 3, 3, 3
PRIOR = np.array([0.7, 0.3])


class TableState(NamedTuple):
    seat: Any
    time: Any


@dataclass(frozen=True, eq=False)
class Table:
    """Seats, choices and two latents with random tables; the task is done after three choices
    (votes, largest wins).
    """

    moves: np.ndarray  # P(s' | phi, s, a) as [phi, s, a, s']
    pays: np.ndarray  # [phi, s, a]
    discount: float = 0.8
    horizon: int = 10
    action_low: tuple[float, ...] = (-1.0,) * CHOICES
    action_high: tuple[float, ...] = (1.0,) * CHOICES

    def prior(self, key: Key) -> Latent:
        return jax.random.categorical(key, jnp.log(jnp.asarray(PRIOR)))

    def reset(self, key: Key, latent: Latent) -> TableState:
        return TableState(jnp.int32(0), jnp.int32(0))

    def step(self, key: Key, state: TableState, action: Action, latent: Latent) -> Step:
        choice = jnp.argmax(action)
        chances = jnp.log(jnp.asarray(self.moves, jnp.float32))[latent, state.seat, choice]
        seat = jax.random.categorical(key, chances)
        paid = jnp.asarray(self.pays, jnp.float32)[latent, state.seat, choice]
        return Step(TableState(seat, state.time + 1), paid, state.time + 1 == DEPTH)

    def features(self, state: TableState) -> Array:
        return jax.nn.one_hot(state.seat, SEATS)

    def log_likelihood(
        self, state: TableState, action: Action, next_state: TableState, latent: Latent
    ) -> Array:
        moves = jnp.log(jnp.asarray(self.moves, jnp.float32))
        return moves[latent, state.seat, jnp.argmax(action), next_state.seat]


def table_mdp(table: Table) -> BeliefMDP:
    filter = Categorical(jnp.arange(PHIS), table.log_likelihood, jnp.log(jnp.asarray(PRIOR)))
    return BeliefMDP(table, filter, lambda moment, state, belief: jnp.zeros(CHOICES))


def random_table(seed: int) -> Table:
    rng = np.random.default_rng(seed)
    return Table(
        rng.dirichlet(np.ones(SEATS), (PHIS, SEATS, CHOICES)),
        rng.normal(size=(PHIS, SEATS, CHOICES)),
    )


def costly_gossip() -> Table:
    """Choice 0 costs 1 and tells the latent almost surely; the latent matters to nothing.

    Choices 1, 2 are idle.
    """
    moves = np.full((PHIS, SEATS, CHOICES, SEATS), 1 / SEATS)
    moves[0, :, 0], moves[1, :, 0] = (0.98, 0.01, 0.01), (0.01, 0.98, 0.01)
    pays = np.zeros((PHIS, SEATS, CHOICES))
    pays[:, :, 0] = -1
    return Table(moves, pays)


Values = dict[
    tuple[int, ...], np.ndarray
]  # history (choice, seat, choice, seat, ...) -> Q of every choice


def enumerated(mdp: BeliefMDP) -> tuple[Values, Values]:
    """Optimal Q and the belief after every history, over all choices and all that can follow, bonus
    included.
    """
    table: Any = mdp.problem
    values: Values = {}
    beliefs: Values = {}

    @jax.jit
    def learn(belief: Array, state: TableState, choice: Array, seat: Array) -> tuple[Array, Array]:
        after = TableState(seat, state.time + 1)
        next_belief = mdp.filter.update(belief, state, jax.nn.one_hot(choice, CHOICES), after)
        bonus = (
            mdp.bonus(mdp.filter, belief, next_belief, after.time == DEPTH)
            if mdp.bonus
            else jnp.float32(0)
        )
        return next_belief, bonus

    def visit(history: tuple[int, ...], belief: Array, state: TableState) -> float:
        weights = np.exp(np.asarray(belief, np.float64))
        quality = np.einsum("p,pa->a", weights, table.pays[:, state.seat])
        chances = np.einsum("p,pas->as", weights, table.moves[:, state.seat])
        for choice, seat in np.ndindex(CHOICES, SEATS):
            next_belief, bonus = learn(belief, state, choice, seat)
            following = TableState(np.int32(seat), np.int32(state.time + 1))
            later = (
                visit((*history, choice, seat), next_belief, following)
                if following.time < DEPTH
                else 0.0
            )
            quality[choice] += chances[choice, seat] * (float(bonus) + table.discount * later)
        values[history], beliefs[history] = quality, weights
        return float(quality.max())

    visit((), mdp.filter.init(), TableState(np.int32(0), np.int32(0)))
    return values, beliefs


# ---- bonuses -------------------------------------------------------------------------------------

EPSILON = 3.0


def entropy(weights: np.ndarray) -> float:
    """In units of the uniform belief's."""
    return float(-(weights * np.log(weights)).sum() / np.log(weights.size))


def test_the_l1_bonus_is_epsilon_times_the_l1_change_of_the_belief() -> None:
    filter = table_mdp(random_table(0)).filter
    before, after = np.array([0.9, 0.1]), np.array([0.25, 0.75])
    bonus = belief_change(EPSILON)(filter, jnp.log(before), jnp.log(after), jnp.bool_(False))
    assert float(bonus) == pytest.approx(EPSILON * (0.65 + 0.65), rel=1e-5)


def test_the_gain_bonus_pays_for_the_entropy_that_is_lost_and_keeps_it_paid() -> None:
    filter = table_mdp(random_table(0)).filter
    before, after = np.array([0.5, 0.5]), np.array([0.9, 0.1])
    for terminated in (False, True):
        bonus = information_gain(EPSILON)(
            filter, jnp.log(before), jnp.log(after), jnp.bool_(terminated)
        )
        assert float(bonus) == pytest.approx(EPSILON * (1 - entropy(after)), rel=1e-5)
    back = information_gain(EPSILON)(filter, jnp.log(after), jnp.log(before), jnp.bool_(False))
    assert float(back) == pytest.approx(-EPSILON * (1 - entropy(after)), rel=1e-5)


def bonus_collected(mdp: BeliefMDP, seed: int) -> np.ndarray:
    """Bonuses of every step of whole episodes under random choices, [episodes, DEPTH]."""

    def step(world: World, key: Key) -> tuple[World, Outcome]:
        act_key, step_key = jax.random.split(key)
        return mdp.step(step_key, world, jax.random.uniform(act_key, (CHOICES,)))

    def episode(key: Key) -> Outcome:
        first, rest = jax.random.split(key)
        return jax.lax.scan(step, mdp.reset(first), jax.random.split(rest, DEPTH))[1]

    outcomes = jax.jit(jax.vmap(episode))(jax.random.split(jax.random.key(seed), 100))
    assert outcomes.terminated[:, -1].all() and not outcomes.over[:, :-1].any()
    return np.asarray(outcomes.bonus)


def test_discounted_entropy_bonuses_sum_to_minus_the_first_potential_whatever_is_done() -> None:
    table = random_table(1)
    bonus = bonus_collected(table_mdp(table).with_bonus(potential(EPSILON, table.discount)), 0)
    total = bonus @ table.discount ** np.arange(DEPTH)
    np.testing.assert_allclose(total, EPSILON * entropy(PRIOR), rtol=1e-4)
    assert bonus.std(0).min() > 0.05


@pytest.mark.parametrize("seed", range(2))
def test_the_entropy_bonus_changes_every_choices_value_by_the_same_potential(seed: int) -> None:
    table = random_table(seed)
    mdp = table_mdp(table)
    plain, beliefs = enumerated(mdp)
    shaped, _ = enumerated(mdp.with_bonus(potential(EPSILON, table.discount)))
    assert len(plain) == 1 + 9 + 81
    for history, quality in plain.items():
        np.testing.assert_allclose(
            shaped[history], quality + EPSILON * entropy(beliefs[history]), atol=1e-4
        )
        assert shaped[history].argmax() == quality.argmax()


@pytest.mark.parametrize("paid", [belief_change, information_gain])
def test_a_bonus_can_make_useless_knowledge_optimal_where_the_entropy_bonus_does_not(
    paid: Any,
) -> None:
    mdp = table_mdp(costly_gossip())
    plain, _ = enumerated(mdp)
    shaped, _ = enumerated(mdp.with_bonus(potential(EPSILON, mdp.problem.discount)))
    assert plain[()].argmax() != 0 and plain[()][0] == pytest.approx(plain[()].max() - 1)
    assert shaped[()].argmax() != 0 and shaped[()][0] == pytest.approx(
        shaped[()].max() - 1, abs=1e-4
    )
    curious, _ = enumerated(mdp.with_bonus(paid(EPSILON)))
    assert curious[()].argmax() == 0


def test_evaluation_does_not_count_the_bonus(tiger_mdp: BeliefMDP) -> None:
    curious = tiger_mdp.with_bonus(belief_change(50.0))
    listening = jnp.array([1.0, 0.0, 0.0])
    assert (
        float(curious.step(jax.random.key(1), curious.reset(jax.random.key(0)), listening)[1].bonus)
        > 10
    )
    plain = rollout.evaluate(jax.random.key(0), tiger_mdp, advice.follow_advice, 32).returns
    np.testing.assert_array_equal(
        rollout.evaluate(jax.random.key(0), curious, advice.follow_advice, 32).returns, plain
    )
