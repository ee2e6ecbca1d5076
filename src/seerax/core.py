"""The nouns: a family of MDPs indexed by a hidden latent, and the belief MDP of an agent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from seerax.errors import unknown
from seerax.numerics.trees import all_finite, select, strong_dtype

Key = Array
Latent = Any  # phi, a pytree: the one unknown
State = Any  # s, a pytree: everything visible, the last sensor reading included
Belief = Any  # b, a pytree
Plan = Any  # what an expert computes beforehand, a pytree
Action = Array
# (filter, b, b', terminated) -> extra reward while training
Bonus = Callable[["Filter", Belief, Belief, Array], Array]


class Step(NamedTuple):
    """What one step of a problem gives.

    `terminated` says that the task ended, not that the clock ran out.
    """

    state: State
    reward: Array
    terminated: Array


class Moment(NamedTuple):
    """When an advisor is asked; `key` is fresh every step, `episode` is the same all episode."""

    key: Key
    episode: Key
    time: Array


Advisor = Callable[[Moment, State, Belief], Action]  # pi_e, the ensemble


class Expert(NamedTuple):
    """Somebody who knows phi: plans once (slow, offline), acts fast (online)."""

    plan: Callable[[Latent], Plan]
    act: Callable[[State, Plan], Action]


class Ability(NamedTuple):
    """An optional member of a problem, a state or a filter: what it takes and what it gives."""

    arguments: str | None  # of a method; None for an attribute
    gives: str


OPTIONAL_PROBLEM = {
    "evolve": Ability(
        "key, state, action, next_state, latent", "the next latent; without it the latent stays"
    ),
    "senses": Ability("state, action", "whether this action senses"),
    "with_sensing": Ability("action, on", "the same action with sensing switched on or off"),
    "succeeded": Ability(
        "state, latent, terminated", "whether the episode succeeded; asked once, at its end"
    ),
    "draw": Ability("ax, situation, action, latent", "a picture of one moment"),
    "place": Ability("state", "(x, y) of the agent in that picture, for its trail"),
    "draw_place": Ability("ax", "the picture without an agent, for sensing maps"),
    "half": Ability(None, "half the side of that picture, which shows [-half, half]^2"),
}
OPTIONAL_STATE = {  # of the state of a problem that has draw_place
    "position": Ability(None, "(x, y) of the agent, for sensing maps"),
    "sensed": Ability(None, "whether the step that led here sensed, for sensing maps"),
}
OPTIONAL_FILTER = {
    "mean": Ability("belief", "the mean latent, for the advisor `at_mean`"),
    "entropy": Ability("belief", "a number in [0, 1], for the entropy and information bonuses"),
    "features": Ability("belief", "a vector that a network sees in place of `vector`"),
    "log_likelihood": Ability(
        "state, action, next_state, latent",
        "log P(s' | s, a, phi), of filters over a finite support; one value per factor if factored",
    ),
}
ABILITIES = OPTIONAL_PROBLEM | OPTIONAL_STATE | OPTIONAL_FILTER


def ability(thing: Any, name: str) -> Any:
    """Returns an optional member of a problem, a state or a filter, or None if it is absent."""
    if name not in ABILITIES:
        raise unknown("optional member", name, ABILITIES)
    return getattr(thing, name, None)


class Problem(Protocol):
    """A family of MDPs indexed by phi. The latent is an argument, never part of the state.

    Optional members, used where present (`OPTIONAL_PROBLEM`, read with `ability`):
      evolve(key, state, action, next_state, latent)   the next latent; without it the latent stays
      senses(state, action)                            whether this action senses
      with_sensing(action, on)                         the same action with sensing on or off
      succeeded(state, latent, terminated)             whether the episode succeeded, at its end
      draw(ax, situation, action, latent)              a picture of one moment
      place(state)                                     (x, y) of the agent in it, for its trail
      draw_place(ax)                                   the picture without an agent, for maps
      half                                             that picture shows [-half, half]^2
    Sensing maps need draw_place, half and two fields of the state (`OPTIONAL_STATE`):
      position                                         (x, y) of the agent
      sensed                                           whether the step that led here sensed
    """

    @property
    def horizon(self) -> int: ...
    @property
    def discount(self) -> float: ...
    @property
    def action_low(self) -> Any: ...
    @property
    def action_high(self) -> Any: ...

    def prior(self, key: Key) -> Latent: ...
    def reset(self, key: Key, latent: Latent) -> State: ...
    def step(self, key: Key, state: State, action: Action, latent: Latent) -> Step: ...
    def features(self, state: State) -> Array: ...


class Filter(Protocol):
    """The paper's psi(s, b, a, s'): what turns observations into belief.

    Optional methods, used where present (`OPTIONAL_FILTER`, read with `ability`):
      mean(belief)       the mean latent, for the advisor `at_mean`
      entropy(belief)    a number in [0, 1], for the entropy and information bonuses
      features(belief)   a vector that a network sees in place of `vector`
      log_likelihood(state, action, next_state, latent)
                         log P(s' | s, a, phi), of filters over a finite support
    """

    def init(self) -> Belief: ...
    def update(self, belief: Belief, state: State, action: Action, next_state: State) -> Belief: ...
    def vector(self, belief: Belief) -> Array: ...
    def mode(self, belief: Belief) -> Latent: ...
    def sample(self, key: Key, belief: Belief) -> Latent: ...


class Situation(NamedTuple):
    """State, belief and advice: the three boxes that enter the paper's network."""

    state: State
    belief: Belief
    advice: Action


Policy = Callable[[Key, Situation], Action]


class World(NamedTuple):
    """One running episode. Only the simulator holds it: it knows the latent."""

    latent: Latent
    situation: Situation
    time: Array
    over: Array  # ended, by the task or by the clock; the next step starts afresh
    episode_return: Array  # return so far
    episode: Key


class Outcome(NamedTuple):
    """What a step earned. The bonus stands apart from the reward, so evaluation cannot count it."""

    reward: Array
    bonus: Array
    terminated: Array
    over: Array


@dataclass(frozen=True, repr=False)
class BeliefMDP:
    """Problem, filter and advisor as one MDP over (state, belief, advice), fixed before training."""

    problem: Problem
    filter: Filter
    advisor: Advisor
    expert: Expert | None = None  # told phi: the clairvoyant line, posterior sampling
    bonus: Bonus | None = None
    name: str = ""  # under which `seerax.make` finds it

    def reset(self, key: Key) -> World:
        """Draws (s_0, phi_0) ~ P_0 and asks for a first piece of advice."""
        key, asked = jax.random.split(key)
        return self._ask(asked, self._fresh(key))

    def step(self, key: Key, world: World, action: Action) -> tuple[World, Outcome]:
        """Clips, steps and filters, or starts afresh after the end; then asks once for advice."""
        moved_key, fresh_key, asked = jax.random.split(key, 3)
        moved, outcome = self._move(moved_key, world, self.clip(action))
        fresh = self._fresh(fresh_key)
        following = select(world.over, fresh, moved)
        outcome = select(world.over, jax.tree.map(jnp.zeros_like, outcome), outcome)
        return self._ask(asked, following), outcome

    def clip(self, action: Action) -> Action:
        """Clips an action to the problem's bounds."""
        return jnp.clip(
            action, jnp.asarray(self.problem.action_low), jnp.asarray(self.problem.action_high)
        )

    def __repr__(self) -> str:
        name = self.name or type(self.problem).__name__
        return f"<BeliefMDP: {name}, {self.action_size} actions, horizon {self.problem.horizon}>"

    @property
    def action_size(self) -> int:
        """The number of dimensions of an action."""
        return int(jnp.shape(jnp.asarray(self.problem.action_low))[0])

    def with_advisor(self, advisor: Advisor) -> BeliefMDP:
        return replace(self, advisor=advisor)

    def with_bonus(self, bonus: Bonus | None) -> BeliefMDP:
        return replace(self, bonus=bonus)

    def _fresh(self, key: Key) -> World:
        prior_key, reset_key, episode = jax.random.split(key, 3)
        latent = self.problem.prior(prior_key)
        state = jax.tree.map(strong_dtype, self.problem.reset(reset_key, latent))
        nothing = jnp.zeros(self.action_size)
        situation = Situation(state, self.filter.init(), nothing)
        return World(latent, situation, jnp.int32(0), jnp.bool_(False), jnp.float32(0), episode)

    def _move(self, key: Key, world: World, action: Action) -> tuple[World, Outcome]:
        step_key, evolve_key = jax.random.split(key)
        state, belief, advice = world.situation
        latent = world.latent
        next_state, reward, terminated = self.problem.step(step_key, state, action, latent)
        next_state = jax.tree.map(strong_dtype, next_state)
        next_belief = self.filter.update(belief, state, action, next_state)
        evolve = ability(self.problem, "evolve")
        next_latent = evolve(evolve_key, state, action, next_state, latent) if evolve else latent
        time = world.time + 1
        over = terminated | (time >= self.problem.horizon)
        reward = jnp.asarray(reward, jnp.float32)
        bonus = (
            self.bonus(self.filter, belief, next_belief, terminated)
            if self.bonus
            else jnp.float32(0)
        )
        outcome = Outcome(reward, bonus, jnp.asarray(terminated), over)
        situation = Situation(next_state, next_belief, advice)
        episode_return = world.episode_return + reward
        following = World(next_latent, situation, time, over, episode_return, world.episode)
        return following, outcome

    def _ask(self, key: Key, world: World) -> World:
        """Clips advice to the bounds; NaN stays NaN, for training and evaluation to refuse."""
        state, belief, _ = world.situation
        advice = self.advisor(Moment(key, world.episode, world.time), state, belief)
        return world._replace(situation=Situation(state, belief, self.clip(advice)))


def finite_parts(situation: Situation) -> Situation:
    """Returns for each part (state, belief, advice) whether it is finite."""
    return Situation(*[all_finite(part) for part in situation])
