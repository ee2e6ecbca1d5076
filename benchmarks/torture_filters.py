"""Laws of all filters, whatever is observed; hypothesis looks for what breaks them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from seerax.filters import Categorical, ExtendedKalman, Factored, Gaussian, spread

SIZE, FACTORS, STEPS = 4, 2, 5
ABSURD = [float("nan"), float("inf"), float("-inf"), 1e30, -1e30, 3e38, -3e38, 1e4, -1e4, -1e3, -1.0, 0.0, 2.0]

# In the discrete filters what is observed is the evidence itself; in the Gaussian one it is a reading of both
# coordinates through a matrix that rests on the step's first two numbers, with noise of variance 0.1.
categorical = Categorical(jnp.arange(SIZE), lambda s, a, shown, phi: shown[phi])
factored = Factored(
    spread(jnp.arange(SIZE), FACTORS), lambda s, a, shown, phi: jnp.take_along_axis(shown, phi[:, None], 1)[:, 0]
)
kalman = ExtendedKalman(
    Gaussian(jnp.zeros(2), jnp.eye(2)),
    observe=lambda state, latent: jnp.array([[1.0, 0.5], [-0.5, 1.0]]) @ latent * jnp.tanh(state[:2]),
    reading=lambda state: state[2:],
    noise=lambda state, mean, covariance: 0.1 * jnp.eye(2),
)
SHAPES: dict[Any, tuple[int, ...]] = {categorical: (SIZE,), factored: (FACTORS, SIZE), kalman: (4,)}


@partial(jax.jit, static_argnums=0)
def after(filter: Any, observations: jax.Array) -> Any:
    return jax.lax.scan(lambda b, seen: (filter.update(b, seen, None, seen), None), filter.init(), observations)[0]


def observations(values: st.SearchStrategy[float], filter: Any) -> st.SearchStrategy[np.ndarray]:
    shape = (STEPS, *SHAPES[filter])
    size = int(np.prod(shape))
    return st.lists(values, min_size=size, max_size=size).map(lambda flat: np.array(flat, np.float32).reshape(shape))


def assert_sound(filter: Any, belief: Any) -> None:
    """Finite; weights sum to one, a covariance is symmetric and positive definite."""
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(belief)), belief
    if filter is kalman:
        covariance = np.asarray(belief.covariance, np.float64)
        assert (covariance == covariance.T).all() and np.linalg.eigvalsh(covariance).min() > 0, belief
    else:
        np.testing.assert_allclose(logsumexp(np.asarray(belief, np.float64), axis=-1), 0, atol=1e-4)


def always_sound(filter: Any) -> Callable[[], None]:
    @given(observations(st.sampled_from(ABSURD) | st.floats(width=32), filter))
    def law(seen: np.ndarray) -> None:
        assert_sound(filter, after(filter, seen))

    return law


def any_order(filter: Any) -> Callable[[], None]:
    """Of evidence that is not beyond the floor, or beyond the surprise, which is where filters stop believing it."""
    values = st.floats(-3, 3, width=32) if filter is kalman else st.floats(-30, 0, width=32) | st.just(float("-inf"))

    @given(observations(values, filter), st.permutations(range(STEPS)))
    def law(seen: np.ndarray, order: list[int]) -> None:
        one, other = (filter.vector(after(filter, each)) for each in (seen, seen[np.array(order)]))
        np.testing.assert_allclose(one, other, atol=2e-3)

    return law


NAMES = {"categorical": categorical, "factored": factored, "kalman": kalman}
LAWS = {f"{name} always sound": always_sound(filter) for name, filter in NAMES.items()}
LAWS |= {f"{name} in any order": any_order(filter) for name, filter in NAMES.items()}


def run(examples: int) -> dict[str, int]:
    """How many examples each law was tried on; the first that breaks it is raised."""
    for law in LAWS.values():
        settings(max_examples=examples, deadline=None, derandomize=True, database=None)(law)()
    return dict.fromkeys(LAWS, examples)
