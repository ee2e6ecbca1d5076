"""Episodes as the laws look at them: played once, in batches, for all laws together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
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
from seerax.laws.arrays import columns, concatenate, is_key, name_leaves, take

EPISODES = 4096  # for the laws that are statistical
DRAWS = 2**15  # latents drawn from the prior, at least
BATCH = 256  # worlds played side by side
SPAN = 32  # steps played in one go, so that one compiled program serves short and whole episodes
LONGEST = 1000  # a world is followed for at most so many steps, then ended
ROWS = 1024  # visited situations looked at side by side
# When beliefs are tested. Early: later, the mere survival may tell more than the filter uses.
TIMES = (1, 3, 10, 30)
ENOUGH = 1 / 8  # share of the episodes that must still run for a time to count
COARSE = 1 / 8  # how much more often than it says the mode of a coarse belief may be wrong
LIMIT = 4.0  # standard errors that are no longer chance

BEHAVIOURS = (
    "the ensemble",
    "the ensemble with exploring noise",
    "random actions",
    "a zero residual",
)
INDEPENDENT = 3  # the first three have keys of their own
ZERO_RESIDUAL = 3  # the last one shares the ensemble's keys
MIXED = "a third each under the ensemble, the ensemble with exploring noise and random actions"


class Record(NamedTuple):
    """One step, in arrays [time, episode, ...]: the world before it, the action, its outcome."""

    world: World
    action: Action
    outcome: Outcome
    log_likelihood: Array | None  # of each entry of the support: [k], or [k, m] for m factors
    finite: dict[str, Any]  # by place, one truth value for each leaf found there


def act(mdp: BeliefMDP, behaviour: Array, key: Key, situation: Situation) -> Action:
    """Returns the action that one of the BEHAVIOURS takes."""
    low, high = jnp.asarray(mdp.problem.action_low), jnp.asarray(mdp.problem.action_high)
    dice = jax.random.uniform(key, (mdp.action_size + 1,))
    random = low + (high - low) * dice[1:]
    advice = follow_advice(key, situation)
    exploring = jnp.where(dice[0] < 0.3, random, advice)
    residual = agents.brpo.compose(situation, jnp.zeros(mdp.action_size))
    return mdp.clip(jnp.stack([advice, exploring, random, residual])[behaviour])


@eqx.filter_jit
def starts(mdp: BeliefMDP, keys: Key) -> World:
    """Returns a fresh world for each key."""
    return jax.vmap(mdp.reset)(keys)


@eqx.filter_jit
def play_span(mdp: BeliefMDP, behaviour: Array, keys: Key, worlds: World) -> tuple[World, Record]:
    """Plays all worlds for as many steps as there are keys [time, world, 2]."""

    def one(keys: Key, world: World) -> tuple[World, Record]:
        action = act(mdp, behaviour, keys[0], world.situation)
        following, outcome = mdp.step(keys[1], world, action)
        state, next_state = world.situation.state, following.situation.state
        likelihoods = log_likelihoods(mdp.filter, state, action, next_state)
        seen = world._replace(episode=jnp.bool_(False))
        finite = finiteness(mdp, world, outcome)
        return following, Record(seen, action, outcome, likelihoods, finite)

    return jax.lax.scan(lambda worlds, keys: jax.vmap(one)(keys, worlds), worlds, keys)


def has_support(filter: Any) -> bool:
    """True for a filter over a finite support whose likelihood the laws can ask themselves."""
    return isinstance(filter, Categorical | Factored)


def log_likelihoods(filter: Any, state: Any, action: Any, next_state: Any) -> Array | None:
    """Returns the log-likelihood of each entry of a finite support, None for other filters."""
    if not has_support(filter):
        return None
    return jax.vmap(filter.log_likelihood, (None, None, None, 0))(
        state, action, next_state, filter.support
    )


def finiteness(mdp: BeliefMDP, world: World, outcome: Outcome) -> dict[str, Any]:
    """Returns, by place, whether each leaf is finite."""
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
        """Plays a batch of worlds, all ended before the last of several spans to start afresh."""
        worlds, records = starts(self.mdp, jax.random.split(key, BATCH)), []
        for span in range(spans):
            if 0 < span == spans - 1:
                worlds = worlds._replace(over=jnp.ones_like(worlds.over))
            keys = jax.random.split(jax.random.fold_in(key, span), (SPAN, BATCH, 2))
            worlds, record = play_span(self.mdp, jnp.int32(behaviour), keys, worlds)
            records.append(record)
        return concatenate(records, 0)

    @cached_property
    def first_world(self) -> World:
        """A world in which nothing has happened yet, on the host, as drawing methods get it."""
        keys = jax.random.split(self.key, BATCH)
        return jax.device_get(take(starts(self.mdp, keys), 0))

    @cached_property
    def spans(self) -> int:
        return math.ceil(min(self.mdp.problem.horizon, LONGEST) / SPAN) + 1

    @cached_property
    def episodes(self) -> Record:
        """A batch of worlds for each independent behaviour, through an end and a fresh start."""
        key = partial(jax.random.fold_in, self.key)
        batches = [self.play(key(index), index, self.spans) for index in range(INDEPENDENT)]
        return concatenate(batches, 1)

    def when(self, time: int, episode: int) -> str:
        """Says in words when an entry of `episodes` was played and under which behaviour."""
        world_time = self.episodes.world.time[time, episode]
        return f"at time {world_time} under {BEHAVIOURS[episode // BATCH]}"

    @cached_property
    def visited(self) -> tuple[np.ndarray, np.ndarray]:
        """(time, episode) of every running world in `episodes`, shuffled."""
        time, episode = np.nonzero(~self.episodes.world.over)
        order = np.random.default_rng(0).permutation(time.size)
        return time[order], episode[order]

    def row_indices(self, start: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Returns (time, episode) of ROWS running worlds, the next ones for a later `start`."""
        index = np.arange(start, start + ROWS) % self.visited[0].size
        return self.visited[0][index], self.visited[1][index]

    def rows(self, start: int = 0) -> Record:
        """Returns running worlds from anywhere in `episodes`, with what was done there."""
        return take(self.episodes, self.row_indices(start))

    def when_row(self, row: int) -> str:
        """Says in words when a row of `rows()` was played and under which behaviour."""
        time, episode = self.row_indices()
        return self.when(time[row], episode[row])

    @cached_property
    def row_keys(self) -> Key:
        return jax.random.split(self.key, ROWS)

    @cached_property
    def early_worlds(self) -> World:
        """Many worlds at the TIMES: [times, episodes, ...]."""
        batches = range(math.ceil(self.count / BATCH))
        key = partial(jax.random.fold_in, jax.random.fold_in(self.key, INDEPENDENT))
        records = [self.play(key(batch), batch % INDEPENDENT, 1) for batch in batches]
        return concatenate([take(record.world, np.array(TIMES)) for record in records], 1)

    @cached_property
    def still_running(self) -> dict[int, np.ndarray]:
        """The episodes that have not ended, at those of the TIMES when they are enough."""
        running = (self.early_worlds.time == np.array(TIMES)[:, None]) & ~self.early_worlds.over
        return {
            index: np.flatnonzero(row) for index, row in enumerate(running) if row.mean() >= ENOUGH
        }

    @cached_property
    def draws(self) -> tuple[Any, Any]:
        """Many latents from the prior and from the filter's first belief, as batched pytrees."""
        drawn = draw(self.mdp, jax.random.split(self.key, max(4 * self.count, DRAWS)))
        return jax.tree.map(np.asarray, drawn)

    @cached_property
    def drawn(self) -> tuple[np.ndarray, np.ndarray]:
        """The same as matrices [many, coordinates]."""
        prior, believed = self.draws
        return columns(prior), columns(believed)

    @cached_property
    def coordinates(self) -> list[str]:
        """A name for every number of the flattened latent, such as 'latent[1]'."""
        return name_numbers("latent", jax.eval_shape(self.mdp.problem.prior, self.key))

    @cached_property
    def unknown(self) -> list[tuple[int, str]]:
        """The coordinates that differ between draws of the prior."""
        return [
            (i, name) for i, name in enumerate(self.coordinates) if np.ptp(self.drawn[0][:, i]) > 0
        ]


def name_numbers(root: str, tree: Any) -> list[str]:
    """Returns a name for every column of `columns`, from one unbatched pytree."""
    return [
        f"{name}{list(index) or ''}"
        for name, leaf in name_leaves(root, tree)
        if not is_key(leaf)
        for index in np.ndindex(*leaf.shape)
    ]


@eqx.filter_jit
def draw(mdp: BeliefMDP, keys: Key) -> tuple[Any, Any]:
    """Returns latents from the prior and samples of the filter's first belief, one for each key."""
    believed = jax.vmap(mdp.filter.sample, (0, None))(keys, mdp.filter.init())
    return jax.vmap(mdp.problem.prior)(keys), believed
