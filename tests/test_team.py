"""Two processes on loopback are one learner: the same on both, the same as one process with two devices."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL, SIGTERM

import jax
import numpy as np
import pytest

from seerax import cli, experiments, runs, store, team
from seerax.config import Config
from seerax.errors import Mistake

BATCH, LAST = 16 * 8, 24 * 16 * 8
CONFIG = Config(
    steps=LAST,
    worlds=16,
    length=8,
    minibatches=2,
    learning_rate=3e-3,
    hidden=(16,),
    evaluations=4,
    evaluation_episodes=16,
)
TINY = "--ppo.worlds 16 --ppo.length 8 --ppo.minibatches 2 --ppo.learning-rate 3e-3 --ppo.hidden 16 --ppo.exploration 1"
TINY += " --ppo.exploration-end 1 --ppo.evaluations 4 --ppo.evaluation-episodes 16"
LIMIT = 120  # seconds that any pair of processes may take


class Ended:
    """How the two processes of a team ended: exit codes, what they said, seconds."""

    def __init__(self, folder: Path, *options: str, steps: int = LAST, sent: int = 0, to: int = 1, at: int = 0):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.learned = [folder.parent / f"{folder.name}{i}.npz" for i in range(2)]
        started = time.monotonic()
        processes = []
        for i in range(2):
            who = f"--distributed --coordinator 127.0.0.1:{port} --processes 2 --process-id {i}"
            what = f"train tiger --out {folder} --steps {steps} {TINY} {who}".split()
            script = [sys.executable, Path(__file__).with_name("member.py"), self.learned[i]]
            told = [str(int(sent) if i == to else 0), str(at)]
            at_home = {**os.environ, "JAX_COORDINATOR_BIND_ADDRESS": f"127.0.0.1:{port}"}
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            processes.append(subprocess.Popen([*script, *told, *what, *options], env=at_home, **pipes))
        try:
            said = [process.communicate(timeout=LIMIT) for process in processes]
        finally:
            for process in processes:
                process.kill()
        self.seconds = time.monotonic() - started
        self.codes = [process.returncode for process in processes]
        self.out, self.err = ([text[stream] for text in said] for stream in (0, 1))

    def brains(self) -> list[list[np.ndarray]]:
        return [list(np.load(path).values()) for path in self.learned]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("team")


@pytest.fixture(scope="module")
def whole(folder) -> Ended:
    return Ended(folder / "whole")


def test_both_processes_hold_the_same_parameters_bit_for_bit(whole):
    assert whole.codes == [0, 0], whole.err
    ours, theirs = whole.brains()
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_two_processes_learn_what_one_with_two_devices_learns(whole, folder):
    """The same worlds, the same randomness: only the order of sums may differ."""
    experiment = replace(experiments.settings("tiger"), ppo=CONFIG)
    alone = runs.Run(experiment, 0, 1, runs.RunFolder(folder / "alone"))
    learned = jax.tree.leaves(runs.train(alone).learner.brain)
    together = json.loads((folder / "whole" / "config.json").read_text())
    assert together == json.loads((folder / "alone" / "config.json").read_text())
    for one, other in zip(learned, whole.brains()[0], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    worlds = [store.load_tree(folder / name / "checkpoint.safetensors", _like(alone)) for name in ("alone", "whole")]
    np.testing.assert_array_equal(*[tree[0].worlds.score for tree in worlds])


def _like(run: runs.Run):
    keys = runs.training_keys(run.seed, run.seeds)
    learner = jax.eval_shape(jax.vmap(run.experiment.trainer().init), keys)
    return learner, learner.brain, jax.ShapeDtypeStruct((run.seeds,), np.float32)


def test_only_the_first_process_speaks_and_writes(whole, folder):
    lines = [line for line in whole.out[1].splitlines() if not line.startswith("[Gloo]")]
    assert "fresh episodes" in whole.out[0] and lines == []
    assert json.loads((folder / "whole" / "versions.json").read_text())["processes"] == 2
    steps = [row["steps"] for row in runs.RunFolder(folder / "whole").rows()]
    assert steps == list(range(0, LAST + 1, BATCH))


def test_a_killed_peer_ends_the_run_and_the_run_resumes_to_the_same_end(whole, folder):
    cut = Ended(folder / "cut", sent=SIGKILL, at=14 * BATCH)
    assert cut.codes == [1, -SIGKILL]
    assert "Another process of this run was lost" in cut.err[0] and "--resume" in cut.err[0]
    assert cut.seconds < 60
    assert store.read_about(folder / "cut" / "checkpoint.safetensors")["steps"] == 12 * BATCH
    resumed = Ended(folder / "cut", "--resume")
    assert resumed.codes == [0, 0], resumed.err
    for one, other in zip(resumed.brains()[1], whole.brains()[0], strict=True):
        np.testing.assert_array_equal(one, other)
    assert (folder / "cut" / "evaluation.json").exists()


def test_one_told_to_stop_stops_all_after_the_same_iteration(folder):
    stopped = Ended(folder / "stopped", steps=1000 * LAST, sent=SIGTERM, at=2 * BATCH)
    assert stopped.codes == [130, 130], stopped.err
    assert "Stopped and saved" in stopped.err[0]
    reached = store.read_about(folder / "stopped" / "checkpoint.safetensors")["steps"]
    assert reached == runs.RunFolder(folder / "stopped").rows()[-1]["steps"] > 2 * BATCH


# ---- alone -------------------------------------------------------------------------------------------------------


def test_a_process_alone_is_its_own_first_and_changes_nothing():
    assert team.first() and not team.asked_to_stop(3)
    tree = {"key": jax.random.key(1), "array": np.arange(3)}
    assert team.gathered(tree)["key"] is tree["key"]
    with team.together(None):
        done = []
        team.first_alone(lambda: done.append(1))
    assert done == [1]


def test_the_mistake_of_the_first_is_told():
    def fail():
        raise Mistake("no room")

    with pytest.raises(Mistake, match="no room"):
        team.first_alone(fail)


WRONG = {
    "half a meeting": ("--distributed --coordinator 127.0.0.1:1", "belong together"),
    "no port": ("--distributed --coordinator here --processes 2 --process-id 0", "HOST:PORT"),
    "too high an id": ("--distributed --coordinator 127.0.0.1:1 --processes 2 --process-id 2", "0 .. 1"),
    "not distributed": ("--processes 2", "need --distributed"),
    "no devices": ("--devices 0", "--devices must be at least 1"),
    "too many devices": ("--devices 4096", "more than there are cores"),
    "worlds that two cannot share": ("--devices 2 --ppo.worlds 15 --ppo.minibatches 1", "cannot share 15 worlds"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_told_before_anything_is_written(name, tmp_path):
    options, sentence = WRONG[name]
    with pytest.raises(Mistake, match=sentence.replace(".", r"\.")):
        cli.command_line(["train", "tiger", "--out", str(tmp_path / "run"), *options.split()]).run()
    assert not (tmp_path / "run").exists()
