"""Writes pictures whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from matplotlib.figure import Figure

from seerax.errors import UserError, writing
from seerax.system import files

ENDINGS = {
    "picture": (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".pdf", ".svg", ".eps"),
    "film": (".mp4", ".gif"),
}


def check(path: str | Path, kind: str) -> None:
    """Refuses a path to which a picture or film cannot be written, before anything is played."""
    suffix = Path(path).suffix.lower()
    *most, last = ENDINGS[kind]
    if suffix not in ENDINGS[kind]:
        raise UserError(f"A {kind} ends in {', '.join(most)} or {last}, not in '{suffix}'.")
    files.prepare_parent(Path(path))


@contextmanager
def atomically(path: str | Path) -> Iterator[Path]:
    """Yields a temporary path, whose file becomes `path` unless writing it fails."""
    path = Path(path)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def save(figure: Figure, path: str | Path, dpi: int = 150) -> None:
    """Writes a figure, in the format that the path ends in."""
    check(path, "picture")
    with atomically(path) as temporary:
        figure.savefig(temporary, dpi=dpi)
