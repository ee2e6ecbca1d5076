"""Section filters: absurd, extreme and contradictory observations, and independent ones in any
order.

Hypothesis looks for what breaks the laws of all filters.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from seerax import problems
from seerax.core import Action, State
from seerax.filters import Categorical, ExtendedKalman, Factored, Gaussian, spread

SIZE, FACTORS, STEPS = 4, 2, 5
HUGE = (float("inf"), 1e30, 3e38, 1e4, 1e3)
ABSURD = [float("nan"), 0.0, -1.0, 2.0, *HUGE, *(-size for size in HUGE)]
ANYTHING = st.sampled_from(ABSURD) | st.floats(width=32)

# In the discrete filters what is observed is the evidence itself; in the Gaussian one it is a
# reading of both coordinates through a matrix made of the step's first two numbers, with noise of
# variance 0.1.
categorical = Categorical(jnp.arange(SIZE), lambda s, a, shown, phi: shown[phi])
factored = Factored(
    spread(jnp.arange(SIZE), FACTORS),
    lambda s, a, shown, phi: jnp.take_along_axis(shown, phi[:, None], 1)[:, 0],
)
kalman = ExtendedKalman(
    Gaussian(jnp.zeros(2), jnp.eye(2)),
    observe=lambda state, latent: (
        jnp.array([[1.0, 0.5], [-0.5, 1.0]]) @ latent * jnp.tanh(state[:2])
    ),
    reading=lambda state: state[2:],
    noise=lambda state, mean, covariance: 0.1 * jnp.eye(2),
)
SHAPES: dict[Any, tuple[int, ...]] = {categorical: (SIZE,), factored: (FACTORS, SIZE), kalman: (4,)}


@partial(jax.jit, static_argnums=0)
def after(filter: Any, observations: jax.Array) -> Any:
    return jax.lax.scan(
        lambda b, seen: (filter.update(b, seen, None, seen), None), filter.init(), observations
    )[0]


def observations(values: st.SearchStrategy[float], filter: Any) -> st.SearchStrategy[np.ndarray]:
    shape = (STEPS, *SHAPES[filter])
    size = int(np.prod(shape))
    return st.lists(values, min_size=size, max_size=size).map(
        lambda flat: np.array(flat, np.float32).reshape(shape)
    )


def assert_sound(belief: Any) -> None:
    """One belief or a row of them: finite; weights sum to one, covariances are symmetric and
    positive definite.
    """
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(belief)), belief
    if isinstance(belief, Gaussian):
        covariance = np.asarray(belief.covariance, np.float64)
        assert (covariance == covariance.swapaxes(-1, -2)).all() and np.linalg.eigvalsh(
            covariance
        ).min() > 0, belief
    else:
        np.testing.assert_allclose(logsumexp(np.asarray(belief, np.float64), axis=-1), 0, atol=1e-4)


def always_sound(filter: Any) -> Callable[[], None]:
    @given(observations(ANYTHING, filter))
    def law(seen: np.ndarray) -> None:
        assert_sound(after(filter, seen))

    return law


def any_order(filter: Any) -> Callable[[], None]:
    """Of evidence that is not beyond the floor, or beyond the surprise, which is where filters stop
    believing it.
    """
    values = (
        st.floats(-3, 3, width=32)
        if filter is kalman
        else st.floats(-30, 0, width=32) | st.just(float("-inf"))
    )

    @given(observations(values, filter), st.permutations(range(STEPS)))
    def law(seen: np.ndarray, order: list[int]) -> None:
        one, other = (filter.vector(after(filter, each)) for each in (seen, seen[np.array(order)]))
        np.testing.assert_allclose(one, other, atol=2e-3)

    return law


# ---- the problems' own ---------------------------------------------------------------------------
# A short life at random actions, in which hypothesis changes numbers and flags of the states at
# will.


@partial(jax.jit, static_argnums=0)
def lived(problem: Any) -> tuple[State, Action]:
    """(states [STEPS + 1, ...], actions [STEPS, ...])"""
    key = jax.random.key(0)
    latent = problem.prior(key)
    first = problem.reset(key, latent)
    low, high = jnp.array(problem.action_low), jnp.array(problem.action_high)
    actions = jax.random.uniform(key, (STEPS, low.size), minval=low, maxval=high)
    live = lambda state, action: (problem.step(key, state, action, latent).state,) * 2  # noqa: E731
    later = jax.lax.scan(live, first, actions)[1]
    return jax.tree.map(lambda one, rest: jnp.concatenate([one[None], rest]), first, later), actions


def edited(states: State, edits: list[tuple[int, float]]) -> State:
    """Sets some numbers and flags, counted from the first leaf on, to other values."""
    leaves, structure = jax.tree.flatten(states)
    flat = np.concatenate([np.ravel(leaf).astype(np.float32) for leaf in leaves])
    for at, value in edits:
        flat[at % flat.size] = value
    parts = np.split(flat, np.cumsum([leaf.size for leaf in leaves])[:-1])
    pairs = zip(parts, leaves, strict=True)
    return structure.unflatten([like(part, leaf) for part, leaf in pairs])


def like(part: np.ndarray, leaf: np.ndarray) -> np.ndarray:
    """As the leaf is shaped; counters stay what they were."""
    return leaf if leaf.dtype.kind == "i" else part.reshape(leaf.shape).astype(leaf.dtype)


@partial(jax.jit, static_argnums=0)
def beliefs(filter: Any, states: State, actions: Action) -> Any:
    """After every step, and at last after one back from the last state to the first."""

    def update(belief: Any, seen: tuple[State, Action, State]) -> tuple[Any, Any]:
        return (filter.update(belief, *seen),) * 2

    following = jax.tree.map(lambda leaf: jnp.roll(leaf, -1, 0), states)
    return jax.lax.scan(
        update, filter.init(), (states, jnp.concatenate([actions, actions[:1]]), following)
    )[1]


def sound_in_its_problem(name: str) -> Callable[[], None]:
    """The problem is made, and compiled, when the law is first tried."""

    @cache
    def scene() -> tuple[Any, State, Action]:
        mdp = problems.make(name)
        return (mdp.filter, *jax.tree.map(np.asarray, lived(mdp.problem)))

    @given(
        st.lists(
            st.tuples(st.integers(0, 10**4), ANYTHING | st.floats(-2, 2, width=32)), max_size=30
        )
    )
    def law(edits: list[tuple[int, float]]) -> None:
        filter, states, actions = scene()
        assert_sound(beliefs(filter, edited(states, edits), actions))

    return law


# ---- all -----------------------------------------------------------------------------------------

NAMES = {"categorical": categorical, "factored": factored, "kalman": kalman}
LAWS = {f"{name} always sound": always_sound(filter) for name, filter in NAMES.items()}
LAWS |= {f"{name} in any order": any_order(filter) for name, filter in NAMES.items()}
LAWS |= {f"{name} always sound": sound_in_its_problem(name) for name in problems.PAPER}


def filters(examples: int = 2000) -> dict[str, Any]:
    """Tries every law on so many examples; the first that breaks one is raised."""
    for law in LAWS.values():
        settings(max_examples=examples, deadline=None, derandomize=True, database=None)(law)()
    counts = dict.fromkeys(LAWS, examples)
    return {"examples": sum(counts.values()), "laws": counts, "broken": 0}
