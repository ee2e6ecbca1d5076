"""Every test runs with two host devices, so that nothing rests on there being only one."""

from __future__ import annotations

import sys

from seerax.compute import devices

devices.prepare(2)

import jax
import pytest
from hypothesis import settings

from seerax import cli, rollout
from seerax.advice import follow_advice
from seerax.core import BeliefMDP
from seerax.problems import maze, tiger, tree
from seerax.rollout import Episode
from seerax.system import signals

settings.register_profile("seerax", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("seerax")


@pytest.fixture(autouse=True)
def commands_end_without_ending_the_tests(monkeypatch):
    """A signal ends a command's process at once; called from within a test it only raises."""
    monkeypatch.setattr(signals, "exit_at_once", sys.exit)


@pytest.fixture(scope="session")
def tiger_mdp() -> BeliefMDP:
    return tiger.tiger()


@pytest.fixture(scope="session")
def tree_mdp() -> BeliefMDP:
    """Depth 3, four rounds on the same tree."""
    return tree.tree(depth=3, rounds=4)


@pytest.fixture(scope="session")
def maze4_mdp() -> BeliefMDP:
    return maze.maze4()


@pytest.fixture(scope="session")
def maze_episode(maze4_mdp: BeliefMDP) -> Episode:
    return rollout.record(jax.random.key(3), maze4_mdp, follow_advice)


@pytest.fixture(scope="session")
def tree_episode(tree_mdp: BeliefMDP) -> Episode:
    return rollout.record(jax.random.key(0), tree_mdp, follow_advice)


@pytest.fixture
def seerax(monkeypatch, capsys, tmp_path):
    """Runs a command in a fresh folder and gives (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["seerax", *arguments])
        code = 0
        try:
            cli.main()
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run
