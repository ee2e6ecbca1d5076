"""The problems by name. Each file reads in the same order: constants, state, problem, expert, builder, drawing."""

from __future__ import annotations

from collections.abc import Callable

from seerax.core import BeliefMDP
from seerax.errors import unknown
from seerax.problems import cartpole, crowd, doors, maze, shelf, tiger, tree

PROBLEMS: dict[str, Callable[[], BeliefMDP]] = {
    "crowdnav": crowd.crowdnav,
    "cartpole": cartpole.cartpole,
    "armshelf": shelf.armshelf,
    "maze4": maze.maze4,
    "maze10": maze.maze10,
    "door4": doors.door4,
    "tree": tree.tree,
    "tiger": tiger.tiger,
}

PAPER = (
    "crowdnav",
    "cartpole",
    "armshelf",
    "maze4",
    "maze10",
    "door4",
)  # of the paper's experiments
WITH_SENSING = ("maze4", "maze10", "door4")  # of its ablations
WITH_OPTIMUM = ("tiger", "tree")  # whose Bayes-optimal values are known

ABOUT = {
    "crowdnav": "drive past six people who each walk to a goal of their own, without touching anyone",
    "cartpole": "balance a pole of unknown length on a cart of unknown mass, with a noisy motor",
    "armshelf": "reach for an object somewhere on two shelves without touching anything; sensing costs 1",
    "maze4": "find out which of four goals in a maze is the active one; sensing its distance costs 1",
    "maze10": "the same with ten goals; a wrong goal costs 50 a step, and on it goes",
    "door4": "find out which of four doors are open, and go through one; sensing costs 1, a crash 10",
    "tree": "one leaf of a binary tree holds gold, the others a tiger; sensing at the root tells which",
    "tiger": "listen as long as it pays, then open the door without the tiger",
}


def make(name: str) -> BeliefMDP:
    """The belief MDP of a problem: problem, filter, experts' ensemble and expert."""
    if name not in PROBLEMS:
        raise unknown("problem", name, PROBLEMS)
    return PROBLEMS[name]()
