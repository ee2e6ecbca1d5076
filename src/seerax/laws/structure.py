"""Laws of structure: members and shapes, checked before anything is played."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from seerax.core import (
    ABILITIES,
    OPTIONAL_FILTER,
    OPTIONAL_PROBLEM,
    OPTIONAL_STATE,
    Ability,
    BeliefMDP,
    Moment,
    Problem,
    ability,
)
from seerax.errors import UserError
from seerax.filters import Factored
from seerax.laws.arrays import name_leaves
from seerax.laws.observed import Observed, has_support
from seerax.laws.words import describe_error, describe_shape

PROBLEM = {
    "prior": "key",
    "reset": "key, latent",
    "step": "key, state, action, latent",
    "features": "state",
}
FILTER = {
    "init": "",
    "update": "belief, state, action, next_state",
    "vector": "belief",
    "mode": "belief",
    "sample": "key, belief",
}
EXPERT = {"plan": "latent", "act": "state, plan"}


# ---- members -------------------------------------------------------------------------------------


def members(observed: Observed) -> Iterator[str]:
    """Complains about members that are missing or take other arguments."""
    mdp = observed.mdp
    yield from methods("problem", mdp.problem, PROBLEM)
    yield from optional_methods("problem", mdp.problem, OPTIONAL_PROBLEM)
    yield from methods("filter", mdp.filter, FILTER)
    yield from optional_methods("filter", mdp.filter, OPTIONAL_FILTER)
    if mdp.expert is not None:
        yield from methods("expert", mdp.expert, EXPERT)
    if not accepts(mdp.advisor, 3):
        yield "advisor must be a function advisor(moment, state, belief) that returns an action."
    constants = ("horizon", "discount", "action_low", "action_high")
    missing = [name for name in constants if not hasattr(mdp.problem, name)]
    yield from (f"problem.{name} is missing: add it as an attribute." for name in missing)
    if not missing:
        yield from constant_values(mdp.problem)
    try:
        hash(mdp)
    except TypeError as error:
        cure = "use @dataclass(frozen=True, eq=False)"
        yield f"The problem, filter and advisor must be hashable ({error}): {cure}."


def methods(owner: str, thing: Any, required: dict[str, str]) -> Iterator[str]:
    for name, arguments in required.items():
        if hasattr(thing, name):
            yield from one_method(owner, name, getattr(thing, name), arguments)
        else:
            yield f"{owner}.{name} is missing: add a method {name}({arguments})."


def optional_methods(owner: str, thing: Any, table: dict[str, Ability]) -> Iterator[str]:
    """Complains about those that are there and take other arguments than the table of core says."""
    for name, (arguments, _) in table.items():
        member = ability(thing, name)
        if member is not None and arguments is not None:
            yield from one_method(owner, name, member, arguments)


def one_method(owner: str, name: str, method: Any, arguments: str) -> Iterator[str]:
    if not accepts(method, len(arguments.split(", ")) if arguments else 0):
        cure = "give it these arguments, in this order"
        yield f"{owner}.{name} cannot be called as {name}({arguments}): {cure}."


def accepts(function: Any, count: int) -> bool:
    """True if it can be called with so many arguments, or shows no signature."""
    try:
        return callable(function) and inspect.signature(function).bind(*range(count)) is not None
    except TypeError:
        return False
    except ValueError:
        return True


def constant_values(problem: Problem) -> Iterator[str]:
    horizon, discount = problem.horizon, problem.discount
    if not isinstance(horizon, int | np.integer) or horizon < 1:
        wanted = "an int of at least 1, the steps of the longest episode"
        yield f"problem.horizon is {horizon!r}: it must be {wanted}."
    if not isinstance(discount, float | int | np.number) or not 0 <= discount <= 1:
        yield f"problem.discount is {discount!r}: it must be a number in [0, 1]."
    low, high = np.asarray(problem.action_low, float), np.asarray(problem.action_high, float)
    if low.ndim != 1 or low.shape != high.shape:
        found = f"problem.action_low and action_high have shapes {low.shape} and {high.shape}"
        yield f"{found}: both must be vectors with one number for each component of the action."
    elif not (np.isfinite(low) & np.isfinite(high) & (low < high)).all():
        found = f"problem.action_low is {low} and action_high {high}"
        yield f"{found}: they must be finite, and low < high everywhere."


# ---- shapes --------------------------------------------------------------------------------------


def shapes(observed: Observed) -> Iterator[str]:
    """Complains about shapes and dtypes. Only drawing runs, once; all else is traced."""
    sound = True
    for complaint in traced_shapes(observed):
        sound = False
        yield complaint
    if sound:
        yield from pictures(observed)


def traced_shapes(observed: Observed) -> Iterator[str]:
    problem, filter = observed.mdp.problem, observed.mdp.filter
    key = jax.eval_shape(lambda: observed.key)
    latent = traced("problem.prior", problem.prior, key)
    state = traced("problem.reset", problem.reset, key, latent)
    belief = traced("filter.init", filter.init)
    questions = (
        *problem_questions(observed.mdp, key, latent, state),
        *filter_questions(filter, key, latent, state, belief, an_action(observed.mdp)),
        *adviser_questions(observed.mdp, key, latent, state, belief),
    )
    for place, function, arguments, rule in questions:
        if function is None:
            continue
        try:
            found = traced(place, function, *arguments)
        except UserError as mistake:
            yield str(mistake)
        else:
            yield from rule(place, found)


FLAG = jax.ShapeDtypeStruct((), bool)
TIME = jax.ShapeDtypeStruct((), jnp.int32)
Question = tuple[str, Callable | None, tuple, Callable]  # place, function or None, arguments, rule


def an_action(mdp: BeliefMDP) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((mdp.action_size,), jnp.float32)


def problem_questions(mdp: BeliefMDP, key: Any, latent: Any, state: Any) -> Iterator[Question]:
    problem = mdp.problem
    action = an_action(mdp)
    latent_like = partial(like, "problem.prior", latent)
    action_like = partial(like, "problem.action_low", action)
    optional: dict[str, tuple[tuple, Callable]] = {
        "evolve": ((key, state, action, state, latent), latent_like),
        "senses": ((state, action), one_truth),
        "with_sensing": ((action, FLAG), action_like),
        "succeeded": ((state, latent, FLAG), one_truth),
    }
    yield "problem.step", problem.step, (key, state, action, latent), partial(a_step, state)
    yield "problem.features", problem.features, (state,), one_vector
    for name, (arguments, rule) in optional.items():
        yield f"problem.{name}", ability(problem, name), arguments, rule


def filter_questions(
    filter: Any, key: Any, latent: Any, state: Any, belief: Any, action: Any
) -> Iterator[Question]:
    latent_like = partial(like, "problem.prior", latent)
    belief_like = partial(like, "filter.init", belief)
    if has_support(filter):
        shape = filter.shape[:1] if isinstance(filter, Factored) else ()
        spec = jax.ShapeDtypeStruct
        entry = jax.tree.map(lambda leaf: spec(leaf.shape[1:], leaf.dtype), filter.support)
        arguments = (state, action, state, entry)
        each = partial(one_number, shape)
        yield "filter.log_likelihood", filter.log_likelihood, arguments, each
    yield "filter.update", filter.update, (belief, state, action, state), belief_like
    yield "filter.vector", filter.vector, (belief,), one_vector
    yield "filter.mode", filter.mode, (belief,), latent_like
    yield "filter.sample", filter.sample, (key, belief), latent_like
    mean_like = partial(like, "problem.prior", latent, cast=False)
    yield "filter.mean", ability(filter, "mean"), (belief,), mean_like
    yield "filter.entropy", ability(filter, "entropy"), (belief,), partial(one_number, ())
    yield "filter.features", ability(filter, "features"), (belief,), one_vector


def adviser_questions(
    mdp: BeliefMDP, key: Any, latent: Any, state: Any, belief: Any
) -> Iterator[Question]:
    expert = mdp.expert
    action_like = partial(like, "problem.action_low", an_action(mdp))
    moment = Moment(key, key, TIME)  # type: ignore[arg-type]
    clairvoyant: Any = expert and (lambda state, latent: expert.act(state, expert.plan(latent)))
    bonus: Any = mdp.bonus and partial(mdp.bonus, mdp.filter)
    yield "advisor", mdp.advisor, (moment, state, belief), action_like
    yield "bonus", bonus, (belief, belief, FLAG), partial(one_number, ())
    yield "expert.act(state, expert.plan(latent))", clairvoyant, (state, latent), action_like


def traced(place: str, function: Callable, *arguments: Any) -> Any:
    """Returns the shapes of its result for one world. It must also run under jax.vmap."""

    def twice(leaf: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((2, *leaf.shape), leaf.dtype)

    many = ""
    try:
        found = jax.eval_shape(function, *arguments)
        many = " under jax.vmap"
        if arguments:
            jax.eval_shape(jax.vmap(function), *jax.tree.map(twice, arguments))
        return found
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError) as error:
        cure = "It must run under jax.jit: use jnp.where or jax.lax.cond for if, and jnp for numpy"
        raise UserError(f"{place} raised {describe_error(error)}{many}. {cure}.") from error
    except Exception as error:
        raise UserError(f"{place} raised {describe_error(error)}{many}.") from error


def like(source: str, expected: Any, place: str, found: Any, cast: bool = True) -> Iterator[str]:
    """Complains unless structure and shapes are the same, and dtypes unless `cast` is off."""
    wanted: Any = jax.tree.structure(expected)
    given: Any = jax.tree.structure(found)
    if wanted != given:
        yield f"{place} gives {given}, but {source} has {wanted}: return the same structure."
        return
    pairs = zip(name_leaves(place, expected), jax.tree.leaves(found), strict=True)
    for (name, want), got in pairs:
        if want.shape != got.shape:
            cure = "give both the same shape"
        elif cast and want.dtype != got.dtype:
            cure = f"cast it with .astype({want.dtype})"
        else:
            continue
        difference = f"{describe_shape(got)}, but {source} has {describe_shape(want)}"
        yield f"{name} is {difference}: {cure}."


def a_step(state: Any, place: str, found: Any) -> Iterator[str]:
    if not isinstance(found, tuple) or len(found) != 3:
        wanted = "Step(state, reward, terminated)"
        yield f"{place} returns {describe_shape(found)}: it must return {wanted}."
        return
    yield from like("problem.reset", state, f"{place}: state", found[0])
    yield from one_number((), f"{place}: reward", found[1])
    yield from one_truth(f"{place}: terminated", found[2])


def one_number(shape: tuple[int, ...], place: str, found: Any) -> Iterator[str]:
    leaves = jax.tree.leaves(found)
    if [leaf.shape for leaf in leaves] != [shape] or not jnp.issubdtype(
        leaves[0].dtype, jnp.number
    ):
        expected = f"numbers of shape {shape}" if shape else "one number, a scalar of shape ()"
        cure = "index or sum the other axes away"
        yield f"{place} is {describe_shape(found)}, but must be {expected}: {cure}."


def one_truth(place: str, found: Any) -> Iterator[str]:
    if [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(found)] != [((), bool)]:
        wanted = "bool[]: one truth value, as a comparison gives"
        yield f"{place} is {describe_shape(found)}, but must be {wanted}."


def one_vector(place: str, found: Any) -> Iterator[str]:
    leaves = jax.tree.leaves(found)
    if [leaf.ndim for leaf in leaves] != [1] or not jnp.issubdtype(leaves[0].dtype, jnp.floating):
        cure = "use ravel, concatenate or astype(float)"
        yield f"{place} is {describe_shape(found)}, but must be one vector of floats: {cure}."


# ---- pictures ------------------------------------------------------------------------------------


def pictures(observed: Observed) -> Iterator[str]:
    """Draws the start of one episode, outside JAX as figures and films do."""
    problem = observed.mdp.problem
    members = {name: ability(problem, name) for name in ("draw", "place", "draw_place")}
    if not any(members.values()):
        return
    from matplotlib.figure import Figure  # only problems that can be drawn need it

    latent, situation = observed.first_world.latent, observed.first_world.situation
    ax = Figure().subplots()
    drawn: dict[str, tuple] = {
        "draw": (ax, situation, situation.advice, latent),
        "place": (situation.state,),
        "draw_place": (ax,),
    }
    for name, arguments in drawn.items():
        if members[name] is None:
            continue
        try:
            found = members[name](*arguments)
        except Exception as error:
            call = f"problem.{name}({ABILITIES[name].arguments})"
            cure = "It is called outside jax.jit, with numpy arrays"
            yield f"{call} raised {describe_error(error)}. {cure}."
            continue
        if name == "place" and np.shape(found) != (2,):
            yield f"problem.place has shape {np.shape(found)}, but must be (x, y), of shape (2,)."
    if members["draw_place"] is not None:
        yield from map_members(problem, situation.state)


def map_members(problem: Problem, state: Any) -> Iterator[str]:
    """Complains about what a sensing map lacks; a problem with draw_place asks for such maps."""
    half = ability(problem, "half")
    if not isinstance(half, float | int | np.number) or not half > 0:
        meaning = OPTIONAL_PROBLEM["half"].gives
        yield f"problem.half is {half!r}, but problem.draw_place needs it: add a number, {meaning}."
    for name, shape in {"position": (2,), "sensed": ()}.items():
        field = ability(state, name)
        if field is None or np.shape(field) != shape:
            found = "is missing" if field is None else f"has shape {np.shape(field)}"
            meaning = OPTIONAL_STATE[name].gives
            yield (
                f"state.{name} {found}, but problem.draw_place needs it with shape {shape}: "
                f"add it to the state ({meaning}), or leave draw_place out."
            )
