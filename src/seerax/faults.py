"""Numbers that are no numbers: noticed in the iteration in which they appear, written down, and played again.

An iteration with a state, belief, advice, loss or gradient that is not finite changes nothing that is learned (see
`iterate`); the worlds in question start afresh. If it happens several times in a row the run stops and leaves a
file with the learner as it was before that iteration, key included, so that playing it again meets the same fault.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import PartitionSpec as P

from seerax.compute import devices
from seerax.core import Action, Situation, World, finite_parts
from seerax.numerics import trees
from seerax.ppo import PPO
from seerax.ppo.play import TrainState, play, split_keys
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
        """The first seed that keeps failing."""
        return int(self.in_a_row.argmax()) if self.in_a_row.max() >= PATIENCE else None


class Offence(NamedTuple):
    """A step from a sound situation to one that is not: where it happened, and which of the three parts is sound."""

    step: Array
    world: Array
    before: World
    action: Action
    after: Situation
    finite_parts: Situation


class Fault(NamedTuple):
    """The learner before the iteration in question, what it measured, and its offences, first ones first."""

    train_state: TrainState
    metrics: dict[str, Array]
    offences: Offence


def examine(ppo: PPO, train_state: TrainState) -> Fault:
    """Play one iteration again, looking at every step."""
    whole = TrainState(P(), P(), P(devices.WORLDS), P(), P())  # type: ignore[arg-type]
    steps = jax.jit(
        jax.shard_map(
            lambda train_state: _steps(ppo, train_state),
            mesh=ppo.mesh,
            in_specs=(whole,),
            out_specs=P(None, devices.WORLDS),
            check_vma=False,
        )
    )
    _, metrics = ppo.iterate(train_state)
    return Fault(train_state, metrics, _first_offences(steps(train_state)))


def _steps(ppo: PPO, train_state: TrainState) -> tuple[World, Action, Situation, Situation]:
    def note(
        world: World, action: Action, following: World
    ) -> tuple[World, Action, Situation, Situation]:
        return world, action, following.situation, finite_parts(following.situation)

    _, play_key, _ = split_keys(train_state.key)
    _, trajectory, _ = play(ppo, play_key, train_state.params, train_state.worlds, note)
    return trajectory.extras


def _first_offences(steps: tuple[World, Action, Situation, Situation]) -> Offence:
    """The first unsound step of each world in question."""
    unsound = ~np.asarray(jnp.stack(steps[3]).all(0))  # [length, worlds]
    step, world = np.nonzero(unsound & (unsound.cumsum(0) == 1))
    chosen = (step[:MOST], world[:MOST])
    before, action, after, fine = jax.tree.map(lambda leaf: leaf[chosen], steps)
    return Offence(jnp.asarray(chosen[0]), jnp.asarray(chosen[1]), before, action, after, fine)


def dump(path: Path, fault: Fault, about: dict[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    count = int(fault.offences.step.size)
    pytrees.save_tree(path, fault, {**about, "offences": count})


def load(path: Path, ppo: PPO, offences: int) -> Fault:
    """The learner as it was; whatever else the file holds can be had by examining it again."""
    train_state = jax.eval_shape(ppo.init, jax.random.key(0))
    like = jax.eval_shape(lambda train_state: _like(ppo, train_state, offences), train_state)
    return pytrees.load_tree(path, like)


def _like(ppo: PPO, train_state: TrainState, count: int) -> Fault:
    some = jax.tree.map(lambda leaf: leaf[jnp.zeros(count, int)], train_state.worlds)
    where = jnp.zeros(count, jax.dtypes.canonicalize_dtype(int))
    fine = Situation(*[jnp.zeros(count, bool)] * 3)
    offence = Offence(
        where, where, some, jnp.zeros((count, ppo.mdp.action_size)), some.situation, fine
    )
    return Fault(train_state, ppo.iterate(train_state)[1], offence)


def told(fault: Fault) -> list[str]:
    """What went wrong, a line each."""
    offences = jax.device_get(fault.offences)
    lines = [
        _offence_told(jax.tree.map(lambda leaf, i=i: leaf[i], offences))
        for i in range(offences.step.size)
    ]
    odd = [
        f"{name} = {float(value)}"
        for name, value in fault.metrics.items()
        if not np.isfinite(value)
    ]
    if not lines and odd:
        lines = ["Every situation is sound; it is the loss or its gradient that is not."]
    return lines + ([f"Measured: {', '.join(odd)}."] if odd else [])


def _offence_told(offence: Offence) -> str:
    parts = [
        name for name, fine in zip(Situation._fields, offence.finite_parts, strict=True) if not fine
    ]
    shown = {
        "latent": offence.before.latent,
        "state": offence.before.situation.state,
        "action": offence.action,
    }
    given = "; ".join(f"{name} {_numbers(value)}" for name, value in shown.items())
    return f"world {offence.world}, step {offence.step}: {' and '.join(parts)} not finite after {given}"


def _numbers(tree: Any) -> str:
    leaves = [
        np.round(np.asarray(leaf, float), 4).ravel().tolist()
        for leaf in jax.tree.leaves(tree)
        if not trees.is_key(leaf)
    ]
    return " ".join(str(leaf) for leaf in leaves)
