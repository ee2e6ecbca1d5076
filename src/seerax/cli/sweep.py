"""`seerax sweep`: many runs, each in its own folder, and one table at the end."""

from __future__ import annotations

from typing import Any

from seerax import sweeps
from seerax.cli.arguments import Sweep, read_setting
from seerax.cli.bars import SweepBar
from seerax.cli.tables import err, say
from seerax.cli.train import refuse_blend
from seerax.errors import UserError
from seerax.settings import settings
from seerax.system.signals import Stopped

Alternatives = dict[str, list[tuple[str, Any]]]  # by the setting's name: (as it was written, value)


def sweep(command: Sweep) -> None:
    """Skips finished runs and continues cut ones; a failing one stops no other."""
    alternatives = _alternatives(command.settings)
    if any(value is not None for _, value in alternatives.get("blend", [])):
        refuse_blend(list(command.agents), scaled="scale" in alternatives)
    asked = sweeps.Plan(
        command.problems, command.agents, command.seed, command.seeds, command.out, alternatives
    )
    jobs = asked.jobs()
    started = sweeps.start_workers(
        command.out, jobs, command.workers, command.cluster, _cluster_options(command)
    )
    try:
        failures = _watch(jobs, started)
    except Stopped:
        done = sum(job.finished() for job in jobs)
        say(
            f"\nStopped: {done} of {len(jobs)} runs are finished, the others saved. "
            "The same command continues them."
        )
        raise
    finally:
        started.close()
    rows = sweeps.summarise(jobs)
    sweeps.write_summary(command.out, rows, failures)
    print(f"{sweeps.table(rows)}\nWritten: {command.out / 'summary.json'} and summary.md")
    if failures:
        raise UserError(
            f"{len(failures)} of {len(jobs)} runs failed; the same command tries them again."
        )


def _alternatives(specs: tuple[str, ...]) -> Alternatives:
    """Reads the settings of a sweep."""
    read = [read_setting(spec, settings("")) for spec in specs]
    if len({name for name, _ in read}) < len(read):
        raise UserError(
            "--set names one setting twice; give its values together, NAME=VALUE,VALUE."
        )
    return dict(read)


def _cluster_options(command: Sweep) -> dict[str, Any]:
    """Reads `KEY=VALUE` for submitit, numbers as numbers."""
    if command.cluster is None and command.cluster_set:
        raise UserError("--cluster-set needs --cluster.")
    options: dict[str, Any] = {}
    for spec in command.cluster_set:
        name, equals, value = spec.partition("=")
        if not equals:
            raise UserError(f"--cluster-set {spec} should read KEY=VALUE.")
        options[name] = int(value) if value.isdigit() else value
    return options


def _watch(jobs: list[sweeps.Job], events: Any) -> dict[str, str]:
    """Shows the progress until all jobs have ended; returns which failed, and why."""
    failures: dict[str, str] = {}
    ended = [job.finished() for job in jobs].count(True)
    total = sum(job.steps for job in jobs)
    already = sum(job.steps_done for job in jobs)
    with SweepBar(err, len(jobs), total, already) as bar:
        if ended:
            bar.tell(f"{ended} of {len(jobs)} runs are finished already.")
        for event in events:
            if event is not None and event.failure:
                failures[event.job.name] = event.failure
                bar.tell(f"failed    {event.job.name}: {event.failure}")
            elif event is not None:
                bar.tell(f"finished  {event.job.name}")
            ended += event is not None
            bar.show(ended, len(failures), sum(job.steps_done for job in jobs))
    return failures
