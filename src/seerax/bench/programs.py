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

from seerax import advice, ppo, rollout
from seerax.compute import devices
from seerax.core import BeliefMDP, Expert, Key, World
from seerax.filters import Categorical
from seerax.pilot import Pilot
from seerax.ppo import PPO, Learner, Played
from seerax.ppo.networks import log_prob
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


def beginner(trainer: PPO, seeds: int = 1) -> Learner:
    return trainer.place(
        jax.jit(jax.vmap(trainer.init))(jax.random.split(jax.random.key(0), seeds))
    )


def training(trainer: PPO, learner: Learner) -> Callable[[], Any]:
    """One iteration a call, seeds side by side."""
    return going_on(lambda learner: trainer.iterate_many(learner)[0], learner)


def network_only(trainer: PPO, learner: Learner) -> Callable[[], Any]:
    """The limit: the same acting, judging and improving on recorded data, and no world."""
    one = jax.tree.map(lambda leaf: leaf[0], learner)
    data = recorded(trainer, one)
    spec = Learner(P(), P(), P(devices.WORLDS), P(), P())  # type: ignore[arg-type]
    seen = P(None, devices.WORLDS)

    def body(learner: Learner, played: Played, last_value: Array) -> Learner:
        key, act_key, shuffle_key = jax.random.split(learner.key, 3)
        played = acted(trainer, act_key, learner, played)
        brain, optimiser, _ = ppo.learn(trainer, shuffle_key, learner, played, last_value)
        return Learner(brain, optimiser, learner.worlds, key, learner.iteration)

    mapped = jax.shard_map(
        body,
        mesh=trainer.mesh,
        in_specs=(spec, seen, P(devices.WORLDS)),
        out_specs=spec,
        check_vma=False,
    )
    program = jax.jit(mapped)
    return going_on(lambda learner: program(learner, *data), one)


def recorded(trainer: PPO, learner: Learner) -> tuple[Played, Array]:
    """One iteration's play."""
    worlds, seen = P(devices.WORLDS), P(None, devices.WORLDS)

    def body(key: Key, brain: ppo.Brain, worlds: World) -> tuple[Played, Array]:
        key = jax.random.fold_in(key, jax.lax.axis_index(devices.WORLDS))
        return ppo.play(trainer, key, brain, worlds)[1:]

    mapped = jax.shard_map(
        body,
        mesh=trainer.mesh,
        in_specs=(P(), P(), worlds),
        out_specs=(seen, worlds),
        check_vma=False,
    )
    return jax.jit(mapped)(learner.key, learner.brain, learner.worlds)


def acted(trainer: PPO, key: Key, learner: Learner, played: Played) -> Played:
    """The network's part of play, step by step, on what was seen then."""
    network, inputs, values = learner.brain

    def body(carry: None, step: tuple[Key, Array]) -> tuple[None, tuple[Array, Array, Array]]:
        key, seen = step
        normal = inputs.normalise(seen)
        mean, value = network.actor(normal), values.restore(network.value(normal))
        raw = mean + jnp.exp(network.log_std) * jax.random.normal(key, mean.shape)
        return None, (raw, log_prob(raw, mean, network.log_std), value)

    _, (raw, probability, value) = jax.lax.scan(
        body, None, (jax.random.split(key, trainer.config.length), played.inputs)
    )
    return played._replace(raw=raw, log_prob=probability, value=value)


def decision(trainer: PPO) -> tuple[Pilot, Callable[[], np.ndarray]]:
    """(who decides, one call of it): a new state comes from outside, belief, advice and residual follow."""
    pilot = Pilot(trainer.mdp, trainer.policy(jax.jit(trainer.init)(jax.random.key(0)).brain))
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
