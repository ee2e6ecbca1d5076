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
from scipy.special import stdtrit

from seerax.advice import Clairvoyant
from seerax.compute import devices
from seerax.core import Action, BeliefMDP, Key, Policy, Situation, World, finite_parts
from seerax.errors import UserError
from seerax.numerics.statistics import standard_error
from seerax.numerics.trees import select

BATCH = 4096  # episodes played side by side in an evaluation


class Episode(NamedTuple):
    """One episode as it was lived; every field is an array over its steps, `latent` too."""

    latent: Any
    situation: Situation
    action: Array
    reward: Array
    episode_return: Array  # return including this step; the last row is the final situation, in which nothing is done
    over: Array


class Tally(NamedTuple):
    """What is counted of an episode."""

    episode_return: Array
    length: Array
    sensed: Array  # steps that sensed
    terminated: Array  # ended by the task, not by the clock
    success: Array
    finite_parts: Situation  # part by part, whether it was finite: at the first step when something was not, else at the last


def act(policy: Policy | Clairvoyant, key: Key, world: World) -> Action:
    if isinstance(policy, Clairvoyant):
        return policy(key, world)
    return policy(key, world.situation)


def step_keys(key: Key, time: Array | int) -> tuple[Key, Key]:
    """Keys for (policy, world) at one step. They hang on the episode's key alone, so policies can be paired."""
    first, second = jax.random.split(jax.random.fold_in(key, time + 1))
    return first, second


def start(mdp: BeliefMDP, key: Key) -> World:
    return mdp.reset(jax.random.fold_in(key, 0))


def senses(mdp: BeliefMDP, world: World, action: Action) -> Array:
    test = getattr(mdp.problem, "senses", None)
    return test(world.situation.state, mdp.clip(action)) if test else jnp.bool_(False)


def succeeded(mdp: BeliefMDP, world: World, terminated: Array) -> Array:
    test = getattr(mdp.problem, "succeeded", None)
    return test(world.situation.state, world.latent, terminated) if test else jnp.bool_(False)


def play_batch(mdp: BeliefMDP, policy: Policy | Clairvoyant, keys: Key) -> Tally:
    """Play one episode per key, side by side, until the last is over."""

    def one(
        key: Key, now: tuple[World, Array, Array, Situation], time: Array
    ) -> tuple[World, Array, Array, Situation]:
        world, sensed, _, whole = now
        policy_key, world_key = step_keys(key, time)
        action = act(policy, policy_key, world)
        following, outcome = mdp.step(world_key, world, action)
        whole = select(jnp.stack(whole).all(), finite_parts(following.situation), whole)
        return select(
            world.over,
            now,
            (following, sensed + senses(mdp, world, action), outcome.terminated, whole),
        )

    def body(carry: tuple[Array, Any]) -> tuple[Array, Any]:
        time, now = carry
        return time + 1, jax.vmap(one, (0, 0, None))(keys, now, time)

    count = keys.shape[0]
    worlds = jax.vmap(partial(start, mdp))(keys)
    first = (
        worlds,
        jnp.zeros(count),
        jnp.zeros(count, bool),
        jax.vmap(finite_parts)(worlds.situation),
    )
    _, last = jax.lax.while_loop(lambda carry: ~carry[1][0].over.all(), body, (jnp.int32(0), first))
    worlds, sensed, terminated, whole = last
    success = jax.vmap(partial(succeeded, mdp))(worlds, terminated)
    return Tally(worlds.episode_return, worlds.time, sensed, terminated, success, whole)


@eqx.filter_jit
def play_batch_sharded(mdp: BeliefMDP, policy: Any, keys: Key) -> Tally:
    """`play_batch` with the episodes spread over the devices there are."""
    arrays, static = eqx.partition(policy, eqx.is_array)
    body = lambda arrays, keys: play_batch(mdp, eqx.combine(arrays, static), keys)  # noqa: E731
    spread = P(devices.WORLDS)
    mapped = jax.shard_map(
        body,
        mesh=devices.local_mesh(keys.shape[0]),
        in_specs=(P(), spread),
        out_specs=spread,
        check_vma=False,
    )
    return mapped(arrays, keys)


@dataclass(frozen=True)
class Evaluation:
    """Episodes summed up, without any information bonus. What a problem does not tell is None."""

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
        """Over episodes, or over seeds where there are several: then that is the larger uncertainty."""
        units = self.returns if self.seeds == 1 else self.returns.reshape(self.seeds, -1).mean(-1)
        return float(standard_error(units)) if units.size > 1 else 0.0

    def interval(self) -> tuple[float, float]:
        """95 %, by Student's t."""
        units = self.returns.size if self.seeds == 1 else self.seeds
        margin = float(stdtrit(max(units - 1, 1), 0.975)) * self.stderr
        return self.mean - margin, self.mean + margin

    def summary(self) -> dict[str, Any]:
        """What `seerax evaluate --json` prints of it. Sensing is the share of all steps that sensed."""
        return {
            "episodes": int(self.returns.size),
            "mean": self.mean,
            "stderr": self.stderr,
            "ci95": list(self.interval()),
            "success": None if self.success is None else float(self.success.mean()),
            "length": float(self.lengths.mean()),
            "sensing": None
            if self.sensed is None
            else float(self.sensed.sum() / self.lengths.sum()),
        }


def pool_seeds(parts: list[Evaluation]) -> Evaluation:
    """Evaluations of several seeds of one learner as one."""

    def together(name: str) -> Any:
        values = [getattr(part, name) for part in parts]
        return None if values[0] is None else np.concatenate(values)

    return Evaluation(
        together("returns"),
        together("lengths"),
        together("sensed"),
        together("success"),
        len(parts),
    )


def evaluate(
    key: Key,
    mdp: BeliefMDP,
    policy: Policy | Clairvoyant,
    episodes: int = 1000,
    progress: Callable[[int], None] = lambda episodes: None,
) -> Evaluation:
    """Fresh episodes; the i-th depends on the key and i alone, whatever the policy, batch or device."""
    batch = min(episodes, BATCH)
    tallies = []
    for first in range(0, episodes, batch):
        keys = jax.vmap(partial(jax.random.fold_in, key))(jnp.arange(first, first + batch))
        tallies.append(jax.device_get(play_batch_sharded(mdp, policy, keys)))
        progress(min(batch, episodes - first))
    whole = jax.tree.map(lambda *parts: np.concatenate(parts)[:episodes], *tallies)
    refuse_unsound(whole)
    success = whole.success if hasattr(mdp.problem, "succeeded") else None
    sensed = whole.sensed if hasattr(mdp.problem, "senses") else None
    return Evaluation(whole.episode_return.astype(np.float64), whole.length, sensed, success)


def refuse_unsound(tally: Tally) -> None:
    """Names who gave what is not a number. Belief follows from state, advice from both: the first is to blame."""
    sources = {
        "problem's state": tally.finite_parts.state,
        "filter's belief": tally.finite_parts.belief,
    }
    sources |= {
        "advisor's advice": tally.finite_parts.advice,
        "return": np.isfinite(tally.episode_return),
    }
    for source, finite in sources.items():
        wrong = int((~finite).sum())
        if wrong:
            raise UserError(
                f"The {source} was NaN or infinite in {wrong} of {len(finite)} episodes; `seerax check` says where."
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
    """One whole episode, its last situation included: episode i of `evaluate` has key fold_in(key, i)."""
    episode = jax.device_get(_record(key, mdp, policy))
    length = int(np.argmax(episode.over)) + 1 if episode.over.any() else len(episode.over)
    return jax.tree.map(lambda leaf: leaf[:length], episode)
