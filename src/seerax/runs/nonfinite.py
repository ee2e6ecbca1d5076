"""Numbers that are not numbers: noticed in the iteration in which they appear, written down, and
replayed.

An iteration with a state, belief, advice, loss or gradient that is not finite changes nothing that
is learned (see `PPO.learn`); the worlds in question start afresh. If it happens several times in a
row the run stops and leaves a file with the train state as it was before that iteration, key
included, so that a replay meets the same fault.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import PartitionSpec as P

from seerax.compute import devices
from seerax.core import Action, Situation, World, finite_parts
from seerax.errors import UserError
from seerax.numerics import trees
from seerax.ppo import Trainer
from seerax.ppo.iteration import TrainState
from seerax.ppo.params import FORMAT
from seerax.ppo.play import play, split_keys
from seerax.system import pytrees

PATIENCE = 3  # updates skipped in a row before a run stops
MOST = 64  # offending situations written down


class Watch:
    """Counts the updates that were skipped in a row, one count per seed."""

    def __init__(self, seeds: int):
        self.in_a_row = np.zeros(seeds, int)

    def see(self, metrics: dict[str, Any]) -> None:
        skipped = np.asarray(metrics.get("skipped", 0.0)) > 0
        self.in_a_row = np.where(skipped, self.in_a_row + 1, 0)

    @property
    def healthy(self) -> bool:
        return not self.in_a_row.any()

    @property
    def hopeless(self) -> int | None:
        """The first seed that keeps failing, if any."""
        return int(self.in_a_row.argmax()) if self.in_a_row.max() >= PATIENCE else None


class Offence(NamedTuple):
    """A step from a sound situation to one that is not: where it happened, and which of the three
    parts is finite.
    """

    step: Array
    world: Array
    before: World
    action: Action
    after: Situation
    finite_parts: Situation


class Fault(NamedTuple):
    """The state before the iteration in question, what that iteration measured, and its first
    offences.
    """

    train_state: TrainState
    metrics: dict[str, Array]
    offences: Offence


def stopped_by(fault: Fault, seed: int, iteration: int, path: Path, problem: str) -> UserError:
    """Returns the error that ends a run, with the command that replays it."""
    again = f"see it again with: seerax replay {shlex.quote(str(path))}"
    return UserError(
        f"Seed {seed} met numbers that are not finite in {PATIENCE} iterations in a row, up to "
        f"{iteration} ({described(fault)[0]}); {again}",
        *["problem"] * (":" in problem),
    )


def examine(trainer: Trainer, train_state: TrainState) -> Fault:
    """Plays one iteration again, looking at every step."""
    spec = trainer.learner.specs(P(devices.WORLDS))
    steps = devices.sharded(
        lambda state: _steps(trainer, state), trainer.mesh, (spec,), P(None, devices.WORLDS)
    )
    _, metrics = trainer.iterate(train_state)
    return Fault(train_state, metrics, _first_offences(steps(train_state)))


def _steps(trainer: Trainer, train_state: TrainState) -> tuple[World, Action, Situation, Situation]:
    def note(world: World, action: Action, following: World) -> tuple:
        return world, action, following.situation, finite_parts(following.situation)

    _, play_key, _ = split_keys(train_state.key)
    length = trainer.config.rollout_length
    _, trajectory, _ = play(
        trainer.mdp, trainer.agent, length, play_key, train_state.params, train_state.worlds, note
    )
    return trajectory.extras


def _first_offences(steps: tuple[World, Action, Situation, Situation]) -> Offence:
    """Returns the first unsound step of each world in question."""
    unsound = ~np.asarray(jnp.stack(steps[3]).all(0))  # [rollout_length, worlds]
    step, world = np.nonzero(unsound & (unsound.cumsum(0) == 1))
    chosen = (step[:MOST], world[:MOST])
    before, action, after, fine = jax.tree.map(lambda leaf: leaf[chosen], steps)
    return Offence(jnp.asarray(chosen[0]), jnp.asarray(chosen[1]), before, action, after, fine)


def dump(path: Path, fault: Fault, about: dict[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    count = int(fault.offences.step.size)
    pytrees.save_tree(path, fault, {"format": FORMAT, **about, "offences": count})


def load(path: Path, trainer: Trainer, offences: int) -> Fault:
    """Loads the state as it was; whatever else the file holds is found again by examining it."""
    state = jax.eval_shape(trainer.learner.init, jax.random.key(0))
    like = jax.eval_shape(lambda state: _like(trainer, state, offences), state)
    return pytrees.load_tree(path, like)


def _like(trainer: Trainer, train_state: TrainState, count: int) -> Fault:
    some = jax.tree.map(lambda leaf: leaf[jnp.zeros(count, int)], train_state.worlds)
    where = jnp.zeros(count, jax.dtypes.canonicalize_dtype(int))
    fine = Situation(*[jnp.zeros(count, bool)] * 3)
    action = jnp.zeros((count, trainer.mdp.action_size))
    offence = Offence(where, where, some, action, some.situation, fine)
    return Fault(train_state, trainer.iterate(train_state)[1], offence)


def described(fault: Fault) -> list[str]:
    """Says what went wrong, one offence a line."""
    offences = jax.device_get(fault.offences)
    lines = [_describe(trees.row(offences, i)) for i in range(offences.step.size)]
    odd = [
        f"{name} = {float(value)}"
        for name, value in fault.metrics.items()
        if not np.isfinite(value)
    ]
    if not lines and odd:
        lines = ["Every situation is sound; it is the loss or its gradient that is not."]
    return lines + ([f"Measured: {', '.join(odd)}."] if odd else [])


def _describe(offence: Offence) -> str:
    parts = zip(Situation._fields, offence.finite_parts, strict=True)
    unsound = [name for name, fine in parts if not fine]
    shown = {
        "latent": offence.before.latent,
        "state": offence.before.situation.state,
        "action": offence.action,
    }
    given = "; ".join(f"{name} {_numbers(value)}" for name, value in shown.items())
    where = f"world {offence.world}, step {offence.step}"
    return f"{where}: {' and '.join(unsound)} not finite after {given}"


def _numbers(tree: Any) -> str:
    leaves = [
        np.round(np.asarray(leaf, float), 4).ravel().tolist()
        for leaf in jax.tree.leaves(tree)
        if not trees.is_key(leaf)
    ]
    return " ".join(str(leaf) for leaf in leaves)
