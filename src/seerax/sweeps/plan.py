"""The plan of a sweep: every run of problems x agents x settings x seeds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from seerax import problems, runs
from seerax.agents import find_agent
from seerax.compute import devices
from seerax.errors import UserError, unknown
from seerax.experiments import Experiment
from seerax.ppo import Progress
from seerax.runs import training
from seerax.settings import settings
from seerax.sweeps import submitit

Alternatives = dict[str, list[tuple[str, Any]]]  # by the setting's name: (as it was written, value)


@dataclass(frozen=True)
class Job:
    """One run of a sweep. Called, it trains to the end, from its checkpoint if there is one."""

    experiment: Experiment
    setting: str  # what was set, in words
    seed: int
    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def folder(self) -> runs.RunFolder:
        return runs.RunFolder(self.path)

    @property
    def run(self) -> runs.Run:
        return runs.Run(self.experiment, self.seed, 1, self.folder)

    @property
    def steps(self) -> int:
        return self.run.total_steps

    @property
    def steps_done(self) -> int:
        return self.steps if self.finished() else self.folder.steps_done()

    def finished(self) -> bool:
        return self.folder.evaluation.exists()

    def __call__(self) -> None:
        devices.prepare()
        resume = self.folder.config.exists()
        progress = training.train(self.run, report=print_evaluated, resume=resume, say=print)
        training.conclude(self.run, progress)

    def checkpoint(self) -> Any:
        """Returns what submitit puts back into the queue when the job's time is up."""
        return submitit.module().helpers.DelayedSubmission(self)


def print_evaluated(progress: Progress) -> None:
    """Writes a line to the worker's log whenever held-out episodes were played."""
    if progress.evaluated:
        print(progress, flush=True)


@dataclass(frozen=True)
class Plan:
    """What a sweep trains."""

    problems: tuple[str, ...]
    agents: tuple[str, ...]
    seed: int
    seeds: int
    out: Path
    settings: Alternatives = field(default_factory=dict)

    def jobs(self) -> list[Job]:
        """Returns every run, seeds last; all mistakes surface before anything starts."""
        if self.seeds < 1:
            raise UserError(f"The number of seeds must be at least 1, not {self.seeds}.", "seeds")
        for agent in self.agents:
            find_agent(agent)
        for problem in self.problems:
            if ":" not in problem and problem not in problems.PROBLEMS:
                raise unknown("problem", problem, problems.PROBLEMS)
        jobs = [job for asked in self._experiments() for job in self._of_each_seed(*asked)]
        for job in jobs:
            refuse_another_run(job)
        return jobs

    def _experiments(self) -> Iterator[tuple[Experiment, str]]:
        """Yields each experiment, and in words those of its settings that differ between
        experiments.
        """
        varied = {name for name, values in self.settings.items() if len(values) > 1}
        choices = list(itertools.product(*self.settings.values()))
        pairs = itertools.product(dict.fromkeys(self.problems), dict.fromkeys(self.agents))
        for problem, agent in pairs:
            for chosen in choices:
                named = list(zip(self.settings, chosen, strict=True))
                values = {name: value for name, (_, value) in named}
                experiment = with_settings(settings(problem, agent), values)
                experiment.trainer()
                words = [f"{name}={text}" for name, (text, _) in named if name in varied]
                yield experiment, ", ".join(words)

    def _of_each_seed(self, experiment: Experiment, setting: str) -> list[Job]:
        words = [
            experiment.problem.replace(":", "-"),
            experiment.agent,
            *setting.replace(" ", "_").split(",_"),
        ]
        name = "-".join(word for word in words if word)
        seeds = range(self.seed, self.seed + self.seeds)
        return [Job(experiment, setting, seed, self.out / f"{name}-seed{seed}") for seed in seeds]


def with_settings(experiment: Experiment, values: dict[str, Any]) -> Experiment:
    """Returns the experiment with some settings changed; `ppo.` leads the names of the learner's."""
    for name, value in values.items():
        if name.startswith("ppo."):
            ppo = replace(experiment.ppo, **{name.removeprefix("ppo."): value})
            experiment = replace(experiment, ppo=ppo)
        else:
            experiment = replace(experiment, **{name: value})
    return experiment


def refuse_another_run(job: Job) -> None:
    if job.folder.config.exists():
        run = runs.reopen(job.path)
        if (run.experiment, run.seed, run.seeds) != (job.experiment, job.seed, 1):
            raise UserError(
                f"{job.path} holds another run than the one asked for; choose another folder.",
                "out",
            )
