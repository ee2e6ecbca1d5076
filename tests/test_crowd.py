"""CrowdNav: motion and contact in float64, Bayes' rule with scipy's densities, the expert by
exhaustive search.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from scipy import stats

from seerax import advice, rollout
from seerax.core import BeliefMDP, Expert, Moment, Situation
from seerax.experts.shooting import Shooting, lattice
from seerax.filters import Factored
from seerax.problems import crowd
from seerax.problems.crowd import CrowdNav, CrowdState

matplotlib.use("Agg")

GOALS = np.array([[(9.0, y)] * 3 + [(0.0, y)] * 3 for y in (0.5, 1.5, 2.5)])  # [3, 6, 2]
LEFT = np.arange(6) < 3


@pytest.fixture(scope="module")
def mdp() -> BeliefMDP:
    return crowd.crowdnav()


@pytest.fixture(scope="module")
def episodes(mdp: BeliefMDP) -> rollout.Episode:
    """Twelve steps of 512 worlds under the ensemble with noise: arrays [12, 512, ...]."""
    return jax.device_get(played(mdp, jax.random.key(1)))


# ---- independent answers -------------------------------------------------------------------------


def unit(heading: np.ndarray) -> np.ndarray:
    return np.stack([-np.sin(heading), np.cos(heading)], -1)


def rectangle_distance(points: np.ndarray, rear: np.ndarray, heading: float) -> np.ndarray:
    """In world coordinates, by the projections on the rectangle's two axes."""
    ahead = unit(np.asarray(heading))
    left = np.array([-ahead[1], ahead[0]])
    along, across = (points - rear) @ ahead, (points - rear) @ left
    return np.hypot(along - np.clip(along, 0, 2), across - np.clip(across, -0.25, 0.25))


def stepped(state: CrowdState, action: np.ndarray, latent: np.ndarray, noise: np.ndarray) -> tuple:
    """(rear, heading, speed, people, smallest distance during the second)"""
    speed = max(state.speed + 0.12 * action[0], 0)
    heading = state.heading + 0.1 * action[1]
    rear = state.rear + speed * unit(heading)
    offset = latent - state.people
    aim = np.arctan2(offset[:, 1], offset[:, 0]) + noise
    across = np.where(LEFT, state.people[:, 0] >= 9, state.people[:, 0] <= 0)
    people = state.people + np.where(across, 0, state.speeds)[:, None] * np.stack(
        [np.cos(aim), np.sin(aim)], -1
    )
    shares = np.linspace(0, 1, 1001)[:, None, None]
    places, rears = (
        state.people + shares * (people - state.people),
        state.rear + shares * (rear - state.rear),
    )
    return rear, heading, speed, people, rectangle_distance(places, rears, heading).min()


def wrapped_density(angle: np.ndarray, std: float = 0.5) -> np.ndarray:
    return sum(stats.norm.pdf(angle + 2 * np.pi * turn, scale=std) for turn in range(-6, 7))


def bearing(offset: np.ndarray) -> np.ndarray:
    return np.arctan2(offset[..., 1], offset[..., 0])


# ---- states --------------------------------------------------------------------------------------


def at(**fields: object) -> CrowdState:
    """A car in the middle of the road, at rest, everyone far away."""
    people = np.array([(-0.5, 20.0 + i) for i in range(3)] + [(9.5, 20.0 + i) for i in range(3)])
    rest = {
        "rear": (4.0, -5.0),
        "heading": 0.0,
        "speed": 0.0,
        "people": people,
        "speeds": np.full(6, 0.1),
    }
    fields = rest | {"moved": np.zeros((6, 2)), "hit": False} | fields
    return CrowdState(**{name: jnp.asarray(value) for name, value in fields.items()})


def someone(place: tuple[float, float], number: int = 0) -> jax.Array:
    """Everyone far away but one."""
    return at().people.at[number].set(jnp.array(place))


@partial(jax.jit, static_argnums=0)
def played(mdp: BeliefMDP, key: jax.Array) -> rollout.Episode:
    def move(worlds, key):
        keys = jax.random.split(key, (2, 512))
        action = jax.vmap(lambda k, a: mdp.clip(a + 0.5 * jax.random.normal(k, (2,))))(
            keys[0], worlds.situation.advice
        )
        following, outcome = jax.vmap(mdp.step)(keys[1], worlds, action)
        return following, rollout.Episode(
            worlds.latent,
            worlds.situation,
            action,
            outcome.reward,
            following.episode_return,
            worlds.over,
        )

    return jax.lax.scan(
        move, jax.vmap(mdp.reset)(jax.random.split(key, 512)), jax.random.split(key, 12)
    )[1]


step = jax.jit(CrowdNav().step)
step_many = jax.jit(jax.vmap(CrowdNav().step))


def wild_states(count: int) -> tuple[CrowdState, np.ndarray, np.ndarray]:
    """Cars among people, at any heading and up to 6 m/s; states, actions and goals in float32."""
    rng = np.random.default_rng(0)
    people = rng.uniform([-0.5, 0], [9.5, 4], (count, 6, 2))
    people[:, 0, 0] = rng.uniform(8.9, 9.2, count)
    fields = (
        rng.uniform([0.5, -5], [8.5, 5], (count, 2)),
        rng.uniform(-2, 2, count),
        rng.uniform(0, 6, count) * (rng.random(count) < 0.8),
        people,
        rng.uniform(0.1, 1, (count, 6)),
        np.zeros((count, 6, 2)),
        np.zeros(count, bool),
    )
    state = CrowdState(*(jnp.asarray(field) for field in fields))
    goals = GOALS[rng.integers(0, 3, (count, 6)), np.arange(6)]
    return state, rng.uniform(-1, 1, (count, 2)), goals


# ---- problem -------------------------------------------------------------------------------------


def test_step_equals_float64() -> None:
    count = 300
    states, actions, goals = wild_states(count)
    keys = jax.random.split(jax.random.key(0), count)
    noise = 0.5 * np.asarray(jax.vmap(lambda key: jax.random.normal(key, (6,)))(keys), float)
    after = jax.device_get(step_many(keys, states, jnp.asarray(actions), jnp.asarray(goals))).state
    hits = 0
    for i in range(count):
        state = jax.tree.map(lambda leaf, i=i: np.asarray(leaf[i], float), states)
        rear, heading, speed, people, gap = stepped(state, actions[i], goals[i], noise[i])
        np.testing.assert_allclose(after.rear[i], rear, atol=1e-5)
        assert after.heading[i] == pytest.approx(heading, abs=1e-6)
        assert after.speed[i] == pytest.approx(speed, abs=1e-6)
        np.testing.assert_allclose(after.people[i], people, atol=1e-5)
        np.testing.assert_allclose(after.moved[i], people - state.people, atol=1e-5)
        if abs(gap - 0.5) > 0.01:
            assert after.hit[i] == (gap < 0.5)
            hits += gap < 0.5
    assert 0.2 < hits / count < 0.95


def test_distance_to_the_car_equals_dense_sampling() -> None:
    rng = np.random.default_rng(1)
    across, along = np.meshgrid(np.linspace(-0.25, 0.25, 51), np.linspace(0, 2, 201))
    inside = np.stack([across.ravel(), along.ravel()], -1)
    for _ in range(40):
        rear, heading, place = rng.uniform(-3, 3, 2), rng.uniform(-4, 4), rng.uniform(-5, 5, 2)
        turn = np.array([[np.cos(heading), -np.sin(heading)], [np.sin(heading), np.cos(heading)]])
        nearest = np.hypot(*(inside @ turn.T + rear - place).T).min()
        seen = crowd.seen_from_car(jnp.asarray(place - rear)[None], jnp.float32(heading))[0]
        assert float(crowd.distance_of_point(seen[0], seen[1])) == pytest.approx(nearest, abs=0.008)


def test_distance_of_a_way_equals_dense_sampling() -> None:
    rng = np.random.default_rng(2)
    start, end = rng.uniform(-3, 3, (2, 400, 2))
    end[:20] = start[:20]  # somebody who stands still in the car's frame
    end[20:40, 0] = start[20:40, 0]
    shares = np.linspace(0, 1, 4001)[:, None, None]
    way = start + shares * (end - start)
    gap = np.maximum(np.abs(way) - [0.25, 1.0], 0)
    exact = crowd.distance_of_way(jnp.asarray(start), jnp.asarray(end))
    np.testing.assert_allclose(exact, np.hypot(gap[..., 0], gap[..., 1]).min(0), atol=2e-3)
    assert 0.05 < np.mean(np.asarray(exact) == 0) < 0.6


@pytest.mark.parametrize("speed", [0.3, 1.5, 5.0, 30.0, 200.0])
def test_no_speed_jumps_over_anyone(speed: float) -> None:
    goal, key, coast = jnp.asarray(GOALS[1]), jax.random.key(0), jnp.zeros(2)
    rear = jnp.array([4.0, -50.0])
    for share in (0.1, 0.5, 0.9):
        in_front = someone((4.6, -48 + share * speed))  # 0.35 m beside the car once it is there
        beside = someone((5.0, -48 + share * speed))
        assert step(key, at(rear=rear, speed=speed, people=in_front), coast, goal).state.hit
        assert not step(key, at(rear=rear, speed=speed, people=beside), coast, goal).state.hit


def test_a_walker_who_rushes_across_is_not_missed() -> None:
    """Three metres in a second past a standing car: hit if any point of the way is too near, not
    only its ends.
    """
    count, start = 200, np.array([2.5, 1.0])
    goal = jnp.asarray(GOALS[1]).at[0].set(jnp.array([100.0, 1.0]))
    state = at(rear=(4.0, 0.0), people=someone((2.5, 1.0)))
    state = state._replace(speeds=state.speeds.at[0].set(3.0))
    keys = jax.random.split(jax.random.key(0), count)
    after = jax.vmap(step, (0, None, None, None))(keys, state, jnp.zeros(2), goal).state
    way = start + np.linspace(0, 1, 1001)[:, None, None] * np.asarray(after.moved[:, 0])
    gap = rectangle_distance(way, np.array([4.0, 0.0]), 0.0)
    sure = np.abs(gap.min(0) - 0.5) > 1e-3
    np.testing.assert_array_equal(after.hit[sure], gap.min(0)[sure] < 0.5)
    assert ((gap.min(0) < 0.5) & (gap[-1] > 0.5)).mean() > 0.3


@pytest.mark.parametrize(
    ("state", "action", "reward", "terminated", "success"),
    [
        (at(speed=0.3), (0, 0), -0.1, False, False),
        (at(rear=(4.0, 3.5), speed=0.6), (0, 0), 249.9, True, True),
        (at(rear=(4.0, 3.3), speed=0.6), (0, 0), -0.1, False, False),
        (at(rear=(1.9, 0.0), heading=np.pi / 2, speed=0.1), (0, 0), -1000.1, True, False),
        (at(rear=(7.1, 0.0), heading=-np.pi / 2, speed=0.1), (0, 0), -1000.1, True, False),
        (at(rear=(4.0, -2.9), heading=np.pi, speed=0.2), (0, 0), -1000.1, True, False),
        (at(speed=0.5, people=someone((4.0, -2.6))), (1, 0), -(100 * 1.24**2 + 0.6), True, False),
        (at(speed=0.05, people=someone((4.0, -2.6))), (-1, 0), -0.6, True, False),
        (at(rear=(4.0, 3.5), speed=0.6, people=someone((4.0, 5.6))), (0, 0), -144.6, True, False),
    ],
    ids=[
        "on the way",
        "top",
        "not yet",
        "left",
        "right",
        "bottom",
        "hit",
        "hit at rest",
        "hit at the top",
    ],
)
def test_rewards_and_ends(
    state: CrowdState, action: tuple, reward: float, terminated: bool, success: bool
) -> None:
    latent = jnp.asarray(GOALS[1])
    after = step(jax.random.key(0), state, jnp.array(action, float), latent)
    assert float(after.reward) == pytest.approx(reward, abs=2e-3)
    assert bool(after.terminated) == terminated
    assert bool(CrowdNav().succeeded(after.state, latent, after.terminated)) == success


def test_the_car_stops_but_never_reverses() -> None:
    after = step(
        jax.random.key(0), at(speed=0.05), jnp.array([-1.0, 0.0]), jnp.asarray(GOALS[0])
    ).state
    assert after.speed == 0
    np.testing.assert_array_equal(after.rear, [4, -5])


def test_starts_have_their_distributions(mdp: BeliefMDP) -> None:
    keys = jax.random.split(jax.random.key(0), 4000)
    latent = jax.vmap(mdp.problem.prior)(keys)
    state = jax.device_get(jax.vmap(mdp.problem.reset)(keys, latent))
    for values, low, high in (
        (state.speed, 0, 0.4),
        (state.people[:, 2, 1], 0, 4),
        (state.speeds[:, 5], 0.1, 1),
    ):
        assert stats.kstest(values, "uniform", (low, high - low)).pvalue > 1e-3
    np.testing.assert_array_equal(
        state.people[..., 0], np.where(LEFT, -0.5, 9.5) + np.zeros((4000, 6))
    )
    np.testing.assert_array_equal(latent[..., 0], np.where(LEFT, 9, 0) + np.zeros((4000, 6)))
    for y in np.asarray(latent[..., 1]).T:
        assert stats.chisquare(np.unique(y, return_counts=True)[1]).pvalue > 1e-3
    assert set(np.unique(latent[..., 1])) == {0.5, 1.5, 2.5}


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("axis", range(2))
def test_each_coordinate_of_the_latent_moves_its_person(number: int, axis: int) -> None:
    state = at(people=np.array([(2.0, 1.0)] * 6) + np.arange(6)[:, None] * 0.3, rear=(4.0, -20.0))
    latent = jnp.asarray(GOALS[1])
    one, other = (
        step(jax.random.key(3), state, jnp.zeros(2), goals).state
        for goals in (latent, latent.at[number, axis].add(1.0 if number < 3 or axis else -1.0))
    )
    moved = np.abs(np.asarray(one.people - other.people)).max(-1) > 1e-4
    assert moved.tolist() == [i == number for i in range(6)]


def test_features_tell_where_and_how_fast() -> None:
    people = at().people.at[0].set(jnp.array([9.1, 2.0]))
    state = at(rear=(3.0, 1.0), heading=0.3, speed=0.7, people=people, speeds=np.arange(1, 7) / 10)
    state = state._replace(moved=jnp.arange(12.0).reshape(6, 2) / 10)
    features = np.asarray(CrowdNav().features(state))
    front = np.array([3 - 2 * np.sin(0.3), 1 + 2 * np.cos(0.3)])
    car = [0.6, 0.2, *front / 5, np.sin(0.3), np.cos(0.3), 0.7]
    offsets = (np.asarray(people) - [3, 1]).ravel() / 5
    pace = [0, 0.2, 0.3, 0.4, 0.5, 0.6]  # the first person is across
    np.testing.assert_allclose(
        features, np.concatenate([car, offsets, np.arange(12) / 10, pace]), atol=1e-6
    )


# ---- filter --------------------------------------------------------------------------------------


def test_filter_equals_bayes_rule_written_out(mdp: BeliefMDP, episodes: rollout.Episode) -> None:
    """On real episodes, from the start: products of wrapped densities at the headings before each
    move.
    """
    checked = 0
    for world in range(64):
        state = jax.tree.map(
            lambda leaf, i=world: np.asarray(leaf[:, i], float), episodes.situation.state
        )
        weight = np.full((6, 3), 1 / 3)
        over = episodes.over[:, world]
        for time in range(1, int(over.argmax()) + 1 if over.any() else 12):
            before, after = state.people[time - 1], state.people[time]
            expected = bearing(GOALS.swapaxes(0, 1) - before[:, None])  # [6, 3]
            density = wrapped_density(bearing(state.moved[time])[:, None] - expected)
            across = np.where(LEFT, before[:, 0] >= 9, before[:, 0] <= 0)
            weight = weight * np.where(across[:, None], 1, density)
            weight /= weight.sum(-1, keepdims=True)
            np.testing.assert_allclose(state.moved[time], after - before, atol=1e-5)
            np.testing.assert_allclose(
                np.exp(episodes.situation.belief[time, world]), weight, atol=2e-4
            )
            checked += 1
    assert checked > 400


def test_headings_right_behind_are_wrapped(mdp: BeliefMDP) -> None:
    """Someone near the goal who turns back: differences beyond pi count the short way round."""
    people = np.array([(8.8, y) for y in (0.0, 1.0, 3.5)] + [(0.2, y) for y in (0.0, 2.0, 3.5)])
    for heading in np.linspace(-3.1, 3.1, 13):
        moved = 0.5 * unit(np.full(6, heading))
        before, after = at(people=people), at(people=people + moved, moved=moved)
        belief = mdp.filter.update(mdp.filter.init(), before, jnp.zeros(2), after)
        density = wrapped_density(
            bearing(moved)[:, None] - bearing(GOALS.swapaxes(0, 1) - people[:, None])
        )
        np.testing.assert_allclose(
            np.exp(belief), density / density.sum(-1, keepdims=True), atol=1e-4
        )


def test_wrapped_density_integrates_to_one() -> None:
    angles = jnp.linspace(-np.pi, np.pi, 2001)
    for shift in (0.0, 7.0, -20.0):
        density = jnp.exp(crowd.log_wrapped_normal(angles + shift, 0.5))
        assert float(jnp.trapezoid(density, angles)) == pytest.approx(1, abs=1e-4)


def test_who_has_arrived_says_nothing(mdp: BeliefMDP) -> None:
    people = np.array([(9.0, 1.0), (9.4, 2.0), (5.0, 1.0), (0.0, 1.0), (-0.3, 2.0), (5.0, 1.0)])
    state, latent = at(people=people, rear=(4.0, -20.0)), jnp.asarray(GOALS[0])
    after = step(jax.random.key(0), state, jnp.zeros(2), latent).state
    belief = mdp.filter.update(mdp.filter.init(), state, jnp.zeros(2), after)
    told = np.abs(np.exp(belief) - 1 / 3).max(-1) > 1e-3
    assert told.tolist() == [False, False, True, False, False, True]
    np.testing.assert_array_equal(np.abs(after.moved).max(-1) > 0, told)


@pytest.mark.parametrize("moved", [0.0, 1e30, -1e30, np.inf, np.nan])
def test_belief_survives_absurd_observations(mdp: BeliefMDP, moved: float) -> None:
    belief = mdp.filter.init()
    before = at(people=np.array([(3.0, 1.0)] * 6))
    after = before._replace(moved=jnp.full((6, 2), moved), people=before.people + moved)
    for _ in range(3):
        belief = mdp.filter.update(belief, before, jnp.zeros(2), after)
        belief = mdp.filter.update(belief, after, jnp.zeros(2), before)
    assert np.isfinite(belief).all()
    np.testing.assert_allclose(np.exp(belief).sum(-1), 1, atol=1e-5)


def calibration(filter: Factored, key: jax.Array) -> np.ndarray:
    """z-scores [3 times, 2 statistics] of truth against a draw from the belief, over 10000 crowds.

    If the belief is right the two are exchangeable: both are as often the mode, and as far from it.
    """
    problem, count = CrowdNav(), 10000

    def one(key: jax.Array) -> jax.Array:
        keys = jax.random.split(key, 15)
        latent = problem.prior(keys[0])
        state = problem.reset(keys[1], latent)

        def move(carry, key):
            state, belief = carry
            step_key, draw_key = jax.random.split(key)
            after = problem.step(step_key, state, jnp.array([-1.0, 0.0]), latent).state
            belief = filter.update(belief, state, jnp.zeros(2), after)
            mode, draw = filter.mode(belief), filter.sample(draw_key, belief)
            distance = [jnp.abs(goals - mode)[:, 1].mean() for goals in (latent, draw)]
            equal = [(goals == mode).all(-1).mean() for goals in (latent, draw)]
            return (after, belief), jnp.stack([distance[0] - distance[1], equal[0] - equal[1]])

        return jax.lax.scan(move, (state, filter.init()), keys[2:])[1]

    differences = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(key, count)), float)[
        :, [1, 4, 11]
    ]
    return differences.mean(0) / (differences.std(0) / np.sqrt(count))


def test_beliefs_are_calibrated(mdp: BeliefMDP) -> None:
    assert np.abs(calibration(mdp.filter, jax.random.key(7))).max() < 3


def test_calibration_notices_a_filter_that_is_too_sure() -> None:
    def sharper(state, action, next_state, latent):
        ways = latent - state.people, next_state.moved
        turn = jnp.subtract(*(jnp.arctan2(way[:, 1], way[:, 0]) for way in ways))
        return jnp.where(crowd.walking(state), crowd.log_wrapped_normal(turn, 0.4), 0.0)

    assert np.abs(calibration(Factored(crowd.goals(), sharper), jax.random.key(7))).max() > 6


# ---- expert --------------------------------------------------------------------------------------


def searched_costs(state: CrowdState, goals: np.ndarray) -> np.ndarray:
    """The expert's cost of each of its 9 x 5 candidates, [45], one after the other."""
    offset = goals - state.people
    distance = np.hypot(*offset.T)
    across = np.where(LEFT, state.people[:, 0] >= 9, state.people[:, 0] <= 0)
    pace = np.where(across, 0, np.exp(-0.125) * state.speeds)
    costs = []
    for acceleration in np.linspace(-0.12, 0.12, 9):
        for turn in np.linspace(-0.1, 0.1, 5):
            speed, heading = max(state.speed + acceleration, 0), state.heading + turn
            cost = abs(heading) - 10 * speed
            for time in (1, 3, 5, 7, 9, 11, 13, 15):
                rear = state.rear + time * speed * unit(heading)
                if rear[1] >= 4:
                    continue
                x = rear[0] - 2 * np.sin(heading)
                cost += 15 * max(1 - x, x - 8, 0)
                people = (
                    state.people
                    + np.minimum(time * pace, distance)[:, None] * offset / distance[:, None]
                )
                gap = rectangle_distance(people, rear, heading) - 0.5
                cost += 0.1 * np.sum(1 / np.maximum(gap, 0.05) ** 2)
            costs.append(cost)
    return np.array(costs)


def test_expert_equals_exhaustive_search(mdp: BeliefMDP, episodes: rollout.Episode) -> None:
    """In situations as they occur, and in wild ones."""
    visited = jax.tree.map(
        lambda leaf: leaf[[0, 4, 8, 11], :16].reshape(-1, *leaf.shape[2:]),
        (episodes.situation.state, episodes.latent),
    )
    wild, _, goals = wild_states(64)
    states, latents = jax.tree.map(
        lambda *leaves: np.concatenate(leaves), visited, (wild, goals.astype(np.float32))
    )
    costs = np.asarray(jax.jit(jax.vmap(crowd.driver().costs))(states, latents))
    chosen = np.asarray(jax.jit(jax.vmap(mdp.expert.act))(states, latents))
    candidates = np.array([(a, s) for a in np.linspace(-1, 1, 9) for s in np.linspace(-1, 1, 5)])
    for i in range(len(chosen)):
        state, latent = jax.tree.map(
            lambda leaf, i=i: np.asarray(leaf[i], float), (states, latents)
        )
        np.testing.assert_allclose(costs[i], searched_costs(state, latent), rtol=2e-3, atol=2e-3)
        np.testing.assert_allclose(chosen[i], candidates[costs[i].argmin()], atol=1e-6)
    assert len(np.unique(chosen, axis=0)) > 5


def test_collapsed_belief_equals_the_expert_told(mdp: BeliefMDP, episodes: rollout.Episode) -> None:
    state, latent = jax.tree.map(lambda leaf: leaf[6], (episodes.situation.state, episodes.latent))
    known = np.log(np.where((latent[:, None] == GOALS).all(-1), 1.0, 1e-30)).swapaxes(
        1, 2
    )  # [512, 6, 3]
    moment = Moment(jax.random.key(0), jax.random.key(0), jnp.int32(0))
    advised = jax.jit(jax.vmap(lambda state, belief: mdp.advisor(moment, state, belief)))(
        state, jnp.asarray(known)
    )
    told = jax.jit(jax.vmap(mdp.expert.act))(state, latent)
    blind = jax.jit(jax.vmap(mdp.expert.act, (0, None)))(state, jnp.asarray(GOALS.mean(0)))
    np.testing.assert_array_equal(advised, told)
    assert (np.asarray(blind) != np.asarray(told)).any(-1).mean() > 0.1


def test_advice_is_for_the_mean_goals(mdp: BeliefMDP, episodes: rollout.Episode) -> None:
    state, belief = jax.tree.map(
        lambda leaf: leaf[6], (episodes.situation.state, episodes.situation.belief)
    )
    mean = np.einsum("nmk,kmd->nmd", np.exp(belief), GOALS).astype(np.float32)
    told = jax.jit(jax.vmap(mdp.expert.act))(state, jnp.asarray(mean))
    same = (np.asarray(told) == episodes.situation.advice[6]).all(-1)
    assert same.mean() > 0.98  # rounding may tip a tie


def test_ensemble_leaves_room(mdp: BeliefMDP) -> None:
    result = rollout.evaluate(jax.random.key(11), mdp, advice.follow_advice, 1024)
    assert 0.7 < result.success.mean() < 0.85
    assert 130 < result.mean < 190


def test_shooting_takes_the_cheapest_candidate() -> None:
    """Steps of -1, 0, 1 along a line: the way there, plus hazards that a told latent places."""
    shooting = Shooting(
        candidates=lattice(np.array([-1.0, 0.0, 1.0])),
        follow=lambda state, action: state + action[0],
        forecast=lambda state, latent: latent,
        cost=lambda way: -0.1 * way,
        danger=lambda way, hazard: jnp.where(way == hazard, 1.0, 0.0),
    )
    expert = shooting.expert()
    assert isinstance(expert, Expert)
    np.testing.assert_allclose(
        shooting.costs(jnp.float32(5), jnp.array([6.0, 5.0, 6.0])), [-0.4, 0.5, 1.4], atol=1e-6
    )
    for hazards, best in (([0.0, 0.0], 1), ([6.0, 0.0], 0), ([6.0, 5.0], -1)):
        assert expert.act(jnp.float32(5), expert.plan(jnp.array(hazards))).tolist() == [best]


def test_lattice_holds_every_combination() -> None:
    grid = lattice(np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0]))
    assert grid.tolist() == [[1, 3], [1, 4], [1, 5], [2, 3], [2, 4], [2, 5]]


# ---- drawing -------------------------------------------------------------------------------------


def test_drawing_shows_beliefs_as_opacity(mdp: BeliefMDP, episodes: rollout.Episode) -> None:
    state, belief, advised = jax.tree.map(lambda leaf: leaf[6, 3], episodes.situation)
    ax = Figure().add_subplot()
    mdp.problem.draw(
        ax, Situation(state, belief, advised), episodes.action[6, 3], episodes.latent[6, 3]
    )
    walking = np.asarray(crowd.walking(state))
    arrows = [
        c for c in ax.collections if isinstance(c, LineCollection) and len(c.get_segments()) == 3
    ]
    opacities = [artist.get_alpha() for artist in arrows]
    np.testing.assert_allclose(opacities, np.exp(belief)[walking].ravel(), atol=1e-6)
    lengths = [
        np.hypot(*(tip - start))
        for (start, tip), *_ in (artist.get_segments() for artist in arrows)
    ]
    np.testing.assert_allclose(lengths, np.repeat(2.5 * state.speeds[walking], 3), rtol=1e-4)
    people = [patch for patch in ax.patches if patch.get_gid() == "person"]
    np.testing.assert_allclose([patch.center for patch in people], state.people)
