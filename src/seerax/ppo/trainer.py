"""The trainer: iterations, held-out evaluations, and the best policy so far."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from seerax import rollout
from seerax.agents import Agent
from seerax.compute import devices, distributed
from seerax.core import BeliefMDP, Key
from seerax.keys import training_keys
from seerax.numerics.statistics import in_thousands
from seerax.numerics.trees import row
from seerax.ppo.config import Config

HELD_OUT_SEED = 0x5EE
SURE = 2.0  # standard errors by which a challenger must be better


class Learner(Protocol):
    """What a `Trainer` trains.

    PPO is one; an own one needs these members and no base class.

    A state is a NamedTuple with at least `params` (what `policy` is made from), `worlds` (what is
    shared between devices, may be empty) and `iteration`. `iterate` runs inside `jax.shard_map`
    over the axis "worlds".
    """

    @property
    def mdp(self) -> BeliefMDP: ...
    @property
    def agent(self) -> Agent: ...
    @property
    def config(self) -> Config: ...
    @property
    def shards(self) -> int: ...
    def specs(self, worlds: P) -> Any: ...
    def init(self, key: Key) -> Any: ...
    def iterate(self, state: Any) -> tuple[Any, dict[str, Array]]: ...
    def policy(self, params: Any, noisy: bool = False, about: Any = None) -> Any: ...


@dataclass(frozen=True, repr=False)
class Progress:
    """Where a training stands after an iteration. Every number has one entry per seed."""

    trainer: Trainer
    train_state: Any
    steps: int
    metrics: dict[str, Any]
    held_out: np.ndarray | None  # mean held-out return, if it was measured now
    best: Any  # parameters, by held-out return
    best_returns: np.ndarray  # of the best parameters, [seeds, held-out episodes]
    start: np.ndarray | None = None  # held-out return of the untrained policy
    seed: int = 0  # the first one

    @property
    def best_return(self) -> np.ndarray:
        """The mean held-out return of the best parameters."""
        return self.best_returns.mean(-1)

    @property
    def evaluated(self) -> bool:
        """True if held-out episodes were played after this iteration."""
        return self.held_out is not None

    def policy(self, index: int = 0) -> Any:
        """Returns the best policy so far by held-out return, of one of the seeds."""
        about = {
            **self.trainer.about,
            "held_out": float(self.best_return[index]),
            "seed": self.seed + index,
            "steps": self.steps,
        }
        # By way of the host: the policy may be played on other devices than it was trained on.
        params = jax.tree.map(jnp.asarray, jax.device_get(row(self.best, index)))
        return self.trainer.learner.policy(params, about=about)

    def __str__(self) -> str:
        parts = [f"{in_thousands(self.steps)} steps"]
        if self.held_out is not None:
            parts.append(f"held-out {self.held_out.mean():.1f}")
        elif "return" in self.metrics:
            parts.append(f"return {np.mean(self.metrics['return']):.1f}")
        parts.append(f"best {self.best_return.mean():.1f}")
        if self.start is not None:
            parts.append(f"(start {self.start.mean():.1f})")
        return "  ".join(parts)

    def __repr__(self) -> str:
        return f"<Progress: {self}>"


@dataclass(frozen=True, eq=False, repr=False)
class Trainer:
    """Trains a learner, one copy per seed side by side.

    Everything is compiled once per object: keep it.
    """

    learner: Learner
    about: dict[str, Any] = field(default_factory=dict)  # of its policies, as plain data

    @property
    def mdp(self) -> BeliefMDP:
        return self.learner.mdp

    @property
    def agent(self) -> Agent:
        return self.learner.agent

    @property
    def config(self) -> Config:
        return self.learner.config

    def __repr__(self) -> str:
        agent = self.agent.name or "an own agent"
        problem = self.mdp.name or "an own problem"
        return f"<Trainer: {agent} on {problem}, {in_thousands(self.config.steps)} steps>"

    # ---- training ------------------------------------------------------------------------------

    def train(self, seed: int = 0, seeds: int = 1) -> Iterator[Progress]:
        """Trains from this seed on, and yields how it goes after every iteration."""
        return self.train_from(training_keys(seed, seeds), seed=seed)

    def train_from(
        self, keys: Key, earlier: Progress | None = None, seed: int = 0
    ) -> Iterator[Progress]:
        """Trains one learner per key, from the start or from where an earlier training was cut.

        The best parameters by held-out return are kept, as in Algorithm 1. The first ones measured
        are the untrained ones, for a residual the ensemble itself; a challenger replaces the best
        only if it is better by a paired test on the same episodes.
        """
        count = self.config.iterations
        progress = earlier
        if progress is None:
            progress = self._begin(keys, seed)
            yield progress
        for iteration in range(int(progress.train_state.iteration[0]), count):
            progress = self._advance(progress, iteration + 1)
            yield progress

    @cached_property
    def evaluated_after(self) -> set[int]:
        """The iterations after which held-out episodes are played."""
        marks = np.linspace(0, self.config.iterations, self.config.evaluations + 1)
        return set(marks.round().astype(int).tolist())

    def _advance(self, before: Progress, iteration: int) -> Progress:
        state, metrics = self.iterate_many(before.train_state)
        held_out = None
        best = before.best
        best_returns = before.best_returns
        if iteration in self.evaluated_after:
            returns = self.held_out(state.params)
            held_out = returns.mean(-1)
            better = is_better(returns, best_returns)
            best = keep_better(better, state.params, best)
            best_returns = np.where(better[:, None], returns, best_returns)
        return Progress(
            self,
            state,
            iteration * self.config.batch,
            jax.device_get(metrics),
            held_out,
            best,
            best_returns,
            before.start,
            before.seed,
        )

    def _begin(self, keys: Key, seed: int) -> Progress:
        """Compiles the iteration in the background: compiling takes one core, and most of the time."""
        init = jax.jit(jax.vmap(self.learner.init))
        with devices.in_background(lambda: self._compile_iteration(init.eval_shape(keys))):
            state = self.place(init(keys))
            returns = self.held_out(state.params)
        start = returns.mean(-1)
        return Progress(self, state, 0, {}, start, state.params, returns, start, seed)

    def _compile_iteration(self, state: Any) -> None:
        """Compiles for states of these shapes; called with one, `iterate_many` finds the program."""

        def placed(part: Any, sharding: NamedSharding) -> Any:
            shape = lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)  # noqa: E731
            return jax.tree.map(shape, part)

        shapes = [placed(part, to) for part, to in zip(state, self._shardings, strict=True)]
        self.iterate_many.lower(type(state)(*shapes)).compile()

    # ---- compiled programs ---------------------------------------------------------------------

    @cached_property
    def mesh(self) -> jax.sharding.Mesh:
        return devices.mesh(self.learner.shards)

    @cached_property
    def iterate(self) -> Any:
        """One compiled iteration of one learner:

        (state) -> (state, metrics), the worlds sharded.
        """
        spec = self.learner.specs(P(devices.WORLDS))
        return devices.sharded(self.learner.iterate, self.mesh, (spec,), (spec, P()))

    @cached_property
    def iterate_many(self) -> Any:
        """The same for learners stacked along a first axis: seeds side by side."""
        spec = self.learner.specs(P(None, devices.WORLDS))

        def iterate_seeds(states: Any) -> tuple[Any, dict[str, Array]]:
            return devices.map_seeds(self.learner.iterate, states)

        return devices.sharded(iterate_seeds, self.mesh, (spec,), (spec, P()))

    # ---- held-out episodes ---------------------------------------------------------------------

    def held_out(self, many_params: Any) -> np.ndarray:
        """Returns the held-out returns of each learner, [seeds, episodes], without noise."""
        mesh = devices.mesh(self.config.evaluation_episodes)
        if mesh.size != self.mesh.size:
            many_params = distributed.shard(many_params, NamedSharding(mesh, P()))
        returns = self.evaluate_params(many_params, self.held_out_keys)
        return np.asarray(distributed.allgather(returns))

    @cached_property
    def evaluate_params(self) -> Any:
        """The compiled evaluation: (stacked params, keys) -> returns [seeds, episodes]."""

        def returns(many_params: Any, keys: Key) -> Array:
            def one(params: Any) -> Array:
                return rollout.play_batch(
                    self.mdp, self.learner.policy(params), keys
                ).episode_return

            return devices.map_seeds(one, many_params)

        mesh = devices.mesh(self.config.evaluation_episodes)
        return devices.sharded(returns, mesh, (P(), P(devices.WORLDS)), P(None, devices.WORLDS))

    @cached_property
    def held_out_keys(self) -> Key:
        """The held-out episodes, the same ones for every learner, sharded like the worlds."""
        count = self.config.evaluation_episodes
        keys = jax.random.split(jax.random.key(HELD_OUT_SEED), count)
        return distributed.shard(keys, NamedSharding(devices.mesh(count), P(devices.WORLDS)))

    # ---- placing -------------------------------------------------------------------------------

    def place(self, state: Any) -> Any:
        """Puts stacked states where `iterate_many` wants them: the worlds sharded, all else
        replicated.
        """
        parts = zip(state, self._shardings, strict=True)
        return type(state)(*[distributed.shard(part, to) for part, to in parts])

    @property
    def _shardings(self) -> list[NamedSharding]:
        """One for each part of stacked states."""
        specs = self.learner.specs(P(None, devices.WORLDS))
        return [NamedSharding(self.mesh, spec) for spec in specs]

    def replicate(self, tree: Any) -> Any:
        """Puts a pytree on every device."""
        return distributed.shard(tree, NamedSharding(self.mesh, P()))


def is_better(returns: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Returns for each seed whether its returns beat the best ones by a paired, one-sided test.

    Without the test a policy replaces the ensemble by luck: the largest of several noisy means is
    too large. What is not a number is never better, and anything is better than that.
    """
    difference = returns.astype(np.float64) - best
    count = difference.shape[-1]
    with np.errstate(invalid="ignore"):
        margin = SURE * difference.std(-1, ddof=1) / np.sqrt(count) if count > 1 else 0.0
        better = difference.mean(-1) > np.nan_to_num(margin)
    return np.where(np.isfinite(best).all(-1), better, np.isfinite(returns).all(-1))


def keep_better(better: np.ndarray, new: Any, old: Any) -> Any:
    """Returns the new rows of every leaf where they are better, the old ones elsewhere."""

    def choose(a: Array, b: Array) -> Array:
        return jnp.where(better.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return jax.tree.map(choose, new, old)
