"""Decisions in an external loop: a robot's, or that of an external Gymnasium environment.

    pilot = seerax.Pilot(seerax.load("maze4/brpo"))
    pilot.reset(state)
    while ...:
        action = pilot.act()
        ...                                   # the world moves
        pilot.observe(action, next_state)

States are the problem's own; the caller builds them from its sensor readings.
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

# (observation, info) of an external environment -> state of our problem
Interpret = Callable[[Any, dict[str, Any]], State]


@dataclass(frozen=True)
class ExternalState:
    """A problem with states and a clock from outside, and an unknown latent."""

    state: State  # the next one, or the first one of the episode
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
    """Returns the belief MDP with a problem that steps to this state."""
    problem: Any = ExternalState(state, mdp.problem.action_low, mdp.problem.action_high)
    return BeliefMDP(problem, mdp.filter, mdp.advisor)


class EpisodeKeys(NamedTuple):
    """The keys of an episode as plain numbers: passing typed keys into a jitted call is slow."""

    key: Array  # the one from which `rollout` would play this episode
    episode: Array  # the key of the world


class Decision(NamedTuple):
    """A decision, and what the next one needs of it."""

    action: Action
    situation: Situation
    time: Array


def start_episode(
    mdp: BeliefMDP, policy: Policy, key: Array, state: State
) -> tuple[EpisodeKeys, Decision]:
    """Starts an episode in this state and makes its first decision."""
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
    """Updates belief and advice with an action and its next state, and decides again."""
    key, episode = map(jax.random.wrap_key_data, episode_keys)
    world = World((), decision.situation, decision.time, jnp.bool_(False), jnp.float32(0), episode)
    _, world_key = rollout.step_keys(key, decision.time)
    world, _ = external_mdp(mdp, next_state).step(world_key, world, action)
    return decide(mdp, policy, episode_keys.key, world)


def decide(mdp: BeliefMDP, policy: Policy, key: Array, world: World) -> Decision:
    """Returns the policy's action in this world."""
    policy_key, _ = rollout.step_keys(jax.random.wrap_key_data(key), world.time)
    return Decision(mdp.clip(policy(policy_key, world.situation)), world.situation, world.time)


class Pilot:
    """A policy with its filter and experts, one decision at a time; it keeps the belief in between.

    Given the key of an episode of `rollout` and the states of that episode, it repeats its actions.
    """

    def __init__(self, policy: Any, mdp: BeliefMDP | None = None):
        """Creates a pilot, which compiles at its first `reset`: reuse it.

        A learned policy carries its belief MDP; for any other pass `mdp`.
        """
        mdp = mdp or getattr(policy, "mdp", None)
        if mdp is None:
            raise UserError(
                "This policy does not carry its problem: pass its belief MDP to the pilot too."
            )
        self.mdp = mdp
        self.policy = policy
        self._begin = devices.jit_low_latency(partial(start_episode, mdp, policy))
        self._follow = devices.jit_low_latency(partial(continue_episode, mdp, policy))
        self._keys = jax.random.key(0)
        self._decision: Decision | None = None

    def reset(self, state: State, key: Key | None = None) -> None:
        """Starts an episode: the belief is the prior, and advisor and policy get new keys."""
        if key is None:
            self._keys, key = jax.random.split(self._keys)
        first = self._decision is None
        self._episode_keys, self._decision = self._begin(jax.random.key_data(key), state)
        if first:  # compiles now, not during the episode
            self._follow(self._episode_keys, self._decision, self.act(), state)

    def act(self) -> np.ndarray:
        """Returns the action, the same one until the next observation."""
        return np.asarray(self._decided().action)

    def observe(self, action: Action | np.ndarray, next_state: State) -> None:
        """Takes the action that was really done and the state it led to."""
        self._decision = self._follow(self._episode_keys, self._decided(), action, next_state)

    @property
    def situation(self) -> Situation:
        """Returns state, belief and advice as the policy sees them now."""
        return self._decided().situation

    def _decided(self) -> Decision:
        if self._decision is None:
            raise UserError("The pilot has no state yet: call reset(state) first.")
        return self._decision


def play(
    env: Any, pilot: Pilot, interpret: Interpret, seed: int | None = None, options: Any = None
) -> float:
    """Plays one episode of a Gymnasium environment and returns its return.

    The environment's actions must be in the problem's units.
    """
    observation, info = env.reset(seed=seed, options=options)
    pilot.reset(interpret(observation, info))
    episode_return = 0.0
    over = False
    while not over:
        action = pilot.act()
        observation, reward, terminated, truncated, info = env.step(action)
        pilot.observe(action, interpret(observation, info))
        episode_return += float(reward)
        over = terminated or truncated
    return episode_return
