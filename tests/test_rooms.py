"""The order of the rooms: arrows go down, no module is in a cycle, and the picture of it is up to
date.
"""

from __future__ import annotations

import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import rooms  # noqa: E402


def test_every_room_has_a_level():
    assert {rooms.room(module) for module in rooms.modules()} == set(rooms.LEVEL)


def test_arrows_go_down_and_nothing_imports_the_command_line():
    upward = [
        f"{one} imports {other}"
        for one, other in rooms.arrows()
        if rooms.room(one) != rooms.room(other)
        and rooms.LEVEL[rooms.room(one)] <= rooms.LEVEL[rooms.room(other)]
    ]
    assert upward == []


def test_no_module_is_in_a_cycle():
    graph = TopologicalSorter()
    for one, other in rooms.arrows():
        graph.add(one, other)
    graph.prepare()  # raises CycleError, which names the cycle


@pytest.mark.parametrize(
    ("file", "line", "fault"),
    [
        ("core.py", "from seerax.agents import brpo", "core imports seerax.agents"),
        ("rollout.py", "def lazily():\n    import seerax.cli", "rollout imports seerax.cli"),
    ],
)
def test_an_arrow_that_goes_up_is_noticed(file, line, fault, tmp_path, monkeypatch):
    (tmp_path / file).write_text(line)
    for name in ("agents.py", "cli.py"):
        (tmp_path / name).touch()
    monkeypatch.setattr(rooms, "SOURCE", tmp_path)
    with pytest.raises(AssertionError, match=fault):
        test_arrows_go_down_and_nothing_imports_the_command_line()


def test_a_cycle_is_noticed(tmp_path, monkeypatch):
    (tmp_path / "core.py").write_text("from seerax import errors")
    (tmp_path / "errors.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from seerax.core import Key"
    )
    monkeypatch.setattr(rooms, "SOURCE", tmp_path)
    with pytest.raises(ValueError, match="cycle"):
        test_no_module_is_in_a_cycle()


def test_the_picture_shows_the_present_imports():
    assert rooms.PICTURE.read_text() == rooms.draw(), "run: python tools/rooms.py"
