"""Laws of latents: fresh in every episode, and each coordinate matters."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import equinox as eqx
import jax
import numpy as np

from seerax.core import Action, Key
from seerax.laws.observed import LIMIT, ROWS, Observed, columns, numbers, taken, with_column


def fresh_latent(observed: Observed) -> Iterator[str]:
    latent, over = observed.episodes.world.latent, observed.episodes.world.over
    end, episode = over.argmax(0), np.arange(over.shape[1])
    first, last, after = (
        columns(taken(latent, (time, episode))) for time in (0 * end, end, end + 1)
    )
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
    follow = partial(
        consequences,
        observed.mdp.problem,
        observed.row_keys,
        seen.world.situation.state,
        seen.action,
    )
    one, another = follow(seen.world.latent), follow(with_column(seen.world.latent, index, other))
    pairs = zip(jax.tree.leaves(one[:2]), jax.tree.leaves(another[:2]), strict=True)
    changed = [(numbers(a) != numbers(b)).any() for a, b in pairs]
    if one[2] is not None:
        changed.append(np.delete(columns(one[2]) != columns(another[2]), index, 1).any())
    return any(changed)


@eqx.filter_jit
def consequences(
    problem: Any, keys: Key, state: Any, action: Action, latent: Any
) -> tuple[Any, Any, Any]:
    """(state after a reset, step, next latent if it can move); a row has the same key in every call."""
    evolve = getattr(problem, "evolve", None)

    def one(key: Key, state: Any, action: Action, latent: Any) -> tuple[Any, Any, Any]:
        step = problem.step(key, state, action, latent)
        return (
            problem.reset(key, latent),
            step,
            evolve and evolve(key, state, action, step[0], latent),
        )

    return jax.vmap(one)(keys, state, action, latent)
