"""The algorithm: an iteration plays, judges and improves."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import PartitionSpec as P

from seerax.agents import Agent
from seerax.core import BeliefMDP, Key, World
from seerax.errors import UserError
from seerax.numerics.trees import all_finite, row, select, strong_dtype
from seerax.ppo.config import Config
from seerax.ppo.improve import improve, make_optimiser
from seerax.ppo.judge import advantages, batch_statistics, sum_over_devices
from seerax.ppo.networks import NetworkFactory, Normaliser, actor_critic
from seerax.ppo.params import LearnedPolicy, Params, cap_exploration, popart
from seerax.ppo.play import Trajectory, play, split_keys, staggered_worlds


class TrainState(NamedTuple):
    """All that changes from one iteration to the next."""

    params: Params
    opt_state: Any
    worlds: World  # [worlds]
    key: Key
    iteration: Array


@dataclass(frozen=True, eq=False)
class PPO:
    """One method on one belief MDP, to be trained by a `Trainer`."""

    mdp: BeliefMDP
    agent: Agent
    config: Config = field(default_factory=Config)
    network: NetworkFactory = actor_critic

    @property
    def discount(self) -> float:
        return self.config.discount_for(self.mdp.problem)

    @property
    def shards(self) -> int:
        """Into how many equal parts an iteration can be cut at most: worlds and minibatches are
        shared evenly.
        """
        return math.gcd(self.config.worlds, self.config.batch // self.config.minibatches)

    def specs(self, worlds: P) -> TrainState:
        """Returns how a state is sharded: the worlds as given, all else the same on every device."""
        return TrainState(P(), P(), worlds, P(), P())  # type: ignore[arg-type]

    def init(self, key: Key) -> TrainState:
        """Creates a state whose mean raw action is zero: a residual starts exactly at its base."""
        network_key, world_key, key = jax.random.split(key, 3)
        worlds = staggered_worlds(world_key, self.mdp, self.config.worlds)
        look = partial(self.agent.inputs, self.mdp)
        inputs = jax.eval_shape(look, row(worlds.situation, 0)).shape[0]
        network = self.network(network_key, inputs, self.mdp.action_size, self.config)
        _refuse_other_leaves(network)
        params = Params(network, Normaliser.init(inputs), Normaliser.init())
        opt_state = make_optimiser(self.config).init(network)
        state = TrainState(params, opt_state, worlds, key, jnp.int32(0))
        return jax.tree.map(strong_dtype, state)

    def iterate(self, state: TrainState) -> tuple[TrainState, dict[str, Array]]:
        """Runs one iteration on one device's share of the worlds; gradients and statistics are
        all-reduced.
        """
        key, play_key, shuffle_key = split_keys(state.key)
        worlds, trajectory, last_value = play(
            self.mdp, self.agent, self.config.rollout_length, play_key, state.params, state.worlds
        )
        params, opt_state, metrics = self.learn(shuffle_key, state, trajectory, last_value)
        # A world that is not finite starts afresh.
        worlds = worlds._replace(over=worlds.over | ~trajectory.extras[-1])
        return TrainState(params, opt_state, worlds, key, state.iteration + 1), metrics

    def learn(
        self, key: Key, state: TrainState, trajectory: Trajectory, last_value: Array
    ) -> tuple[Params, Any, dict[str, Array]]:
        """Judges and improves. A batch or an update that is not finite changes nothing."""
        config = self.config
        advantage = advantages(trajectory, last_value, self.discount, config.gae_lambda)
        target = advantage + trajectory.value
        params = state.params
        batch = batch_statistics(params, trajectory, advantage, target)
        if config.normalise_values:
            params = popart(params, params.values.merge(*batch.target, batch.steps))
        centred = advantage - batch.advantage.mean
        standard = centred / jnp.sqrt(batch.advantage.variance + 1e-8)
        params, opt_state, metrics = improve(
            config, key, params, state.opt_state, trajectory, standard, target
        )
        params = cap_exploration(config, params, state.iteration + 1)
        if config.normalise_inputs:
            params = params._replace(inputs=params.inputs.merge(*batch.inputs, batch.steps))
        usable = (batch.unsound == 0) & all_finite((params, opt_state, batch, metrics))
        before = (state.params, state.opt_state)
        params, opt_state = select(usable, (params, opt_state), before)
        clipped = (params.values.is_clipped(target) & trajectory.live).sum().astype(jnp.float32)
        metrics |= {"episodes": batch.ended, "return": batch.episode_return}
        metrics["clipped_targets"] = sum_over_devices(clipped) / batch.steps
        return params, opt_state, {**metrics, "skipped": 1.0 - usable}

    def policy(
        self, params: Params, noisy: bool = False, about: dict[str, Any] | None = None
    ) -> LearnedPolicy:
        return LearnedPolicy(params, self.mdp, self.agent, noisy, about or {})


def _refuse_other_leaves(network: Any) -> None:
    """Refuses what Adam cannot train, such as an activation function kept as an ordinary field."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(network):
        if not jnp.issubdtype(getattr(leaf, "dtype", type(leaf)), jnp.floating):
            name = jax.tree_util.keystr(path)
            raise UserError(
                f"The network's leaf {name} is not an array of floats: mark what is not trained "
                "with equinox.field(static=True)."
            )
