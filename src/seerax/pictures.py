"""What `seerax figure` and `seerax film` play or read before something can be drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax

from seerax import figures, problems, rollout, runs
from seerax.advice import follow_advice
from seerax.agents import AGENTS
from seerax.commands import BASELINES, find_players
from seerax.core import BeliefMDP, Policy, World
from seerax.errors import UserError, unknown
from seerax.experiments import Experiment, told_apart
from seerax.system import files

if TYPE_CHECKING:
    from seerax import cli

Player = tuple[str, BeliefMDP, Policy | Any]  # title, who plays what

SENSED_EPISODES = 100


# ---- from runs ---------------------------------------------------------------------------------------------------


def curve(path: Path, command: cli.Figure) -> None:
    if not command.targets:
        raise UserError("figure curve needs at least one run folder.")
    if len({Path(target).resolve() for target in command.targets}) < len(command.targets):
        raise UserError("figure curve was given a run folder twice.")
    opened = [runs.reopen(Path(target)) for target in command.targets]
    folders = [run.folder for run in opened]
    known = [folder.read_means() for folder in folders if folder.evaluation.exists()]
    lines = {
        name: known[0][name] for name in ("ensemble", "clairvoyant") if known and name in known[0]
    }
    figures.curve(path, grouped(opened), **lines)


def grouped(opened: list[runs.Run]) -> dict[str, list[Any]]:
    """The curves of all seeds by experiment: what was trained differently is never averaged."""
    names = list(dict.fromkeys(run.experiment.problem for run in opened))
    if len(names) > 1:
        raise UserError(f"figure curve shows runs on one problem, not on {' and '.join(names)}.")
    curves: dict[Experiment, list[Any]] = {}
    for run in opened:
        curves.setdefault(run.experiment, []).extend(run.folder.curves())
    return dict(zip(told_apart(list(curves)), curves.values(), strict=True))


# ---- from the paper's results ------------------------------------------------------------------------------------


def of_the_paper(name: str, path: Path, command: cli.Figure) -> None:
    if not command.results.is_dir():
        raise UserError(
            f"There is no folder {command.results} with results of the paper's entries."
        )
    saved = {file.stem: files.read_json(file) for file in sorted(command.results.glob("*.json"))}
    getattr(figures, name)(
        path, {entry: result for entry, result in saved.items() if "evaluation" in result}
    )


# ---- from episodes -----------------------------------------------------------------------------------------------


def sensing(path: Path, command: cli.Figure) -> None:
    """One map, or those of all problems that can be drawn."""
    maps = []
    for title, mdp, policy in players(command, problems.WITH_SENSING):
        if not hasattr(mdp.problem, "draw_place"):
            raise UserError("Where it senses is drawn for Maze4, Maze10 and Door4 only.")
        maps.append(figures.gather(title, mdp.problem, episodes_to_map(mdp, policy)))
    figures.sensing_maps(path, maps)


def episodes_to_map(mdp: BeliefMDP, policy: Policy | Any) -> list[rollout.Episode]:
    keys = jax.random.split(runs.evaluation_key(0), SENSED_EPISODES)
    return [rollout.record(key, mdp, policy) for key in keys]


def keyframes(path: Path, command: cli.Figure) -> None:
    key = runs.episode_key(0, command.episode)
    reels = []
    for title, mdp, policy in players(command, ("crowdnav", *problems.WITH_SENSING)):
        if not hasattr(mdp.problem, "draw"):
            raise UserError(f"{title} has no draw method, so there is nothing to see.")
        reels.append(figures.Reel(title, mdp.problem, rollout.record(key, mdp, policy)))
    figures.keyframes(path, reels)


def players(command: cli.Figure, usual: tuple[str, ...]) -> list[Player]:
    """Those asked for, or else BRPO on those of the usual problems that a policy of it comes with."""
    targets, agent = command.targets, command.agent
    if not targets:
        agent = agent or "brpo"
        targets = tuple(name for name in usual if can_play(agent, name))
    if not targets:
        raise UserError(
            f"No trained {agent} policy for {', '.join(usual)} comes with seerax; name a run folder."
        )
    found = [find_players(target, agent) for target in targets]
    return [(figures.TITLES.get(problem, problem), *players[0]) for problem, _, players in found]


def can_play(agent: str, problem: str) -> bool:
    if agent not in (*BASELINES, *AGENTS):
        raise unknown("agent", agent, [*BASELINES, *AGENTS])
    try:
        return agent in BASELINES or bool(runs.shipped_policy(problem, agent))
    except UserError:
        return False


def setup(path: Path, command: cli.Figure) -> None:
    scenes = []
    for name in problems.PROBLEMS:
        mdp = problems.make(name)
        start = jax.device_get(mdp.reset(jax.random.key(1)))
        scenes.append(
            (figures.TITLES.get(name, name.capitalize()), partial(draw_start, mdp, start))
        )
    figures.setup(path, scenes)


def draw_start(mdp: BeliefMDP, world: World, ax: Any) -> None:
    situation = world.situation
    mdp.problem.draw(ax, situation, situation.advice, world.latent)  # type: ignore[attr-defined]


def tree(path: Path, command: cli.Figure) -> None:
    """Simulated posterior sampling on several depths and numbers of episodes."""
    rows = []
    for depth in (2, 3, 4, 5):
        for episodes in (1, 4, 16, 32):
            mdp = problems.tree.posterior_sampling(problems.tree.tree(depth, episodes))
            result = rollout.evaluate(runs.evaluation_key(0), mdp, follow_advice, 20_000)
            rows.append(
                figures.TreePoint(depth, episodes, "posterior sampling", result.mean, result.stderr)
            )
    figures.tree_gap(path, rows)


# ---- films -------------------------------------------------------------------------------------------------------


def film(command: cli.Film) -> Path:
    """Returns where it is."""
    key = runs.episode_key(command.seed, command.episode)
    problem, agent, players = find_players(command.target, command.agent, command.problem)
    mdp, policy = players[0]
    if not hasattr(mdp.problem, "draw"):
        raise UserError(f"{problem} has no draw method, so it cannot be filmed.")
    path = command.out or film_path(command.target, problem, agent)
    figures.check(path, "film")
    panels = [(agent, rollout.record(key, mdp, policy))]
    if agent in AGENTS:
        panels.insert(0, ("ensemble", rollout.record(key, mdp, follow_advice)))
    figures.film(path, panels, mdp.problem.draw, getattr(mdp.problem, "senses", None))
    return path


def film_path(target: str, problem: str, agent: str) -> Path:
    if Path(target).is_dir():
        return Path(target) / "film.mp4"
    return Path("films") / f"{problem.replace(':', '-')}-{agent}.mp4"


# ---- all ---------------------------------------------------------------------------------------------------------


class Kind(NamedTuple):
    draw: Callable[[Path, Any], None]
    takes: tuple[str, ...] = ()  # of the command's options, besides where the picture goes


FIGURES = {
    "curve": Kind(curve, ("targets",)),
    "setup": Kind(setup),
    "tree": Kind(tree),
    "sensing": Kind(sensing, ("targets", "agent")),
    "keyframes": Kind(keyframes, ("targets", "agent", "episode")),
    **{
        name: Kind(partial(of_the_paper, name), ("results",))
        for name in ("benchmark", "bonus", "inputs", "composition")
    },
}


def refuse_unused(command: cli.Figure) -> None:
    """What is asked for but would change nothing."""
    options = [
        field
        for field in fields(command)
        if field.name not in ("name", "out", *FIGURES[command.name].takes)
    ]
    given = [field.name for field in options if getattr(command, field.name) != field.default]
    if given:
        words = ["runs or problems" if name == "targets" else f"--{name}" for name in given]
        raise UserError(f"figure {command.name} does not take {' or '.join(words)}.")
