"""Many runs: problems x agents x seeds x settings, each in a folder of its own, and one table at the end."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from seerax import commands, experiments, problems, runs, workers
from seerax.agents import AGENTS
from seerax.errors import UserError, unknown
from seerax.experiments import Experiment
from seerax.numerics.statistics import student_interval
from seerax.ppo.config import Config
from seerax.progress import SweepBar
from seerax.system import files
from seerax.system.signals import Stopped
from seerax.workers import Job

if TYPE_CHECKING:
    from seerax import cli


# ---- settings ----------------------------------------------------------------------------------------------------


def whole(text: str) -> int:
    """1000000, 1_000_000 or 1e6."""
    number = float(text)
    if not number.is_integer():
        raise ValueError
    return int(number)


def truth(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def nothing(text: str) -> None:
    if text.lower() != "none":
        raise ValueError


def several(of: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    return lambda text: tuple(of(part) for part in text.split())


READERS: dict[Any, Callable[[str], Any]] = {
    int: whole,
    float: float,
    bool: truth,
    NoneType: nothing,
    str: str,
    tuple[int, ...]: several(whole),
    tuple[float, ...]: several(float),
}


def kinds() -> dict[str, Any]:
    """What can be set, with its type."""
    of_experiment = {
        name: kind for name, kind in get_type_hints(Experiment).items() if name not in FIXED
    }
    return {
        **of_experiment,
        **{f"ppo.{name}": kind for name, kind in get_type_hints(Config).items()},
    }


FIXED = ("problem", "agent", "ppo")


def read_value(name: str, text: str) -> Any:
    kind = kinds()[name]
    options = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    for option in options:
        with contextlib.suppress(ValueError, KeyError):
            return READERS[option](text)
    raise UserError(f"--set {name}={text}: '{text}' is not a value for it.")


def read_setting(spec: str) -> list[tuple[str, str]]:
    """`NAME=VALUE,VALUE` as its alternatives, each checked."""
    name, equals, values = spec.partition("=")
    if not equals or not values:
        raise UserError(f"--set {spec} should read NAME=VALUE or NAME=VALUE,VALUE,...")
    if name not in kinds():
        raise unknown("setting", name, kinds())
    alternatives = list(dict.fromkeys(value.strip() for value in values.split(",")))
    for value in alternatives:
        read_value(name, value)
    return [(name, value) for value in alternatives]


def with_settings(experiment: Experiment, chosen: tuple[tuple[str, str], ...]) -> Experiment:
    for name, text in chosen:
        value = read_value(name, text)
        if name.startswith("ppo."):
            experiment = replace(
                experiment, ppo=replace(experiment.ppo, **{name.removeprefix("ppo."): value})
            )
        else:
            experiment = replace(experiment, **{name: value})
    return experiment


# ---- the plan ----------------------------------------------------------------------------------------------------


def plan(command: cli.Sweep) -> list[Job]:
    """Every run, seeds last, all mistakes told before anything starts."""
    if command.seeds < 1:
        raise UserError(f"--seeds must be at least 1, not {command.seeds}.")
    for agent in command.agents:
        if agent not in AGENTS:
            raise unknown("agent", agent, AGENTS)
    for problem in command.problems:
        if ":" not in problem and problem not in problems.PROBLEMS:
            raise unknown("problem", problem, problems.PROBLEMS)
    names = [spec.partition("=")[0] for spec in command.settings]
    if len(set(names)) < len(names):
        raise UserError(
            "--set names one setting twice; give its values together, NAME=VALUE,VALUE."
        )
    jobs = [
        job
        for experiment, setting in asked(command)
        for job in seeded(command, experiment, setting)
    ]
    for job in jobs:
        refuse_another_run(job)
    return jobs


def asked(command: cli.Sweep) -> Iterator[tuple[Experiment, str]]:
    """Each experiment, and in words those of its settings that differ between experiments."""
    alternatives = [read_setting(spec) for spec in command.settings]
    varied = {values[0][0] for values in alternatives if len(values) > 1}
    choices = list(itertools.product(*alternatives))
    for problem, agent in itertools.product(
        dict.fromkeys(command.problems), dict.fromkeys(command.agents)
    ):
        for chosen in choices:
            experiment = with_settings(experiments.settings(problem, agent), chosen)
            experiment.trainer()
            yield (
                experiment,
                ", ".join(f"{name}={value}" for name, value in chosen if name in varied),
            )


def seeded(command: cli.Sweep, experiment: Experiment, setting: str) -> list[Job]:
    words = [
        experiment.problem.replace(":", "-"),
        experiment.agent,
        *setting.replace(" ", "_").split(",_"),
    ]
    name = "-".join(word for word in words if word)
    seeds = range(command.seed, command.seed + command.seeds)
    return [Job(experiment, setting, seed, command.out / f"{name}-seed{seed}") for seed in seeds]


def refuse_another_run(job: Job) -> None:
    if job.folder.config.exists():
        run = runs.reopen(job.path)
        if (run.experiment, run.seed, run.seeds) != (job.experiment, job.seed, 1):
            raise UserError(
                f"{job.path} holds another run than the one asked for; choose another --out."
            )


# ---- the sweep ---------------------------------------------------------------------------------------------------


def sweep(command: cli.Sweep) -> None:
    """Finished runs are skipped, cut ones continued; a failing one stops no other."""
    jobs = plan(command)
    crew = hire(command, [job for job in jobs if not job.finished()])
    try:
        failures = watch(jobs, crew)
    except Stopped:
        done = sum(job.finished() for job in jobs)
        again = "The same command continues them."
        commands.err.print(
            f"\nStopped: {done} of {len(jobs)} runs are finished, the others saved. {again}"
        )
        raise
    finally:
        crew.close()
    rows = summary(jobs)
    write_summary(command.out, rows, failures)
    print(f"{table(rows)}\nWritten: {command.out / 'summary.json'} and summary.md")
    if failures:
        raise UserError(
            f"{len(failures)} of {len(jobs)} runs failed; the same command tries them again."
        )


def hire(command: cli.Sweep, jobs: list[Job]) -> Any:
    """The generator that carries the jobs out; folders are made here, once no mistake is left."""
    if command.workers is not None and command.workers < 1:
        raise UserError(f"--workers must be at least 1, not {command.workers}.")
    if command.cluster is None and command.cluster_set:
        raise UserError("--cluster-set needs --cluster.")
    executor = command.cluster and workers.cluster(
        command.cluster, command.out / "jobs", cluster_options(command)
    )
    logs = command.out / "logs"
    try:
        logs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"Cannot write to {command.out}: {error.strerror or error}.") from error
    return (
        workers.on_cluster(jobs, executor)
        if executor
        else workers.here(jobs, command.workers, logs)
    )


def cluster_options(command: cli.Sweep) -> dict[str, Any]:
    """`KEY=VALUE` for submitit, numbers as numbers."""
    options: dict[str, Any] = {}
    for spec in command.cluster_set:
        name, equals, value = spec.partition("=")
        if not equals:
            raise UserError(f"--cluster-set {spec} should read KEY=VALUE.")
        options[name] = int(value) if value.isdigit() else value
    return options


def watch(jobs: list[Job], crew: Iterator[workers.Ended | None]) -> dict[str, str]:
    """Show how it goes until all have ended; what failed, and why."""
    failures: dict[str, str] = {}
    ended = [job.finished() for job in jobs].count(True)
    total = sum(job.steps for job in jobs)
    with SweepBar(commands.err, len(jobs), total, sum(map(steps_done, jobs))) as bar:
        if ended:
            bar.tell(f"{ended} of {len(jobs)} runs are finished already.")
        for event in crew:
            if event is not None and event.failure:
                failures[event.job.name] = event.failure
                bar.tell(f"failed    {event.job.name}: {event.failure}")
            elif event is not None:
                bar.tell(f"finished  {event.job.name}")
            ended += event is not None
            bar.show(ended, len(failures), sum(map(steps_done, jobs)))
    return failures


def steps_done(job: Job) -> int:
    return job.steps if job.finished() else job.folder.steps_done()


# ---- the summary -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One problem, agent and setting over all finished seeds. Returns are of fresh episodes."""

    problem: str
    agent: str
    setting: str
    seeds: int
    mean: float
    ci95: tuple[float, float] | None  # over seeds, so of two at least
    success: float | None
    ensemble: float
    clairvoyant: float | None


def summary(jobs: list[Job]) -> list[Row]:
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for job in jobs:
        if job.finished():
            key = (job.experiment.problem, job.experiment.agent, job.setting)
            groups.setdefault(key, []).append(json.loads(job.folder.evaluation.read_text()))
    return [row(*key, results) for key, results in groups.items()]


def row(problem: str, agent: str, setting: str, results: list[dict[str, Any]]) -> Row:
    returns = np.array([result[agent]["mean"] for result in results])

    def average(who: str, what: str) -> float | None:
        values = [result[who][what] for result in results if who in result]
        return float(np.mean(values)) if values and None not in values else None

    return Row(
        problem,
        agent,
        setting,
        len(results),
        float(returns.mean()),
        student_interval(returns) if len(results) > 1 else None,
        average(agent, "success"),
        float(average("ensemble", "mean") or 0.0),
        average("clairvoyant", "mean"),
    )


HEADINGS = (
    "problem",
    "agent",
    "setting",
    "seeds",
    "mean return",
    "95 % interval",
    "success",
    "ensemble",
    "clairvoyant",
)


def cells(row: Row) -> list[str]:
    interval = "-" if row.ci95 is None else f"[{row.ci95[0]:.2f}, {row.ci95[1]:.2f}]"
    clairvoyant = "-" if row.clairvoyant is None else f"{row.clairvoyant:.2f}"
    names = [row.problem, row.agent, row.setting or "-", str(row.seeds)]
    return [
        *names,
        f"{row.mean:.2f}",
        interval,
        commands.share(row.success),
        f"{row.ensemble:.2f}",
        clairvoyant,
    ]


def table(rows: list[Row]) -> str:
    """Markdown, aligned for the eye."""
    body = [list(HEADINGS), *map(cells, rows)]
    widths = [max(len(line[i]) for line in body) for i in range(len(HEADINGS))]
    body.insert(1, ["-" * width for width in widths])
    lines = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write_summary(out: Path, rows: list[Row], failures: dict[str, str]) -> None:
    told = [{f.name: getattr(row, f.name) for f in fields(row)} for row in rows]
    files.write_json(out / "summary.json", {"rows": told, "failed": failures})
    missing = [f"\nFailed: {name}: {reason}" for name, reason in failures.items()]
    files.write_bytes(out / "summary.md", ("\n".join([table(rows), *missing]) + "\n").encode())
