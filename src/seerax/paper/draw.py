"""The paper's pictures: charts of what is kept, and scenes that BRPO's best policies play."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from seerax import pictures
from seerax.cli import Figure, Film
from seerax.paper.plan import PLAN, Budget
from seerax.paper.policies import players
from seerax.paper.rules import Result
from seerax.problems import PAPER, WITH_SENSING

Kept = Mapping[str, Result]


class Chart(NamedTuple):
    group: str  # of the plan
    caption: str


class Scene(NamedTuple):
    problems: tuple[str, ...]
    caption: str


CHARTS = {
    "benchmark": Chart("headline", "Training curves of all methods on the six problems"),
    "bonus": Chart("bonus", "BRPO with the information bonus"),
    "inputs": Chart("inputs", "BRPO with and without the belief as input"),
    "composition": Chart("composition", "The paper's sum and the released code's blends"),
}
SCENES = {
    "sensing": Scene(WITH_SENSING, "Where BRPO senses, 100 episodes each"),
    "keyframes": Scene(("crowdnav", *WITH_SENSING), "Episodes of BRPO"),
}
TREE = "Posterior sampling against Bayes-optimality on the tree"


def captions(results: Kept, budget: Budget) -> dict[str, str]:
    """Of the pictures that can be drawn; what is not run yet is left out of them."""
    learned = {entry.group for name, entry in PLAN.items() if entry.learns and name in results}
    charts = {name: chart.caption for name, chart in CHARTS.items() if chart.group in learned}
    scenes = {
        name: scene.caption
        for name, scene in SCENES.items()
        if players(scene.problems, results, budget)
    }
    return {**charts, **scenes, **({"tree": TREE} if "tree-posterior_sampling" in results else {})}


def draw(results: Kept, folder: Path, budget: Budget) -> Iterator[Path]:
    for name in captions(results, budget):
        path = folder / f"{name}.png"
        actors = players(SCENES[name].problems, results, budget).values() if name in SCENES else ()
        pictures.FIGURES[name].draw(
            path, Figure(name, targets=tuple(actors), results=budget.results)
        )
        yield path


def filmed(results: Kept, budget: Budget) -> dict[str, str]:
    """By problem, who plays."""
    return players(PAPER, results, budget)


def films(results: Kept, folder: Path, budget: Budget) -> Iterator[Path]:
    """The first episode of each problem, by the ensemble and by BRPO."""
    for problem, policy in filmed(results, budget).items():
        yield pictures.film(Film(policy, out=folder / f"{problem}.mp4"))
