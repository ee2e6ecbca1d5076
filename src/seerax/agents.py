"""What a network sees and what its output means: a method is no more than that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import jax.numpy as jnp
from jax import Array

from seerax.core import Action, BeliefMDP, Situation, ability
from seerax.errors import UserError, unknown
from seerax.numerics.trees import ravel

View = Callable[[BeliefMDP, Situation], Array]
Compose = Callable[[Situation, Array], Action]
Scale = float | tuple[float, ...]


def state(mdp: BeliefMDP, situation: Situation) -> Array:
    """Views the state as the problem's features."""
    return mdp.problem.features(situation.state)


def belief(mdp: BeliefMDP, situation: Situation) -> Array:
    """Views the belief as the filter's features or, without them, its vector."""
    view = ability(mdp.filter, "features") or mdp.filter.vector
    return view(situation.belief)


def advice(mdp: BeliefMDP, situation: Situation) -> Array:
    """Views the advice as it is."""
    return situation.advice


def mode(mdp: BeliefMDP, situation: Situation) -> Array:
    """Views the most likely latent as a vector."""
    return ravel(mdp.filter.mode(situation.belief))


def seen(*views: View) -> View:
    """Returns a view that concatenates these views."""
    return lambda mdp, situation: jnp.concatenate([view(mdp, situation) for view in views])


def residual(scale: Scale = 1.0) -> Compose:
    """Returns the paper's sum, a = a_e + scale * a_r."""
    return lambda situation, raw: situation.advice + jnp.asarray(scale) * raw


def blend(weight: float) -> Compose:
    """Returns the released code's mixture, a = (1 - w) * a_e + w * a_r. It shrinks the advice."""
    return lambda situation, raw: (1 - weight) * situation.advice + weight * raw


def direct(scale: Scale = 1.0) -> Compose:
    """Returns a composition without advice, a = scale * raw."""
    return lambda situation, raw: jnp.asarray(scale) * raw


@dataclass(frozen=True)
class Agent:
    """A method: what its network sees, what its output corrects, and what that means as an action."""

    inputs: View
    compose: Compose
    base: Literal["advice", "nothing"] = "nothing"  # what an output of zero stands for
    name: str = ""

    @property
    def is_residual(self) -> bool:
        """True if the untrained agent follows the advice."""
        return self.base == "advice"

    def with_compose(self, compose: Compose) -> Agent:
        return replace(self, compose=compose)

    def with_scale(self, scale: Scale) -> Agent:
        """Returns the same agent with its raw output scaled: one number, or one per action
        dimension.
        """
        return self.with_compose(residual(scale) if self.is_residual else direct(scale))

    def with_blend(self, weight: float) -> Agent:
        """Returns the same agent with the released code's mixture instead of the sum."""
        if not self.is_residual:
            raise UserError(f"{self.name} takes no advice, so there is nothing to blend with.")
        return self.with_compose(blend(weight))


brpo = Agent(seen(state, belief, advice), residual(), "advice", "brpo")
brpo_without_belief = Agent(seen(state, advice), residual(), "advice", "brpo_without_belief")
bpo = Agent(seen(state, belief), direct(), "nothing", "bpo")
upmle = Agent(seen(state, mode), direct(), "nothing", "upmle")

AGENTS = {agent.name: agent for agent in (brpo, brpo_without_belief, bpo, upmle)}


def find_agent(agent: str | Agent) -> Agent:
    """Returns the agent of this name; an agent of one's own is returned as it is."""
    if isinstance(agent, Agent):
        return agent
    if agent not in AGENTS:
        raise unknown("agent", agent, AGENTS)
    return AGENTS[agent]
