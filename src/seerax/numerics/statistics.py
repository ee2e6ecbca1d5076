"""Intervals of means, and numbers as text."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import stdtrit  # importing scipy.stats instead takes a third of a second


def standard_error(values: np.ndarray) -> np.ndarray:
    """Returns the standard error of the mean along the last axis."""
    return np.std(values, axis=-1, ddof=1) / np.sqrt(np.shape(values)[-1])


def student_margin(count: int, stderr: Any, level: float = 0.95) -> Any:
    """Returns half the width of the interval of a mean over `count` values, by Student's t."""
    return stdtrit(max(count - 1, 1), (1 + level) / 2) * stderr


def student_interval(values: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """Returns the interval of the mean of at least two values, by Student's t."""
    values = np.asarray(values, np.float64)
    margin = float(student_margin(values.size, standard_error(values), level))
    return float(values.mean()) - margin, float(values.mean()) + margin


def percent(share: float | None) -> str:
    """Returns a share in percent, or a dash for None."""
    return "-" if share is None else f"{100 * share:.1f} %"


def in_thousands(steps: int) -> str:
    """Returns a number of steps as 640, 65k or 4.2M."""
    if steps < 1000:
        return str(steps)
    return f"{steps / 1e3:.0f}k" if steps < 1e6 else f"{steps / 1e6:.1f}M"
