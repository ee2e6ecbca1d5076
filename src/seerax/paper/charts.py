"""The charts of the paper, drawn from saved results; what has not been run yet is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seerax import rollout
from seerax.advice import follow_advice
from seerax.drawing import PALETTE
from seerax.errors import UserError
from seerax.figures import tree_gap, yscale
from seerax.figures.curves import STEPS, Run, draw_curve, in_millions
from seerax.figures.saving import save
from seerax.figures.style import shared_legend, tidy
from seerax.keys import evaluation_key
from seerax.paper import exact
from seerax.paper.results import Result
from seerax.problems import PAPER, WITH_SENSING, title
from seerax.problems import tree as trees

Results = Mapping[str, Result]  # by entry


class Line(NamedTuple):
    """One entry for each problem, and how it is drawn."""

    entry: str  # {} is the problem
    label: str
    colour: str
    style: Any = "-"
    width: float = 2.0
    level: bool = False  # a baseline: a level at the mean of its evaluation
    ours: bool = False  # a main curve: the vertical scale is chosen to show it


SHORT = (0, (3, 1.2))  # dashes
BRPO = Line("{}-brpo", "BRPO", "brpo", ours=True)
ENSEMBLE = Line("{}-ensemble", "ensemble of experts", "ensemble", "--", 1.5, level=True)
BENCHMARK = (
    BRPO,
    ENSEMBLE,
    Line("{}-bpo", "BPO", "bpo"),
    Line("{}-bpo-bonus", "BPO with bonus", "bpo", SHORT, 1.3),
    Line("{}-upmle", "UP-MLE", "upmle"),
    Line("{}-upmle-bonus", "UP-MLE with bonus", "upmle", SHORT, 1.3),
    Line("{}-clairvoyant", "clairvoyant expert", "clairvoyant", ":", 2.0, level=True),
)
INPUTS = (
    BRPO,
    Line("{}-brpo_without_belief", "BRPO without belief", "optimal", ours=True),
    ENSEMBLE,
)
COMPOSITION = (
    Line("{}-brpo", "BRPO: sum", "brpo", ours=True),
    Line("{}-brpo-blend0.1", "blend, w = 0.1", "posterior sampling", ours=True),
    Line("{}-brpo-blend0.5", "blend, w = 0.5", "optimal", ours=True),
    ENSEMBLE,
)


class Form(NamedTuple):
    """A form of the information bonus: its entries with their epsilons, and how they are drawn."""

    label: str
    colour: str
    aside: float  # shifts its points, so that forms do not hide each other
    entries: Mapping[str, int]


EPSILONS = (0, 10, 100)
FORMS = (
    Form(
        "the paper's bonus",
        "brpo",
        0.0,
        {"{}-brpo": 0, "{}-brpo-bonus10": 10, "{}-brpo-bonus100": 100},
    ),
    Form(
        "the authors' code's",
        "posterior sampling",
        -0.2,
        {"{}-brpo-gain10": 10, "{}-brpo-gain100": 100},
    ),
    Form("potential-based", "optimal", 0.2, {"{}-brpo-potential100": 100}),
)

# ---- the figures ---------------------------------------------------------------------------------


def benchmark(path: str | Path, results: Results) -> None:
    """Draws the training curves of all methods on the six problems."""
    save(lay_out_curves(results, PAPER, BENCHMARK, rows=2), path)


def inputs(path: str | Path, results: Results) -> None:
    """Draws training curves with and without the belief as an input."""
    save(lay_out_curves(results, WITH_SENSING, INPUTS), path)


def composition(path: str | Path, results: Results) -> None:
    """Draws training curves of the paper's sum and of the blends of the authors' code."""
    save(lay_out_curves(results, ("maze10",), COMPOSITION), path)


def bonus(path: str | Path, results: Results) -> None:
    """Draws returns, and crashes on Door4, over the epsilon of the information bonus."""
    save(lay_out_bonuses(results), path)


def tree(path: str | Path) -> None:
    """Draws the exact Bayes-optimal returns, and exact and simulated posterior sampling."""
    gaps = []
    for depth in (2, 3, 4, 5):
        points = [simulated(depth, episodes) for episodes in (1, 4, 16, 32)]
        gaps.append(tree_gap.Gap(depth, exact.tree_optimum, exact.tree_posterior_sampling, points))
    tree_gap.tree_gaps(path, gaps)


def simulated(depth: int, episodes: int) -> tree_gap.Point:
    """Simulates posterior sampling on trees of one depth."""
    mdp = trees.posterior_sampling(trees.tree(depth, episodes))
    result = rollout.evaluate(evaluation_key(0), mdp, follow_advice, 20_000)
    return tree_gap.Point(episodes, result.mean, result.stderr)


CHARTS: dict[str, Callable[[Path, Results], None]] = {
    "benchmark": benchmark,
    "bonus": bonus,
    "inputs": inputs,
    "composition": composition,
}


# ---- panels of curves ----------------------------------------------------------------------------


def lay_out_curves(
    results: Results, problems: Sequence[str], lines: Sequence[Line], rows: int = 1
) -> Figure:
    """Creates a figure with one panel per problem and one legend below them all."""
    learned = [line.entry for line in lines if not line.level]
    found = require(present(results, problems, learned))
    columns = -(-len(problems) // rows)
    figure = Figure(figsize=(max(5.4, 3.5 * columns), 2.7 * rows + 1.0), layout="constrained")
    bent = False
    for ax, problem in zip(np.ravel(figure.subplots(rows, columns)), problems, strict=True):
        bent |= draw_panel(ax, results, problem, lines)
        ax.set_title(title(problem), fontsize=12)
    for place, ax in enumerate(figure.axes):
        ax.set_xlabel(STEPS if place >= columns * (rows - 1) else "", fontsize=11)
        ax.set_ylabel("held-out return" if place % columns == 0 else "", fontsize=11)
    words = note([len(runs(results[name])) for name in found], bent)
    shared_legend(figure, 4 if columns > 1 else 2, words)
    return figure


def draw_panel(ax: Axes, results: Results, problem: str, lines: Sequence[Line]) -> bool:
    """Draws the curves and levels of one problem; returns True if its scale is bent."""
    tidy(ax, "", "")
    entries = {line: entry for line in lines if (entry := results.get(line.entry.format(problem)))}
    curves = {
        line: runs(entry) for line, entry in entries.items() if not line.level and runs(entry)
    }
    if not curves:
        mark_missing(ax)
        return False
    means = {}
    for line, entry in entries.items():
        if line in curves:
            means[line] = draw_curve(ax, curves[line], **look(line))
        elif line.level:
            means[line] = np.array([entry["evaluation"]["mean"]])
            ax.axhline(means[line][0], **look(line))
    in_millions(ax)
    ax.set_xlim(0, max(steps[-1] for seeds in curves.values() for steps, _ in seeds))
    ours = [mean for line, mean in means.items() if line.level or line.ours]
    return yscale.fit(ax, ours, list(means.values()))


def look(line: Line) -> dict[str, Any]:
    """Returns how matplotlib draws a line: BRPO on top, levels below."""
    place = 1.8 if line.level else 2.2 if line.colour == "brpo" else 2.0
    return {
        "label": line.label,
        "color": PALETTE[line.colour],
        "linestyle": line.style,
        "linewidth": line.width,
        "zorder": place,
    }


def runs(entry: Mapping[str, Any]) -> list[Run]:
    """Returns (steps, held-out returns) of every seed of an entry."""
    curves = [curve for curve in entry.get("curves") or [] if curve["steps"]]
    return [
        (np.asarray(curve["steps"]), np.asarray(curve["held_out"], np.float64)) for curve in curves
    ]


def note(seeds: Sequence[int], bent: bool) -> str | None:
    """Returns what shades and grey ground mean, in words."""
    several = sorted({count for count in seeds if count > 1})
    over = "-".join(map(str, sorted({several[0], several[-1]}))) if several else ""
    parts = [f"lines: means over {over} seeds, shaded: 95 % intervals"] * bool(several)
    parts += ["on grey ground the scale is logarithmic"] * bent
    return "; ".join(parts) or None


# ---- panels of the bonus -------------------------------------------------------------------------


def lay_out_bonuses(results: Results) -> Figure:
    """Creates a figure with one panel per problem, and one for the crashes on Door4."""
    require(present(results, WITH_SENSING, [entry for form in FORMS for entry in form.entries]))
    figure = Figure(figsize=(11.0, 3.6), layout="constrained")
    *panels, beside = figure.subplots(1, len(WITH_SENSING) + 1)
    for ax, problem in zip(panels, WITH_SENSING, strict=True):
        draw_bonuses(ax, results, problem)
        ax.set_title(title(problem), fontsize=12)
    draw_crashes(beside, results, "door4")
    beside.set_title("Door4, crashes", fontsize=12)
    figure.axes[0].set_ylabel("return", fontsize=11)
    words = "points: returned policies, hollow: last policies, with 95 % intervals"
    shared_legend(figure, 4, words)
    return figure


def draw_bonuses(ax: Axes, results: Results, problem: str) -> None:
    """Draws the returns of one problem over epsilon, and its ensemble as a level."""
    ensemble = results.get(f"{problem}-ensemble")
    found = draw_forms(ax, results, problem, itemgetter("evaluation"))
    if found and ensemble:
        ax.axhline(ensemble["evaluation"]["mean"], **look(ENSEMBLE))


def draw_crashes(ax: Axes, results: Results, problem: str) -> None:
    """Draws the crashes of the policies that are returned and, hollow, of the last ones."""

    def returned(result: Any) -> Any:
        return result.get("extra", {}).get("crashes")

    def last(result: Any) -> Any:
        return result.get("extra", {}).get("at_the_end", {}).get("crashes")

    found = draw_forms(ax, results, problem, returned)
    draw_forms(ax, results, problem, last, markerfacecolor="white", zorder=1.9)
    ax.set_ylabel("steps in touch, per episode", fontsize=11)
    if found:
        ax.set_yscale("log")


def draw_forms(
    ax: Axes, results: Results, problem: str, part: Callable[[Any], Any], **marks: Any
) -> bool:
    """Draws one part of the results as points with intervals; returns True if there are any."""
    tidy(ax, "epsilon of the bonus", "")
    there = False
    for form in FORMS:
        names = {entry.format(problem): epsilon for entry, epsilon in form.entries.items()}
        finals = {
            epsilon: found
            for name, epsilon in names.items()
            if name in results and (found := part(results[name]))
        }
        if finals:
            draw_finals(ax, form, finals, **marks)
        there |= bool(finals)
    if not there and not marks:
        mark_missing(ax)
    return there


def draw_finals(
    ax: Axes, form: Form, finals: Mapping[int, Mapping[str, Any]], **marks: Any
) -> None:
    """Draws the points of one form, by epsilon; those with marks of their own get no label."""
    places = [EPSILONS.index(epsilon) + form.aside for epsilon in finals]
    means = np.array([final["mean"] for final in finals.values()])
    intervals = np.array([final["ci95"] for final in finals.values()])
    margins = np.abs(intervals - means[:, None]).T
    look: dict[str, Any] = {"color": PALETTE[form.colour], "capsize": 4, "markersize": 6, **marks}
    label = None if marks else form.label
    ax.errorbar(places, means, margins, fmt="o", label=label, **look)
    ax.set_xticks(range(len(EPSILONS)), [str(epsilon) for epsilon in EPSILONS])
    ax.set_xlim(-0.5, len(EPSILONS) - 0.5)


# ---- results that are there ----------------------------------------------------------------------


def present(results: Results, problems: Iterable[str], entries: Iterable[str]) -> list[str]:
    """Returns the names of those entries that have a result."""
    entries = list(entries)
    names = [entry.format(problem) for problem in problems for entry in entries]
    return [name for name in names if name in results]


def require(found: list[str]) -> list[str]:
    """Returns the names found, and refuses to draw none."""
    if not found:
        raise UserError(
            "None of the results belongs to this figure: run the paper's entries first."
        )
    return found


def mark_missing(ax: Axes) -> None:
    """Says in an empty panel that its entries are not run yet."""
    centred: dict[str, Any] = {"transform": ax.transAxes, "ha": "center", "va": "center"}
    ax.text(0.5, 0.5, "not run yet", color=PALETTE["faint"], **centred)
    ax.set(xticks=[], yticks=[])
