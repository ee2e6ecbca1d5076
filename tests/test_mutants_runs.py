"""Runs, players, sweeps and films: each test fails on a fault that others let pass."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seerax import figures, pictures, rollout, runs
from seerax.advice import follow_advice
from seerax.compute import devices
from seerax.core import Action, BeliefMDP, Key, Situation
from seerax.experiments import Experiment
from seerax.interop.pilot import Pilot
from seerax.keys import episode_key, training_keys
from seerax.numerics.trees import row
from seerax.players import Player, Players, find_players
from seerax.ppo import Config
from seerax.runs.nonfinite import Watch
from seerax.runs.policies import best_of
from seerax.runs.training import checkpoint_shapes, load_checkpoint
from seerax.sweeps import Plan
from seerax.sweeps.summary import make_row
from seerax.system import pytrees

TINY = Config(worlds=2, rollout_length=2, minibatches=1, hidden=(4,))
KEY = jax.random.key(4)


# ---- policies ------------------------------------------------------------------------------------


def test_a_run_folder_gives_the_policy_that_is_best_by_held_out_return(tmp_path: Path) -> None:
    folder = runs.RunFolder(tmp_path)
    for seed, held_out in enumerate((-3.0, 5.0, 1.0)):
        pytrees.save_tree(folder.policy(seed), {"a": np.zeros(2)}, {"held_out": held_out})
    assert best_of(folder) == folder.policy(1)


def test_every_seed_of_a_run_plays_its_own_policy(tmp_path: Path) -> None:
    experiment = Experiment("tiger", ppo=TINY)
    trainer, folder = experiment.trainer(), runs.RunFolder(tmp_path)
    init = jax.jit(trainer.learner.init)
    params = [init(jax.random.key(seed)).params for seed in range(2)]
    for seed, each in enumerate(params):
        about = {"experiment": asdict(experiment)}
        trainer.learner.policy(each, about=about).save(folder.policy(seed))
    for player, each in zip(find_players(str(tmp_path)).players, params, strict=True):
        kept: Any = player.policy
        jax.tree.map(np.testing.assert_array_equal, kept.params, each)


# ---- a run ---------------------------------------------------------------------------------------


def test_a_checkpoint_gives_back_the_best_parameters_beside_the_latest(tmp_path: Path) -> None:
    run = runs.Run(Experiment("tiger", ppo=TINY), 0, 1, runs.RunFolder(tmp_path))
    trainer = run.experiment.trainer()
    init = jax.jit(jax.vmap(trainer.learner.init))
    state, other = (init(training_keys(seed, 1)) for seed in (0, 1))
    *_, best, start = checkpoint_shapes(run, trainer)
    returns = np.full(best.shape, 7, best.dtype), np.full(start.shape, 3, start.dtype)
    run.folder.checkpoints.save(0, (state, other.params, *returns), {})
    found = load_checkpoint(run, trainer)
    assert found is not None
    for kept, saved in ((found.train_state.params, state.params), (found.best, other.params)):
        jax.tree.map(np.testing.assert_array_equal, kept, saved)
    assert (found.best_return, found.start) == (7, 3)


def test_workers_are_pinned_to_one_core_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned: list[set[int]] = []
    monkeypatch.setattr(devices, "cores", lambda: [2, 5])
    monkeypatch.setattr(devices.os, "sched_setaffinity", lambda pid, cores: pinned.append(cores))
    for slot in range(3):
        devices.pin(slot, accelerated=False)
    assert pinned == [{2}, {5}, {2}]


def test_skipped_updates_count_only_in_a_row() -> None:
    watch = Watch(2)
    for skipped in ([1, 0], [1, 0], [0, 1], [1, 0], [1, 0]):
        watch.see({"skipped": np.array(skipped, float)})
        assert watch.hopeless is None and not watch.healthy
    watch.see({"skipped": np.zeros(2)})
    assert watch.healthy
    for _ in range(3):
        watch.see({"skipped": np.array([0.0, 1.0])})
    assert watch.hopeless == 1


def test_what_fails_in_the_background_is_raised_in_the_end() -> None:
    with pytest.raises(ZeroDivisionError), devices.in_background(lambda: 1 / 0):
        pass


def test_what_is_recorded_is_what_was_done_after_clipping(tiger_mdp: BeliefMDP) -> None:
    episode = rollout.record(
        jax.random.key(0), tiger_mdp, lambda key, situation: 50 * situation.advice + 20
    )
    assert episode.action[:-1].max() == 10 and np.abs(episode.action).max() == 10


# ---- sweeps --------------------------------------------------------------------------------------


def test_a_sweep_begins_with_the_seed_that_is_asked_for(tmp_path: Path) -> None:
    jobs = Plan(("tiger",), ("brpo",), 5, 2, tmp_path).jobs()
    assert [(job.seed, job.name) for job in jobs] == [
        (5, "tiger-brpo-seed5"),
        (6, "tiger-brpo-seed6"),
    ]


def played(mean: float, success: float | None) -> dict[str, Any]:
    return {"mean": mean, "success": success}


def test_a_row_of_a_summary_tells_the_agents_return_and_success_beside_the_others_returns() -> None:
    results = [
        {"bpo": played(1, 0.5), "ensemble": played(7, 0.1), "clairvoyant": played(9, 1.0)},
        {"bpo": played(2, 0.7), "ensemble": played(8, 0.2), "clairvoyant": played(9, 1.0)},
    ]
    found = make_row("tiger", "bpo", "", results)
    assert (found.seeds, found.mean, found.ensemble, found.clairvoyant) == (2, 1.5, 7.5, 9)
    assert found.success == pytest.approx(0.6)


def test_a_problem_that_knows_no_success_has_none_in_its_row() -> None:
    results = [{"bpo": played(1, None), "ensemble": played(7, None)}] * 2
    found = make_row("mine", "bpo", "", results)
    assert found.success is None and found.clairvoyant is None


# ---- a pilot -------------------------------------------------------------------------------------


def test_a_pilot_repeats_the_chance_of_a_noisy_policy(tiger_mdp: BeliefMDP) -> None:
    """Given an episode's key, it throws the same dice as the policy did there."""

    def dice(key: Key, situation: Situation) -> Action:
        return jnp.array([2.0, 0.0, 0.0]) + jax.random.uniform(key, (3,))

    episode = rollout.record(KEY, tiger_mdp, dice)
    states = [row(episode.situation.state, time) for time in range(5)]
    pilot = Pilot(dice, tiger_mdp)
    pilot.reset(states[0], KEY)
    for time, following in enumerate(states[1:]):
        np.testing.assert_allclose(pilot.act(), episode.action[time], atol=1e-6)
        pilot.observe(pilot.act(), following)


# ---- films ---------------------------------------------------------------------------------------


def test_a_learned_agent_is_filmed_beside_the_ensemble_in_the_same_episode(
    tiger_mdp: BeliefMDP, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: dict[str, Any] = {}
    monkeypatch.setattr(
        figures, "film", lambda path, panels, *about: shown.update(panels), raising=False
    )
    players = Players("tiger", "brpo", [Player(tiger_mdp, follow_advice)])
    pictures.film(tmp_path / "film.gif", players, seed=2, episode=3)
    assert list(shown) == ["ensemble", "brpo"]
    expected = rollout.record(episode_key(2, 3), tiger_mdp, follow_advice)
    for episode in shown.values():
        np.testing.assert_array_equal(episode.episode_return, expected.episode_return)
        np.testing.assert_array_equal(episode.latent, expected.latent)
