"""Fast sine, cosine and arctangent against numpy's in float64; filled rows against plain ones."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seerax.numerics import simd
from seerax.numerics.trig import arctan2, sincos


@pytest.mark.parametrize("largest", [1.0, 4.0, 100.0])
def test_sine_and_cosine(largest: float) -> None:
    angles = np.linspace(-largest, largest, 100_001, dtype=np.float32)
    sin, cos = jax.jit(sincos)(jnp.asarray(angles))
    np.testing.assert_allclose(sin, np.sin(angles.astype(float)), atol=3e-7)
    np.testing.assert_allclose(cos, np.cos(angles.astype(float)), atol=3e-7)


def test_arctangent_in_all_quadrants() -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(2, 100_000)) * 10.0 ** rng.integers(-15, 15, 100_000)).astype(
        np.float32
    )
    np.testing.assert_allclose(
        jax.jit(arctan2)(y, x), np.arctan2(y.astype(float), x.astype(float)), atol=5e-7
    )


def test_arctangent_on_the_axes() -> None:
    x, y = np.array(
        [(0, 0), (2, 0), (-2, 0), (0, 2), (0, -2), (1, 1), (-1, -1), (1e-30, 1e30)], np.float32
    ).T
    np.testing.assert_allclose(arctan2(jnp.asarray(y), jnp.asarray(x)), np.arctan2(y, x), atol=5e-7)


def test_argmin_takes_the_first() -> None:
    for row in np.random.default_rng(0).integers(0, 4, (200, 7)).astype(np.float32):
        assert simd.argmin(jnp.asarray(row)) == row.argmin()


@pytest.mark.parametrize("count", [1, 6, 8, 13])
def test_filled_rows_draw_what_plain_ones_draw(count: int) -> None:
    key = jax.random.key(count)
    np.testing.assert_allclose(
        simd.uniform(key, count), jax.random.uniform(key, (count,)), atol=1e-6
    )
    np.testing.assert_allclose(simd.normal(key, count), jax.random.normal(key, (count,)), atol=1e-5)
    row = simd.fill(jnp.arange(1.0, count + 1))
    assert row.size % simd.LANES == 0
    np.testing.assert_array_equal(row, np.pad(np.arange(1.0, count + 1), (0, row.size - count)))
