"""What a run needs, told before it begins: memory and disk."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import jax

from seerax.errors import UserError
from seerax.ppo import PPO
from seerax.ppo.networks import ActorCritic

COPIES = 3  # of what was played, at the least: as played, as normalised, as shuffled
LOG_ROW = 1000  # bytes one iteration adds to the logs


def size(tree: Any) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def params_bytes(ppo: PPO, inputs: int) -> int:
    exploration = jax.ShapeDtypeStruct((ppo.mdp.action_size,), "float32")
    key = jax.eval_shape(lambda: jax.random.key(0))
    return size(
        jax.eval_shape(lambda k, e: ActorCritic(k, inputs, ppo.config.hidden, e), key, exploration)
    )


def needs(ppo: PPO, seeds: int) -> tuple[int, int]:
    """(memory, one checkpoint) in bytes: lower bounds, so what is refused cannot fit."""
    world = jax.eval_shape(ppo.mdp.reset, jax.eval_shape(lambda: jax.random.key(0)))
    inputs = jax.eval_shape(partial(ppo.agent.inputs, ppo.mdp), world.situation).shape[0]
    params, config = params_bytes(ppo, inputs), ppo.config
    train_state = 3 * params + config.worlds * size(world)  # two moments of the optimiser
    step = 4 * (inputs + ppo.mdp.action_size + 6)
    memory = (
        2 * train_state + COPIES * config.batch * step + config.evaluation_episodes * size(world)
    )
    return seeds * memory, seeds * (train_state + params)


def available_memory() -> int | None:
    """On this host, or in this container where that is less."""
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


def check(ppo: PPO, seeds: int, folder: Path) -> None:
    """Refuse what cannot fit, with the two numbers."""
    memory, checkpoint = needs(ppo, seeds)
    there = available_memory()
    if jax.default_backend() == "cpu" and there is not None and memory > there:
        less = "fewer --ppo.worlds, a shorter --ppo.rollout-length or fewer --seeds"
        raise UserError(
            f"This run needs at least {told(memory)} of memory and {told(there)} are free: ask for {less}."
        )
    disk = 3 * checkpoint + seeds * LOG_ROW * ppo.config.iterations  # two kept, one being written
    room = shutil.disk_usage(existing(folder))
    if room.total and disk > room.free:  # what has no size, like /proc, is not a disk
        raise UserError(
            f"This run needs about {told(disk)} of disk and {told(room.free)} are free at {folder}."
        )


def existing(path: Path) -> Path:
    return next(p for p in (path, *path.absolute().parents) if p.exists())


def told(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.0f} TB"
