"""The face of seerax: make a problem, train, evaluate. See docs/api.md."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from seerax import problems, rollout
from seerax.agents import AGENTS, Agent
from seerax.core import BeliefMDP
from seerax.errors import UserError, unknown
from seerax.experiments import Experiment, find_problem
from seerax.keys import evaluation_key
from seerax.players import find_players
from seerax.ppo import Config, Trainer
from seerax.ppo.networks import NetworkFactory, actor_critic
from seerax.rollout import Evaluation
from seerax.settings import settings


def make(name: str) -> BeliefMDP:
    """Builds a problem with its Bayes filter, its ensemble of experts and its expert.

    `name` is one of `seerax problems`, or MODULE:OBJECT for a problem of your own.
    """
    return find_problem(name)


def trainer(
    problem: str | BeliefMDP,
    agent: str | Agent = "brpo",
    network: NetworkFactory = actor_critic,
    **changes: Any,
) -> Trainer:
    """Creates a trainer with our settings for this problem and agent, yours on top.

    `changes` are the settings of an experiment (scale, blend, bonus, bonus_form) and of PPO (steps,
    worlds, learning_rate, discount, ...; see `seerax.Config`).
    """
    mdp = find_problem(problem) if isinstance(problem, str) else problem
    name = agent.name if isinstance(agent, Agent) else agent
    ours = settings(mdp.name, name if name in AGENTS or isinstance(agent, str) else "brpo")
    asked = changed(replace(ours, agent=name), changes)
    return asked.trainer(mdp, network, agent if isinstance(agent, Agent) else None)


def changed(experiment: Experiment, changes: dict[str, Any]) -> Experiment:
    """Returns the experiment with some settings changed; a whole number may be written 16e6."""
    outer = {field.name for field in fields(Experiment)} - {"problem", "agent", "ppo"}
    inner = {field.name: field.type for field in fields(Config)}
    for name, value in changes.items():
        if name in outer:
            experiment = replace(experiment, **{name: value})
        elif name in inner:
            if inner[name] == "int":
                value = whole(name, value)
            experiment = replace(experiment, ppo=replace(experiment.ppo, **{name: value}))
        else:
            raise unknown("setting", name, [*sorted(outer), *inner])
    return experiment


def whole(name: str, value: Any) -> int:
    """Reads a whole number such as 16e6."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise UserError(f"{name} must be a whole number, not {value!r}.", name)
    return int(value)


def evaluate(
    problem: str | BeliefMDP, policy: Any = "ensemble", episodes: int = 1000, seed: int = 0
) -> Evaluation:
    """Plays fresh episodes and sums them up, always without any information bonus.

    `policy` is a learned policy, any function (key, situation) -> action, or the name of a player:
    ensemble, clairvoyant, posterior_sampling, or an agent whose policy comes with seerax.
    """
    mdp = find_problem(problem) if isinstance(problem, str) else problem
    if isinstance(policy, str):
        if not mdp.name:
            raise UserError("A problem of your own has no players by name: give the policy itself.")
        mdp, policy = find_players(mdp.name, policy).players[0]
    return rollout.evaluate(evaluation_key(seed), mdp, policy, int(whole("episodes", episodes)))


def names() -> list[str]:
    """Returns the names of the problems that come with seerax."""
    return list(problems.PROBLEMS)
