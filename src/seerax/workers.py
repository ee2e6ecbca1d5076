"""Who carries out the runs of a sweep: a process per core or accelerator here, or jobs on a cluster.

Either way one run is one process, and both ways are generators that yield what ended, or None while nothing did. Closed
early they stop what runs.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

from seerax import commands, runs
from seerax.compute import devices
from seerax.errors import UserError
from seerax.experiments import Experiment
from seerax.system.signals import Stopped

TICK = 0.2  # seconds between two looks
GRACE = 60.0  # seconds to save after being told to stop


@dataclass(frozen=True)
class Job:
    """One run of a sweep. Called, it trains to the end, from its checkpoint if there is one."""

    experiment: Experiment
    setting: str  # what was set, in words
    seed: int
    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def folder(self) -> runs.RunFolder:
        return runs.RunFolder(self.path)

    @property
    def steps(self) -> int:
        return self.experiment.ppo.iterations * self.experiment.ppo.batch

    def finished(self) -> bool:
        return self.folder.evaluation.exists()

    def __call__(self) -> None:
        devices.prepare()
        run = runs.Run(self.experiment, self.seed, 1, self.folder)
        commands.conclude(run, commands.train_shown(run, resume=self.folder.config.exists()).best)

    def checkpoint(self) -> Any:
        """What submitit puts back into the queue when the job's time is up."""
        return import_submitit().helpers.DelayedSubmission(self)


class Ended(NamedTuple):
    job: Job
    failure: str | None


def ended(job: Job, log: Path, how: str) -> Ended:
    return Ended(job, None if job.finished() else f"{last_words(log)} ({how}, {log})")


def last_words(log: Path) -> str:
    lines = (
        [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        if log.exists()
        else []
    )
    return lines[-1].strip() if lines else "it said nothing"


# ---- here --------------------------------------------------------------------------------------------------------


def here(jobs: list[Job], workers: int | None, logs: Path) -> Iterator[Ended | None]:
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


# ---- on a cluster ------------------------------------------------------------------------------------------------


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


def cluster(kind: str, folder: Path, options: dict[str, Any]) -> Any:
    """submitit's executor for it. `local` runs all at once on this machine, to try things out."""
    try:
        executor = import_submitit().AutoExecutor(folder=folder, cluster=kind)
        executor.update_parameters(name="seerax", **options)
    except (RuntimeError, NameError, TypeError, ValueError) as error:
        raise UserError(
            f"submitit cannot use --cluster {kind} so: {str(error).splitlines()[0]}"
        ) from error
    return executor


def import_submitit() -> Any:
    try:
        return importlib.import_module("submitit")
    except ModuleNotFoundError as error:
        raise UserError(
            "--cluster needs submitit: install seerax with its extra, seerax[slurm]."
        ) from error
