"""Laws of beliefs: start at the prior, calibrated, equal to brute force, and collapsed ones follow their expert."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.special import softmax

from seerax.core import Action, BeliefMDP, Key
from seerax.filters import HARDEST_EVIDENCE, Categorical
from seerax.laws.episodes import advised
from seerax.laws.observed import COARSE, LIMIT, ROWS, TIMES, Observed, columns, taken, z_score
from seerax.numerics.trees import ravel


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
        prior, believed = (
            with_entry[nearest(entries, prior)],
            with_entry[nearest(entries, believed)],
        )
    z = z_score(prior - believed)
    worst = np.abs(z).argmax()
    if abs(z[worst]) > LIMIT:
        wanted, found = prior[:, worst].mean(), believed[:, worst].mean()
        means = f"{names[worst]} is {found:.4g} in filter.sample(key, filter.init()), but {wanted:.4g} in problem.prior"
        yield f"filter.init is not the prior: {means} (z = {z[worst]:.1f}). Start it from what problem.prior draws."


class Guessed(NamedTuple):
    """What episodes still running at one time hold true and believe: [episodes, coordinates]."""

    time: int
    truth: np.ndarray  # the entry of a finite support that lies nearest to it
    sample: np.ndarray
    mode: np.ndarray
    listed: bool  # does the support hold the true latents? Not if it is a coarse grid


def guessed(observed: Observed) -> Iterator[Guessed]:
    world, entries = observed.early_worlds, support(observed)
    keys = jax.random.split(observed.key, world.over.shape)
    sample, mode = map(np.asarray, guesses(observed.mdp.filter, keys, world.situation.belief))
    for index, running in observed.still_running.items():
        truth = columns(taken(world.latent, (index, running)))
        held = truth if entries is None else entries[nearest(entries, truth)]
        yield Guessed(
            TIMES[index],
            held,
            sample[index, running],
            mode[index, running],
            np.allclose(held, truth),
        )


def calibration(observed: Observed) -> Iterator[str]:
    """Given the history, the truth and a posterior sample are exchangeable, so they lie equally far from the mode.

    No likelihood is exact on a coarse grid, for the place within a cell stays the same from step to step. There a
    belief may be unsure, and its mode wrong a little more often than it says.
    """
    seen = list(guessed(observed))
    yield from coarsely_calibrated([at for at in seen if not at.listed])
    yield from exactly_calibrated([at for at in seen if at.listed])


def coarsely_calibrated(seen: list[Guessed]) -> Iterator[str]:
    for at in seen:
        said, found = ((guess != at.mode).any(1).mean() for guess in (at.sample, at.truth))
        if found > said + COARSE:
            yield (
                f"filter is over-confident at time {at.time}: filter.mode is not the entry nearest to the true latent "
                f"in {100 * found:.0f} % of the episodes, but the belief says {100 * said:.0f} %. The support does not "
                f"hold the true latents, so {100 * COARSE:.0f} points more are granted: widen the noise in "
                "filter.update."
            )
            return


def exactly_calibrated(seen: list[Guessed]) -> Iterator[str]:
    if not seen:
        return
    scores = [(overconfidence(at.truth, at.sample, at.mode), at.time, len(at.truth)) for at in seen]
    z, time, count = max(scores, key=lambda score: abs(score[0]))
    if abs(z) > LIMIT:
        word, where = (
            ("over-confident", "farther from") if z > 0 else ("under-confident", "closer to")
        )
        found = f"filter is {word} at time {time} (z = {z:.1f} over {count} episodes): the true latent lies {where}"
        yield f"{found} filter.mode than filter.sample does. Compare the noise in filter.update and in problem.step."


@eqx.filter_jit
def guesses(filter: Any, keys: Key, beliefs: Any) -> tuple[Array, Array]:
    """(sample, mode) of every belief [times, episodes, ...], flattened."""
    one = lambda key, belief: (ravel(filter.sample(key, belief)), ravel(filter.mode(belief)))  # noqa: E731
    return jax.vmap(jax.vmap(one))(keys, beliefs)


def overconfidence(truth: np.ndarray, sample: np.ndarray, mode: np.ndarray) -> float:
    """The larger z-score of two statistics: squared distance to the mode, and not being the mode.

    The mean of squares is right even for a Gaussian belief that matches only two moments of the truth.
    """
    scale = np.where(truth.std(0) > 0, truth.std(0), 1.0)

    def apart(guess: np.ndarray) -> list[np.ndarray]:
        squares = np.square((guess - mode) / scale).mean(1)
        return [squares, (guess != mode).any(1).astype(float)]

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
    apart = (
        np.abs(found - expected) / np.subtract(mdp.problem.action_high, mdp.problem.action_low)
    ).max(1)
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
    return (
        isinstance(observed.mdp.filter, Categorical) and observed.mdp.filter.log_transition is None
    )


def brute_force(observed: Observed) -> Iterator[str]:
    """The product of all likelihoods of an episode, normalised once, in double precision."""
    filter: Any = observed.mdp.filter
    episodes = taken(observed.episodes, np.s_[:, ::8])
    ended = np.logical_or.accumulate(episodes.world.over)[:-1, :, None]
    evidence = np.where(ended, 0.0, relative(episodes.log_likelihood[:-1]))
    prior = relative(np.zeros(filter.size) if filter.log_prior is None else filter.log_prior)
    expected = softmax(prior + np.cumsum(evidence, 0), axis=-1)
    found = np.exp(episodes.world.situation.belief[1:])
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
