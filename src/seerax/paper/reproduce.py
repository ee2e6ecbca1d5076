"""Carries out the plan: trains, measures on fresh episodes and keeps each result."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from seerax import experiments, problems, rollout, runs
from seerax.advice import follow_advice
from seerax.compute import devices
from seerax.errors import UserError, writing
from seerax.keys import checked_seed, evaluation_key
from seerax.numerics.trees import row
from seerax.paper import policies, report, sensing
from seerax.paper.plan import BUDGETS, PLAN, Budget, Entry, chosen
from seerax.paper.results import Curve, Extra, Result
from seerax.paper.rules import told
from seerax.players import Player, baseline
from seerax.ppo import Progress, Trainer
from seerax.problems import doors, maze
from seerax.rollout import Evaluation
from seerax.runs import training
from seerax.runs.policies import load_params
from seerax.system import files, pytrees

Config = dict[str, Any]  # of an entry, as plain data
Report = Callable[[Progress], None]


@dataclass(frozen=True)
class Task:
    """An entry of the plan at a budget: its run, and where its result is kept."""

    entry: Entry
    budget: Budget

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def seeds(self) -> int:
        return self.budget.seeds_of(self.entry.problem, self.entry.agent)

    @property
    def result(self) -> Path:
        return self.budget.results / f"{self.name}.json"

    @property
    def folder(self) -> runs.RunFolder:
        return runs.RunFolder(self.budget.runs / self.name)

    @property
    def trained(self) -> Path:
        """Returns the file that exists once the training is complete; checkpoints may then go."""
        return self.folder.path / "trained.json"

    def last_policy(self, seed: int) -> Path:
        """Returns the file of the last policy, which may be worse than the best one on the way."""
        return self.folder.path / f"last-seed{seed}.safetensors"

    @property
    def run(self) -> runs.Run:
        return runs.Run(self.entry.experiment(self.budget), 0, self.seeds, self.folder)

    @property
    def steps(self) -> int:
        """Returns the environment steps of all seeds together."""
        return self.run.total_steps * self.seeds if self.entry.learns else 0

    def config(self) -> Config:
        """Returns what the result depends on, as plain data."""
        about = {"problem": self.entry.problem, "agent": self.entry.agent}
        if self.entry.learns:
            about = self.run.config()
        return as_read({**about, "seed": 0, "seeds": self.seeds, "episodes": self.entry.episodes})

    def kept_config(self) -> Config | None:
        """Returns the config of the result, or else of the training that was begun."""
        if self.result.exists():
            return files.read_json(self.result).get("config", {})
        if self.folder.config.exists():
            return {**self.folder.read_config(), "episodes": self.entry.episodes}
        return None

    def differs(self) -> str:
        """Returns in words how what is kept differs from what is asked for."""
        kept = self.kept_config()
        return "" if kept is None else differences(kept, self.config())

    def done(self) -> bool:
        """True if there is a result with the present settings."""
        return self.result.exists() and not self.differs()


def as_read(config: Config) -> Config:
    """Returns a config as it comes back from a file: JSON has lists instead of tuples."""
    return json.loads(json.dumps(config))


def differences(before: Config, now: Config) -> str:
    """Returns in words which settings have changed."""
    changed = experiments.varied(before, now)
    return ", ".join(f"{name} was {old} and is {new}" for name, (old, new) in changed.items())


# ---- what is asked for ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """Which entries to reproduce, and how thoroughly."""

    only: tuple[str, ...] = ()
    seeds: int | None = None
    budget_name: str = "full"
    redo: bool = False

    @cached_property
    def budget(self) -> Budget:
        budget = BUDGETS[self.budget_name]
        if self.seeds is None:
            return budget
        checked_seed(0, self.seeds)
        return replace(budget, seeds=self.seeds, more_seeds={})

    @cached_property
    def tasks(self) -> list[Task]:
        return [Task(entry, self.budget) for entry in chosen(self.only)]

    @cached_property
    def outdated(self) -> dict[str, str]:
        """Returns what is kept though it was made with other settings: by name, how they differ."""
        if self.redo:
            return {}
        return {task.name: words for task in self.tasks if (words := task.differs())}

    def todo(self) -> list[Task]:
        """Returns the tasks to do, and creates the folder of results."""
        tasks = [task for task in self.tasks if task.name not in self.outdated and not task.done()]
        with writing(self.budget.results):
            self.budget.results.mkdir(parents=True, exist_ok=True)
        return tasks


class Bar(Protocol):
    """Shows the progress of several trainings."""

    def tell(self, line: str) -> None: ...
    def show(self, done: int, failed: int, steps: int, now: str = "") -> None: ...


def carry_out(tasks: list[Task], done: int, bar: Bar) -> list[str]:
    """Carries out one task after another, and returns which failed; a failure stops no other."""
    failed: list[str] = []
    passed = 0
    for number, task in enumerate(tasks, done):
        show = shown(bar, task, number, len(failed), passed)
        try:
            result = measured(task, show, bar.tell)
            with writing(task.result):
                files.write_json(task.result, result)
            shutil.rmtree(task.folder.checkpoints.folder, ignore_errors=True)
            bar.tell(f"finished  {task.name}: {told(result['evaluation'])}")
        except UserError as error:
            failed.append(task.name)
            bar.tell(f"failed    {task.name}: {error}")
        passed += task.steps
    return failed


def shown(bar: Bar, task: Task, done: int, failed: int, passed: int) -> Report:
    """Returns a report that shows the whole plan's progress and the entry's latest return."""
    returned = ""
    seeds = task.seeds
    steps = task.steps

    def show(progress: Progress) -> None:
        nonlocal returned
        if progress.held_out is not None:
            returned = f", return {progress.held_out.mean():.1f}"
        now = f"{task.name}: {100 * progress.steps * seeds / steps:.0f} %{returned}"
        bar.show(done, failed, passed + progress.steps * seeds, now)

    bar.show(done, failed, passed + steps_done(task), task.name)
    return show


def steps_done(task: Task) -> int:
    """Returns the steps done of a training that goes on; one that begins anew has none."""
    ours = task.entry.learns and begun(task)
    return task.folder.steps_done() * task.seeds if ours else 0


# ---- train ---------------------------------------------------------------------------------------


def begun(task: Task) -> bool:
    """True if a training with the very settings that are asked for was begun."""
    return task.folder.config.exists() and task.folder.read_config() == as_read(task.run.config())


def train(task: Task, trainer: Trainer, show: Report, say: Callable[[str], None]) -> None:
    """Trains to the end, from wherever it was cut; a training with other settings is replaced."""
    ours = begun(task)
    if ours and task.trained.exists():
        return
    overwrite = not ours and task.folder.config.exists()
    progress = training.train(task.run, trainer, show, resume=ours, overwrite=overwrite, say=say)
    for i, seed in enumerate(task.run.seed_numbers):
        about = {**trainer.about, "seed": seed, "steps": progress.steps}
        last = trainer.learner.policy(row(progress.train_state.params, i), about=about)
        last.save(task.last_policy(seed))
    files.write_json(task.trained, {"seconds": task.folder.rows()[-1]["seconds"]})


# ---- measure -------------------------------------------------------------------------------------


def measured(task: Task, show: Report, say: Callable[[str], None]) -> Result:
    """Trains and measures an entry, and returns what is kept of it.

    Every seed of a learned agent plays its own episodes; a baseline plays those of all seeds.
    """
    learns = task.entry.learns
    trainer = task.run.experiment.trainer() if learns else None
    if trainer:
        train(task, trainer, show, say)
    parts = played(task, players(task, trainer))
    whole = rollout.pool_seeds(parts) if learns else replace(rollout.pool_seeds(parts), seeds=1)
    return {
        "name": task.name,
        "problem": task.entry.problem,
        "agent": task.entry.agent,
        "config": task.config(),
        "seeds": task.seeds,
        "episodes": task.entry.episodes,
        "curves": list(curves(task)) if learns else [],
        "per_seed": [part.summary() for part in parts],
        "evaluation": whole.summary(),
        "extra": extra(task, trainer, whole),
        "training_seconds": files.read_json(task.trained)["seconds"] if learns else 0.0,
        "cores": len(devices.cores()),
        "versions": runs.versions(),
        "budget": task.budget.name,
    }


def played(task: Task, contestants: Iterator[Player]) -> list[Evaluation]:
    """Evaluates each seed on fresh episodes of its own."""
    return [
        rollout.evaluate(evaluation_key(seed), mdp, policy, task.entry.episodes)
        for seed, (mdp, policy) in enumerate(contestants)
    ]


def players(task: Task, trainer: Trainer | None) -> Iterator[Player]:
    """Yields one player for each seed."""
    if trainer:
        yield from learned(task, trainer, task.folder.policy)
    else:
        yield from [baseline_of(task.entry)] * task.seeds


def learned(task: Task, trainer: Trainer, file: Callable[[int], Path]) -> Iterator[Player]:
    """Yields each seed's policy, read from the file that `file` names for it."""
    for seed in task.run.seed_numbers:
        yield Player(trainer.mdp, load_params(trainer, file(seed)))


def baseline_of(entry: Entry) -> Player:
    """Returns who plays an entry without learning."""
    if entry.agent == "better_sensing":
        return Player(maze.maze10_better_sensing(), follow_advice)
    return baseline(problems.make(entry.problem), entry.agent)


def curves(task: Task) -> Iterator[Curve]:
    """Yields each seed's held-out returns while learning, and that of the returned policy."""
    for seed, (steps, held_out) in zip(task.run.seed_numbers, task.folder.curves(), strict=True):
        returned = pytrees.read_about(task.folder.policy(seed))["held_out"]
        yield {
            "seed": seed,
            "steps": steps.astype(int).tolist(),
            "held_out": held_out.tolist(),
            "returned": returned,
        }


def extra(task: Task, trainer: Trainer | None, whole: Evaluation) -> Extra:
    """Returns what is counted besides the return, on problems with sensing.

    These are crashes into doors, the last policies, and when and where the best seed senses.
    """
    if task.entry.problem not in problems.WITH_SENSING:
        return {}
    problem = trainer.mdp.problem if trainer else problems.make(task.entry.problem).problem
    found: Any = crashes(problem, whole)
    if trainer:
        last = rollout.pool_seeds(played(task, learned(task, trainer, task.last_policy)))
        found["at_the_end"] = {**last.summary(), **crashes(problem, last)}
    best = policies.best(task.folder) if task.entry.mapped else None
    return {**found, "sensing": sensing.measured(best)} if best else found


def crashes(problem: Any, whole: Evaluation) -> dict[str, Any]:
    """Returns crashes per episode on Door4, and the share of episodes without any.

    A crash is a step in touch with a closed door.
    """
    if not isinstance(problem, doors.Doors):
        return {}
    assert whole.sensed is not None and whole.success is not None
    counts = doors.crashes(problem, whole.returns, whole.sensed, whole.success)
    counted = replace(whole, returns=counts)
    crashed = {"mean": counted.mean, "ci95": list(counted.interval())}
    return {"crashes": crashed, "crash_free": float((counts == 0).mean())}


# ---- conclude ------------------------------------------------------------------------------------


def kept(budget: Budget) -> dict[str, Result]:
    """Returns every result there is, in the plan's order."""
    found: dict[str, Any] = {}
    for task in [Task(entry, budget) for entry in PLAN.values()]:
        if task.result.exists():
            found[task.name] = files.read_json(task.result)
    return found


def conclude(budget: Budget) -> Iterator[Path]:
    """Ships the best policies, and writes pages, pictures and films of all results there are."""
    results = kept(budget)
    if budget.name == "full":
        policies.ship(results, budget.runs)
    yield from report.write(results, budget)
