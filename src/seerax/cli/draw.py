"""`seerax figure` and `seerax film`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import NamedTuple

from seerax import figures, pictures
from seerax.cli.arguments import Figure, Film
from seerax.cli.tables import out
from seerax.compute import devices
from seerax.errors import UserError, unknown
from seerax.paper import charts
from seerax.paper.results import read_results
from seerax.players import find_players
from seerax.problems import WITH_SENSING


def film(command: Film) -> None:
    """Films an episode, and prints where the film is."""
    devices.prepare()
    pictures.episode_key(command.seed, command.episode)
    found = find_players(command.target, command.agent, command.problem)
    path = command.out or _film_path(command.target, found.problem, found.agent)
    pictures.film(path, found, command.seed, command.episode)
    out.print(f"{path}")


def _film_path(target: str, problem: str, agent: str) -> Path:
    if Path(target).is_dir():
        return Path(target) / "film.mp4"
    return Path("films") / f"{problem.replace(':', '-')}-{agent}.mp4"


class Kind(NamedTuple):
    """A figure: how it is drawn, and which options it takes besides where the picture goes."""

    draw: Callable[[Path, Figure], None]
    takes: tuple[str, ...] = ()


def _curve(path: Path, command: Figure) -> None:
    pictures.curve(path, [Path(target) for target in command.targets])


def _setup(path: Path, command: Figure) -> None:
    pictures.setup(path)


def _tree(path: Path, command: Figure) -> None:
    charts.tree(path)


def _sensing(path: Path, command: Figure) -> None:
    pictures.sensing(path, pictures.titled(command.targets, command.agent, WITH_SENSING))


def _keyframes(path: Path, command: Figure) -> None:
    usual = ("crowdnav", *WITH_SENSING)
    players = pictures.titled(command.targets, command.agent, usual)
    pictures.keyframes(path, players, command.episode)


def _chart(name: str, path: Path, command: Figure) -> None:
    charts.CHARTS[name](path, read_results(command.results))


FIGURES = {
    "curve": Kind(_curve, ("targets",)),
    "setup": Kind(_setup),
    "tree": Kind(_tree),
    "sensing": Kind(_sensing, ("targets", "agent")),
    "keyframes": Kind(_keyframes, ("targets", "agent", "episode")),
    **{name: Kind(partial(_chart, name), ("results",)) for name in charts.CHARTS},
}


def figure(command: Figure) -> None:
    """Draws a figure, and prints where the picture is."""
    devices.prepare()
    if command.name not in FIGURES:
        raise unknown("figure", command.name, FIGURES)
    _refuse_unused(command)
    path = command.out or Path("figures") / f"{command.name}.png"
    figures.check(path, "picture")
    FIGURES[command.name].draw(path, command)
    out.print(f"{path}")


def _refuse_unused(command: Figure) -> None:
    """Refuses what is asked for but would change nothing."""
    takes = ("name", "out", *FIGURES[command.name].takes)
    options = [field for field in fields(command) if field.name not in takes]
    given = [field.name for field in options if getattr(command, field.name) != field.default]
    if given:
        words = ["runs or problems" if name == "targets" else f"--{name}" for name in given]
        raise UserError(f"figure {command.name} does not take {' or '.join(words)}.")
