"""Laws of episodes: finite, within bounds, zero residual is ensemble, dead steps pay nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax import Array

from seerax.core import Action, BeliefMDP, Key, Moment
from seerax.laws.arrays import name_leaves, numbers, take
from seerax.laws.observed import BATCH, ZERO_RESIDUAL, Observed


def first(observed: Observed, bad: np.ndarray) -> str:
    """Says when the earliest of the marked [time, episode] was played and under which behaviour."""
    steps, batch = bad.shape
    time = np.where(bad, observed.episodes.world.time[:steps, :batch], np.iinfo(np.int32).max)
    earliest, episode = np.unravel_index(time.argmin(), time.shape)
    return "first " + observed.when(int(earliest), int(episode))


def finite(observed: Observed) -> Iterator[str]:
    episodes = observed.episodes
    for place, tree in episodes.finite.items():
        for name, sound in name_leaves(place, tree):
            if not sound.all():
                cure = "look for 0/0, log(0) or an overflow"
                yield f"{name} is NaN or infinite, {first(observed, ~sound)}: {cure}."
    if episodes.log_likelihood is None:
        return
    likelihoods = np.reshape(episodes.log_likelihood, (*episodes.log_likelihood.shape[:3], -1))
    unsound = (np.isnan(likelihoods) | np.isposinf(likelihoods)).any(-1)
    unsound &= ~episodes.world.over[..., None]
    for entry in np.flatnonzero(unsound.any((0, 1))):
        found = f"filter.log_likelihood is NaN or +inf for entry {entry} of filter.support"
        cure = (
            "The filter takes it for impossible; "
            "guard the divisions and logarithms (-inf is allowed)"
        )
        yield f"{found}, {first(observed, unsound[..., entry])}. {cure}."


def bounds(observed: Observed) -> Iterator[str]:
    mdp, world = observed.mdp, observed.rows().world
    state, belief, _ = world.situation
    advice = np.asarray(ask_advisor(mdp, observed.row_keys, world.time, state, belief))
    low = np.asarray(mdp.problem.action_low, float)
    high = np.asarray(mdp.problem.action_high, float)
    beyond = np.maximum(low - advice, advice - high) / (high - low)
    for component in np.flatnonzero(beyond.max(0) > 1e-4):
        row = beyond[:, component].argmax()
        found = f"advisor gives component {component} of the action as {advice[row, component]:.4g}"
        box = f"[{low[component]:.4g}, {high[component]:.4g}]"
        yield f"{found}, outside {box}, {observed.when_row(row)}: clip or scale it."


@eqx.filter_jit
def ask_advisor(mdp: BeliefMDP, keys: Key, time: Array, state: Any, belief: Any) -> Action:
    """Returns the advice for each row before it is clipped."""
    return jax.vmap(mdp.advisor)(Moment(keys, keys, time), state, belief)


def zero_residual(observed: Observed) -> Iterator[str]:
    """Plays both with the same compiled program, so that rounding is no excuse."""
    residual = observed.play(jax.random.fold_in(observed.key, 0), ZERO_RESIDUAL, observed.spans)
    expected = take(observed.episodes, np.s_[:, :BATCH])
    differing = []
    for (name, one), other in zip(
        name_leaves("", residual), jax.tree.leaves(expected), strict=True
    ):
        differs = (numbers(one) != numbers(other)).reshape(*other.shape[:2], -1).any(-1)
        if differs.any():
            differing.append((differs.any(1).argmax(), name[1:], first(observed, differs)))
    if differing:
        _, name, earliest = min(differing)
        found = f"With a residual of zero, {name} differs from the ensemble's on the same keys"
        cure = "steps and advice must depend on their arguments alone"
        yield f"{found}, {earliest}: {cure} (no numpy.random, no global state)."


def dead_step(observed: Observed) -> Iterator[str]:
    """Complains about what is left of an episode on the step after its end."""
    world, outcome = observed.episodes.world, observed.episodes.outcome
    over = world.over[:-1]
    for name, earned in name_leaves("", outcome):
        bad = over & (earned[:-1] != 0)
        if bad.any():
            found = f"BeliefMDP.step gives {name[1:]} = {earned[:-1][bad].max()}"
            yield f"{found} on the step after the end, {first(observed, bad)}, not 0."
    for name, values in (("time", world.time), ("episode_return", world.episode_return)):
        bad = over & (numbers(values)[1:] != 0)
        if bad.any():
            found = f"BeliefMDP.step goes on with {name} = {values[1:][bad].max()} after the end"
            yield f"{found}, {first(observed, bad)}: it must start at 0."
    beliefs = name_leaves("belief", observed.mdp.filter.init())
    pairs = zip(beliefs, jax.tree.leaves(world.situation.belief), strict=True)
    for (name, start), values in pairs:
        later = numbers(values)[1:][over]
        if not np.allclose(later, numbers(start), atol=1e-5):
            found = f"BeliefMDP.step goes on with an old {name} after the end"
            yield f"{found}: it must start at filter.init()."
