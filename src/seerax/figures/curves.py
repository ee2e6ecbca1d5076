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

from seerax.drawing import PALETTE
from seerax.errors import UserError
from seerax.figures.saving import save
from seerax.figures.style import colours, tidy
from seerax.numerics import statistics

Run = tuple[np.ndarray, np.ndarray]  # (environment steps, held-out returns) of one seed
STEPS = "environment steps (millions)"
LEGEND = 30  # characters in a line of the legend, which must leave the curves beside it room


def curve(
    path: str | Path,
    runs: Mapping[str, Sequence[Run]],
    ensemble: float | None = None,
    clairvoyant: float | None = None,
) -> None:
    """Draws held-out returns over training, one line per label.

    Two levels are drawn beside them: the experts' ensemble, and the expert that is told the latent.
    """
    figure = Figure(figsize=(7.6, 4.0), layout="constrained")
    draw_curves(figure.add_subplot(), runs, ensemble, clairvoyant)
    save(figure, path)


def draw_curves(
    ax: Axes,
    runs: Mapping[str, Sequence[Run]],
    ensemble: float | None = None,
    clairvoyant: float | None = None,
) -> None:
    """Draws one line per label with its interval over seeds, and the two levels that are given."""
    for (label, seeds), colour in zip(runs.items(), colours(runs), strict=True):
        several = f" ({len(seeds)} seeds)" if len(seeds) > 1 else ""
        draw_curve(ax, seeds, label=fill(label + several, LEGEND), color=colour)
    if ensemble is not None:
        colour = PALETTE["ensemble"]
        ax.axhline(ensemble, color=colour, ls="--", lw=1.5, label="ensemble of experts")
    if clairvoyant is not None:
        colour = PALETTE["clairvoyant"]
        ax.axhline(clairvoyant, color=colour, ls=":", lw=2, label="clairvoyant expert")
    tidy(ax, STEPS, "held-out return")
    in_millions(ax)
    note = "shaded: 95 % interval" if any(len(seeds) > 1 for seeds in runs.values()) else None
    beside: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
    ax.legend(title=note, title_fontsize=10, frameon=False, fontsize=10, alignment="left", **beside)


def draw_curve(ax: Axes, seeds: Sequence[Run], **look: Any) -> np.ndarray:
    """Draws the mean over seeds, shaded by its 95 % interval; returns the mean."""
    steps, mean, margin = over_seeds(seeds)
    [line] = ax.plot(steps, mean, **{"linewidth": 2, **look})
    if len(seeds) > 1:
        ax.fill_between(
            steps, mean - margin, mean + margin, color=line.get_color(), alpha=0.18, linewidth=0
        )
    return mean


def in_millions(ax: Axes) -> None:
    """Writes the numbers of the horizontal axis in millions."""
    ax.xaxis.set_major_formatter(FuncFormatter(lambda steps, _: f"{steps / 1e6:g}"))


def over_seeds(seeds: Sequence[Run]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns steps, means over seeds, and half of the 95 % interval by Student's t.

    All seeds are cut to the length of the shortest one.
    """
    if not seeds:
        raise UserError("There is no held-out evaluation to draw a curve of yet.")
    count = min(len(steps) for steps, _ in seeds)
    steps = np.asarray(seeds[0][0])[:count]
    if any((np.asarray(other)[:count] != steps).any() for other, _ in seeds):
        raise UserError("The seeds of a curve were not evaluated after the same numbers of steps.")
    values = np.stack([np.asarray(returns)[:count] for _, returns in seeds], axis=-1)
    if len(seeds) == 1:
        return steps, values[:, 0], np.zeros(count)
    margin = statistics.student_margin(len(seeds), statistics.standard_error(values))
    return steps, values.mean(-1), margin
