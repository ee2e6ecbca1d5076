"""A training run and its folder: train, save, resume, load."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import jax
import numpy as np
from tensorboardX import SummaryWriter

import seerax
from seerax import devices, store, team
from seerax.config import Config
from seerax.errors import Mistake
from seerax.experiments import Experiment
from seerax.ppo import PPO, Brain, LearnedPolicy, Learner, Progress

FORMAT = 1  # of run folders and policy files
TRAINING, EVALUATION = 1, 2  # streams of randomness that never meet


def training_keys(seed: int, count: int) -> jax.Array:
    return jax.vmap(lambda s: jax.random.fold_in(jax.random.key(s), TRAINING))(seed + np.arange(count))


def evaluation_key(seed: int) -> jax.Array:
    return jax.random.fold_in(jax.random.key(seed), EVALUATION)


@dataclass(frozen=True)
class RunFolder:
    """config.json, versions.json, metrics.jsonl, TensorBoard events, a checkpoint, and each seed's best policy."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.json"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint.safetensors"

    @property
    def evaluation(self) -> Path:
        return self.path / "evaluation.json"

    def policy(self, seed: int) -> Path:
        return self.path / f"policy-seed{seed}.safetensors"

    def policies(self) -> list[Path]:
        return sorted(self.path.glob("policy-seed*.safetensors"))

    def read_config(self) -> dict[str, Any]:
        try:
            return json.loads(self.config.read_text())
        except OSError as error:
            raise Mistake(f"{self.path} is not a run folder: it has no config.json.") from error
        except ValueError as error:
            raise Mistake(f"{self.config} is not valid JSON ({error}).") from error

    def curves(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """(steps, held-out returns) of every seed."""
        measured = [row for row in self.rows() if "held_out" in row]
        seeds = sorted({row["seed"] for row in measured})
        points = [[(row["steps"], row["held_out"]) for row in measured if row["seed"] == seed] for seed in seeds]
        return [tuple(np.array(each, float).T) for each in points]

    def rows(self) -> list[dict[str, Any]]:
        """One row per seed and iteration."""
        return [json.loads(line) for line in self.metrics.read_text().splitlines()]


@dataclass(frozen=True)
class Run:
    """One experiment with one or more seeds side by side, and where it is kept."""

    experiment: Experiment
    seed: int
    seeds: int
    folder: RunFolder

    def config(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self.experiment), "seed": self.seed, "seeds": self.seeds}


# ---- the folder --------------------------------------------------------------------------------------------------


def begin(run: Run, overwrite: bool = False) -> None:
    """A fresh folder with the run's config; an existing run is replaced only if asked."""
    path = run.folder.path
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        if not path.is_dir() or (overwrite and not run.folder.config.exists()):
            raise Mistake(f"{path} exists and is not a run folder; choose another place with --out.")
        if not overwrite:
            raise Mistake(f"{path} exists already: use --resume to continue it, --overwrite to replace it, or --out.")
        shutil.rmtree(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        store.write_json(run.folder.config, run.config())
        store.write_json(path / "versions.json", versions())
    except OSError as error:
        raise Mistake(f"Cannot write to {path}: {error.strerror or error}.") from error


def reopen(path: Path, steps: int | None = None) -> Run:
    """An earlier run as its config tells it; more steps may be asked of it."""
    folder = RunFolder(path)
    config = folder.read_config()
    if config.pop("format", None) != FORMAT:
        raise Mistake(f"{folder.config} has another format than this version of seerax reads ({FORMAT}).")
    try:
        seed, seeds = config.pop("seed"), config.pop("seeds")
        experiment = experiment_from(config)
    except (KeyError, TypeError, AttributeError) as error:
        raise Mistake(f"{folder.config} is not a config of seerax ({error}).") from error
    if steps is not None:
        experiment = replace(experiment, ppo=replace(experiment.ppo, steps=steps))
    return Run(experiment, seed, seeds, folder)


def experiment_from(fields: dict[str, Any]) -> Experiment:
    """An experiment from its JSON form, which knows lists where we have tuples."""

    def revived(values: dict[str, Any]) -> dict[str, Any]:
        return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}

    ppo = Config(**revived(fields["ppo"]))
    return Experiment(**{**revived(fields), "ppo": ppo})


def versions() -> dict[str, Any]:
    packages = {name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "equinox", "optax", "numpy")}
    return {"seerax": seerax.__version__, "python": platform.python_version(), **packages, **devices.counted()}


# ---- training ----------------------------------------------------------------------------------------------------


def train(run: Run, report: Callable[[Progress], None] = lambda progress: None, resume: bool = False) -> Progress:
    """Train to the end, writing as it goes. Interrupted, it leaves a checkpoint of the last whole iteration."""
    ppo = run.experiment.trainer()
    earlier = load_checkpoint(run, ppo) if resume else None
    team.first_alone(lambda: make_ready(run, earlier, resume))
    logs = [Log(run)] if team.first() else []
    progress = earlier
    try:
        for progress in ppo.train(training_keys(run.seed, run.seeds), earlier):
            for log in logs:
                log.write(progress)
            if progress.held_out is not None:
                keep(run, progress)
            report(progress)
            if team.asked_to_stop(progress.steps // ppo.config.batch):
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        if progress is not None:
            keep(run, progress)
        raise
    finally:
        for log in logs:
            log.close()
    assert progress is not None
    return team.gathered(progress)


def make_ready(run: Run, earlier: Progress | None, resume: bool) -> None:
    if resume:
        trim_metrics(run.folder, earlier.steps if earlier else -1)
    elif not run.folder.config.exists():
        begin(run)


def keep(run: Run, progress: Progress) -> None:
    """All processes hand over their worlds; the first writes."""
    whole = team.gathered(progress)
    if team.first():
        save_progress(run, whole)


class Log:
    """Metrics as JSON lines and for TensorBoard."""

    def __init__(self, run: Run):
        self.run = run
        self.started = time.monotonic()
        self.lines = open(run.folder.metrics, "a")  # noqa: SIM115
        self.boards = [
            SummaryWriter(str(run.folder.path / "tensorboard" / f"seed{run.seed + i}")) for i in range(run.seeds)
        ]

    def write(self, progress: Progress) -> None:
        measured = dict(progress.metrics)
        if progress.held_out is not None:
            measured["held_out"] = progress.held_out
        seconds = round(time.monotonic() - self.started, 3)
        for i, board in enumerate(self.boards):
            row = {name: float(values[i]) for name, values in measured.items()}
            line = {"steps": progress.steps, "seed": self.run.seed + i, "seconds": seconds, **row}
            self.lines.write(json.dumps(line) + "\n")
            for name, value in row.items():
                board.add_scalar(name, value, progress.steps)
        self.lines.flush()

    def close(self) -> None:
        self.lines.close()
        for board in self.boards:
            board.close()


def trim_metrics(folder: RunFolder, steps: int) -> None:
    """Forget rows after the checkpoint: they will be written again."""
    if folder.metrics.exists():
        rows = [row for row in folder.rows() if row["steps"] <= steps]
        store.write_bytes(folder.metrics, "".join(json.dumps(row) + "\n" for row in rows).encode())


def save_progress(run: Run, progress: Progress) -> None:
    """The checkpoint, and each seed's best policy so far."""
    kept = (progress.learner, progress.best, progress.best_return)
    store.save_tree(run.folder.checkpoint, kept, {"format": FORMAT, "steps": progress.steps})
    for i in range(run.seeds):
        brain = jax.tree.map(lambda leaf, i=i: leaf[i], progress.best)
        about = {"held_out": float(progress.best_return[i]), "seed": run.seed + i, "steps": progress.steps}
        save_policy(run.folder.policy(run.seed + i), run.experiment, brain, about)


def load_checkpoint(run: Run, ppo: PPO) -> Progress | None:
    """None if the run was stopped before its first checkpoint."""
    if not run.folder.checkpoint.exists():
        return None
    about = store.read_about(run.folder.checkpoint)
    learner = jax.eval_shape(jax.vmap(ppo.init), training_keys(run.seed, run.seeds))
    like = (learner, learner.brain, jax.ShapeDtypeStruct((run.seeds,), np.float32))
    learner, best, best_return = store.load_tree(run.folder.checkpoint, like)
    learner, best = ppo.place(Learner(*learner)), ppo.copied(best)
    return Progress(learner, about["steps"], {}, None, best, np.asarray(best_return))


# ---- policies ----------------------------------------------------------------------------------------------------


def save_policy(path: Path, experiment: Experiment, brain: Brain, about: dict[str, Any]) -> None:
    store.save_tree(path, brain, {"format": FORMAT, "experiment": asdict(experiment), **about})


def load_policy(path: Path) -> tuple[Experiment, LearnedPolicy]:
    """The problem, the method and the brain that a policy file holds."""
    about = store.read_about(path)
    if about.get("format") != FORMAT:
        raise Mistake(f"{path} has another format than this version of seerax reads ({FORMAT}).")
    try:
        experiment = experiment_from(about["experiment"])
    except (KeyError, TypeError, AttributeError) as error:
        raise Mistake(f"{path} does not say how it was trained ({error}).") from error
    ppo = experiment.trainer()
    like = jax.eval_shape(ppo.init, jax.random.key(0)).brain
    return experiment, ppo.policy(store.load_tree(path, like))


def shipped_policy(problem: str, agent: str) -> Path:
    """The policy that comes with seerax."""
    path = Path(str(files("seerax") / "policies" / f"{problem}-{agent}.safetensors"))
    if not path.exists():
        how = f"train one: seerax train {problem} --agent {agent}"
        raise Mistake(f"No trained {agent} policy for {problem} comes with seerax; {how}")
    return path
