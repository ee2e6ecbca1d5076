"""What tests of pictures share: a blank panel, artists by name, and curves to draw."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

STEPS = np.array([0, 1_000_000, 2_000_000])
SEEDS = np.array([[0.0, 10.0, 30.0], [3.0, 14.0, 30.0], [6.0, 15.0, 30.0]])


def blank() -> Axes:
    return Figure().add_subplot()


def named(ax: Axes, name: str) -> list[Any]:
    return [artist for artist in ax.get_children() if artist.get_gid() == name]
