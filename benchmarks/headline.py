"""Train what README and docs/results.md report, measure it on fresh episodes, and write the tables.

    .venv/bin/python benchmarks/headline.py [EXPERIMENT ...]

Each experiment is trained once (runs/headline, resumed if it was cut) and measured once (results/headline/*.json); what
is there is not done again. Delete a JSON file to measure anew, its run folder to train anew.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

import seerax
from seerax import advice, exact, experiments, pages, rollout, runs, store
from seerax.progress import TrainingBar

ROOT = Path(__file__).parent.parent
RESULTS, RUNS, POLICIES = ROOT / "results/headline", ROOT / "runs/headline", ROOT / "src/seerax/policies"


class Entry(NamedTuple):
    problem: str
    agent: str
    seeds: int
    episodes: int  # for each seed


ENTRIES = {
    "tiger-brpo": Entry("tiger", "brpo", 5, 100_000),
    "tiger-bpo": Entry("tiger", "bpo", 5, 100_000),
    "tree-brpo": Entry("tree", "brpo", 5, 10_000),
    "maze4-brpo": Entry("maze4", "brpo", 5, 2_000),
}


def trained(name: str, entry: Entry) -> tuple[runs.RunFolder, float]:
    """The finished run and its wall time in seconds, all seeds together."""
    folder = runs.RunFolder(RUNS / name)
    run = runs.Run(experiments.settings(entry.problem, entry.agent), 0, entry.seeds, folder)
    started = time.monotonic()
    with TrainingBar(Console(stderr=True), run) as bar:
        runs.train(run, bar.show, resume=folder.config.exists())
    return folder, time.monotonic() - started


def measured(name: str, entry: Entry) -> dict[str, Any]:
    folder, seconds = trained(name, entry)
    players = [runs.load_policy(path)[1] for path in folder.policies()]
    key, mdp = runs.evaluation_key(0), players[0].mdp
    each = [rollout.evaluate(key, mdp, policy, entry.episodes) for policy in players]
    rows = {"ensemble": rollout.evaluate(key, mdp, advice.ensemble, entry.episodes), entry.agent: rollout.joined(each)}
    rows["clairvoyant"] = rollout.evaluate(key, mdp, advice.Clairvoyant(mdp.expert), entry.episodes)
    ship(folder, entry)
    return {
        **entry._asdict(),
        "config": folder.read_config(),
        "versions": runs.versions(),
        "training_seconds": seconds,
        "per_seed": [part.mean for part in each],
        **{player: row.summary() for player, row in rows.items()},
    }


def ship(folder: runs.RunFolder, entry: Entry) -> None:
    """The seed with the best held-out return is the policy that comes with seerax."""
    best = max(folder.policies(), key=lambda path: store.read_about(path)["held_out"])
    POLICIES.mkdir(exist_ok=True)
    shutil.copyfile(best, POLICIES / f"{entry.problem}-{entry.agent}.safetensors")


# ---- tables ------------------------------------------------------------------------------------------------------

OPTIMA = {"tiger": exact.tiger_optimum(), "tree": exact.tree_optimum(4)}


def table(results: dict[str, dict[str, Any]]) -> str:
    lines = [
        "| problem | agent | mean return | 95 % interval | success | sensing | length | Bayes-optimal |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for result in results.values():
        for player in ("ensemble", result["agent"], "clairvoyant"):
            lines.append(line(result, player))
    return "\n".join(dict.fromkeys(lines))


def line(result: dict[str, Any], player: str) -> str:
    s = result[player]
    low, high = s["ci95"]
    learned = player == result["agent"]
    name = f"**{player}** ({result['seeds']} seeds)" if learned else player
    optimum = f"{OPTIMA[result['problem']]:.4f}" if result["problem"] in OPTIMA else "unknown"
    numbers = f"{s['mean']:.2f} | [{low:.2f}, {high:.2f}] | {100 * s['success']:.1f} % | {100 * s['sensing']:.1f} %"
    return f"| {result['problem']} | {name} | {numbers} | {s['length']:.1f} | {optimum} |"


def main() -> None:
    seerax.prepare()
    RESULTS.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or ENTRIES:
        file = RESULTS / f"{name}.json"
        if not file.exists():
            store.write_json(file, measured(name, ENTRIES[name]))
    done = {
        name: json.loads((RESULTS / f"{name}.json").read_text())
        for name in ENTRIES
        if (RESULTS / f"{name}.json").exists()
    }
    for document in (ROOT / "README.md", ROOT / "docs/results.md"):
        pages.write_between(document, "headline", table(done))


if __name__ == "__main__":
    main()
