"""How all charts look: colours, frames, grids, one legend for several."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seerax.drawing import METHODS, PALETTE, SPARE


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


def shared_legend(figure: Figure, columns: int, title: str | None = None) -> None:
    """One below all panels, every label in it once."""
    shown = dict(
        pair[::-1]
        for ax in figure.axes
        for pair in zip(*ax.get_legend_handles_labels(), strict=True)
    )
    look: dict[str, Any] = {
        "loc": "outside lower center",
        "frameon": False,
        "fontsize": 10,
        "title_fontsize": 9,
    }
    figure.legend(shown.values(), shown.keys(), ncols=columns, title=title, **look)
