"""Claims rest on intervals: each test fails on a fault once overlooked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from seerax.paper import curve_rules, rules
from seerax.paper.results import Results


def measured(low: float, high: float, mean: float | None = None) -> Any:
    return {"mean": (low + high) / 2 if mean is None else mean, "ci95": [low, high]}


CASES = [  # one, other, whether the intervals are apart with one above
    ((5, 7), (1, 3), True),
    ((5, 7), (1, 4.9), True),
    ((5, 7), (1, 5), False),  # touching is not apart
    ((5, 7), (1, 6), False),  # the mean is above, the interval is not
    ((5, 9), (4, 6), False),
    ((1, 3), (5, 7), False),
    ((1, 3), (1, 3), False),
]


@pytest.mark.parametrize(("one", "other", "apart"), CASES)
def test_above_means_that_the_intervals_are_apart(one: Any, other: Any, apart: bool) -> None:
    assert rules.above(measured(*one), measured(*other)) is apart


def test_above_looks_at_no_mean() -> None:
    """An interval need not lie around its mean, nor say what the means would."""
    assert rules.above(measured(5, 7, mean=0), measured(1, 3, mean=9))
    assert not rules.above(measured(1, 9, mean=8), measured(1, 9, mean=2))


@pytest.mark.parametrize(("one", "other", "apart"), CASES)
def test_intervals_overlap_where_neither_is_above(one: Any, other: Any, apart: bool) -> None:
    first, second = measured(*one), measured(*other)
    neither = not apart and not rules.above(second, first)
    assert rules.overlap(first, second) is rules.overlap(second, first) is neither


@pytest.mark.parametrize(("one", "other", "apart"), CASES)
def test_who_beats_another_does_so_by_its_interval(one: Any, other: Any, apart: bool) -> None:
    results = Results(
        {"mine": {"evaluation": measured(*one)}, "theirs": {"evaluation": measured(*other)}}
    )
    assert rules.beats("mine", "theirs")(results).holds is apart


def test_who_beats_several_is_above_each_of_them() -> None:
    results = Results(
        {
            name: {"evaluation": measured(*interval)}
            for name, interval in {"mine": (5, 7), "low": (1, 3), "near": (4, 6)}.items()
        }
    )
    assert rules.beats("mine", "low")(results).holds
    assert not rules.beats("mine", "low", "near")(results).holds


@pytest.mark.parametrize(("one", "other", "apart"), CASES)
def test_crashes_are_compared_by_their_intervals_too(one: Any, other: Any, apart: bool) -> None:
    results = Results(
        {
            name: {"extra": {"at_the_end": {"crashes": measured(*interval)}}}
            for name, interval in (("mine", one), ("theirs", other))
        }
    )
    assert rules.crashes_more("mine", "theirs")(results).holds is apart


def curve(seed: int, level: float) -> Any:
    return {"seed": seed, "steps": [0, 100], "held_out": [level, level], "returned": level}


@pytest.mark.parametrize(("noise", "apart"), [(0.1, True), (3.0, False)])
def test_learning_curves_are_compared_by_the_interval_over_seeds(noise: float, apart: bool) -> None:
    """The means are 2 and 1 in both cases; what differs is the spread of the seeds."""
    results = Results(
        {
            name: {"curves": [curve(i, mean + noise * step) for i, step in enumerate((-1, 0, 1))]}
            for name, mean in (("mine", 2.0), ("theirs", 1.0))
        }
    )
    assert curve_rules.higher_while_learning("mine", "theirs")(results).holds is apart


def test_the_interval_over_seeds_is_students() -> None:
    found = rules.over_seeds([1.0, 2.0, 6.0])
    assert found["mean"] == 3
    margin = 4.30265 * np.std([1, 2, 6], ddof=1) / np.sqrt(3)
    np.testing.assert_allclose(found["ci95"], [3 - margin, 3 + margin], rtol=1e-4)
