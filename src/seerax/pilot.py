"""Deciding in somebody else's loop: a robot's, or that of a Gymnasium environment that we did not write.

    experiment, policy = runs.load_policy(path)
    pilot = Pilot(policy.mdp, policy)
    pilot.reset(state)
    while ...:
        action = pilot.act()
        ...                                   # the world moves
        pilot.observe(action, next_state)

States are the problem's own; the caller makes them from what its sensors say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from seerax import rollout
from seerax.compute import devices
from seerax.core import Action, BeliefMDP, Key, Latent, Policy, Situation, State, Step, World
from seerax.errors import UserError

Interpret = Callable[
    [Any, dict[str, Any]], State
]  # (observation, info) of somebody's environment -> our state


@dataclass(frozen=True)
class Told:
    """A problem as a pilot meets it: the state is told, the latent is not, and the clock is somebody else's."""

    state: State  # that follows, or that the episode begins with
    action_low: Any
    action_high: Any
    horizon: int = np.iinfo(np.int32).max

    def prior(self, key: Key) -> Latent:
        return ()

    def reset(self, key: Key, latent: Latent) -> State:
        return self.state

    def step(self, key: Key, state: State, action: Action, latent: Latent) -> Step:
        return Step(self.state, jnp.float32(0), jnp.bool_(False))


def told(mdp: BeliefMDP, state: State) -> BeliefMDP:
    problem: Any = Told(state, mdp.problem.action_low, mdp.problem.action_high)
    return BeliefMDP(problem, mdp.filter, mdp.advisor)


class Coins(NamedTuple):
    """Keys of an episode, as plain numbers: JAX is slow to hand over its own kind."""

    key: Array  # as `rollout` plays it
    episode: Array  # of the world


class Flight(NamedTuple):
    """What a decision leaves behind."""

    action: Action
    situation: Situation
    time: Array


def begin(mdp: BeliefMDP, policy: Policy, key: Array, state: State) -> tuple[Coins, Flight]:
    world = rollout.start(told(mdp, state), jax.random.wrap_key_data(key))
    return Coins(key, jax.random.key_data(world.episode)), decided(mdp, policy, key, world)


def follow(
    mdp: BeliefMDP, policy: Policy, coins: Coins, flight: Flight, action: Action, next_state: State
) -> Flight:
    """What was done and where it led: belief, advice and the next action follow."""
    key, episode = map(jax.random.wrap_key_data, coins)
    world = World((), flight.situation, flight.time, jnp.bool_(False), jnp.float32(0), episode)
    _, world_key = rollout.episode_key(key, flight.time)
    return decided(mdp, policy, coins.key, told(mdp, next_state).step(world_key, world, action)[0])


def decided(mdp: BeliefMDP, policy: Policy, key: Array, world: World) -> Flight:
    policy_key, _ = rollout.episode_key(jax.random.wrap_key_data(key), world.time)
    return Flight(mdp.clip(policy(policy_key, world.situation)), world.situation, world.time)


class Pilot:
    """Filter, experts and policy at work, one decision at a time; between decisions it holds the belief.

    Given the key of an episode of `rollout` and the states of that episode, it does what was done there.
    """

    def __init__(self, mdp: BeliefMDP, policy: Policy):
        """Compiles at the first `reset`: keep it. One call of a program per decision, as little as possible in it."""
        self.mdp = mdp
        self.policy = policy
        self._begin = devices.jit_low_latency(partial(begin, mdp, policy))
        self._follow = devices.jit_low_latency(partial(follow, mdp, policy))
        self._keys = jax.random.key(0)
        self._flight: Flight | None = None

    def reset(self, state: State, key: Key | None = None) -> None:
        """A new episode: the belief is the prior again, the coins of advisor and policy are fresh."""
        if key is None:
            self._keys, key = jax.random.split(self._keys)
        first = self._flight is None
        self._coins, self._flight = self._begin(jax.random.key_data(key), state)
        if first:
            self._follow(
                self._coins, self._flight, self.act(), state
            )  # compiled now and not in flight

    def act(self) -> np.ndarray:
        """Asked twice without a new observation, the answer is the same."""
        return np.asarray(self._flying().action)

    def observe(self, action: Action | np.ndarray, next_state: State) -> None:
        """What was really done, and where it led."""
        self._flight = self._follow(self._coins, self._flying(), action, next_state)

    @property
    def situation(self) -> Situation:
        """State, belief and advice as the policy sees them now."""
        return self._flying().situation

    def _flying(self) -> Flight:
        if self._flight is None:
            raise UserError("The pilot knows no state yet: call reset(state) first.")
        return self._flight


def play(
    env: Any, pilot: Pilot, interpret: Interpret, seed: int | None = None, options: Any = None
) -> float:
    """The return of one episode of a Gymnasium environment whose actions are in the problem's units."""
    observation, info = env.reset(seed=seed, options=options)
    pilot.reset(interpret(observation, info))
    score, over = 0.0, False
    while not over:
        action = pilot.act()
        observation, reward, terminated, truncated, info = env.step(action)
        pilot.observe(action, interpret(observation, info))
        score, over = score + float(reward), terminated or truncated
    return score
