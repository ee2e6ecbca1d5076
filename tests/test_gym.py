"""Our problems in Gymnasium's hands, and our policies in somebody else's loop."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import seerax
from seerax import agents, gym, problems, rollout, runs
from seerax.errors import UserError
from seerax.interop import gymnasium as environments
from seerax.interop.pilot import Pilot, play
from seerax.paper import exact
from seerax.problems.tiger import ACCURACY, GOLD, LISTENING_COST, TigerState
from seerax.problems.tiger import TIGER as EATEN
from seerax.runs import policies

TITLES = sorted(spec.name for spec in gymnasium.registry.values() if spec.namespace == "seerax")


def make(name, **options):
    return gymnasium.make(f"seerax/{name}-v0", **options)


def follow_advice(env, observation):
    mdp = env.unwrapped.mdp
    return gym.to_unit_box(mdp, observation[..., gym.layout(mdp)["advice"]])


def played(env, observation, choose):
    """The rest of an episode: observations, rewards, and how it ended."""
    observations, rewards, ended = [observation], [], (False, False)
    while not any(ended):
        observation, reward, *ended, info = env.step(choose(env, observation))
        observations.append(observation)
        rewards.append(reward)
    return np.stack(observations), np.array(rewards), tuple(ended), info


# ---- one environment -----------------------------------------------------------------------------


def test_every_problem_is_registered():
    assert {title.lower() for title in TITLES} == set(problems.PROBLEMS)


@pytest.mark.parametrize("name", TITLES)
def test_gymnasiums_own_check_finds_nothing_to_complain_about(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make(name, render_mode="rgb_array").unwrapped)


@pytest.mark.parametrize("name", ["Tiger", "Maze4"])
def test_an_episode_is_the_one_that_rollout_plays_on_the_same_key(name):
    env = make(name)
    mdp, seed = env.unwrapped.mdp, 3
    observations, rewards, (terminated, _), info = played(
        env, env.reset(seed=seed)[0], follow_advice
    )
    episode = rollout.record(jax.random.key(seed), mdp, seerax.follow_advice)
    expected = jax.vmap(lambda situation: agents.brpo.inputs(mdp, situation))(episode.situation)
    np.testing.assert_allclose(observations, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(rewards, episode.reward[:-1], rtol=1e-5)
    assert terminated and info["is_success"] == (rewards[-1] > 0)


def test_layout_names_the_parts_of_an_observation():
    env = make("Maze4")
    observation, _ = env.reset(seed=0)
    mdp, (state, belief, advice) = env.unwrapped.mdp, env.unwrapped.env_state.world.situation
    parts = {name: observation[where] for name, where in gym.layout(mdp).items()}
    np.testing.assert_allclose(parts["features"], mdp.problem.features(state), rtol=1e-6)
    np.testing.assert_allclose(parts["belief"], mdp.filter.features(belief), rtol=1e-6)
    np.testing.assert_allclose(parts["advice"], advice)
    assert sum(part.size for part in parts.values()) == observation.size


def test_actions_are_stretched_to_the_problems_bounds():
    mdp = environments.shared("cartpole")
    (low,), (high,) = mdp.problem.action_low, mdp.problem.action_high
    np.testing.assert_allclose(
        gym.to_problem_units(mdp, np.array([[-1.0], [0.5], [1.0]])).ravel(), [low, high / 2, high]
    )
    np.testing.assert_allclose(
        gym.to_unit_box(mdp, gym.to_problem_units(mdp, np.array([0.3]))), [0.3], rtol=1e-6
    )


def test_the_clock_truncates_and_the_task_terminates():
    env = make("Tiger")
    listen, open_left = np.array([1, -1, -1], np.float32), np.array([-1, 1, -1], np.float32)
    _, rewards, ended, info = played(env, env.reset(seed=0)[0], lambda *_: listen)
    assert ended == (False, True) and len(rewards) == env.unwrapped.mdp.problem.horizon
    assert info == {"is_success": False}
    _, rewards, ended, info = played(env, env.reset(seed=0)[0], lambda *_: open_left)
    assert ended == (True, False) and rewards[0] in (GOLD, EATEN)
    assert info == {"is_success": rewards[0] == GOLD}


def test_after_the_end_a_reset_is_asked_for():
    env = make("Tiger").unwrapped
    with pytest.raises(ResetNeeded):
        env.step(np.zeros(3, np.float32))
    env.reset(seed=0)
    env.step(np.array([-1, 1, -1], np.float32))
    with pytest.raises(ResetNeeded):
        env.step(np.zeros(3, np.float32))


def test_a_seed_decides_all_episodes_that_follow():
    env = make("Maze4")

    def starts(seed):
        return np.stack([env.reset(seed=seed)[0]] + [env.reset()[0] for _ in range(3)])

    first = starts(2**40 + 5)
    np.testing.assert_array_equal(first, starts(2**40 + 5))
    assert (
        len(np.unique(np.concatenate([first, starts(6)])[:, 0])) == 8
    )  # every start is somewhere else


def test_the_latent_is_drawn_afresh_in_every_episode():
    env = make("Tiger")
    env.reset(seed=0)
    sides = []
    for _ in range(40):
        env.reset()
        sides.append(float(env.unwrapped.env_state.world.latent))
    assert 8 <= sum(sides) <= 32


def test_a_picture_changes_with_the_world():
    env = make("Maze4", render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    for _ in range(10):
        env.step(np.ones(3, np.float32))
    assert before.shape == (480, 480, 3) and before.dtype == np.uint8
    assert (before != env.render()).any(-1).sum() > 100


# ---- many ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, steps", [("Tiger", 12), ("Maze4", 40)])
def test_a_vector_is_as_many_single_environments(name, steps):
    many = gymnasium.make_vec(f"seerax/{name}-v0", num_envs=3)
    each = SyncVectorEnv([lambda: make(name)] * 3, autoreset_mode=AutoresetMode.NEXT_STEP)
    assert (
        isinstance(many, gym.BeliefVectorEnv)
        and many.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    )
    assert (
        many.observation_space == each.observation_space and many.action_space == each.action_space
    )
    observation, _ = many.reset(seed=7)
    np.testing.assert_allclose(observation, each.reset(seed=7)[0], rtol=1e-5, atol=1e-6)
    for _ in range(steps):
        action = follow_advice(many, observation).astype(np.float32)
        (observation, *outcome, info), (expected, *expected_outcome, expected_info) = (
            many.step(action),
            each.step(action),
        )
        np.testing.assert_allclose(observation, expected, rtol=1e-4, atol=1e-4)
        for got, wanted in zip(outcome, expected_outcome, strict=True):
            np.testing.assert_array_equal(got, wanted)
            assert got.dtype == wanted.dtype
        assert info.keys() == expected_info.keys()
        assert all((info[key] == expected_info[key]).all() for key in info)


def test_a_vector_compiles_its_step_once_and_takes_a_seed_each():
    envs = gymnasium.make_vec("seerax/Tree-v0", num_envs=5)
    compiled = environments.advance_many._cache_size()
    one, _ = envs.reset(seed=4)
    for _ in range(20):
        observation, *_ = envs.step(envs.action_space.sample())
    assert observation in envs.observation_space
    fresh, _ = envs.reset()
    assert (fresh != observation).any()
    same, _ = gymnasium.make_vec("seerax/Tree-v0", num_envs=5).reset(seed=[4, 5, 6, 7, 8])
    np.testing.assert_array_equal(one, same)
    assert environments.advance_many._cache_size() == compiled + 1
    with pytest.raises(ValueError, match="5 environments need as many seeds, not 2"):
        envs.reset(seed=[1, 2])


def test_the_first_example_of_the_document_runs_and_prints_what_it_says(capsys):
    document = (Path(__file__).parent.parent / "docs" / "gymnasium.md").read_text()
    code = document.split("```python\n")[1].split("```")[0]
    exec(code, {})
    assert f"print(info)  # {capsys.readouterr().out.strip()}" in code
    assert gymnasium.make("seerax.gym:seerax/Maze4-v0").unwrapped.mdp is environments.shared(
        "maze4"
    )


def test_importing_seerax_does_not_import_gymnasium():
    code = "import sys, seerax.cli; sys.exit('gymnasium' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---- somebody else's loop ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Tiger", "Maze4"])
def test_a_pilot_plays_the_episode_that_rollout_plays(name):
    _, policy = runs.load_policy(policies.shipped(name.lower(), "brpo"))
    mdp, seed = policy.mdp, 5
    env, pilot = gym.BeliefEnv(mdp), Pilot(policy, mdp)
    env.reset(seed=seed)
    pilot.reset(env.env_state.world.situation.state, jax.random.key(seed))
    actions, beliefs = [], [pilot.situation.belief]
    while not env.over:
        action = pilot.act()
        env.step(gym.to_unit_box(mdp, action))
        pilot.observe(action, env.env_state.world.situation.state)
        actions.append(action)
        beliefs.append(pilot.situation.belief)
    episode = rollout.record(jax.random.key(seed), mdp, policy)
    np.testing.assert_allclose(actions, episode.action[:-1], atol=1e-3)
    np.testing.assert_allclose(np.exp(beliefs), np.exp(episode.situation.belief), atol=1e-3)


class NumpyTiger(gymnasium.Env):
    """Somebody else's tiger: what is observed is (heard, opened), the hidden side may be set from
    outside.
    """

    observation_space = gymnasium.spaces.MultiDiscrete([3, 3])
    action_space = gymnasium.spaces.Box(-10, 10, (3,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.side = int(self.np_random.integers(2)) if options is None else options["side"]
        return np.array([0, 0]), {}

    def step(self, action):
        choice = int(np.argmax(action))
        if choice == 0:
            right = self.np_random.random() < ACCURACY
            return (
                np.array([1 + (self.side if right else 1 - self.side), 0]),
                -LISTENING_COST,
                False,
                False,
                {},
            )
        return np.array([0, choice]), EATEN if choice - 1 == self.side else GOLD, True, False, {}


def test_a_pilot_earns_in_a_foreign_environment_what_the_policy_earns_in_ours():
    _, policy = runs.load_policy(policies.shipped("tiger", "bpo"))
    env, pilot = NumpyTiger(), Pilot(policy)
    env.reset(seed=0)
    returns = [play(env, pilot, lambda observed, info: TigerState(*observed)) for _ in range(400)]
    assert abs(np.mean(returns) - exact.tiger_optimum()) < 4 * np.std(returns) / 20 + 0.1


def test_a_pilot_believes_what_it_hears_and_forgets_it_at_a_reset():
    pilot = Pilot(seerax.follow_advice, environments.shared("tiger"))
    with pytest.raises(UserError, match="call reset"):
        pilot.act()
    for _ in range(2):
        pilot.reset(TigerState(0, 0))
        np.testing.assert_allclose(np.exp(pilot.situation.belief), [0.5, 0.5], rtol=1e-6)
        pilot.observe(jnp.array([10.0, 0, 0]), TigerState(1, 0))
        np.testing.assert_allclose(
            np.exp(pilot.situation.belief), [ACCURACY, 1 - ACCURACY], rtol=1e-5
        )
        np.testing.assert_array_equal(pilot.act(), pilot.act())
