"""The programs that are timed: simulation, training, training without a world, one decision."""

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
from seerax.interop.pilot import Pilot
from seerax.numerics.trees import row
from seerax.ppo import Trainer
from seerax.ppo.iteration import TrainState
from seerax.ppo.networks import draw_raw, log_prob
from seerax.ppo.params import Params
from seerax.ppo.play import Trajectory, play
from seerax.problems.maze import Maze, MazeState
from seerax.problems.pointmass import SPHERE

LENGTH = 64  # steps of each world in one call of a simulation


def simulation(mdp: BeliefMDP, worlds: int) -> tuple[Any, Callable[[], Any]]:
    """Returns (compiled program, one call of it).

    A call moves every world `LENGTH` steps on, following the advice.
    """

    def run(key: Key, worlds: World) -> tuple[Key, World]:
        key, local = jax.random.split(key)
        local = jax.random.fold_in(local, jax.lax.axis_index(devices.WORLDS))

        def body(worlds: World, key: Key) -> tuple[World, None]:
            keys = jax.random.split(key, worlds.over.shape[0])
            return jax.vmap(mdp.step)(keys, worlds, worlds.situation.advice)[0], None

        return key, jax.lax.scan(body, worlds, jax.random.split(local, LENGTH))[0]

    spec = (P(), P(devices.WORLDS))
    mapped = devices.sharded(run, devices.mesh(worlds), spec, spec)
    first = jax.jit(jax.vmap(mdp.reset))(jax.random.split(jax.random.key(0), worlds))
    spread = mapped(jax.random.key(1), first)
    program = mapped.lower(*spread).compile()
    return program, going_on(lambda state: program(*state), spread)


def going_on(step: Callable[[Any], Any], state: Any) -> Callable[[], Any]:
    """Returns a function that calls `step` on what it returned last."""
    held = [state]

    def call() -> Any:
        held[0] = step(held[0])
        return held[0]

    return call


def beginner(trainer: Trainer, seeds: int = 1) -> TrainState:
    """Creates the stacked train states of so many seeds at the start of training."""
    keys = jax.random.split(jax.random.key(0), seeds)
    return trainer.place(jax.jit(jax.vmap(trainer.learner.init))(keys))


def training(trainer: Trainer, train_state: TrainState) -> Callable[[], Any]:
    """Returns a function that runs one iteration per call, for all seeds."""
    return going_on(lambda train_state: trainer.iterate_many(train_state)[0], train_state)


def network_only(trainer: Trainer, train_state: TrainState) -> Callable[[], Any]:
    """Returns the limit of training: acting, judging and improving on recorded data, no world."""
    one = row(train_state, 0)
    data = recorded(trainer, one)
    learner: Any = trainer.learner
    spec = learner.specs(P(devices.WORLDS))
    seen = P(None, devices.WORLDS)

    def body(train_state: TrainState, trajectory: Trajectory, last_value: Array) -> TrainState:
        key, act_key, shuffle_key = jax.random.split(train_state.key, 3)
        trajectory = acted(trainer, act_key, train_state, trajectory)
        params, opt_state, _ = learner.learn(shuffle_key, train_state, trajectory, last_value)
        return TrainState(params, opt_state, train_state.worlds, key, train_state.iteration)

    specs = (spec, seen, P(devices.WORLDS))
    program = devices.sharded(body, trainer.mesh, specs, spec)
    return going_on(lambda train_state: program(train_state, *data), one)


def recorded(trainer: Trainer, train_state: TrainState) -> tuple[Trajectory, Array]:
    """Records one iteration's play."""
    worlds = P(devices.WORLDS)
    seen = P(None, devices.WORLDS)
    length = trainer.config.rollout_length

    def body(key: Key, params: Params, worlds: World) -> tuple[Trajectory, Array]:
        key = jax.random.fold_in(key, jax.lax.axis_index(devices.WORLDS))
        return play(trainer.mdp, trainer.agent, length, key, params, worlds)[1:]

    program = devices.sharded(body, trainer.mesh, (P(), P(), worlds), (seen, worlds))
    return program(train_state.key, train_state.params, train_state.worlds)


def acted(
    trainer: Trainer, key: Key, train_state: TrainState, trajectory: Trajectory
) -> Trajectory:
    """Repeats the network's part of play, step by step, on what was seen then."""
    network, inputs, values = train_state.params

    def body(carry: None, step: tuple[Key, Array]) -> tuple[None, tuple[Array, Array, Array]]:
        key, seen = step
        normal = inputs.normalise(seen)
        mean, log_std = network.policy(normal)
        raw = draw_raw(key, mean, log_std)
        return None, (raw, log_prob(raw, mean, log_std), values.restore(network.value(normal)))

    keys = jax.random.split(key, trainer.config.rollout_length)
    _, (raw, probability, value) = jax.lax.scan(body, None, (keys, trajectory.inputs))
    return trajectory._replace(raw=raw, log_prob=probability, value=value)


def decision(trainer: Trainer) -> tuple[Pilot, Callable[[], np.ndarray]]:
    """Returns (pilot, one decision of it).

    A call passes in a new state, from which belief, advice and residual follow.
    """
    params = jax.jit(trainer.learner.init)(jax.random.key(0)).params
    pilot = Pilot(trainer.learner.policy(params))
    states = itertools.cycle(recorded_states(trainer.mdp))
    pilot.reset(next(states))

    def call() -> np.ndarray:
        pilot.observe(pilot.act(), next(states))
        return pilot.act()

    return pilot, call


def recorded_states(mdp: BeliefMDP) -> list[Any]:
    """Returns the states of one episode that follows the advice, in host memory."""
    states = rollout.record(jax.random.key(0), mdp, advice.follow_advice).situation.state
    return [row(states, i) for i in range(jax.tree.leaves(states)[0].shape[0])]


def open_room(hypotheses: int) -> BeliefMDP:
    """Builds a maze almost without walls, with so many goals and experts that move straight."""
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
    straight = Expert(partial(jnp.asarray, dtype=jnp.float32), act)
    weighing = advice.weighted(filter, straight)
    return BeliefMDP(maze, filter, advice.sense_randomly(maze, weighing), straight)
