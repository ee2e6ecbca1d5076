"""Curves, maps, sheets and films, drawn from recorded episodes and saved numbers only.

Every name below is imported when it is first asked for, because matplotlib takes a second. No name
is that of its file: once imported, a submodule would hide it.

Internal: use `seerax figure` and `seerax film`.
"""

from __future__ import annotations

from seerax.lazy import attach

FILES = {
    "saving": ("atomically", "check", "save"),
    "style": ("colours", "tidy"),
    "curves": ("Run", "curve", "draw_curves", "over_seeds"),
    "tree_gap": ("Gap", "Point", "draw_gap", "tree_gaps"),
    "scenes": ("Draw", "scene", "setup"),
    "sensing": ("Sensing", "draw_sensing", "gather", "sensing_maps"),
    "keyframes": ("Reel", "keyframe_rows"),
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

__getattr__, __all__ = attach(
    __name__, {name: file for file, names in FILES.items() for name in names}
)
