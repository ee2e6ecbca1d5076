"""What the documents name exists."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def names_in_paper_to_code() -> list[str]:
    text = (ROOT / "docs" / "paper_to_code.md").read_text()
    quoted = re.findall(r"`([a-z_]+(?:\.[A-Za-z_0-9]+)+)`", text)
    return sorted({name for name in quoted if not name.endswith((".py", ".md"))})


@pytest.mark.parametrize("name", names_in_paper_to_code())
def test_every_object_that_the_paper_is_mapped_to_exists(name):
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(["seerax", *parts[:cut]]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return
    pytest.fail(f"nothing called {name}")


def test_the_files_that_the_documents_name_exist():
    for document in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for path in re.findall(
            r"`((?:tests|docs|examples|results|src)/[\w/.-]+\.\w+)`", document.read_text()
        ):
            assert (ROOT / path).exists(), f"{document.name} names {path}"


def test_a_problem_of_ones_own_takes_at_most_sixty_lines():
    assert len((ROOT / "examples" / "wind.py").read_text().splitlines()) <= 60


def test_functions_are_short():
    lengths = []
    for path in (ROOT / "src").rglob("*.py"):
        functions = [
            n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef)
        ]
        for function in functions:
            lengths.append(function.end_lineno - function.lineno + 1)
            assert lengths[-1] <= 45, f"{path.name}: {function.name} has {lengths[-1]} lines"
    assert sorted(lengths)[len(lengths) // 2] <= 10
