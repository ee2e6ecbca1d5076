"""One line per thing the paper shows, the most important first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from seerax import experiments
from seerax.agents import AGENTS
from seerax.commands import BASELINES, FRESH_EPISODES
from seerax.errors import unknown
from seerax.experiments import Experiment
from seerax.problems import PAPER, WITH_OPTIMUM, WITH_SENSING

EPSILON = {
    "maze4": 1.0,
    "maze10": 100.0,
    "door4": 1.0,
}  # of the bonus that BPO and UP-MLE have in the paper
BETTER_SENSING = "seerax.problems.maze:maze10_better_sensing"
EPISODES = {"tiger": 100_000, "tree": 10_000}  # fresh ones for each seed, where not FRESH_EPISODES
CHEAP_SENSING = "seerax.problems.doors:door4_cheap_sensing"
DEEP_TREE = "seerax.problems.tree:deep_tree"
# Of the full budget, where not five: some seeds of BPO and UP-MLE learn Door4 and some do not, and ten leave it open
# whether UP-MLE is below BRPO.
SEEDS = {"door4": 10, "door4-bpo": 20, "door4-upmle": 20}


@dataclass(frozen=True)
class Budget:
    """How much of the full training, and where it is kept."""

    name: str
    share: int  # one so many-th of the steps
    seeds: int
    results: Path
    runs: Path
    more_seeds: Mapping[str, int] = field(default_factory=dict)  # by problem, or by problem-agent

    def seeds_of(self, problem: str, agent: str) -> int:
        usual = self.more_seeds.get(problem, self.seeds)
        return self.more_seeds.get(f"{problem}-{agent}", usual)


BUDGETS = {
    "full": Budget("full", 1, 5, Path("results/paper"), Path("runs/paper"), SEEDS),
    "quick": Budget("quick", 6, 2, Path("results/paper-quick"), Path("runs/paper-quick")),
}


@dataclass(frozen=True)
class Entry:
    """An agent on a problem, with our settings but for the changes."""

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
        """Whether its best policy comes with seerax."""
        return self.learns and self.group in ("headline", "small")

    @property
    def mapped(self) -> bool:
        """Whether its sensing map is drawn."""
        return self.name in {f"{problem}-brpo" for problem in WITH_SENSING}

    @property
    def episodes(self) -> int:
        return EPISODES.get(self.problem, FRESH_EPISODES)

    def experiment(self, budget: Budget) -> Experiment:
        ours = replace(experiments.settings(self.problem, self.agent), **self.changes)
        return replace(ours, ppo=replace(ours.ppo, steps=max(1, ours.ppo.steps // budget.share)))


def entries() -> Iterator[Entry]:
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
    """The names of an agent's headline entries: without the paper's bonus and, if it has one, with it."""
    return [name for name in (f"{problem}-{agent}", f"{problem}-{agent}-bonus") if name in PLAN]


def chosen(names: Iterable[str], plan: dict[str, Entry] = PLAN) -> list[Entry]:
    """Entries and whole groups by name, in the plan's order; all of them if none is named."""
    names = set(names)
    for name in sorted(names - set(GROUPS) - set(plan)):
        raise unknown(
            "entry or group", name, [*GROUPS, *plan], [*GROUPS, *list(plan)[:1], "and the like"]
        )
    return [entry for entry in plan.values() if not names or {entry.name, entry.group} & names]
