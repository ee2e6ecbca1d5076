"""Section soak: a long training with evaluation must neither grow in memory nor compile again."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from scipy.stats import theilslopes
from torture_small import must

from seerax import runs
from seerax.experiments import Experiment
from seerax.runs.schedule import Schedule
from seerax.settings import settings
from seerax.system.signals import Stopped

ENDLESS = 100_000  # iterations
MOST = 1.0  # megabytes that memory may change by per minute
WARM = 1 / 6  # the share of the time that is not judged


def soak(
    minutes: float = 30.0,
    experiment: Experiment | None = None,
    most: float = MOST,
    warm: float = WARM,
) -> dict[str, Any]:
    """Trains Maze4, or what is given, for so long after its first report."""
    compiled: list[float] = []
    measured: list[tuple[float, float]] = []

    def listen(event: str, seconds: float, **_: Any) -> None:
        if "backend_compile" in event:
            compiled.append(time.monotonic())

    jax.monitoring.register_event_duration_secs_listener(listen)
    ours = experiment or settings("maze4")
    endless = replace(ours.ppo, steps=ours.ppo.batch * ENDLESS, evaluations=ENDLESS // 10)

    def report(progress: Any) -> None:
        measured.append((time.monotonic(), resident()))
        if measured[-1][0] - measured[0][0] > 60 * minutes:
            signal.raise_signal(signal.SIGTERM)

    try:
        with tempfile.TemporaryDirectory() as name, suppress(Stopped):
            folder = runs.RunFolder(Path(name) / "run")
            run = runs.Run(replace(ours, ppo=endless), 0, 1, folder)
            runs.train(run, report=report, schedule=Schedule(seconds=30))
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    began = measured[0][0]
    times = [moment - began for moment in compiled]
    return soaked(np.array(measured) - (began, 0.0), times, minutes, most, warm)


def soaked(
    measured: np.ndarray,
    compiled: list[float],
    minutes: float,
    most: float = MOST,
    warm: float = WARM,
) -> dict[str, Any]:
    """Judges rows of (seconds, megabytes), and the seconds at which something was compiled.

    The slope is the median of those between any two minutes (or thirtieths of a shorter time): a
    kernel may take back idle memory once, in one go.
    """
    after = 60 * minutes * warm
    seconds, memory = measured[measured[:, 0] > after].T
    unit = min(60.0, 60 * minutes / 30)
    minute = (seconds / unit).astype(int)
    each = [float(np.median(memory[minute == m]).round(1)) for m in np.unique(minute)]
    slope = float(theilslopes(each, np.unique(minute) * unit / 60).slope)
    late = sum(moment > after for moment in compiled)
    must(abs(slope) < most, f"memory changes by {slope:.2f} MB per minute: {each}")
    must(late == 0, f"{late} compilations after warm-up")
    told = {"minutes": minutes, "iterations": len(measured), "memory_mb_by_minute": each}
    return {**told, "slope_mb_per_minute": round(slope, 4), "compilations_after_warm_up": late}


def resident() -> float:
    """Returns the megabytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
