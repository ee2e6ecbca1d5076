"""What a run notices in time: numbers that are not finite, links that lead out, arrays too many."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import torture_small

from seerax import core, experiments, rollout, runs
from seerax.advice import follow_advice
from seerax.errors import UserError
from seerax.ppo import PPO, Config, Progress, Trainer
from seerax.runs import nonfinite
from seerax.runs.folder import begin
from seerax.runs.schedule import Schedule
from seerax.runs.training import load_fault
from seerax.settings import settings
from seerax.system import pytrees, signals

CONFIG = Config(
    steps=768, worlds=16, rollout_length=8, minibatches=2, evaluations=2, evaluation_episodes=16
)
AT_THE_END = Schedule(1e9, 10**9)  # and on a signal


def run_in(folder: Path) -> runs.Run:
    experiment = replace(settings("tiger"), ppo=CONFIG)
    return runs.Run(experiment, 0, 1, runs.RunFolder(folder))


@pytest.fixture(scope="module")
def healthy() -> Trainer:
    return run_in(Path()).experiment.trainer()


@pytest.fixture(scope="module")
def ill(tiger_mdp) -> Trainer:
    """The same on a problem whose advice is NaN."""
    return run_in(Path()).experiment.trainer(sick(tiger_mdp, "advice"))


@pytest.fixture(scope="module")
def whole(healthy, tmp_path_factory) -> runs.Run:
    run = run_in(tmp_path_factory.mktemp("runs") / "whole")
    runs.train(run, healthy, schedule=AT_THE_END)
    return run


# ---- numbers that are no numbers -----------------------------------------------------------------


def sick(tiger_mdp, part: str) -> core.BeliefMDP:
    """NaN in one part of the situation from the second step of an episode on."""
    late = lambda moment, value: jnp.where(moment.time > 0, jnp.nan, value)  # noqa: E731
    if part == "advice":
        return replace(
            tiger_mdp, advisor=lambda moment, s, b: late(moment, tiger_mdp.advisor(moment, s, b))
        )
    filter = tiger_mdp.filter

    class Sick(type(filter)):
        def update(self, belief, state, action, next_state):
            return super().update(belief, state, action, next_state) * jnp.nan

    return replace(tiger_mdp, filter=Sick(filter.support, filter.log_likelihood))


def test_an_iteration_with_a_nan_changes_nothing_that_is_learned(tiger_mdp):
    trainer = Trainer(PPO(sick(tiger_mdp, "belief"), settings("tiger").method(), CONFIG))
    train_state = trainer.learner.init(jax.random.key(0))
    after, metrics = trainer.iterate(train_state)
    assert metrics["skipped"] == 1
    for ours, theirs in zip(
        jax.tree.leaves(after[:2]), jax.tree.leaves(train_state[:2]), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    unsound = ~np.stack(
        [np.asarray(s) for s in jax.vmap(core.finite_parts)(after.worlds.situation)]
    ).all(0)
    assert unsound.any() and np.asarray(after.worlds.over)[unsound].all()  # they start afresh


def test_a_run_that_keeps_failing_stops_names_who_and_leaves_what_replays_it(
    tmp_path, monkeypatch, tiger_mdp
):
    monkeypatch.setattr(experiments, "find_problem", lambda name: sick(tiger_mdp, "advice"))
    run = run_in(tmp_path / "run")
    with pytest.raises(
        UserError, match=r"3 iterations in a row, .*advice not finite.*seerax replay"
    ) as told:
        runs.train(run, schedule=Schedule(1e9, 1))
    assert [row.get("skipped") for row in run.folder.rows()] == [None, 1, 1, 1]
    path = Path(str(told.value).split("seerax replay ")[1])
    trainer, fault = load_fault(path)
    assert (fault.offences.step <= 1).all() and not fault.offences.finite_parts.advice.any()
    assert nonfinite.described(
        nonfinite.examine(trainer, fault.train_state)
    ) == nonfinite.described(fault)


def test_advice_out_of_bounds_is_clipped_and_advice_that_is_none_is_refused_by_name(tiger_mdp):
    loud = replace(tiger_mdp, advisor=lambda moment, s, b: 1e30 * jnp.ones(tiger_mdp.action_size))
    np.testing.assert_array_equal(
        loud.reset(jax.random.key(0)).situation.advice, loud.problem.action_high
    )
    with pytest.raises(
        UserError, match=r"The advisor's advice was NaN or infinite in \d+ of 32 episodes"
    ):
        rollout.evaluate(jax.random.key(0), sick(tiger_mdp, "advice"), follow_advice, 32)
    with pytest.raises(UserError, match="The filter's belief was NaN"):
        rollout.evaluate(jax.random.key(0), sick(tiger_mdp, "belief"), follow_advice, 32)


def bytes_of(run: runs.Run) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in run.folder.checkpoints.folder.iterdir()}


@pytest.fixture
def stopped(healthy, tmp_path) -> runs.Run:
    """A healthy run that was told to stop after two of its six iterations."""
    run = run_in(tmp_path / "run")
    with pytest.raises(signals.Stopped):
        at_2 = stop_if(lambda progress: progress.steps == 2 * CONFIG.batch)
        runs.train(run, healthy, at_2, schedule=AT_THE_END)
    assert run.folder.checkpoints.numbers() == [2]
    return run


def stop_if(condition: Callable[[Progress], bool]) -> Callable[[Progress], Any]:
    """Sends this process SIGTERM when a progress meets the condition."""
    return lambda progress: condition(progress) and signal.raise_signal(signal.SIGTERM)


def is_skipped(progress: Progress) -> bool:
    return bool(np.any(progress.metrics.get("skipped", 0.0)))


def test_while_updates_are_skipped_nothing_is_saved(stopped, ill):
    before = bytes_of(stopped)
    with pytest.raises(UserError, match="3 iterations in a row"):
        runs.train(stopped, ill, resume=True, schedule=Schedule(1e9, 1))
    assert [row["skipped"] for row in stopped.folder.rows()[-3:]] == [1, 1, 1]
    assert bytes_of(stopped) == before


def test_a_run_stopped_while_updates_are_skipped_goes_on_from_before(whole, stopped, healthy, ill):
    """Once its problem is healed it ends as if nothing had been."""
    before = bytes_of(stopped)
    with pytest.raises(signals.Stopped):
        runs.train(stopped, ill, stop_if(is_skipped), resume=True, schedule=AT_THE_END)
    assert stopped.folder.rows()[-1]["skipped"] == 1
    assert bytes_of(stopped) == before
    runs.train(stopped, healthy, resume=True, schedule=AT_THE_END)
    torture_small.must_equal(stopped.folder.path, whole.folder.path)


# ---- strangers' folders ------------------------------------------------------------------------


@pytest.fixture
def stranger(whole, tmp_path):
    """A run folder of theirs, and a folder of ours beside it."""
    folder = runs.RunFolder(tmp_path / "theirs")
    folder.path.mkdir()
    begin(replace(whole, folder=folder))
    ours = tmp_path / "ours"
    ours.mkdir()
    (ours / "diary").write_text("dear diary")
    return folder, ours


@pytest.mark.parametrize("link", ["metrics.jsonl", "faults", "tensorboard/seed0/events"])
def test_a_link_that_leads_out_of_a_run_folder_is_refused_and_nothing_is_written(stranger, link):
    folder, ours = stranger
    path = folder.path / link
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(ours / "diary" if path.suffix else ours)
    with pytest.raises(UserError, match="a link that leads out of"):
        runs.train(runs.reopen(folder.path), resume=True)
    assert [(each.name, each.read_text()) for each in ours.iterdir()] == [("diary", "dear diary")]
    assert not folder.checkpoints.numbers()


def test_a_link_to_nowhere_leads_out_too(stranger):
    folder, ours = stranger
    folder.metrics.symlink_to(ours / "yet to come")
    with pytest.raises(UserError, match="a link that leads out of"):
        runs.reopen(folder.path)


def test_a_link_within_a_run_folder_is_followed_and_so_is_one_to_it(stranger):
    folder, ours = stranger
    (folder.path / "latest").symlink_to(folder.config)
    (ours / "run").symlink_to(folder.path)
    assert runs.reopen(ours / "run").experiment == runs.reopen(folder.path).experiment


def test_a_policy_file_with_an_array_too_many_is_refused(whole, tmp_path):
    path = tmp_path / "policy.safetensors"
    arrays = load_file(whole.folder.policy(0))
    about = {"seerax": json.dumps(pytrees.read_about(whole.folder.policy(0)))}
    save_file(arrays, path, about)
    assert runs.load_policy(path)[0] == whole.experiment
    save_file(arrays | {"more": np.zeros(3)}, path, about)
    with pytest.raises(UserError, match="its arrays differ, more for one"):
        runs.load_policy(path)
