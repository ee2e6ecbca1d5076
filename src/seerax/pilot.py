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
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from seerax import rollout
from seerax.core import Action, BeliefMDP, Key, Latent, Policy, Situation, State, Step, World
from seerax.errors import Mistake

Interpret = Callable[[Any, dict[str, Any]], State]  # (observation, info) of somebody's environment -> our state


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


@eqx.filter_jit
def _begin(mdp: BeliefMDP, key: Key, state: State) -> World:
    return rollout.start(told(mdp, state), key)


@eqx.filter_jit
def _follow(mdp: BeliefMDP, key: Key, world: World, action: Action, next_state: State) -> World:
    _, world_key = rollout.episode_key(key, world.time)
    return told(mdp, next_state).step(world_key, world, action)[0]


@eqx.filter_jit
def _act(mdp: BeliefMDP, policy: Any, key: Key, world: World) -> Action:
    policy_key, _ = rollout.episode_key(key, world.time)
    return mdp.clip(policy(policy_key, world.situation))


def arrays(numbers: Any) -> Any:
    """A state may come with Python's or numpy's numbers."""
    return jax.tree.map(jnp.asarray, numbers)


class Pilot:
    """Filter, experts and policy at work, one decision at a time; between decisions it holds the belief.

    Given the key of an episode of `rollout` and the states of that episode, it does what was done there.
    """

    def __init__(self, mdp: BeliefMDP, policy: Policy):
        self.mdp = mdp
        self.policy = policy
        self._coins = self._key = jax.random.key(0)
        self._world: World | None = None

    def reset(self, state: State, key: Key | None = None) -> None:
        """A new episode: the belief is the prior again, the coins of advisor and policy are fresh."""
        if key is None:
            self._coins, key = jax.random.split(self._coins)
        self._key = key
        self._world = _begin(self.mdp, key, arrays(state))

    def act(self) -> np.ndarray:
        """Asked twice without a new observation, the answer is the same."""
        return np.asarray(_act(self.mdp, self.policy, self._key, self._flying()))

    def observe(self, action: Action | np.ndarray, next_state: State) -> None:
        """What was really done, and where it led."""
        self._world = _follow(self.mdp, self._key, self._flying(), arrays(action), arrays(next_state))

    @property
    def situation(self) -> Situation:
        """State, belief and advice as the policy sees them now."""
        return self._flying().situation

    def _flying(self) -> World:
        if self._world is None:
            raise Mistake("The pilot knows no state yet: call reset(state) first.")
        return self._world


def play(env: Any, pilot: Pilot, interpret: Interpret, seed: int | None = None, options: Any = None) -> float:
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
