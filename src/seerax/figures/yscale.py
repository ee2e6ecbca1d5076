"""Which returns a panel shows, so that catastrophes do not squash what one came to see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from seerax.drawing import PALETTE

REACH = 2.0  # in spans of what matters: what lies deeper is drawn on a bent scale


class Bend(NamedTuple):
    """A scale: heights above the knee as they are, logarithmic below; the slope is the same on both sides of it."""

    knee: float
    unit: float  # below the knee: the smaller, the more is squeezed

    def place(self, heights: np.ndarray | float) -> np.ndarray:
        return np.maximum(heights, self.knee) - self.unit * np.log1p(self._below(heights))

    def height(self, places: np.ndarray | float) -> np.ndarray:
        return np.maximum(places, self.knee) - self.unit * np.expm1(self._below(places))

    def _below(self, values: np.ndarray | float) -> np.ndarray:
        return np.maximum(self.knee - np.asarray(values, np.float64), 0.0) / self.unit


def fit(ax: Axes, ours: Sequence[np.ndarray], everyone: Sequence[np.ndarray]) -> bool:
    """Curves and levels that matter, and all there are: their second halves have to be in sight.

    So does the beginning of what matters, unless it lies too deep. Returns whether the scale had to be bent.
    """
    ours = ours or everyone
    core, ends = np.concatenate([*map(late, ours)]), np.concatenate([*map(late, everyone)])
    span = max(float(np.ptp(core)), 0.02 * float(np.abs(core).max()), 1e-6)
    begun = np.concatenate(ours)
    low = float(min(ends.min(), begun[begun >= core.min() - REACH * span].min()))
    high = float(ends.max())
    knee = float(core.min()) - 0.25 * span
    deep = (knee - low) / span
    if deep <= REACH:
        room = 0.08 * max(high - low, span)
        ax.set_ylim(low - room, high + 2 * room)
        return False
    squeeze(ax, Bend(knee, min(span, 1.2 * (high - knee) / np.log1p(deep))), low, high)
    return True


def late(mean: np.ndarray) -> np.ndarray:
    return mean[len(mean) // 2 :]


def squeeze(ax: Axes, bend: Bend, low: float, high: float) -> None:
    """Grey ground tells where the scale is bent."""
    ax.set_yscale("function", functions=(bend.place, bend.height))
    room = 0.06 * (high - float(bend.place(low)))
    bottom = float(bend.height(bend.place(low) - room))
    ax.axhspan(bottom, bend.knee, color=PALETTE["pale"], alpha=0.35, linewidth=0, zorder=0)
    ax.yaxis.set_major_locator(FixedLocator(ticks(bend, low, high)))
    ax.yaxis.set_major_formatter(
        FuncFormatter(lambda height, _: f"{height:g}".replace("-", "\N{MINUS SIGN}"))
    )
    ax.set_ylim(bottom, high + room)


def ticks(bend: Bend, low: float, high: float) -> list[float]:
    """A few on the straight part, two round ones on the other."""
    straight = np.asarray(MaxNLocator(4).tick_values(bend.knee, high))
    digits, power = np.modf(np.log10(bend.knee - low))
    step = 10.0**power * (1.0 if digits > 0.5 else 0.5)
    places = bend.knee + (float(bend.place(low)) - bend.knee) * np.array([0.5, 0.9])
    deep = step * np.round(bend.height(places) / step) + 0.0  # no -0
    margin = 0.08 * (high - bend.knee)
    return sorted(
        {
            *deep[deep < bend.knee - margin].tolist(),
            *straight[straight > bend.knee + margin].tolist(),
        }
    )
