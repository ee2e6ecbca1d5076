"""Which returns a panel shows, so that catastrophes do not squash what one came to see."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from seerax.problems.sketch import PALETTE

REACH = 2.0  # in spans of what matters: what lies deeper is drawn on a bent scale


def fit(ax: Axes, ours: Sequence[np.ndarray], everyone: Sequence[np.ndarray]) -> bool:
    """Curves and levels that matter, and all there are: their second halves have to be in sight.

    Returns whether the scale had to be bent for those far below.
    """
    core, ends = np.concatenate([late(mean) for mean in ours or everyone]), np.concatenate([*map(late, everyone)])
    low, high = float(ends.min()), float(ends.max())
    span = max(float(np.ptp(core)), 0.02 * float(np.abs(core).max()), 1e-6)
    knee = float(core.min()) - 0.25 * span
    if knee - low <= REACH * span:
        room = 0.08 * max(high - low, span)
        ax.set_ylim(low - room, high + 2 * room)
        return False
    ax.set_yscale("function", functions=(partial(bend, knee=knee, span=span), partial(unbend, knee=knee, span=span)))
    bottom = float(unbend(bend(low, knee, span) - 0.2 * span, knee, span))
    ax.axhspan(bottom, knee, color=PALETTE["pale"], alpha=0.35, linewidth=0, zorder=0)
    ax.yaxis.set_major_locator(FixedLocator(ticks(low, knee, high, span)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda height, _: f"{height:g}".replace("-", "\N{MINUS SIGN}")))
    ax.set_ylim(bottom, high + 0.15 * span)
    return True


def late(mean: np.ndarray) -> np.ndarray:
    return mean[len(mean) // 2 :]


def bend(heights: np.ndarray | float, knee: float, span: float) -> np.ndarray:
    """As they are above the knee, logarithmic below; the slope is the same on both sides of it."""
    depth = np.maximum(knee - np.asarray(heights, np.float64), 0.0) / span
    return np.maximum(heights, knee) - span * np.log1p(depth)


def unbend(heights: np.ndarray | float, knee: float, span: float) -> np.ndarray:
    depth = np.maximum(knee - np.asarray(heights, np.float64), 0.0) / span
    return np.maximum(heights, knee) - span * np.expm1(depth)


def ticks(low: float, knee: float, high: float, span: float) -> list[float]:
    """A few on the straight part, two round ones on the other."""
    straight = np.asarray(MaxNLocator(4).tick_values(knee, high))
    bent = bend(low, knee, span) - knee
    deep = [float(f"{unbend(knee + share * bent, knee, span):.1g}") for share in (0.5, 0.95)]
    return sorted({*deep, *straight[straight > knee + 0.1 * span]})
