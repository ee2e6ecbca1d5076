"""The best policies of the plan's runs: those that come with seerax, and those that play in its pictures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from seerax.paper.plan import PLAN, Budget, versions
from seerax.paper.rules import Result
from seerax.runs import RunFolder
from seerax.system import files, pytrees

SHIPPED = Path("src/seerax/policies")


def best(folder: RunFolder) -> Path | None:
    """By held-out return, if the run is still here."""
    return max(
        folder.policies(), key=lambda path: pytrees.read_about(path)["held_out"], default=None
    )


def ship(results: Mapping[str, Result], folder: Path) -> None:
    """The best seed of each headline agent."""
    if not SHIPPED.is_dir():
        return
    for problem, agent in dict.fromkeys(
        (entry.problem, entry.agent) for entry in PLAN.values() if entry.headline
    ):
        rivals = [name for name in versions(problem, agent) if name in results]
        if not rivals:
            continue
        policy = best(
            RunFolder(folder / max(rivals, key=lambda name: best_held_out(results[name])))
        )
        if policy:
            files.write_bytes(SHIPPED / f"{problem}-{agent}.safetensors", policy.read_bytes())


def best_held_out(result: Result) -> float:
    return max(curve["returned"] for curve in result["curves"])


def players(
    problems: Iterable[str], results: Mapping[str, Result], budget: Budget
) -> dict[str, str]:
    """By problem, the policy file of BRPO, where there is one."""
    found = {
        problem: player(problem, budget) for problem in problems if f"{problem}-brpo" in results
    }
    return {problem: str(path) for problem, path in found.items() if path}


def player(problem: str, budget: Budget) -> Path | None:
    """Of this budget's run or, if that is gone, the full budget's that comes with seerax."""
    shipped = SHIPPED / f"{problem}-brpo.safetensors"
    usual = shipped if budget.name == "full" and shipped.exists() else None
    return best(RunFolder(budget.runs / f"{problem}-brpo")) or usual
