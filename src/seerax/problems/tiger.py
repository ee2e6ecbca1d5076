"""Tiger (Kaelbling et al., 1998), episodic: listen, then open the door without the tiger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from seerax import advice
from seerax.core import Action, BeliefMDP, Expert, Key, Latent, Situation, State, Step
from seerax.filters import Categorical

# ---- constants -----------------------------------------------------------------------------------

LISTEN, OPEN_LEFT, OPEN_RIGHT = 0, 1, 2
SILENCE, LEFT, RIGHT = 0, 1, 2  # what was heard
LISTENING_COST, GOLD, TIGER = 1.0, 10.0, -100.0
ACCURACY = 0.85

# ---- state ---------------------------------------------------------------------------------------


class TigerState(NamedTuple):
    """What was heard in the last step, and which door was opened."""

    heard: Array  # SILENCE, LEFT or RIGHT: where the tiger seemed to be
    opened: Array  # 0 for none yet, else OPEN_LEFT or OPEN_RIGHT


# ---- problem -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tiger:
    """Tiger, where the latent is its side, 0 left or 1 right; an action has one vote per choice."""

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
        """Returns the action with a vote for listening just above, or just below, any expert's."""
        return action.at[LISTEN].set(jnp.where(on, 1.1, -0.1))

    def succeeded(self, state: TigerState, latent: Latent, terminated: Array) -> Array:
        return terminated & (state.opened - OPEN_LEFT != latent)

    def log_likelihood(
        self, state: State, action: Action, next_state: TigerState, latent: Latent
    ) -> Array:
        agrees = next_state.heard - LEFT == latent
        told = jnp.log(jnp.where(agrees, ACCURACY, 1 - ACCURACY))
        return jnp.where(next_state.heard == SILENCE, 0.0, told)

    def draw(self, ax: Any, situation: Situation, action: Action, latent: Latent) -> None:
        draw_tiger(self, ax, situation, action, latent)


# ---- expert --------------------------------------------------------------------------------------


def door_expert() -> Expert:
    """Creates the expert that votes for the door without the tiger."""

    def act(state: TigerState, side: Latent) -> Action:
        return jnp.array([0.0, side, 1 - side])

    return Expert(plan=lambda side: side, act=act)


# ---- builder -------------------------------------------------------------------------------------


def tiger(discount: float = 1.0) -> BeliefMDP:
    """Builds a belief over both sides, the belief-weighted sum of experts and random sensing."""
    problem = Tiger(discount=discount)
    filter = Categorical(jnp.array([0.0, 1.0]), problem.log_likelihood)
    ensemble = advice.sense_randomly(problem, advice.weighted(filter, door_expert()))
    return BeliefMDP(problem, filter, ensemble, door_expert())


# ---- drawing -------------------------------------------------------------------------------------

DOOR, WIDTH, HEIGHT = 0.62, 0.8, 1.1  # the doors' middles are at -DOOR and DOOR
CHOICES = ("listen", "open left", "open right")


def draw_tiger(tiger: Tiger, ax: Any, situation: Situation, action: Action, latent: Latent) -> None:
    """Draws the tiger at each door with its probability as opacity, sounds and votes.

    A star marks the true side.
    """
    from seerax.drawing import Pen, chances  # imports matplotlib, which only drawing needs

    state, belief, advised = situation
    pen = Pen(ax)
    pen.page(-1.25, 1.25, -1.4, 1.1)
    for side, chance in enumerate(chances(belief)):
        draw_door(pen, side, chance, state.opened == OPEN_LEFT + side, side == latent)
    if state.heard != SILENCE:
        draw_roar(pen, state.heard - LEFT)
    if action.any() and tiger.senses(state, action):
        pen.ring((0, -0.55), 0.13, "sensing", 2.5)
    pen.disc((0, -0.55), 0.08, "agent", name="agent")
    draw_votes(pen, action, advised)


def draw_door(pen: Any, side: int, chance: float, opened: bool, tiger_here: bool) -> None:
    """Draws a door: the belief if it is closed, what is behind it if it is open."""
    x = DOOR * (2 * side - 1)
    y = 0.3
    corner = (x - WIDTH / 2, y - HEIGHT / 2)
    pen.box(corner, WIDTH, HEIGHT, "wall" if opened else "paper", "wall", round=0.04, line=3)
    if opened and not tiger_here:
        pen.disc((x, y), 0.24, "belief")
        pen.text((x, y), f"+{GOLD:g}", 13, weight="bold")
    else:
        pen.tiger((x, y), 0.27, 1.0 if opened else chance)
    if not opened:
        pen.ring((x - 0.3 * (2 * side - 1), y - 0.15), 0.035, "wall", 2)
        pen.text((x, y - 0.44), f"{100 * chance:.0f} %", 10)
    if tiger_here:
        pen.star((x, y + HEIGHT / 2 + 0.1), 10)


def draw_roar(pen: Any, side: int) -> None:
    """Draws the sound from one side."""
    x = DOOR * (2 * side - 1)
    y = -0.22
    for radius in (0.12, 0.2, 0.28):
        pen.arc((x, y), radius, 270, "sensing", 2)


def draw_votes(pen: Any, action: Action, advised: Action) -> None:
    """Draws one bar per choice for the action and one for the advice, scaled to the longest."""
    most = max(1.0, float(abs(action).max()), float(abs(advised).max()))
    for choice, words in enumerate(CHOICES):
        x = 0.8 * (choice - 1)
        voted = 0.22 * float(action[choice]) / most
        pen.box((x - 0.12, -1.04), 0.14, voted, "action", "action", line=0)
        voted = 0.22 * float(advised[choice]) / most
        pen.box((x + 0.05, -1.04), 0.06, voted, "advice", "advice", line=0)
        pen.lines([[(x - 0.2, -1.04), (x + 0.2, -1.04)]], "faint")
        pen.text((x, -1.33), words, 9)
