"""A run that is interrupted and resumed is the run that was not."""

from __future__ import annotations

import signal
from dataclasses import replace

import jax
import numpy as np
import pytest

from seerax import agents, experiments, rollout, runs
from seerax.advice import follow_advice
from seerax.errors import UserError
from seerax.ppo import Config
from seerax.system import files
from seerax.system.signals import Stopped

CONFIG = Config(
    steps=1536, worlds=16, rollout_length=8, minibatches=2, evaluations=3, evaluation_episodes=16
)


@pytest.fixture(scope="module")
def experiment():
    return replace(experiments.settings("tiger"), ppo=CONFIG)


@pytest.fixture(scope="module")
def whole(experiment, tmp_path_factory):
    run = runs.Run(
        experiment,
        seed=3,
        seeds=2,
        folder=runs.RunFolder(tmp_path_factory.mktemp("runs") / "whole"),
    )
    runs.train(run)
    return run


def without_seconds(row: dict) -> dict:
    return {name: value for name, value in row.items() if name != "seconds"}


def test_interrupted_and_resumed_equals_undisturbed(experiment, whole, tmp_path):
    run = replace(whole, folder=runs.RunFolder(tmp_path / "cut"))

    def cut(progress):
        if progress.steps == 640:  # between two evaluations
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Stopped) as stopped:
        runs.train(run, cut)
    assert stopped.value.exit_code == 143
    assert run.folder.checkpoints.numbers() == [5]
    runs.train(runs.reopen(run.folder.path), resume=True)
    ours, theirs = run.folder.rows(), whole.folder.rows()
    assert len(ours) == 2 * 13
    assert [without_seconds(row) for row in ours] == [without_seconds(row) for row in theirs]
    for seed in (3, 4):
        assert run.folder.policy(seed).read_bytes() == whole.folder.policy(seed).read_bytes()


def test_a_policy_comes_back_with_its_problem_and_method(whole):
    experiment, policy = runs.load_policy(whole.folder.policy(3))
    assert experiment == whole.experiment
    measured = rollout.evaluate(jax.random.key(0), policy.mdp, policy, 64).returns
    again = runs.load_policy(whole.folder.policy(3))[1]
    np.testing.assert_array_equal(
        measured, rollout.evaluate(jax.random.key(0), again.mdp, again, 64).returns
    )


def test_the_untrained_residual_is_the_ensemble(experiment):
    trainer = experiment.trainer()
    policy = trainer.policy(trainer.init(jax.random.key(1)).params)
    ours, theirs = (
        rollout.evaluate(jax.random.key(2), trainer.mdp, who, 128).returns
        for who in (policy, follow_advice)
    )
    np.testing.assert_array_equal(ours, theirs)


def test_training_and_evaluation_never_share_randomness():
    data = [
        jax.random.key_data(key)
        for key in (*runs.training_keys(0, 4), *(runs.evaluation_key(s) for s in range(4)))
    ]
    assert len({tuple(np.asarray(d).tolist()) for d in data}) == 8


def test_a_run_of_another_format_is_refused(whole, tmp_path):
    folder = runs.RunFolder(tmp_path)
    files.write_json(folder.config, {**whole.config(), "format": 99})
    with pytest.raises(UserError, match="another format"):
        runs.reopen(tmp_path)
    files.write_json(folder.config, {"format": runs.FORMAT, "hello": 1})
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
    run = runs.Run(experiments.settings("tree"), 0, 1, runs.RunFolder(tmp_path))
    write = files.write_json

    def killed(path, content):
        if path.name == "versions.json":
            raise KeyboardInterrupt
        write(path, content)

    monkeypatch.setattr(files, "write_json", killed)
    with pytest.raises(KeyboardInterrupt):
        runs.begin(run)
    assert runs.reopen(tmp_path).experiment == run.experiment
    run.folder.config.rename(
        tmp_path / f".config.json.x{files.UNFINISHED}"
    )  # killed a moment earlier
    runs.refuse_taken(run)
