"""Measure every ensemble beside its clairvoyant and the authors' figure, and write the table into
docs/problems.md.

.venv/bin/python benchmarks/ensembles.py [EPISODES]

The raw numbers go to results/ensembles.json. "Never senses" is the same ensemble with sensing
always off; "room" is what the clairvoyant has more than the ensemble on the same episodes, with the
interval of that difference.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp

import seerax
from seerax import problems, rollout
from seerax.advice import Clairvoyant, follow_advice
from seerax.core import BeliefMDP, Policy
from seerax.keys import evaluation_key
from seerax.paper.reference import ORIGINALS
from seerax.system import files, markdown

ROOT = Path(__file__).parent.parent


def never_senses(mdp: BeliefMDP) -> Policy:
    problem: Any = mdp.problem
    return lambda key, situation: problem.with_sensing(situation.advice, jnp.bool_(False))


def players(mdp: BeliefMDP) -> dict[str, Any]:
    silent = {"never senses": never_senses(mdp)} if hasattr(mdp.problem, "with_sensing") else {}
    expert: Any = mdp.expert
    return {"ensemble": follow_advice, **silent, "clairvoyant": Clairvoyant(expert)}


def measured(name: str, episodes: int) -> dict[str, Any]:
    mdp = problems.make(name)
    key = evaluation_key(0)
    played = {
        who: rollout.evaluate(key, mdp, policy, episodes) for who, policy in players(mdp).items()
    }
    summaries = {who: each.summary() for who, each in played.items()}
    gap = replace(
        played["clairvoyant"], returns=played["clairvoyant"].returns - played["ensemble"].returns
    )
    summaries["clairvoyant"]["room"] = {"mean": gap.mean, "ci95": list(gap.interval())}
    return summaries


def line(name: str, who: str, s: dict[str, Any]) -> str:
    low, high = s["ci95"]
    sensing = "-" if s["sensing"] is None else f"{100 * s['sensing']:.1f} %"
    remark = ORIGINALS[name] if who == "ensemble" and name in ORIGINALS else ""
    if room := s.get("room"):
        remark = f"room: {room['mean']:.1f} [{room['ci95'][0]:.1f}, {room['ci95'][1]:.1f}]"
    numbers = [f"{s['mean']:.1f}", f"[{low:.1f}, {high:.1f}]", f"{100 * s['success']:.1f} %"]
    cells = [name, who, *numbers, sensing, f"{s['length']:.1f}", str(remark)]
    return f"| {' | '.join(cells)} |"


def table(results: dict[str, dict[str, Any]]) -> str:
    words = "problem, agent, mean return, 95 % interval, success, sensing, length, original, room"
    *titles, original, room = words.split(", ")
    titles.append(f"{original}, {room}")
    head = f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|"
    return "\n".join(
        [head, *(line(name, who, s) for name, each in results.items() for who, s in each.items())]
    )


def main() -> None:
    seerax.prepare()
    episodes = int(sys.argv[1]) if sys.argv[1:] else 2000
    results = {name: measured(name, episodes) for name in problems.PROBLEMS}
    files.write_json(ROOT / "results/ensembles.json", results)
    markdown.write_between(ROOT / "docs/problems.md", "ensembles", table(results))


if __name__ == "__main__":
    main()
