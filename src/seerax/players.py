"""Players: baselines that need no learning, saved policies, and the policies that seerax ships."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from seerax import experiments, problems, runs
from seerax.advice import Clairvoyant, follow_advice, posterior_sampling
from seerax.agents import AGENTS
from seerax.core import BeliefMDP, Policy
from seerax.errors import UserError, unknown
from seerax.runs import policies

BASELINES = ("ensemble", "clairvoyant", "posterior_sampling")  # nothing to learn


class Player(NamedTuple):
    """A policy and the belief MDP that it plays."""

    mdp: BeliefMDP
    policy: Policy | Clairvoyant | Any


class Players(NamedTuple):
    """One agent on one problem: a run has one player per seed."""

    problem: str
    agent: str
    players: list[Player]


def find_players(target: str, agent: str | None = None, problem: str | None = None) -> Players:
    """Finds the policies of a run folder or file, or a named agent on a problem.

    A run on a problem of the user's own needs `problem`: only code that the user names is imported.
    """
    path = Path(target)
    if path.is_dir() or path.suffix == ".safetensors":
        return _saved_players(path, agent, problem)
    agent = agent or "ensemble"
    if agent in BASELINES:
        return Players(target, agent, [baseline(experiments.find_problem(target), agent)])
    refuse_unknown_agent(agent)
    if target not in problems.PROBLEMS:
        raise unknown("problem or run folder", target, problems.PROBLEMS)
    return Players(target, agent, _saved_players(policies.shipped(target, agent)).players)


def refuse_unknown_agent(agent: str) -> None:
    """Refuses a name that is neither a baseline's nor an agent's."""
    if agent not in (*BASELINES, *AGENTS):
        raise unknown("agent", agent, [*BASELINES, *AGENTS])


def _saved_players(path: Path, agent: str | None = None, problem: str | None = None) -> Players:
    """Loads a file, or every seed of a run folder; with one trainer, all are compiled once."""
    files = runs.RunFolder(path).policies() if path.is_dir() else [path]
    if not files:
        raise UserError(f"{path} holds no trained policy.")
    experiment, _ = policies.read_experiment(files[0], problem)
    if agent in BASELINES:
        player = baseline(experiment.trainer().mdp, str(agent))
        return Players(experiment.problem, str(agent), [player])
    if agent not in (None, experiment.agent):
        raise UserError(f"{path} holds a policy of {experiment.agent}, not of {agent}.")
    trainer = experiment.trainer()
    players = [Player(trainer.mdp, policies.load_params(trainer, file)) for file in files]
    return Players(experiment.problem, experiment.agent, players)


def baseline(mdp: BeliefMDP, name: str) -> Player:
    """Returns a baseline: the ensemble, the expert that knows the latent, or posterior sampling."""
    if name == "ensemble":
        return Player(mdp, follow_advice)
    if mdp.expert is None:
        raise UserError(f"{name} needs an expert, and this problem names none.")
    if name == "clairvoyant":
        return Player(mdp, Clairvoyant(mdp.expert))
    sampled = posterior_sampling(mdp.filter, mdp.expert, per="episode")
    return Player(mdp.with_advisor(sampled), follow_advice)
