"""What all drawings share: one palette, one pen. A belief is always shown as opacity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Arc, Circle, FancyArrow, FancyBboxPatch, Patch, Polygon

RED, BLACK, PURPLE, GREEN = "#D62728", "#1A1A1A", "#7B52AE", "#2FB58A"
BLUE, AMBER, SKY, GREY, PALE, WHITE = (
    "#0072B2",
    "#F09300",
    "#7CC4EE",
    "#8A8A8A",
    "#D9D9D9",
    "#FFFFFF",
)

METHODS = {  # in the colours of the paper, where it has them
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
    """Draws on one axes in data units, colours by their names in the palette; later strokes lie on top."""

    ax: Axes
    within: Patch | None = None  # everything drawn is cut off outside of it

    def page(self, left: float, right: float, bottom: float, top: float) -> None:
        self.ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
        self.ax.set_axis_off()

    def inside(self, patch: Patch) -> Pen:
        return replace(self, within=patch)

    def disc(
        self, centre: Point, radius: float, colour: str, opacity: float = 1.0, name: str = ""
    ) -> Patch:
        return self._add(
            Circle(centre, radius, facecolor=PALETTE[colour], edgecolor="none", alpha=opacity), name
        )

    def ring(
        self,
        centre: Point,
        radius: float,
        colour: str,
        width: float = 1.0,
        opacity: float = 1.0,
        style: Any = "-",
    ) -> Patch:
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
        """A third of a half circle around the direction `middle`, in degrees."""
        span = {"theta1": middle - 35, "theta2": middle + 35}
        return self._add(
            Arc(centre, 2 * radius, 2 * radius, color=PALETTE[colour], linewidth=width, **span)
        )

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
        style = f"round,pad=0,rounding_size={round}" if round else "square,pad=0"
        look: dict[str, Any] = {
            "facecolor": PALETTE[colour],
            "edgecolor": PALETTE[edge],
            "linewidth": line,
        }
        return self._add(FancyBboxPatch(corner, width, height, boxstyle=style, **look))

    def capsules(self, segments: np.ndarray, radius: float, colour: str) -> Artist:
        """Segments [m, 2 (ends), 2] as strokes with round ends, `radius` wide on either side."""
        outlines = [capsule(start, end, radius) for start, end in segments]
        return self._add(
            PolyCollection(outlines, facecolor=PALETTE[colour], edgecolor="none"), "walls"
        )

    def lines(self, segments: Any, colour: str, width: float = 1.0, style: Any = "-") -> Artist:
        look = {"linewidths": width, "linestyles": style, "capstyle": "round"}
        return self._add(LineCollection(segments, colors=PALETTE[colour], **look))

    def arrow(
        self, centre: Point, along: Point, width: float, colour: str, clear: float = 0.0
    ) -> None:
        """Begins `clear` away from the centre; thinner if too short for its width, nothing if there is no way to go."""
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
        look: dict[str, Any] = {
            "markeredgecolor": PALETTE["paper"],
            "markeredgewidth": 0.6,
            "linestyle": "none",
        }
        self._add(
            Line2D([at[0]], [at[1]], marker="*", markersize=size, color=PALETTE[colour], **look),
            "truth",
        )

    def text(
        self, at: Point, words: str, size: float = 9, colour: str = "ink", **look: Any
    ) -> None:
        look = {"ha": "center", "va": "center", **look}
        self.ax.text(at[0], at[1], words, fontsize=size, color=PALETTE[colour], zorder=2, **look)

    def tiger(self, centre: Point, size: float, opacity: float = 1.0) -> None:
        """A face `size` in radius."""
        x, y = centre
        outline = np.asarray(centre) + size * head()
        self._add(
            Polygon(outline, facecolor=PALETTE["belief"], edgecolor="none", alpha=opacity), "tiger"
        )
        for side in (-1, 1):
            self.disc((x + 0.36 * side * size, y + 0.15 * size), 0.12 * size, "ink", opacity)
        self.disc((x, y - 0.25 * size), 0.14 * size, "ink", opacity)
        self.lines(stripes(np.asarray(centre), size), "ink", 18 * size).set_alpha(opacity)

    def _add(self, artist: Any, name: str = "") -> Any:
        artist.set(zorder=2, gid=name or None)
        self.ax.add_artist(artist)
        if self.within is not None:
            artist.set_clip_path(self.within)
        return artist


def capsule(start: np.ndarray, end: np.ndarray, radius: float, corners: int = 12) -> np.ndarray:
    """The outline of all points within `radius` of a segment."""
    heading = np.arctan2(*(end - start)[::-1])
    turn = np.linspace(-np.pi / 2, np.pi / 2, corners)
    around = np.concatenate([heading + turn, heading + np.pi + turn])
    centres = np.repeat([end, start], corners, axis=0)
    return centres + radius * np.stack([np.cos(around), np.sin(around)], -1)


def head(ear: float = 0.34, corners: int = 120) -> np.ndarray:
    """The outline of a unit disc with two round ears: how far one sees from its middle in every direction."""
    around = np.linspace(0, 2 * np.pi, corners)
    rays = np.stack([np.cos(around), np.sin(around)], -1)
    along = rays @ np.array([(-0.68, 0.72), (0.68, 0.72)]).T
    aside = 0.68**2 + 0.72**2 - along**2
    ears = np.where(
        (along > 0) & (aside < ear**2), along + np.sqrt(np.maximum(ear**2 - aside, 0)), 0
    )
    return rays * np.maximum(1.0, ears.max(-1))[:, None]


def stripes(centre: np.ndarray, size: float) -> np.ndarray:
    """Three on the forehead, two on either cheek: [7, 2 (ends), 2]."""
    brow = [[(x, 0.92 - 0.6 * abs(x)), (0.7 * x, 0.55)] for x in (-0.3, 0.0, 0.3)]
    cheeks = [
        [(0.92 * side, y), (0.6 * side, y - 0.05)] for side in (-1, 1) for y in (-0.05, -0.35)
    ]
    return centre + size * np.array(brow + cheeks)


def chances(belief: np.ndarray) -> list[float]:
    """Opacities from log-weights."""
    return np.exp(belief).tolist()
