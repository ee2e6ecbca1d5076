"""Two processes on loopback are one learner, the same as one process with two devices."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM, getsignal, raise_signal, signal

import jax
import numpy as np
import pytest

from seerax import runs
from seerax.compute import distributed
from seerax.errors import UserError
from seerax.ppo.config import Config
from seerax.runs.training import load_checkpoint
from seerax.settings import settings
from seerax.system.signals import Stopped

BATCH, LAST = 16 * 8, 24 * 16 * 8
CONFIG = Config(
    steps=LAST,
    worlds=16,
    rollout_length=8,
    minibatches=2,
    learning_rate=3e-3,
    hidden=(16,),
    evaluations=4,
    evaluation_episodes=16,
)
TINY = "--ppo.worlds 16 --ppo.rollout-length 8 --ppo.minibatches 2 --ppo.learning-rate 3e-3"
TINY += " --ppo.hidden 16 --ppo.exploration 1 --ppo.exploration-end 1 --ppo.evaluations 4"
TINY += " --ppo.evaluation-episodes 16"
LIMIT = 240  # seconds that any pair of processes may take


def ended(processes: list[subprocess.Popen]) -> list[float]:
    """When each did, none later than the limit."""
    times, deadline = [float("inf")] * len(processes), time.monotonic() + LIMIT
    while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
        times = [
            time.monotonic() if process.poll() is None else last
            for process, last in zip(processes, times, strict=True)
        ]
        time.sleep(0.05)
    for process in processes:
        process.kill()
        process.wait()
    return times


class Ended:
    """How the two processes of a team ended: exit codes, what they said, when."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        steps: int = LAST,
        sent: int = 0,
        to: int = 1,
        at: int = 0,
    ):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.learned = [folder.parent / f"{folder.name}{i}.npz" for i in range(2)]
        said = [folder.parent / f"{folder.name}{i}.txt" for i in range(2)]
        processes = []
        for i in range(2):
            who = f"--distributed --coordinator 127.0.0.1:{port} --processes 2 --process-id {i}"
            tiny = "" if "--resume" in options else TINY  # a run goes on with its own settings
            what = f"train tiger --out {folder} --steps {steps} --save.iterations 4"
            script = [sys.executable, Path(__file__).with_name("member.py"), self.learned[i]]
            told = [str(int(sent) if i == to else 0), str(at)]
            at_home = {**os.environ, "JAX_COORDINATOR_BIND_ADDRESS": f"127.0.0.1:{port}"}
            with open(said[i], "w") as file:
                command = [*script, *told, *f"{what} {tiny} {who}".split(), *options]
                processes.append(
                    subprocess.Popen(command, env=at_home, stdout=file, stderr=subprocess.STDOUT)
                )
        self.times = ended(processes)
        self.codes = [process.returncode for process in processes]
        self.said = [path.read_text() for path in said]

    def many_params(self) -> list[list[np.ndarray]]:
        return [list(np.load(path).values()) for path in self.learned]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("team")


@pytest.fixture(scope="module")
def cut(folder) -> Ended:
    """The second process is killed on the way."""
    return Ended(folder / "run", sent=SIGKILL, at=14 * BATCH)


@pytest.fixture(scope="module")
def resumed(cut, folder) -> Ended:
    return Ended(folder / "run", "--resume")


def test_a_killed_peer_ends_the_run_with_a_clear_error_in_bounded_time(cut):
    assert cut.codes == [1, -SIGKILL], cut.said
    assert "Another process of this run was lost" in cut.said[0] and "--resume" in cut.said[0]
    assert cut.times[0] - cut.times[1] < 2 * distributed.HEARTBEAT


def test_the_run_resumes_and_both_hold_the_same_parameters_bit_for_bit(resumed, folder):
    assert resumed.codes == [0, 0], resumed.said
    for one, other in zip(*resumed.many_params(), strict=True):
        np.testing.assert_array_equal(one, other)
    steps = [row["steps"] for row in runs.RunFolder(folder / "run").rows()]
    assert steps == list(range(0, LAST + 1, BATCH))


def test_two_processes_learn_what_one_with_two_devices_learns(resumed, folder):
    """Worlds and randomness are the same, though cut and resumed; the order of sums may differ."""
    experiment = replace(settings("tiger"), ppo=CONFIG)
    alone = runs.Run(experiment, 0, 1, runs.RunFolder(folder / "alone"))
    learned = runs.train(alone).train_state
    assert alone.folder.read_config() == runs.RunFolder(folder / "run").read_config()
    for one, other in zip(jax.tree.leaves(learned.params), resumed.many_params()[0], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    kept = load_checkpoint(
        replace(alone, folder=runs.RunFolder(folder / "run")), experiment.trainer()
    )
    np.testing.assert_array_equal(
        kept.train_state.worlds.episode_return, learned.worlds.episode_return
    )


def test_only_the_first_process_speaks_and_writes(resumed, folder):
    lines = [line for line in resumed.said[1].splitlines() if not line.startswith("[Gloo]")]
    assert "fresh episodes" in resumed.said[0] and lines == []
    assert runs.RunFolder(folder / "run").evaluation.exists()
    assert json.loads((folder / "run" / "versions.json").read_text())["processes"] == 2


def test_one_told_to_stop_stops_all_after_the_same_iteration(folder):
    stopped = Ended(folder / "stopped", steps=1000 * LAST, sent=SIGTERM, at=2 * BATCH)
    assert stopped.codes == [143, 143], stopped.said
    assert "Stopped. Go on with" in stopped.said[0]
    reached = BATCH * runs.RunFolder(folder / "stopped").checkpoints.numbers()[0]
    assert reached == runs.RunFolder(folder / "stopped").rows()[-1]["steps"] > 2 * BATCH


# ---- alone ---------------------------------------------------------------------------------------


def test_a_process_alone_is_its_own_first_and_changes_nothing():
    assert (
        distributed.is_main()
        and distributed.broadcast_from_main(True)
        and not distributed.broadcast_from_main(False)
    )
    tree = {"key": jax.random.key(1), "array": np.arange(3)}
    assert distributed.allgather(tree)["key"] is tree["key"]
    with distributed.together(None):
        completed = []
        distributed.on_main(lambda: completed.append(1))
    assert completed == [1]


@pytest.fixture
def joined(monkeypatch):
    """Joins as if in a team that agrees to stop after any iteration; gives the signals JAX would
    hear.
    """
    before = {number: getsignal(number) for number in (SIGINT, SIGTERM)}
    heard: list[int] = []
    signal(SIGTERM, lambda number, frame: heard.append(number))
    monkeypatch.setattr(distributed.jax.distributed, "initialize", lambda *where, **how: None)
    monkeypatch.setattr(
        distributed.multihost_utils, "reached_preemption_sync_point", lambda iteration: True
    )
    distributed.join(distributed.Meeting())
    yield heard
    for number, handler in before.items():
        signal(number, handler)
    distributed.interrupted.clear()


@pytest.mark.parametrize(
    ("sent", "heard", "code"),
    [(SIGINT, [SIGTERM], 130), (SIGTERM, [SIGTERM], 143), (None, [], 143)],
)
def test_a_stopped_process_says_whether_it_had_ctrl_c(joined, sent, heard, code):
    if sent is not None:
        raise_signal(sent)
    stop = distributed.StopTogether()
    assert stop.asked_after(1) and joined == heard
    with pytest.raises(Stopped) as stopped:
        stop.check()
    assert stopped.value.exit_code == code


def test_the_mistake_of_the_first_is_told():
    def fail():
        raise UserError("no room")

    with pytest.raises(UserError, match="no room"):
        distributed.on_main(fail)


WRONG = {
    "half a meeting": ("--distributed --coordinator 127.0.0.1:1", "belong together"),
    "no port": ("--distributed --coordinator here --processes 2 --process-id 0", "HOST:PORT"),
    "too high an id": (
        "--distributed --coordinator 127.0.0.1:1 --processes 2 --process-id 2",
        "0 .. 1",
    ),
    "not distributed": ("--processes 2", "need --distributed"),
    "no devices": ("--devices 0", "must be at least 1, not 0. (--devices)"),
    "too many devices": ("--devices 4096", "more than there are cores"),
    "worlds that two cannot share": (
        "--devices 2 --ppo.worlds 15 --ppo.minibatches 1",
        "cannot share 15 worlds",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_told_before_anything_is_written(name, seerax, tmp_path):
    options, sentence = WRONG[name]
    code, _, said = seerax("train", "tiger", "--out", str(tmp_path / "run"), *options.split())
    assert code == 2 and sentence in said
    assert not (tmp_path / "run").exists()
