"""Training does what its settings say: each test fails on a fault once overlooked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import Array
from jax.sharding import PartitionSpec as P

from seerax import agents, ppo
from seerax.bonuses import belief_change
from seerax.compute import devices
from seerax.core import Action, BeliefMDP, Key, Situation
from seerax.experiments import Experiment
from seerax.keys import training_keys
from seerax.ppo.improve import make_optimiser
from seerax.ppo.iteration import TrainState
from seerax.ppo.play import Trajectory, play
from seerax.problems import tiger
from seerax.problems.tiger import TigerState
from seerax.settings import SETTINGS, settings

LENGTH, WORLDS = 8, 4
TINY = ppo.Config(
    steps=10 * LENGTH * WORLDS,
    worlds=WORLDS,
    rollout_length=LENGTH,
    epochs=2,
    minibatches=2,
    hidden=(4,),
    evaluations=1,
    evaluation_episodes=2,
    normalise_inputs=False,
)
KEY = jax.random.key(5)
INPUTS = 3 + 4  # of bpo on Tiger: what was heard, and the belief with its log-odds


def learner_with(mdp: BeliefMDP, **changes: Any) -> ppo.PPO:
    return ppo.PPO(mdp, agents.bpo, replace(TINY, **changes))


def learned(
    learner: ppo.PPO, played: Trajectory, iteration: int = 0, key: Key = KEY
) -> tuple[TrainState, ppo.params.Params, Any]:
    """The state before, and what it has learned from a trajectory after which nothing follows."""
    state = jax.jit(learner.init)(KEY)._replace(iteration=jnp.int32(iteration))
    learn = devices.sharded(learner.learn, devices.local_mesh(1), (P(),) * 4, P())
    params, opt_state, metrics = learn(key, state, played, jnp.zeros(WORLDS))
    assert metrics["skipped"] == 0
    return state, params, opt_state


def trajectory(reward: Any, value: Any = 0.0, terminated: Any = False) -> Trajectory:
    """Inputs and raw actions at random; all steps live, and all that happened before is unknown."""
    rng = np.random.default_rng(0)
    shape = (LENGTH, WORLDS)
    whole = lambda x: jnp.asarray(np.broadcast_to(x, shape))  # noqa: E731
    return Trajectory(
        inputs=jnp.asarray(rng.normal(size=(*shape, INPUTS)), jnp.float32),
        raw=jnp.asarray(rng.normal(size=(*shape, 3)), jnp.float32),
        log_prob=whole(np.float32(-4)),
        value=whole(np.float32(value)),
        reward=whole(np.float32(reward)),
        terminated=whole(terminated),
        over=whole(terminated),
        live=whole(True),
        episode_return=whole(np.float32(0)),
        extras=whole(True),
    )


def assert_equal(a: Any, b: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, a, b)


# ---- bonus and discount --------------------------------------------------------------------------


def test_training_sees_the_bonus_on_every_live_step(tiger_mdp: BeliefMDP) -> None:
    paid = tiger_mdp.with_bonus(lambda *about: jnp.float32(7))
    params, _, worlds, *_ = jax.jit(learner_with(tiger_mdp).init)(KEY)

    @eqx.filter_jit
    def played(mdp: BeliefMDP) -> Trajectory:
        return play(mdp, agents.bpo, 20, KEY, params, worlds)[1]

    plain, curious = played(tiger_mdp), played(paid)
    live = np.asarray(plain.live)
    assert live.any() and not live.all()
    assert_equal(curious.raw, plain.raw)
    np.testing.assert_allclose(curious.reward - plain.reward, 7.0 * live, atol=1e-4)
    np.testing.assert_array_equal(curious.episode_return, plain.episode_return)


def test_an_experiment_trains_with_its_bonus_and_without_one_if_it_has_none(
    tiger_mdp: BeliefMDP,
) -> None:
    prior = tiger_mdp.filter.init()
    surer = jnp.log(jnp.array([0.9, 0.1]))
    about = tiger_mdp.filter, prior, surer, jnp.bool_(False)
    curious = Experiment("tiger", bonus=3.0, ppo=TINY).trainer(tiger_mdp).mdp
    assert curious.bonus is not None
    assert float(curious.bonus(*about)) == pytest.approx(float(belief_change(3.0)(*about)))
    assert float(curious.bonus(*about)) == pytest.approx(3 * 0.8, rel=1e-4)
    assert Experiment("tiger", ppo=TINY).trainer(tiger_mdp).mdp.bonus is None


@pytest.mark.parametrize(("asked", "used"), [(0.5, 0.5), (None, 0.9)])
def test_the_potential_has_the_learners_discount(asked: float | None, used: float) -> None:
    """Where nothing is learned, it pays epsilon * (1 - discount) * entropy, which is 1 here."""
    mdp = tiger.tiger(discount=0.9)
    config = replace(TINY, discount=asked)
    trainer = Experiment("tiger", bonus=3.0, bonus_form="potential", ppo=config).trainer(mdp)
    prior = mdp.filter.init()
    assert trainer.mdp.bonus is not None
    paid = trainer.mdp.bonus(mdp.filter, prior, prior, jnp.bool_(False))
    assert float(paid) == pytest.approx(3 * (1 - used), rel=1e-4)
    assert trainer.learner.discount == used  # type: ignore[attr-defined]


@pytest.mark.parametrize(("asked", "used"), [(0.5, 0.5), (1.0, 1.0), (None, 0.9)])
def test_returns_are_discounted_by_the_setting_or_else_by_the_problems_own(
    asked: float | None, used: float
) -> None:
    """A reward of 1 at each world's last step, no values: targets are powers of the discount."""
    rewards = np.zeros((LENGTH, 1))
    rewards[-1] = 1
    played = trajectory(rewards, terminated=rewards == 1)
    learner = learner_with(tiger.tiger(discount=0.9), discount=asked, gae_lambda=1.0)
    _, params, _ = learned(learner, played)
    expected = np.mean(used ** np.arange(LENGTH))
    assert float(params.values.mean) == pytest.approx(expected, rel=1e-5)


# ---- what an agent sees --------------------------------------------------------------------------


def situation(first: float, heard: int = 0, advised: float = 0.5) -> Situation:
    state = TigerState(jnp.int32(heard), jnp.int32(0))
    belief = jnp.log(jnp.array([first, 1 - first]))
    return Situation(state, belief, jnp.full(3, advised))


def sees(mdp: BeliefMDP, agent: str, one: Situation, other: Situation) -> bool:
    """True if the network's inputs differ."""
    inputs = settings("tiger", agent).trainer(mdp).agent.inputs
    return not np.array_equal(inputs(mdp, one), inputs(mdp, other))


@pytest.mark.parametrize(
    ("agent", "belief", "likeliest", "advised"),
    [
        ("brpo", True, True, True),
        ("brpo_without_belief", False, False, True),
        ("bpo", True, True, False),
        ("upmle", False, True, False),
    ],
)
def test_an_agent_sees_what_it_should_and_no_more(
    tiger_mdp: BeliefMDP, agent: str, belief: bool, likeliest: bool, advised: bool
) -> None:
    here = situation(0.6)
    assert sees(tiger_mdp, agent, here, situation(0.9)) is belief
    assert sees(tiger_mdp, agent, here, situation(0.4)) is likeliest
    assert sees(tiger_mdp, agent, here, situation(0.6, advised=0.7)) is advised
    assert sees(tiger_mdp, agent, here, situation(0.6, heard=1))
    assert not sees(tiger_mdp, agent, here, situation(0.6))


# ---- seeds ---------------------------------------------------------------------------------------


def key_words(keys: Key) -> list[tuple[int, ...]]:
    return [tuple(words) for words in np.asarray(jax.random.key_data(keys)).tolist()]


def test_every_seed_has_a_key_of_its_own_wherever_the_count_begins() -> None:
    several = key_words(training_keys(3, 4))
    assert len(set(several)) == 4
    for i in range(4):
        assert key_words(training_keys(3 + i, 1)) == several[i : i + 1]


def test_the_seed_decides_networks_worlds_and_all_later_chance(tiger_mdp: BeliefMDP) -> None:
    trainer = ppo.Trainer(learner_with(tiger_mdp))

    def first(seed: int) -> TrainState:
        progress = next(trainer.train(seed))
        assert progress.seed == seed
        return progress.train_state

    def parts(state: TrainState) -> list[Any]:
        weights, worlds = state.params.network.critic.weights[0], state.worlds
        return [weights, worlds.time, *map(jax.random.key_data, (worlds.episode, state.key))]

    zero, again, one = map(parts, map(first, (0, 0, 1)))
    assert_equal(zero, again)
    for mine, other in zip(zero, one, strict=True):
        assert not np.array_equal(mine, other)


def test_a_learners_noise_comes_from_its_key(tiger_mdp: BeliefMDP) -> None:
    """Two states alike but for the key play differently."""
    learner = learner_with(tiger_mdp)
    state = jax.jit(learner.init)(KEY)
    specs = learner.specs(P())
    iterate = devices.sharded(learner.iterate, devices.local_mesh(1), (specs,), (specs, P()))
    mine, other = (iterate(state._replace(key=jax.random.key(i)))[0].worlds for i in (1, 2))
    leaves = (jax.tree.leaves(worlds.situation) for worlds in (mine, other))
    assert any(not np.array_equal(*pair) for pair in zip(*leaves, strict=True))


def test_worlds_begin_anywhere_in_their_episodes(tiger_mdp: BeliefMDP) -> None:
    """Else all of them would end together for ever, where only the clock ends episodes."""
    times = np.asarray(jax.jit(learner_with(tiger_mdp, worlds=200).init)(KEY).worlds.time)
    assert times.min() >= 0 and times.max() < tiger_mdp.problem.horizon
    assert np.unique(times).size > 50
    assert abs(times.mean() - 49.5) < 4 * 28.9 / np.sqrt(200)


# ---- improving -----------------------------------------------------------------------------------


def test_an_advantage_that_all_actions_share_moves_no_policy(tiger_mdp: BeliefMDP) -> None:
    """Every step ends its episode and pays 2: an advantage of 2 everywhere, none once centred."""
    played = trajectory(2.0, terminated=True)
    before, after, _ = learned(learner_with(tiger_mdp), played)
    assert_equal(after.network.actor, before.params.network.actor)
    assert_equal(after.network.log_std, before.params.network.log_std)
    moved = after.network.critic.weights[0] - before.params.network.critic.weights[0]
    assert np.abs(moved).max() > 0  # it was trained


def random_rewards() -> Trajectory:
    return trajectory(np.random.default_rng(1).normal(size=(LENGTH, WORLDS)), terminated=True)


def test_minibatches_are_shuffled_by_the_key(tiger_mdp: BeliefMDP) -> None:
    learner = learner_with(tiger_mdp, minibatches=8, learning_rate=0.01)
    played = random_rewards()
    one, same, other = (learned(learner, played, key=jax.random.key(i))[1] for i in (1, 1, 2))
    assert_equal(one, same)
    assert np.abs(one.network.log_std - other.network.log_std).max() > 1e-6


def test_every_epoch_has_an_order_of_its_own(
    tiger_mdp: BeliefMDP, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[list[int]] = []
    shuffle = ppo.improve.fast_permutation

    def noting(key: Key, count: int) -> Array:
        order = shuffle(key, count)
        jax.debug.callback(lambda found: orders.append(found.tolist()), order, ordered=False)
        return order

    monkeypatch.setattr(ppo.improve, "fast_permutation", noting)
    learned(learner_with(tiger_mdp, epochs=3), random_rewards())
    jax.effects_barrier()
    assert len(orders) == 3 and len({tuple(order) for order in orders}) == 3
    assert all(sorted(order) == list(range(LENGTH * WORLDS)) != order for order in orders)


def steps_of(config: ppo.Config, gradients: list[float]) -> list[float]:
    """How far Adam moves one number under these gradients."""
    optimiser, parameter, moves = make_optimiser(config), jnp.float32(0), []
    state, update = optimiser.init(parameter), jax.jit(optimiser.update)
    for gradient in gradients:
        change, state = update(jnp.float32(gradient), state)
        moves.append(float(change))
    return moves


def test_the_learning_rate_falls_to_zero_over_the_whole_training_if_asked() -> None:
    updates = TINY.iterations * TINY.epochs * TINY.minibatches
    assert updates == 40
    rates = -np.array(steps_of(TINY, [0.3] * (updates + 1))) / TINY.learning_rate
    np.testing.assert_allclose(rates, 1 - np.arange(updates + 1) / updates, atol=1e-3)
    steady = -np.array(steps_of(replace(TINY, anneal=False), [0.3] * (updates + 1)))
    np.testing.assert_allclose(steady, TINY.learning_rate, rtol=1e-3)


@pytest.mark.parametrize(("size", "counted"), [(1e6, 0.5), (3.0, 0.5), (0.2, 0.2)])
def test_long_gradients_are_shortened_and_short_ones_left_alone(
    size: float, counted: float
) -> None:
    gradient = {"a": size * jnp.array([0.6, 0.0]), "b": size * jnp.array(0.8)}
    optimiser = make_optimiser(replace(TINY, max_grad_norm=0.5))
    _, state = optimiser.update(gradient, optimiser.init(gradient))
    momentum = optax.tree.get(state, "mu")  # a tenth of the gradient that it was given
    assert float(optax.tree.norm(momentum)) == pytest.approx(0.1 * counted, rel=1e-4)
    np.testing.assert_allclose(momentum["a"], 0.1 * counted * np.array([0.6, 0]), rtol=1e-4)


@pytest.mark.parametrize("iteration", [0, 4, 9])
def test_an_iteration_ends_with_exploration_under_its_ceiling(
    tiger_mdp: BeliefMDP, iteration: int
) -> None:
    changes = {"exploration": (0.5, 1.0, 2.0), "exploration_end": 0.1, "learning_rate": 1e-9}
    _, after, _ = learned(learner_with(tiger_mdp, **changes), random_rewards(), iteration)
    share = 1 - 0.9 * (iteration + 1) / TINY.iterations
    np.testing.assert_allclose(
        np.exp(after.network.log_std), share * np.array([0.5, 1.0, 2.0]), rtol=1e-4
    )


def test_moving_the_values_units_leaves_what_the_critic_says(tiger_mdp: BeliefMDP) -> None:
    """With a learning rate of almost nothing the value of every input stays."""
    played = trajectory(np.random.default_rng(2).normal(300, 50, (LENGTH, WORLDS)), terminated=True)
    before, after, _ = learned(learner_with(tiger_mdp, learning_rate=1e-12), played)

    def values(params: ppo.params.Params) -> Array:
        return params.values.restore(params.network.value(played.inputs))

    assert float(after.values.mean) > 250 and float(after.values.std) > 20
    said = np.asarray(values(before.params))
    assert np.abs(said).max() < 10
    np.testing.assert_allclose(values(after), said, atol=1e-3)


# ---- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", SETTINGS)
@pytest.mark.parametrize("agent", ["bpo", "upmle"])
def test_who_has_no_advice_explores_and_acts_widely_in_all_dimensions(
    problem: str, agent: str
) -> None:
    ours, theirs = settings(problem, "brpo"), settings(problem, agent)
    assert theirs.agent == agent and theirs.problem == problem
    assert theirs.scale == max(1.0, np.max(ours.scale))
    assert theirs.ppo.exploration == np.max(ours.ppo.exploration)
    assert replace(theirs.ppo, exploration=ours.ppo.exploration) == ours.ppo


@pytest.mark.parametrize("agent", ["brpo", "brpo_without_belief"])
def test_a_residual_has_the_scale_and_exploration_of_its_problem(agent: str) -> None:
    for problem in SETTINGS:
        assert replace(settings(problem, agent), agent="brpo") == SETTINGS[problem]


def test_the_settings_scale_is_what_an_output_means() -> None:
    advised = Situation(None, None, jnp.array([0.1, 0.2, 0.3]))

    def action(agent: str) -> Action:
        return settings("maze4", agent).method().compose(advised, jnp.ones(3))

    np.testing.assert_allclose(action("bpo"), 1.0)
    np.testing.assert_allclose(action("upmle"), 1.0)
    np.testing.assert_allclose(action("brpo"), [0.6, 0.7, 0.4], rtol=1e-6)
