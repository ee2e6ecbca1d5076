"""Laws of structure: members and shapes, told without running anything."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from seerax.core import BeliefMDP, Moment, Problem
from seerax.errors import UserError
from seerax.filters import Categorical, Factored
from seerax.laws.observed import Observed, named, short, told

PROBLEM = {
    "prior": "key",
    "reset": "key, latent",
    "step": "key, state, action, latent",
    "features": "state",
}
PROBLEM_MAY = {
    "evolve": "key, state, action, next_state, latent",
    "senses": "state, action",
    "with_sensing": "action, on",
    "succeeded": "state, latent, done",
    "draw": "ax, situation, action, latent",
}
FILTER = {
    "init": "",
    "update": "belief, state, action, next_state",
    "vector": "belief",
    "mode": "belief",
    "sample": "key, belief",
}
FILTER_MAY = {
    "mean": "belief",
    "entropy": "belief",
    "log_likelihood": "state, action, next_state, latent",
}
EXPERT = {"plan": "latent", "act": "state, plan"}


def members(observed: Observed) -> Iterator[str]:
    mdp = observed.mdp
    yield from methods("problem", mdp.problem, PROBLEM, PROBLEM_MAY)
    yield from methods("filter", mdp.filter, FILTER, FILTER_MAY)
    if mdp.expert is not None:
        yield from methods("expert", mdp.expert, EXPERT, {})
    if not accepts(mdp.advisor, 3):
        yield "advisor must be a function advisor(moment, state, belief) that returns an action."
    missing = [
        name
        for name in ("horizon", "discount", "action_low", "action_high")
        if not hasattr(mdp.problem, name)
    ]
    yield from (f"problem.{name} is missing: add it as an attribute." for name in missing)
    if not missing:
        yield from constants(mdp.problem)
    try:
        hash(mdp)
    except TypeError as error:
        yield f"The problem, filter and advisor must be hashable ({error}): use @dataclass(frozen=True, eq=False)."


def methods(
    owner: str, thing: Any, required: dict[str, str], optional: dict[str, str]
) -> Iterator[str]:
    for name, arguments in (required | optional).items():
        if not hasattr(thing, name):
            if name in required:
                yield f"{owner}.{name} is missing: add a method {name}({arguments})."
        elif not accepts(getattr(thing, name), len(arguments.split(", ")) if arguments else 0):
            yield f"{owner}.{name} cannot be called as {name}({arguments}): give it these arguments, in this order."


def accepts(function: Any, count: int) -> bool:
    """Can it be called with so many arguments? What shows no signature is believed."""
    try:
        return callable(function) and inspect.signature(function).bind(*range(count)) is not None
    except TypeError:
        return False
    except ValueError:
        return True


def constants(problem: Problem) -> Iterator[str]:
    horizon, discount = problem.horizon, problem.discount
    if not isinstance(horizon, int | np.integer) or horizon < 1:
        yield f"problem.horizon is {horizon!r}: it must be an int of at least 1, the steps of the longest episode."
    if not isinstance(discount, float | int | np.number) or not 0 <= discount <= 1:
        yield f"problem.discount is {discount!r}: it must be a number in [0, 1]."
    low, high = np.asarray(problem.action_low, float), np.asarray(problem.action_high, float)
    if low.ndim != 1 or low.shape != high.shape:
        found = f"problem.action_low and action_high have shapes {low.shape} and {high.shape}"
        yield f"{found}: both must be vectors with one number for each component of the action."
    elif not (np.isfinite(low) & np.isfinite(high) & (low < high)).all():
        yield f"problem.action_low is {low} and action_high {high}: they must be finite, and low < high everywhere."


def shapes(observed: Observed) -> Iterator[str]:
    """Told by tracing alone, before anything is run."""
    mdp = observed.mdp
    key = jax.eval_shape(lambda: observed.key)
    latent = traced("problem.prior", mdp.problem.prior, key)
    state = traced("problem.reset", mdp.problem.reset, key, latent)
    belief = traced("filter.init", mdp.filter.init)
    for place, function, arguments, rule in questions(mdp, key, latent, state, belief):
        if function is None:
            continue
        try:
            found = traced(place, function, *arguments)
        except UserError as mistake:
            yield str(mistake)
        else:
            yield from rule(place, found)


def questions(mdp: BeliefMDP, key: Any, latent: Any, state: Any, belief: Any) -> Iterator[tuple]:
    """(place, function, arguments, rule); the function is None where an optional one is absent."""
    problem, filter, expert = mdp.problem, mdp.filter, mdp.expert
    number, spec = partial(one_number, ()), jax.ShapeDtypeStruct
    action, flag, time = spec((mdp.action_size,), jnp.float32), spec((), bool), spec((), jnp.int32)
    latent_like, action_like = (
        partial(like, "problem.prior", latent),
        partial(like, "problem.action_low", action),
    )
    yield "problem.step", problem.step, (key, state, action, latent), partial(a_step, state)
    yield "problem.features", problem.features, (state,), one_vector
    yield (
        "problem.evolve",
        getattr(problem, "evolve", None),
        (key, state, action, state, latent),
        latent_like,
    )
    yield "problem.senses", getattr(problem, "senses", None), (state, action), one_truth
    yield (
        "problem.with_sensing",
        getattr(problem, "with_sensing", None),
        (action, flag),
        action_like,
    )
    yield "problem.succeeded", getattr(problem, "succeeded", None), (state, latent, flag), one_truth
    if isinstance(filter, Categorical | Factored):
        each = partial(one_number, filter.shape[:1]) if isinstance(filter, Factored) else number
        entry = jax.tree.map(lambda leaf: spec(leaf.shape[1:], leaf.dtype), filter.support)
        yield "filter.log_likelihood", filter.log_likelihood, (state, action, state, entry), each
    yield (
        "filter.update",
        filter.update,
        (belief, state, action, state),
        partial(like, "filter.init", belief),
    )
    yield "filter.vector", filter.vector, (belief,), one_vector
    yield "filter.mode", filter.mode, (belief,), latent_like
    yield "filter.sample", filter.sample, (key, belief), latent_like
    yield "advisor", mdp.advisor, (Moment(key, key, time), state, belief), action_like  # type: ignore[arg-type]
    yield "bonus", mdp.bonus and partial(mdp.bonus, filter), (belief, belief, flag), number
    clairvoyant = expert and (lambda state, latent: expert.act(state, expert.plan(latent)))
    yield "expert.act(state, expert.plan(latent))", clairvoyant, (state, latent), action_like


def traced(place: str, function: Callable, *arguments: Any) -> Any:
    """The shapes it returns for one world; it must be fit for many worlds side by side as well."""
    twice = lambda leaf: jax.ShapeDtypeStruct((2, *leaf.shape), leaf.dtype)  # noqa: E731
    many = ""
    try:
        found = jax.eval_shape(function, *arguments)
        many = " under jax.vmap"
        if arguments:
            jax.eval_shape(jax.vmap(function), *jax.tree.map(twice, arguments))
        return found
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError) as error:
        cure = "It must run under jax.jit: use jnp.where or jax.lax.cond for if, and jnp for numpy"
        raise UserError(f"{place} raised {told(error)}{many}. {cure}.") from error
    except Exception as error:
        raise UserError(f"{place} raised {told(error)}{many}.") from error


def like(source: str, expected: Any, place: str, found: Any) -> Iterator[str]:
    """Same structure, shapes and dtypes."""
    wanted: Any = jax.tree.structure(expected)
    given: Any = jax.tree.structure(found)
    if wanted != given:
        yield f"{place} gives {given}, but {source} has {wanted}: return the same structure."
        return
    for (name, want), got in zip(named(place, expected), jax.tree.leaves(found), strict=True):
        if (want.shape, want.dtype) != (got.shape, got.dtype):
            cure = (
                f"cast it with .astype({want.dtype})"
                if want.shape == got.shape
                else "give both the same shape"
            )
            yield f"{name} is {short(got)}, but {source} has {short(want)}: {cure}."


def a_step(state: Any, place: str, found: Any) -> Iterator[str]:
    if not isinstance(found, tuple) or len(found) != 3:
        yield f"{place} returns {short(found)}: it must return Step(state, reward, done)."
        return
    yield from like("problem.reset", state, f"{place}: state", found[0])
    yield from one_number((), f"{place}: reward", found[1])
    yield from one_truth(f"{place}: done", found[2])


def one_number(shape: tuple[int, ...], place: str, found: Any) -> Iterator[str]:
    leaves = jax.tree.leaves(found)
    if [leaf.shape for leaf in leaves] != [shape] or not jnp.issubdtype(
        leaves[0].dtype, jnp.number
    ):
        expected = f"numbers of shape {shape}" if shape else "one number, a scalar of shape ()"
        yield f"{place} is {short(found)}, but must be {expected}: index or sum the other axes away."


def one_truth(place: str, found: Any) -> Iterator[str]:
    if [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(found)] != [((), bool)]:
        yield f"{place} is {short(found)}, but must be bool[]: one truth value, as a comparison gives."


def one_vector(place: str, found: Any) -> Iterator[str]:
    leaves = jax.tree.leaves(found)
    if [leaf.ndim for leaf in leaves] != [1] or not jnp.issubdtype(leaves[0].dtype, jnp.floating):
        yield f"{place} is {short(found)}, but must be one vector of floats: use ravel, concatenate or astype(float)."
