"""The paper's pictures: charts of the results, and scenes that BRPO's best policies play."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from seerax import pictures
from seerax.paper import charts
from seerax.paper.plan import PLAN, Budget
from seerax.paper.policies import players
from seerax.paper.results import Result
from seerax.pictures import Titled
from seerax.players import find_players
from seerax.problems import PAPER, WITH_SENSING

Kept = Mapping[str, Result]


class Chart(NamedTuple):
    """A chart of what was learned in a group of entries."""

    group: str  # of the plan
    caption: str


class Scene(NamedTuple):
    """A picture in which BRPO's best policies play."""

    problems: tuple[str, ...]
    caption: str
    draw: Callable[[Path, list[Titled]], None]


CHARTS = {
    "benchmark": Chart("headline", "Training curves of all methods on the six problems"),
    "bonus": Chart("bonus", "BRPO with the information bonus"),
    "inputs": Chart("inputs", "BRPO with and without the belief as input"),
    "composition": Chart("composition", "The paper's sum and the released code's blends"),
}
SCENES = {
    "sensing": Scene(WITH_SENSING, "Where BRPO senses, 100 episodes each", pictures.sensing),
    "keyframes": Scene(("crowdnav", *WITH_SENSING), "Episodes of BRPO", pictures.keyframes),
}
TREE = "Posterior sampling against Bayes-optimality on the tree"


def captions(results: Kept, budget: Budget) -> dict[str, str]:
    """Returns the captions of the pictures that can be drawn from what has been run."""
    learned = {entry.group for name, entry in PLAN.items() if entry.learns and name in results}
    charts = {name: chart.caption for name, chart in CHARTS.items() if chart.group in learned}
    scenes = {
        name: scene.caption
        for name, scene in SCENES.items()
        if players(scene.problems, results, budget)
    }
    return {**charts, **scenes, **({"tree": TREE} if "tree-posterior_sampling" in results else {})}


def draw(results: Kept, folder: Path, budget: Budget) -> Iterator[Path]:
    """Draws every picture that can be drawn, and yields its path."""
    for name in captions(results, budget):
        path = folder / f"{name}.png"
        if name in CHARTS:
            charts.CHARTS[name](path, results)
        elif name in SCENES:
            actors = players(SCENES[name].problems, results, budget).values()
            SCENES[name].draw(path, pictures.titled(tuple(actors), None, ()))
        else:
            charts.tree(path)
        yield path


def filmed(results: Kept, budget: Budget) -> dict[str, str]:
    """Returns the policy file that is filmed, by problem."""
    return players(PAPER, results, budget)


def films(results: Kept, folder: Path, budget: Budget) -> Iterator[Path]:
    """Films the first episode of each problem, by the ensemble and by BRPO; yields the paths."""
    for problem, policy in filmed(results, budget).items():
        path = folder / f"{problem}.mp4"
        pictures.film(path, find_players(policy))
        yield path
