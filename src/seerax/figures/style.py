"""The look of all charts: colours, frames, grids, and one legend for several panels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seerax.drawing import METHODS, PALETTE, SPARE


def colours(labels: Iterable[str]) -> list[str]:
    """Returns one colour per label: the paper's for its methods, spare ones for all others."""
    spare = iter(SPARE * len(list(labels)))
    known = [METHODS.get(label.lower().replace("-", "").replace("_", "")) for label in labels]
    return [colour or next(spare) for colour in known]


def tidy(ax: Axes, across: str, up: str) -> None:
    """Labels the axes, and removes what distracts from the data."""
    ax.set_xlabel(across, fontsize=11)
    ax.set_ylabel(up, fontsize=11)
    ax.tick_params(labelsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color=PALETTE["pale"], linewidth=0.6)
    ax.set_axisbelow(True)


def shared_legend(figure: Figure, columns: int, title: str | None = None) -> None:
    """Draws one legend below all panels, with every label once."""
    shown = {
        label: handle
        for ax in figure.axes
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    look: dict[str, Any] = {
        "loc": "outside lower center",
        "frameon": False,
        "fontsize": 10,
        "title_fontsize": 9,
    }
    figure.legend(shown.values(), shown.keys(), ncols=columns, title=title, **look)
