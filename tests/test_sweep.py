"""A sweep: what is planned, who does it, and what it says in the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import cloudpickle
import numpy as np
import pytest

from seerax import cli, experiments, runs, sweep, workers
from seerax.compute import devices
from seerax.errors import UserError
from seerax.system import files

TINY = "ppo.worlds=16 ppo.rollout_length=8 ppo.minibatches=2 ppo.evaluations=2 ppo.evaluation_episodes=16 ppo.hidden=16"


def command(out: Path, *more: str) -> cli.Sweep:
    return cli.command_line(["sweep", "--out", str(out), *more])


def sets(*specs: str) -> list[str]:
    return [word for spec in specs for word in ("--set", spec)]


# ---- the plan ----------------------------------------------------------------------------------------------------


def test_the_plan_is_the_product(tmp_path):
    values = sets("ppo.steps=1e6,2_000_000", "scale=0.5,1", "ppo.epochs=2")
    asked = command(
        tmp_path, "--problems", "tiger", "tree", "--agents", "brpo", "bpo", "--seeds", "3", *values
    )
    jobs = sweep.plan(asked)
    assert len(jobs) == len({job.path for job in jobs}) == 2 * 2 * 2 * 2 * 3
    job = jobs[4]
    assert job.name == "tiger-brpo-ppo.steps=1e6-scale=1-seed1"
    ours = experiments.settings("tiger")
    assert job.experiment == replace(
        ours, scale=1.0, ppo=replace(ours.ppo, steps=1_000_000, epochs=2)
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("ppo.steps", "1e6", 1_000_000),
        ("ppo.anneal", "false", False),
        ("ppo.discount", "none", None),
        ("ppo.discount", "0.9", 0.9),
        ("ppo.hidden", "64 32", (64, 32)),
        ("scale", "0.5 0.5 0.1", (0.5, 0.5, 0.1)),
        ("bonus_form", "potential", "potential"),
    ],
)
def test_a_value_is_read_as_its_field_wants_it(name, text, value):
    read = sweep.read_value(name, text)
    assert read == value and type(read) is type(value)


WRONG = {
    "unknown problem": ("--problems maze5", "Did you mean 'maze4'"),
    "unknown agent": ("--problems tiger --agents bop", "Did you mean 'bpo'"),
    "unknown setting": ("--problems tiger --set ppo.stepps=3", "Did you mean 'ppo.steps'"),
    "fixed by the sweep": ("--problems tiger --set agent=bpo", "no setting 'agent'"),
    "a bad value": ("--problems tiger --set ppo.worlds=1.5", "'1.5' is not a value"),
    "no value": ("--problems tiger --set ppo.worlds", "NAME=VALUE"),
    "set twice": ("--problems tiger --set ppo.steps=1 --set ppo.steps=2", "twice"),
    "what cannot be trained": ("--problems tiger --set ppo.minibatches=8,7", "equal minibatches"),
    "no seeds": ("--problems tiger --seeds 0", "--seeds must be at least 1"),
    "no workers": ("--problems tiger --workers 0", "--workers must be at least 1"),
    "options without a cluster": (
        "--problems tiger --cluster-set timeout_min=5",
        "needs --cluster",
    ),
    "a bad option": ("--problems tiger --cluster local --cluster-set tiemout=5", "tiemout"),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_told_before_anything_starts(name, tmp_path):
    words, sentence = WRONG[name]
    with pytest.raises(UserError) as told:
        command(tmp_path / "out", *words.split()).run()
    assert sentence in str(told.value)
    assert not list(tmp_path.glob("out/*-seed*"))


def test_a_folder_with_another_run_is_refused(tmp_path):
    jobs = sweep.plan(command(tmp_path, "--problems", "tiger", "--seeds", "1"))
    other = replace(jobs[0].experiment, bonus=0.5)
    jobs[0].path.mkdir(parents=True)
    runs.begin(runs.Run(other, 0, 1, jobs[0].folder))
    with pytest.raises(UserError, match="another run"):
        sweep.plan(command(tmp_path, "--problems", "tiger", "--seeds", "1"))


def test_without_submitit_it_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(UserError, match=r"seerax\[slurm\]"):
        workers.import_submitit()


# ---- who does it -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Errand:
    """What a worker takes for a job, without any training."""

    name: str
    path: Path

    def finished(self) -> bool:
        return (self.path / self.name).exists()

    def __call__(self) -> None:
        if self.name == "mistaken":
            raise UserError("no such thing")
        if self.name == "killed":
            os.kill(os.getpid(), 9)
        if self.name == "endless":
            self.wait()
        (self.path / self.name).write_text(json.dumps(sorted(os.sched_getaffinity(0))))

    def wait(self) -> None:
        (self.path / "waiting").write_text("")
        try:
            time.sleep(1000)
        except KeyboardInterrupt:
            (self.path / "saved").write_text("")
            raise


def test_each_worker_has_a_core_of_its_own_and_failures_stop_no_other(tmp_path):
    jobs = [Errand(name, tmp_path) for name in ("killed", "last")]
    ended = [event for event in workers.here(jobs, 2, tmp_path) if event]
    told = {event.job.name: event.failure for event in ended}
    assert told["last"] is None
    assert "exit code -9" in told["killed"]
    (core,) = json.loads((tmp_path / "last").read_text())
    assert core in devices.cores()


def test_stopped_workers_save_and_those_that_wait_never_start(tmp_path):
    crew = workers.here([Errand("endless", tmp_path), Errand("second", tmp_path)], 1, tmp_path)
    for _ in crew:
        if (tmp_path / "waiting").exists():
            break
    crew.close()
    assert (tmp_path / "saved").exists() and not (tmp_path / "second").exists()


def test_a_cluster_does_the_same_through_submitit(tmp_path):
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # its processes cannot import tests
    executor = workers.cluster("local", tmp_path / "jobs", {"timeout_min": 5})
    jobs = [Errand("first", tmp_path), Errand("mistaken", tmp_path)]
    told = {event.job.name: event.failure for event in workers.on_cluster(jobs, executor) if event}
    assert told["first"] is None and (tmp_path / "first").exists()
    assert "no such thing" in told["mistaken"]


def test_a_job_whose_time_is_up_goes_back_into_the_queue(tmp_path):
    (job,) = sweep.plan(command(tmp_path, "--problems", "tiger", "--seeds", "1"))
    again = job.checkpoint()
    assert again.function is job and again.args == ()


# ---- the whole ---------------------------------------------------------------------------------------------------


def test_a_sweep_trains_sums_up_and_when_repeated_does_only_what_is_missing(tmp_path, capsys):
    words = [
        "--problems",
        "tiger",
        "--agents",
        "bpo",
        "--seeds",
        "2",
        "--workers",
        "2",
        "--set",
        "ppo.steps=512",
    ]
    asked = command(tmp_path, *words, *sets(*TINY.split()))
    broken = sweep.plan(asked)[1]
    broken.folder.checkpoints.folder.mkdir(parents=True)
    runs.begin(runs.Run(broken.experiment, broken.seed, 1, broken.folder))
    broken.folder.checkpoints.folder.mkdir()
    broken.folder.checkpoints.manifest(1).write_text("not a checkpoint")
    with pytest.raises(UserError, match="1 of 2 runs failed"):
        asked.run()
    assert (
        "checkpoint" in json.loads((tmp_path / "summary.json").read_text())["failed"][broken.name]
    )
    assert json.loads((tmp_path / "summary.json").read_text())["rows"][0]["ci95"] is None
    evaluation = json.loads((tmp_path / "tiger-bpo-seed0" / "evaluation.json").read_text())
    evaluation["bpo"]["mean"] += 2.0
    files.write_json(broken.folder.evaluation, evaluation)  # as if it had been trained meanwhile
    capsys.readouterr()
    asked.run()
    said = capsys.readouterr()
    assert "2 of 2 runs are finished already" in said.err
    (row,) = json.loads((tmp_path / "summary.json").read_text())["rows"]
    assert (row["problem"], row["agent"], row["seeds"]) == ("tiger", "bpo", 2)
    assert row["mean"] == pytest.approx(evaluation["bpo"]["mean"] - 1.0)
    np.testing.assert_allclose(
        np.diff(row["ci95"]), 2 * 12.7062, rtol=1e-5
    )  # t(0.975, 1) x standard error 1
    assert (tmp_path / "summary.md").read_text().splitlines()[2] in said.out


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    """One that has ended and that nobody asked about does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_a_stopped_sweep_leaves_nobody_and_the_same_command_finishes_it(tmp_path):
    words = [
        "sweep",
        "--out",
        str(tmp_path),
        "--problems",
        "tree",
        "--agents",
        "brpo",
        "--seeds",
        "1",
    ]
    words += ["--workers", "1", *sets("ppo.steps=256000", *TINY.split())]
    asked = [str(Path(sys.executable).parent / "seerax"), *words]
    (job,) = sweep.plan(cli.command_line(words))
    process = subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(
            lambda: sweep.steps_done(job) > 0 or process.poll() is not None, "it never trained"
        )
        helpers = children(process.pid)
        process.terminate()
        _, said = process.communicate(timeout=100)
    finally:
        process.kill()
    assert process.returncode == 143 and "The same command" in said and "Traceback" not in said
    assert helpers
    wait_until(lambda: not any(map(alive, helpers)), "a worker is left", 10)
    (saved,) = job.folder.checkpoints.numbers()
    assert 128 * saved == sweep.steps_done(job) < job.steps
    completed = subprocess.run(asked, capture_output=True, text=True, timeout=120)
    assert completed.returncode == 0, completed.stderr
    assert f"iteration {saved}." in (tmp_path / "logs" / f"{job.name}.log").read_text()
    assert job.finished() and sweep.steps_done(job) == job.steps
    assert json.loads((tmp_path / "summary.json").read_text())["rows"][0]["seeds"] == 1


def test_steps_done_are_those_of_the_last_whole_line(tmp_path):
    (job,) = sweep.plan(command(tmp_path, "--problems", "tiger", "--seeds", "1"))
    assert sweep.steps_done(job) == 0
    job.path.mkdir()
    job.folder.metrics.write_text('{"steps": 1}\n{"steps": 20}\n{"steps": 3')
    assert sweep.steps_done(job) == 20
    job.folder.evaluation.write_text("{}")
    assert sweep.steps_done(job) == job.steps
