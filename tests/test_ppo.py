"""Play, judge, improve: each part against a plain reference, the whole on known answers."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from jax import Array
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from seerax import agents, ppo
from seerax.compute import devices
from seerax.core import Action, BeliefMDP, Key, Latent, Step, World
from seerax.filters import Categorical
from seerax.filters.discrete import condition, log_odds
from seerax.numerics.trees import row
from seerax.ppo.improve import Minibatch, fast_permutation, gradient_of, loss
from seerax.ppo.iteration import TrainState
from seerax.ppo.judge import advantages, batch_statistics
from seerax.ppo.networks import ActorCritic, Normaliser, log_prob
from seerax.ppo.params import Params, cap_exploration, popart
from seerax.ppo.play import Trajectory, play

# ---- six probes in one problem -------------------------------------------------------------------

STEADY, FORESEEN, LATER, CHOSEN, ENDLESS, BELIEVED = range(6)
LASTS = jnp.array([4, 1, 2, 1, 0, 3])  # steps until the task is done; 0 for never
DISCOUNT, CLOCK = 0.8, 8


class ProbeState(NamedTuple):
    kind: Array
    time: Array
    sign: Array  # -1 or 1 by chance
    told: (
        Array  # the latent, once, if the kind is BELIEVED: the filter sees it, the network does not
    )


@dataclass(frozen=True)
class Probes:
    """Every episode is one of six kinds, each with a known answer. The latent is -1 or 1.

    STEADY pays 1 a step; FORESEEN pays the sign; LATER pays 1 on its second step; CHOSEN wants the
    action 0.6 * sign; ENDLESS pays 1 a step until stopped by the clock, which it does not show;
    BELIEVED pays action * latent, but only after the latent was told.
    """

    horizon: int = CLOCK
    discount: float = DISCOUNT
    action_low: tuple[float, ...] = (-1.0,)
    action_high: tuple[float, ...] = (1.0,)

    def prior(self, key: Key) -> Latent:
        return jax.random.rademacher(key, (), jnp.float32)

    def reset(self, key: Key, latent: Latent) -> ProbeState:
        kind_key, sign_key = jax.random.split(key)
        kind = jax.random.randint(kind_key, (), 0, 6)
        return ProbeState(
            kind, jnp.int32(0), jax.random.rademacher(sign_key, (), jnp.float32), jnp.float32(0)
        )

    def step(self, key: Key, state: ProbeState, action: Action, latent: Latent) -> Step:
        chosen = -jnp.square(action[0] - 0.6 * state.sign)
        believed = jnp.where(state.time > 0, action[0] * latent, 0.0)
        later = (state.time == 1).astype(jnp.float32)
        reward = jnp.stack([jnp.float32(1), state.sign, later, chosen, jnp.float32(1), believed])[
            state.kind
        ]
        told = jnp.where((state.kind == BELIEVED) & (state.time == 0), latent, 0.0)
        following = state._replace(time=state.time + 1, told=told)
        return Step(following, reward, following.time == LASTS[state.kind])

    def features(self, state: ProbeState) -> Array:
        return shown(state.kind, state.time, state.sign)

    def log_likelihood(
        self, state: ProbeState, action: Action, following: ProbeState, latent: Latent
    ) -> Array:
        return jnp.where(following.told * latent < 0, -jnp.inf, 0.0)


def shown(kind: Any, time: Any, sign: Any) -> Array:
    """What the network sees of a state."""
    clock = jnp.where(kind == ENDLESS, 0, time / 4)
    return jnp.concatenate([jax.nn.one_hot(kind, 6), jnp.stack([clock, jnp.float32(sign)])])


SEEDS = jnp.stack([jax.random.key(0), jax.random.key(1)])
TINY = ppo.Config(
    steps=150 * 128 * 16,
    worlds=128,
    rollout_length=16,
    minibatches=4,
    learning_rate=4e-3,
    exploration=0.5,
    hidden=(64,),
    evaluations=5,
    evaluation_episodes=256,
)


@pytest.fixture(scope="module")
def probes() -> BeliefMDP:
    problem = Probes()
    filter = Categorical(jnp.array([-1.0, 1.0]), problem.log_likelihood)
    return BeliefMDP(problem, filter, lambda moment, state, belief: jnp.zeros(1))


@pytest.fixture(scope="module")
def trainer(probes: BeliefMDP) -> ppo.Trainer:
    return ppo.Trainer(ppo.PPO(probes, agents.bpo, TINY))


class Run(NamedTuple):
    history: list[ppo.Progress]  # after every iteration
    compiled: list[str]  # the names of all that was compiled meanwhile


@pytest.fixture(scope="module")
def run(trainer: ppo.Trainer) -> Run:
    """Two seeds trained side by side."""
    compiled: list[str] = []

    def listen(event: str, duration_secs: float, **about: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(about["fun_name"])

    jax.monitoring.register_event_duration_secs_listener(listen)
    history = list(trainer.train_from(SEEDS))
    return Run(history, compiled.copy())


@pytest.fixture(scope="module")
def history(run: Run) -> list[ppo.Progress]:
    return run.history


class Learned(NamedTuple):
    """Learned parameters, to be asked about kinds, times, signs and P(latent = 1)."""

    params: Params

    def inputs(self, kind: int, time: float, sign: float, belief: float) -> Array:
        believed = condition(jnp.zeros(2), jnp.log(jnp.array([1 - belief, belief])))
        seen = jnp.concatenate([jnp.exp(believed), log_odds(believed)])
        return self.params.inputs.normalise(jnp.append(shown(kind, time, sign), seen))

    def value(self, kind: int, time: float = 0, sign: float = 1, belief: float = 0.5) -> float:
        network, _, values = self.params
        return float(values.restore(network.value(self.inputs(kind, time, sign, belief))))

    def action(self, kind: int, time: float = 0, sign: float = 1, belief: float = 0.5) -> float:
        return float(self.params.network.actor(self.inputs(kind, time, sign, belief))[0])


@pytest.fixture(scope="module", params=[0, 1], ids=["seed 0", "seed 1"])
def learned(request: pytest.FixtureRequest, history: list[ppo.Progress]) -> Learned:
    return Learned(
        jax.tree.map(lambda x: jax.device_get(x)[request.param], history[-1].train_state.params)
    )


def test_a_steady_reward_is_worth_its_discounted_sum_to_the_end(learned: Learned) -> None:
    for time, sign in ((0, 1), (1, -1), (2, 1), (3, -1)):
        worth = sum(DISCOUNT**k for k in range(4 - time))
        assert learned.value(STEADY, time, sign) == pytest.approx(worth, abs=0.1)


def test_a_reward_that_can_be_foreseen_is_foreseen(learned: Learned) -> None:
    assert learned.value(FORESEEN, sign=1) == pytest.approx(1, abs=0.05)
    assert learned.value(FORESEEN, sign=-1) == pytest.approx(-1, abs=0.05)


def test_a_reward_one_step_later_is_discounted_once(learned: Learned) -> None:
    for sign in (-1, 1):
        assert learned.value(LATER, 0, sign) == pytest.approx(DISCOUNT, abs=0.06)
        assert learned.value(LATER, 1, sign) == pytest.approx(1, abs=0.06)


def test_the_action_that_pays_is_found(learned: Learned) -> None:
    assert learned.action(CHOSEN, sign=1) == pytest.approx(0.6, abs=0.08)
    assert learned.action(CHOSEN, sign=-1) == pytest.approx(-0.6, abs=0.08)


def test_an_endless_task_cut_by_the_clock_is_worth_its_endless_sum(learned: Learned) -> None:
    """If the clock's end were the task's: 4.2 at first, 1 at last and 3 on average."""
    for sign in (-1, 1):
        assert learned.value(ENDLESS, sign=sign) == pytest.approx(1 / (1 - DISCOUNT), rel=0.02)


def test_what_only_the_belief_tells_is_acted_upon(learned: Learned) -> None:
    for time, sign in ((1, -1), (2, 1)):
        assert learned.action(BELIEVED, time, sign, belief=1) > 0.8
        assert learned.action(BELIEVED, time, sign, belief=0) < -0.8


# ---- training as a whole -------------------------------------------------------------------------


def assert_same(a: Any, b: Any, rtol: float = 0, atol: float = 0) -> None:
    """Leaf by leaf: bit for bit, or within a tolerance."""
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        if jnp.issubdtype(one.dtype, jax.dtypes.prng_key):
            one, other = jax.random.key_data(one), jax.random.key_data(other)
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)


def rows(tree: Any, seed: int) -> Any:
    """One seed of stacked learners, still stacked."""
    return jax.tree.map(lambda x: x[seed : seed + 1], tree)


def iterated(trainer: ppo.Trainer, train_state: TrainState, iterations: int) -> TrainState:
    """One iteration after another: two in flight at once can dead-lock host devices."""
    train_state = trainer.place(train_state)
    for _ in range(iterations):
        train_state, _ = jax.block_until_ready(trainer.iterate_many(train_state))
    return train_state


def test_the_same_seeds_learn_the_same_bit_for_bit(
    trainer: ppo.Trainer, history: list[ppo.Progress]
) -> None:
    again = list(itertools.islice(trainer.train_from(SEEDS), 5))
    assert_same(again[4].train_state, history[4].train_state)
    assert_same(again[4].metrics, history[4].metrics)


def test_different_seeds_learn_different_things(history: list[ppo.Progress]) -> None:
    weights = np.asarray(history[-1].train_state.params.network.actor.weights[0])
    assert np.abs(weights[0] - weights[1]).max() > 0.1


def test_seeds_side_by_side_learn_what_each_learns_alone(
    trainer: ppo.Trainer, history: list[ppo.Progress]
) -> None:
    alone = iterated(trainer, jax.jit(jax.vmap(trainer.learner.init))(SEEDS[1:]), 3)
    beside = rows(history[3].train_state, 1)
    assert_same(alone.params, beside.params, rtol=1e-2, atol=2e-4)
    assert_same(alone.worlds.situation.state, beside.worlds.situation.state)


def test_training_goes_on_where_it_was_left(
    trainer: ppo.Trainer, history: list[ppo.Progress]
) -> None:
    resumed = list(trainer.train_from(SEEDS, history[-4]))
    assert [progress.steps for progress in resumed] == [progress.steps for progress in history[-3:]]
    assert_same(resumed[-1].train_state, history[-1].train_state)
    assert_same(resumed[-1].best, history[-1].best)


def test_an_iteration_is_compiled_only_once(run: Run) -> None:
    assert len(run.history) == TINY.iterations + 1
    assert run.compiled.count("jit(iterate_seeds)") == 1
    assert run.compiled.count("jit(returns)") == 1  # the held-out evaluation


def test_the_best_parameters_are_the_ones_with_the_best_held_out_return(
    history: list[ppo.Progress],
) -> None:
    measured = [progress for progress in history if progress.held_out is not None]
    assert len(measured) == TINY.evaluations + 1
    returns = np.stack([progress.held_out for progress in measured])  # [evaluations + 1, seeds]
    np.testing.assert_array_equal(history[-1].best_return, returns.max(0))
    for seed, at in enumerate(returns.argmax(0)):
        assert_same(
            jax.tree.map(lambda x, seed=seed: x[seed], history[-1].best),
            jax.tree.map(lambda x, seed=seed: x[seed], measured[at].train_state.params),
        )


def test_worlds_are_sharded_over_the_devices_and_parameters_are_the_same_on_all(
    history: list[ppo.Progress],
) -> None:
    train_state = history[-1].train_state
    assert len(jax.devices()) == 2
    half = (2, TINY.worlds // 2)
    assert [shard.data.shape for shard in train_state.worlds.over.addressable_shards] == [
        half,
        half,
    ]
    for leaf in jax.tree.leaves((train_state.params, train_state.opt_state)):
        mine, other = (np.asarray(shard.data) for shard in leaf.addressable_shards)
        np.testing.assert_array_equal(mine, other)


def test_both_devices_play_different_episodes(history: list[ppo.Progress]) -> None:
    latents = np.asarray(history[-1].train_state.worlds.latent)[0]
    mine, other = np.split(latents, 2)
    assert 0.2 < np.mean(mine == other) < 0.8


def test_one_device_learns_the_same_as_two(
    probes: BeliefMDP, history: list[ppo.Progress], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = jax.make_mesh(
        (1,), (devices.WORLDS,), axis_types=(AxisType.Auto,), devices=jax.devices()[:1]
    )
    monkeypatch.setattr(devices, "mesh", lambda at_most=None: one)
    alone = ppo.Trainer(ppo.PPO(probes, agents.bpo, TINY))
    train_state = iterated(alone, rows(history[0].train_state, 0), TINY.iterations)
    assert len(train_state.worlds.over.sharding.device_set) == 1
    learned = Learned(jax.tree.map(lambda x: x[0], train_state.params))
    test_a_steady_reward_is_worth_its_discounted_sum_to_the_end(learned)
    test_the_action_that_pays_is_found(learned)
    test_an_endless_task_cut_by_the_clock_is_worth_its_endless_sum(learned)
    test_what_only_the_belief_tells_is_acted_upon(learned)


def updates(train_state: TrainState) -> np.ndarray:
    """How many steps Adam has made, for every seed."""
    counts = [leaf for leaf in jax.tree.leaves(train_state.opt_state) if leaf.dtype == jnp.int32]
    return np.asarray(counts[0])


def test_updates_stop_for_this_iteration_once_the_policy_has_moved_too_far(
    probes: BeliefMDP, history: list[ppo.Progress]
) -> None:
    careful = ppo.Trainer(ppo.PPO(probes, agents.bpo, replace(TINY, target_kl=1e-5)))
    whole = TINY.epochs * TINY.minibatches
    start = history[0].train_state
    once, twice = iterated(careful, start, 1), iterated(careful, start, 2)
    assert updates(history[1].train_state).tolist() == [whole, whole]
    for made in (updates(once), updates(twice) - updates(once)):
        assert ((made >= 1) & (made <= 3)).all()
    before, after = (
        np.asarray(train_state.params.network.actor.weights[-1]) for train_state in (start, once)
    )
    assert 0 < np.abs(after - before).max() <= 3.1 * TINY.learning_rate


def test_exploration_is_held_under_a_falling_ceiling() -> None:
    config = replace(TINY, exploration=0.5, exploration_end=0.2)
    network = ActorCritic(jax.random.key(0), 3, (4,), jnp.array([0.5]))
    params = Params(network, Normaliser.init(3), Normaliser.init())
    for share, ceiling in ((0.0, 0.5), (0.5, 0.3), (1.0, 0.1)):
        quiet = cap_exploration(config, params, share * config.iterations)
        np.testing.assert_allclose(jnp.exp(quiet.network.log_std), ceiling, rtol=1e-5)


# ---- judge ---------------------------------------------------------------------------------------

LENGTH, WORLDS = 40, 6


def random_play(seed: int) -> tuple[Trajectory, np.ndarray]:
    """Values and rewards at random; ends by task and by clock, each followed by a dead step that
    pays nothing.
    """
    rng = np.random.default_rng(seed)
    terminated, over = np.zeros((2, LENGTH, WORLDS), bool)
    live = np.ones((LENGTH, WORLDS), bool)
    for t, w in np.ndindex(LENGTH, WORLDS):
        live[t, w] = t == 0 or not over[t - 1, w]
        over[t, w] = live[t, w] and rng.random() < 0.2
        terminated[t, w] = over[t, w] and rng.random() < 0.5
    reward = np.where(live, rng.normal(size=live.shape), 0)
    value = rng.normal(size=live.shape)
    nothing = np.zeros(live.shape)
    columns = [nothing, nothing, nothing, value, reward, terminated, over, live, nothing]
    return Trajectory(*map(jnp.asarray, columns)), rng.normal(size=WORLDS)


def lambda_return(
    rewards: list[float], values: list[float], discount: float, trace: float
) -> float:
    """The mixture of n-step returns; values[n] is what follows n rewards, 0 after a true end."""
    n_step = [
        sum(discount**k * rewards[k] for k in range(n)) + discount**n * values[n]
        for n in range(1, len(rewards) + 1)
    ]
    mixed = sum((1 - trace) * trace ** (n - 1) * n_step[n - 1] for n in range(1, len(n_step)))
    return mixed + trace ** (len(n_step) - 1) * n_step[-1]


@pytest.mark.parametrize(("discount", "trace"), [(0.9, 0.8), (1.0, 0.95), (0.99, 0.0), (0.7, 1.0)])
def test_advantages_are_lambda_returns_of_the_episode_minus_values(
    discount: float, trace: float
) -> None:
    trajectory, last_value = random_play(0)
    found = advantages(trajectory, jnp.asarray(last_value), discount, trace)
    reward, terminated, over, live = (
        np.asarray(x)
        for x in (trajectory.reward, trajectory.terminated, trajectory.over, trajectory.live)
    )
    value = np.concatenate([trajectory.value, last_value[None]])
    for t, w in zip(*np.nonzero(live), strict=True):
        ends = np.flatnonzero(over[t:, w])
        stop = t + ends[0] + 1 if ends.size else LENGTH
        following = value[t : stop + 1, w].tolist()
        if terminated[stop - 1, w]:
            following[-1] = 0.0
        expected = (
            lambda_return(reward[t:stop, w].tolist(), following, discount, trace) - value[t, w]
        )
        assert float(found[t, w]) == pytest.approx(expected, abs=1e-4)


# ---- play ----------------------------------------------------------------------------------------


def test_what_was_played_marks_fresh_starts_as_dead_and_values_every_situation(
    trainer: ppo.Trainer, history: list[ppo.Progress]
) -> None:
    params, worlds = jax.tree.map(lambda x: jax.device_get(x)[0], history[-1].train_state[:3:2])
    length = trainer.config.rollout_length
    after, trajectory, last_value = jax.jit(partial(play, trainer.mdp, trainer.agent, length))(
        jax.random.key(3), params, worlds
    )
    over = np.concatenate([np.asarray(worlds.over)[None], trajectory.over])
    np.testing.assert_array_equal(trajectory.live, ~over[:-1])
    np.testing.assert_array_equal(after.over, over[-1])
    assert 0.1 < np.mean(~np.asarray(trajectory.live)) < 0.5
    assert (np.asarray(trajectory.reward)[~np.asarray(trajectory.live)] == 0).all()
    assert (
        not (trajectory.terminated & ~trajectory.over).any()
        and (trajectory.over & ~trajectory.terminated).any()
    )
    seen = params.inputs.normalise(jnp.concatenate([trajectory.inputs, look(trainer, after)[None]]))
    np.testing.assert_allclose(
        params.values.restore(params.network.value(seen)),
        jnp.concatenate([trajectory.value, last_value[None]]),
        atol=1e-4,
    )
    density = scipy.stats.norm(
        params.network.actor(seen[:-1]), np.exp(params.network.log_std)
    ).logpdf(trajectory.raw)
    np.testing.assert_allclose(trajectory.log_prob, density.sum(-1), atol=1e-3)


def look(trainer: ppo.Trainer, worlds: World) -> Array:
    return jax.vmap(partial(trainer.agent.inputs, trainer.mdp))(worlds.situation)


# ---- improve -------------------------------------------------------------------------------------


def random_params(inputs: int = 5) -> Params:
    network = ActorCritic(jax.random.key(1), inputs, (16,), jnp.array([0.3, 0.7]))
    actor = eqx.tree_at(
        lambda a: a.weights[-1], network.actor, jax.random.normal(jax.random.key(2), (16, 2))
    )
    network = eqx.tree_at(lambda n: n.actor, network, actor)
    return Params(
        network,
        Normaliser.init(inputs),
        Normaliser(jnp.float32(3), jnp.float32(4), jnp.float32(10)),
    )


def random_minibatch(count: int = 32) -> Minibatch:
    rng = np.random.default_rng(0)
    columns = [rng.normal(size=(count, 5)), rng.normal(size=(count, 2)), rng.normal(-2, 1, count)]
    columns += [
        rng.normal(size=count),
        rng.normal(size=count),
        (rng.random(count) < 0.7).astype(float),
    ]
    return Minibatch(*[jnp.asarray(column, jnp.float32) for column in columns])


def test_the_loss_is_the_clipped_surrogate_plus_the_value_error() -> None:
    network, batch, config = (
        random_params().network,
        random_minibatch(),
        replace(TINY, entropy_weight=0.01),
    )
    batch = batch._replace(weight=jnp.full_like(batch.weight, 1 / batch.weight.size))
    density = (
        scipy.stats.norm(network.actor(batch.inputs), np.exp(network.log_std))
        .logpdf(batch.raw)
        .sum(-1)
    )
    ratio, advantage = np.exp(density - np.asarray(batch.log_prob)), np.asarray(batch.advantage)
    pays = [
        min(r * a, float(np.clip(r, 0.8, 1.2)) * a) for r, a in zip(ratio, advantage, strict=True)
    ]
    error = 0.5 * (np.asarray(network.value(batch.inputs)) - np.asarray(batch.target)) ** 2
    expected = -np.mean(pays) + 0.5 * error.mean() - 0.01 * float(network.log_std.sum())
    assert float(loss(network, batch, config)[0]) == pytest.approx(expected, rel=1e-4)


def gradient_alone(network: Any, batch: Minibatch, config: ppo.Config) -> Any:
    """The gradient on one device."""
    one = jax.vmap(lambda batch: gradient_of(network, batch, config), axis_name=devices.WORLDS)
    return row(one(jax.tree.map(lambda x: x[None], batch)), 0)


def test_dead_steps_count_in_neither_loss_nor_gradient() -> None:
    network, batch = random_params().network, random_minibatch()
    dead = batch.weight == 0
    poisoned = Minibatch(
        *[jnp.where(dead.reshape(-1, *[1] * (x.ndim - 1)), 3.0, x) for x in batch[:-1]],
        batch.weight,
    )
    live = Minibatch(*[x[~dead] for x in batch])
    grade = jax.jit(lambda network, batch: gradient_alone(network, batch, TINY))
    reference = grade(network, live)
    assert 3 < dead.sum() < 29
    assert_same(grade(network, poisoned), reference, rtol=1e-3, atol=1e-5)
    assert_same(grade(network, batch), reference, rtol=1e-3, atol=1e-5)


def test_a_gradient_in_slices_is_the_gradient_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    network, batch, config = (
        random_params().network,
        random_minibatch(48),
        replace(TINY, entropy_weight=0.01),
    )
    whole = gradient_alone(network, batch, config)
    monkeypatch.setattr(devices, "SLICE", 8)
    assert devices.slices(48) == 6
    assert_same(gradient_alone(network, batch, config), whole, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("count", [1, 2, 37, 4096])
def test_shuffling_is_a_permutation_that_leaves_no_order(count: int) -> None:
    orders = np.array(
        [fast_permutation(key, count) for key in jax.random.split(jax.random.key(0), 50)]
    )
    assert (np.sort(orders) == np.arange(count)).all()
    if count > 2:
        moved = (orders / count - 0.5) @ (np.arange(count) / count - 0.5) / np.sqrt(count) * 12
        assert abs(moved.mean()) < 4 / np.sqrt(50) and 0.6 < moved.std() < 1.5


def test_log_prob_is_that_of_a_diagonal_gaussian() -> None:
    rng = np.random.default_rng(0)
    raw, mean, log_std = rng.normal(size=(7, 3)), rng.normal(size=(7, 3)), rng.normal(size=3)
    expected = scipy.stats.norm(mean, np.exp(log_std)).logpdf(raw).sum(-1)
    np.testing.assert_allclose(log_prob(raw, mean, log_std), expected, rtol=1e-4)


def test_merging_statistics_equals_computing_them_over_everything() -> None:
    rng = np.random.default_rng(0)
    batches = [
        rng.normal(shift, scale, (count, 3))
        for shift, scale, count in ((0, 1, 50), (9, 3, 7), (-4, 0.1, 200))
    ]
    normaliser = Normaliser.init(3)
    for batch in batches:
        normaliser = normaliser.merge(batch.mean(0), batch.var(0), jnp.float32(len(batch)))
    everything = np.concatenate(batches)
    np.testing.assert_allclose(normaliser.mean, everything.mean(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(normaliser.variance, everything.var(0), rtol=1e-4)
    np.testing.assert_allclose(
        normaliser.restore(normaliser.normalise(everything)), everything, atol=1e-4
    )


def test_an_iteration_is_summed_up_over_all_live_steps_on_all_devices() -> None:
    rng = np.random.default_rng(0)
    trajectory, _ = random_play(1)
    live, over = np.asarray(trajectory.live), np.asarray(trajectory.over)
    inputs, episode_return = rng.normal(2, 3, (*live.shape, 5)), rng.normal(size=live.shape)
    advantage, target = rng.normal(0.5, 2, live.shape), rng.normal(30, 4, live.shape)
    sound = jnp.ones(live.shape, bool)
    trajectory = trajectory._replace(
        inputs=jnp.asarray(inputs), episode_return=jnp.asarray(episode_return), extras=sound
    )
    mesh, spread = devices.mesh(WORLDS), P(None, devices.WORLDS)
    shared = jax.shard_map(
        batch_statistics,
        mesh=mesh,
        in_specs=(P(), spread, spread, spread),
        out_specs=P(),
        check_vma=False,
    )
    found = jax.jit(shared)(
        random_params(), trajectory, jnp.asarray(advantage), jnp.asarray(target)
    )
    assert mesh.size == 2
    for moments, x in (
        (found.inputs, inputs),
        (found.advantage, advantage),
        (found.target, target),
    ):
        np.testing.assert_allclose(moments.mean, x[live].mean(0), rtol=1e-4)
        np.testing.assert_allclose(moments.variance, x[live].var(0), rtol=1e-3)
    assert (float(found.steps), float(found.ended)) == (live.sum(), over.sum())
    assert float(found.episode_return) == pytest.approx(episode_return[over].mean(), rel=1e-4)


def test_new_units_for_values_leave_the_value_function_as_it_was() -> None:
    params = random_params()
    inputs = jax.random.normal(jax.random.key(0), (50, 5))
    before = params.values.restore(params.network.value(inputs))
    for mean, variance in ((-7.0, 100.0), (3.0, 1e-2)):
        values = Normaliser(jnp.float32(mean), jnp.float32(variance), jnp.float32(99))
        moved = popart(params, values)
        assert moved.values is values
        np.testing.assert_allclose(
            moved.values.restore(moved.network.value(inputs)), before, rtol=1e-4, atol=1e-4
        )
        assert np.abs(moved.network.value(inputs) - params.network.value(inputs)).max() > 0.5
