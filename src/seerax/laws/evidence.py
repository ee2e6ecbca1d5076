"""Laws by simulation: the problem's steps, not the filter's likelihood, say what is to be learnt.

The next state is the outcome. Rewards and terminations may tell the latent too, but no filter
sees them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seerax.core import Action, BeliefMDP, Key, ability
from seerax.laws.arrays import ROUNDING, columns, is_key, name_leaves, numbers, take, z_score
from seerax.laws.observed import DRAWS, LIMIT, Observed, has_support
from seerax.numerics.trees import select

# ---- steps ---------------------------------------------------------------------------------------

SIMULATED = DRAWS  # steps simulated at once, by one compiled program for both laws
PAIRS_KEY = 100  # folded into the key, away from what `Observed` plays and draws
EPISODES_KEY = 101


class Steps(NamedTuple):
    """What simulated steps led to: [many, ...]."""

    state: Any
    latent: Any
    terminated: Array
    belief: Any
    vector: Array
    sample: Any


@eqx.filter_jit
def simulate(
    mdp: BeliefMDP, keys: Key, states: Any, actions: Action, latents: Any, beliefs: Any
) -> Steps:
    """Takes one step of the problem and one of the filter for each row."""
    problem, filter = mdp.problem, mdp.filter
    evolve = ability(problem, "evolve")

    def one(key: Key, state: Any, action: Action, latent: Any, belief: Any) -> Steps:
        step_key, evolve_key, sample_key = jax.random.split(key, 3)
        following, _, terminated = problem.step(step_key, state, action, latent)
        after = filter.update(belief, state, action, following)
        moved = evolve(evolve_key, state, action, following, latent) if evolve else latent
        sample = filter.sample(sample_key, after)
        return Steps(following, moved, terminated, after, filter.vector(after), sample)

    return jax.vmap(one)(keys, states, actions, latents, beliefs)


def first_beliefs(mdp: BeliefMDP, count: int) -> Any:
    """Returns the filter's first belief, repeated."""
    first = jax.tree.map(jnp.asarray, mdp.filter.init())
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), first)


def prior_latents(observed: Observed, count: int) -> Any:
    """Returns up to DRAWS latents from the prior."""
    prior, _ = observed.draws
    return take(prior, np.arange(count))


# ---- evidence ------------------------------------------------------------------------------------

PAIRS = 256  # situations, each with two latents
REPEATS = SIMULATED // (2 * PAIRS)  # steps for each of the two
CHANCE = 1e-9  # probability with which two equal distributions are called different
OFTEN = 8  # situations that must agree before a filter is blamed for ignoring a float
MANY = 32  # situations that must tell latents apart before the direction of beliefs is judged


class Trials(NamedTuple):
    """Steps from the same situations under two latents."""

    leaf: np.ndarray  # [numbers of a state]: the name of the leaf that holds it
    event: np.ndarray  # [numbers of a state]: True for flags and whole numbers
    tells: np.ndarray  # [pairs, numbers of a state]: the latents can be told apart by it
    unmoved: np.ndarray  # [pairs]: the belief is the same whatever the outcome
    latents: np.ndarray  # [pairs, 2, coordinates]
    samples: np.ndarray  # [pairs, 2, coordinates]: the mean posterior sample under either latent


def evidence(observed: Observed) -> Iterator[str]:
    """Complains if next states tell latents apart, but the belief does not move towards the truth.

    Steps are drawn many times from the same visited situation under two latents of the prior. Where
    a number of the next state differs between the two beyond doubt, filter.update is asked what it
    makes of these outcomes, from its first belief.

    A flag or a whole number that tells latents apart must move the belief wherever it does: such
    events are in the state for no other reason. A float must move it somewhere, for a filter may
    leave out what can be read from motion alone. Steps whose difference is small compared with
    their noise, and evidence that shows only in several numbers together, are not seen.
    """
    trials = try_pairs(observed)
    yield from ignored_evidence(observed, trials)
    yield from wrong_direction(observed, trials)


def try_pairs(observed: Observed) -> Trials:
    mdp = observed.mdp
    seen = take(observed.rows(), np.arange(PAIRS))
    each = np.repeat(np.arange(PAIRS), 2 * REPEATS)
    pairs = prior_latents(observed, 2 * PAIRS)
    steps = simulate(
        mdp,
        jax.random.split(jax.random.fold_in(observed.key, PAIRS_KEY), SIMULATED),
        take(seen.world.situation.state, each),
        take(seen.action, each),
        take(pairs, np.repeat(np.arange(2 * PAIRS), REPEATS)),
        first_beliefs(mdp, SIMULATED),
    )
    states = columns(steps.state).reshape(PAIRS, 2, REPEATS, -1)
    beliefs = np.asarray(steps.vector, float).reshape(PAIRS, 2 * REPEATS, -1)
    leaf, event = describe_numbers(steps.state)
    return Trials(
        leaf,
        event,
        np.stack([differ(column) for column in np.moveaxis(states, -1, 0)], 1),
        (np.ptp(beliefs, axis=1) <= tolerances(beliefs)).all(-1),
        columns(pairs).reshape(PAIRS, 2, -1),
        columns(steps.sample).reshape(PAIRS, 2, REPEATS, -1).mean(2),
    )


def describe_numbers(states: Any) -> tuple[np.ndarray, np.ndarray]:
    """Returns for each column its leaf's name, and True if it is a flag or a whole number."""
    names, events = [], []
    for name, leaf in name_leaves("next_state", states):
        if not is_key(leaf):
            size = math.prod(leaf.shape[1:])
            names += [name] * size
            events += [not jnp.issubdtype(leaf.dtype, jnp.floating)] * size
    return np.array(names), np.array(events, bool)


def tolerances(beliefs: np.ndarray) -> np.ndarray:
    """Returns for each number of a belief what may be rounding."""
    sizes = np.abs(beliefs).max((0, 1))
    return np.maximum(ROUNDING * sizes, 1e-7 * sizes.max())


def differ(column: np.ndarray) -> np.ndarray:
    """True for each pair whose two samples [pairs, 2, repeats] have different distributions.

    By Kolmogorov and Smirnov: equal ones differ as much with a probability below CHANCE. A shift
    that may be rounding does not count.
    """
    one, other = column[:, 0, :, None], column[:, 1, :, None]
    repeats = column.shape[-1]
    if not np.ptp(column) > 0:
        return np.zeros(len(column), bool)
    tolerance = ROUNDING * np.abs(column).max()
    apart = [
        (a.swapaxes(1, 2) <= a).mean(2) - (b.swapaxes(1, 2) <= a + tolerance).mean(2)
        for a, b in ((one, other), (other, one))
    ]
    return np.max(apart, (0, 2)) > math.sqrt(math.log(2 / CHANCE) / repeats)


def ignored_evidence(observed: Observed, trials: Trials) -> Iterator[str]:
    """Names the leaves of the next state that tell latents apart and leave the belief unmoved."""
    open_pairs = trials.unmoved.copy()  # those not yet explained by a complaint
    for event in (True, False):
        for leaf in dict.fromkeys(trials.leaf[trials.event == event]):
            tells = trials.tells[:, trials.leaf == leaf].any(1)
            ignored = tells & open_pairs
            always = (tells & trials.unmoved).sum() == tells.sum()
            if ignored.any() and (event or (always and ignored.sum() >= OFTEN)):
                yield ignores(observed, trials, leaf, ignored)
                open_pairs &= ~tells


def ignores(observed: Observed, trials: Trials, leaf: str, ignored: np.ndarray) -> str:
    pair = int(np.flatnonzero(ignored)[0])
    action = np.array2string(numbers(observed.rows().action)[pair], precision=3)
    one, other = (np.array2string(latent, precision=3) for latent in trials.latents[pair])
    learner = "filter.log_likelihood" if has_support(observed.mdp.filter) else "filter.update"
    return (
        f"The filter ignores {leaf}: {observed.when_row(pair)}, action {action} leads to "
        f"another {leaf} with latent {one} than with latent {other}, but filter.update gives the "
        f"same belief whatever the outcome (so in {ignored.sum()} of {len(ignored)} situations "
        f"tried). Let {learner} depend on {leaf}."
    )


def wrong_direction(observed: Observed, trials: Trials) -> Iterator[str]:
    """Complains if the mean posterior sample moves away from the latent that was simulated.

    Stands in for a log score of the true one of the two, which only a finite support can tell:
    the step from one mean sample to the other must not point against the step from one latent to
    the other. A belief that moves without learning passes; "calibration" finds it too sure.
    """
    judged = trials.tells.any(1) & ~trials.unmoved
    if judged.sum() < MANY:
        return
    spread = observed.drawn[0].std(0)
    scale = np.where(spread > 0, spread, np.inf)
    way = np.diff(trials.latents[judged] / scale, axis=1)[:, 0]
    gone = np.diff(trials.samples[judged] / scale, axis=1)[:, 0]
    along = (way * gone).sum(1)
    z = float(z_score(along))
    if z < -LIMIT:
        share = 100 * along.mean() / np.square(way).sum(1).mean()
        yield (
            f"The belief moves away from the true latent: in {judged.sum()} visited situations "
            "whose next state tells two latents apart, filter.sample after filter.update goes "
            f"{share:.1f} % of the way from one to the other (z = {z:.1f}). Compare "
            "filter.log_likelihood (its sign, the order of its arguments) with problem.step."
        )


# ---- Bayes' rule without a likelihood ------------------------------------------------------------

STARTS = 16  # first situations, each with a sequence of actions
LATENTS = SIMULATED // STARTS  # latents that are tried from each
DEPTH = 3  # steps
TELLING = 0.01  # share of the variance of a coordinate that must be predictable for it to be judged
APPROXIMATE = 1 / 4  # share by which a filter may learn less or more than it should


def by_simulation(observed: Observed) -> Iterator[str]:
    """Compares what a filter learns with what a linear regression learns from the same next states.

    From the same start and with the same actions, a few steps are simulated under many latents of
    the prior. Half of them fit a regression of the latent on the next states, the other half judge:
    truth and posterior sample are exchangeable given the next states, so for Bayes' rule both have
    the same covariance with the prediction, which is itself a function of the next states.

    This sees a gain that is too small or too large, even if the variance makes up for it, and
    readings that are left out. It does not see what no linear regression can predict, nor steps
    after the first few: "calibration" looks at those.
    """
    truth, sample, predicted = predictions(observed)
    if not len(truth):
        return
    for index, name in observed.unknown:
        possible = truth[:, index] * predicted[:, index]
        found = sample[:, index] * predicted[:, index]
        clear = possible.mean() > TELLING and z_score(possible) > LIMIT
        share = found.mean() / possible.mean() if clear else 1.0
        z = float(z_score(found - possible))
        if abs(share - 1) > APPROXIMATE and abs(z) > LIMIT:
            word = "less" if share < 1 else "more"
            cure = "Use every reading in filter.update" if share < 1 else "Lower its gain"
            yield (
                f"filter.update is not Bayes' rule: after {DEPTH} steps from the same start, "
                f"filter.sample follows what a linear regression on the next states predicts of "
                f"{name} by {100 * share:.0f} %, where the true latent follows it by 100 % "
                f"(z = {z:.1f}), so the filter learns {word} than it should. {cure}, and "
                "compare its noise with that in problem.step."
            )


def predictions(observed: Observed) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns standardised truths, posterior samples and predictions, [many, coordinates] each."""
    states, truth, sample, ended = simulate_episodes(observed)
    prior = observed.drawn[0]
    spread = np.where(prior.std(0) > 0, prior.std(0), 1.0)
    truth = (truth - prior.mean(0)) / spread
    sample = (sample - prior.mean(0)) / spread
    fit, judged = np.s_[: LATENTS // 2], np.s_[LATENTS // 2 :]
    parts = [np.zeros((3, 0, truth.shape[-1]))]
    for start in range(STARTS):
        if 0.01 < ended[start].mean() < 0.99:
            continue  # the end itself tells the latent, and no filter sees it
        inputs = standardise(states[start])
        weights, *_ = np.linalg.lstsq(inputs[fit], truth[start, fit], rcond=1e-6)
        predicted = inputs[judged] @ weights
        parts.append(np.stack([truth[start, judged], sample[start, judged], predicted]))
    truth, sample, predicted = np.concatenate(parts, 1)
    return truth, sample, predicted


def simulate_episodes(observed: Observed) -> tuple[np.ndarray, ...]:
    """Returns next states, latents, posterior samples [start, latent, ...] and what has ended.

    The actions of a recorded episode are repeated whatever happens, so they tell nothing. What has
    ended stays as it is.
    """
    mdp, episodes = observed.mdp, observed.episodes
    chosen = np.linspace(0, episodes.action.shape[1] - 1, STARTS).astype(int)
    each = np.repeat(chosen, LATENTS)
    key = jax.random.fold_in(observed.key, EPISODES_KEY)
    keys = jax.random.split(key, (DEPTH, SIMULATED))
    latents = prior_latents(observed, SIMULATED)  # each once, so that all rows are independent
    states = take(episodes.world.situation.state, (0, each))
    beliefs = first_beliefs(mdp, SIMULATED)
    now: Steps | None = None
    seen = []
    for time in range(DEPTH):
        action = episodes.action[time, each]
        later = simulate(mdp, keys[time], states, action, latents, beliefs)
        now = later if now is None else stop(now, later)
        states, latents, beliefs = now.state, now.latent, now.belief
        seen.append(columns(states))
    assert now is not None
    shape = STARTS, LATENTS, -1
    return (
        np.concatenate(seen, 1).reshape(shape),
        columns(now.latent).reshape(shape),
        columns(now.sample).reshape(shape),
        np.reshape(now.terminated, (STARTS, LATENTS)),
    )


@jax.jit
def stop(now: Steps, later: Steps) -> Steps:
    """Returns the later steps, the old ones where the episode has ended."""
    return jax.vmap(lambda now, later: select(now.terminated, now, later))(now, later)


def standardise(inputs: np.ndarray) -> np.ndarray:
    """Returns columns of zero mean and unit spread, without outliers and constant columns."""
    spread = inputs.std(0)
    varies = spread > ROUNDING * np.abs(inputs).max(0)
    inputs = (inputs[:, varies] - inputs[:, varies].mean(0)) / spread[varies]
    return np.clip(inputs, -4, 4)
