"""The devices there are: both cores of a small machine, or every GPU of a large one."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import jax
from jax.sharding import AxisType, Mesh

WORLDS = "worlds"  # the one data-parallel axis
SLICE = 256  # rows of a minibatch whose activations stay in a core's cache


def prepare(devices: int | None = None, cache: bool = True) -> None:
    """Make every host core a device and remember compiled programs.

    Call it first: once JAX has computed something the number of devices is fixed, and stays as it is.
    """
    with contextlib.suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", devices or len(os.sched_getaffinity(0)))
    if cache:
        folder = Path(os.environ.get("SEERAX_CACHE", Path.home() / ".cache" / "seerax"))
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def mesh(at_most: int | None = None) -> Mesh:
    """All local devices along the world axis, or the largest number of them that divides `at_most`."""
    devices = jax.local_devices()
    count = len(devices)
    while at_most and at_most % count:
        count -= 1
    return jax.make_mesh((count,), (WORLDS,), axis_types=(AxisType.Auto,), devices=devices[:count])


def slices(rows: int) -> int:
    """Into how many equal slices rows are best cut for arithmetic: many on host cores, one on accelerators."""
    if jax.default_backend() != "cpu":
        return 1
    return max(n for n in range(1, max(rows // SLICE, 1) + 1) if rows % n == 0)
