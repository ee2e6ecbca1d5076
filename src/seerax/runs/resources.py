"""What a run needs, checked before it begins: memory and disk."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import jax

from seerax.errors import UserError
from seerax.ppo import Trainer

COPIES = 3  # of what was played, at the least: as played, as normalised, as shuffled
LOG_ROW = 1000  # bytes one iteration adds to the logs


def size(tree: Any) -> int:
    """Returns the bytes of a pytree of arrays or of their shapes."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def needs(trainer: Trainer, seeds: int) -> tuple[int, int]:
    """Returns (memory, one checkpoint) in bytes: lower bounds, so what is refused cannot fit."""
    config = trainer.config
    mdp = trainer.mdp
    key = jax.eval_shape(lambda: jax.random.key(0))
    world = jax.eval_shape(mdp.reset, key)
    inputs = jax.eval_shape(partial(trainer.agent.inputs, mdp), world.situation).shape[0]
    make_network = trainer.learner.network  # type: ignore[attr-defined]
    network = jax.eval_shape(lambda key: make_network(key, inputs, mdp.action_size, config), key)
    params = size(network)
    learner = 3 * params + config.worlds * size(world)  # two moments of the optimiser
    step = 4 * (inputs + mdp.action_size + 6)
    held_out = config.evaluation_episodes * size(world)
    memory = 2 * learner + COPIES * config.batch * step + held_out
    return seeds * memory, seeds * (learner + params)


def available_memory() -> int | None:
    """Returns the free bytes on this host, or in this container where that is less."""
    found = []
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        found.append(1024 * int(lines["MemAvailable"].split()[0]))
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
        found += [int(limit) - used] if limit.isdigit() else []
    except (OSError, KeyError, ValueError):
        pass
    return min(found) if found else None


def check(trainer: Trainer, seeds: int, folder: Path) -> None:
    """Refuses what cannot fit, with the two numbers."""
    memory, checkpoint = needs(trainer, seeds)
    there = available_memory()
    if jax.default_backend() == "cpu" and there is not None and memory > there:
        raise UserError(
            f"This run needs at least {in_units(memory)} of memory and {in_units(there)} are free: "
            "ask for fewer worlds, shorter rollouts or fewer seeds.",
            "ppo.worlds",
            "ppo.rollout_length",
            "seeds",
        )
    # Two checkpoints are kept while a third is being written.
    disk = 3 * checkpoint + seeds * LOG_ROW * trainer.config.iterations
    room = shutil.disk_usage(existing(folder))
    if room.total and disk > room.free:  # what has no size, like /proc, is not a disk
        raise UserError(
            f"This run needs about {in_units(disk)} of disk and {in_units(room.free)} are free "
            f"at {folder}."
        )


def existing(path: Path) -> Path:
    """Returns the nearest folder above a path that exists, or the path itself."""
    return next(p for p in (path, *path.absolute().parents) if p.exists())


def in_units(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.0f} TB"
