"""Pictures on disk: whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from matplotlib.figure import Figure


@contextmanager
def atomically(path: str | Path) -> Iterator[Path]:
    """A name to write to that becomes `path` once it is complete; after a failure nothing is left behind."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def save(figure: Figure, path: str | Path, dpi: int = 150) -> None:
    with atomically(path) as temporary:
        figure.savefig(temporary, dpi=dpi)
