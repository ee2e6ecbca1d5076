"""Carry out the plan: train, measure on fresh episodes, keep each result; what is kept is not done again."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from seerax import commands, experiments, problems, rollout, runs
from seerax.advice import Clairvoyant, follow_advice
from seerax.compute import devices
from seerax.core import BeliefMDP, Policy
from seerax.errors import UserError, writing
from seerax.paper import places, policies, report
from seerax.paper.plan import BUDGETS, PLAN, Budget, Entry, chosen
from seerax.paper.rules import told
from seerax.ppo import Progress
from seerax.problems import doors, maze
from seerax.progress import SweepBar
from seerax.rollout import Evaluation
from seerax.system import files, pytrees
from seerax.system.signals import Stopped

if TYPE_CHECKING:
    from seerax import cli

Result = dict[str, Any]
Report = Callable[[Progress], None]
Player = tuple[BeliefMDP, Policy | Clairvoyant]


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
        """Is there once the training is complete. Checkpoints may then go."""
        return self.folder.path / "trained.json"

    def last_policy(self, seed: int) -> Path:
        """Where learning led, be it better or worse than the best policy on the way."""
        return self.folder.path / f"last-seed{seed}.safetensors"

    @property
    def run(self) -> runs.Run:
        return runs.Run(self.entry.experiment(self.budget), 0, self.seeds, self.folder)

    def mdp(self) -> BeliefMDP:
        return self.run.experiment.mdp() if self.entry.learns else problems.make(self.entry.problem)

    @property
    def steps(self) -> int:
        """Of all seeds together."""
        ppo = self.run.experiment.ppo
        return ppo.iterations * ppo.batch * self.seeds if self.entry.learns else 0

    def config(self) -> Result:
        about = (
            self.run.config()
            if self.entry.learns
            else {"problem": self.entry.problem, "agent": self.entry.agent}
        )
        return as_read({**about, "seed": 0, "seeds": self.seeds, "episodes": self.entry.episodes})

    def kept_config(self) -> Result | None:
        """That of the result, or else of the training that was begun."""
        if self.result.exists():
            return files.read_json(self.result).get("config", {})
        if self.folder.config.exists():
            return {**self.folder.read_config(), "episodes": self.entry.episodes}
        return None

    def differs(self) -> str:
        """How what is kept differs from what is asked for, in words."""
        kept = self.kept_config()
        return "" if kept is None else differences(kept, self.config())

    def done(self) -> bool:
        return self.result.exists() and not self.differs()


def as_read(config: Result) -> Result:
    """As it comes back from a file: JSON knows lists where we have tuples."""
    return json.loads(json.dumps(config))


def differences(before: Result, now: Result) -> str:
    changed = experiments.varied(before, now)
    return ", ".join(f"{name} was {old} and is {new}" for name, (old, new) in changed.items())


# ---- the command -------------------------------------------------------------------------------------------------


def reproduce(command: cli.Reproduce) -> None:
    """Whatever is kept and has the present settings is only drawn."""
    budget = asked_budget(command)
    tasks = [Task(entry, budget) for entry in chosen(command.only)]
    devices.prepare()
    with writing(budget.results):
        budget.results.mkdir(parents=True, exist_ok=True)
    outdated = (
        {} if command.redo else {task.name: words for task in tasks if (words := task.differs())}
    )
    todo = [task for task in tasks if task.name not in outdated and not task.done()]
    try:
        failed = carry_out(todo, len(tasks) - len(todo))
    except Stopped:
        left = sum(not task.done() for task in todo)
        commands.say(
            f"Stopped, {left} still to do; what was begun is saved. Go on with: {again(command)}"
        )
        raise
    conclude(budget)
    for name, words in outdated.items():
        commands.say(
            f"Kept as it was, though the settings have changed: {name} ({words}). --redo trains it anew."
        )
    if failed:
        raise UserError(
            f"{len(failed)} of {len(tasks)} failed, {', '.join(failed)}; the same command tries again."
        )


def asked_budget(command: cli.Reproduce) -> Budget:
    budget = BUDGETS[command.budget]
    if command.seeds is None:
        return budget
    runs.checked_seed(0, command.seeds)
    return replace(budget, seeds=command.seeds, more_seeds={})


def again(command: cli.Reproduce) -> str:
    words = ["seerax", "reproduce", *(["--only", *command.only] if command.only else [])]
    words += ["--seeds", str(command.seeds)] if command.seeds is not None else []
    words += ["--budget", command.budget] if command.budget != "full" else []
    return shlex.join(words + (["--redo"] if command.redo else []))


def carry_out(tasks: list[Task], done: int) -> list[str]:
    """One after another; who failed. A failing one stops no other."""
    total = sum(task.steps for task in tasks)
    already = sum(map(steps_done, tasks))
    failed: list[str] = []
    passed = 0
    with SweepBar(commands.err, done + len(tasks), total, already) as bar:
        for number, task in enumerate(tasks, done):
            show = shown(bar, task, number, len(failed), passed)
            try:
                result = measured(task, show, bar.tell)
                with writing(task.result):
                    files.write_json(task.result, result)
                shutil.rmtree(task.folder.checkpoints.folder, ignore_errors=True)
                bar.tell(f"finished  {task.name}: {told(result['evaluation'])}")
            except UserError as mistake:
                failed.append(task.name)
                bar.tell(f"failed    {task.name}: {mistake}")
            passed += task.steps
    return failed


def shown(bar: SweepBar, task: Task, done: int, failed: int, passed: int) -> Report:
    """The whole plan's progress, with the present entry's latest held-out return."""
    returned = ""
    seeds, steps = task.seeds, task.steps

    def show(progress: Progress) -> None:
        nonlocal returned
        if progress.held_out is not None:
            returned = f", return {progress.held_out.mean():.1f}"
        now = f"{task.name}: {100 * progress.steps * seeds / steps:.0f} %{returned}"
        bar.show(done, failed, passed + progress.steps * seeds, now)

    bar.show(done, failed, passed + steps_done(task), task.name)
    return show


def steps_done(task: Task) -> int:
    """Of a training that goes on; one that begins anew has none."""
    ours = task.entry.learns and begun(task)
    return task.folder.steps_done() * task.seeds if ours else 0


# ---- train -------------------------------------------------------------------------------------------------------


def begun(task: Task) -> bool:
    """With the very settings that are asked for."""
    return task.folder.config.exists() and task.folder.read_config() == as_read(task.run.config())


def train(task: Task, show: Report, say: Callable[[str], None]) -> None:
    """To the end, from wherever it was cut; other settings than ours give way."""
    ours = begun(task)
    if ours and task.trained.exists():
        return
    progress = runs.train(
        task.run, show, resume=ours, overwrite=not ours and task.folder.config.exists(), say=say
    )
    for i, seed in enumerate(task.run.seed_numbers):
        params = jax.tree.map(lambda leaf, i=i: leaf[i], progress.train_state.params)
        runs.save_policy(
            task.last_policy(seed),
            task.run.experiment,
            params,
            {"seed": seed, "steps": progress.steps},
        )
    files.write_json(task.trained, {"seconds": task.folder.rows()[-1]["seconds"]})


# ---- measure -----------------------------------------------------------------------------------------------------


def measured(task: Task, show: Report, say: Callable[[str], None]) -> Result:
    """What is kept of an entry. A learned agent's seeds play different episodes, a baseline plays all of them."""
    learns = task.entry.learns
    if learns:
        train(task, show, say)
    parts = played(task, players(task))
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
        "extra": extra(task, whole),
        "training_seconds": files.read_json(task.trained)["seconds"] if learns else 0.0,
        "cores": len(devices.cores()),
        "versions": runs.versions(),
        "budget": task.budget.name,
    }


def played(task: Task, contestants: Iterator[Player]) -> list[Evaluation]:
    """Each seed on fresh episodes of its own."""
    return [
        rollout.evaluate(runs.evaluation_key(seed), mdp, policy, task.entry.episodes)
        for seed, (mdp, policy) in enumerate(contestants)
    ]


def players(task: Task) -> Iterator[Player]:
    """One for each seed."""
    if task.entry.learns:
        yield from learned(task, task.folder.policy)
    else:
        yield from [baseline(task.entry)] * task.seeds


def learned(task: Task, file: Callable[[int], Path]) -> Iterator[Player]:
    ppo = task.run.experiment.trainer()
    yield from ((ppo.mdp, runs.load_params(ppo, file(seed))) for seed in task.run.seed_numbers)


def baseline(entry: Entry) -> Player:
    if entry.agent == "better_sensing":
        return maze.maze10_better_sensing(), follow_advice
    return commands.baseline(problems.make(entry.problem), entry.agent)


def curves(task: Task) -> Iterator[Result]:
    """Held-out returns while learning, and that of the policy which was returned."""
    for seed, (steps, held_out) in zip(task.run.seed_numbers, task.folder.curves(), strict=True):
        returned = pytrees.read_about(task.folder.policy(seed))["held_out"]
        yield {
            "seed": seed,
            "steps": steps.astype(int).tolist(),
            "held_out": held_out.tolist(),
            "returned": returned,
        }


def extra(task: Task, whole: Evaluation) -> Result:
    """Where one can sense: crashes into doors, where learning led, and when and where the best seed's policy senses."""
    if task.entry.problem not in problems.WITH_SENSING:
        return {}
    problem = task.mdp().problem
    found = crashes(problem, whole)
    if task.entry.learns:
        last = rollout.pool_seeds(played(task, learned(task, task.last_policy)))
        found["at_the_end"] = {**last.summary(), **crashes(problem, last)}
    best = policies.best(task.folder) if task.entry.mapped else None
    return {**found, "sensing": places.measured(best)} if best else found


def crashes(problem: Any, whole: Evaluation) -> Result:
    """Of Door4, steps in touch with a closed door per episode, and the share of episodes without any."""
    if not isinstance(problem, doors.Doors):
        return {}
    assert whole.sensed is not None and whole.success is not None
    counts = doors.crashes(problem, whole.returns, whole.sensed, whole.success)
    counted = replace(whole, returns=counts)
    crashed = {"mean": counted.mean, "ci95": list(counted.interval())}
    return {"crashes": crashed, "crash_free": float((counts == 0).mean())}


# ---- conclude ----------------------------------------------------------------------------------------------------


def kept(budget: Budget) -> dict[str, Result]:
    """Every result there is, in the plan's order."""
    tasks = [Task(entry, budget) for entry in PLAN.values()]
    return {task.name: files.read_json(task.result) for task in tasks if task.result.exists()}


def conclude(budget: Budget) -> None:
    """The policies that come with seerax, and pages, pictures and films of all results there are."""
    results = kept(budget)
    if budget.name == "full":
        policies.ship(results, budget.runs)
    for path in report.write(results, budget):
        commands.out.print(f"{path}")
