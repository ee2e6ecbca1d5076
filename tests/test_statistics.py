"""Intervals that cover, and means of the middle."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from seerax.numerics import statistics


def test_the_standard_error_is_that_of_the_mean() -> None:
    values = np.random.default_rng(0).normal(3, 2, (5, 40))
    np.testing.assert_allclose(statistics.standard_error(values), scipy.stats.sem(values, axis=-1))


@pytest.mark.parametrize("count", [4, 8, 20, 100])
def test_the_interquartile_mean_is_a_trimmed_mean_when_quartiles_fall_between_values(
    count: int,
) -> None:
    values = np.random.default_rng(count).standard_cauchy((3, count))
    expected = scipy.stats.trim_mean(values, 0.25, axis=-1)
    np.testing.assert_allclose(statistics.interquartile_mean(values), expected, rtol=1e-12)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 6, 7, 9, 30, 101])
def test_the_interquartile_mean_counts_values_on_the_quartiles_in_part(count: int) -> None:
    values = np.random.default_rng(count).standard_cauchy(count)
    quarters = np.sort(
        np.repeat(values, 4)
    )  # each value as four quarters: the middle half is then whole
    expected = quarters[count : 3 * count].mean()
    np.testing.assert_allclose(statistics.interquartile_mean(values), expected, rtol=1e-12)


def test_the_interquartile_mean_does_not_hear_outliers() -> None:
    values = np.arange(8.0)
    shouting = np.where(values == 7, 1e9, values)
    assert statistics.interquartile_mean(shouting) == statistics.interquartile_mean(values) == 3.5


@pytest.mark.parametrize("statistic", [statistics.mean, statistics.interquartile_mean])
def test_bootstrap_intervals_cover_the_truth_about_as_often_as_they_say(
    statistic: statistics.Statistic,
) -> None:
    rng = np.random.default_rng(1)
    intervals = np.array(
        [
            statistics.bootstrap(rng.normal(5, 3, 60), statistic, resamples=600, seed=i)
            for i in range(400)
        ]
    )
    covered = np.mean((intervals[:, 0] < 5) & (intervals[:, 1] > 5))
    assert abs(covered - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 400)


def test_bootstrap_of_the_mean_agrees_with_the_normal_interval() -> None:
    values = np.random.default_rng(2).normal(5, 3, 400)
    for level in (0.5, 0.8, 0.95):
        low, high = statistics.bootstrap(values, level=level, resamples=20_000)
        margin = scipy.stats.norm.ppf((1 + level) / 2) * statistics.standard_error(values)
        np.testing.assert_allclose(
            [low, high], [values.mean() - margin, values.mean() + margin], atol=0.015
        )


def test_the_bootstrap_is_repeatable() -> None:
    values = np.random.default_rng(3).exponential(size=30)
    assert statistics.bootstrap(values, seed=4) == statistics.bootstrap(values, seed=4)
    assert statistics.bootstrap(values, seed=4) != statistics.bootstrap(values, seed=5)
