"""A training run and its folder: train, save, resume, load."""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import json
import platform
import shlex
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

import seerax
from seerax import faults, limits, logs
from seerax.checkpoints import Checkpoints, Schedule
from seerax.compute import devices, distributed
from seerax.errors import UserError, one_line, writing
from seerax.experiments import Experiment, experiment_from
from seerax.logs import Log
from seerax.ppo import PPO, LearnedPolicy, Progress
from seerax.ppo.params import Params
from seerax.ppo.play import TrainState
from seerax.system import files, lock, pytrees, signals
from seerax.system.signals import Say

FORMAT = 2  # of run folders and policy files
TRAINING, EVALUATION = 1, 2  # streams of randomness that never meet


def checked_seed(seed: int, count: int = 1) -> int:
    """Seeds outside of 32 bits would be cut, and two of them could be the same."""
    if count < 1:
        raise UserError(f"The number of seeds must be at least 1, not {count}.")
    if not 0 <= seed <= seed + count <= 2**31:
        raise UserError(f"Seeds must lie between 0 and {2**31 - 1}, not from {seed} on.")
    return seed


def training_keys(seed: int, count: int) -> jax.Array:
    seed = checked_seed(seed, count)
    return jax.vmap(lambda s: jax.random.fold_in(jax.random.key(s), TRAINING))(
        seed + np.arange(count)
    )


def evaluation_key(seed: int) -> jax.Array:
    return jax.random.fold_in(jax.random.key(checked_seed(seed)), EVALUATION)


def episode_key(seed: int, episode: int) -> jax.Array:
    """Of one episode of an evaluation."""
    if not 0 <= episode < 2**31:
        raise UserError(f"--episode must lie between 0 and {2**31 - 1}, not {episode}.")
    return jax.random.fold_in(evaluation_key(seed), episode)


@dataclass(frozen=True)
class RunFolder:
    """config.json, versions.json, metrics.jsonl, TensorBoard events, checkpoints, and each seed's best policy."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.json"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def boards(self) -> Path:
        return self.path / "tensorboard"

    @property
    def checkpoints(self) -> Checkpoints:
        return Checkpoints(self.path / "checkpoints")

    @property
    def evaluation(self) -> Path:
        return self.path / "evaluation.json"

    def read_means(self) -> dict[str, float]:
        """Mean returns on fresh episodes, by who played."""
        found = files.read_json(self.evaluation)
        means = {name: row.get("mean") for name, row in found.items() if isinstance(row, dict)}
        return {name: float(mean) for name, mean in means.items() if isinstance(mean, int | float)}

    def policy(self, seed: int) -> Path:
        return self.path / f"policy-seed{seed}.safetensors"

    def policies(self) -> list[Path]:
        return sorted(self.path.glob("policy-seed*.safetensors"))

    def read_config(self) -> dict[str, Any]:
        if not self.config.exists():
            raise UserError(f"{self.path} is not a run folder: it has no config.json.")
        return files.read_json(self.config)

    def curves(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """(steps, held-out returns) of every seed."""
        measured = [row for row in self.rows() if row.get("held_out") is not None]
        seeds = sorted({row["seed"] for row in measured})
        points = [
            [(row["steps"], row["held_out"]) for row in measured if row["seed"] == seed]
            for seed in seeds
        ]
        return [tuple(np.array(each, float).T) for each in points]

    def rows(self) -> list[dict[str, Any]]:
        """One row per seed and iteration."""
        return logs.read_rows(self.metrics)

    def steps_done(self) -> int:
        """Of each seed, as the metrics tell; a line that is just being written does not count."""
        with suppress(OSError, ValueError, IndexError, KeyError), open(self.metrics, "rb") as file:
            file.seek(max(0, file.seek(0, 2) - 4096))
            return json.loads(file.read().decode().rpartition("\n")[0].splitlines()[-1])["steps"]
        return 0


@dataclass(frozen=True)
class Run:
    """One experiment with one or more seeds side by side, and where it is kept."""

    experiment: Experiment
    seed: int
    seeds: int
    folder: RunFolder

    @property
    def seed_numbers(self) -> list[int]:
        return list(range(self.seed, self.seed + self.seeds))

    def config(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self.experiment), "seed": self.seed, "seeds": self.seeds}


# ---- the folder --------------------------------------------------------------------------------------------------


def refuse_taken(run: Run, overwrite: bool = False) -> None:
    """Nothing is written where something else is; an existing run is replaced only if asked."""
    path = run.folder.path
    if path.exists() and not path.is_dir():
        raise UserError(f"{path} exists and is not a run folder; choose another place with --out.")
    if not path.exists() or all(
        entry.name == lock.NAME or files.is_unfinished(entry) for entry in path.iterdir()
    ):
        return
    if overwrite and not run.folder.config.exists():
        raise UserError(f"{path} exists and is not a run folder; choose another place with --out.")
    if not overwrite:
        raise UserError(
            f"{path} exists already: use --resume to continue it, --overwrite to replace it, or --out."
        )


def begin(run: Run) -> None:
    """Whatever was in the folder gives way to the run's config. The lock stays.

    The config goes last and comes first: cut at any moment, it is a run folder or an empty one.
    """
    path = run.folder.path
    with writing(path):
        for entry in sorted(path.iterdir(), key=lambda entry: entry == run.folder.config):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != lock.NAME:
                entry.unlink()
        files.write_json(run.folder.config, run.config())
        files.write_json(path / "versions.json", versions())


def reopen(path: Path, steps: int | None = None) -> Run:
    """An earlier run as its config tells it; more steps may be asked of it."""
    folder = RunFolder(path)
    config = folder.read_config()
    refuse_other_format(folder.config, config.pop("format", None))
    files.refuse_links_out(path)
    seed, seeds = config.pop("seed", None), config.pop("seeds", None)
    if not (isinstance(seed, int) and isinstance(seeds, int)):
        raise UserError(
            f"{folder.config} is not a config of seerax: it lacks a whole seed or number of seeds."
        )
    experiment = experiment_from(config, folder.config)
    if steps is not None:
        experiment = replace(experiment, ppo=replace(experiment.ppo, steps=steps))
    return Run(experiment, seed, seeds, folder)


def refuse_other_format(path: Path, found: Any) -> None:
    if found != FORMAT:
        raise UserError(
            f"{path} has another format ({found}) than this version of seerax reads ({FORMAT})."
        )


def versions() -> dict[str, Any]:
    packages = {
        name: importlib.metadata.version(name)
        for name in ("jax", "jaxlib", "equinox", "optax", "numpy")
    }
    return {
        "seerax": seerax.__version__,
        "python": platform.python_version(),
        **packages,
        **devices.describe(),
    }


# ---- training ----------------------------------------------------------------------------------------------------


def train(
    run: Run,
    report: Callable[[Progress], None] = lambda progress: None,
    resume: bool = False,
    overwrite: bool = False,
    schedule: Schedule = Schedule(),  # noqa: B008
    say: Say = lambda message: None,
) -> Progress:
    """Train to the end, saving as it goes. A signal ends it after a whole iteration, saved, with `stopping.Stopped`."""
    checked_seed(run.seed, run.seeds)
    ppo = run.experiment.trainer()
    limits.check(ppo, run.seeds, run.folder.path)
    with ExitStack() as held:
        distributed.on_main(lambda: claim(held, run, resume, overwrite))
        stop = held.enter_context(distributed.stop(say))
        earlier = load_together(run, ppo, say) if resume else None
        return Session(run, ppo, opened_log(held, run, earlier), schedule).train(
            earlier, report, stop
        )


def claim(held: ExitStack, run: Run, resume: bool, overwrite: bool) -> None:
    """The folder is ours as long as `held` is: continued, or begun afresh."""
    path = run.folder.path
    if not resume:
        refuse_taken(run, overwrite)
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
    held.enter_context(lock.hold(path))
    if not resume:
        refuse_taken(run, overwrite)
        begin(run)
    with writing(path):
        for folder in (path, run.folder.checkpoints.folder):
            files.remove_unfinished(folder)
        files.write_json(run.folder.config, run.config())  # more steps may have been asked of it


def opened_log(held: ExitStack, run: Run, earlier: Progress | None) -> Log | None:
    """Closed with `held`; only the first process has one."""
    if not distributed.is_main():
        return None
    with writing(run.folder.path):
        log = Log(
            run.folder.metrics,
            run.folder.boards,
            run.seed_numbers,
            earlier.steps if earlier else -1,
        )
    held.callback(closed, log)
    return log


def closed(log: Log) -> None:
    with suppress(OSError):  # whatever a checkpoint rests on was synced before it
        log.close()


class Session:
    """One process's share of a run: from its start, or from a checkpoint, to its end or to a signal."""

    def __init__(self, run: Run, ppo: PPO, log: Log | None, schedule: Schedule):
        self.run, self.ppo, self.log, self.schedule = run, ppo, log, schedule
        self.watch = faults.Watch(run.seeds)
        self.saved = (time.monotonic(), 0)  # when, and at which iteration

    def train(
        self, earlier: Progress | None, report: Callable[[Progress], None], stop: signals.Stop
    ) -> Progress:
        progress = earlier
        self.saved = (time.monotonic(), self.number(earlier) if earlier else 0)
        for following in self.ppo.train(training_keys(self.run.seed, self.run.seeds), earlier):
            before, progress = progress, following
            self.record(before, progress)
            report(progress)
            if stop.asked_after(self.number(progress)):
                self.save(progress)
                stop.check()
        assert progress is not None
        self.save(progress)
        stop.check()
        return distributed.allgather(progress)

    def record(self, before: Progress | None, progress: Progress) -> None:
        with writing(self.run.folder.path, self.kept()):
            if self.log is not None:
                self.log.write(progress)
            self.watch.see(progress.metrics)
            if self.watch.hopeless is not None and before is not None:
                self.give_up(before, self.watch.hopeless)
            if progress.held_out is not None:
                save_policies(self.run, distributed.allgather(progress))
            seconds, iterations = (
                time.monotonic() - self.saved[0],
                self.number(progress) - self.saved[1],
            )
            if distributed.broadcast_from_main(self.schedule.due(seconds, iterations)):
                self.save(progress)

    def number(self, progress: Progress) -> int:
        return progress.steps // self.ppo.config.batch

    def save(self, progress: Progress) -> None:
        """Whole and on disk. While updates are being skipped the last good checkpoint stays the last one."""
        number = self.number(progress)
        if number == self.saved[1] or not self.watch.healthy:
            return
        kept = distributed.allgather((progress.train_state, progress.best, progress.best_return))
        if self.log is not None:
            with writing(self.run.folder.path, self.kept()):
                self.log.sync()
                self.run.folder.checkpoints.save(number, kept, {"steps": progress.steps})
        self.saved = (time.monotonic(), number)

    def kept(self) -> str:
        if not self.saved[1]:
            return ""
        return f" The checkpoint of iteration {self.saved[1]} is complete: make room and go on with --resume."

    def give_up(self, before: Progress, i: int) -> None:
        """Stop, and leave what is needed to meet the fault again."""
        seed, number = self.run.seed + i, self.number(before) + 1
        path = self.run.folder.path / "faults" / f"seed{seed}-iteration{number}.safetensors"
        if jax.process_count() > 1:
            raise UserError(
                f"Seed {seed} met numbers that are not finite; resume without --distributed to see which."
            )
        train_state = TrainState(*jax.tree.map(lambda leaf: leaf[i], before.train_state))
        fault = faults.examine(self.ppo, train_state)
        about = {
            "format": FORMAT,
            "experiment": asdict(self.run.experiment),
            "seed": seed,
            "iteration": number,
        }
        faults.dump(path, fault, about)
        own = (
            f" --problem {self.run.experiment.problem}"
            if ":" in self.run.experiment.problem
            else ""
        )
        raise UserError(
            f"Seed {seed} met numbers that are not finite in {faults.PATIENCE} iterations in a row, up to {number} "
            f"({faults.told(fault)[0]}); see it again with: seerax replay {shlex.quote(str(path))}{own}"
        )


def load_together(run: Run, ppo: PPO, say: Say) -> Progress | None:
    """The first process sets aside what is damaged before the others read."""
    found: list[Progress | None] = []
    distributed.on_main(lambda: found.append(load_checkpoint(run, ppo, say)))
    return found[0] if found else load_checkpoint(run, ppo)


def checkpoint_shapes(run: Run, ppo: PPO) -> tuple[TrainState, Params, jax.ShapeDtypeStruct]:
    """(learner, best brain, its held-out return), as `Session.save` keeps them."""
    train_state = jax.eval_shape(jax.vmap(ppo.init), training_keys(run.seed, run.seeds))
    return train_state, train_state.params, jax.ShapeDtypeStruct((run.seeds,), np.float32)


def load_checkpoint(run: Run, ppo: PPO, say: Say = lambda message: None) -> Progress | None:
    """None if the run was stopped before its first checkpoint."""
    if (run.folder.path / "checkpoint.safetensors").exists():
        raise UserError(
            f"{run.folder.path} was begun before checkpoints were numbered; go on with the version it is from."
        )
    found = run.folder.checkpoints.load(checkpoint_shapes(run, ppo), say)
    if found is None:
        say("There is no checkpoint yet: starting from the beginning.")
        return None
    (train_state, best, best_return), _ = found
    iteration = int(train_state.iteration[0])
    say(f"Going on from the checkpoint of iteration {iteration}.")
    steps = iteration * ppo.config.batch
    train_state, best = ppo.place(TrainState(*train_state)), ppo.copied(best)
    return Progress(train_state, steps, {}, None, best, np.asarray(best_return))


# ---- policies ----------------------------------------------------------------------------------------------------


def save_policies(run: Run, progress: Progress) -> None:
    """Each seed's best policy so far; the first process writes."""
    if not distributed.is_main():
        return
    for i, seed in enumerate(run.seed_numbers):
        params = jax.tree.map(lambda leaf, i=i: leaf[i], progress.best)
        about = {"held_out": float(progress.best_return[i]), "seed": seed, "steps": progress.steps}
        save_policy(run.folder.policy(seed), run.experiment, params, about)


def save_policy(path: Path, experiment: Experiment, params: Params, about: dict[str, Any]) -> None:
    pytrees.save_tree(path, params, {"format": FORMAT, "experiment": asdict(experiment), **about})


def read_experiment(path: Path, problem: str | None = None) -> tuple[Experiment, dict[str, Any]]:
    """How a policy or fault file came about. Code is imported only for a problem that the user names himself."""
    about = pytrees.read_about(path)
    refuse_other_format(path, about.get("format"))
    experiment = experiment_from(about.get("experiment"), path)
    if ":" in experiment.problem and experiment.problem != problem:
        name = one_line(experiment.problem)
        raise UserError(
            f"{path} is of '{name}', code that is only run if you name it yourself: --problem {name}"
        )
    return experiment, about


def load_policy(path: Path, problem: str | None = None) -> tuple[Experiment, LearnedPolicy]:
    """The problem, the method and the brain that a policy file holds. Only a problem of one's own must be named."""
    experiment, _ = read_experiment(path, problem)
    return experiment, load_params(experiment.trainer(), path)


def load_params(ppo: PPO, path: Path) -> LearnedPolicy:
    """Several of one trainer are compiled once."""
    return ppo.policy(pytrees.load_tree(path, jax.eval_shape(ppo.init, jax.random.key(0)).params))


def load_fault(path: Path, problem: str | None = None) -> tuple[PPO, faults.Fault]:
    """What `faults.dump` wrote, and the trainer it happened to."""
    experiment, about = read_experiment(path, problem)
    count = about.get("offences")
    if not isinstance(count, int) or not 0 <= count <= faults.MOST:
        raise UserError(f"{path} is not a file of faults.")
    ppo = experiment.trainer()
    return ppo, faults.load(path, ppo, count)


def shipped_policy(problem: str, agent: str) -> Path:
    """The policy that comes with seerax."""
    path = Path(
        str(importlib.resources.files("seerax") / "policies" / f"{problem}-{agent}.safetensors")
    )
    if not path.exists():
        how = f"train one: seerax train {problem} --agent {agent}"
        raise UserError(f"No trained {agent} policy for {problem} comes with seerax; {how}")
    return path
