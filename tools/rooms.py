"""The rooms of seerax and the arrows between them, read from its own imports.

Draws docs/rooms.svg.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "seerax"
PICTURE = ROOT / "docs" / "rooms.svg"

# Bottom up: a room imports rooms of lower levels only. Lazy and type-only imports count.
LEVELS = (
    ("errors", "numerics", "lazy", "version"),
    ("core", "keys", "system"),
    ("bonuses", "filters", "drawing", "compute"),
    ("experts", "advice"),
    ("agents", "problems", "rollout"),
    ("laws", "ppo", "figures", "interop"),
    ("experiments", "gym"),
    ("settings", "runs"),
    ("sweeps", "players"),
    ("bench", "pictures", "api"),
    ("paper", "face"),
    ("cli",),
)
EVERYWHERE = ("errors", "numerics", "lazy", "version")  # arrows to them are not drawn
LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}


def modules() -> dict[str, Path]:
    """Returns every module of the package by its dotted name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = ("seerax", *path.relative_to(SOURCE).with_suffix("").parts)
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def arrows() -> Iterator[tuple[str, str]]:
    """Yields (importing module, imported module) for every import inside the package."""
    known = modules()
    for name, path in known.items():
        for node in ast.walk(ast.parse(path.read_text())):
            targets = []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                dotted = [f"{node.module}.{alias.name}" for alias in node.names]
                targets = [each if each in known else node.module for each in dotted]
            elif isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            yield from ((name, target) for target in targets if target.split(".")[0] == "seerax")


def room(module: str) -> str:
    """Returns the room of a module; the package itself is the face."""
    return module.split(".")[1] if "." in module else "face"


def room_arrows() -> set[tuple[str, str]]:
    pairs = {(room(one), room(other)) for one, other in arrows()}
    return {(one, other) for one, other in pairs if one != other}


def reduced(pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Leaves out every arrow that a chain of others implies, so that the picture can be read."""
    below: dict[str, set[str]] = {one: set() for one, _ in pairs}
    for one, other in pairs:
        below[one].add(other)

    def reach(one: str) -> set[str]:
        return set().union(*[{other} | reach(other) for other in below.get(one, ())])

    return {
        (one, other)
        for one, other in pairs
        if not any(other in reach(middle) for middle in below[one] - {other})
    }


# ---- the picture -------------------------------------------------------------------------------

WIDTH, STEP, BOX, HEIGHT = 980, 84, (132, 38), 40


def place(name: str) -> tuple[float, float]:
    """Returns the middle of a room's box."""
    row = LEVELS[LEVEL[name]]
    gap = WIDTH / (len(row) + 1)
    shift = 40 * (LEVEL[name] % 2) * (len(row) > 1)
    return gap * (row.index(name) + 1) + shift, HEIGHT + STEP * (len(LEVELS) - 1 - LEVEL[name])


def draw() -> str:
    """Returns the picture as SVG: rooms as boxes, users at the top, arrows from who imports to
    what.
    """
    height = 2 * HEIGHT + STEP * (len(LEVELS) - 1)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'font-family="sans-serif" font-size="15">',
        "<title>The rooms of seerax; every arrow points down</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#8a8a8a"/></marker></defs>',
    ]
    for one, other in sorted(reduced(room_arrows())):
        if other in EVERYWHERE:
            continue
        (x1, y1), (x2, y2) = place(one), place(other)
        top, bottom = y1 + BOX[1] / 2, y2 - BOX[1] / 2
        bend = (bottom - top) / 2
        lines.append(
            f'<path d="M{x1:.0f} {top:.0f}C{x1:.0f} {top + bend:.0f} {x2:.0f} {bottom - bend:.0f} '
            f'{x2:.0f} {bottom:.0f}" fill="none" stroke="#8a8a8a" marker-end="url(#tip)"/>'
        )
    for name in LEVEL:
        x, y = place(name)
        words = "seerax (the face)" if name == "face" else name
        fill = "#fdf1dc" if (SOURCE / name).is_dir() else "#eef3f8"
        lines.append(
            f'<rect x="{x - BOX[0] / 2:.0f}" y="{y - BOX[1] / 2:.0f}" width="{BOX[0]}" '
            f'height="{BOX[1]}" rx="7" fill="{fill}" stroke="#4c566a"/>'
            f'<text x="{x:.0f}" y="{y + 5:.0f}" text-anchor="middle" fill="#1a1a1a">{words}</text>'
        )
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(draw())
    print(PICTURE.relative_to(ROOT), file=sys.stderr)
