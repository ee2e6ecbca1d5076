"""Episodes as the laws look at them: played once, in batches, for all laws together."""

from __future__ import annotations

import inspect
import math
import traceback
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seerax import agents
from seerax.advice import follow_advice
from seerax.core import Action, BeliefMDP, Key, Outcome, Situation, World
from seerax.filters import Categorical, Factored

EPISODES = 4096  # for the laws that are statistical
BATCH = 256  # worlds played side by side
SPAN = 32  # steps played in one go, so that one compiled program serves short and whole episodes
LONGEST = 1000  # a world is followed for at most so many steps, then ended
ROWS = 1024  # visited situations looked at side by side
TIMES = (
    1,
    3,
    10,
    30,
)  # when beliefs are tested: early, for survival itself may tell more than the filter uses
ENOUGH = 1 / 8  # share of the episodes that must still run for a time to count
COARSE = (
    1 / 8
)  # how much more often than it says the mode of a belief on a coarse grid may be wrong
LIMIT = 4.0  # standard errors that are no longer chance


def told(error: Exception) -> str:
    """An exception in one line, with its place in the user's own code if there is one."""
    lines = str(error).strip().splitlines() or [""]
    essence = lines[-1 if "Traceback" in lines[0] else 0][:200].rstrip(".")
    foreign = ("site-packages", str(Path(inspect.__file__).parent), str(Path(__file__).parent))
    frames = reversed(traceback.extract_tb(error.__traceback__))
    place = next(
        (frame for frame in frames if not any(path in frame.filename for path in foreign)), None
    )
    where = f" ({Path(place.filename).name}, line {place.lineno})" if place else ""
    return f"{type(error).__name__}: {essence}{where}"


def kind(thing: Any) -> str:
    return (
        f"{type(thing).__name__} '{thing.__name__}'"
        if hasattr(thing, "__name__")
        else f"a {type(thing).__name__}"
    )


def short(tree: Any) -> str:
    return (
        " and ".join(
            f"{leaf.dtype}[{', '.join(map(str, leaf.shape))}]" for leaf in jax.tree.leaves(tree)
        )
        or "empty"
    )


def named(root: str, tree: Any) -> list[tuple[str, Any]]:
    """The leaves with their names, such as 'state.position'."""
    return [
        (root + jax.tree_util.keystr(path), leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    ]


class Record(NamedTuple):
    """One step: the world before it, what was done, and what came of it. Arrays are [time, episode, ...]."""

    world: World
    action: Action
    outcome: Outcome
    log_likelihood: (
        Array | None
    )  # of every entry of the filter's support: [k], or [k, m] for m factors
    finite: dict[str, Any]  # by place, what was found there with one truth value for each leaf


BEHAVIOURS = (
    "the ensemble",
    "the ensemble with exploring noise",
    "random actions",
    "a zero residual",
)
INDEPENDENT, ZERO_RESIDUAL = (
    3,
    3,
)  # the first three have keys of their own, the last one shares the ensemble's


def act(mdp: BeliefMDP, behaviour: Array, key: Key, situation: Situation) -> Action:
    low, high = jnp.asarray(mdp.problem.action_low), jnp.asarray(mdp.problem.action_high)
    dice = jax.random.uniform(key, (mdp.action_size + 1,))
    random = low + (high - low) * dice[1:]
    advice, residual = (
        follow_advice(key, situation),
        agents.brpo.compose(situation, jnp.zeros(mdp.action_size)),
    )
    return mdp.clip(
        jnp.stack([advice, jnp.where(dice[0] < 0.3, random, advice), random, residual])[behaviour]
    )


@eqx.filter_jit
def starts(mdp: BeliefMDP, keys: Key) -> World:
    return jax.vmap(mdp.reset)(keys)


@eqx.filter_jit
def play_span(mdp: BeliefMDP, behaviour: Array, keys: Key, worlds: World) -> tuple[World, Record]:
    """Keys are [time, world, 2]."""

    def one(keys: Key, world: World) -> tuple[World, Record]:
        action = act(mdp, behaviour, keys[0], world.situation)
        following, outcome = mdp.step(keys[1], world, action)
        likelihoods = log_likelihoods(
            mdp.filter, world.situation.state, action, following.situation.state
        )
        seen = world._replace(episode=jnp.bool_(False))
        return following, Record(
            seen, action, outcome, likelihoods, finiteness(mdp, world, outcome)
        )

    return jax.lax.scan(lambda worlds, keys: jax.vmap(one)(keys, worlds), worlds, keys)


def log_likelihoods(filter: Any, state: Any, action: Action, next_state: Any) -> Array | None:
    if not isinstance(filter, Categorical | Factored):
        return None
    return jax.vmap(filter.log_likelihood, (None, None, None, 0))(
        state, action, next_state, filter.support
    )


def finiteness(mdp: BeliefMDP, world: World, outcome: Outcome) -> dict[str, Any]:
    state, belief, advice = world.situation
    places = {
        "problem: state": state,
        "problem.features": mdp.problem.features(state),
        "problem.step: reward": outcome.reward,
        "bonus": outcome.bonus,
        "filter: belief": belief,
        "filter.vector": mdp.filter.vector(belief),
        "filter: what a network sees": agents.belief(mdp, world.situation),
        "advisor": advice,
    }
    return jax.tree.map(lambda leaf: is_key(leaf) or jnp.isfinite(leaf).all(), places)


@dataclass(frozen=True, eq=False)
class Observed:
    """What was seen of a belief MDP: played when first asked for, then shared by all laws."""

    mdp: BeliefMDP
    key: Key
    count: int

    def play(self, key: Key, behaviour: int, spans: int) -> Record:
        """If there are several spans, all worlds are ended before the last one, so that each has a fresh start."""
        worlds, records = starts(self.mdp, jax.random.split(key, BATCH)), []
        for span in range(spans):
            if 0 < span == spans - 1:
                worlds = worlds._replace(over=jnp.ones_like(worlds.over))
            keys = jax.random.split(jax.random.fold_in(key, span), (SPAN, BATCH, 2))
            worlds, record = play_span(self.mdp, jnp.int32(behaviour), keys, worlds)
            records.append(record)
        return joined(records, 0)

    @cached_property
    def spans(self) -> int:
        return math.ceil(min(self.mdp.problem.horizon, LONGEST) / SPAN) + 1

    @cached_property
    def episodes(self) -> Record:
        """A batch of worlds for each independent behaviour, through at least one end and fresh start."""
        key = partial(jax.random.fold_in, self.key)
        return joined([self.play(key(index), index, self.spans) for index in range(INDEPENDENT)], 1)

    @cached_property
    def visited(self) -> tuple[np.ndarray, np.ndarray]:
        """(time, episode) of every running world in `lives`, shuffled."""
        time, episode = np.nonzero(~self.episodes.world.over)
        order = np.random.default_rng(0).permutation(time.size)
        return time[order], episode[order]

    def rows(self, start: int = 0) -> Record:
        """Running worlds from anywhere in `lives`, with what was done there."""
        index = np.arange(start, start + ROWS) % self.visited[0].size
        return taken(self.episodes, (self.visited[0][index], self.visited[1][index]))

    @cached_property
    def row_keys(self) -> Key:
        return jax.random.split(self.key, ROWS)

    @cached_property
    def early_worlds(self) -> World:
        """Many worlds at the TIMES: [times, episodes, ...]."""
        batches = range(math.ceil(self.count / BATCH))
        key = partial(jax.random.fold_in, jax.random.fold_in(self.key, INDEPENDENT))
        records = [self.play(key(batch), batch % INDEPENDENT, 1) for batch in batches]
        return joined([taken(record.world, np.array(TIMES)) for record in records], 1)

    @cached_property
    def still_running(self) -> dict[int, np.ndarray]:
        """Which episodes have not ended, at those of the TIMES when they are enough."""
        running = (self.early_worlds.time == np.array(TIMES)[:, None]) & ~self.early_worlds.over
        return {
            index: np.flatnonzero(row) for index, row in enumerate(running) if row.mean() >= ENOUGH
        }

    @cached_property
    def drawn(self) -> tuple[np.ndarray, np.ndarray]:
        """Many latents from the prior and from the filter's first belief: [many, coordinates]."""
        prior, believed = draw(self.mdp, jax.random.split(self.key, 4 * self.count))
        return columns(prior), columns(believed)

    @cached_property
    def coordinates(self) -> list[str]:
        """A name for every number of the flattened latent, such as 'latent[1]'."""
        leaves = named("latent", jax.eval_shape(self.mdp.problem.prior, self.key))
        return [
            f"{name}{list(index) or ''}"
            for name, leaf in leaves
            for index in np.ndindex(*leaf.shape)
        ]

    @cached_property
    def unknown(self) -> list[tuple[int, str]]:
        """The coordinates that differ between draws of the prior."""
        return [
            (i, name) for i, name in enumerate(self.coordinates) if np.ptp(self.drawn[0][:, i]) > 0
        ]


@eqx.filter_jit
def draw(mdp: BeliefMDP, keys: Key) -> tuple[Any, Any]:
    return jax.vmap(mdp.problem.prior)(keys), jax.vmap(mdp.filter.sample, (0, None))(
        keys, mdp.filter.init()
    )


def is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def numbers(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf)


def joined(trees: list, axis: int) -> Any:
    """In numpy, but for random keys, which it does not know."""
    return jax.tree.map(
        lambda *parts: (jnp if is_key(parts[0]) else np).concatenate(parts, axis), *trees
    )


def taken(tree: Any, index: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[index], tree)


def columns(latents: Any) -> np.ndarray:
    """Latents as a matrix [many, coordinates]."""
    return np.concatenate(
        [np.reshape(leaf, (len(leaf), -1)).astype(float) for leaf in jax.tree.leaves(latents)], 1
    )


def with_column(latents: Any, index: int, values: np.ndarray) -> Any:
    """The same latents with other values for one coordinate."""
    matrix = columns(latents)
    matrix[:, index] = values
    leaves, structure = jax.tree.flatten(latents)
    ends = np.cumsum([leaf[0].size for leaf in leaves])[:-1]
    pairs = zip(np.split(matrix, ends, 1), leaves, strict=True)
    return jax.tree.unflatten(
        structure, [part.reshape(leaf.shape).astype(leaf.dtype) for part, leaf in pairs]
    )


def z_score(differences: np.ndarray) -> np.ndarray:
    """Of their mean against zero, along the first axis; 0 where all are zero."""
    error = differences.std(0, ddof=1) / math.sqrt(len(differences))
    return differences.mean(0) / np.maximum(error, 1e-9)
