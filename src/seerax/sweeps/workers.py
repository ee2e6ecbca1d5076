"""Who carries out the runs of a sweep: a process per core or accelerator here, or jobs on a
cluster.

Either way one run is one process, and both ways are generators that yield what ended, or None while
nothing did. Closed early they stop what runs.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

from seerax.compute import devices
from seerax.errors import UserError, writing
from seerax.sweeps import submitit
from seerax.sweeps.plan import Job
from seerax.system.signals import Stopped

TICK = 0.2  # seconds between two looks
GRACE = 60.0  # seconds to save after being told to stop


def start_workers(
    out: Path,
    jobs: list[Job],
    workers: int | None = None,
    cluster: str | None = None,
    options: dict[str, Any] | None = None,
) -> Any:
    """Returns the generator that carries out what is not finished; logs go to a folder made here."""
    if workers is not None and workers < 1:
        raise UserError(f"The number of workers must be at least 1, not {workers}.", "workers")
    todo = [job for job in jobs if not job.finished()]
    executor = cluster and submitit.executor(cluster, out / "jobs", options or {})
    logs = out / "logs"
    with writing(out):
        logs.mkdir(parents=True, exist_ok=True)
    return on_cluster(todo, executor) if executor else run_locally(todo, workers, logs)


class Ended(NamedTuple):
    job: Job
    failure: str | None


def ended(job: Job, log: Path, how: str) -> Ended:
    return Ended(job, None if job.finished() else f"{last_log_line(log)} ({how}, {log})")


def last_log_line(log: Path) -> str:
    """Returns the last thing a worker said."""
    text = log.read_text(errors="replace") if log.exists() else ""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"


# ---- on this machine -----------------------------------------------------------------------------


def run_locally(jobs: list[Job], workers: int | None, logs: Path) -> Iterator[Ended | None]:
    """A worker per accelerator if there are any, else per core, unless told otherwise."""
    accelerators = devices.accelerators()
    slots = range(workers or accelerators or len(devices.cores()))
    waiting, running = deque(jobs), dict[int, tuple[Job, BaseProcess]]()
    try:
        while waiting or running:
            for slot in [slot for slot in slots if slot not in running][: len(waiting)]:
                running[slot] = start(waiting.popleft(), slot, accelerators > 0, logs)
            for slot, (job, process) in list(running.items()):
                if process.exitcode is not None:
                    del running[slot]
                    yield ended(job, log_of(job, logs), f"exit code {process.exitcode}")
            yield None
            time.sleep(TICK)
    finally:
        stop([process for _, process in running.values()])


def start(job: Job, slot: int, accelerated: bool, logs: Path) -> tuple[Job, BaseProcess]:
    about = (job, slot, accelerated, log_of(job, logs))
    process = multiprocessing.get_context("spawn").Process(target=work, args=about, daemon=True)
    process.start()
    return job, process


def log_of(job: Job, logs: Path) -> Path:
    return logs / f"{job.name}.log"


def work(job: Job, slot: int, accelerated: bool, log: Path) -> None:
    """A worker's whole life. Only the sweep tells it to stop, not the terminal."""
    os.setpgrp()
    threading.Thread(target=end_with_parent, daemon=True).start()
    with open(log, "a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    devices.pin(slot, accelerated)
    try:
        job()
    except (KeyboardInterrupt, Stopped):
        sys.exit(130)
    except UserError as mistake:
        print(f"seerax: {mistake}", file=sys.stderr)
        sys.exit(2)


def end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGINT)


def stop(processes: list[BaseProcess]) -> None:
    """Each saves its last whole iteration; those that take too long are killed."""
    for process in processes:
        if process.pid is not None and process.is_alive():
            os.kill(process.pid, signal.SIGINT)
    deadline = time.monotonic() + GRACE
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            process.kill()


# ---- on a cluster --------------------------------------------------------------------------------


def on_cluster(jobs: list[Job], executor: Any) -> Iterator[Ended | None]:
    """One array of jobs through submitit."""
    with executor.batch():
        submitted = [executor.submit(job) for job in jobs]
    pending = dict(zip(jobs, submitted, strict=True))
    try:
        while pending:
            for job in [job for job, handle in pending.items() if handle.done()]:
                handle = pending.pop(job)
                yield ended(job, handle.paths.stderr, f"job {handle.job_id}")
            yield None
            time.sleep(TICK)
    finally:
        for handle in pending.values():
            handle.cancel(check=False)
