"""Nothing lost: a quick part of what `make torture` tries at length, and the laws of each piece."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.key_reuse._core import check_key_reuse

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import torture_commands
import torture_damage
import torture_small

from seerax import problems, rollout, runs
from seerax.errors import UserError, one_line
from seerax.keys import training_keys
from seerax.ppo import Config
from seerax.ppo.params import FORMAT, Params
from seerax.runs import checkpoints, metrics, resources
from seerax.runs.checkpoints import Checkpoints
from seerax.runs.schedule import Schedule
from seerax.settings import settings
from seerax.system import lock, pytrees, signals

CONFIG = Config(
    steps=768, worlds=16, rollout_length=8, minibatches=2, evaluations=2, evaluation_episodes=16
)

OFTEN = Schedule(seconds=1e9, iterations=2)  # by count alone


def run_in(folder: Path, **changes) -> runs.Run:
    return runs.Run(
        replace(settings("tiger"), ppo=replace(CONFIG, **changes)),
        0,
        1,
        runs.RunFolder(folder),
    )


def state(number: int) -> dict[str, np.ndarray]:
    weights = np.random.default_rng(number).normal(size=(64, 64))
    return {"weights": weights.astype(np.float32), "iteration": np.full(3, number, np.int32)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> runs.Run:
    run = run_in(tmp_path_factory.mktemp("runs") / "whole")
    runs.train(run, schedule=OFTEN)
    return run


# ---- checkpoints ---------------------------------------------------------------------------------


def test_the_two_newest_checkpoints_are_kept(whole):
    assert whole.folder.checkpoints.numbers() == [6, 4]
    assert not list(whole.folder.path.rglob("*.unfinished"))


def test_without_a_good_checkpoint_all_is_told_and_nothing_is_changed(tmp_path):
    kept = Checkpoints(tmp_path / "checkpoints")
    for number in (1, 2):
        kept.save(number, state(number), {})
        kept.arrays(number).write_bytes(b"")
    before = {path: path.read_bytes() for path in kept.folder.iterdir()}
    with pytest.raises(UserError, match=r"No checkpoint in .*2: 0 bytes .* 1: 0 bytes"):
        kept.load(state(1))
    assert {path: path.read_bytes() for path in kept.folder.iterdir()} == before


def test_a_newer_format_is_told_and_not_taken_for_damage(tmp_path):
    kept = Checkpoints(tmp_path)
    kept.save(1, state(1), {})
    told = checkpoints.opened(kept.manifest(1))
    newer = {**told, "format": checkpoints.FORMAT + 1, "seerax": "9.9"}
    kept.manifest(1).write_bytes(checkpoints.sealed(newer))
    with pytest.raises(UserError, match=rf"format {newer['format']}.* written by seerax 9.9"):
        kept.load(state(1))
    assert kept.manifest(1).exists()


def test_a_bad_checkpoint_costs_no_more_than_going_back_to_the_one_before(whole, tmp_path):
    run = run_in(tmp_path / "run")
    runs.train(run, schedule=OFTEN)
    damaged = run.folder.checkpoints.arrays(6)
    damaged.write_bytes(torture_damage.flipped(damaged.read_bytes(), random.Random(1)))
    said: list[str] = []
    runs.train(runs.reopen(run.folder.path), resume=True, say=said.append)
    assert (
        "000000006.json is damaged (its checksum is wrong)" in said[0] and "iteration 4" in said[1]
    )
    torture_small.must_equal(run.folder.path, whole.folder.path)


def test_saving_is_due_by_time_and_by_count():
    schedule = Schedule(seconds=30, iterations=10)
    assert [schedule.due(*since) for since in ((29, 9), (30, 1), (1, 10))] == [False, True, True]


# ---- killed, stopped, run elsewhere --------------------------------------------------------------


def test_killed_in_a_save_and_resumed_equals_undisturbed(whole, tmp_path):
    """A process that dies between the arrays and their manifest, leaving half a line in the log."""
    code = f"""
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {str(ROOT / "tests")!r})
from seerax.compute import devices
from seerax.runs import checkpoints
devices.prepare(2)
import test_reliability as t
from seerax import runs
earlier = checkpoints.sealed
def sealed(told):
    if told["number"] == 4:
        open({str(tmp_path / "run" / "metrics.jsonl")!r}, "a").write('{{"steps": 5')
        os.kill(os.getpid(), signal.SIGKILL)
    return earlier(told)
checkpoints.sealed = sealed
runs.train(t.run_in(Path({str(tmp_path / "run")!r})), schedule=t.OFTEN)
"""
    completed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=280
    )
    assert completed.returncode == -signal.SIGKILL, completed.stderr
    run = runs.reopen(tmp_path / "run")
    assert run.folder.checkpoints.numbers() == [2] and run.folder.checkpoints.arrays(4).exists()
    runs.train(run, resume=True, schedule=OFTEN)  # in this process: the same bits across processes
    torture_small.must_equal(run.folder.path, whole.folder.path)
    assert run.folder.checkpoints.numbers() == [6, 4]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_noted_and_ends_the_work_at_its_next_check(number, code):
    completed = []
    with pytest.raises(signals.Stopped) as stopped, signals.stop_gracefully() as stop:
        signal.raise_signal(number)
        completed.append("the rest of the iteration")
        stop.check()
    assert completed and stopped.value.exit_code == code
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_signal_during_the_last_save_is_heard(tmp_path, monkeypatch):
    save = Checkpoints.save

    def interrupted(*about):
        signal.raise_signal(signal.SIGTERM)
        save(*about)

    monkeypatch.setattr(Checkpoints, "save", interrupted)
    run = run_in(tmp_path / "run")
    with pytest.raises(signals.Stopped):
        runs.train(run, schedule=Schedule(1e9, 10**9))
    assert run.folder.checkpoints.numbers() == [CONFIG.iterations]


def test_a_second_signal_stops_at_once():
    with pytest.raises(signals.Stopped), signals.stop_gracefully():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        pytest.fail("went on")


def test_elsewhere_than_in_the_main_thread_signals_are_left_alone():
    found = []

    def work():
        with signals.stop_gracefully() as stop:
            found.append(stop.asked)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False]


def test_evaluation_ends_with_143_on_sigterm(monkeypatch):
    monkeypatch.setattr(rollout, "evaluate", lambda *_: signal.raise_signal(signal.SIGTERM))
    answer = torture_commands.asked(["evaluate", "tiger"])
    assert answer == (143, "", "")


def at_work(process: subprocess.Popen, seconds: float = 5.0) -> None:
    """Waits until it has computed for so many seconds: beyond imports, in the midst of its work."""
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        used = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        if sum(map(int, used)) > seconds * os.sysconf("SC_CLK_TCK"):
            return
        time.sleep(0.05)
    pytest.fail("it never got to work")


def test_a_long_evaluation_ends_at_once_on_a_signal_and_without_a_traceback():
    command = [torture_small.SEERAX, "evaluate", "maze4", "--episodes", "2000000"]
    numbers = (signal.SIGTERM, signal.SIGINT)
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in numbers
    ]
    try:
        for process, number in zip(started, numbers, strict=True):
            at_work(process)
            process.send_signal(number)
        said = [process.communicate(timeout=60) for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [143, 130]
    assert said == [("", "")] * 2


# ---- determinism ---------------------------------------------------------------------------------


def test_the_checker_of_keys_finds_one_that_is_used_twice():
    with pytest.raises(jax.errors.KeyReuseError):
        check_key_reuse(
            lambda key: jax.random.normal(key) + jax.random.uniform(key), jax.random.key(0)
        )


@pytest.mark.parametrize("name", problems.PROBLEMS)
def test_no_problem_filter_or_advisor_uses_a_key_twice(name):
    """Traced only: in trainings the checker takes a key that a scan chooses between for used."""
    mdp = problems.make(name)

    def live(key):
        first, second = jax.random.split(key)
        return mdp.step(second, mdp.reset(first), jnp.zeros(mdp.action_size))[1]

    check_key_reuse(live, jax.random.key(0))


def test_no_learner_is_born_from_a_key_used_twice():
    check_key_reuse(settings("tiger").trainer().learner.init, jax.random.key(0))


# ---- one writer ----------------------------------------------------------------------------------

HOLD = """
import sys, time, pathlib
from seerax.system import lock
with lock.hold(pathlib.Path(sys.argv[1])):
    print(1, flush=True)
    time.sleep(600)
"""


def test_a_second_writer_is_told_who_holds_the_folder_and_a_dead_ones_lock_is_free(whole):
    folder = whole.folder.path
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE)
    assert holder.stdout is not None and holder.stdout.read(1) == b"1"
    with pytest.raises(UserError, match=f"in use by process {holder.pid} on .* since 20"):
        runs.train(whole, resume=True)
    with pytest.raises(UserError, match="in use by"):
        runs.train(whole, overwrite=True)
    assert whole.folder.checkpoints.numbers() == [6, 4]
    holder.kill()
    holder.wait()
    with lock.hold(folder):
        assert json.loads((folder / lock.NAME).read_text())["process"] == os.getpid()


# ---- strangers' files ----------------------------------------------------------------------------


def test_a_strangers_run_never_imports_code(whole, tmp_path, monkeypatch):
    (tmp_path / "evil.py").write_text("open('owned', 'w')\nraise SystemExit")
    monkeypatch.chdir(tmp_path)
    theirs = replace(whole.experiment, problem="evil:mdp")
    params = Params(jnp.zeros(3), None, None)  # type: ignore[arg-type]
    path = tmp_path / "policy.safetensors"
    pytrees.save_tree(path, params, {"format": FORMAT, "experiment": asdict(theirs)})
    with pytest.raises(UserError, match="of 'evil:mdp', code that is only run if you name"):
        runs.load_policy(path)
    with pytest.raises(UserError, match="only run if you name"):
        runs.load_policy(path, problem="other:mdp")
    told = torture_commands.asked(["evaluate", str(path)])
    assert told.right and "evil:mdp" in told.said and "--problem" in told.said
    assert not (tmp_path / "owned").exists()


def test_what_a_file_says_cannot_move_the_cursor():
    assert one_line("a\x1b[2J\nb\x07") == "a [2J b "


# ---- limits --------------------------------------------------------------------------------------


def test_what_cannot_fit_is_told_before_anything_is_written(tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"needs at least .* of memory"):
        runs.train(run_in(tmp_path / "large", worlds=2**40))
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(resources.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(UserError, match="of disk and 1 kB are free"):
        runs.train(run_in(tmp_path / "small"))
    assert not list(tmp_path.iterdir())


def test_the_estimate_is_below_what_is_used_and_not_far_below():
    """XLA's own count of the buffers of an iteration is the measure."""
    trainer = run_in(Path("nowhere"), worlds=1024, rollout_length=64).experiment.trainer()
    train_state = jax.eval_shape(jax.vmap(trainer.learner.init), training_keys(0, 1))
    memory = trainer.iterate_many.lower(train_state).compile().memory_analysis()
    used = (
        trainer.mesh.size * (memory.temp_size_in_bytes + memory.output_size_in_bytes)
        + memory.argument_size_in_bytes
    )
    estimate, checkpoint = resources.needs(trainer, 1)
    assert used / 4 < estimate < 1.2 * used
    saved = sum(
        leaf.size * leaf.dtype.itemsize
        for leaf in jax.tree.leaves((train_state, train_state.params))
    )
    assert abs(checkpoint / saved - 1) < 0.05


# ---- logs ----------------------------------------------------------------------------------------


def test_half_a_line_at_the_end_does_not_count_and_what_is_not_a_number_is_null(tmp_path):
    row = {"steps": 1, "seed": 0, "seconds": 0.5, "kl": float("nan")}
    (tmp_path / "metrics.jsonl").write_text(metrics.as_line(row) + '{"steps": 2, "se')
    assert metrics.read_rows(tmp_path / "metrics.jsonl") == [{**row, "kl": None}]


def test_tensorboard_holds_each_number_of_the_log_once(whole):
    shown = [
        (row["steps"], n, v)
        for row in torture_small.rows(whole.folder.path)
        for n, v in row.items()
    ]
    shown = [(step, name, value) for step, name, value in shown if name not in ("steps", "seed")]
    found = torture_small.events(whole.folder.path)
    assert [event[:2] for event in found] == [number[:2] for number in shown]
    np.testing.assert_allclose(
        [event[2] for event in found], [number[2] for number in shown], rtol=1e-6
    )
