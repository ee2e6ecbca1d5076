"""One palette and one pen for all drawings. A belief is always shown as opacity.

Internal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Arc, Circle, FancyArrow, FancyBboxPatch, Patch, Polygon

RED = "#D62728"
BLACK = "#1A1A1A"
PURPLE = "#7B52AE"
GREEN = "#2FB58A"
BLUE = "#0072B2"
AMBER = "#F09300"
SKY = "#7CC4EE"
GREY = "#8A8A8A"
PALE = "#D9D9D9"
WHITE = "#FFFFFF"

METHODS = {  # the paper's colours, where it has them
    "brpo": RED,
    "ensemble": BLACK,
    "bpo": PURPLE,
    "upmle": GREEN,
    "clairvoyant": GREY,
    "optimal": BLUE,
    "posterior sampling": AMBER,
}
PALETTE = METHODS | {
    "belief": AMBER,
    "truth": BLACK,
    "advice": BLACK,
    "action": RED,
    "sensing": BLUE,
    "agent": "#4C566A",
    "person": GREEN,
    "wall": "#5B6472",
    "ink": BLACK,
    "faint": GREY,
    "pale": PALE,
    "paper": WHITE,
}
SPARE = (AMBER, SKY, BLUE, GREY)  # for methods without a colour of their own

Point = Any  # (x, y)


@dataclass(frozen=True, eq=False)
class Pen:
    """Draws on one axes in data units, with colours by name; later strokes lie on top."""

    ax: Axes
    within: Patch | None = None  # what lies outside of it is cut off

    def page(self, left: float, right: float, bottom: float, top: float) -> None:
        """Sets the limits of an empty page without axes, both directions on one scale."""
        self.ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
        self.ax.set_axis_off()

    def inside(self, patch: Patch) -> Pen:
        """Returns a pen whose strokes are clipped to a patch."""
        return replace(self, within=patch)

    def disc(
        self, centre: Point, radius: float, colour: str, opacity: float = 1.0, name: str = ""
    ) -> Patch:
        """Draws a filled circle."""
        look: dict[str, Any] = {"facecolor": PALETTE[colour], "edgecolor": "none", "alpha": opacity}
        return self._add(Circle(centre, radius, **look), name)

    def ring(
        self,
        centre: Point,
        radius: float,
        colour: str,
        width: float = 1.0,
        opacity: float = 1.0,
        style: Any = "-",
    ) -> Patch:
        """Draws a circle's outline."""
        look = {
            "edgecolor": PALETTE[colour],
            "linewidth": width,
            "alpha": opacity,
            "linestyle": style,
        }
        return self._add(Circle(centre, radius, fill=False, **look))

    def arc(
        self, centre: Point, radius: float, middle: float, colour: str, width: float = 1.5
    ) -> Patch:
        """Draws an arc of 70 degrees around the direction `middle`, in degrees."""
        look = {"theta1": middle - 35, "theta2": middle + 35, "linewidth": width}
        return self._add(Arc(centre, 2 * radius, 2 * radius, color=PALETTE[colour], **look))

    def box(
        self,
        corner: Point,
        width: float,
        height: float,
        colour: str,
        edge: str = "ink",
        round: float = 0.0,
        line: float = 1.5,
    ) -> Patch:
        """Draws a filled box with an edge; `round` is the radius of its corners."""
        style = f"round,pad=0,rounding_size={round}" if round else "square,pad=0"
        look: dict[str, Any] = {
            "facecolor": PALETTE[colour],
            "edgecolor": PALETTE[edge],
            "linewidth": line,
        }
        return self._add(FancyBboxPatch(corner, width, height, boxstyle=style, **look))

    def capsules(self, segments: np.ndarray, radius: float, colour: str) -> Artist:
        """Draws segments [m, 2 (ends), 2] with round ends, `radius` wide on either side."""
        outlines = [capsule(start, end, radius) for start, end in segments]
        look: dict[str, Any] = {"facecolor": PALETTE[colour], "edgecolor": "none"}
        return self._add(PolyCollection(outlines, **look), "walls")

    def lines(self, segments: Any, colour: str, width: float = 1.0, style: Any = "-") -> Artist:
        """Draws lines, each a list of points; `width` is in points."""
        look = {"linewidths": width, "linestyles": style, "capstyle": "round"}
        return self._add(LineCollection(segments, colors=PALETTE[colour], **look))

    def arrow(
        self, centre: Point, along: Point, width: float, colour: str, clear: float = 0.0
    ) -> None:
        """Draws an arrow that begins `clear` away from the centre.

        A short one is drawn thinner, and one of no length is not drawn.
        """
        length = float(np.hypot(*along))
        if length < 1e-3:
            return
        start = np.asarray(centre) + clear * np.asarray(along) / length
        width = min(width, length / 5)
        shape: dict[str, Any] = {
            "width": width,
            "head_width": 3.2 * width,
            "head_length": 4 * width,
            "length_includes_head": True,
        }
        self._add(FancyArrow(*start, *along, color=PALETTE[colour], linewidth=0, **shape), colour)

    def star(self, at: Point, size: float, colour: str = "truth") -> None:
        """Marks the truth."""
        look: dict[str, Any] = {
            "marker": "*",
            "markersize": size,
            "markeredgecolor": PALETTE["paper"],
            "markeredgewidth": 0.6,
            "linestyle": "none",
        }
        self._add(Line2D([at[0]], [at[1]], color=PALETTE[colour], **look), "truth")

    def text(
        self, at: Point, words: str, size: float = 9, colour: str = "ink", **look: Any
    ) -> None:
        """Writes centred words."""
        look = {"ha": "center", "va": "center", **look}
        self.ax.text(at[0], at[1], words, fontsize=size, color=PALETTE[colour], zorder=2, **look)

    def tiger(self, centre: Point, size: float, opacity: float = 1.0) -> None:
        """Draws a tiger's face of radius `size`."""
        x, y = centre
        outline = np.asarray(centre) + size * head()
        look: dict[str, Any] = {"edgecolor": "none", "alpha": opacity}
        self._add(Polygon(outline, facecolor=PALETTE["belief"], **look), "tiger")
        for side in (-1, 1):
            self.disc((x + 0.36 * side * size, y + 0.15 * size), 0.12 * size, "ink", opacity)
        self.disc((x, y - 0.25 * size), 0.14 * size, "ink", opacity)
        self.lines(stripes(np.asarray(centre), size), "ink", 18 * size).set_alpha(opacity)

    def _add(self, artist: Any, name: str = "") -> Any:
        """Adds an artist to the axes; its name is its gid, by which it is found again."""
        artist.set(zorder=2, gid=name or None)
        self.ax.add_artist(artist)
        if self.within is not None:
            artist.set_clip_path(self.within)
        return artist


def capsule(start: np.ndarray, end: np.ndarray, radius: float, corners: int = 12) -> np.ndarray:
    """Returns the outline [2 corners, 2] of all points within `radius` of a segment."""
    heading = np.arctan2(*(end - start)[::-1])
    turn = np.linspace(-np.pi / 2, np.pi / 2, corners)
    around = np.concatenate([heading + turn, heading + np.pi + turn])
    centres = np.repeat([end, start], corners, axis=0)
    return centres + radius * np.stack([np.cos(around), np.sin(around)], -1)


def head(ear: float = 0.34, corners: int = 120) -> np.ndarray:
    """Returns the outline [corners, 2] of a unit disc with two round ears."""
    around = np.linspace(0, 2 * np.pi, corners)
    rays = np.stack([np.cos(around), np.sin(around)], -1)
    along = rays @ np.array([(-0.68, 0.72), (0.68, 0.72)]).T
    aside = 0.68**2 + 0.72**2 - along**2
    hit = (along > 0) & (aside < ear**2)
    ears = np.where(hit, along + np.sqrt(np.maximum(ear**2 - aside, 0)), 0)
    return rays * np.maximum(1.0, ears.max(-1))[:, None]


def stripes(centre: np.ndarray, size: float) -> np.ndarray:
    """Returns three stripes on the forehead and two on each cheek: [7, 2 (ends), 2]."""
    brow = [[(x, 0.92 - 0.6 * abs(x)), (0.7 * x, 0.55)] for x in (-0.3, 0.0, 0.3)]
    cheeks = [
        [(0.92 * side, y), (0.6 * side, y - 0.05)] for side in (-1, 1) for y in (-0.05, -0.35)
    ]
    return centre + size * np.array(brow + cheeks)


def chances(belief: np.ndarray) -> list[float]:
    """Returns opacities from log-weights."""
    return np.exp(belief).tolist()
