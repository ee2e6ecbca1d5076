"""The measurements of child processes: each runs one of these and prints one JSON line."""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from seerax import problems
from seerax.bench import programs
from seerax.bench.timing import alternated, timed
from seerax.compute import devices
from seerax.settings import settings

WORLDS = 2048  # simulated at once


def simulate(problem: str) -> dict[str, Any]:
    """Measures the rate of a simulation."""
    _, call = programs.simulation(problems.make(problem), WORLDS)
    return {"steps_per_second": WORLDS * programs.LENGTH / timed(call).median}


def train(problem: str) -> dict[str, Any]:
    """Measures training and its limit in turns, and counts programs compiled after the start."""
    trainer = settings(problem).trainer()
    train_state = programs.beginner(trainer)
    calls = {
        "training": programs.training(trainer, train_state),
        "limit": programs.network_only(trainer, train_state),
    }
    for call in calls.values():
        jax.block_until_ready(call())
    compiled: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, duration_secs, **_: compiled.append(event)
    )
    times = alternated(calls)
    rates = {name: trainer.config.batch / timing.median for name, timing in times.items()}
    again = sum("backend_compile" in name for name in compiled)
    return {**rates, "ratio": rates["training"] / rates["limit"], "compiled_again": again}


def train_alone(problem: str) -> dict[str, Any]:
    """Measures training on the devices of this process, and its peak memory."""
    trainer = settings(problem).trainer()
    call = programs.training(trainer, programs.beginner(trainer))
    rate = trainer.config.batch / timed(call, seconds=6).median
    work = jax.tree.leaves(trainer.learner.init(jax.random.key(0)).params.network)
    return {
        "steps_per_second": rate,
        "devices": jax.device_count(),
        "worlds": trainer.config.worlds,
        "parameters": int(sum(leaf.size for leaf in work)),
        "peak_memory": peak_memory(),
    }


def decide(problem: str) -> dict[str, Any]:
    """Measures the latency of one decision, in microseconds."""
    _, call = programs.decision(settings(problem).trainer())
    taken = []
    call()
    for _ in range(5000):
        begun = time.perf_counter()
        call()
        taken.append(1e6 * (time.perf_counter() - begun))
    return {"p50": float(np.quantile(taken, 0.5)), "p99": float(np.quantile(taken, 0.99))}


def start(problem: str) -> dict[str, Any]:
    """Measures the seconds from the start of this process to the end of its first iteration."""
    trainer = settings(problem).trainer()
    going = trainer.train(seed=0)
    next(going)
    jax.block_until_ready(next(going).train_state.params)
    return {"seconds": time.time() - process_started()}


def grow_hypotheses(count: str) -> dict[str, Any]:
    """Measures a step of one world with so many hypotheses."""
    program, call = programs.simulation(programs.open_room(int(count)), 256)
    return {"seconds": timed(call).median / (256 * programs.LENGTH), "memory": memory_of(program)}


def grow_worlds(count: str) -> dict[str, Any]:
    """Measures a step of so many worlds."""
    program, call = programs.simulation(problems.make("maze4"), int(count))
    return {"seconds": timed(call).median / programs.LENGTH, "memory": memory_of(program)}


def grow_seeds(count: str) -> dict[str, Any]:
    """Measures one iteration of all seeds, with 256 worlds so that sixteen seeds fit."""
    ours = settings("maze4")
    trainer = replace(ours, ppo=replace(ours.ppo, worlds=256)).trainer()
    train_state = programs.beginner(trainer, int(count))
    program = trainer.iterate_many.lower(train_state).compile()
    call = programs.going_on(lambda train_state: program(train_state)[0], train_state)
    return {"seconds": timed(call).median, "memory": memory_of(program)}


CHILDREN: dict[str, Callable[[str], dict[str, Any]]] = {
    "simulate": simulate,
    "train": train,
    "train_alone": train_alone,
    "decide": decide,
    "start": start,
    "grow_hypotheses": grow_hypotheses,
    "grow_worlds": grow_worlds,
    "grow_seeds": grow_seeds,
}


def memory_of(program: Any) -> int:
    """Returns the most bytes that a compiled program holds: arguments, outputs and temporaries."""
    needs = program.memory_analysis()
    return int(needs.argument_size_in_bytes + needs.output_size_in_bytes + needs.temp_size_in_bytes)


def peak_memory() -> int:
    """Returns the peak memory of this process in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def process_started() -> float:
    """Returns when this process started, on the clock of `time.time`."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.time() - (
        time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    )


def main(name: str, argument: str, count: str) -> None:
    """Runs one measurement on so many devices and prints its result as JSON.

    A simulation with one device is pinned to one core; training may always use all threads.
    """
    if name == "simulate" and count == "1":
        devices.pin(0, accelerated=False)
    devices.prepare(int(count))
    print(json.dumps(CHILDREN[name](argument)))
