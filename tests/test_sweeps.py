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

from seerax import cli, runs
from seerax.cli.arguments import read_setting
from seerax.compute import devices
from seerax.errors import UserError
from seerax.runs.folder import begin
from seerax.settings import settings
from seerax.sweeps import Job, Plan, submitit, workers
from seerax.system import files

TINY = (
    "ppo.worlds=16",
    "ppo.rollout_length=8",
    "ppo.minibatches=2",
    "ppo.evaluations=2",
    "ppo.evaluation_episodes=16",
    "ppo.hidden=16",
)


def planned(
    out: Path,
    *specs: str,
    problems: tuple[str, ...] = ("tiger",),
    agents: tuple[str, ...] = ("brpo",),
    seeds: int = 1,
) -> list[Job]:
    """The jobs of a sweep, its settings as on the command line."""
    alternatives = dict(read_setting(spec, settings("")) for spec in specs)
    return Plan(problems, agents, 0, seeds, out, alternatives).jobs()


def sets(*specs: str) -> list[str]:
    return [word for spec in specs for word in ("--set", spec)]


# ---- the plan ------------------------------------------------------------------------------------


def test_the_plan_is_the_product(tmp_path):
    specs = ("ppo.steps=1e6,2_000_000", "scale=0.5,1", "ppo.epochs=2")
    problems = ("tiger", "tree")
    jobs = planned(tmp_path, *specs, problems=problems, agents=("brpo", "bpo"), seeds=3)
    assert len(jobs) == len({job.path for job in jobs}) == 2 * 2 * 2 * 2 * 3
    job = jobs[4]
    assert job.name == "tiger-brpo-ppo.steps=1e6-scale=1-seed1"
    ours = settings("tiger")
    ppo = replace(ours.ppo, steps=1_000_000, epochs=2)
    assert job.experiment == replace(ours, scale=1.0, ppo=ppo)
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
    found, ((written, read),) = read_setting(f"{name}={text}", settings(""))
    assert (found, written, read) == (name, text, value) and type(read) is type(value)


WRONG = {
    "unknown problem": ("--problems maze5", "Did you mean 'maze4'"),
    "unknown agent": ("--problems tiger --agents bop", "Did you mean 'bpo'"),
    "unknown setting": ("--problems tiger --set ppo.stepps=3", "Did you mean 'ppo.steps'"),
    "fixed by the sweep": ("--problems tiger --set agent=bpo", "no setting 'agent'"),
    "a bad value": ("--problems tiger --set ppo.worlds=1.5", "'1.5' is not a value"),
    "no value": ("--problems tiger --set ppo.worlds", "NAME=VALUE"),
    "set twice": ("--problems tiger --set ppo.steps=1 --set ppo.steps=2", "twice"),
    "what cannot be trained": ("--problems tiger --set ppo.minibatches=8,7", "equal minibatches"),
    "no seeds": ("--problems tiger --seeds 0", "must be at least 1, not 0. ('seeds',)"),
    "no workers": ("--problems tiger --workers 0", "must be at least 1, not 0. ('workers',)"),
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
        cli.run(["sweep", "--out", str(tmp_path / "out"), *words.split()])
    assert sentence in f"{told.value} {told.value.parameters}"
    assert not list(tmp_path.glob("out/*-seed*"))


def test_a_folder_with_another_run_is_refused(tmp_path):
    (job,) = planned(tmp_path)
    other = replace(job.experiment, bonus=0.5)
    job.path.mkdir(parents=True)
    begin(runs.Run(other, 0, 1, job.folder))
    with pytest.raises(UserError, match="another run"):
        planned(tmp_path)


def test_without_submitit_it_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(UserError, match=r"seerax\[slurm\]"):
        submitit.module()


# ---- who does it ---------------------------------------------------------------------------------


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
    ended = [event for event in workers.run_locally(jobs, 2, tmp_path) if event]
    told = {event.job.name: event.failure for event in ended}
    assert told["last"] is None
    assert "exit code -9" in told["killed"]
    (core,) = json.loads((tmp_path / "last").read_text())
    assert core in devices.cores()


def test_stopped_workers_save_and_those_that_wait_never_start(tmp_path):
    events = workers.run_locally(
        [Errand("endless", tmp_path), Errand("second", tmp_path)], 1, tmp_path
    )
    for _ in events:
        if (tmp_path / "waiting").exists():
            break
    events.close()
    assert (tmp_path / "saved").exists() and not (tmp_path / "second").exists()


def test_a_cluster_does_the_same_through_submitit(tmp_path):
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # its processes cannot import tests
    executor = submitit.executor("local", tmp_path / "jobs", {"timeout_min": 5})
    jobs = [Errand("first", tmp_path), Errand("mistaken", tmp_path)]
    told = {event.job.name: event.failure for event in workers.on_cluster(jobs, executor) if event}
    assert told["first"] is None and (tmp_path / "first").exists()
    assert "no such thing" in told["mistaken"]


def test_a_job_whose_time_is_up_goes_back_into_the_queue(tmp_path):
    (job,) = planned(tmp_path)
    again = job.checkpoint()
    assert again.function is job and again.args == ()


# ---- the whole -----------------------------------------------------------------------------------


def test_a_sweep_trains_sums_up_and_when_repeated_does_only_what_is_missing(tmp_path, seerax):
    specs = ("ppo.steps=512", *TINY)
    words = ["--problems", "tiger", "--agents", "bpo", "--seeds", "2", "--workers", "2"]
    words = ["sweep", "--out", str(tmp_path), *words, *sets(*specs)]
    broken = planned(tmp_path, *specs, agents=("bpo",), seeds=2)[1]
    broken.folder.checkpoints.folder.mkdir(parents=True)
    begin(broken.run)
    broken.folder.checkpoints.folder.mkdir()
    broken.folder.checkpoints.manifest(1).write_text("not a checkpoint")
    code, _, said = seerax(*words)
    assert code == 2 and "1 of 2 runs failed" in said
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert "checkpoint" in summary["failed"][broken.name]
    assert summary["rows"][0]["ci95"] is None
    evaluation = json.loads((tmp_path / "tiger-bpo-seed0" / "evaluation.json").read_text())
    evaluation["bpo"]["mean"] += 2.0
    files.write_json(broken.folder.evaluation, evaluation)  # as if it had been trained meanwhile
    code, shown, said = seerax(*words)
    assert code == 0 and "2 of 2 runs are finished already" in said
    (row,) = json.loads((tmp_path / "summary.json").read_text())["rows"]
    assert (row["problem"], row["agent"], row["seeds"]) == ("tiger", "bpo", 2)
    assert row["mean"] == pytest.approx(evaluation["bpo"]["mean"] - 1.0)
    # t(0.975, 1) x standard error 1
    np.testing.assert_allclose(np.diff(row["ci95"]), 2 * 12.7062, rtol=1e-5)
    assert (tmp_path / "summary.md").read_text().splitlines()[2] in shown


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
    specs = ("ppo.steps=256000", *TINY)
    words = ["--problems", "tree", "--agents", "brpo", "--seeds", "1", "--workers", "1"]
    words = ["sweep", "--out", str(tmp_path), *words, *sets(*specs)]
    asked = [str(Path(sys.executable).parent / "seerax"), *words]
    (job,) = planned(tmp_path, *specs, problems=("tree",))
    process = subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: job.steps_done > 0 or process.poll() is not None, "it never trained")
        helpers = children(process.pid)
        process.terminate()
        _, said = process.communicate(timeout=100)
    finally:
        process.kill()
    assert process.returncode == 143 and "The same command" in said and "Traceback" not in said
    assert helpers
    wait_until(lambda: not any(map(alive, helpers)), "a worker is left", 10)
    (saved,) = job.folder.checkpoints.numbers()
    assert 128 * saved == job.steps_done < job.steps
    completed = subprocess.run(asked, capture_output=True, text=True, timeout=120)
    assert completed.returncode == 0, completed.stderr
    assert f"iteration {saved}." in (tmp_path / "logs" / f"{job.name}.log").read_text()
    assert job.finished() and job.steps_done == job.steps
    assert json.loads((tmp_path / "summary.json").read_text())["rows"][0]["seeds"] == 1


def test_steps_done_are_those_of_the_last_whole_line(tmp_path):
    (job,) = planned(tmp_path)
    assert job.steps_done == 0
    job.path.mkdir()
    job.folder.metrics.write_text('{"steps": 1}\n{"steps": 20}\n{"steps": 3')
    assert job.steps_done == 20
    job.folder.evaluation.write_text("{}")
    assert job.steps_done == job.steps
