"""The vertical scale of a panel, chosen so that very low returns do not squash the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from seerax.drawing import PALETTE

REACH = 2.0  # in spans of the main curves: what lies deeper is drawn on a bent scale


class Bend(NamedTuple):
    """A scale that is linear above its knee and logarithmic below, without a jump in slope."""

    knee: float
    unit: float  # below the knee: a smaller one squeezes more

    def place(self, heights: np.ndarray | float) -> np.ndarray:
        """Returns where heights are drawn."""
        return np.maximum(heights, self.knee) - self.unit * np.log1p(self._below(heights))

    def height(self, places: np.ndarray | float) -> np.ndarray:
        """Returns the heights that are drawn at these places: the inverse of `place`."""
        return np.maximum(places, self.knee) - self.unit * np.expm1(self._below(places))

    def _below(self, values: np.ndarray | float) -> np.ndarray:
        return np.maximum(self.knee - np.asarray(values, np.float64), 0.0) / self.unit


def fit(ax: Axes, ours: Sequence[np.ndarray], everyone: Sequence[np.ndarray]) -> bool:
    """Chooses the limits so that the second half of every curve is visible.

    The beginnings of ours, the main curves, are visible too unless they lie too deep. Returns True
    if the scale had to be bent.
    """
    ours = ours or everyone
    core = np.concatenate([*map(late, ours)])
    ends = np.concatenate([*map(late, everyone)])
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
    """Returns the second half of a curve."""
    return mean[len(mean) // 2 :]


def squeeze(ax: Axes, bend: Bend, low: float, high: float) -> None:
    """Bends the scale of a panel, and marks the bent part by a grey ground."""
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
    """Returns a few ticks on the straight part, and two round numbers on the bent one."""
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
