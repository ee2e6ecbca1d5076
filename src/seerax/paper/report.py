"""Tables of the results, for README and docs/results.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from seerax.numerics.statistics import percent
from seerax.paper import claims, draw, exact
from seerax.paper.exact_rules import DEPTH
from seerax.paper.plan import PLAN, Budget
from seerax.paper.results import NotRun, Result, Results
from seerax.paper.rules import better, told
from seerax.problems import PAPER, WITH_OPTIMUM
from seerax.system import files, markdown

MISSING = "not run yet"
README, PAGE, FILMS = Path("README.md"), Path("docs/results.md"), "films"
OPTIMA: dict[str, Callable[[], float]] = {
    "tiger": exact.tiger_optimum,
    "tree": partial(exact.tree_optimum, DEPTH),
}


# ---- tables --------------------------------------------------------------------------------------


def headline(results: Results) -> str:
    """Returns the table of returns by problem and agent."""
    agents = ("ensemble", "BPO", "UP-MLE", "**BRPO**", "clairvoyant")
    rows = [headline_row(results, problem) for problem in (*PAPER, *WITH_OPTIMUM)]
    return markdown.table(("problem", *agents, "closed", "Bayes-optimal"), rows)


def headline_row(results: Results, problem: str) -> tuple[str, ...]:
    """Returns the returns on one problem, and the share of the gap that BRPO has closed."""
    digits = 2 if problem in WITH_OPTIMUM else 1

    def cell(agent: str) -> str:
        if f"{problem}-{agent}" not in PLAN:
            return "-"
        try:
            return told(better(results, problem, agent)["evaluation"], digits)
        except NotRun:
            return MISSING

    brpo = cell("brpo") if f"{problem}-brpo" not in results else f"**{cell('brpo')}**"
    optimum = f"{OPTIMA[problem]():.2f}" if problem in OPTIMA else "unknown"
    upper = cell("clairvoyant").partition(" [")[0]
    return (
        problem,
        cell("ensemble"),
        cell("bpo"),
        cell("upmle"),
        brpo,
        upper,
        closed(results, problem),
        optimum,
    )


def closed(results: Results, problem: str) -> str:
    """Returns the share of the way from the ensemble to the clairvoyant that BRPO has gone."""
    who = ("ensemble", "brpo", "clairvoyant")
    try:
        low, mine, high = (results[f"{problem}-{each}"]["evaluation"]["mean"] for each in who)
    except NotRun:
        return MISSING
    return f"{100 * (mine - low) / (high - low):.0f} %" if high != low else "-"


def claims_table(results: Results) -> str:
    """Returns the table of claims and verdicts."""
    head = ("paper", "claim", "ours", "verdict", "holds if", "remark")
    return markdown.table(head, [tuple(row) for row in claims.rows(results)])


def entries_table(results: Results) -> str:
    """Returns the table of all entries of the plan."""
    head = ("entry", "mean return", "success", "sensing", "length", "crashes", "seeds", "training")
    return markdown.table(head, [entry_row(name, results.get(name)) for name in PLAN])


def entry_row(name: str, result: Result | None) -> tuple[str, ...]:
    """Returns what was measured of an entry."""
    if result is None:
        return (name, MISSING, *[""] * 6)
    measured = result["evaluation"]
    crashed = result["extra"].get("crashes")
    learned = PLAN[name].learns
    return (
        name,
        told(measured, 2),
        percent(measured["success"]),
        percent(measured["sensing"]),
        f"{measured['length']:.1f}",
        "" if crashed is None else f"{crashed['mean']:.2f}",
        str(result["seeds"]) if learned else "",
        duration(result["training_seconds"]) if learned else "",
    )


def duration(seconds: float) -> str:
    """Returns a time in words, in seconds, minutes or hours."""
    if seconds < 600:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6 * 3600 else f"{seconds / 3600:.1f} h"


def cost(results: Results) -> str:
    """Returns the table of wall times of training."""
    whole = sum(result["training_seconds"] for result in results.values())
    learned = [name for name, entry in PLAN.items() if entry.learns]
    there = sum(name in results for name in learned)
    cores = ", ".join(sorted({str(result["cores"]) for result in results.values()})) or "-"
    everything = f"everything here ({there} of {len(learned)} trainings, all seeds)"
    rows = [
        ("BRPO on all six problems, one seed each", one_seed(results)),
        (everything, duration(whole) if there else MISSING),
        ("cores", cores),
    ]
    return markdown.table(("training", "wall time"), rows)


def one_seed(results: Results) -> str:
    """Returns the wall time of training one seed of BRPO on every problem of the paper."""
    try:
        each = [results[f"{problem}-brpo"] for problem in PAPER]
    except NotRun as missing:
        return f"{missing} is not run yet"
    return duration(sum(result["training_seconds"] / result["seeds"] for result in each))


PARTS = {"headline": headline, "claims": claims_table, "entries": entries_table, "cost": cost}


# ---- pages ---------------------------------------------------------------------------------------


def page(budget: Budget) -> Path:
    """Returns the page to write: docs/results.md if it exists here and the budget is the full one.

    Otherwise it is a page beside the results.
    """
    return PAGE if budget.name == "full" and PAGE.exists() else budget.results / "results.md"


def write(results: dict[str, Result], budget: Budget) -> Iterator[Path]:
    """Writes the page with its pictures and films, and README's table; yields the paths."""
    found = Results(results)
    path = page(budget)
    parts = {name: part(found) for name, part in PARTS.items()}
    parts["figures"] = figures(results, budget)
    if path == PAGE:
        for name, part in parts.items():
            markdown.write_between(PAGE, name, part)
        markdown.write_between(README, "headline", parts["headline"])
        yield README
    else:
        text = "\n\n".join([f"# Results, budget {budget.name}", *parts.values()])
        files.write_bytes(path, f"{text}\n".encode())
    yield path
    yield from draw.draw(results, path.parent, budget)
    yield from draw.films(results, path.parent / FILMS, budget)


def figures(results: dict[str, Result], budget: Budget) -> str:
    """Returns the page's part with pictures and links to films."""
    seen = [f"![{caption}]({name}.png)" for name, caption in draw.captions(results, budget).items()]
    links = [f"[{problem}]({FILMS}/{problem}.mp4)" for problem in draw.filmed(results, budget)]
    films = ", ".join(links)
    told = [f"Films of the same episode by the ensemble and by BRPO: {films}."] if films else []
    return "\n\n".join([*seen, *told]) or MISSING
