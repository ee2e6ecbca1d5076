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
class ExternalState:
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


def external_mdp(mdp: BeliefMDP, state: State) -> BeliefMDP:
    problem: Any = ExternalState(state, mdp.problem.action_low, mdp.problem.action_high)
    return BeliefMDP(problem, mdp.filter, mdp.advisor)


class EpisodeKeys(NamedTuple):
    """Keys of an episode, as plain numbers: JAX is slow to hand over its own kind."""

    key: Array  # as `rollout` plays it
    episode: Array  # of the world


class Decision(NamedTuple):
    """What a decision leaves behind."""

    action: Action
    situation: Situation
    time: Array


def start_episode(
    mdp: BeliefMDP, policy: Policy, key: Array, state: State
) -> tuple[EpisodeKeys, Decision]:
    world = rollout.start(external_mdp(mdp, state), jax.random.wrap_key_data(key))
    return EpisodeKeys(key, jax.random.key_data(world.episode)), decide(mdp, policy, key, world)


def continue_episode(
    mdp: BeliefMDP,
    policy: Policy,
    episode_keys: EpisodeKeys,
    decision: Decision,
    action: Action,
    next_state: State,
) -> Decision:
    """What was done and where it led: belief, advice and the next action follow."""
    key, episode = map(jax.random.wrap_key_data, episode_keys)
    world = World((), decision.situation, decision.time, jnp.bool_(False), jnp.float32(0), episode)
    _, world_key = rollout.step_keys(key, decision.time)
    return decide(
        mdp,
        policy,
        episode_keys.key,
        external_mdp(mdp, next_state).step(world_key, world, action)[0],
    )


def decide(mdp: BeliefMDP, policy: Policy, key: Array, world: World) -> Decision:
    policy_key, _ = rollout.step_keys(jax.random.wrap_key_data(key), world.time)
    return Decision(mdp.clip(policy(policy_key, world.situation)), world.situation, world.time)


class Pilot:
    """Filter, experts and policy at work, one decision at a time; between decisions it holds the belief.

    Given the key of an episode of `rollout` and the states of that episode, it does what was done there.
    """

    def __init__(self, mdp: BeliefMDP, policy: Policy):
        """Compiles at the first `reset`: keep it. One call of a program per decision, as little as possible in it."""
        self.mdp = mdp
        self.policy = policy
        self._begin = devices.jit_low_latency(partial(start_episode, mdp, policy))
        self._follow = devices.jit_low_latency(partial(continue_episode, mdp, policy))
        self._keys = jax.random.key(0)
        self._decision: Decision | None = None

    def reset(self, state: State, key: Key | None = None) -> None:
        """A new episode: the belief is the prior again, the coins of advisor and policy are fresh."""
        if key is None:
            self._keys, key = jax.random.split(self._keys)
        first = self._decision is None
        self._episode_keys, self._decision = self._begin(jax.random.key_data(key), state)
        if first:
            self._follow(
                self._episode_keys, self._decision, self.act(), state
            )  # compiled now and not in flight

    def act(self) -> np.ndarray:
        """Asked twice without a new observation, the answer is the same."""
        return np.asarray(self._decided().action)

    def observe(self, action: Action | np.ndarray, next_state: State) -> None:
        """What was really done, and where it led."""
        self._decision = self._follow(self._episode_keys, self._decided(), action, next_state)

    @property
    def situation(self) -> Situation:
        """State, belief and advice as the policy sees them now."""
        return self._decided().situation

    def _decided(self) -> Decision:
        if self._decision is None:
            raise UserError("The pilot knows no state yet: call reset(state) first.")
        return self._decision


def play(
    env: Any, pilot: Pilot, interpret: Interpret, seed: int | None = None, options: Any = None
) -> float:
    """The return of one episode of a Gymnasium environment whose actions are in the problem's units."""
    observation, info = env.reset(seed=seed, options=options)
    pilot.reset(interpret(observation, info))
    episode_return, over = 0.0, False
    while not over:
        action = pilot.act()
        observation, reward, terminated, truncated, info = env.step(action)
        pilot.observe(action, interpret(observation, info))
        episode_return, over = episode_return + float(reward), terminated or truncated
    return episode_return
