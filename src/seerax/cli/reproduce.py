"""`seerax reproduce`: the paper's experiments, carried out and written down."""

from __future__ import annotations

import shlex

from seerax.cli.arguments import Reproduce
from seerax.cli.bars import SweepBar
from seerax.cli.tables import err, out, say
from seerax.compute import devices
from seerax.errors import UserError
from seerax.paper import reproduce
from seerax.system.signals import Stopped


def reproduce_paper(command: Reproduce) -> None:
    """Trains and measures what is not kept with the present settings, then draws everything."""
    devices.prepare()
    asked = reproduce.Request(command.only, command.seeds, command.budget, command.redo)
    todo = asked.todo()
    done = len(asked.tasks) - len(todo)
    total = sum(task.steps for task in todo)
    try:
        with SweepBar(err, len(asked.tasks), total, sum(map(reproduce.steps_done, todo))) as bar:
            failed = reproduce.carry_out(todo, done, bar)
    except Stopped:
        left = sum(not task.done() for task in todo)
        say(f"Stopped, {left} still to do; what was begun is saved. Go on with: {_again(command)}")
        raise
    for path in reproduce.conclude(asked.budget):
        out.print(f"{path}")
    for name, words in asked.outdated.items():
        say(
            f"Kept as it was, though the settings have changed: {name} ({words}). "
            "--redo trains it anew."
        )
    if failed:
        raise UserError(
            f"{len(failed)} of {len(asked.tasks)} failed, {', '.join(failed)}; "
            "the same command tries again."
        )


def _again(command: Reproduce) -> str:
    """Returns the same command as a line for the shell."""
    words = ["seerax", "reproduce", *(["--only", *command.only] if command.only else [])]
    words += ["--seeds", str(command.seeds)] if command.seeds is not None else []
    words += ["--budget", command.budget] if command.budget != "full" else []
    return shlex.join(words + (["--redo"] if command.redo else []))
