"""The folder of a training run: what lies where in it, and how a run is found again."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from seerax.compute import devices
from seerax.errors import UserError, writing
from seerax.experiments import Experiment, experiment_from
from seerax.ppo.params import FORMAT
from seerax.runs import metrics
from seerax.runs.checkpoints import Checkpoints
from seerax.system import files, lock
from seerax.version import __version__


@dataclass(frozen=True)
class RunFolder:
    """config.json, versions.json, metrics.jsonl, TensorBoard events, checkpoints, and each seed's
    best policy.
    """

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

    def policy(self, seed: int) -> Path:
        return self.path / f"policy-seed{seed}.safetensors"

    def policies(self) -> list[Path]:
        return sorted(self.path.glob("policy-seed*.safetensors"))

    def read_config(self) -> dict[str, Any]:
        if not self.config.exists():
            raise UserError(f"{self.path} is not a run folder: it has no config.json.")
        return files.read_json(self.config)

    def read_means(self) -> dict[str, float]:
        """Returns mean returns on fresh episodes, by who played."""
        found = files.read_json(self.evaluation)
        means = {name: row.get("mean") for name, row in found.items() if isinstance(row, dict)}
        return {name: float(mean) for name, mean in means.items() if isinstance(mean, int | float)}

    def rows(self) -> list[dict[str, Any]]:
        """Returns one row per seed and iteration."""
        return metrics.read_rows(self.metrics)

    def curves(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Returns (steps, held-out returns) of every seed."""
        measured = [row for row in self.rows() if row.get("held_out") is not None]
        seeds = sorted({row["seed"] for row in measured})
        points = [
            [(row["steps"], row["held_out"]) for row in measured if row["seed"] == seed]
            for seed in seeds
        ]
        return [tuple(np.array(each, float).T) for each in points]

    def steps_done(self) -> int:
        """Returns the steps of each seed according to the metrics; an unfinished last line does not
        count.
        """
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

    @property
    def total_steps(self) -> int:
        """Environment steps of each seed: whole iterations."""
        ppo = self.experiment.ppo
        return ppo.iterations * ppo.batch

    def config(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self.experiment), "seed": self.seed, "seeds": self.seeds}


def refuse_taken(run: Run, overwrite: bool = False) -> None:
    """Refuses to write where something else is; an existing run is replaced only if asked."""
    path = run.folder.path
    if path.exists() and not path.is_dir():
        raise UserError(f"{path} exists and is not a run folder; choose another one.", "out")
    if not path.exists() or all(
        entry.name == lock.NAME or files.is_unfinished(entry) for entry in path.iterdir()
    ):
        return
    if overwrite and not run.folder.config.exists():
        raise UserError(f"{path} exists and is not a run folder; choose another one.", "out")
    if not overwrite:
        raise UserError(
            f"{path} exists already: resume it, overwrite it, or choose another folder.",
            "resume",
            "overwrite",
            "out",
        )


def begin(run: Run) -> None:
    """Replaces whatever was in the folder, except for the lock, by the run's config.

    The config is deleted last and written first, so an interrupted call leaves either a run folder
    or an empty one.
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
    """Returns an earlier run as its config describes it; more steps may be asked of it."""
    folder = RunFolder(path)
    config = folder.read_config()
    refuse_other_format(folder.config, config.pop("format", None))
    files.refuse_links_out(path)
    seed = config.pop("seed", None)
    seeds = config.pop("seeds", None)
    if type(seed) is not int or type(seeds) is not int:
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
    """Returns the versions that a result depends on, and the devices it was computed with."""
    names = ("jax", "jaxlib", "equinox", "optax", "numpy")
    packages = {name: importlib.metadata.version(name) for name in names}
    return {
        "seerax": __version__,
        "python": platform.python_version(),
        **packages,
        **devices.describe(),
    }
