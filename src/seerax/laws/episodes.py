"""Laws of episodes: finite, within bounds, a zero residual is the ensemble, a dead step pays nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax import Array

from seerax.core import Action, BeliefMDP, Key, Moment
from seerax.laws.observed import BATCH, BEHAVIOURS, ZERO_RESIDUAL, Observed, named, numbers, taken


def when(observed: Observed, bad: np.ndarray) -> str:
    """In words, the earliest of the marked [time, episode]."""
    time = np.where(bad, observed.episodes.world.time[:, : bad.shape[1]], np.iinfo(np.int32).max)
    _, episode = np.unravel_index(time.argmin(), time.shape)
    return f"first at time {time.min()} under {BEHAVIOURS[episode // BATCH]}"


def finite(observed: Observed) -> Iterator[str]:
    episodes = observed.episodes
    for place, tree in episodes.finite.items():
        for name, sound in named(place, tree):
            if not sound.all():
                yield f"{name} is NaN or infinite, {when(observed, ~sound)}: look for 0/0, log(0) or an overflow."
    if episodes.log_likelihood is None:
        return
    likelihoods = np.reshape(episodes.log_likelihood, (*episodes.log_likelihood.shape[:3], -1))
    unsound = (np.isnan(likelihoods) | np.isposinf(likelihoods)).any(-1) & ~episodes.world.over[
        ..., None
    ]
    for entry in np.flatnonzero(unsound.any((0, 1))):
        found = f"filter.log_likelihood is NaN or +inf for entry {entry} of filter.support"
        cure = "The filter takes it for impossible; guard the divisions and logarithms (-inf is allowed)"
        yield f"{found}, {when(observed, unsound[..., entry])}. {cure}."


def bounds(observed: Observed) -> Iterator[str]:
    mdp, world = observed.mdp, observed.rows().world
    advice = np.asarray(
        advised(mdp, observed.row_keys, world.time, world.situation.state, world.situation.belief)
    )
    low, high = (
        np.asarray(mdp.problem.action_low, float),
        np.asarray(mdp.problem.action_high, float),
    )
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
    expected = taken(observed.episodes, np.s_[:, :BATCH])
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
    world, outcome = observed.episodes.world, observed.episodes.outcome
    over = world.over[:-1]
    for name, earned in named("", outcome):
        if earned[:-1][over].any():
            yield f"BeliefMDP.step gives {name[1:]} = {earned[:-1][over].max()} on the step after the end, not 0."
    for name, values in (("time", world.time), ("score", world.episode_return)):
        if values[1:][over].any():
            yield f"BeliefMDP.step goes on with {name} = {values[1:][over].max()} after the end: it must start at 0."
    beliefs = zip(
        named("belief", observed.mdp.filter.init()),
        jax.tree.leaves(world.situation.belief),
        strict=True,
    )
    for (name, first), values in beliefs:
        if not np.allclose(values[1:][over], first, atol=1e-5):
            yield f"BeliefMDP.step goes on with an old {name} after the end: it must start at filter.init()."
