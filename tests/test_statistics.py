"""Intervals that cover, and numbers as people write them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from seerax.numerics import statistics


def test_the_standard_error_is_that_of_the_mean() -> None:
    values = np.random.default_rng(0).normal(3, 2, (5, 40))
    np.testing.assert_allclose(statistics.standard_error(values), scipy.stats.sem(values, axis=-1))


@pytest.mark.parametrize("count", [2, 3, 10, 1000])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_the_interval_is_that_of_students_t(count: int, level: float) -> None:
    values = np.random.default_rng(count).normal(5, 3, count)
    mean, stderr = values.mean(), scipy.stats.sem(values)
    expected = scipy.stats.t.interval(level, count - 1, mean, stderr)
    np.testing.assert_allclose(statistics.student_interval(values, level), expected, rtol=1e-9)
    margin = statistics.student_margin(count, stderr, level)
    np.testing.assert_allclose([mean - margin, mean + margin], expected, rtol=1e-9)


@pytest.mark.parametrize("count", [2, 5, 60])
def test_intervals_cover_the_truth_as_often_as_they_say(count: int) -> None:
    rng = np.random.default_rng(1)
    intervals = np.array(
        [statistics.student_interval(rng.normal(5, 3, count)) for _ in range(2000)]
    )
    covered = np.mean((intervals[:, 0] < 5) & (intervals[:, 1] > 5))
    assert abs(covered - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 2000)


def test_the_interval_of_few_whole_numbers_is_not_cut_to_whole_numbers() -> None:
    low, high = statistics.student_interval(np.array([1, 2]))
    assert low == pytest.approx(1.5 - 12.7062 * 0.5, rel=1e-4)
    assert high == pytest.approx(1.5 + 12.7062 * 0.5, rel=1e-4)


def test_shares_are_written_in_percent_and_none_as_a_dash() -> None:
    assert statistics.percent(0.1234) == "12.3 %"
    assert statistics.percent(1.0) == "100.0 %"
    assert statistics.percent(None) == "-"


@pytest.mark.parametrize(
    ("steps", "words"),
    [(0, "0"), (999, "999"), (1000, "1k"), (65_536, "66k"), (4_194_304, "4.2M")],
)
def test_steps_are_written_in_thousands_and_millions(steps: int, words: str) -> None:
    assert statistics.in_thousands(steps) == words
