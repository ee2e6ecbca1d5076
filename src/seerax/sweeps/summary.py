"""The summary of a sweep: one row per problem, agent and setting."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from seerax.numerics.statistics import percent, student_interval
from seerax.sweeps.plan import Job
from seerax.system import files

HEADINGS = (
    "problem",
    "agent",
    "setting",
    "seeds",
    "mean return",
    "95 % interval",
    "success",
    "ensemble",
    "clairvoyant",
)


@dataclass(frozen=True)
class Row:
    """One problem, agent and setting over all finished seeds. Returns are of fresh episodes."""

    problem: str
    agent: str
    setting: str
    seeds: int
    mean: float
    ci95: tuple[float, float] | None  # over seeds, so of two at least
    success: float | None
    ensemble: float
    clairvoyant: float | None


def summarise(jobs: list[Job]) -> list[Row]:
    """Groups the finished jobs into rows."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for job in jobs:
        if job.finished():
            key = (job.experiment.problem, job.experiment.agent, job.setting)
            groups.setdefault(key, []).append(json.loads(job.folder.evaluation.read_text()))
    return [make_row(*key, results) for key, results in groups.items()]


def make_row(problem: str, agent: str, setting: str, results: list[dict[str, Any]]) -> Row:
    returns = np.array([result[agent]["mean"] for result in results])

    def average(who: str, what: str) -> float | None:
        values = [result[who][what] for result in results if who in result]
        return float(np.mean(values)) if values and None not in values else None

    return Row(
        problem,
        agent,
        setting,
        len(results),
        float(returns.mean()),
        student_interval(returns) if len(results) > 1 else None,
        average(agent, "success"),
        float(average("ensemble", "mean") or 0.0),
        average("clairvoyant", "mean"),
    )


def cells(row: Row) -> list[str]:
    interval = "-" if row.ci95 is None else f"[{row.ci95[0]:.2f}, {row.ci95[1]:.2f}]"
    clairvoyant = "-" if row.clairvoyant is None else f"{row.clairvoyant:.2f}"
    names = [row.problem, row.agent, row.setting or "-", str(row.seeds)]
    numbers = [f"{row.mean:.2f}", interval, percent(row.success), f"{row.ensemble:.2f}"]
    return [*names, *numbers, clairvoyant]


def table(rows: list[Row]) -> str:
    """Returns the rows as Markdown, aligned for the eye."""
    body = [list(HEADINGS), *map(cells, rows)]
    widths = [max(len(line[i]) for line in body) for i in range(len(HEADINGS))]
    body.insert(1, ["-" * width for width in widths])
    lines = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write_summary(out: Path, rows: list[Row], failures: dict[str, str]) -> None:
    """Writes summary.json and summary.md."""
    files.write_json(
        out / "summary.json", {"rows": [asdict(row) for row in rows], "failed": failures}
    )
    missing = [f"\nFailed: {name}: {reason}" for name, reason in failures.items()]
    files.write_bytes(out / "summary.md", ("\n".join([table(rows), *missing]) + "\n").encode())
