"""The measurements, each in a process of its own, one after another.

So each has its own devices, compiled programs and peak memory, and none warms up another.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from seerax.bench import peers
from seerax.bench.timing import exponent
from seerax.compute import devices
from seerax.errors import UserError, unknown
from seerax.problems import PAPER

HYPOTHESES = (4, 16, 64, 256, 1024, 4096)
MANY_WORLDS = (64, 256, 1024, 4096, 16384)
SEEDS = (1, 2, 4, 8, 16)
STARTED = ("maze4", "maze10", "armshelf")
PATIENCE = 600.0  # seconds for one child


def child(
    name: str, argument: str, count: int | None = None, cache: Path | None = None
) -> dict[str, Any]:
    """Runs one measurement in a child process with so many devices."""
    program = "from seerax.bench import children; import sys; children.main(*sys.argv[1:])"
    if name == "start":
        program = f"import seerax.cli.commands; {program}"  # as `seerax train` does
    cores = str(count or len(devices.cores()))
    command = [sys.executable, "-c", program, name, argument, cores]
    environment = os.environ | ({"SEERAX_CACHE": str(cache)} if cache else {})
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, env=environment
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise UserError(f"Measuring {name} {argument} failed: {last}")
    return json.loads(done.stdout.splitlines()[-1])


Told = Callable[[str], None]


def each(
    name: str, tell: Told, arguments: tuple[Any, ...], count: int | None = None
) -> dict[str, Any]:
    """Runs one measurement for each argument, and announces each."""
    results = {}
    for argument in arguments:
        tell(f"{name.replace('_', ' ')} {argument}")
        results[str(argument)] = child(name, str(argument), count)
    return results


def measure_simulation(tell: Told) -> dict[str, Any]:
    """Measures the simulation of every problem on one core and on all."""
    alone, together = (each("simulate", tell, PAPER, count) for count in (1, None))
    rate = "steps_per_second"
    return {
        name: {"one_core": alone[name][rate], "all_cores": together[name][rate]} for name in PAPER
    }


def measure_training(tell: Told) -> dict[str, Any]:
    """Measures the training of every problem, and its limit."""
    return each("train", tell, PAPER)


def measure_devices(tell: Told) -> dict[str, Any]:
    """Measures Maze4 on one device and on all, and Maze10's memory."""
    return {
        "one": each("train_alone", tell, ("maze4",), 1)["maze4"],
        "all": each("train_alone", tell, ("maze4",))["maze4"],
        "maze10": each("train_alone", tell, ("maze10",))["maze10"],
    }


def measure_decisions(tell: Told) -> dict[str, Any]:
    """Measures one decision in every problem."""
    return each("decide", tell, PAPER)


def measure_growth(tell: Told) -> dict[str, Any]:
    """Measures time and memory for growing numbers of hypotheses, worlds and seeds."""
    axes = {"hypotheses": HYPOTHESES, "worlds": MANY_WORLDS, "seeds": SEEDS}
    return {name: with_exponent(each(f"grow_{name}", tell, sizes)) for name, sizes in axes.items()}


def with_exponent(points: dict[str, Any]) -> dict[str, Any]:
    """Returns the points as lists, with the exponent of their power law."""
    sizes = [int(size) for size in points]
    return {
        "sizes": sizes,
        "seconds": [point["seconds"] for point in points.values()],
        "memory": [point["memory"] for point in points.values()],
        "exponent": exponent(sizes, [point["seconds"] for point in points.values()]),
    }


def measure_start(tell: Told) -> dict[str, Any]:
    """Measures the first iteration with an empty cache of compiled programs, then a full one."""
    results: dict[str, Any] = {}
    for problem in STARTED:
        with tempfile.TemporaryDirectory() as folder:
            for state in ("cold", "warm"):
                tell(f"first iteration of {problem}, {state}")
                results.setdefault(problem, {})[state] = child(
                    "start", problem, cache=Path(folder)
                )["seconds"]
    return results


class Section(NamedTuple):
    """A part of the bench that can be run alone."""

    steps: int  # number of its announcements
    measure: Callable[[Told], dict[str, Any]]


SECTIONS = {
    "training": Section(len(PAPER), measure_training),
    "peers": Section(len(peers.PEERS) + len(peers.HOMES), peers.measure),
    "devices": Section(3, measure_devices),
    "simulation": Section(2 * len(PAPER), measure_simulation),
    "decisions": Section(len(PAPER), measure_decisions),
    "start": Section(2 * len(STARTED), measure_start),
    "growth": Section(len(HYPOTHESES) + len(MANY_WORLDS) + len(SEEDS), measure_growth),
}


def chosen(names: tuple[str, ...]) -> dict[str, Section]:
    """Returns the named sections, or all if none is named."""
    for name in names:
        if name not in SECTIONS:
            raise unknown("section", name, SECTIONS)
    return {name: SECTIONS[name] for name in names or SECTIONS}


def machine() -> dict[str, Any]:
    """Describes this host."""
    return {
        "cores": len(devices.cores()),
        "processor": processor(),
        "python": platform.python_version(),
    }


def processor() -> str:
    """Returns the name of the processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
