"""The best policies of the plan's runs: seerax ships them, and they play in its pictures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from seerax.paper.plan import PLAN, Budget, versions
from seerax.paper.results import Result
from seerax.runs import RunFolder
from seerax.system import files, pytrees

SHIPPED = Path("src/seerax/policies")


def best(folder: RunFolder) -> Path | None:
    """Returns the best seed's policy by held-out return, or None if the run is gone."""

    def held_out(path: Path) -> float:
        return pytrees.read_about(path)["held_out"]

    return max(folder.policies(), key=held_out, default=None)


def ship(results: Mapping[str, Result], folder: Path) -> None:
    """Copies the best policy of each headline agent to where seerax ships it from."""
    if not SHIPPED.is_dir():
        return
    headlines = [(entry.problem, entry.agent) for entry in PLAN.values() if entry.headline]
    for problem, agent in dict.fromkeys(headlines):
        rivals = {name: results[name] for name in versions(problem, agent) if name in results}
        if not rivals:
            continue
        winner = max(rivals, key=lambda name: best_held_out(rivals[name]))
        policy = best(RunFolder(folder / winner))
        if policy:
            files.write_bytes(SHIPPED / f"{problem}-{agent}.safetensors", policy.read_bytes())


def best_held_out(result: Result) -> float:
    """Returns the best held-out return of any seed."""
    return max(curve["returned"] for curve in result["curves"])


def players(
    problems: Iterable[str], results: Mapping[str, Result], budget: Budget
) -> dict[str, str]:
    """Returns the policy files of BRPO, by problem, where there are results and a file."""
    known = [problem for problem in problems if f"{problem}-brpo" in results]
    found = {problem: player(problem, budget) for problem in known}
    return {problem: str(path) for problem, path in found.items() if path}


def player(problem: str, budget: Budget) -> Path | None:
    """Returns BRPO's policy file of this budget's run or, if that is gone, the one that is shipped.

    The shipped policies are of the full budget.
    """
    shipped = SHIPPED / f"{problem}-brpo.safetensors"
    usual = shipped if budget.name == "full" and shipped.exists() else None
    return best(RunFolder(budget.runs / f"{problem}-brpo")) or usual
