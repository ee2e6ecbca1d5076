"""The paper's pictures from what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from seerax.paper.plan import SENSING, SIX

NEEDED = {
    "benchmark": [f"{problem}-{agent}" for problem in SIX for agent in ("ensemble", "brpo", "bpo", "upmle")],
    "bonus": [f"{problem}-brpo{bonus}" for problem in SENSING for bonus in ("", "-bonus10", "-bonus100")],
    "inputs": [f"{problem}-{agent}" for problem in SENSING for agent in ("brpo", "brpo_without_belief")],
    "composition": [f"maze10-brpo{blend}" for blend in ("", "-blend0.1", "-blend0.5")],
}


def draw(results: dict[str, dict[str, Any]], folder: Path) -> Iterator[Path]:
    """Those whose entries are all there."""
    for name, needed in NEEDED.items():
        if set(needed) <= set(results):
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{name}.png"
            getattr(import_module("seerax.figures.paper"), name)(path, results)
            yield path
