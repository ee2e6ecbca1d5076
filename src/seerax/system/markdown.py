"""Markdown tables, and pages of the documentation that commands write into."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from seerax.errors import UserError
from seerax.system import files


def write_between(path: Path, name: str, content: str) -> None:
    """Replaces the text between the marks <!-- name --> and the next <!-- end -->."""
    start, end = f"<!-- {name} -->\n", "\n<!-- end -->"
    before, found, rest = path.read_text().partition(start)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise UserError(
            f"{path} has no place for '{name}': "
            f"it needs the lines '{start.strip()}' and '{end.strip()}'."
        )
    files.write_bytes(path, f"{before}{start}{content}{end}{after}".encode())


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Returns a Markdown table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ("---",) * len(head), *rows])
