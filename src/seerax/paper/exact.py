"""What is known exactly, by going through all cases: what learning is measured against."""

from __future__ import annotations

from functools import cache

import numpy as np

from seerax.problems import doors, tiger, tree


def tree_optimum(depth: int, episodes: int = 1) -> float:
    """Bayes-optimal return over `episodes` walks on one tree: sense once, or search while that is better."""

    @cache
    def value(candidates: int, left: int) -> float:
        if left == 0 or candidates == 1:
            return tree.GOLD * left
        sense = -tree.SENSING_COST + tree.GOLD * left
        return max(sense, _try_one_leaf(candidates, left, value))

    return value(2**depth, episodes)


def tree_posterior_sampling(depth: int, episodes: int = 1) -> float:
    """Expected return of posterior sampling, which never senses: it tries leaves until it meets the gold."""

    @cache
    def value(candidates: int, left: int) -> float:
        if left == 0:
            return 0.0
        return _try_one_leaf(candidates, left, value)

    return value(2**depth, episodes)


def _try_one_leaf(candidates: int, left: int, value) -> float:  # type: ignore[no-untyped-def]
    """Walk to one of the leaves that may still hold the gold, `left` episodes remaining, this one included."""
    found = tree.GOLD * left
    if candidates == 1:
        return found
    missed = tree.TIGER + value(candidates - 1, left - 1)
    return found / candidates + missed * (candidates - 1) / candidates


def tiger_optimum(discount: float = 1.0, most: int = 60) -> float:
    """The value of listening until sure enough, by value iteration on (tigers heard right) - (heard left)."""
    surplus = np.arange(-most, most + 1)
    right = 1 / (
        1 + ((1 - tiger.ACCURACY) / tiger.ACCURACY) ** surplus.astype(float)
    )  # P(tiger is right)
    surer = np.maximum(right, 1 - right)
    open_door = tiger.GOLD * surer + tiger.TIGER * (1 - surer)
    hear_right = tiger.ACCURACY * right + (1 - tiger.ACCURACY) * (1 - right)
    value = open_door.copy()
    while True:
        up, down = np.append(value[1:], value[-1]), np.append(value[0], value[:-1])
        listen = -tiger.LISTENING_COST + discount * (hear_right * up + (1 - hear_right) * down)
        new = np.maximum(open_door, listen)
        if np.abs(new - value).max() < 1e-12:
            return float(new[most])
        value = new


def door_changes(door: int) -> tuple[float, float]:
    """E ||b - b'||_1 from Door4's prior in front of a door, as close as one can be: of a reading, and of trying it."""
    bits = np.asarray(doors.configurations())  # of the doors and, likewise, of a reading
    prior = bits.any(-1) / bits.any(-1).sum()
    right = np.asarray(doors.accuracy(doors.CENTRES[door] - (0.0, doors.SPHERE.contact)))
    read = np.where(bits[:, None] == bits, right, 1 - right).prod(-1)  # P(reading | configuration)
    tried = np.stack(
        [bits[:, door] == 0, bits[:, door] == 1]
    )  # a crash, a passage: each tells the truth
    return _expected_change(prior, read), _expected_change(prior, tried)


def _expected_change(prior: np.ndarray, likelihood: np.ndarray) -> float:
    """Over observations [m] with these likelihoods [m, k]: sum_o P(o) ||b(. | o) - b||_1."""
    joint = likelihood * prior
    return float(np.abs(joint - joint.sum(-1, keepdims=True) * prior).sum())
