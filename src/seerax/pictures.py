"""Plays or reads what a picture or film needs, and passes it to `figures`.

Internal.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax

from seerax import figures, problems, rollout, runs
from seerax.advice import follow_advice
from seerax.agents import AGENTS
from seerax.core import BeliefMDP, World
from seerax.errors import UserError
from seerax.experiments import Experiment, labels_of
from seerax.keys import episode_key, evaluation_key
from seerax.players import BASELINES, Player, Players, find_players, refuse_unknown_agent
from seerax.runs import policies

SENSED_EPISODES = 100  # on a sensing map


class Titled(NamedTuple):
    """A player under the title of its panel."""

    title: str
    player: Player


# ---- from runs ---------------------------------------------------------------------------------


def curve(path: Path, folders: Sequence[Path]) -> None:
    """Draws the training curves of runs on one problem."""
    if not folders:
        raise UserError("Training curves need at least one run folder.")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise UserError("Training curves cannot be drawn of the same run folder twice.")
    opened = [runs.reopen(folder) for folder in folders]
    known = [run.folder.read_means() for run in opened if run.folder.evaluation.exists()]
    lines = {
        name: known[0][name] for name in ("ensemble", "clairvoyant") if known and name in known[0]
    }
    figures.curve(path, grouped(opened), **lines)


def grouped(opened: list[runs.Run]) -> dict[str, list[Any]]:
    """Groups the curves of all seeds by experiment: different settings are never averaged."""
    names = list(dict.fromkeys(run.experiment.problem for run in opened))
    if len(names) > 1:
        raise UserError(
            f"Training curves can be drawn of runs on one problem, not on {' and '.join(names)}."
        )
    curves: dict[Experiment, list[Any]] = {}
    for run in opened:
        curves.setdefault(run.experiment, []).extend(run.folder.curves())
    return dict(zip(labels_of(list(curves)), curves.values(), strict=True))


# ---- from episodes -----------------------------------------------------------------------------


def sensing(path: Path, players: Sequence[Titled]) -> None:
    """Draws where each player senses: one map each, side by side."""
    maps = []
    for title, (mdp, policy) in players:
        if not hasattr(mdp.problem, "draw_place"):
            raise UserError(
                f"{title} has no draw_place method, so where it senses cannot be drawn."
            )
        episodes = episodes_to_map(mdp, policy)
        maps.append(figures.gather(title, mdp.problem, episodes))
    figures.sensing_maps(path, maps)


def episodes_to_map(mdp: BeliefMDP, policy: Any) -> list[rollout.Episode]:
    """Records the episodes that a sensing map shows."""
    keys = jax.random.split(evaluation_key(0), SENSED_EPISODES)
    return [rollout.record(key, mdp, policy) for key in keys]


def keyframes(path: Path, players: Sequence[Titled], episode: int = 0) -> None:
    """Draws a few moments of one episode of each player."""
    key = episode_key(0, episode)
    reels = []
    for title, (mdp, policy) in players:
        if not hasattr(mdp.problem, "draw"):
            raise UserError(f"{title} has no draw method, so there is nothing to see.")
        reels.append(figures.Reel(title, mdp.problem, rollout.record(key, mdp, policy)))
    figures.keyframe_rows(path, reels)


def titled(targets: Sequence[str], agent: str | None, usual: Sequence[str]) -> list[Titled]:
    """Finds the players asked for; without targets, those of the usual problems that can be played.

    There the agent is BRPO if none is named, and seerax must ship a policy of it.
    """
    if not targets:
        agent = agent or "brpo"
        targets = tuple(name for name in usual if can_play(agent, name))
    if not targets:
        raise UserError(
            f"seerax ships no {agent} policy for {', '.join(usual)}: give a run folder."
        )
    found = [find_players(target, agent) for target in targets]
    return [Titled(problems.title(each.problem), each.players[0]) for each in found]


def can_play(agent: str, problem: str) -> bool:
    """True if an agent can play a problem without being trained first."""
    refuse_unknown_agent(agent)
    return agent in BASELINES or f"{problem}/{agent}" in policies.shipped_names()


def setup(path: Path) -> None:
    """Draws a sheet with the start of an episode of every problem."""
    scenes = []
    for name in problems.PROBLEMS:
        mdp = problems.make(name)
        start = jax.device_get(mdp.reset(jax.random.key(1)))
        scenes.append((problems.title(name), partial(draw_start, mdp, start)))
    figures.setup(path, scenes)


def draw_start(mdp: BeliefMDP, world: World, ax: Any) -> None:
    """Draws the first situation of an episode, with the advice as the action."""
    situation = world.situation
    mdp.problem.draw(ax, situation, situation.advice, world.latent)  # type: ignore[attr-defined]


# ---- films -------------------------------------------------------------------------------------


def film(path: Path, found: Players, seed: int = 0, episode: int = 0) -> None:
    """Films an episode; a learned agent is shown beside the ensemble playing the same one."""
    key = episode_key(seed, episode)
    mdp, policy = found.players[0]
    if not hasattr(mdp.problem, "draw"):
        raise UserError(f"{found.problem} has no draw method, so it cannot be filmed.")
    figures.check(path, "film")
    panels = [(found.agent, rollout.record(key, mdp, policy))]
    if found.agent in AGENTS:
        panels.insert(0, ("ensemble", rollout.record(key, mdp, follow_advice)))
    figures.film(path, panels, mdp.problem.draw, getattr(mdp.problem, "senses", None))
