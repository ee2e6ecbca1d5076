"""The paper's pictures from what is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from seerax.paper.plan import PLAN


class Picture(NamedTuple):
    group: str  # of the plan
    caption: str


PICTURES = {
    "benchmark": Picture("headline", "Training curves of all methods on the six problems"),
    "bonus": Picture("bonus", "BRPO with the information bonus"),
    "inputs": Picture("inputs", "BRPO with and without the belief as input"),
    "composition": Picture("composition", "The paper's sum and the released code's blends"),
}


def drawable(results: Mapping[str, Any]) -> dict[str, Picture]:
    """Those of which something has been learned; what is not run yet is left out of them."""
    learned = {entry.group for name, entry in PLAN.items() if entry.learns and name in results}
    return {name: picture for name, picture in PICTURES.items() if picture.group in learned}


def draw(results: dict[str, dict[str, Any]], folder: Path) -> Iterator[Path]:
    for name in drawable(results):
        path = folder / f"{name}.png"
        getattr(import_module("seerax.figures.paper"), name)(path, results)
        yield path
