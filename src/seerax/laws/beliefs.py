"""Laws of beliefs: they start at the prior, are calibrated, equal brute force, obey the expert."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.special import softmax

from seerax.core import Action, BeliefMDP, Key, ability
from seerax.filters import HARDEST_EVIDENCE, Categorical, ExtendedKalman, Factored
from seerax.laws.arrays import columns, nearest, subtract, take, z_score
from seerax.laws.episodes import ask_advisor
from seerax.laws.evidence import by_simulation
from seerax.laws.observed import (
    BATCH,
    BEHAVIOURS,
    COARSE,
    INDEPENDENT,
    LIMIT,
    MIXED,
    ROWS,
    TIMES,
    Observed,
    has_support,
)
from seerax.numerics.trees import ravel

# ---- prior ---------------------------------------------------------------------------------------


def support(observed: Observed) -> np.ndarray | None:
    """Returns the support [k, coordinates] of a categorical filter, None for others."""
    filter = observed.mdp.filter
    return columns(filter.support) if isinstance(filter, Categorical) else None


def starts_at_prior(observed: Observed) -> Iterator[str]:
    """Compares the mean of each coordinate and the share of each entry of a categorical filter."""
    prior, believed = observed.drawn
    entries = support(observed)
    names = [f"the mean of {name}" for name in observed.coordinates]
    if entries is not None:
        names += [f"the share of entry {index} of filter.support" for index in range(len(entries))]
        with_entry = np.hstack([entries, np.eye(len(entries))])
        prior = with_entry[nearest(entries, prior)]
        believed = with_entry[nearest(entries, believed)]
    z = z_score(subtract(prior, believed))
    worst = np.abs(z).argmax()
    if abs(z[worst]) > LIMIT:
        wanted, found = prior[:, worst].mean(), believed[:, worst].mean()
        yield (
            f"filter.init is not the prior: {names[worst]} is {found:.4g} in "
            f"filter.sample(key, filter.init()), but {wanted:.4g} in problem.prior "
            f"(z = {z[worst]:.1f}). Start it from what problem.prior draws."
        )


# ---- calibration ---------------------------------------------------------------------------------


class Guessed(NamedTuple):
    """What episodes still running at one time hold true and believe: [episodes, coordinates]."""

    time: int
    truth: np.ndarray  # the entry of a finite support that lies nearest to it
    sample: np.ndarray
    mode: np.ndarray
    listed: bool  # False if the support does not hold the true latents: it is a coarse grid
    behaviour: np.ndarray  # [episodes], an index into BEHAVIOURS


def guessed(observed: Observed) -> Iterator[Guessed]:
    world, entries = observed.early_worlds, support(observed)
    keys = jax.random.split(observed.key, world.over.shape)
    sample, mode = map(np.asarray, guesses(observed.mdp.filter, keys, world.situation.belief))
    for index, running in observed.still_running.items():
        truth = columns(take(world.latent, (index, running)))
        held = truth if entries is None else entries[nearest(entries, truth)]
        listed = not subtract(held, truth).any()
        behaviour = running // BATCH % INDEPENDENT
        guess = sample[index, running], mode[index, running]
        yield Guessed(TIMES[index], held, *guess, listed, behaviour)


@eqx.filter_jit
def guesses(filter: Any, keys: Key, beliefs: Any) -> tuple[Array, Array]:
    """Returns (sample, mode) of every belief [times, episodes, ...], flattened."""

    def one(key: Key, belief: Any) -> tuple[Array, Array]:
        return ravel(filter.sample(key, belief)), ravel(filter.mode(belief))

    return jax.vmap(jax.vmap(one))(keys, beliefs)


def calibration(observed: Observed) -> Iterator[str]:
    """Compares how far from the mode the truth lies and how far a posterior sample lies.

    Given the history the two are exchangeable, so both lie equally far. No likelihood is exact on a
    coarse grid, because the place within a cell stays the same from step to step. There a belief
    may be unsure, and its mode wrong a little more often than it says.
    """
    seen = list(guessed(observed))
    hint = unmodelled_motion(observed.mdp)
    yield from coarsely_calibrated([at for at in seen if not at.listed], hint)
    yield from exactly_calibrated([at for at in seen if at.listed], hint)


def unmodelled_motion(mdp: BeliefMDP) -> str:
    """Names the likely cause of over-confidence if the latent moves unknown to the filter."""
    if ability(mdp.problem, "evolve") is None:
        return ""
    moves = " problem.evolve moves the latent"
    members = {Categorical: "log_transition", Factored: "log_transition", ExtendedKalman: "motion"}
    for kind, member in members.items():
        if not isinstance(mdp.filter, kind):
            continue
        if getattr(mdp.filter, member) is not None:
            return ""
        return f"{moves}, but the filter has no {member}: this is the likely cause."
    return f"{moves}: make sure that filter.update predicts this motion."


def coarsely_calibrated(seen: list[Guessed], hint: str = "") -> Iterator[str]:
    """Complains about the first time at which the mode is wrong much more often than it says."""
    for at in seen:
        said = off_mode(at.sample, at.mode).astype(float)
        found = off_mode(at.truth, at.mode).astype(float)
        if found.mean() > said.mean() + COARSE:
            excess = {index: (found - said)[part].mean() for index, part in parts(at).items()}
            yield (
                f"filter is over-confident at time {at.time}: filter.mode is not the entry nearest "
                f"to the true latent in {100 * found.mean():.0f} % of the episodes ({MIXED}; "
                f"{most_under(excess)}), but the belief says {100 * said.mean():.0f} %. The "
                f"support does not hold the true latents, so {100 * COARSE:.0f} points more are "
                f"granted: widen the noise in filter.update.{hint}"
            )
            return


def exactly_calibrated(seen: list[Guessed], hint: str = "") -> Iterator[str]:
    """Complains about the time with the largest z-score."""
    if not seen:
        return
    z, at = max(
        ((overconfidence(at.truth, at.sample, at.mode), at) for at in seen),
        key=lambda score: abs(score[0]),
    )
    if abs(z) <= LIMIT:
        return
    by_behaviour = {
        index: np.sign(z) * overconfidence(at.truth[part], at.sample[part], at.mode[part])
        for index, part in parts(at).items()
    }
    word, where = ("over-confident", "farther from") if z > 0 else ("under-confident", "closer to")
    yield (
        f"filter is {word} at time {at.time} (z = {z:.1f} over {len(at.truth)} episodes, {MIXED}; "
        f"{most_under(by_behaviour)}): the true latent lies {where} "
        "filter.mode than filter.sample does. Compare the "
        f"noise in filter.update and in problem.step.{hint if z > 0 else ''}"
    )


def parts(at: Guessed) -> dict[int, np.ndarray]:
    """Returns which episodes were played under each behaviour, if more than one was."""
    masks = {index: at.behaviour == index for index in range(INDEPENDENT)}
    return {index: mask for index, mask in masks.items() if mask.sum() > 1}


def most_under(statistics: dict[int, float]) -> str:
    """Names the behaviour whose statistic is largest."""
    worst = max(statistics, key=lambda index: statistics[index])
    return f"most of all under {BEHAVIOURS[worst]}"


def off_mode(guess: np.ndarray, mode: np.ndarray) -> np.ndarray:
    """True for each row in which a guess is not the mode."""
    return (subtract(guess, mode) != 0).any(1)


def overconfidence(truth: np.ndarray, sample: np.ndarray, mode: np.ndarray) -> float:
    """Returns the larger z-score of two statistics: squared distance to the mode, and not being it.

    The mean of squares is right even for a Gaussian belief that matches only two moments.
    """
    scale = np.where(truth.std(0) > 0, truth.std(0), 1.0)

    def apart(guess: np.ndarray) -> np.ndarray:
        squares = np.square(subtract(guess, mode) / scale).mean(1)
        return np.stack([squares, off_mode(guess, mode)], 1)

    z = z_score(apart(truth) - apart(sample))
    return float(z[np.abs(z).argmax()])


# ---- collapsed belief ----------------------------------------------------------------------------


def has_experts(observed: Observed) -> bool:
    return isinstance(observed.mdp.filter, Categorical) and observed.mdp.expert is not None


def collapsed_belief(observed: Observed) -> Iterator[str]:
    """Compares advice and expert except for sensing, which decorators of the advisor set."""
    mdp, world = observed.mdp, observed.rows().world
    filter: Any = mdp.filter
    entry = np.arange(ROWS) % filter.size
    belief = np.where(np.eye(filter.size)[entry] > 0, 0.0, -HARDEST_EVIDENCE).astype(np.float32)
    advice = ask_advisor(mdp, observed.row_keys, world.time, world.situation.state, belief)
    latent = take(jax.tree.map(np.asarray, filter.support), entry)
    found, expected = map(np.asarray, without_sensing(mdp, advice, world.situation.state, latent))
    width = np.subtract(mdp.problem.action_high, mdp.problem.action_low)
    apart = (np.abs(found - expected) / width).max(1)
    worst = apart.argmax()
    if apart[worst] > 1e-3:
        yield (
            f"advisor, sure of entry {entry[worst]} of filter.support, gives {found[worst]}, but "
            f"its expert gives {expected[worst]}, {observed.when_row(worst)}: let it ask "
            "mdp.expert, with plans in the order of the support."
        )


@eqx.filter_jit
def without_sensing(mdp: BeliefMDP, advice: Array, state: Any, latent: Any) -> tuple[Array, Array]:
    """Returns (this advice, what the expert for this latent says), both without sensing."""
    switch = ability(mdp.problem, "with_sensing") or (lambda action, on: action)

    def one(advice: Action, state: Any, latent: Any) -> tuple[Action, Action]:
        says = mdp.expert.act(state, mdp.expert.plan(latent))  # type: ignore[union-attr]
        return mdp.clip(switch(advice, jnp.bool_(False))), mdp.clip(switch(says, jnp.bool_(False)))

    return jax.vmap(one)(advice, state, latent)


# ---- brute force ---------------------------------------------------------------------------------


def can_compare(observed: Observed) -> bool:
    """True unless a filter over a finite support believes that the latent moves."""
    filter: Any = observed.mdp.filter
    return not has_support(filter) or filter.log_transition is None


def brute_force(observed: Observed) -> Iterator[str]:
    """Compares with the product of all likelihoods, or by simulation where there is no support."""
    if has_support(observed.mdp.filter):
        yield from by_product(observed)
    else:
        yield from by_simulation(observed)


def by_product(observed: Observed) -> Iterator[str]:
    """Multiplies all likelihoods of an episode, factor by factor, and normalises once, in double.

    This sees a wrong update, but not a wrong likelihood: that is what the laws "calibration" and
    "evidence" see.
    """
    filter: Any = observed.mdp.filter
    every = 8  # the episodes looked at
    episodes = take(observed.episodes, np.s_[:, ::every])
    belief = episodes.world.situation.belief[1:]  # [time, episode, (factor,) entry]
    likelihood = np.moveaxis(episodes.log_likelihood[:-1], 2, -1)
    ended = np.logical_or.accumulate(episodes.world.over)[:-1]
    ended = ended.reshape(*ended.shape, *(1,) * (belief.ndim - 2))
    evidence = np.where(ended, 0.0, relative(likelihood))
    flat = np.zeros(belief.shape[2:])
    prior = relative(flat if filter.log_prior is None else filter.log_prior)
    expected = softmax(prior + np.cumsum(evidence, 0), axis=-1)
    apart = np.where(ended, 0.0, np.abs(np.exp(belief) - expected))
    worst = np.unravel_index(apart.argmax(), apart.shape)
    if apart[worst] > 1e-4:
        time, episode, *factor, entry = map(int, worst)
        place = f"entry {entry} of filter.support" + (f", factor {factor[0]}," if factor else "")
        yield (
            "filter.update is not Bayes' rule: after the step "
            f"{observed.when(time, every * episode)} it gives {place} "
            f"{np.exp(belief[worst]):.5f}, but the product of the likelihoods "
            f"gives {expected[worst]:.5f}. Add filter.log_likelihood to the log-weights and "
            "normalise with log_softmax."
        )


def relative(log_likelihood: Any) -> np.ndarray:
    """Returns log-likelihoods relative to the best, with the floor that filters have."""
    values = np.maximum(np.asarray(log_likelihood, float), -1e30)
    return np.maximum(values - values.max(-1, keepdims=True), -HARDEST_EVIDENCE)
