"""What is timed: simulation, training, training without a world, one decision."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import PartitionSpec as P

from seerax import advice, rollout
from seerax.compute import devices
from seerax.core import BeliefMDP, Expert, Key, World
from seerax.filters import Categorical
from seerax.pilot import Pilot
from seerax.ppo import PPO
from seerax.ppo.networks import log_prob
from seerax.ppo.params import Params
from seerax.ppo.play import TrainState, Trajectory, play
from seerax.ppo.trainer import learn
from seerax.problems.maze import Maze, MazeState
from seerax.problems.pointmass import SPHERE

LENGTH = 64  # steps of each world in one call of a simulation


def simulation(mdp: BeliefMDP, worlds: int) -> tuple[Any, Callable[[], Any]]:
    """(compiled program, one call of it): every world `LENGTH` steps on, following the advice."""

    def run(key: Key, worlds: World) -> tuple[Key, World]:
        key, local = jax.random.split(key)
        local = jax.random.fold_in(local, jax.lax.axis_index(devices.WORLDS))

        def body(worlds: World, key: Key) -> tuple[World, None]:
            keys = jax.random.split(key, worlds.over.shape[0])
            return jax.vmap(mdp.step)(keys, worlds, worlds.situation.advice)[0], None

        return key, jax.lax.scan(body, worlds, jax.random.split(local, LENGTH))[0]

    spec = (P(), P(devices.WORLDS))
    mapped = jax.shard_map(
        run, mesh=devices.mesh(worlds), in_specs=spec, out_specs=spec, check_vma=False
    )
    first = jax.jit(jax.vmap(mdp.reset))(jax.random.split(jax.random.key(0), worlds))
    spread = jax.jit(mapped)(jax.random.key(1), first)
    program = jax.jit(mapped).lower(*spread).compile()
    return program, going_on(lambda state: program(*state), spread)


def going_on(step: Callable[[Any], Any], state: Any) -> Callable[[], Any]:
    """Calls `step` on what it gave last."""
    held = [state]

    def call() -> Any:
        held[0] = step(held[0])
        return held[0]

    return call


def beginner(trainer: PPO, seeds: int = 1) -> TrainState:
    return trainer.place(
        jax.jit(jax.vmap(trainer.init))(jax.random.split(jax.random.key(0), seeds))
    )


def training(trainer: PPO, train_state: TrainState) -> Callable[[], Any]:
    """One iteration a call, seeds side by side."""
    return going_on(lambda train_state: trainer.iterate_many(train_state)[0], train_state)


def network_only(trainer: PPO, train_state: TrainState) -> Callable[[], Any]:
    """The limit: the same acting, judging and improving on recorded data, and no world."""
    one = jax.tree.map(lambda leaf: leaf[0], train_state)
    data = recorded(trainer, one)
    spec = TrainState(P(), P(), P(devices.WORLDS), P(), P())  # type: ignore[arg-type]
    seen = P(None, devices.WORLDS)

    def body(train_state: TrainState, trajectory: Trajectory, last_value: Array) -> TrainState:
        key, act_key, shuffle_key = jax.random.split(train_state.key, 3)
        trajectory = acted(trainer, act_key, train_state, trajectory)
        params, optimiser, _ = learn(trainer, shuffle_key, train_state, trajectory, last_value)
        return TrainState(params, optimiser, train_state.worlds, key, train_state.iteration)

    mapped = jax.shard_map(
        body,
        mesh=trainer.mesh,
        in_specs=(spec, seen, P(devices.WORLDS)),
        out_specs=spec,
        check_vma=False,
    )
    program = jax.jit(mapped)
    return going_on(lambda train_state: program(train_state, *data), one)


def recorded(trainer: PPO, train_state: TrainState) -> tuple[Trajectory, Array]:
    """One iteration's play."""
    worlds, seen = P(devices.WORLDS), P(None, devices.WORLDS)

    def body(key: Key, params: Params, worlds: World) -> tuple[Trajectory, Array]:
        key = jax.random.fold_in(key, jax.lax.axis_index(devices.WORLDS))
        return play(trainer, key, params, worlds)[1:]

    mapped = jax.shard_map(
        body,
        mesh=trainer.mesh,
        in_specs=(P(), P(), worlds),
        out_specs=(seen, worlds),
        check_vma=False,
    )
    return jax.jit(mapped)(train_state.key, train_state.params, train_state.worlds)


def acted(trainer: PPO, key: Key, train_state: TrainState, trajectory: Trajectory) -> Trajectory:
    """The network's part of play, step by step, on what was seen then."""
    network, inputs, values = train_state.params

    def body(carry: None, step: tuple[Key, Array]) -> tuple[None, tuple[Array, Array, Array]]:
        key, seen = step
        normal = inputs.normalise(seen)
        mean, value = network.actor(normal), values.restore(network.value(normal))
        raw = mean + jnp.exp(network.log_std) * jax.random.normal(key, mean.shape)
        return None, (raw, log_prob(raw, mean, network.log_std), value)

    _, (raw, probability, value) = jax.lax.scan(
        body, None, (jax.random.split(key, trainer.config.rollout_length), trajectory.inputs)
    )
    return trajectory._replace(raw=raw, log_prob=probability, value=value)


def decision(trainer: PPO) -> tuple[Pilot, Callable[[], np.ndarray]]:
    """(who decides, one call of it): a new state comes from outside, belief, advice and residual follow."""
    pilot = Pilot(trainer.mdp, trainer.policy(jax.jit(trainer.init)(jax.random.key(0)).params))
    states = itertools.cycle(recorded_states(trainer.mdp))
    pilot.reset(next(states))

    def call() -> np.ndarray:
        pilot.observe(pilot.act(), next(states))
        return pilot.act()

    return pilot, call


def recorded_states(mdp: BeliefMDP) -> list[Any]:
    """Of one episode that follows the advice, in the host's memory."""
    states = rollout.record(jax.random.key(0), mdp, advice.follow_advice).situation.state
    return [
        jax.tree.map(lambda leaf, i=i: leaf[i], states)
        for i in range(jax.tree.leaves(states)[0].shape[0])
    ]


def open_room(hypotheses: int) -> BeliefMDP:
    """A maze without walls to speak of, with as many goals as wanted and experts that fly straight."""
    around = 2 * np.pi * np.arange(hypotheses) / hypotheses
    maze = Maze(
        goals=jnp.asarray(np.stack([np.cos(around), np.sin(around)], -1), jnp.float32),
        walls=jnp.asarray([[(1.38, 1.38), (1.39, 1.39)]], jnp.float32),
        body=SPHERE,
        half=1.4,
        start_low=(-0.1, -0.1),
        start_high=(0.1, 0.1),
        noise=0.393,
        sensing_cost=1.0,
        right_radius=0.1,
        wrong_radius=0.0,
        wrong_cost=0.0,
        wrong_ends=False,
        horizon=500,
    )

    def act(state: MazeState, goal: Array) -> Array:
        return jnp.append(jnp.clip(3 * (goal - state.position) - state.velocity, -1, 1), -0.1)

    filter = Categorical(maze.goals, maze.log_likelihood)
    weighing = advice.weighted(
        filter, straight := Expert(partial(jnp.asarray, dtype=jnp.float32), act)
    )
    return BeliefMDP(maze, filter, advice.sense_randomly(maze, weighing), straight)
