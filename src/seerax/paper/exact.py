"""Exact values, found by enumerating all cases: learning is measured against them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from seerax.problems import doors, tiger, tree


def tree_optimum(depth: int, episodes: int = 1) -> float:
    """Returns the Bayes-optimal return over `episodes` walks on one tree.

    The agent senses once, or searches as long as that is better.
    """

    @cache
    def value(candidates: int, left: int) -> float:
        if left == 0 or candidates == 1:
            return tree.GOLD * left
        sense = -tree.SENSING_COST + tree.GOLD * left
        return max(sense, _try_one_leaf(candidates, left, value))

    return value(2**depth, episodes)


def tree_posterior_sampling(depth: int, episodes: int = 1) -> float:
    """Returns the expected return of posterior sampling.

    It never senses, but tries leaves until it finds the gold.
    """

    @cache
    def value(candidates: int, left: int) -> float:
        if left == 0:
            return 0.0
        return _try_one_leaf(candidates, left, value)

    return value(2**depth, episodes)


def _try_one_leaf(candidates: int, left: int, value: Callable[[int, int], float]) -> float:
    """Returns the value of walking to one of the leaves that may still hold the gold.

    `left` episodes remain, this one included.
    """
    found = tree.GOLD * left
    if candidates == 1:
        return found
    missed = tree.TIGER + value(candidates - 1, left - 1)
    return found / candidates + missed * (candidates - 1) / candidates


def tiger_optimum(discount: float = 1.0, most: int = 60) -> float:
    """Returns the value of listening until sure enough.

    It is found by value iteration on the surplus: how often the tiger was heard right, minus left.
    """
    surplus = np.arange(-most, most + 1)
    odds = ((1 - tiger.ACCURACY) / tiger.ACCURACY) ** surplus.astype(float)
    right = 1 / (1 + odds)  # P(the tiger is right)
    surer = np.maximum(right, 1 - right)
    open_door = tiger.GOLD * surer + tiger.TIGER * (1 - surer)
    hear_right = tiger.ACCURACY * right + (1 - tiger.ACCURACY) * (1 - right)
    value = open_door.copy()
    while True:
        up = np.append(value[1:], value[-1])
        down = np.append(value[0], value[:-1])
        listen = -tiger.LISTENING_COST + discount * (hear_right * up + (1 - hear_right) * down)
        new = np.maximum(open_door, listen)
        if np.abs(new - value).max() < 1e-12:
            return float(new[most])
        value = new


def door_changes(door: int) -> tuple[float, float]:
    """Returns E ||b - b'||_1 of a reading, and of trying the door, from Door4's prior.

    The agent touches the door, as close as it can be.
    """
    bits = np.asarray(doors.configurations())  # of the doors and, likewise, of a reading
    prior = bits.any(-1) / bits.any(-1).sum()
    right = np.asarray(doors.accuracy(doors.CENTRES[door] - (0.0, doors.SPHERE.contact)))
    read = np.where(bits[:, None] == bits, right, 1 - right).prod(-1)  # P(reading | configuration)
    tried = np.stack([bits[:, door] == 0, bits[:, door] == 1])  # a crash, or a passage
    return _expected_change(prior, read), _expected_change(prior, tried)


def _expected_change(prior: np.ndarray, likelihood: np.ndarray) -> float:
    """Returns sum_o P(o) ||b(. | o) - b||_1 over observations with these likelihoods [m, k]."""
    joint = likelihood * prior
    return float(np.abs(joint - joint.sum(-1, keepdims=True) * prior).sum())
