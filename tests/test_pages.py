"""README and docs: their Python runs, what they name exists, and what is generated is up to date."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import api  # noqa: E402

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{i}")
    for page in PAGES
    for i, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))
]
SHORT = (  # a few iterations instead of a whole training; nothing else is changed
    "import seerax\n"
    "_trainer = seerax.trainer\n"
    "def short(*arguments, **changes):\n"
    "    few = {'steps': 2048, 'worlds': 16, 'rollout_length': 16, 'minibatches': 2}\n"
    "    few |= {'evaluations': 2, 'evaluation_episodes': 16}\n"
    "    return _trainer(*arguments, **{**changes, **few})\n"
    "seerax.trainer = short\n"
)


@pytest.mark.parametrize("block", BLOCKS)
def test_every_python_block_runs(block, tmp_path):
    program = f"{SHORT}{block}"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr


def test_there_are_blocks_to_run():
    assert any("README" in block.id for block in BLOCKS) and len(BLOCKS) >= 3


def test_the_readme_shows_the_quickstart():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    code = (ROOT / "examples" / "quickstart.py").read_text().partition('"""\n\n')[2]
    assert without_comments(code) in [without_comments(block) for block in blocks]


def without_comments(code: str) -> str:
    return re.sub(r"\s*#.*", "", code).strip()


def test_the_api_page_lists_every_public_name():
    assert api.PAGE.read_text() == api.page(), "run: python tools/api.py"


def test_every_public_name_has_a_sentence():
    silent = [line for line in api.page().splitlines() if re.fullmatch(r"- `\w+`:\s*", line)]
    assert silent == []


def test_what_is_not_on_the_api_page_says_that_it_is_internal():
    """A module that is not listed says so itself, or its package does."""
    listed = set(api.MODULES) | {"gym", "version", "api"}
    silent = []
    for path in sorted(api.SOURCE.rglob("*.py")):
        parts = path.relative_to(api.SOURCE).with_suffix("").parts
        name = ".".join(parts).removesuffix("__init__").rstrip(".")
        packages = [name.rsplit(".", i)[0] for i in range(name.count(".") + 1)]
        said = [api.path_of(each).read_text().split('"""')[1].lower() for each in packages]
        if name not in listed and not any("internal" in text for text in said):
            silent.append(name)
    assert silent == []


def test_markdown_has_one_sentence_per_line():
    """A line of prose that goes on in the next one is a wrapped sentence."""
    wrapped = []
    for page in PAGES:
        text = re.sub(r"```.*?```|<!--.*?-->", "", page.read_text(), flags=re.S)
        for before, after in zip(text.splitlines(), text.splitlines()[1:], strict=False):
            prose = re.match(r"[A-Za-z(]", after.strip()) and not after.startswith(("|", "#", "-"))
            if prose and re.search(r"[a-z,]$", before) and not before.startswith(("|", "#")):
                wrapped.append(f"{page.name}: {before[-40:]} / {after[:40]}")
    assert wrapped == []
