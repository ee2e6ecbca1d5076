"""A run that is interrupted and resumed is the run that was not."""

from __future__ import annotations

import signal
from dataclasses import replace

import jax
import numpy as np
import pytest

from seerax import agents, rollout, runs
from seerax.advice import follow_advice
from seerax.errors import UserError
from seerax.keys import evaluation_key, training_keys
from seerax.numerics.trees import row
from seerax.ppo import Config
from seerax.ppo.params import FORMAT
from seerax.runs.folder import begin, refuse_taken
from seerax.runs.schedule import Schedule
from seerax.settings import settings
from seerax.system import files
from seerax.system.signals import Stopped

CONFIG = Config(
    steps=1536, worlds=16, rollout_length=8, minibatches=2, evaluations=3, evaluation_episodes=16
)
AT_THE_END = Schedule(1e9, 10**9)  # and on a signal


@pytest.fixture(scope="module")
def experiment():
    return replace(settings("tiger"), ppo=CONFIG)


@pytest.fixture(scope="module")
def trained(experiment, tmp_path_factory):
    """An undisturbed run, and where its training ended."""
    folder = runs.RunFolder(tmp_path_factory.mktemp("runs") / "whole")
    run = runs.Run(experiment, seed=3, seeds=2, folder=folder)
    return run, runs.train(run, schedule=AT_THE_END)


@pytest.fixture(scope="module")
def whole(trained):
    return trained[0]


def without_seconds(row: dict) -> dict:
    return {name: value for name, value in row.items() if name != "seconds"}


def test_interrupted_and_resumed_equals_undisturbed(whole, tmp_path):
    run = replace(whole, folder=runs.RunFolder(tmp_path / "cut"))

    def cut(progress):
        if progress.steps == 640:  # between two evaluations
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Stopped) as stopped:
        runs.train(run, report=cut, schedule=AT_THE_END)
    assert stopped.value.exit_code == 143
    assert run.folder.checkpoints.numbers() == [5]
    runs.train(runs.reopen(run.folder.path), resume=True, schedule=AT_THE_END)
    ours, theirs = run.folder.rows(), whole.folder.rows()
    assert len(ours) == 2 * 13
    assert [without_seconds(row) for row in ours] == [without_seconds(row) for row in theirs]
    for seed in (3, 4):
        assert run.folder.policy(seed).read_bytes() == whole.folder.policy(seed).read_bytes()


def test_a_policy_comes_back_as_it_was_trained_with_its_problem_and_method(trained):
    """Measured against the training's own memory: no other file is read for it."""
    run, progress = trained
    for i, seed in enumerate(run.seed_numbers):
        experiment, policy = runs.load_policy(run.folder.policy(seed))
        assert experiment == run.experiment
        expected = jax.tree.leaves(row(progress.best, i))
        for ours, theirs in zip(jax.tree.leaves(policy.params), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        keys = progress.trainer.held_out_keys
        played = rollout.play_batch_sharded(policy.mdp, policy, keys).episode_return
        np.testing.assert_allclose(np.mean(played), progress.best_return[i], rtol=1e-5)
        assert policy.about["held_out"] == float(progress.best_return[i])


def test_a_loaded_policy_acts_by_the_formula_of_its_method(trained, tmp_path):
    """Of the last parameters: the best ones of so short a training may be the untrained ones."""
    run, progress = trained
    last = row(progress.train_state.params, 1)
    about = progress.policy(1).about
    progress.trainer.learner.policy(last, about=about).save(tmp_path / "last.safetensors")
    policy = runs.load(tmp_path / "last.safetensors")
    situation = policy.mdp.reset(jax.random.key(5)).situation
    network, inputs, _ = last
    x = np.concatenate(
        [
            policy.mdp.problem.features(situation.state),
            policy.mdp.filter.features(situation.belief),
            situation.advice,
        ]
    )
    mean, _ = network.policy(inputs.normalise(x))
    expected = situation.advice + run.experiment.scale * mean
    assert not np.allclose(expected, situation.advice)
    np.testing.assert_allclose(policy(jax.random.key(0), situation), expected, rtol=1e-5)


def test_the_untrained_residual_is_the_ensemble(experiment):
    trainer = experiment.trainer()
    learner = trainer.learner
    policy = learner.policy(learner.init(jax.random.key(1)).params)
    ours, theirs = (
        rollout.evaluate(jax.random.key(2), trainer.mdp, who, 128).returns
        for who in (policy, follow_advice)
    )
    np.testing.assert_array_equal(ours, theirs)


def test_training_and_evaluation_never_share_randomness():
    data = [
        jax.random.key_data(key)
        for key in (*training_keys(0, 4), *(evaluation_key(s) for s in range(4)))
    ]
    assert len({tuple(np.asarray(d).tolist()) for d in data}) == 8


def test_a_run_of_another_format_is_refused(whole, tmp_path):
    folder = runs.RunFolder(tmp_path)
    files.write_json(folder.config, {**whole.config(), "format": 99})
    with pytest.raises(UserError, match="another format"):
        runs.reopen(tmp_path)
    files.write_json(folder.config, {"format": FORMAT, "hello": 1})
    with pytest.raises(UserError, match="not a config"):
        runs.reopen(tmp_path)


def test_blend_and_sum_are_what_they_say(experiment):
    situation = type("S", (), {"advice": np.array([1.0, 2.0])})
    raw = np.array([10.0, -10.0])
    np.testing.assert_allclose(agents.residual((0.1, 0.5))(situation, raw), [2.0, -3.0])
    np.testing.assert_allclose(agents.blend(0.1)(situation, raw), [1.9, 0.8], rtol=1e-6)
    blended = replace(experiment, blend=0.1).method().compose
    np.testing.assert_allclose(blended(situation, raw), [1.9, 0.8], rtol=1e-6)


def test_a_kill_while_a_run_begins_leaves_a_folder_that_can_be_begun_or_resumed(
    tmp_path, monkeypatch
):
    run = runs.Run(settings("tree"), 0, 1, runs.RunFolder(tmp_path))
    write = files.write_json

    def killed(path, content):
        if path.name == "versions.json":
            raise KeyboardInterrupt
        write(path, content)

    monkeypatch.setattr(files, "write_json", killed)
    with pytest.raises(KeyboardInterrupt):
        begin(run)
    assert runs.reopen(tmp_path).experiment == run.experiment
    # Killed a moment earlier:
    run.folder.config.rename(tmp_path / f".config.json.x{files.UNFINISHED}")
    refuse_taken(run)
