"""The measurements, each in a child: `python -m seerax.bench.sections NAME ARGUMENT DEVICES` prints one JSON line."""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from seerax import devices, experiments, peers, problems, runs
from seerax.bench import programs
from seerax.bench.timing import alternated, exponent, timed
from seerax.errors import Mistake, unknown

SIX = ("crowdnav", "cartpole", "armshelf", "maze4", "maze10", "door4")
WORLDS = 2048  # of a simulation
HYPOTHESES = (4, 16, 64, 256, 1024, 4096)
MANY_WORLDS = (64, 256, 1024, 4096, 16384)
SEEDS = (1, 2, 4, 8, 16)
PATIENCE = 600.0  # seconds for one child


# ---- what children do --------------------------------------------------------------------------------------------


def simulate(problem: str) -> dict[str, Any]:
    _, call = programs.simulation(problems.make(problem), WORLDS)
    return {"steps_per_second": WORLDS * programs.LENGTH / timed(call).median}


def train(problem: str) -> dict[str, Any]:
    """Training and its limit in turns, with what was compiled after the first iteration."""
    trainer = experiments.settings(problem).trainer()
    learner = programs.beginner(trainer)
    calls = {"training": programs.training(trainer, learner), "limit": programs.network_only(trainer, learner)}
    for call in calls.values():
        jax.block_until_ready(call())
    compiled: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: compiled.append(name))
    times = alternated(calls)
    rates = {name: trainer.config.batch / timing.median for name, timing in times.items()}
    again = sum("backend_compile" in name for name in compiled)
    return {**rates, "ratio": rates["training"] / rates["limit"], "compiled_again": again}


def train_alone(problem: str) -> dict[str, Any]:
    """With whatever devices this process has; its peak memory too."""
    trainer = experiments.settings(problem).trainer()
    call = programs.training(trainer, programs.beginner(trainer))
    rate = trainer.config.batch / timed(call, seconds=6).median
    work = jax.tree.leaves(trainer.init(jax.random.key(0)).brain.network)
    return {
        "steps_per_second": rate,
        "devices": jax.device_count(),
        "worlds": trainer.config.worlds,
        "parameters": int(sum(leaf.size for leaf in work)),
        "peak_memory": peak_memory(),
    }


def decide(problem: str) -> dict[str, Any]:
    call = programs.decision(experiments.settings(problem).trainer())
    taken = [timed(call, seconds=0, least=1).median for _ in range(20)]
    taken = []
    for _ in range(5000):
        begun = time.perf_counter()
        jax.block_until_ready(call())
        taken.append(1e6 * (time.perf_counter() - begun))
    return {"p50": float(np.quantile(taken, 0.5)), "p99": float(np.quantile(taken, 0.99))}


def start(problem: str) -> dict[str, Any]:
    """Seconds from the start of this process to the end of the first iteration, as `seerax train` goes about it."""
    trainer = experiments.settings(problem).trainer()
    going = trainer.train(runs.training_keys(0, 1))
    next(going)
    jax.block_until_ready(next(going).learner.brain)
    return {"seconds": time.time() - process_started()}


def grow_hypotheses(count: str) -> dict[str, Any]:
    program, call = programs.simulation(programs.open_room(int(count)), 256)
    return {"seconds": timed(call).median / (256 * programs.LENGTH), "memory": memory_of(program)}


def grow_worlds(count: str) -> dict[str, Any]:
    program, call = programs.simulation(problems.make("maze4"), int(count))
    return {"seconds": timed(call).median / programs.LENGTH, "memory": memory_of(program)}


def grow_seeds(count: str) -> dict[str, Any]:
    """One iteration of all seeds, with a quarter of the usual worlds so that sixteen fit."""
    ours = experiments.settings("maze4")
    trainer = replace(ours, ppo=replace(ours.ppo, worlds=256)).trainer()
    learner = programs.beginner(trainer, int(count))
    program = trainer.iterate_many.lower(learner).compile()
    call = programs.going_on(lambda learner: program(learner)[0], learner)
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
    """Bytes that a compiled program holds at most: what goes in, comes out and lies between."""
    needs = program.memory_analysis()
    return int(needs.argument_size_in_bytes + needs.output_size_in_bytes + needs.temp_size_in_bytes)


def peak_memory() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def process_started() -> float:
    """By the clock of `time.time`."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))


def child(name: str, argument: str, count: int | None = None, cache: Path | None = None) -> dict[str, Any]:
    """Run one measurement with so many devices; a single one is kept to one core."""
    command = [sys.executable, "-m", "seerax.bench.sections", name, argument, str(count or len(devices.cores()))]
    environment = os.environ | ({"SEERAX_CACHE": str(cache)} if cache else {})
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise Mistake(f"Measuring {name} {argument} failed: {last}")
    return json.loads(done.stdout.splitlines()[-1])


def main(name: str, argument: str, count: str) -> None:
    devices.prepare(int(count))
    print(json.dumps(CHILDREN[name](argument)))


# ---- what the bench is made of -----------------------------------------------------------------------------------

Told = Callable[[str], None]


def each(name: str, tell: Told, arguments: tuple[Any, ...], count: int | None = None) -> dict[str, Any]:
    results = {}
    for argument in arguments:
        tell(f"{name.replace('_', ' ')} {argument}")
        results[str(argument)] = child(name, str(argument), count)
    return results


def measure_simulation(tell: Told) -> dict[str, Any]:
    """Per problem on one core and on all."""
    alone, together = (each("simulate", tell, SIX, count) for count in (1, None))
    rate = "steps_per_second"
    return {name: {"one_core": alone[name][rate], "all_cores": together[name][rate]} for name in SIX}


def measure_training(tell: Told) -> dict[str, Any]:
    return each("train", tell, SIX)


def measure_devices(tell: Told) -> dict[str, Any]:
    """Maze4 on one device and on all, and Maze10's memory."""
    return {
        "one": each("train_alone", tell, ("maze4",), 1)["maze4"],
        "all": each("train_alone", tell, ("maze4",))["maze4"],
        "maze10": each("train_alone", tell, ("maze10",))["maze10"],
    }


def measure_decisions(tell: Told) -> dict[str, Any]:
    return each("decide", tell, SIX)


def measure_growth(tell: Told) -> dict[str, Any]:
    axes = {"hypotheses": HYPOTHESES, "worlds": MANY_WORLDS, "seeds": SEEDS}
    return {name: with_exponent(each(f"grow_{name}", tell, sizes)) for name, sizes in axes.items()}


def with_exponent(points: dict[str, Any]) -> dict[str, Any]:
    sizes = [int(size) for size in points]
    return {
        "sizes": sizes,
        "seconds": [point["seconds"] for point in points.values()],
        "memory": [point["memory"] for point in points.values()],
        "exponent": exponent(sizes, [point["seconds"] for point in points.values()]),
    }


def measure_start(tell: Told) -> dict[str, Any]:
    """The first iteration with an empty cache of compiled programs, and again with a full one."""
    results = {}
    for problem in ("maze4", "maze10", "armshelf"):
        with tempfile.TemporaryDirectory() as folder:
            for state in ("cold", "warm"):
                tell(f"first iteration of {problem}, {state}")
                results.setdefault(problem, {})[state] = child("start", problem, cache=Path(folder))["seconds"]
    return results


SECTIONS: dict[str, Callable[[Told], dict[str, Any]]] = {
    "training": measure_training,
    "peers": peers.measure,
    "devices": measure_devices,
    "simulation": measure_simulation,
    "decisions": measure_decisions,
    "start": measure_start,
    "growth": measure_growth,
}


def measure(names: tuple[str, ...], tell: Told) -> Iterator[tuple[str, dict[str, Any]]]:
    """(section, result), one by one."""
    for name in names:
        if name not in SECTIONS:
            raise unknown("section", name, SECTIONS)
    for name in names:
        yield name, SECTIONS[name](tell)


def machine() -> dict[str, Any]:
    return {"cores": len(devices.cores()), "processor": processor(), "python": platform.python_version()}


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


if __name__ == "__main__":
    main(*sys.argv[1:])
