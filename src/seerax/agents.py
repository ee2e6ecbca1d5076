"""What a network sees and what its output means: a method is no more than that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax.numpy as jnp
from jax import Array

from seerax.core import Action, BeliefMDP, Situation
from seerax.numerics.trees import ravel

View = Callable[[BeliefMDP, Situation], Array]
Compose = Callable[[Situation, Array], Action]


def state(mdp: BeliefMDP, situation: Situation) -> Array:
    return mdp.problem.features(situation.state)


def belief(mdp: BeliefMDP, situation: Situation) -> Array:
    view = getattr(mdp.filter, "features", mdp.filter.vector)
    return view(situation.belief)


def advice(mdp: BeliefMDP, situation: Situation) -> Array:
    return situation.advice


def mode(mdp: BeliefMDP, situation: Situation) -> Array:
    """The most likely latent, as a vector."""
    return ravel(mdp.filter.mode(situation.belief))


def seen(*views: View) -> View:
    """These views side by side, as one vector."""
    return lambda mdp, situation: jnp.concatenate([view(mdp, situation) for view in views])


def residual(scale: float | tuple[float, ...] = 1.0) -> Compose:
    """The paper's sum: a = a_e + scale * a_r."""
    return lambda situation, raw: situation.advice + jnp.asarray(scale) * raw


def blend(weight: float) -> Compose:
    """The released code's mixture: a = (1 - w) * a_e + w * a_r. It shrinks the advice."""
    return lambda situation, raw: (1 - weight) * situation.advice + weight * raw


def direct(scale: float | tuple[float, ...] = 1.0) -> Compose:
    """No advice: a = scale * raw."""
    return lambda situation, raw: jnp.asarray(scale) * raw


@dataclass(frozen=True)
class Agent:
    """A method: what its network sees, and what its raw output means as an action."""

    inputs: View
    compose: Compose

    def with_compose(self, compose: Compose) -> Agent:
        return replace(self, compose=compose)


brpo = Agent(seen(state, belief, advice), residual())
brpo_without_belief = Agent(seen(state, advice), residual())
bpo = Agent(seen(state, belief), direct())
upmle = Agent(seen(state, mode), direct())

AGENTS = {"brpo": brpo, "brpo_without_belief": brpo_without_belief, "bpo": bpo, "upmle": upmle}
