"""`seerax train`: one experiment, trained, saved and compared with its experts."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import jax
from rich.console import Console

from seerax import figures, runs
from seerax.agents import find_agent
from seerax.cli.arguments import SETTINGS, Train
from seerax.cli.bars import TrainingBar
from seerax.cli.tables import err, out, results_table, say
from seerax.compute import devices, distributed
from seerax.errors import UserError
from seerax.experiments import Experiment
from seerax.keys import checked_seed
from seerax.ppo import Progress
from seerax.runs import training
from seerax.system import signals
from seerax.system.signals import Stopped


def train(command: Train, given: set[str]) -> None:
    """Carries out `seerax train`; `given` names the options that the user wrote."""
    meeting = _asked_meeting(command)
    devices.prepare(command.devices, alone=meeting is None)
    run = _asked_run(command, given)
    try:
        with distributed.together(meeting):
            devices.require(command.devices)
            progress = _train(run, command)
        if distributed.is_main():
            _conclude(run, progress)
    except distributed.PeerLost as loss:
        say(f"seerax: Another process of this run was lost ({loss}). {_how_to_go_on(run)}")
        signals.exit_at_once(1)
    except Stopped:
        if distributed.is_main():
            say(f"Stopped. {_how_to_go_on(run)}")
        raise


def _train(run: runs.Run, command: Train) -> Progress:
    """Trains with a bar that the main process shows."""
    trainer = run.experiment.trainer()
    if command.devices and trainer.mesh.size % command.devices:
        raise UserError(
            f"{command.devices} devices cannot share {trainer.config.worlds} worlds evenly.",
            "devices",
        )
    _ = trainer.held_out_keys  # refuses devices that cannot share them, before anything is written
    console = err if distributed.is_main() else Console(quiet=True)
    tell = say if distributed.is_main() else training.ignore
    with TrainingBar(console, run, trainer) as bar:
        return training.train(
            run, trainer, bar.show, command.resume, command.overwrite, command.save, tell
        )


def _conclude(run: runs.Run, progress: Progress) -> None:
    """Plays fresh episodes with every player, and shows a table and the curve."""
    rows = training.conclude(run, progress)
    episodes = training.FRESH_EPISODES
    out.print(results_table(f"{run.experiment.problem}, {episodes} fresh episodes", rows))
    clairvoyant = rows["clairvoyant"].mean if "clairvoyant" in rows else None
    curves = {run.experiment.agent: run.folder.curves()}
    figures.curve(run.folder.path / "curve.png", curves, rows["ensemble"].mean, clairvoyant)
    out.print(f"Run folder: {run.folder.path}  (curve.png, metrics.jsonl, policies)")


def _how_to_go_on(run: runs.Run) -> str:
    experiment = run.experiment
    asked = ["seerax", "train", experiment.problem, "--agent", experiment.agent]
    asked += ["--out", str(run.folder.path)]
    others = " --distributed ..." if jax.process_count() > 1 else ""
    return f"Go on with: {shlex.join(asked)} --resume{others}"


# ---- what is asked for -------------------------------------------------------------------------


def _asked_meeting(command: Train) -> distributed.Meeting | None:
    meeting = distributed.Meeting(command.coordinator, command.processes, command.process_id)
    if not command.distributed and meeting != distributed.Meeting():
        raise UserError("--coordinator, --processes and --process-id need --distributed.")
    meeting.check()
    return meeting if command.distributed else None


def _asked_run(command: Train, given: set[str]) -> runs.Run:
    """Returns the run to train, or refuses options that contradict each other."""
    checked_seed(command.seed, command.seeds)
    if command.resume and command.overwrite:
        raise UserError("--resume and --overwrite exclude each other.")
    if {"steps", "ppo.steps"} <= given:
        raise UserError("--steps and --ppo.steps set the same number: give one of them.")
    name = f"{command.problem.replace(':', '-')}-{command.agent}-seed{command.seed}"
    folder = command.out or Path("runs") / name
    if command.resume:
        _refuse_ignored(given, folder)
        return _reopened(command, folder, given)
    if command.blend is not None:
        refuse_blend([command.agent], scaled="scale" in given)
    ppo = command.ppo if command.steps is None else replace(command.ppo, steps=command.steps)
    same = {name: getattr(command, name) for name in SETTINGS if name != "ppo"}
    asked = Experiment(command.problem, command.agent, **same, ppo=ppo)
    return runs.Run(asked, command.seed, command.seeds, runs.RunFolder(folder))


def refuse_blend(agents: list[str], scaled: bool) -> None:
    """Refuses a blend of agents that take no advice, and a scale that the blend would ignore."""
    if scaled:
        raise UserError("A blend takes no scale: give one or the other.", "blend", "scale")
    without = [agent for agent in agents if not find_agent(agent).is_residual]
    if without:
        raise UserError(f"{without[0]} takes no advice, so there is nothing to blend with.")


def _refuse_ignored(given: set[str], folder: Path) -> None:
    """Refuses settings beside --resume: a run keeps its own, and may only get more steps."""
    fixed = {"seed", "seeds", *SETTINGS}
    ignored = given & fixed | {name for name in given if name.startswith("ppo.")} - {"ppo.steps"}
    if ignored:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(ignored))
        raise UserError(
            f"{folder} is resumed with its own settings, so {options} cannot be given with "
            "--resume; only --steps can."
        )


def _reopened(command: Train, folder: Path, given: set[str]) -> runs.Run:
    steps = command.ppo.steps if "ppo.steps" in given else command.steps
    run = runs.reopen(folder, steps)
    found = (run.experiment.problem, run.experiment.agent)
    if found != (command.problem, command.agent):
        raise UserError(
            f"{folder} holds {found[1]} on {found[0]}, not {command.agent} on {command.problem}."
        )
    return run
