"""The trainer: iterations that play, judge and improve, held-out evaluations, the best brain."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from seerax import rollout
from seerax.agents import Agent
from seerax.compute import devices, distributed
from seerax.core import BeliefMDP, Key
from seerax.numerics.trees import all_finite, select, strong_dtype
from seerax.ppo.config import Config
from seerax.ppo.improve import improve
from seerax.ppo.judge import advantages, batch_statistics
from seerax.ppo.networks import ActorCritic, Normaliser
from seerax.ppo.params import LearnedPolicy, Params, cap_exploration, popart
from seerax.ppo.play import TrainState, Trajectory, play, split_keys, staggered_worlds


class Progress(NamedTuple):
    """Where a training stands after an iteration. With many seeds every number is one per seed."""

    train_state: TrainState
    steps: int
    metrics: dict[str, Any]
    held_out: np.ndarray | None  # mean held-out return, if it was measured now
    best: Params  # by held-out return
    best_return: np.ndarray


@dataclass(frozen=True, eq=False)
class PPO:
    """One method on one belief MDP. Everything is compiled once per object: keep it."""

    mdp: BeliefMDP
    agent: Agent
    config: Config = field(default_factory=Config)

    @property
    def discount(self) -> float:
        return self.mdp.problem.discount if self.config.discount is None else self.config.discount

    @cached_property
    def mesh(self) -> jax.sharding.Mesh:
        return devices.mesh(
            math.gcd(self.config.worlds, self.config.batch // self.config.minibatches)
        )

    @cached_property
    def optimiser(self) -> optax.GradientTransformation:
        c = self.config
        updates = c.iterations * c.epochs * c.minibatches
        rate = optax.linear_schedule(c.learning_rate, 0.0, updates) if c.anneal else c.learning_rate
        return optax.chain(optax.clip_by_global_norm(c.max_grad_norm), optax.adam(rate, eps=1e-5))

    def init(self, key: Key) -> TrainState:
        """A learner whose mean raw action is zero: a residual starts exactly at its base."""
        network_key, world_key, key = jax.random.split(key, 3)
        worlds = staggered_worlds(world_key, self.mdp, self.config.worlds)
        example = jax.eval_shape(
            partial(self.agent.inputs, self.mdp), jax.tree.map(lambda x: x[0], worlds.situation)
        )
        exploration = jnp.broadcast_to(
            jnp.asarray(self.config.exploration), (self.mdp.action_size,)
        )
        network = ActorCritic(network_key, example.shape[0], self.config.hidden, exploration)
        params = Params(network, Normaliser.init(example.shape[0]), Normaliser.init())
        return jax.tree.map(
            strong_dtype,
            TrainState(params, self.optimiser.init(network), worlds, key, jnp.int32(0)),
        )

    @cached_property
    def iterate(self) -> Any:
        """(learner) -> (learner, metrics): one iteration, compiled, the worlds spread over the devices."""
        return self._compiled(partial(iterate, self), P(devices.WORLDS))

    @cached_property
    def iterate_many(self) -> Any:
        """The same for learners stacked along a first axis: seeds side by side."""

        def iterate_seeds(train_states: TrainState) -> tuple[TrainState, dict[str, Array]]:
            return devices.map_seeds(partial(iterate, self), train_states)

        return self._compiled(iterate_seeds, P(None, devices.WORLDS))

    def _compiled(self, body: Any, worlds: P) -> Any:
        spec = TrainState(P(), P(), worlds, P(), P())  # type: ignore[arg-type]
        return jax.jit(
            jax.shard_map(
                body, mesh=self.mesh, in_specs=(spec,), out_specs=(spec, P()), check_vma=False
            )
        )

    def policy(self, params: Params, noisy: bool = False) -> LearnedPolicy:
        return LearnedPolicy(params, self.mdp, self.agent, noisy)

    @cached_property
    def held_out(self) -> Any:
        """(brains, keys) -> mean return of each brain on the same held-out episodes, without noise or bonus."""

        def scores(many_params: Params, keys: Key) -> Array:
            return devices.map_seeds(
                lambda params: (
                    rollout.play_batch(self.mdp, self.policy(params), keys).episode_return
                ),
                many_params,
            )

        return jax.jit(
            jax.shard_map(
                scores,
                mesh=devices.mesh(self.config.evaluation_episodes),
                in_specs=(P(), P(devices.WORLDS)),
                out_specs=P(None, devices.WORLDS),
                check_vma=False,
            )
        )

    def train(self, keys: Key, progress: Progress | None = None) -> Iterator[Progress]:
        """Train one learner per key side by side, telling how it goes after every iteration.

        The best brain by held-out return is kept, as in Algorithm 1; the first one measured is the untrained one,
        for a residual the ensemble itself.
        """
        count, batch = self.config.iterations, self.config.batch
        held_out_keys = self.held_out_keys()
        marks = set(np.linspace(0, count, self.config.evaluations + 1).round().astype(int).tolist())
        if progress is None:
            progress = self._begin(keys, held_out_keys)
            yield progress
        train_state, best, best_return = progress.train_state, progress.best, progress.best_return
        for iteration in range(int(train_state.iteration[0]), count):
            train_state, metrics = self.iterate_many(train_state)
            held_out = None
            if iteration + 1 in marks:
                held_out = np.asarray(
                    distributed.allgather(self.held_out(train_state.params, held_out_keys))
                ).mean(-1)
                better = held_out > np.nan_to_num(best_return, nan=-np.inf)
                best = keep_better(better, train_state.params, best)
                best_return = np.where(better, held_out, best_return)
            steps = (iteration + 1) * batch
            yield Progress(train_state, steps, jax.device_get(metrics), held_out, best, best_return)

    def place(self, train_state: TrainState) -> TrainState:
        """Stacked learners where `iterate_many` wants them: the worlds spread, all else on every device."""
        return TrainState(
            *[
                distributed.shard(part, to)
                for part, to in zip(train_state, self._places(), strict=True)
            ]
        )

    def _places(self) -> list[NamedSharding]:
        """Of each part of stacked learners."""
        return [
            NamedSharding(self.mesh, spec) for spec in (P(), P(), P(None, devices.WORLDS), P(), P())
        ]

    def copied(self, tree: Any) -> Any:
        """The same on every device."""
        return distributed.shard(tree, NamedSharding(self.mesh, P()))

    def held_out_keys(self) -> Key:
        """The held-out episodes, the same ones for every learner, spread like the worlds."""
        keys = jax.random.split(jax.random.key(0x5EE), self.config.evaluation_episodes)
        return distributed.shard(
            keys, NamedSharding(devices.mesh(keys.shape[0]), P(devices.WORLDS))
        )

    def _begin(self, keys: Key, held_out_keys: Key) -> Progress:
        """The iteration is compiled while the rest is at work: compiling takes one core, and most of the time."""
        init = jax.jit(jax.vmap(self.init))
        with devices.in_background(lambda: self._compile_iteration(init.eval_shape(keys))):
            train_state = self.place(init(keys))
            held_out = np.asarray(
                distributed.allgather(self.held_out(train_state.params, held_out_keys))
            ).mean(-1)
        return Progress(train_state, 0, {}, held_out, train_state.params, held_out)

    def _compile_iteration(self, train_state: TrainState) -> None:
        """For learners of these shapes; called with one, `iterate_many` finds the program."""

        def placed(part: Any, sharding: NamedSharding) -> Any:
            return jax.tree.map(
                lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), part
            )

        shapes = [
            placed(part, where) for part, where in zip(train_state, self._places(), strict=True)
        ]
        self.iterate_many.lower(TrainState(*shapes)).compile()


def keep_better(better: np.ndarray, new: Any, old: Any) -> Any:
    """Leaf by leaf, the new rows where they are better."""

    def choose(a: Array, b: Array) -> Array:
        return jnp.where(better.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return jax.tree.map(choose, new, old)


def iterate(ppo: PPO, train_state: TrainState) -> tuple[TrainState, dict[str, Array]]:
    """One iteration on one device's share of the worlds; gradients and statistics are shared by all."""
    key, play_key, shuffle_key = split_keys(train_state.key)
    worlds, trajectory, last_value = play(ppo, play_key, train_state.params, train_state.worlds)
    params, optimiser, metrics = learn(ppo, shuffle_key, train_state, trajectory, last_value)
    worlds = worlds._replace(
        over=worlds.over | ~trajectory.extras[-1]
    )  # what is not sound starts afresh
    return TrainState(params, optimiser, worlds, key, train_state.iteration + 1), metrics


def learn(
    ppo: PPO, key: Key, train_state: TrainState, trajectory: Trajectory, last_value: Array
) -> tuple[Params, Any, dict[str, Array]]:
    """Judge and improve: what an iteration does once it has played. What is not finite changes nothing."""
    advantage = advantages(trajectory, last_value, ppo.discount, ppo.config.gae_lambda)
    target = advantage + trajectory.value
    params, batch = (
        train_state.params,
        batch_statistics(train_state.params, trajectory, advantage, target),
    )
    if ppo.config.normalise_values:
        params = popart(params, params.values.merge(*batch.target, batch.steps))
    standard = (advantage - batch.advantage.mean) / jnp.sqrt(batch.advantage.variance + 1e-8)
    params, optimiser, metrics = improve(
        ppo, key, params, train_state.opt_state, trajectory, standard, target
    )
    params = cap_exploration(ppo.config, params, train_state.iteration + 1)
    if ppo.config.normalise_inputs:
        params = params._replace(inputs=params.inputs.merge(*batch.inputs, batch.steps))
    usable = (batch.unsound == 0) & all_finite((params, optimiser, batch, metrics))
    params, optimiser = select(
        usable, (params, optimiser), (train_state.params, train_state.opt_state)
    )
    told = {"episodes": batch.ended, "return": batch.episode_return, "skipped": 1.0 - usable}
    return params, optimiser, {**metrics, **told}
