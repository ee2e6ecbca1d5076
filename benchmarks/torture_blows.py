"""Sections kill and sigterm: runs that are struck at random moments and go on as if nothing had
been.
"""

from __future__ import annotations

import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torture_small import (
    BATCH,
    LIMIT,
    begin_command,
    must,
    must_equal,
    newest,
    resume_command,
    rows,
    undisturbed,
)

from seerax.runs.checkpoints import Checkpoints
from seerax.system import files

LANES = 2  # processes at a time


class Child:
    """A training process, and what it has said."""

    def __init__(self, folder: Path, iterations: int):
        resumed = (folder / "config.json").exists()
        self.folder = folder
        self.expected = newest(folder) if resumed else 0
        # Not in the run's folder: its disk may be full.
        self.paper = tempfile.NamedTemporaryFile(suffix=".said")  # noqa: SIM115
        self.said = Path(self.paper.name)
        with open(self.said, "w") as file:
            command = resume_command(folder) if resumed else begin_command(folder, iterations)
            self.process = subprocess.Popen(command, stdout=file, stderr=file)

    def started(self, patience: float = LIMIT) -> bool:
        """Waits until it has trained an iteration.

        Returns False if it has not after so many seconds, or if it ended before.
        """
        began = time.monotonic()
        checkpoints = Checkpoints(self.folder / "checkpoints")
        while self.process.poll() is None and time.monotonic() - began < patience:
            if any(number > self.expected for number in checkpoints.numbers()):
                return True
            time.sleep(0.005)
        in_time = patience < LIMIT or self.process.poll() is not None
        must(in_time, f"{self.folder} did not start within {LIMIT} s")
        return False

    def lost(self) -> int:
        """Counts iterations between the newest checkpoint and what it says it went on from."""
        told = re.search(
            r"Going on from the checkpoint of iteration (\d+)\.", self.said.read_text()
        )
        return self.expected - (int(told[1]) if told else 0)


Strike = Callable[[Child, random.Random], None]


@dataclass(frozen=True)
class Plan:
    """How many blows fall, on runs of which length, and when."""

    blows: int
    iterations: int  # of a run
    hasty: float = 0.0  # the share of blows that do not wait for an iteration
    pause: float = 1.5  # seconds of training after which the others fall, at most


class Blows:
    """The blows that are left to one lane, and what became of those that were struck."""

    def __init__(self, plan: Plan, strike: Strike, lane: int):
        self.plan = plan
        self.strike = strike
        self.share = plan.blows // LANES + (lane < plan.blows % LANES)
        self.dice = random.Random(lane)
        self.counts = Counter[str]()
        self.waking = 3.0  # seconds a child takes to train an iteration

    @property
    def left(self) -> bool:
        return self.counts["struck"] < self.share

    def fall(self, child: Child) -> bool:
        """Strikes the child at a random moment of its start or its training; False if it was
        spared.
        """
        hasty = self.left and self.dice.random() < self.plan.hasty
        began = time.monotonic()
        started = child.started(self.dice.random() * self.waking if hasty else LIMIT)
        if started:
            self.waking = time.monotonic() - began
            self.survived(child)
        if not self.left:
            return False
        if not hasty:
            time.sleep(self.dice.random() * self.plan.pause)
        if child.process.poll() is not None:
            return False
        self.strike(child, self.dice)
        self.counts.update(struck=1, open=1, hasty=not started)
        return True

    def survived(self, child: Child) -> None:
        """Notes that the child has gone on after all blows since the last one that did."""
        lost = child.lost() if self.counts["open"] else 0
        self.counts.update(resumed=self.counts["open"], lost=lost)
        self.counts["open"] = 0


def disturbed(blows: Blows, place: Path, lane: int) -> Counter[str]:
    """Strikes runs again and again until they are through, and equal to the undisturbed one."""
    while blows.left:
        folder = place / f"lane{lane}-run{blows.counts['runs']}"
        child = Child(folder, blows.plan.iterations)
        while blows.fall(child):
            child = Child(folder, blows.plan.iterations)
        code = child.process.wait(LIMIT)
        must(code == 0, f"{folder} ended with {code}: {child.said.read_text()}")
        blows.survived(child)
        must_equal(folder, place / "undisturbed")
        shutil.rmtree(folder)
        blows.counts["runs"] += 1
    return blows.counts


def in_lanes(plan: Plan, strike: Strike) -> Counter[str]:
    """Counts what became of the blows; every one must have been survived, and nothing lost."""
    counts = Counter[str]()
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(LANES) as pool:
        place = Path(name)
        undisturbed(place / "undisturbed", plan.iterations)
        lanes = [Blows(plan, strike, lane) for lane in range(LANES)]
        jobs = [pool.submit(disturbed, blows, place, i) for i, blows in enumerate(lanes)]
        for job in jobs:
            counts.update(job.result())
    must(counts["lost"] == 0, f"{counts['lost']} iterations were lost that had been saved")
    survived = f"{counts['resumed']} of {counts['struck']} blows were survived"
    must(counts["resumed"] == counts["struck"], survived)
    return counts


# ---- sections ------------------------------------------------------------------------------------


def kill(plan: Plan = Plan(100, 300, hasty=0.2)) -> dict[str, Any]:  # noqa: B008
    """Sends SIGKILL at random moments: during saves too, and while starting or loading."""
    within = []

    def strike(child: Child, dice: random.Random) -> None:
        child.process.kill()
        child.process.wait()
        checkpoints = Checkpoints(child.folder / "checkpoints")
        half = list(child.folder.rglob(f"*{files.UNFINISHED}"))
        orphans = {path.stem for path in checkpoints.folder.glob("*.safetensors")}
        orphans -= {f"{n:09d}" for n in checkpoints.numbers()}
        within.append(bool(half or orphans))

    counts = in_lanes(plan, strike)
    return {
        "kills": counts["struck"],
        "before_an_iteration_was_trained": counts["hasty"],
        "during_saves": sum(within),
        "resumed": counts["resumed"],
        "runs_identical_to_undisturbed": counts["runs"],
        "iterations_lost_beyond_the_last_checkpoint": counts["lost"],
    }


def sigterm(plan: Plan = Plan(30, 300)) -> dict[str, Any]:  # noqa: B008
    """Sends SIGTERM and Ctrl-C at random moments: the run saves, says how to go on, and goes on."""

    def strike(child: Child, dice: random.Random) -> None:
        number = dice.choice([signal.SIGTERM, signal.SIGTERM, signal.SIGINT])
        child.process.send_signal(number)
        code = child.process.wait(LIMIT)
        said = child.said.read_text()
        must(code == 128 + number, f"{number.name} ended {child.folder} with {code}: {said}")
        well = "--resume" in said and "Traceback" not in said
        must(well, f"{number.name} was not told well: {said}")
        saved = rows(child.folder)[-1]["steps"] == BATCH * newest(child.folder)
        must(saved, "the last iteration was not saved")

    counts = in_lanes(plan, strike)
    told = {"signals": counts["struck"], "saved_and_resumed": counts["resumed"]}
    return {**told, "runs_identical_to_undisturbed": counts["runs"]}
