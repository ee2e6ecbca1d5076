"""The problems by name.

Each file reads in the same order: constants, state, problem, expert, builder, drawing.

What the files hold besides is internal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from seerax.core import BeliefMDP
from seerax.errors import unknown
from seerax.problems import cartpole, crowd, doors, maze, shelf, tiger, tree


@dataclass(frozen=True)
class Entry:
    """A problem as the rest of seerax knows it. A new problem is a file and an entry here."""

    title: str
    about: str
    build: Callable[[], BeliefMDP]
    in_paper: bool = False  # one of the six of the paper's experiments
    with_sensing: bool = False  # one of the three of its ablations
    with_optimum: bool = False  # its Bayes-optimal value is known


PROBLEMS = {
    "crowdnav": Entry(
        "CrowdNav",
        "drive past six people who each walk to a goal of their own, without touching anyone",
        crowd.crowdnav,
        in_paper=True,
    ),
    "cartpole": Entry(
        "Cartpole",
        "balance a pole of unknown length on a cart of unknown mass, with a noisy motor",
        cartpole.cartpole,
        in_paper=True,
    ),
    "armshelf": Entry(
        "ArmShelf",
        "reach for an object somewhere on two shelves without touching anything; sensing costs 1",
        shelf.armshelf,
        in_paper=True,
    ),
    "maze4": Entry(
        "Maze4",
        "find out which of four goals in a maze is the active one; sensing its distance costs 1",
        maze.maze4,
        in_paper=True,
        with_sensing=True,
    ),
    "maze10": Entry(
        "Maze10",
        "the same with ten goals; a wrong goal costs 50 a step, and the episode goes on",
        maze.maze10,
        in_paper=True,
        with_sensing=True,
    ),
    "door4": Entry(
        "Door4",
        "find out which of four doors are open, and go through one; sensing costs 1, a crash 10",
        doors.door4,
        in_paper=True,
        with_sensing=True,
    ),
    "tiger": Entry(
        "Tiger",
        "listen as long as it pays, then open the door without the tiger",
        tiger.tiger,
        with_optimum=True,
    ),
    "tree": Entry(
        "Tree",
        "one leaf of a binary tree holds gold, the others a tiger; sensing at the root tells which",
        tree.tree,
        with_optimum=True,
    ),
}

PAPER = tuple(name for name, entry in PROBLEMS.items() if entry.in_paper)
WITH_SENSING = tuple(name for name, entry in PROBLEMS.items() if entry.with_sensing)
WITH_OPTIMUM = tuple(name for name, entry in PROBLEMS.items() if entry.with_optimum)


def make(name: str) -> BeliefMDP:
    """Builds a problem with its Bayes filter, its ensemble of experts and its expert."""
    if name not in PROBLEMS:
        raise unknown("problem", name, PROBLEMS)
    return replace(PROBLEMS[name].build(), name=name)


def title(name: str) -> str:
    """Returns the title of a problem in figures; a problem of the user's own goes by its name."""
    return PROBLEMS[name].title if name in PROBLEMS else name
