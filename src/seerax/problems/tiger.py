"""Tiger (Kaelbling et al., 1998), episodic: listen as long as it pays, then open the door without the tiger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from seerax import advice
from seerax.core import Action, BeliefMDP, Expert, Key, Latent, Situation, State, Step
from seerax.filters import Categorical

# ---- constants ---------------------------------------------------------------------------------------------------

LISTEN, OPEN_LEFT, OPEN_RIGHT = 0, 1, 2
SILENCE, LEFT, RIGHT = 0, 1, 2  # what was heard
LISTENING_COST, GOLD, TIGER = 1.0, 10.0, -100.0
ACCURACY = 0.85

# ---- state -------------------------------------------------------------------------------------------------------


class TigerState(NamedTuple):
    heard: Array  # SILENCE, LEFT or RIGHT: where the tiger seemed to be
    opened: Array  # 0 for none yet, else OPEN_LEFT or OPEN_RIGHT


# ---- problem -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tiger:
    """The latent is the side of the tiger: 0 left, 1 right. The action holds one vote per choice."""

    horizon: int = 100
    discount: float = 1.0
    action_low: tuple[float, ...] = (-10.0,) * 3
    action_high: tuple[float, ...] = (10.0,) * 3

    def prior(self, key: Key) -> Latent:
        return jax.random.bernoulli(key).astype(jnp.float32)

    def reset(self, key: Key, latent: Latent) -> TigerState:
        return TigerState(jnp.int32(SILENCE), jnp.int32(0))

    def step(self, key: Key, state: TigerState, action: Action, latent: Latent) -> Step:
        choice = jnp.argmax(action)
        right = jnp.where(jax.random.bernoulli(key, ACCURACY), latent, 1 - latent)
        heard = jnp.where(choice == LISTEN, LEFT + right.astype(int), SILENCE)
        opening = choice != LISTEN
        eaten = choice - OPEN_LEFT == latent
        reward = jnp.where(opening, jnp.where(eaten, TIGER, GOLD), -LISTENING_COST)
        return Step(TigerState(heard, jnp.where(opening, choice, 0)), reward, opening)

    def features(self, state: TigerState) -> Array:
        return jax.nn.one_hot(state.heard, 3)

    def senses(self, state: State, action: Action) -> Array:
        return jnp.argmax(action) == LISTEN

    def with_sensing(self, action: Action, on: Array) -> Action:
        """A vote for listening just above, or just below, any expert's."""
        return action.at[LISTEN].set(jnp.where(on, 1.1, -0.1))

    def succeeded(self, state: TigerState, latent: Latent, done: Array) -> Array:
        return done & (state.opened - OPEN_LEFT != latent)

    def log_likelihood(self, state: State, action: Action, next_state: TigerState, latent: Latent) -> Array:
        agrees = next_state.heard - LEFT == latent
        told = jnp.log(jnp.where(agrees, ACCURACY, 1 - ACCURACY))
        return jnp.where(next_state.heard == SILENCE, 0.0, told)

    def draw(self, ax: Any, situation: Situation, action: Action, latent: Latent) -> None:
        raise NotImplementedError


# ---- expert ------------------------------------------------------------------------------------------------------


def door_expert() -> Expert:
    """Told where the tiger is, votes for the other door."""

    def act(state: TigerState, side: Latent) -> Action:
        return jnp.array([0.0, side, 1 - side])

    return Expert(plan=lambda side: side, act=act)


# ---- builder -----------------------------------------------------------------------------------------------------


def tiger(discount: float = 1.0) -> BeliefMDP:
    problem = Tiger(discount=discount)
    filter = Categorical(jnp.array([0.0, 1.0]), problem.log_likelihood)
    ensemble = advice.sometimes(problem, advice.weighted(filter, door_expert()))
    return BeliefMDP(problem, filter, ensemble, door_expert())
