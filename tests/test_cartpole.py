"""Cartpole: physics in the textbook's form and in float64, the likelihood as a 2-D Gaussian,
regulators by scipy.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest
from scipy.linalg import solve_discrete_are
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from seerax import advice, rollout
from seerax.core import BeliefMDP, Situation
from seerax.experts import lqr
from seerax.filters import Categorical
from seerax.problems import cartpole
from seerax.problems.cartpole import CartpoleState

matplotlib.use("Agg")

G, M_POLE, TAU, SIGMA = 9.8, 0.1, 0.02, 3.0
CENTRES = [(mass, length) for mass in (0.75, 1.25, 1.75) for length in (0.75, 1.25, 1.75)]


@pytest.fixture(scope="module")
def mdp() -> BeliefMDP:
    return cartpole.cartpole()


# ---- independent answers -------------------------------------------------------------------------


def accelerations(state: np.ndarray, force: float, latent: np.ndarray) -> np.ndarray:
    """(x'', theta'') in the form of Barto, Sutton and Anderson (1983), without friction."""
    (_, _, theta, omega), (mass, half) = state, latent
    total = mass + M_POLE
    temp = (force + M_POLE * half * omega**2 * np.sin(theta)) / total
    pole = (G * np.sin(theta) - np.cos(theta) * temp) / (
        half * (4 / 3 - M_POLE * np.cos(theta) ** 2 / total)
    )
    return np.array([temp - M_POLE * half * pole * np.cos(theta) / total, pole])


def euler(state: np.ndarray, force: float, latent: np.ndarray) -> np.ndarray:
    cart, pole = accelerations(state, force, latent)
    return state + TAU * np.array([state[1], cart, state[3], pole])


def log_density(
    state: np.ndarray, u: float, after: np.ndarray, latent: np.ndarray, side: float
) -> float:
    """Of both accelerations under N(0, sigma^2 B B' + tolerance), with all slopes from finite
    differences.

    The cell makes the cart's acceleration uncertain, and the pole's answer to the acceleration that
    the cart had.
    """
    seen = (after - state)[[1, 3]] / TAU
    expected = accelerations(state, 10 * u, latent)
    B = accelerations(state, 10 * u + 10, latent) - expected
    per_cart = B[1] / B[0]

    def pole_after(latent: np.ndarray) -> float:
        """theta'' when the cart accelerates as seen, whatever force that takes."""
        at_rest = accelerations(state, 0.0, latent)
        force = (seen[0] - at_rest[0]) / (accelerations(state, 1.0, latent) - at_rest)[0]
        return accelerations(state, force, latent)[1]

    eps = 1e-5 * np.eye(2)
    cart_slope = [
        (accelerations(state, 10 * u, latent + e) - accelerations(state, 10 * u, latent - e))[0]
        for e in eps
    ]
    pole_slope = [pole_after(latent + e) - pole_after(latent - e) for e in eps]
    cart_spread = np.square(np.array(cart_slope) / 2e-5).sum() * side**2 / 12 + 0.01**2
    pole_spread = np.square(np.array(pole_slope) / 2e-5).sum() * side**2 / 12 + 0.01**2
    along = np.array([1.0, per_cart])
    covariance = (
        SIGMA**2 * np.outer(B, B) + cart_spread * np.outer(along, along) + np.diag([0, pole_spread])
    )
    return float(multivariate_normal.logpdf(seen, expected, covariance))


def scipy_gain(latent: np.ndarray) -> np.ndarray:
    """The regulator of the Euler step, linearised by hand around the upright pole."""
    mass, half = latent
    total = mass + M_POLE
    inertia = half * (4 / 3 - M_POLE / total)
    A, B = np.eye(4), np.zeros((4, 1))
    A[0, 1] = A[2, 3] = TAU
    A[3, 2] = TAU * G / inertia
    A[1, 2] = -M_POLE * half / total * A[3, 2]
    B[3, 0] = -TAU * 10 / total / inertia
    B[1, 0] = TAU * 10 / total - M_POLE * half / total * B[3, 0]
    R = cartpole.CONTROL_COST
    P = solve_discrete_are(A, B, cartpole.STATE_COST, R)
    return np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)


def random_moment(rng: np.random.Generator) -> tuple[np.ndarray, float, np.ndarray]:
    state = rng.uniform([-4, -5, -1.2, -5], [4, 5, 1.2, 5])
    return state, float(rng.uniform(-10, 10)), rng.uniform(0.5, 2.0, 2)


def packed(state: np.ndarray) -> CartpoleState:
    return CartpoleState(*jnp.asarray(state, jnp.float32))


# ---- problem -------------------------------------------------------------------------------------


def test_physics_is_the_textbook_cartpole() -> None:
    rng = np.random.default_rng(0)
    step = jax.jit(cartpole.Cartpole(noise=0.0).step)
    for _ in range(200):
        state, u, latent = random_moment(rng)
        after = np.stack(
            step(jax.random.key(0), packed(state), jnp.array([u]), jnp.asarray(latent)).state
        )
        np.testing.assert_allclose(after, euler(state, 10 * u, latent), rtol=1e-5, atol=2e-5)


def test_control_noise_is_gaussian_with_its_std() -> None:
    problem, latent, state = (
        cartpole.Cartpole(),
        jnp.array([0.7, 1.2]),
        packed(np.array([0.1, 0.2, 0.3, 0.4])),
    )
    keys = jax.random.split(jax.random.key(1), 20000)
    after = jax.vmap(problem.step, (0, None, None, None))(
        keys, state, jnp.array([2.0]), latent
    ).state
    rest, push = (
        accelerations(np.stack(state).astype(float), f, np.asarray(latent)) for f in (0.0, 1.0)
    )
    u = ((np.asarray(after.velocity) - 0.2) / TAU - rest[0]) / (push - rest)[0] / 10
    noise = (u - 2.0) / SIGMA
    assert abs(noise.mean()) < 4 / np.sqrt(noise.size)
    assert abs(noise.std() - 1) < 4 / np.sqrt(2 * noise.size)


@pytest.mark.parametrize("coordinate", [0, 1])
def test_each_latent_coordinate_matters(coordinate: int) -> None:
    step = partial(
        cartpole.Cartpole().step,
        jax.random.key(0),
        packed(np.array([0.0, 0.0, 0.2, 0.1])),
        jnp.array([5.0]),
    )
    one, other = (
        step(jnp.array([1.0, 1.0])).state,
        step(jnp.array([1.0, 1.0]).at[coordinate].set(1.5)).state,
    )
    assert abs(one.spin - other.spin) > 1e-2


@pytest.mark.parametrize(
    ("state", "failed"),
    [
        ((3.999, 0, 0, 0), False),
        ((4.001, 0, 0, 0), True),
        ((-4.001, 0, 0, 0), True),
        ((0, 0, 1.199, 0), False),
        ((0, 0, 1.201, 0), True),
        ((0, 0, -1.201, 0), True),
    ],
)
def test_fails_at_the_edge_and_when_toppled(state: tuple[float, ...], failed: bool) -> None:
    _, reward, terminated = cartpole.Cartpole().step(
        jax.random.key(0), packed(np.array(state)), jnp.zeros(1), jnp.ones(2)
    )
    assert bool(terminated) is failed
    assert float(reward) == 1.0


def test_start_and_latents_fill_their_boxes() -> None:
    problem, keys = cartpole.Cartpole(), jax.random.split(jax.random.key(2), 4000)
    latents = np.asarray(jax.vmap(problem.prior)(keys))
    starts = np.stack(jax.vmap(problem.reset, (0, None))(keys, jnp.ones(2)), -1)
    for values, low, high in ((latents, 0.5, 2.0), (starts, -0.5, 0.5)):
        assert values.min() >= low
        assert values.max() <= high
        z = (values.mean(0) - (low + high) / 2) / ((high - low) / np.sqrt(12 * len(values)))
        assert np.abs(z).max() < 4


# ---- belief --------------------------------------------------------------------------------------


def test_belief_equals_brute_force(mdp: BeliefMDP) -> None:
    rng = np.random.default_rng(3)
    update, latent = jax.jit(mdp.filter.update), np.array([1.1, 0.8])
    belief, exact = mdp.filter.init(), np.zeros(9)
    for _ in range(6):
        state, u, _ = random_moment(rng)
        after = euler(state, 10 * (u + SIGMA * rng.normal()), latent)
        belief = update(belief, packed(state), jnp.array([u]), packed(after))
        exact += [log_density(state, u, after, np.array(centre), side=0.5) for centre in CENTRES]
    np.testing.assert_allclose(np.exp(belief), np.exp(exact - logsumexp(exact)), atol=2e-3)
    assert 0.05 < np.exp(belief).max() < 0.999  # otherwise nothing was compared


def followed(problem: cartpole.Cartpole, filter: Categorical, ask: advice.Expert, steps: int):
    """Plays one world from a key and a latent, past any failure; gives every belief and whether it
    still stood.
    """

    def play(key: jax.Array, latent: jax.Array) -> tuple[jax.Array, jax.Array]:
        def body(carry: tuple, time: jax.Array) -> tuple:
            state, belief, stands = carry
            action = jnp.clip(ask.act(state, ask.plan(filter.mean(belief))), -10, 10)
            after, _, terminated = problem.step(
                jax.random.fold_in(key, time), state, action, latent
            )
            belief = filter.update(belief, state, action, after)
            return (after, belief, stands & ~terminated), (belief, stands & ~terminated)

        first = (problem.reset(key, latent), filter.init(), jnp.bool_(True))
        return jax.lax.scan(body, first, 1 + jnp.arange(steps))[1]

    return jax.jit(jax.vmap(play))


def test_fine_belief_is_calibrated(mdp: BeliefMDP) -> None:
    """Where latents come from the support, truth and a posterior sample are exchangeable at any
    fixed time.
    """
    count, problem = 10000, cartpole.Cartpole(cell=0.0)
    filter = Categorical(cartpole.grid(12), problem.log_likelihood)
    truth = filter.support[jax.random.randint(jax.random.key(4), (count,), 0, filter.size)]
    play = followed(problem, filter, mdp.expert, 10)
    beliefs, _ = play(jax.random.split(jax.random.key(5), count), truth)
    for time in (3, 10):
        belief = beliefs[:, time - 1]
        drawn = jax.vmap(filter.sample)(jax.random.split(jax.random.key(time), count), belief)
        mode = jax.vmap(filter.mode)(belief)
        for statistic in (
            lambda latent, mode: latent[:, 0] - mode[:, 0],
            lambda latent, mode: jnp.abs(latent[:, 0] - mode[:, 0]),
            lambda latent, mode: (latent == mode).all(-1).astype(jnp.float32),
        ):
            gap = np.asarray(statistic(truth, mode) - statistic(drawn, mode), float)
            assert gap.std() > 0.1  # still undecided
            assert abs(gap.mean() / gap.std() * np.sqrt(count)) < 3


def test_belief_moves_to_the_right_cell(mdp: BeliefMDP) -> None:
    """And neither freezes nor turns back: what it gives the right cell grows to the end."""
    count = 2000
    truth = jax.random.uniform(jax.random.key(6), (count, 2), minval=0.5, maxval=2.0)
    beliefs, stands = followed(mdp.problem, mdp.filter, mdp.expert, 400)(
        jax.random.split(jax.random.key(7), count), truth
    )
    cell = np.floor((np.asarray(truth) - 0.5) / 0.5).astype(int) @ [3, 1]
    right = np.exp(np.take_along_axis(np.asarray(beliefs), cell[:, None, None], 2)[..., 0])
    at = {
        time: right[np.asarray(stands[:, time - 1]), time - 1].mean() for time in (10, 50, 200, 400)
    }
    assert at[10] > 0.65
    assert at[50] > 0.83
    assert at[200] > 0.9
    assert at[10] < at[50] < at[200] < at[400]


def test_belief_survives_absurd_observations(mdp: BeliefMDP) -> None:
    update, start = jax.jit(mdp.filter.update), packed(np.zeros(4))
    for absurd in (np.nan, np.inf, -np.inf, 1e30, -1e10, 1e4):
        for place in range(4):
            after = packed(np.where(np.arange(4) == place, absurd, 0.0))
            belief = mdp.filter.init()
            for state, following in ((start, after), (after, start), (start, start)):
                belief = update(belief, state, jnp.zeros(1), following)
                assert np.isfinite(belief).all()
                assert np.exp(belief).sum() == pytest.approx(1, abs=1e-5)


# ---- expert --------------------------------------------------------------------------------------


def test_regulators_of_all_cells_are_scipys(mdp: BeliefMDP) -> None:
    for centre in CENTRES:
        gain = np.asarray(mdp.expert.plan(jnp.asarray(centre)))
        np.testing.assert_allclose(gain, scipy_gain(np.array(centre)), rtol=1e-5)


def test_regulators_between_the_nodes_are_close_to_scipys(mdp: BeliefMDP) -> None:
    latents = np.random.default_rng(8).uniform(0.5, 2.0, (100, 2))
    gains = jax.jit(jax.vmap(mdp.expert.plan))(jnp.asarray(latents))
    np.testing.assert_allclose(gains, [scipy_gain(latent) for latent in latents], rtol=1e-3)


def test_riccati_by_doubling_is_scipys() -> None:
    rng = np.random.default_rng(9)
    for _ in range(20):
        a, b = rng.normal(size=(5, 5)) / 2, rng.normal(size=(5, 2))
        half, r = rng.normal(size=(5, 5)), np.diag(rng.uniform(0.1, 5, 2))
        q = half @ half.T
        np.testing.assert_allclose(
            lqr.cost_to_go(a, b, q, r), solve_discrete_are(a, b, q, r), rtol=1e-6
        )


def test_collapsed_belief_is_its_expert(mdp: BeliefMDP) -> None:
    state = packed(np.array([0.15, -0.1, 0.05, 0.2]))  # weak enough not to saturate
    for index, centre in enumerate(CENTRES):
        belief = jax.nn.log_softmax(jnp.where(jnp.arange(9) == index, 0.0, -1e3))
        advised = mdp.advisor(None, state, belief)
        np.testing.assert_allclose(
            advised, -scipy_gain(np.array(centre)) @ np.stack(state), rtol=1e-4
        )


def test_ensemble_leaves_room_and_knowing_helps(mdp: BeliefMDP) -> None:
    key, count = jax.random.key(10), 500
    ensemble = rollout.evaluate(key, mdp, advice.follow_advice, count)
    told = rollout.evaluate(key, mdp, advice.Clairvoyant(mdp.expert), count)
    assert 410 < ensemble.mean < 450
    gap = told.returns - ensemble.returns
    assert gap.mean() > 30
    assert gap.mean() > 5 * gap.std() / np.sqrt(count)
    assert told.success is not None
    np.testing.assert_array_equal(told.success, told.lengths == 500)


# ---- drawing -------------------------------------------------------------------------------------


def test_picture_shows_belief_and_pole(mdp: BeliefMDP) -> None:
    from matplotlib.figure import Figure

    belief = np.log(np.arange(1, 10) / 45)
    ax = Figure().add_subplot()
    situation = Situation(
        CartpoleState(*np.array([1.0, 0.0, np.pi / 6, 0.0])), belief, np.array([2.0])
    )
    mdp.problem.draw(ax, situation, np.array([-3.0]), np.array([0.6, 1.9]))
    cells = [artist.get_alpha() for artist in ax.get_children() if artist.get_gid() == "cell"]
    np.testing.assert_allclose(cells, np.exp(belief))
    poles = [line for artist in ax.collections for line in artist.get_segments() if len(line) == 2]
    leaning = [
        np.arctan2(*(tip - hinge))
        for hinge, tip in poles
        if np.hypot(*(tip - hinge)) == pytest.approx(3.8)
    ]
    assert leaning == [pytest.approx(np.pi / 6)]
