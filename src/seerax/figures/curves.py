"""Training curves: means over seeds with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from scipy.special import stdtrit

from seerax.drawing import PALETTE
from seerax.errors import UserError
from seerax.figures.saving import save
from seerax.figures.style import colours, tidy
from seerax.numerics import statistics

Run = tuple[np.ndarray, np.ndarray]  # (environment steps, held-out returns) of one seed
STEPS = "environment steps (millions)"
LEGEND = 30  # characters in a line of it, which stands beside the curves and must leave them room


def curve(
    path: str | Path,
    runs: Mapping[str, Sequence[Run]],
    ensemble: float | None = None,
    clairvoyant: float | None = None,
) -> None:
    """Held-out return over training for each label, against the experts' ensemble and the expert told phi."""
    figure = Figure(figsize=(7.6, 4.0), layout="constrained")
    draw_curves(figure.add_subplot(), runs, ensemble, clairvoyant)
    save(figure, path)


def draw_curves(
    ax: Axes,
    runs: Mapping[str, Sequence[Run]],
    ensemble: float | None = None,
    clairvoyant: float | None = None,
) -> None:
    for (label, seeds), colour in zip(runs.items(), colours(runs), strict=True):
        several = f" ({len(seeds)} seeds)" if len(seeds) > 1 else ""
        draw_curve(ax, seeds, label=fill(label + several, LEGEND), color=colour)
    if ensemble is not None:
        ax.axhline(
            ensemble,
            color=PALETTE["ensemble"],
            linestyle="--",
            linewidth=1.5,
            label="ensemble of experts",
        )
    if clairvoyant is not None:
        ax.axhline(
            clairvoyant,
            color=PALETTE["clairvoyant"],
            linestyle=":",
            linewidth=2,
            label="clairvoyant expert",
        )
    tidy(ax, STEPS, "held-out return")
    in_millions(ax)
    note = "shaded: 95 % interval" if any(len(seeds) > 1 for seeds in runs.values()) else None
    beside: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
    ax.legend(title=note, title_fontsize=10, frameon=False, fontsize=10, alignment="left", **beside)


def draw_curve(ax: Axes, seeds: Sequence[Run], **look: Any) -> np.ndarray:
    """The mean over seeds, shaded by its 95 % interval; returns the mean."""
    steps, mean, margin = over_seeds(seeds)
    [line] = ax.plot(steps, mean, **{"linewidth": 2, **look})
    if len(seeds) > 1:
        ax.fill_between(
            steps, mean - margin, mean + margin, color=line.get_color(), alpha=0.18, linewidth=0
        )
    return mean


def in_millions(ax: Axes) -> None:
    ax.xaxis.set_major_formatter(FuncFormatter(lambda steps, _: f"{steps / 1e6:g}"))


def over_seeds(seeds: Sequence[Run]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Steps, means, and half of the 95 % interval by Student's t. Seeds count as far as the shortest has come."""
    if not seeds:
        raise UserError("There is no held-out evaluation to draw a curve of yet.")
    count = min(len(steps) for steps, _ in seeds)
    steps = np.asarray(seeds[0][0])[:count]
    if any((np.asarray(other)[:count] != steps).any() for other, _ in seeds):
        raise UserError("The seeds of a curve were not evaluated after the same numbers of steps.")
    values = np.stack([np.asarray(returns)[:count] for _, returns in seeds], axis=-1)
    if len(seeds) == 1:
        return steps, values[:, 0], np.zeros(count)
    return (
        steps,
        values.mean(-1),
        stdtrit(len(seeds) - 1, 0.975) * statistics.standard_error(values),
    )
