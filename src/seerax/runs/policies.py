"""Policies on disk: saved by a run, loaded again, or shipped with seerax."""

from __future__ import annotations

import importlib.resources
from pathlib import Path
from typing import Any

import jax
import numpy as np

from seerax.agents import AGENTS, Agent
from seerax.core import BeliefMDP
from seerax.errors import UserError, one_line, unknown
from seerax.experiments import Experiment, experiment_from
from seerax.ppo import LearnedPolicy, Trainer
from seerax.ppo.networks import NetworkFactory, actor_critic
from seerax.problems import PROBLEMS
from seerax.runs.folder import RunFolder, refuse_other_format
from seerax.system import pytrees


def load(
    source: str | Path,
    mdp: BeliefMDP | None = None,
    network: NetworkFactory = actor_critic,
    agent: Agent | None = None,
) -> LearnedPolicy:
    """Loads a policy from a file, from a run folder (its best seed) or by a name such as
    "maze4/brpo".

    What was trained on a problem of your own, or with a network or agent of your own, needs it
    again.
    """
    path = find(source)
    experiment, _ = read_experiment(path, named=None if mdp is None else "")
    return load_params(experiment.trainer(mdp, network, agent), path)


def find(source: str | Path) -> Path:
    """Returns the policy file that a path, a run folder or a name such as "maze4/brpo" stands for."""
    path = Path(source)
    if path.is_dir():
        return best_of(RunFolder(path))
    if path.exists() or path.suffix == ".safetensors":
        return path
    problem, slash, agent = str(source).partition("/")
    if slash and "/" not in agent and problem in PROBLEMS:
        return shipped(problem, agent)
    names = [name for name in shipped_names() if not slash or name.startswith(f"{problem}/")]
    known = names or shipped_names()
    raise unknown("policy file, run folder or shipped policy", str(source), known)


def best_of(folder: RunFolder) -> Path:
    """Returns the policy of a run's best seed by held-out return."""
    files = folder.policies()
    if not files:
        raise UserError(f"{folder.path} holds no trained policy.")
    return max(files, key=lambda path: pytrees.read_about(path).get("held_out", -np.inf))


def shipped(problem: str, agent: str) -> Path:
    """Returns the policy file that comes with seerax."""
    path = _shipped_folder() / f"{problem}-{agent}.safetensors"
    if agent not in AGENTS:
        raise unknown("agent", agent, AGENTS)
    if not path.exists():
        raise UserError(
            f"No trained {agent} policy for {problem} comes with seerax: train one with "
            f'seerax.trainer("{problem}", agent="{agent}"), or on the command line.'
        )
    return path


def shipped_names() -> list[str]:
    stems = sorted(path.stem for path in _shipped_folder().glob("*.safetensors"))
    return [stem.replace("-", "/", 1) for stem in stems]


def _shipped_folder() -> Path:
    return Path(str(importlib.resources.files("seerax") / "policies"))


def read_experiment(path: Path, named: str | None = None) -> tuple[Experiment, dict[str, Any]]:
    """Returns how a policy or fault file came about.

    A problem of one's own is code, which is imported only if the user names it; "" means that it is
    not imported.
    """
    about = pytrees.read_about(path)
    refuse_other_format(path, about.pop("format", None))
    experiment = experiment_from(about.get("experiment"), path)
    if ":" in experiment.problem and named not in ("", experiment.problem):
        name = one_line(experiment.problem)
        raise UserError(
            f"{path} is of '{name}', code that is only run if you name that problem yourself.",
            "problem",
        )
    return experiment, about


def load_policy(path: str | Path, problem: str | None = None) -> tuple[Experiment, LearnedPolicy]:
    """Returns the experiment and the policy that a file holds; a problem of one's own must be
    named.
    """
    experiment, _ = read_experiment(Path(path), problem)
    return experiment, load_params(experiment.trainer(), Path(path))


def load_params(trainer: Trainer, path: Path) -> LearnedPolicy:
    """Loads a policy for a trainer; several policies of one trainer are compiled once."""
    like = jax.eval_shape(trainer.learner.init, jax.random.key(0)).params
    params = pytrees.load_tree(path, like)
    refuse_nonfinite(params, path)
    about = pytrees.read_about(path)
    about.pop("format", None)
    return trainer.learner.policy(params, about=about)


def refuse_nonfinite(params: Any, path: Path) -> None:
    """Refuses parameters that are not numbers: their policy would play on without a word."""
    for name, leaf in pytrees.leaves_by_path(params).items():
        if not np.isfinite(np.asarray(leaf)).all():
            raise UserError(f"{path} cannot be used: its {name.lstrip('.')} holds NaN or infinity.")
