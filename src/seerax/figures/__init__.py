"""Curves, maps, sheets and films, from recorded episodes and saved numbers only: nothing is simulated here.

Every name below is found here, and its file read when it is first asked for: matplotlib is for those who draw.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

FILES = {
    "saving": ("atomically", "check", "save"),
    "style": ("colours", "tidy"),
    "curves": ("Run", "curve", "draw_curves", "over_seeds"),
    "tree_gap": ("TreePoint", "draw_gap", "tree_gap"),
    "scenes": ("Draw", "scene", "setup"),
    "sensing": ("Sensing", "draw_sensing", "gather", "sensing_maps"),
    "keyframes": ("Reel", "keyframes"),
    "films": (
        "MOST_FRAMES",
        "Senses",
        "Story",
        "caption",
        "draw_strip",
        "film",
        "lay_out",
        "probabilities",
        "schedule",
        "tell",
    ),
}
HOME = {name: file for file, names in FILES.items() for name in names}
__all__ = [*HOME]


def __getattr__(name: str) -> Any:
    if name not in HOME:
        raise AttributeError(f"seerax.figures has no '{name}'.")
    return getattr(import_module(f"seerax.figures.{HOME[name]}"), name)
