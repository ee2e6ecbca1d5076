"""The extended Kalman filter against dynamax, against Bayes' rule in float64, and against absurd
readings.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seerax.filters.gaussian import CERTAIN, SHARPEST, ExtendedKalman, Gaussian, root, spread
from seerax.numerics.linalg import solve
from seerax.problems import shelf

ABSURD = [float("nan"), float("inf"), float("-inf"), 1e30, -1e30, 3e38, -3e38, 1e4, -1.0, 0.0, 2.0]
LENGTH = 60


def random_covariance(rng: np.random.Generator, size: int, scale: float = 1.0) -> np.ndarray:
    factor = rng.normal(size=(size, size + 2))
    return scale * factor @ factor.T / size


def filtered(filter: ExtendedKalman, readings: Any) -> Gaussian:
    """All beliefs, one after each reading; here a state is nothing but its reading."""

    def step(belief: Gaussian, reading: jax.Array) -> tuple[Gaussian, Gaussian]:
        belief = filter.update(belief, reading, reading, reading)
        return belief, belief

    return jax.jit(lambda readings: jax.lax.scan(step, filter.init(), readings)[1])(
        jnp.asarray(readings, jnp.float32)
    )


# ---- a pendulum that is seen from two lamps ------------------------------------------------------

PENDULUM = Gaussian(jnp.array([0.5, 0.0]), jnp.array([[0.3, 0.05], [0.05, 0.2]]))
SHAKES = jnp.array([[1e-3, 2e-4], [2e-4, 4e-3]])
BLUR = jnp.array([[0.02, 0.005], [0.005, 0.05]])


def swing(phi: jax.Array) -> jax.Array:
    return jnp.array([phi[0] + 0.05 * phi[1], phi[1] - 0.05 * 9.81 * jnp.sin(phi[0])])


def lamps(phi: jax.Array) -> jax.Array:
    return jnp.array([jnp.sin(phi[0]) + 0.1 * phi[1] ** 2, jnp.hypot(1 + jnp.cos(phi[0]), 0.5)])


def pendulum(moving: bool) -> ExtendedKalman:
    return ExtendedKalman(
        PENDULUM,
        observe=lambda state, phi: lamps(phi),
        reading=lambda state: state,
        noise=lambda state, mean, covariance: BLUR,
        motion=(lambda s, a, n, phi: swing(phi)) if moving else None,
        diffusion=(lambda s, a, n: SHAKES) if moving else None,
    )


def swinging(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    phi, readings = rng.multivariate_normal(*map(np.asarray, PENDULUM)), []
    for _ in range(LENGTH):
        readings.append(np.asarray(lamps(phi)) + rng.multivariate_normal(np.zeros(2), BLUR))
        phi = np.asarray(swing(phi)) + rng.multivariate_normal(np.zeros(2), SHAKES)
    return np.array(readings)


def oracle(prior: Gaussian, f: Any, Q: Any, h: Any, R: Any, readings: Any) -> Any:
    dynamax = pytest.importorskip("dynamax.nonlinear_gaussian_ssm")
    parameters = dynamax.ParamsNLGSSM(*prior, f, jnp.asarray(Q), h, jnp.asarray(R))
    return dynamax.extended_kalman_filter(parameters, jnp.asarray(readings, jnp.float32))


@pytest.mark.parametrize("seed", range(3))
def test_a_moving_latent_is_followed_as_by_dynamax(seed: int) -> None:
    readings = swinging(seed)
    ours = filtered(pendulum(moving=True), readings)
    theirs = oracle(PENDULUM, swing, SHAKES, lamps, BLUR, readings)
    np.testing.assert_allclose(ours.mean, theirs.predicted_means, atol=1e-5)
    np.testing.assert_allclose(ours.covariance, theirs.predicted_covariances, atol=1e-5)


@pytest.mark.parametrize("phi", [(0.9, 0.4), (-0.4, -0.6)])
def test_a_still_latent_is_found_as_by_dynamax(phi: tuple[float, float]) -> None:
    noise = np.random.default_rng(3).multivariate_normal(np.zeros(2), BLUR, LENGTH)
    readings = np.asarray(lamps(jnp.array(phi))) + noise
    ours = filtered(pendulum(moving=False), readings)
    theirs = oracle(PENDULUM, lambda phi: phi, jnp.zeros((2, 2)), lamps, BLUR, readings)
    np.testing.assert_allclose(ours.mean, theirs.filtered_means, atol=1e-5)
    np.testing.assert_allclose(ours.covariance, theirs.filtered_covariances, atol=1e-5)


def test_a_wrong_model_errs_as_in_dynamax() -> None:
    """Told that the latent stands still while it swings, the filter is soon so sure that any bias
    would show.
    """
    readings = swinging(3)
    ours = filtered(pendulum(moving=False), readings)
    theirs = oracle(PENDULUM, lambda phi: phi, jnp.zeros((2, 2)), lamps, BLUR, readings)
    np.testing.assert_allclose(ours.mean, theirs.filtered_means, atol=1e-4)


def test_the_shelf_is_filtered_as_by_dynamax() -> None:
    """The noise hangs on the belief, so dynamax is told what it was at every step."""
    problem, filter = shelf.ArmShelf(), shelf.armshelf().filter
    key = jax.random.key(0)
    latent = problem.prior(key)

    def step(carry: Any, time: jax.Array) -> Any:
        state, belief = carry
        action = jnp.array([1.0, -0.3, 0.1, jnp.where(time % 3 == 0, -1.0, 1.0)])
        state = problem.step(jax.random.fold_in(key, time), state, action, latent).state
        noise = problem.noise(state, *belief)
        belief = filter.update(belief, state, action, state)
        return (state, belief), (state.reading, noise, belief)

    start = (problem.reset(key, latent), filter.init())
    readings, noises, ours = jax.jit(lambda: jax.lax.scan(step, start, jnp.arange(LENGTH))[1])()
    theirs = oracle(
        filter.init(), lambda phi: phi, jnp.zeros((3, 3)), lambda phi: phi, noises, readings
    )
    assert np.ptp(np.asarray(noises)[:, 0, 0]) > 20  # both kinds of noise occur
    np.testing.assert_allclose(ours.mean, theirs.filtered_means, atol=1e-5)
    np.testing.assert_allclose(ours.covariance, theirs.filtered_covariances, atol=1e-5)


# ---- Bayes' rule ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("unknowns", "outputs"), [(1, 1), (2, 3), (4, 2), (6, 6)])
def test_linear_readings_give_the_exact_posterior(unknowns: int, outputs: int) -> None:
    rng = np.random.default_rng(unknowns)
    mean, P, R = (
        rng.normal(size=unknowns),
        random_covariance(rng, unknowns),
        random_covariance(rng, outputs),
    )
    H, b = rng.normal(size=(outputs, unknowns)), rng.normal(size=outputs)
    readings = rng.normal(size=(30, outputs))
    filter = ExtendedKalman(
        Gaussian(jnp.asarray(mean), jnp.asarray(P)),
        lambda s, phi: H @ phi + b,
        lambda s: s,
        lambda *_: jnp.asarray(R),
    )
    belief = filtered(filter, readings)
    precision = np.linalg.inv(P) + 30 * H.T @ np.linalg.solve(R, H)
    weighted = np.linalg.solve(P, mean) + H.T @ np.linalg.solve(R, (readings - b).sum(0))
    np.testing.assert_allclose(belief.mean[-1], np.linalg.solve(precision, weighted), atol=2e-4)
    np.testing.assert_allclose(belief.covariance[-1], np.linalg.inv(precision), atol=2e-4)


def test_a_drifting_latent_spreads() -> None:
    """With readings that say next to nothing, P grows by F P F^T + Q."""
    F, Q = jnp.array([[1.0, 0.1], [0.0, 0.9]]), jnp.diag(jnp.array([0.01, 0.02]))
    filter = ExtendedKalman(
        PENDULUM,
        lambda s, phi: phi,
        lambda s: s,
        lambda *_: 1e9 * jnp.eye(2),
        lambda s, a, n, phi: F @ phi,
        lambda *_: Q,
    )
    belief = filtered(filter, jnp.zeros((20, 2)))
    mean, P = map(np.asarray, PENDULUM)
    for _ in range(20):
        mean, P = F @ mean, F @ P @ F.T + Q
    np.testing.assert_allclose(belief.mean[-1], mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(belief.covariance[-1], P, rtol=1e-4)


# ---- always finite -------------------------------------------------------------------------------

still, moving = pendulum(moving=False), pendulum(moving=True)
updates = {False: jax.jit(still.update), True: jax.jit(moving.update)}


def assert_sound(belief: Gaussian) -> None:
    assert np.isfinite(belief.mean).all()
    assert (np.asarray(belief.covariance) == np.asarray(belief.covariance).T).all()
    assert np.linalg.eigvalsh(np.asarray(belief.covariance, np.float64)).min() > 0


@given(
    st.lists(st.tuples(st.sampled_from(ABSURD), st.sampled_from(ABSURD)), min_size=1, max_size=12),
    st.booleans(),
)
def test_nothing_makes_a_belief_unsound(readings: list[tuple[float, float]], moves: bool) -> None:
    belief = still.init()
    for reading in readings:
        heard = jnp.array(reading)
        belief = updates[moves](belief, heard, heard, heard)
        assert_sound(belief)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_says_nothing(value: float) -> None:
    heard = jnp.array([value, 0.3])
    following = updates[False](still.init(), heard, heard, heard)
    for before, after in zip(still.init(), following, strict=True):
        np.testing.assert_array_equal(before, after)


def test_what_is_far_off_pulls_only_so_far() -> None:
    """And in the right direction; nearer readings are taken as they are."""
    filter = ExtendedKalman(
        Gaussian(jnp.zeros(1), jnp.eye(1)), lambda s, phi: phi, lambda s: s, lambda *_: jnp.eye(1)
    )
    near, far, farther = (filtered(filter, [[value]]).mean[0, 0] for value in (20.0, 1e5, 1e30))
    assert near == pytest.approx(10.0, rel=1e-4)
    assert [far, farther] == pytest.approx([30 / 2**0.5] * 2, rel=1e-4)


def test_readings_without_noise_end_at_the_sharpest() -> None:
    prior = Gaussian(jnp.array([1.0, -2.0]), jnp.diag(jnp.array([4.0, 0.01])))
    filter = ExtendedKalman(prior, lambda s, phi: phi, lambda s: s, lambda *_: jnp.zeros((2, 2)))
    belief = filtered(filter, jnp.tile(jnp.array([2.0, -1.9]), (500, 1)))
    last = jax.tree.map(lambda leaf: leaf[-1], belief)
    assert_sound(last)
    np.testing.assert_allclose(last.mean, (2.0, -1.9), atol=1e-5)
    assert (spread(last) < 1e-3 * spread(prior)).all() and (
        spread(last) >= 0.99 * SHARPEST * spread(prior)
    ).all()


def test_ten_thousand_readings_wear_nothing_out() -> None:
    """Unknowns whose scales are a million apart, seen in a mixture, stay positive definite."""
    rng = np.random.default_rng(0)
    scales = np.array([1e3, 1.0, 1e-3])
    P = scales[:, None] * random_covariance(rng, 3) * scales
    H = jnp.asarray(rng.normal(size=(2, 3)) / scales, jnp.float32)
    prior = Gaussian(jnp.zeros(3), jnp.asarray(P, jnp.float32))
    filter = ExtendedKalman(
        prior, lambda s, phi: H @ phi, lambda s: s, lambda *_: 0.01 * jnp.eye(2)
    )
    beliefs = filtered(filter, rng.normal(size=(10_000, 2)))
    assert np.isfinite(beliefs.mean).all()
    correlations = np.asarray(beliefs.covariance, np.float64)[::97]
    deviations = np.sqrt(np.diagonal(correlations, axis1=1, axis2=2))
    correlations = correlations / deviations[:, :, None] / deviations[:, None, :]
    assert np.linalg.eigvalsh(correlations).min() > 0


# ---- what others see of a belief -----------------------------------------------------------------


def test_samples_have_the_moments_of_the_belief() -> None:
    rng = np.random.default_rng(5)
    belief = Gaussian(
        jnp.asarray(rng.normal(size=3)), jnp.asarray(random_covariance(rng, 3), jnp.float32)
    )
    drawn = jax.vmap(lambda key: still.sample(key, belief))(
        jax.random.split(jax.random.key(0), 100_000)
    )
    error = np.asarray(spread(belief)) / 100_000**0.5
    assert (np.abs(drawn.mean(0) - belief.mean) < 4 * error).all()
    np.testing.assert_allclose(
        np.cov(drawn.T),
        belief.covariance,
        atol=4 * 2**0.5 * float(max(error) * max(spread(belief))),
    )


def test_entropy_counts_the_nats() -> None:
    prior = still.init()
    narrowed = lambda share: Gaussian(prior.mean, share**2 * prior.covariance)  # noqa: E731
    assert float(still.entropy(prior)) == pytest.approx(1.0, abs=1e-6)
    assert float(still.entropy(narrowed(3.0))) == 1.0
    assert float(still.entropy(narrowed(CERTAIN**0.5))) == pytest.approx(0.5, abs=1e-5)
    assert float(still.entropy(narrowed(CERTAIN / 2))) == 0.0
    one = Gaussian(
        prior.mean,
        jnp.diag(jnp.array([CERTAIN, 1.0]))
        @ prior.covariance
        @ jnp.diag(jnp.array([CERTAIN, 1.0])),
    )
    assert float(still.entropy(one)) == pytest.approx(0.5, abs=1e-5)


def test_the_vector_of_the_prior_is_standard() -> None:
    np.testing.assert_allclose(still.vector(still.init()), [0, 0, 1, 1], atol=1e-6)
    other = Gaussian(still.init().mean + spread(still.init()), 0.25 * still.init().covariance)
    np.testing.assert_allclose(still.vector(other), [1, 1, 0.5, 0.5], atol=1e-6)
    np.testing.assert_allclose(still.features(other), [1, 1, np.log(0.5), np.log(0.5)], atol=1e-6)
    np.testing.assert_array_equal(still.mode(other), other.mean)
    np.testing.assert_array_equal(still.mean(other), other.mean)


@pytest.mark.parametrize("size", [1, 2, 3, 6, 9])
def test_small_matrices_are_solved_and_rooted(size: int) -> None:
    rng = np.random.default_rng(size)
    A = random_covariance(rng, size) + 0.1 * np.eye(size)
    B = rng.normal(size=(size, 4))
    np.testing.assert_allclose(
        solve(jnp.asarray(A), jnp.asarray(B)), np.linalg.solve(A, B), rtol=1e-3, atol=1e-4
    )
    np.testing.assert_allclose(root(jnp.asarray(A)), np.linalg.cholesky(A), rtol=1e-3, atol=1e-4)
