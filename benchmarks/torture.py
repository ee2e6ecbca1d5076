"""Tries hard what docs/reliability.md promises; every section writes its figures into
results/torture.json.

    .venv/bin/python benchmarks/torture.py [kill] [flips] [disk] [filters] [commands] [sigterm]
    .venv/bin/python benchmarks/torture.py soak                                    (30 minutes)

Without a name it runs all of the first line. Sections do not depend on each other; run two at a
time on two cores if you like. A section that fails says how, and the command ends with 1.
tests/test_torture.py runs a short form of each.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from torture_small import Broken, Skipped

import seerax
from seerax.system import files, markdown

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"

Section = Callable[..., dict[str, Any]]
MODULES = {  # each holds the function that its section is named after
    "kill": "torture_blows",
    "flips": "torture_damage",
    "disk": "torture_disk",
    "filters": "torture_filters",
    "commands": "torture_commands",
    "sigterm": "torture_blows",
    "soak": "torture_soak",
}
USUAL = tuple(name for name in MODULES if name != "soak")


def section(name: str) -> Section:
    """Imports a section when it is asked for: some start JAX as soon as they are imported."""
    return getattr(import_module(MODULES[name]), name)


def attempt(name: str, path: Path, section: Section) -> bool:
    """Runs a section and keeps its figures; False if it failed.

    One that cannot run here is no failure.
    """
    began = time.monotonic()
    try:
        figures = {**section(), "seconds": round(time.monotonic() - began, 1)}
    except Skipped as reason:
        print(f"{name}: skipped: {reason}", file=sys.stderr)
        return True
    except Broken as broken:
        print(f"{name}: {broken}", file=sys.stderr)
        return False
    except Exception:
        print(f"{name}: {traceback.format_exc()}", file=sys.stderr)
        return False
    print(f"{name}: {json.dumps(figures)}")
    known = json.loads(path.read_text()) if path.exists() else {}
    files.write_json(path, {**known, name: figures})
    return True


def write_table(results: Path, page: Path) -> None:
    """Writes the figures into a page, between its marks."""
    known: dict[str, Any] = {}
    for path in (results / "torture.json", results / "soak.json"):
        known |= json.loads(path.read_text()) if path.exists() else {}
    rows = [
        (name, key.replace("_", " "), str(value))
        for name, figures in known.items()
        for key, value in figures.items()
        if key != "laws"
    ]
    table = markdown.table(("section", "figure", "value"), rows)
    markdown.write_between(page, "torture", table)


def main(names: list[str]) -> int:
    odd = [name for name in names if name not in MODULES]
    if odd:
        print(f"There is no section '{odd[0]}'. Known: {', '.join(MODULES)}.", file=sys.stderr)
        return 2
    seerax.prepare()
    RESULTS.mkdir(exist_ok=True)
    fine = []
    for name in names or USUAL:
        path = RESULTS / ("soak.json" if name == "soak" else "torture.json")
        fine.append(attempt(name, path, section(name)))
    write_table(RESULTS, ROOT / "docs/reliability.md")
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
