"""The nouns: a family of MDPs indexed by a hidden latent, and the belief MDP that an agent lives in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from seerax.numerics.trees import all_finite, select, strong_dtype

Key = Array
Latent = Any  # phi, a pytree: the one unknown
State = Any  # s, a pytree: everything visible, the last sensor reading included
Belief = Any  # b, a pytree
Plan = Any  # what an expert works out beforehand, a pytree
Action = Array
Bonus = Callable[
    ["Filter", Belief, Belief, Array], Array
]  # (filter, b, b', done) -> extra reward while training


class Step(NamedTuple):
    """What one step of a problem gives. `done` says the task ended, not that the clock ran out."""

    state: State
    reward: Array
    terminated: Array


class Moment(NamedTuple):
    """When an advisor is asked: `key` is fresh every step, `episode` stays for the whole episode."""

    key: Key
    episode: Key
    time: Array


Advisor = Callable[[Moment, State, Belief], Action]  # pi_e, the ensemble


class Expert(NamedTuple):
    """Told phi: plans once (slow, offline), acts fast (online)."""

    plan: Callable[[Latent], Plan]
    act: Callable[[State, Plan], Action]


class Problem(Protocol):
    """A family of MDPs indexed by phi. The latent is an argument, never part of the state.

    Optional methods, used where present:
      evolve(key, state, action, next_state, latent) -> Latent   phi may move; by default it stays
      senses(state, action) -> bool                              does this action sense?
      with_sensing(action, on) -> action                         the same action, sensing switched on or off
      succeeded(state, latent, done) -> bool                     asked once, at the end of an episode
      draw(ax, situation, action, latent)                        one picture of one moment
      place(state) -> (x, y)                                     where the agent is in that picture, for its trail
      draw_place(ax)                                             the picture without anybody in it, for maps
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

    Optional: mean(belief) -> Latent, for the advisor `of_mean`; entropy(belief) in [0, 1], for `entropy_bonus` and
    `gain_bonus`; features(belief) -> Array, what a network sees of it where `vector` is not the best view.
    """

    def init(self) -> Belief: ...
    def update(self, belief: Belief, state: State, action: Action, next_state: State) -> Belief: ...
    def vector(self, belief: Belief) -> Array: ...
    def mode(self, belief: Belief) -> Latent: ...
    def sample(self, key: Key, belief: Belief) -> Latent: ...


class Situation(NamedTuple):
    """The three boxes that enter the paper's network."""

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


@dataclass(frozen=True)
class BeliefMDP:
    """Problem, filter and advisor as one MDP over (state, belief, advice), fixed before training begins."""

    problem: Problem
    filter: Filter
    advisor: Advisor
    expert: Expert | None = None  # told phi: the clairvoyant line, posterior sampling
    bonus: Bonus | None = None

    def reset(self, key: Key) -> World:
        """(s_0, phi_0) ~ P_0, and a first piece of advice."""
        key, asked = jax.random.split(key)
        return self._ask(asked, self._fresh(key))

    def step(self, key: Key, world: World, action: Action) -> tuple[World, Outcome]:
        """Clip, step, filter; start afresh instead if the world is over; then ask for advice, once."""
        moved_key, fresh_key, asked = jax.random.split(key, 3)
        moved, outcome = self._move(moved_key, world, self.clip(action))
        fresh = self._fresh(fresh_key)
        following = select(world.over, fresh, moved)
        outcome = select(world.over, jax.tree.map(jnp.zeros_like, outcome), outcome)
        return self._ask(asked, following), outcome

    def clip(self, action: Action) -> Action:
        return jnp.clip(
            action, jnp.asarray(self.problem.action_low), jnp.asarray(self.problem.action_high)
        )

    @property
    def action_size(self) -> int:
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
        (state, belief, advice), latent = world.situation, world.latent
        next_state, reward, terminated = self.problem.step(step_key, state, action, latent)
        next_state = jax.tree.map(strong_dtype, next_state)
        next_belief = self.filter.update(belief, state, action, next_state)
        evolve = getattr(self.problem, "evolve", None)
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
        return World(
            next_latent, situation, time, over, world.episode_return + reward, world.episode
        ), outcome

    def _ask(self, key: Key, world: World) -> World:
        """Advice out of bounds is clipped; what is not a number stays so, for training and evaluation to refuse."""
        state, belief, _ = world.situation
        advice = self.advisor(Moment(key, world.episode, world.time), state, belief)
        return world._replace(situation=Situation(state, belief, self.clip(advice)))


def finite_parts(situation: Situation) -> Situation:
    """Part by part, whether it is finite: state, belief, advice."""
    return Situation(*[all_finite(part) for part in situation])
