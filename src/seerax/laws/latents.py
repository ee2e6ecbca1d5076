"""Laws of latents: fresh in every episode, and each coordinate matters."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import equinox as eqx
import jax
import numpy as np

from seerax.core import Action, Key, ability
from seerax.laws.arrays import columns, numbers, take, with_column
from seerax.laws.observed import LIMIT, MIXED, ROWS, Observed


def fresh_latent(observed: Observed) -> Iterator[str]:
    latent, over = observed.episodes.world.latent, observed.episodes.world.over
    end, episode = over.argmax(0), np.arange(over.shape[1])
    first = columns(take(latent, (0 * end, episode)))
    last = columns(take(latent, (end, episode)))
    after = columns(take(latent, (end + 1, episode)))
    cure = "it must draw from problem.prior with its key"
    if not observed.unknown:
        yield "problem.prior gives the same latent every time: draw it with its key."
    elif np.ptp(first, axis=0).max() == 0:
        yield f"BeliefMDP.reset gives the same latent every time: {cure}."
    elif np.ptp(after, axis=0).max() == 0:
        yield f"BeliefMDP.step starts every episode with the same latent: {cure}."
    for index, name in observed.unknown:
        before = (first[:, index], last[:, index])
        if any(is_kept(one, after[:, index]) for one in before):
            found = f"BeliefMDP.step keeps {name} when an episode is over"
            yield f"{found}: it must be drawn anew from problem.prior."


def is_kept(before: np.ndarray, after: np.ndarray) -> bool:
    """True if they agree more often than by chance, that is, than with those of other worlds."""
    chance = np.mean([before == np.roll(after, shift) for shift in range(1, 33)])
    error = math.sqrt(max(chance * (1 - chance), 1 / before.size) / before.size)
    return bool((before == after).mean() - chance > LIMIT * error)


def latent_matters(observed: Observed) -> Iterator[str]:
    tries = observed.visited[0].size
    for index, name in observed.unknown:
        if not any(matters(observed, index, start) for start in range(0, tries, ROWS)):
            other = "with another value from problem.prior"
            found = f"{name} never matters: {other}, no state, reward or termination changed"
            cure = "Use it in problem.step or problem.reset, or leave it out"
            yield f"{found} in {tries} tries, {MIXED}. {cure}."


def matters(observed: Observed, index: int, start: int) -> bool:
    """True if another value of this coordinate changes what happens in some of these worlds."""
    seen, prior = observed.rows(start), observed.drawn[0]
    state, latent = seen.world.situation.state, seen.world.latent
    other = prior[np.arange(start, start + ROWS) % len(prior), index]
    follow = partial(consequences, observed.mdp.problem, observed.row_keys, state, seen.action)
    one, another = follow(latent), follow(with_column(latent, index, other))
    pairs = zip(jax.tree.leaves(one[:2]), jax.tree.leaves(another[:2]), strict=True)
    changed = [(numbers(a) != numbers(b)).any() for a, b in pairs]
    if one[2] is not None:
        changed.append(np.delete(columns(one[2]) != columns(another[2]), index, 1).any())
    return any(changed)


@eqx.filter_jit
def consequences(
    problem: Any, keys: Key, state: Any, action: Action, latent: Any
) -> tuple[Any, Any, Any]:
    """Returns (state after a reset, step, next latent if it can move), with one key per row."""
    evolve = ability(problem, "evolve")

    def one(key: Key, state: Any, action: Action, latent: Any) -> tuple[Any, Any, Any]:
        step = problem.step(key, state, action, latent)
        moved = evolve and evolve(key, state, action, step[0], latent)
        return problem.reset(key, latent), step, moved

    return jax.vmap(one)(keys, state, action, latent)
