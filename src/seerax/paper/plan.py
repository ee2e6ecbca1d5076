"""The plan: one entry per thing that the paper shows, the most important first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from seerax.agents import AGENTS
from seerax.errors import unknown
from seerax.experiments import Experiment
from seerax.players import BASELINES
from seerax.problems import PAPER, WITH_OPTIMUM, WITH_SENSING
from seerax.runs.training import FRESH_EPISODES
from seerax.settings import settings

EPSILON = {"maze4": 1.0, "maze10": 100.0, "door4": 1.0}  # the bonus of BPO and UP-MLE in the paper
BETTER_SENSING = "seerax.problems.maze:maze10_better_sensing"
EPISODES = {"tiger": 100_000, "tree": 10_000}  # for each seed, if not FRESH_EPISODES
CHEAP_SENSING = "seerax.problems.doors:door4_cheap_sensing"
DEEP_TREE = "seerax.problems.tree:deep_tree"
# Numbers of seeds of the full budget other than five: some seeds of BPO and UP-MLE learn Door4 and
# some do not, and ten leave it open whether UP-MLE is below BRPO.
SEEDS = {"door4": 10, "door4-bpo": 20, "door4-upmle": 20}


@dataclass(frozen=True)
class Budget:
    """How much of the full training is done, and where it is kept."""

    name: str
    share: int  # the steps are divided by it
    seeds: int
    results: Path
    runs: Path
    more_seeds: Mapping[str, int] = field(default_factory=dict)  # by problem, or by problem-agent

    def seeds_of(self, problem: str, agent: str) -> int:
        """Returns the number of seeds of an entry."""
        usual = self.more_seeds.get(problem, self.seeds)
        return self.more_seeds.get(f"{problem}-{agent}", usual)


BUDGETS = {
    "full": Budget("full", 1, 5, Path("results/paper"), Path("runs/paper"), SEEDS),
    "quick": Budget("quick", 6, 2, Path("results/paper-quick"), Path("runs/paper-quick")),
}


@dataclass(frozen=True)
class Entry:
    """An agent on a problem, with our settings except for some changes."""

    group: str
    problem: str
    agent: str
    suffix: str = ""
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "-".join(part for part in (self.problem, self.agent, self.suffix) if part)

    @property
    def learns(self) -> bool:
        return self.agent in AGENTS

    @property
    def headline(self) -> bool:
        """True if seerax ships its best policy."""
        return self.learns and self.group in ("headline", "small")

    @property
    def mapped(self) -> bool:
        """True if its sensing map is drawn."""
        return self.name in {f"{problem}-brpo" for problem in WITH_SENSING}

    @property
    def episodes(self) -> int:
        return EPISODES.get(self.problem, FRESH_EPISODES)

    def experiment(self, budget: Budget) -> Experiment:
        """Returns what is trained at a budget."""
        ours = replace(settings(self.problem, self.agent), **self.changes)
        return replace(ours, ppo=replace(ours.ppo, steps=max(1, ours.ppo.steps // budget.share)))


def entries() -> Iterator[Entry]:
    """Yields every entry, the most important first."""
    yield from (Entry("headline", problem, agent) for problem in PAPER for agent in BASELINES)
    yield from (Entry("headline", problem, "brpo") for problem in PAPER)
    yield from (
        Entry("small", problem, agent)
        for problem in WITH_OPTIMUM
        for agent in (*BASELINES, "brpo", "bpo")
    )
    for agent in ("bpo", "upmle"):
        yield from (Entry("headline", problem, agent) for problem in PAPER)
        yield from (
            Entry("headline", problem, agent, "bonus", {"bonus": EPSILON[problem]})
            for problem in WITH_SENSING
        )
    for problem in WITH_SENSING:
        yield from (
            Entry("bonus", problem, "brpo", f"bonus{e:g}", {"bonus": e}) for e in (10.0, 100.0)
        )
        yield Entry(
            "bonus", problem, "brpo", "potential100", {"bonus": 100.0, "bonus_form": "potential"}
        )
        gains = (
            (f"gain{e:g}", {"bonus": e, "bonus_form": "information_gain"}) for e in (10.0, 100.0)
        )
        yield from (Entry("bonus", problem, "brpo", name, changes) for name, changes in gains)
    yield from (Entry("inputs", problem, "brpo_without_belief") for problem in WITH_SENSING)
    yield Entry("sensing", "maze10", "better_sensing")
    yield Entry("sensing", "maze10", "brpo", "better_sensing", {"problem": BETTER_SENSING})
    yield Entry("sensing", "door4", "brpo", "cheap_sensing", {"problem": CHEAP_SENSING})
    yield from (
        Entry("depth", "tree", agent, "deep", {"problem": DEEP_TREE}) for agent in ("brpo", "bpo")
    )
    yield from (
        Entry("composition", "maze10", "brpo", f"blend{w:g}", {"blend": w}) for w in (0.1, 0.5)
    )


PLAN = {entry.name: entry for entry in entries()}
GROUPS = tuple(dict.fromkeys(entry.group for entry in PLAN.values()))


def versions(problem: str, agent: str) -> list[str]:
    """Returns the names of an agent's headline entries: without the paper's bonus, and with it."""
    names = (f"{problem}-{agent}", f"{problem}-{agent}-bonus")
    return [name for name in names if name in PLAN]


def chosen(names: Iterable[str], plan: dict[str, Entry] = PLAN) -> list[Entry]:
    """Returns entries and whole groups by name, in the plan's order; without names, all entries."""
    asked = set(names)
    for name in sorted(asked - set(GROUPS) - set(plan)):
        shown = [*GROUPS, *list(plan)[:1], "and the like"]
        raise unknown("entry or group", name, [*GROUPS, *plan], shown)
    return [entry for entry in plan.values() if not asked or {entry.name, entry.group} & asked]
