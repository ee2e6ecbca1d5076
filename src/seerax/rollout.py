"""Playing episodes: recorded in full for pictures, or summed up for statistics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import PartitionSpec as P

from seerax.advice import Clairvoyant
from seerax.compute import devices
from seerax.core import Action, BeliefMDP, Key, Policy, Situation, World, ability, finite_parts
from seerax.errors import UserError
from seerax.numerics.statistics import standard_error, student_margin
from seerax.numerics.trees import all_finite, select

BATCH = 4096  # episodes played side by side in an evaluation


class Episode(NamedTuple):
    """One episode as it was lived; every field is an array over its steps, `latent` too.

    The last row is the final situation, in which nothing is done.
    """

    latent: Any
    situation: Situation
    action: Array
    reward: Array
    episode_return: Array  # including this step
    over: Array


class Finite(NamedTuple):
    """Part by part, whether a step was finite: the action, and the situation it led to."""

    action: Array
    state: Array
    belief: Array
    advice: Array


class Tally(NamedTuple):
    """What is counted of an episode."""

    episode_return: Array
    length: Array
    sensed: Array  # steps that sensed
    terminated: Array  # ended by the task, not by the clock
    success: Array
    finite: Finite  # at the first step when something was not, else at the last


def act(policy: Policy | Clairvoyant, key: Key, world: World) -> Action:
    """Asks a policy for an action; the clairvoyant expert sees the whole world."""
    if isinstance(policy, Clairvoyant):
        return policy(key, world)
    return policy(key, world.situation)


def step_keys(key: Key, time: Array | int) -> tuple[Key, Key]:
    """Returns keys for (policy, world) at one step.

    They depend on the episode's key alone, so policies can be paired.
    """
    first, second = jax.random.split(jax.random.fold_in(key, time + 1))
    return first, second


def start(mdp: BeliefMDP, key: Key) -> World:
    """Starts the episode with this key."""
    return mdp.reset(jax.random.fold_in(key, 0))


def senses(mdp: BeliefMDP, world: World, action: Action) -> Array:
    """True if an action senses, as the problem would clip it; false if the problem cannot say."""
    test = ability(mdp.problem, "senses")
    return test(world.situation.state, mdp.clip(action)) if test else jnp.bool_(False)


def succeeded(mdp: BeliefMDP, world: World, terminated: Array) -> Array:
    """True if an episode that ended here succeeded; false if the problem cannot say."""
    test = ability(mdp.problem, "succeeded")
    return test(world.situation.state, world.latent, terminated) if test else jnp.bool_(False)


class Running(NamedTuple):
    """An episode that is being played for its tally."""

    world: World
    sensed: Array
    terminated: Array
    finite: Finite


def play_batch(mdp: BeliefMDP, policy: Policy | Clairvoyant, keys: Key) -> Tally:
    """Plays one episode per key, side by side, until the last is over."""

    def one(key: Key, now: Running, time: Array) -> Running:
        policy_key, world_key = step_keys(key, time)
        action = act(policy, policy_key, now.world)
        following, outcome = mdp.step(world_key, now.world, action)
        finite = Finite(all_finite(action), *finite_parts(following.situation))
        after = Running(
            following,
            now.sensed + senses(mdp, now.world, action),
            outcome.terminated,
            select(jnp.stack(now.finite).all(), finite, now.finite),
        )
        return select(now.world.over, now, after)

    def body(carry: tuple[Array, Running]) -> tuple[Array, Running]:
        time, now = carry
        return time + 1, jax.vmap(one, (0, 0, None))(keys, now, time)

    count = keys.shape[0]
    worlds = jax.vmap(partial(start, mdp))(keys)
    finite = Finite(jnp.ones(count, bool), *jax.vmap(finite_parts)(worlds.situation))
    first = Running(worlds, jnp.zeros(count), jnp.zeros(count, bool), finite)
    _, last = jax.lax.while_loop(
        lambda carry: ~carry[1].world.over.all(), body, (jnp.int32(0), first)
    )
    worlds = last.world
    success = jax.vmap(partial(succeeded, mdp))(worlds, last.terminated)
    return Tally(
        worlds.episode_return, worlds.time, last.sensed, last.terminated, success, last.finite
    )


@eqx.filter_jit
def play_batch_sharded(mdp: BeliefMDP, policy: Any, keys: Key) -> Tally:
    """Plays a batch with its episodes sharded over the devices of this process."""
    arrays, static = eqx.partition(policy, eqx.is_array)

    def body(arrays: Any, keys: Key) -> Tally:
        return play_batch(mdp, eqx.combine(arrays, static), keys)

    spread = P(devices.WORLDS)
    mesh = devices.local_mesh(keys.shape[0])
    return devices.sharded(body, mesh, (P(), spread), spread)(arrays, keys)


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Episodes summed up, without any information bonus. What a problem does not say is None."""

    returns: np.ndarray
    lengths: np.ndarray
    sensed: np.ndarray | None
    success: np.ndarray | None
    seeds: int = 1  # of the learner; the episodes come in as many equal parts

    @property
    def mean(self) -> float:
        return float(self.returns.mean())

    @property
    def stderr(self) -> float:
        """Over episodes or, if that is larger, over the seeds, each of which has episodes of its
        own.
        """
        return max(error for _, error in self._errors())

    def interval(self) -> tuple[float, float]:
        """Returns the 95 % interval by Student's t: the wider one of seeds and of episodes."""
        margin = max(float(student_margin(count, error)) for count, error in self._errors())
        return self.mean - margin, self.mean + margin

    def _errors(self) -> list[tuple[int, float]]:
        """(how many, standard error of their mean), for episodes and for seeds."""
        units = [self.returns]
        if self.seeds > 1:
            units.append(self.returns.reshape(self.seeds, -1).mean(-1))
        return [
            (unit.size, float(standard_error(unit)) if unit.size > 1 else 0.0) for unit in units
        ]

    def summary(self) -> Any:
        """Returns the numbers that are reported. Sensing is the share of all steps that sensed."""
        sensed = None if self.sensed is None else float(self.sensed.sum() / self.lengths.sum())
        return {
            "episodes": int(self.returns.size),
            "mean": self.mean,
            "stderr": self.stderr,
            "ci95": list(self.interval()),
            "success": None if self.success is None else float(self.success.mean()),
            "length": float(self.lengths.mean()),
            "sensing": sensed,
        }

    def __str__(self) -> str:
        found = self.summary()
        low, high = found["ci95"]
        parts = [f"{found['mean']:.1f} [{low:.1f}, {high:.1f}]"]
        for name in ("success", "sensing"):
            if found[name] is not None:
                parts.append(f"{name} {100 * found[name]:.0f} %")
        return "  ".join(parts)

    def __repr__(self) -> str:
        return f"<Evaluation of {self.returns.size} episodes: {self}>"


def pool_seeds(parts: list[Evaluation]) -> Evaluation:
    """Joins the evaluations of several seeds of one learner."""

    def together(name: str) -> Any:
        values = [getattr(part, name) for part in parts]
        return None if values[0] is None else np.concatenate(values)

    returns, lengths, sensed, success = map(together, ("returns", "lengths", "sensed", "success"))
    return Evaluation(returns, lengths, sensed, success, len(parts))


def evaluate(
    key: Key,
    mdp: BeliefMDP,
    policy: Policy | Clairvoyant,
    episodes: int = 1000,
    progress: Callable[[int], None] = lambda episodes: None,
) -> Evaluation:
    """Plays fresh episodes; the i-th depends on the key and i alone, not on policy, batch or
    devices.
    """
    batch = min(episodes, BATCH)
    tallies = []
    for first in range(0, episodes, batch):
        keys = jax.vmap(partial(jax.random.fold_in, key))(jnp.arange(first, first + batch))
        tallies.append(jax.device_get(play_batch_sharded(mdp, policy, keys)))
        progress(min(batch, episodes - first))
    whole = jax.tree.map(lambda *parts: np.concatenate(parts)[:episodes], *tallies)
    refuse_unsound(whole)
    success = whole.success if ability(mdp.problem, "succeeded") else None
    sensed = whole.sensed if ability(mdp.problem, "senses") else None
    return Evaluation(whole.episode_return.astype(np.float64), whole.length, sensed, success)


def refuse_unsound(tally: Tally) -> None:
    """Names the source of what is not a number.

    The state follows from the action, the belief from the state, and the advice from both: the
    first is to blame.
    """
    sources: dict[str, Any] = {
        "policy's action": tally.finite.action,
        "problem's state": tally.finite.state,
        "filter's belief": tally.finite.belief,
        "advisor's advice": tally.finite.advice,
        "return": np.isfinite(tally.episode_return),
    }
    for source, finite in sources.items():
        wrong = int((~finite).sum())
        if wrong:
            cure = "" if source.startswith("policy") else "; `seerax check` says where"
            raise UserError(
                f"The {source} was NaN or infinite in {wrong} of {len(finite)} episodes{cure}."
            )


@eqx.filter_jit
def _record(key: Key, mdp: BeliefMDP, policy: Any) -> Episode:
    def body(world: World, time: Array) -> tuple[World, Episode]:
        policy_key, world_key = step_keys(key, time)
        action = act(policy, policy_key, world)
        following, outcome = mdp.step(world_key, world, action)
        following = select(world.over, world, following)
        done = jnp.where(world.over, 0.0, mdp.clip(action))
        moment = Episode(
            world.latent,
            world.situation,
            done,
            outcome.reward,
            following.episode_return,
            world.over,
        )
        return following, moment

    world, moments = jax.lax.scan(body, start(mdp, key), jnp.arange(mdp.problem.horizon))
    nothing = jnp.zeros(mdp.action_size)
    last = Episode(
        world.latent, world.situation, nothing, jnp.float32(0), world.episode_return, world.over
    )
    return jax.tree.map(lambda many, one: jnp.concatenate([many, one[None]]), moments, last)


def record(key: Key, mdp: BeliefMDP, policy: Policy | Clairvoyant) -> Episode:
    """Records one whole episode, its last situation included; episode i of `evaluate` has key
    fold_in(key, i).
    """
    episode = jax.device_get(_record(key, mdp, policy))
    length = int(np.argmax(episode.over)) + 1 if episode.over.any() else len(episode.over)
    return jax.tree.map(lambda leaf: leaf[:length], episode)
