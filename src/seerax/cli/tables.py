"""Tables and lines on the terminal: results on standard output, all else on standard error."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from seerax.numerics.statistics import percent
from seerax.rollout import Evaluation

err = Console(stderr=True, highlight=False)
out = Console(highlight=False)


def say(message: str) -> None:
    """Prints a line to standard error."""
    err.print(escape(message), soft_wrap=True)


def results_table(title: str, rows: dict[str, Evaluation]) -> Table:
    """Returns a table with one row per player."""
    table = Table(
        "agent",
        "mean return",
        "95 % interval",
        "success",
        "sensing",
        "length",
        title=title,
        title_justify="left",
    )
    for name, evaluation in rows.items():
        found = evaluation.summary()
        low, high = found["ci95"]
        table.add_row(
            name,
            f"{found['mean']:.2f}",
            f"[{low:.2f}, {high:.2f}]",
            percent(found["success"]),
            percent(found["sensing"]),
            f"{found['length']:.1f}",
        )
    return table
