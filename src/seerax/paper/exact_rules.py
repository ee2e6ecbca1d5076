"""Judges that compare with exact values; two of them need no results."""

from __future__ import annotations

from itertools import pairwise

from seerax.paper import exact
from seerax.paper.results import Results
from seerax.paper.rules import Verdict, told

DEPTH = 4  # of the tree


def reading_tells(results: Results) -> Verdict:
    """Compares, from the prior and touching a door, a reading with trying the door."""
    changes = [exact.door_changes(door) for door in range(4)]
    readings = ", ".join(f"{read:.2f}" for read, _ in changes)
    figure = f"by {readings} against {changes[0][1]:.2f}"
    return Verdict(figure, all(read >= tried for read, tried in changes))


def gap_doubles(results: Results) -> Verdict:
    """Compares the gaps of trees, over as many episodes as the deepest one has leaves.

    `seerax figure tree` simulates them.
    """
    depths = (2, 3, 4, 5)
    episodes = 2 ** max(depths)
    gaps = [
        exact.tree_optimum(depth, episodes) - exact.tree_posterior_sampling(depth, episodes)
        for depth in depths
    ]
    words = [f"{gap:.0f} (depth {depth})" for depth, gap in zip(depths, gaps, strict=True)]
    figure = f"over {episodes} episodes {', '.join(words)}"
    return Verdict(figure, all(after >= 2 * before for before, after in pairwise(gaps)))


def posterior_sampling_is_exact(results: Results) -> Verdict:
    """Compares simulated posterior sampling with its exact value."""
    found = results["tree-posterior_sampling"]["evaluation"]
    wanted = exact.tree_posterior_sampling(DEPTH)
    low, high = found["ci95"]
    holds = found["sensing"] == 0 and low <= wanted <= high
    return Verdict(f"{told(found, 2)} against {wanted:.2f}", holds)
