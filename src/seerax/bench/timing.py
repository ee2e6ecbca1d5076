"""Clocks, and the exponent of a power law."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np


class Timing(NamedTuple):
    """The seconds of one call."""

    median: float
    best: float
    calls: int


def timed(work: Callable[[], Any], seconds: float = 3.0, least: int = 5) -> Timing:
    """Times calls until the time is up, after one call that does not count."""
    jax.block_until_ready(work())
    taken: list[float] = []
    started = time.perf_counter()
    while len(taken) < least or time.perf_counter() - started < seconds:
        begun = time.perf_counter()
        jax.block_until_ready(work())
        taken.append(time.perf_counter() - begun)
    return Timing(float(np.median(taken)), min(taken), len(taken))


def alternated(
    works: dict[str, Callable[[], Any]], seconds: float = 8.0, least: int = 5
) -> dict[str, Timing]:
    """Times several in turns, so that what slows the machine slows all of them."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        jax.block_until_ready(work())
    started = time.perf_counter()
    while min(map(len, taken.values())) < least or time.perf_counter() - started < seconds:
        for name, work in works.items():
            begun = time.perf_counter()
            jax.block_until_ready(work())
            taken[name].append(time.perf_counter() - begun)
    return {
        name: Timing(float(np.median(each)), min(each), len(each)) for name, each in taken.items()
    }


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """Returns the exponent of the power law through the points, by least squares on logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
