"""How all charts look: colours, frames, grids, one legend for several."""

from __future__ import annotations

from collections.abc import Iterable

from matplotlib.axes import Axes

from seerax.problems.sketch import METHODS, PALETTE, SPARE


def colours(labels: Iterable[str]) -> list[str]:
    """The paper's for its methods, however they are spelt; spare ones, in order, for the rest."""
    spare = iter(SPARE * len(list(labels)))
    known = [METHODS.get(label.lower().replace("-", "").replace("_", "")) for label in labels]
    return [colour or next(spare) for colour in known]


def tidy(ax: Axes, across: str, up: str) -> None:
    ax.set_xlabel(across, fontsize=11)
    ax.set_ylabel(up, fontsize=11)
    ax.tick_params(labelsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color=PALETTE["pale"], linewidth=0.6)
    ax.set_axisbelow(True)
