"""What turns belief and experts into one recommendation: pi_e(s, b)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seerax.core import (
    Action,
    Advisor,
    Belief,
    Expert,
    Key,
    Latent,
    Moment,
    Plan,
    Situation,
    State,
    World,
)
from seerax.filters import Categorical
from seerax.numerics.trees import ravel

GaussianAct = Callable[
    [State, Plan], tuple[Action, Array]
]  # (mean, covariance) of a stochastic expert


def plans(expert: Expert, support: Latent, axis: int = 0) -> Plan:
    """Returns one plan for every entry of the support, stacked.

    The slow part of an expert happens here, once.

    Rows are cut and stacked by numpy, which has no programs to compile.
    """
    whole = jax.tree.map(np.asarray, support)
    count = jax.tree.leaves(whole)[0].shape[0]
    each = [
        expert.plan(jax.tree.map(lambda v, i=i: jnp.asarray(v[i]), whole)) for i in range(count)
    ]
    return jax.tree.map(lambda *rows: jnp.asarray(np.stack(rows, axis)), *each)


def tabulate(expert: Expert, support: Latent) -> Expert:
    """Returns the same expert with its plans computed beforehand; any latent gets the plan of the
    nearest entry.
    """
    table = plans(expert, support)
    entries = jax.vmap(ravel)(support)

    @jax.jit
    def plan(latent: Latent) -> Plan:
        nearest = jnp.argmin(jnp.square(entries - ravel(latent)).sum(-1))
        return jax.tree.map(lambda rows: rows[nearest], table)

    return Expert(plan, expert.act)


def weighted(filter: Categorical, expert: Expert) -> Advisor:
    """Returns the ensemble sum_i b(phi_i) * a_i.

    What all experts look up at one place lies side by side in memory, along the last axis.
    """
    table = plans(expert, filter.support, axis=-1)

    def advise(moment: Moment, state: State, belief: Belief) -> Action:
        actions = jax.vmap(expert.act, (None, -1), out_axes=-1)(state, table)
        weights = jnp.exp(belief)
        return jnp.stack([(row * weights).sum() for row in actions])

    return advise


def precision_weighted(
    filter: Categorical, plan: Callable[[Latent], Plan], act: GaussianAct
) -> Advisor:
    """Returns the MAP action of Gaussian experts, [sum_i b_i S_i^-1]^-1 sum_i b_i S_i^-1 mu_i (the
    paper's appendix).
    """
    table = plans(Expert(plan, None), filter.support)  # type: ignore[arg-type]

    def advise(moment: Moment, state: State, belief: Belief) -> Action:
        mu, sigma = jax.vmap(act, (None, 0))(state, table)
        precision = filter.vector(belief)[:, None, None] * jnp.linalg.inv(sigma)
        return jnp.linalg.solve(precision.sum(0), jnp.einsum("kij,kj->i", precision, mu))

    return advise


def most_likely(filter: Any, expert: Expert) -> Advisor:
    """Returns the MAP expert: the one for the likeliest latent."""
    return lambda moment, state, belief: expert.act(state, expert.plan(filter.mode(belief)))


def at_mean(filter: Any, expert: Expert) -> Advisor:
    """Returns the expert for the belief-weighted mean latent."""
    return lambda moment, state, belief: expert.act(state, expert.plan(filter.mean(belief)))


def posterior_sampling(
    filter: Any, expert: Expert, per: str | Callable[[State], Array] = "step"
) -> Advisor:
    """Returns posterior sampling, which believes one draw of the latent.

    per="step" draws afresh every step; per="episode" draws once, from the initial belief, and
    believes it to the end; a function of the state holds the draw for as long as its value and the
    belief stay the same.
    """

    def draw(moment: Moment, state: State, belief: Belief) -> Latent:
        if per == "episode":
            return filter.sample(moment.episode, filter.init())
        if callable(per):
            return filter.sample(jax.random.fold_in(moment.episode, per(state)), belief)
        return filter.sample(moment.key, belief)

    return lambda moment, state, belief: expert.act(state, expert.plan(draw(moment, state, belief)))


def sense_randomly(problem: Any, advisor: Advisor, probability: float = 0.5) -> Advisor:
    """Returns the advice with sensing switched on with the given probability and off otherwise."""

    def advise(moment: Moment, state: State, belief: Belief) -> Action:
        coin, rest = jax.random.split(moment.key)
        on = jax.random.bernoulli(coin, probability)
        return problem.with_sensing(advisor(moment._replace(key=rest), state, belief), on)

    return advise


def sense_first(problem: Any, advisor: Advisor, steps: int) -> Advisor:
    """Returns the advice with sensing always on in the first steps of an episode and off
    afterwards.
    """

    def advise(moment: Moment, state: State, belief: Belief) -> Action:
        return problem.with_sensing(advisor(moment, state, belief), moment.time < steps)

    return advise


def follow_advice(key: Key, situation: Situation) -> Action:
    """Follows the advice as it is: the policy of the ensemble."""
    return situation.advice


class Clairvoyant(NamedTuple):
    """The expert that is told phi: the upper line.

    It is not a policy, because it reads the whole world.
    """

    expert: Expert

    def __call__(self, key: Key, world: World) -> Action:
        return self.expert.act(world.situation.state, self.expert.plan(world.latent))
