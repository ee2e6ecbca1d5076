"""Tables of what was measured, for README and docs/results.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from seerax import store
from seerax.paper.plan import PLAN, Budget
from seerax.runs import RunFolder

Result = dict[str, Any]
Results = dict[str, Result]
POLICIES = Path("src/seerax/policies")


def interval(measured: Result, digits: int = 1) -> str:
    """Mean and 95 % interval in words, of anything that has them."""
    low, high = measured["ci95"]
    return f"{measured['mean']:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def write(results: Results, budget: Budget) -> Iterator[Path]:
    yield from ()


def ship(results: Results, folder: Path) -> None:
    """The best seed by held-out return of each headline agent comes with seerax, if its run is still here."""
    if not POLICIES.is_dir():
        return
    for problem, agent in dict.fromkeys((entry.problem, entry.agent) for entry in PLAN.values() if entry.headline):
        rivals = [name for name in (f"{problem}-{agent}", f"{problem}-{agent}-bonus") if name in results]
        if not rivals:
            continue
        policies = RunFolder(folder / max(rivals, key=lambda name: best_held_out(results[name]))).policies()
        if policies:
            best = max(policies, key=lambda path: store.read_about(path)["held_out"])
            store.write_bytes(POLICIES / f"{problem}-{agent}.safetensors", best.read_bytes())


def best_held_out(result: Result) -> float:
    return max(max(curve["held_out"]) for curve in result["curves"])
