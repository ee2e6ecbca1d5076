"""What every problem must obey, told to its author in words: which rule is broken, where, and what to do about it.

Each law is a generator of complaints. All of them look at the same episodes, which are played once.
"""

from __future__ import annotations

import inspect
import math
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.special import softmax

from seerax.advice import ensemble, flat
from seerax.agents import brpo
from seerax.core import Action, BeliefMDP, Key, Moment, Outcome, Problem, Situation, World
from seerax.errors import Mistake
from seerax.filters import HARDEST_EVIDENCE, Categorical, Factored

EPISODES = 4096  # for the laws that are statistical
BATCH = 256  # worlds played side by side
SPAN = 32  # steps played in one go, so that one compiled program serves short and whole episodes
LONGEST = 1000  # a world is followed for at most so many steps, then ended
ROWS = 1024  # visited situations looked at side by side
TIMES = (1, 3, 10, 30)  # when beliefs are tested: early, for survival itself may tell more than the filter uses
ENOUGH = 1 / 8  # share of the episodes that must still run for a time to count
LIMIT = 4.0  # standard errors that are no longer chance


class Finding(NamedTuple):
    law: str
    ok: bool
    says: str


class Law(NamedTuple):
    name: str
    holds: str  # said when there is no complaint
    complaints: Callable[[Observed], Iterator[str]]
    applies: Callable[[Observed], bool] = lambda observed: True
    gate: bool = False  # once broken, nothing after it can be judged


def check(mdp: BeliefMDP, key: Key | None = None, episodes: int = EPISODES) -> list[Finding]:
    """One finding for each law that applies and can be judged, in order; complaints are one to a line."""
    observed = Observed(mdp, jax.random.key(0) if key is None else key, episodes)
    findings = []
    for law in LAWS:
        complaints = judge(law, observed)
        if complaints is None:
            continue
        findings.append(Finding(law.name, not complaints, "\n".join(complaints) or law.holds))
        if law.gate and complaints:
            break
    return findings


def judge(law: Law, observed: Observed) -> list[str] | None:
    """None if the law does not apply. Whatever the user's code raises is a complaint too."""
    complaints: list[str] = []
    try:
        if not law.applies(observed):
            return None
        for complaint in law.complaints(observed):
            complaints.append(complaint)
    except Mistake as mistake:
        complaints.append(str(mistake))
    except Exception as error:
        complaints.append(f"This could not be judged, for the problem raised {told(error)}.")
    return complaints


def check_object(thing: Any) -> BeliefMDP:
    """A belief MDP as it is, or as a function without arguments builds it."""
    if isinstance(thing, BeliefMDP):
        return thing
    if not accepts(thing, 0):
        raise Mistake(f"Give a BeliefMDP or a function without arguments that returns one, not {kind(thing)}.")
    try:
        made = thing()
    except Exception as error:
        raise Mistake(f"Building the BeliefMDP raised {told(error)}.") from error
    if not isinstance(made, BeliefMDP):
        raise Mistake(f"The function must return a BeliefMDP(problem, filter, advisor), but it returned {kind(made)}.")
    return made


# ---- words -------------------------------------------------------------------------------------------------------


def told(error: Exception) -> str:
    """An exception in one line, with its place in the user's own code if there is one."""
    lines = str(error).strip().splitlines() or [""]
    essence = lines[-1 if "Traceback" in lines[0] else 0][:200].rstrip(".")
    foreign = ("site-packages", str(Path(inspect.__file__).parent), __file__)
    frames = reversed(traceback.extract_tb(error.__traceback__))
    place = next((frame for frame in frames if not any(path in frame.filename for path in foreign)), None)
    where = f" ({Path(place.filename).name}, line {place.lineno})" if place else ""
    return f"{type(error).__name__}: {essence}{where}"


def kind(thing: Any) -> str:
    return f"{type(thing).__name__} '{thing.__name__}'" if hasattr(thing, "__name__") else f"a {type(thing).__name__}"


def short(tree: Any) -> str:
    return " and ".join(f"{leaf.dtype}[{', '.join(map(str, leaf.shape))}]" for leaf in jax.tree.leaves(tree)) or "empty"


def named(root: str, tree: Any) -> list[tuple[str, Any]]:
    """The leaves with their names, such as 'state.position'."""
    return [(root + jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)]


# ---- playing -----------------------------------------------------------------------------------------------------


class Record(NamedTuple):
    """One step: the world before it, what was done, and what came of it. Arrays are [time, episode, ...]."""

    world: World
    action: Action
    outcome: Outcome
    log_likelihood: Array | None  # of every entry of the filter's support: [k], or [k, m] for m factors
    finite: dict[str, Any]  # by place, what was found there with one truth value for each leaf


BEHAVIOURS = ("the ensemble", "the ensemble with exploring noise", "random actions", "a zero residual")
INDEPENDENT, ZERO_RESIDUAL = 3, 3  # the first three have keys of their own, the last one shares the ensemble's


def act(mdp: BeliefMDP, behaviour: Array, key: Key, situation: Situation) -> Action:
    low, high = jnp.asarray(mdp.problem.action_low), jnp.asarray(mdp.problem.action_high)
    dice = jax.random.uniform(key, (mdp.action_size + 1,))
    random = low + (high - low) * dice[1:]
    advice, residual = ensemble(key, situation), brpo.compose(situation, jnp.zeros(mdp.action_size))
    return mdp.clip(jnp.stack([advice, jnp.where(dice[0] < 0.3, random, advice), random, residual])[behaviour])


@eqx.filter_jit
def starts(mdp: BeliefMDP, keys: Key) -> World:
    return jax.vmap(mdp.reset)(keys)


@eqx.filter_jit
def stretch(mdp: BeliefMDP, behaviour: Array, keys: Key, worlds: World) -> tuple[World, Record]:
    """Keys are [time, world, 2]."""

    def one(keys: Key, world: World) -> tuple[World, Record]:
        action = act(mdp, behaviour, keys[0], world.situation)
        following, outcome = mdp.step(keys[1], world, action)
        likelihoods = log_likelihoods(mdp.filter, world.situation.state, action, following.situation.state)
        seen = world._replace(episode=jnp.bool_(False))
        return following, Record(seen, action, outcome, likelihoods, finiteness(mdp, world, outcome))

    return jax.lax.scan(lambda worlds, keys: jax.vmap(one)(keys, worlds), worlds, keys)


def log_likelihoods(filter: Any, state: Any, action: Action, next_state: Any) -> Array | None:
    if not isinstance(filter, Categorical | Factored):
        return None
    return jax.vmap(filter.log_likelihood, (None, None, None, 0))(state, action, next_state, filter.support)


def finiteness(mdp: BeliefMDP, world: World, outcome: Outcome) -> dict[str, Any]:
    state, belief, advice = world.situation
    places = {
        "problem: state": state,
        "problem.features": mdp.problem.features(state),
        "problem.step: reward": outcome.reward,
        "bonus": outcome.bonus,
        "filter: belief": belief,
        "filter.vector": mdp.filter.vector(belief),
        "advisor": advice,
    }
    return jax.tree.map(lambda leaf: is_key(leaf) or jnp.isfinite(leaf).all(), places)


@dataclass(frozen=True, eq=False)
class Observed:
    """What was seen of a belief MDP: played when first asked for, then shared by all laws."""

    mdp: BeliefMDP
    key: Key
    episodes: int

    def play(self, key: Key, behaviour: int, spans: int) -> Record:
        """If there are several spans, all worlds are ended before the last one, so that each has a fresh start."""
        worlds, records = starts(self.mdp, jax.random.split(key, BATCH)), []
        for span in range(spans):
            if 0 < span == spans - 1:
                worlds = worlds._replace(over=jnp.ones_like(worlds.over))
            keys = jax.random.split(jax.random.fold_in(key, span), (SPAN, BATCH, 2))
            worlds, record = stretch(self.mdp, jnp.int32(behaviour), keys, worlds)
            records.append(record)
        return joined(records, 0)

    @cached_property
    def spans(self) -> int:
        return math.ceil(min(self.mdp.problem.horizon, LONGEST) / SPAN) + 1

    @cached_property
    def lives(self) -> Record:
        """A batch of worlds for each independent behaviour, through at least one end and fresh start."""
        key = partial(jax.random.fold_in, self.key)
        return joined([self.play(key(index), index, self.spans) for index in range(INDEPENDENT)], 1)

    @cached_property
    def visited(self) -> tuple[np.ndarray, np.ndarray]:
        """(time, episode) of every running world in `lives`, shuffled."""
        time, episode = np.nonzero(~self.lives.world.over)
        order = np.random.default_rng(0).permutation(time.size)
        return time[order], episode[order]

    def rows(self, start: int = 0) -> Record:
        """Running worlds from anywhere in `lives`, with what was done there."""
        index = np.arange(start, start + ROWS) % self.visited[0].size
        return taken(self.lives, (self.visited[0][index], self.visited[1][index]))

    @cached_property
    def row_keys(self) -> Key:
        return jax.random.split(self.key, ROWS)

    @cached_property
    def early(self) -> World:
        """Many worlds at the TIMES: [times, episodes, ...]."""
        batches = range(math.ceil(self.episodes / BATCH))
        key = partial(jax.random.fold_in, jax.random.fold_in(self.key, INDEPENDENT))
        records = [self.play(key(batch), batch % INDEPENDENT, 1) for batch in batches]
        return joined([taken(record.world, np.array(TIMES)) for record in records], 1)

    @cached_property
    def still_running(self) -> dict[int, np.ndarray]:
        """Which episodes have not ended, at those of the TIMES when they are enough."""
        running = (self.early.time == np.array(TIMES)[:, None]) & ~self.early.over
        return {index: np.flatnonzero(row) for index, row in enumerate(running) if row.mean() >= ENOUGH}

    @cached_property
    def drawn(self) -> tuple[np.ndarray, np.ndarray]:
        """Many latents from the prior and from the filter's first belief: [many, coordinates]."""
        prior, believed = draw(self.mdp, jax.random.split(self.key, 4 * self.episodes))
        return columns(prior), columns(believed)

    @cached_property
    def coordinates(self) -> list[str]:
        """A name for every number of the flattened latent, such as 'latent[1]'."""
        leaves = named("latent", jax.eval_shape(self.mdp.problem.prior, self.key))
        return [f"{name}{list(index) or ''}" for name, leaf in leaves for index in np.ndindex(*leaf.shape)]

    @cached_property
    def unknown(self) -> list[tuple[int, str]]:
        """The coordinates that differ between draws of the prior."""
        return [(i, name) for i, name in enumerate(self.coordinates) if np.ptp(self.drawn[0][:, i]) > 0]


@eqx.filter_jit
def draw(mdp: BeliefMDP, keys: Key) -> tuple[Any, Any]:
    return jax.vmap(mdp.problem.prior)(keys), jax.vmap(mdp.filter.sample, (0, None))(keys, mdp.filter.init())


def is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def numbers(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf)


def joined(trees: list, axis: int) -> Any:
    """In numpy, but for random keys, which it does not know."""
    return jax.tree.map(lambda *parts: (jnp if is_key(parts[0]) else np).concatenate(parts, axis), *trees)


def taken(tree: Any, index: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def columns(latents: Any) -> np.ndarray:
    """Latents as a matrix [many, coordinates]."""
    return np.concatenate([np.reshape(leaf, (len(leaf), -1)).astype(float) for leaf in jax.tree.leaves(latents)], 1)


def with_column(latents: Any, index: int, values: np.ndarray) -> Any:
    """The same latents with other values for one coordinate."""
    matrix = columns(latents)
    matrix[:, index] = values
    leaves, structure = jax.tree.flatten(latents)
    ends = np.cumsum([leaf[0].size for leaf in leaves])[:-1]
    pairs = zip(np.split(matrix, ends, 1), leaves, strict=True)
    return jax.tree.unflatten(structure, [part.reshape(leaf.shape).astype(leaf.dtype) for part, leaf in pairs])


def z_score(differences: np.ndarray) -> np.ndarray:
    """Of their mean against zero, along the first axis; 0 where all are zero."""
    error = differences.std(0, ddof=1) / math.sqrt(len(differences))
    return differences.mean(0) / np.maximum(error, 1e-9)


# ---- laws of structure -------------------------------------------------------------------------------------------

PROBLEM = {"prior": "key", "reset": "key, latent", "step": "key, state, action, latent", "features": "state"}
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
FILTER_MAY = {"mean": "belief", "entropy": "belief", "log_likelihood": "state, action, next_state, latent"}
EXPERT = {"plan": "latent", "act": "state, plan"}


def members(observed: Observed) -> Iterator[str]:
    mdp = observed.mdp
    yield from methods("problem", mdp.problem, PROBLEM, PROBLEM_MAY)
    yield from methods("filter", mdp.filter, FILTER, FILTER_MAY)
    if mdp.expert is not None:
        yield from methods("expert", mdp.expert, EXPERT, {})
    if not accepts(mdp.advisor, 3):
        yield "advisor must be a function advisor(moment, state, belief) that returns an action."
    missing = [name for name in ("horizon", "discount", "action_low", "action_high") if not hasattr(mdp.problem, name)]
    yield from (f"problem.{name} is missing: add it as an attribute." for name in missing)
    if not missing:
        yield from constants(mdp.problem)
    try:
        hash(mdp)
    except TypeError as error:
        yield f"The problem, filter and advisor must be hashable ({error}): use @dataclass(frozen=True, eq=False)."


def methods(owner: str, thing: Any, required: dict[str, str], optional: dict[str, str]) -> Iterator[str]:
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
        except Mistake as mistake:
            yield str(mistake)
        else:
            yield from rule(place, found)


def questions(mdp: BeliefMDP, key: Any, latent: Any, state: Any, belief: Any) -> Iterator[tuple]:
    """(place, function, arguments, rule); the function is None where an optional one is absent."""
    problem, filter, expert = mdp.problem, mdp.filter, mdp.expert
    number, spec = partial(one_number, ()), jax.ShapeDtypeStruct
    action, flag, time = spec((mdp.action_size,), jnp.float32), spec((), bool), spec((), jnp.int32)
    latent_like, action_like = partial(like, "problem.prior", latent), partial(like, "problem.action_low", action)
    yield "problem.step", problem.step, (key, state, action, latent), partial(a_step, state)
    yield "problem.features", problem.features, (state,), one_vector
    yield "problem.evolve", getattr(problem, "evolve", None), (key, state, action, state, latent), latent_like
    yield "problem.senses", getattr(problem, "senses", None), (state, action), one_truth
    yield "problem.with_sensing", getattr(problem, "with_sensing", None), (action, flag), action_like
    yield "problem.succeeded", getattr(problem, "succeeded", None), (state, latent, flag), one_truth
    if isinstance(filter, Categorical | Factored):
        each = partial(one_number, filter.shape[:1]) if isinstance(filter, Factored) else number
        entry = jax.tree.map(lambda leaf: spec(leaf.shape[1:], leaf.dtype), filter.support)
        yield "filter.log_likelihood", filter.log_likelihood, (state, action, state, entry), each
    yield "filter.update", filter.update, (belief, state, action, state), partial(like, "filter.init", belief)
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
        raise Mistake(f"{place} raised {told(error)}{many}. {cure}.") from error
    except Exception as error:
        raise Mistake(f"{place} raised {told(error)}{many}.") from error


def like(source: str, expected: Any, place: str, found: Any) -> Iterator[str]:
    """Same structure, shapes and dtypes."""
    wanted: Any = jax.tree.structure(expected)
    given: Any = jax.tree.structure(found)
    if wanted != given:
        yield f"{place} gives {given}, but {source} has {wanted}: return the same structure."
        return
    for (name, want), got in zip(named(place, expected), jax.tree.leaves(found), strict=True):
        if (want.shape, want.dtype) != (got.shape, got.dtype):
            cure = f"cast it with .astype({want.dtype})" if want.shape == got.shape else "give both the same shape"
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
    if [leaf.shape for leaf in leaves] != [shape] or not jnp.issubdtype(leaves[0].dtype, jnp.number):
        expected = f"numbers of shape {shape}" if shape else "one number, a scalar of shape ()"
        yield f"{place} is {short(found)}, but must be {expected}: index or sum the other axes away."


def one_truth(place: str, found: Any) -> Iterator[str]:
    if [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(found)] != [((), bool)]:
        yield f"{place} is {short(found)}, but must be bool[]: one truth value, as a comparison gives."


def one_vector(place: str, found: Any) -> Iterator[str]:
    leaves = jax.tree.leaves(found)
    if [leaf.ndim for leaf in leaves] != [1] or not jnp.issubdtype(leaves[0].dtype, jnp.floating):
        yield f"{place} is {short(found)}, but must be one vector of floats: use ravel, concatenate or astype(float)."


# ---- laws of episodes --------------------------------------------------------------------------------------------


def when(observed: Observed, bad: np.ndarray) -> str:
    """In words, the earliest of the marked [time, episode]."""
    time = np.where(bad, observed.lives.world.time[:, : bad.shape[1]], np.iinfo(np.int32).max)
    _, episode = np.unravel_index(time.argmin(), time.shape)
    return f"first at time {time.min()} under {BEHAVIOURS[episode // BATCH]}"


def finite(observed: Observed) -> Iterator[str]:
    lives = observed.lives
    for place, tree in lives.finite.items():
        for name, sound in named(place, tree):
            if not sound.all():
                yield f"{name} is NaN or infinite, {when(observed, ~sound)}: look for 0/0, log(0) or an overflow."
    if lives.log_likelihood is None:
        return
    likelihoods = np.reshape(lives.log_likelihood, (*lives.log_likelihood.shape[:3], -1))
    unsound = (np.isnan(likelihoods) | np.isposinf(likelihoods)).any(-1) & ~lives.world.over[..., None]
    for entry in np.flatnonzero(unsound.any((0, 1))):
        found = f"filter.log_likelihood is NaN or +inf for entry {entry} of filter.support"
        cure = "The filter takes it for impossible; guard the divisions and logarithms (-inf is allowed)"
        yield f"{found}, {when(observed, unsound[..., entry])}. {cure}."


def bounds(observed: Observed) -> Iterator[str]:
    mdp, world = observed.mdp, observed.rows().world
    advice = np.asarray(advised(mdp, observed.row_keys, world.time, world.situation.state, world.situation.belief))
    low, high = np.asarray(mdp.problem.action_low, float), np.asarray(mdp.problem.action_high, float)
    beyond = np.maximum(low - advice, advice - high) / (high - low)
    for component in np.flatnonzero(beyond.max(0) > 1e-4):
        worst = advice[beyond[:, component].argmax(), component]
        box = f"[{low[component]:.4g}, {high[component]:.4g}]"
        yield f"advisor gives component {component} of the action as {worst:.4g}, outside {box}: clip or scale it."


@eqx.filter_jit
def advised(mdp: BeliefMDP, keys: Key, time: Array, state: Any, belief: Any) -> Action:
    """What the advisor says before it is clipped."""
    return jax.vmap(mdp.advisor)(Moment(keys, keys, time), state, belief)


def zero_residual(observed: Observed) -> Iterator[str]:
    """The same compiled program plays both, so that rounding is no excuse."""
    residual = observed.play(jax.random.fold_in(observed.key, 0), ZERO_RESIDUAL, observed.spans)
    expected = taken(observed.lives, np.s_[:, :BATCH])
    differing = []
    for (name, one), other in zip(named("", residual), jax.tree.leaves(expected), strict=True):
        differs = (numbers(one) != numbers(other)).reshape(*other.shape[:2], -1).any(-1)
        if differs.any():
            differing.append((differs.any(1).argmax(), name[1:], when(observed, differs)))
    if differing:
        _, name, earliest = min(differing)
        found = f"With a residual of zero, {name} differs from the ensemble's on the same keys, {earliest}"
        yield f"{found}: steps and advice must depend on their arguments alone (no numpy.random, no global state)."


def dead_step(observed: Observed) -> Iterator[str]:
    world, outcome = observed.lives.world, observed.lives.outcome
    over = world.over[:-1]
    for name, earned in named("", outcome):
        if earned[:-1][over].any():
            yield f"BeliefMDP.step gives {name[1:]} = {earned[:-1][over].max()} on the step after the end, not 0."
    for name, values in (("time", world.time), ("score", world.score)):
        if values[1:][over].any():
            yield f"BeliefMDP.step goes on with {name} = {values[1:][over].max()} after the end: it must start at 0."
    beliefs = zip(named("belief", observed.mdp.filter.init()), jax.tree.leaves(world.situation.belief), strict=True)
    for (name, first), values in beliefs:
        if not np.allclose(values[1:][over], first, atol=1e-5):
            yield f"BeliefMDP.step goes on with an old {name} after the end: it must start at filter.init()."


# ---- laws of latents ---------------------------------------------------------------------------------------------


def fresh_latent(observed: Observed) -> Iterator[str]:
    latent, over = observed.lives.world.latent, observed.lives.world.over
    end, episode = over.argmax(0), np.arange(over.shape[1])
    first, last, after = (columns(taken(latent, (time, episode))) for time in (0 * end, end, end + 1))
    if not observed.unknown:
        yield "problem.prior gives the same latent every time: draw it with its key."
    elif np.ptp(first, axis=0).max() == 0:
        yield "BeliefMDP.reset gives the same latent every time: it must draw from problem.prior with its key."
    elif np.ptp(after, axis=0).max() == 0:
        yield "BeliefMDP.step starts every episode with the same latent: it must draw from problem.prior with its key."
    for index, name in observed.unknown:
        if kept(first[:, index], after[:, index]) or kept(last[:, index], after[:, index]):
            yield f"BeliefMDP.step keeps {name} when an episode is over: it must be drawn anew from problem.prior."


def kept(before: np.ndarray, after: np.ndarray) -> bool:
    """Are they the same more often than by chance, that is, than those of other worlds?"""
    chance = np.mean([before == np.roll(after, shift) for shift in range(1, 33)])
    error = math.sqrt(max(chance * (1 - chance), 1 / before.size) / before.size)
    return bool((before == after).mean() - chance > LIMIT * error)


def latent_matters(observed: Observed) -> Iterator[str]:
    tries = observed.visited[0].size
    for index, name in observed.unknown:
        if not any(matters(observed, index, start) for start in range(0, tries, ROWS)):
            found = f"{name} never matters: with another value from problem.prior, no state, reward or done changed"
            yield f"{found} in {tries} tries. Use it in problem.step or problem.reset, or leave it out."


def matters(observed: Observed, index: int, start: int) -> bool:
    """Does another value of this coordinate change what happens in some of these worlds?"""
    seen, prior = observed.rows(start), observed.drawn[0]
    other = prior[np.arange(start, start + ROWS) % len(prior), index]
    follow = partial(consequences, observed.mdp.problem, observed.row_keys, seen.world.situation.state, seen.action)
    one, another = follow(seen.world.latent), follow(with_column(seen.world.latent, index, other))
    pairs = zip(jax.tree.leaves(one[:2]), jax.tree.leaves(another[:2]), strict=True)
    changed = [(numbers(a) != numbers(b)).any() for a, b in pairs]
    if one[2] is not None:
        changed.append(np.delete(columns(one[2]) != columns(another[2]), index, 1).any())
    return any(changed)


@eqx.filter_jit
def consequences(problem: Any, keys: Key, state: Any, action: Action, latent: Any) -> tuple[Any, Any, Any]:
    """(state after a reset, step, next latent if it can move); a row has the same key in every call."""
    evolve = getattr(problem, "evolve", None)

    def one(key: Key, state: Any, action: Action, latent: Any) -> tuple[Any, Any, Any]:
        step = problem.step(key, state, action, latent)
        return problem.reset(key, latent), step, evolve and evolve(key, state, action, step[0], latent)

    return jax.vmap(one)(keys, state, action, latent)


# ---- laws of beliefs ---------------------------------------------------------------------------------------------


def support(observed: Observed) -> np.ndarray | None:
    """[k, coordinates], for a filter over a finite support."""
    filter = observed.mdp.filter
    return columns(filter.support) if isinstance(filter, Categorical) else None


def nearest(entries: np.ndarray, latents: np.ndarray) -> np.ndarray:
    return np.stack([np.square(latents - entry).sum(1) for entry in entries]).argmin(0)


def starts_at_prior(observed: Observed) -> Iterator[str]:
    """By the mean of each coordinate and, for a finite support, how often each entry is the nearest."""
    (prior, believed), entries = observed.drawn, support(observed)
    names = [f"the mean of {name}" for name in observed.coordinates]
    if entries is not None:
        names += [f"the share of entry {index} of filter.support" for index in range(len(entries))]
        with_entry = np.hstack([entries, np.eye(len(entries))])
        prior, believed = with_entry[nearest(entries, prior)], with_entry[nearest(entries, believed)]
    z = z_score(prior - believed)
    worst = np.abs(z).argmax()
    if abs(z[worst]) > LIMIT:
        wanted, found = prior[:, worst].mean(), believed[:, worst].mean()
        means = f"{names[worst]} is {found:.4g} in filter.sample(key, filter.init()), but {wanted:.4g} in problem.prior"
        yield f"filter.init is not the prior: {means} (z = {z[worst]:.1f}). Start it from what problem.prior draws."


def calibration(observed: Observed) -> Iterator[str]:
    """Given the history, the truth and a posterior sample are exchangeable, so they lie equally far from the mode.

    A support that does not hold the true latents, such as a coarse grid, may be under-confident.
    """
    world, entries = observed.early, support(observed)
    keys = jax.random.split(observed.key, world.over.shape)
    sample, mode = map(np.asarray, guesses(observed.mdp.filter, keys, world.situation.belief))
    scores = []
    for index, running in observed.still_running.items():
        truth = columns(taken(world.latent, (index, running)))
        listed = truth if entries is None else entries[nearest(entries, truth)]
        z = overconfidence(listed, sample[index, running], mode[index, running])
        scores.append((z if np.allclose(listed, truth) else max(z, 0.0), TIMES[index], running.size))
    z, time, count = max(scores, key=lambda score: abs(score[0]))
    if abs(z) > LIMIT:
        word, where = ("over-confident", "farther from") if z > 0 else ("under-confident", "closer to")
        found = f"filter is {word} at time {time} (z = {z:.1f} over {count} episodes): the true latent lies {where}"
        yield f"{found} filter.mode than filter.sample does. Compare the noise in filter.update and in problem.step."


@eqx.filter_jit
def guesses(filter: Any, keys: Key, beliefs: Any) -> tuple[Array, Array]:
    """(sample, mode) of every belief [times, episodes, ...], flattened."""
    one = lambda key, belief: (flat(filter.sample(key, belief)), flat(filter.mode(belief)))  # noqa: E731
    return jax.vmap(jax.vmap(one))(keys, beliefs)


def overconfidence(truth: np.ndarray, sample: np.ndarray, mode: np.ndarray) -> float:
    """The larger z-score of two statistics: squared distance to the mode, and not being the mode.

    The mean of squares is right even for a Gaussian belief that matches only two moments of the truth.
    """
    scale = np.where(truth.std(0) > 0, truth.std(0), 1.0)
    apart = lambda guess: [np.square((guess - mode) / scale).mean(1), (guess != mode).any(1).astype(float)]  # noqa: E731
    z = z_score(np.transpose(apart(truth)) - np.transpose(apart(sample)))
    return float(z[np.abs(z).argmax()])


def has_experts(observed: Observed) -> bool:
    return isinstance(observed.mdp.filter, Categorical) and observed.mdp.expert is not None


def collapsed_belief(observed: Observed) -> Iterator[str]:
    """But for sensing, which decorators of the advisor set."""
    mdp, world = observed.mdp, observed.rows().world
    filter: Any = mdp.filter
    entry = np.arange(ROWS) % filter.size
    belief = np.where(np.eye(filter.size)[entry] > 0, 0.0, -HARDEST_EVIDENCE).astype(np.float32)
    advice = advised(mdp, observed.row_keys, world.time, world.situation.state, belief)
    latent = taken(jax.tree.map(np.asarray, filter.support), entry)
    found, expected = map(np.asarray, without_sensing(mdp, advice, world.situation.state, latent))
    apart = (np.abs(found - expected) / np.subtract(mdp.problem.action_high, mdp.problem.action_low)).max(1)
    worst = apart.argmax()
    if apart[worst] > 1e-3:
        yield (
            f"advisor, sure of entry {entry[worst]} of filter.support, gives {found[worst]}, but its expert gives "
            f"{expected[worst]}: let it ask mdp.expert, with plans in the order of the support."
        )


@eqx.filter_jit
def without_sensing(mdp: BeliefMDP, advice: Array, state: Any, latent: Any) -> tuple[Array, Array]:
    """(this advice, what the expert for this latent says)"""
    switch = getattr(mdp.problem, "with_sensing", lambda action, on: action)

    def one(advice: Action, state: Any, latent: Any) -> tuple[Action, Action]:
        says = mdp.expert.act(state, mdp.expert.plan(latent))  # type: ignore[union-attr]
        return mdp.clip(switch(advice, jnp.bool_(False))), mdp.clip(switch(says, jnp.bool_(False)))

    return jax.vmap(one)(advice, state, latent)


def latent_stays(observed: Observed) -> bool:
    return isinstance(observed.mdp.filter, Categorical) and observed.mdp.filter.log_transition is None


def brute_force(observed: Observed) -> Iterator[str]:
    """The product of all likelihoods of an episode, normalised once, in double precision."""
    filter: Any = observed.mdp.filter
    lives = taken(observed.lives, np.s_[:, ::8])
    ended = np.logical_or.accumulate(lives.world.over)[:-1, :, None]
    evidence = np.where(ended, 0.0, relative(lives.log_likelihood[:-1]))
    prior = relative(np.zeros(filter.size) if filter.log_prior is None else filter.log_prior)
    expected = softmax(prior + np.cumsum(evidence, 0), axis=-1)
    found = np.exp(lives.world.situation.belief[1:])
    apart = np.where(ended, 0.0, np.abs(found - expected))
    worst = np.unravel_index(apart.argmax(), apart.shape)
    if apart[worst] > 1e-4:
        yield (
            f"filter.update is not Bayes' rule: at time {worst[0] + 1} it gives entry {worst[2]} of filter.support "
            f"{found[worst]:.5f}, but the product of the likelihoods gives {expected[worst]:.5f}. "
            "Add filter.log_likelihood to the log-weights and normalise with log_softmax."
        )


def relative(log_likelihood: Any) -> np.ndarray:
    """To the best, with the floor that filters give to hard evidence."""
    values = np.maximum(np.asarray(log_likelihood, float), -1e30)
    return np.maximum(values - values.max(-1, keepdims=True), -HARDEST_EVIDENCE)


# ---- all of them -------------------------------------------------------------------------------------------------

LAWS = (
    Law("members", "Problem, filter, advisor and expert have all that is needed.", members, gate=True),
    Law("shapes", "Everything traces, and shapes and dtypes agree.", shapes, gate=True),
    Law("finite", "States, rewards, beliefs, likelihoods and advice are finite.", finite, gate=True),
    Law("bounds", "Advice lies within the action bounds.", bounds),
    Law("fresh latent", "Every episode has a latent of its own.", fresh_latent),
    Law("latent matters", "Each coordinate of the latent changes what happens.", latent_matters),
    Law("prior", "The belief starts at the prior.", starts_at_prior),
    Law("calibration", "Beliefs are as sure as they are right.", calibration, lambda seen: bool(seen.still_running)),
    Law("zero residual", "A residual of zero is exactly the ensemble.", zero_residual),
    Law("collapsed belief", "Sure of a latent, the advisor says what its expert says.", collapsed_belief, has_experts),
    Law("brute force", "The filter is Bayes' rule.", brute_force, latent_stays),
    Law("dead step", "The step after the end earns nothing and starts a fresh episode.", dead_step),
)
