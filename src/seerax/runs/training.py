"""A training run: train, save, resume, and evaluate what was learned."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from seerax import rollout
from seerax.advice import Clairvoyant, follow_advice
from seerax.compute import distributed
from seerax.errors import UserError, writing
from seerax.keys import checked_seed, evaluation_key, training_keys
from seerax.numerics.trees import row
from seerax.ppo import Progress, Trainer
from seerax.ppo.iteration import TrainState
from seerax.rollout import Evaluation
from seerax.runs import nonfinite, resources
from seerax.runs.folder import Run, begin, refuse_taken
from seerax.runs.metrics import Log
from seerax.runs.nonfinite import Fault
from seerax.runs.policies import read_experiment
from seerax.runs.schedule import Schedule
from seerax.system import files, lock, signals
from seerax.system.signals import Say

FRESH_EPISODES = 1000  # of the evaluation after a training

Report = Callable[[Progress], None]


def ignore(message: Any) -> None:
    """Does nothing with a message or a progress."""


def train(
    run: Run,
    trainer: Trainer | None = None,
    report: Report = ignore,
    resume: bool = False,
    overwrite: bool = False,
    schedule: Schedule = Schedule(),  # noqa: B008
    say: Say = ignore,
) -> Progress:
    """Trains to the end, saving on the way.

    A signal ends it after a whole iteration, saved, with `signals.Stopped`.
    """
    checked_seed(run.seed, run.seeds)
    trainer = trainer or run.experiment.trainer()
    resources.check(trainer, run.seeds, run.folder.path)
    with ExitStack() as held:
        distributed.on_main(lambda: claim(held, run, resume, overwrite))
        stop = held.enter_context(distributed.stop(say))
        earlier = load_together(run, trainer, say) if resume else None
        log = open_log(held, run, earlier)
        return Session(run, trainer, log, schedule).train(earlier, report, stop)


def claim(held: ExitStack, run: Run, resume: bool, overwrite: bool) -> None:
    """Locks the folder for as long as `held` is open; the run in it is continued, or begun afresh."""
    path = run.folder.path
    if not resume:
        refuse_taken(run, overwrite)
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
    held.enter_context(lock.hold(path))
    if not resume:
        refuse_taken(run, overwrite)
        begin(run)
    with writing(path):
        for folder in (path, run.folder.checkpoints.folder):
            files.remove_unfinished(folder)
        files.write_json(run.folder.config, run.config())  # more steps may have been asked of it


def open_log(held: ExitStack, run: Run, earlier: Progress | None) -> Log | None:
    """Opens the log, which is closed with `held`; only the main process has one."""
    if not distributed.is_main():
        return None
    steps = earlier.steps if earlier else -1
    with writing(run.folder.path):
        log = Log(run.folder.metrics, run.folder.boards, run.seed_numbers, steps)
    held.callback(close_log, log)
    return log


def close_log(log: Log) -> None:
    """Closes the log; whatever a checkpoint rests on was synced before it, so a full disk does no
    harm.
    """
    with suppress(OSError):
        log.close()


class Session:
    """One process's share of a run: from its start, or from a checkpoint, to its end or to a
    signal.
    """

    def __init__(self, run: Run, trainer: Trainer, log: Log | None, schedule: Schedule):
        self.run = run
        self.trainer = trainer
        self.log = log
        self.schedule = schedule
        self.watch = nonfinite.Watch(run.seeds)
        self.saved = (time.monotonic(), 0)  # when, and at which iteration

    def train(self, earlier: Progress | None, report: Report, stop: signals.Stop) -> Progress:
        progress = earlier
        keys = training_keys(self.run.seed, self.run.seeds)
        self.saved = (time.monotonic(), self.number(earlier) if earlier else 0)
        for following in self.trainer.train_from(keys, earlier, self.run.seed):
            before = progress
            progress = following
            self.record(before, progress)
            report(progress)
            if stop.asked_after(self.number(progress)):
                self.save(progress)
                stop.check()
        assert progress is not None
        self.save(progress)
        stop.check()
        return gathered(progress)

    def record(self, before: Progress | None, progress: Progress) -> None:
        with writing(self.run.folder.path, self.kept()):
            if self.log is not None:
                self.log.write(progress)
            self.watch.see(progress.metrics)
            if self.watch.hopeless is not None and before is not None:
                self.give_up(before, self.watch.hopeless)
            if progress.evaluated:
                save_policies(self.run, gathered(progress))
            seconds = time.monotonic() - self.saved[0]
            iterations = self.number(progress) - self.saved[1]
            if distributed.broadcast_from_main(self.schedule.due(seconds, iterations)):
                self.save(progress)

    def number(self, progress: Progress) -> int:
        """Returns the number of iterations behind a progress."""
        return progress.steps // self.trainer.config.batch

    def save(self, progress: Progress) -> None:
        """Saves a checkpoint.

        While updates are being skipped the last good checkpoint stays the last one.
        """
        number = self.number(progress)
        if number == self.saved[1] or not self.watch.healthy:
            return
        state = (progress.train_state, progress.best, progress.best_returns, progress.start)
        kept = distributed.allgather(state)
        if self.log is not None:
            with writing(self.run.folder.path, self.kept()):
                self.log.sync()
                self.run.folder.checkpoints.save(number, kept, {"steps": progress.steps})
        self.saved = (time.monotonic(), number)

    def kept(self) -> str:
        if not self.saved[1]:
            return ""
        return f" The checkpoint of iteration {self.saved[1]} is complete: make room and resume."

    def give_up(self, before: Progress, i: int) -> None:
        """Stops, and leaves a file from which the fault can be replayed."""
        seed = self.run.seed + i
        number = self.number(before) + 1
        path = self.run.folder.path / "faults" / f"seed{seed}-iteration{number}.safetensors"
        if jax.process_count() > 1:
            raise UserError(
                f"Seed {seed} met numbers that are not finite; resume in one process to see which."
            )
        state = TrainState(*row(before.train_state, i))
        fault = nonfinite.examine(self.trainer, state)
        about = {"experiment": asdict(self.run.experiment), "seed": seed, "iteration": number}
        nonfinite.dump(path, fault, about)
        raise nonfinite.stopped_by(fault, seed, number, path, self.run.experiment.problem)


def gathered(progress: Progress) -> Progress:
    """Returns a progress whose arrays are whole on every process."""
    state, best = distributed.allgather((progress.train_state, progress.best))
    return replace(progress, train_state=state, best=best)


# ---- checkpoints -------------------------------------------------------------------------------


def load_together(run: Run, trainer: Trainer, say: Say) -> Progress | None:
    """Lets the main process set aside what is damaged before the others read."""
    found: list[Progress | None] = []
    distributed.on_main(lambda: found.append(load_checkpoint(run, trainer, say)))
    return found[0] if found else load_checkpoint(run, trainer)


def checkpoint_shapes(run: Run, trainer: Trainer) -> tuple[Any, Any, Any, Any]:
    """Returns the shapes of (state, best params, best return, first return), as `Session.save`
    keeps them.
    """
    keys = training_keys(run.seed, run.seeds)
    state = jax.eval_shape(jax.vmap(trainer.learner.init), keys)
    returns = jax.ShapeDtypeStruct((run.seeds, trainer.config.evaluation_episodes), np.float32)
    return state, state.params, returns, jax.ShapeDtypeStruct((run.seeds,), np.float32)


def load_checkpoint(run: Run, trainer: Trainer, say: Say = ignore) -> Progress | None:
    """Returns the newest good checkpoint, or None if the run was stopped before its first."""
    found = run.folder.checkpoints.load(checkpoint_shapes(run, trainer), say)
    if found is None:
        say("There is no checkpoint yet: starting from the beginning.")
        return None
    (state, best, best_returns, start), _ = found
    iteration = int(state.iteration[0])
    say(f"Going on from the checkpoint of iteration {iteration}.")
    return Progress(
        trainer,
        trainer.place(TrainState(*state)),
        iteration * trainer.config.batch,
        {},
        None,
        trainer.replicate(best),
        np.asarray(best_returns),
        np.asarray(start),
        run.seed,
    )


# ---- policies ----------------------------------------------------------------------------------


def save_policies(run: Run, progress: Progress) -> None:
    """Saves each seed's best policy so far; the main process writes."""
    if not distributed.is_main():
        return
    for i, seed in enumerate(run.seed_numbers):
        progress.policy(i).save(run.folder.policy(seed))


def load_fault(path: Path, problem: str | None = None) -> tuple[Trainer, Fault]:
    """Returns what `nonfinite.dump` wrote, and the trainer it happened to."""
    experiment, about = read_experiment(path, problem)
    count = about.get("offences")
    if not isinstance(count, int) or not 0 <= count <= nonfinite.MOST:
        raise UserError(f"{path} is not a file of faults.")
    trainer = experiment.trainer()
    return trainer, nonfinite.load(path, trainer, count)


def conclude(run: Run, progress: Progress) -> dict[str, Evaluation]:
    """Plays fresh episodes with the ensemble, every seed's policy and the clairvoyant expert, and
    keeps the results.
    """
    mdp = progress.trainer.mdp
    key = evaluation_key(run.seed)
    agent = run.experiment.agent
    players: dict[str, Any] = {"ensemble": follow_advice}
    for i, seed in enumerate(run.seed_numbers):
        name = agent if run.seeds == 1 else f"{agent}, seed {seed}"
        players[name] = progress.policy(i)
    if mdp.expert is not None:
        players["clairvoyant"] = Clairvoyant(mdp.expert)
    rows = {
        name: rollout.evaluate(key, mdp, player, FRESH_EPISODES) for name, player in players.items()
    }
    files.write_json(run.folder.evaluation, {name: row.summary() for name, row in rows.items()})
    return rows
