"""The devices of this process and its peers: host cores or accelerators, on one host or many."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
from jax.sharding import AxisType, Mesh

from seerax.errors import UserError

WORLDS = "worlds"  # name of the one data-parallel axis
SLICE = 256  # rows of a minibatch whose activations fit in a core's cache


def cores() -> list[int]:
    """Returns the host cores that this process may use."""
    return sorted(os.sched_getaffinity(0))


_prepared = False


def prepare_by_default() -> None:
    """Prepares this host unless `prepare` was called before."""
    if not _prepared:
        prepare()


def prepare(devices: int | None = None, cache: bool = True, alone: bool = True) -> None:
    """Makes every host core a JAX device, and caches compiled programs.

    With `devices`, it uses this many host cores or accelerators. Using seerax calls it by itself;
    call it first to choose the number of devices, which is fixed once JAX has computed something. A
    process that is not `alone` takes one core and leaves the others to its peers.
    """
    global _prepared
    if devices is not None and devices < 1:
        raise UserError(f"The number of devices must be at least 1, not {devices}.", "devices")
    _prepared = True
    # Programs run in the calling thread: waking another one would cost a single decision 30
    # microseconds, and training waits for its results anyway.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    with contextlib.suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", devices or (len(cores()) if alone else 1))
    if devices is not None:
        see_accelerators(range(devices))
    if cache:
        folder = Path(os.environ.get("SEERAX_CACHE", Path.home() / ".cache" / "seerax"))
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def see_accelerators(which: range | list[int]) -> None:
    """Restricts this process to these accelerators; without accelerators it changes nothing."""
    for kind in ("cuda", "rocm"):
        jax.config.update(f"jax_{kind}_visible_devices", ",".join(map(str, which)))


def accelerators() -> int:
    """Returns the number of accelerators of this host.

    A child process counts them, since JAX takes the memory of the accelerators it counts.
    """
    if not importlib.metadata.entry_points(group="jax_plugins"):
        return 0
    count = "import jax; print(0 if jax.default_backend() == 'cpu' else jax.local_device_count())"
    return int(
        subprocess.run(
            [sys.executable, "-c", count], capture_output=True, text=True, check=True
        ).stdout
    )


def pin(slot: int, accelerated: bool) -> None:
    """Restricts this process to one accelerator or one core, before JAX starts."""
    if accelerated:
        see_accelerators([slot])
    else:
        os.sched_setaffinity(0, {cores()[slot % len(cores())]})


def require(asked: int | None) -> None:
    """Refuses to go on unless this process has as many devices as were asked for."""
    if asked is None:
        return
    there = jax.local_device_count()
    if jax.default_backend() == "cpu" and asked > len(cores()):
        raise UserError(
            f"{asked} devices are more than there are cores on this host ({len(cores())}).",
            "devices",
        )
    if asked != there:
        raise UserError(
            f"{asked} devices are not available: "
            f"JAX has {there} here ({jax.devices()[0].device_kind}).",
            "devices",
        )


def describe() -> dict[str, Any]:
    """Returns number and kind of the devices of all processes together."""
    kind = jax.devices()[0].device_kind
    return {"devices": jax.device_count(), "device_kind": kind, "processes": jax.process_count()}


def mesh(at_most: int | None = None) -> Mesh:
    """Creates the mesh of all devices of all processes along the world axis.

    A single process uses the largest number of its devices that divides `at_most`.
    """
    if jax.process_count() == 1:
        return local_mesh(at_most)
    count = jax.device_count()
    if at_most and at_most % count:
        raise UserError(
            f"{count} devices cannot share {at_most} worlds or episodes evenly; "
            "change one of these numbers."
        )
    return _line(jax.devices())


def local_mesh(at_most: int | None = None) -> Mesh:
    """Creates the mesh of this process's devices, or of as many as divide `at_most`."""
    devices = jax.local_devices()
    count = len(devices)
    while at_most and at_most % count:
        count -= 1
    return _line(devices[:count])


def _line(devices: list[Any]) -> Mesh:
    return jax.make_mesh((len(devices),), (WORLDS,), axis_types=(AxisType.Auto,), devices=devices)


def sharded(body: Callable, mesh: Mesh, in_specs: Any, out_specs: Any) -> Any:
    """Returns the jitted program in which each device runs `body` on its own shard."""
    mapped = jax.shard_map(body, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)
    return jax.jit(mapped)


def map_seeds(body: Callable[[Any], Any], many: Any) -> Any:
    """Maps `body` over seeds: vmapped on accelerators, one after another on host cores.

    Host cores gain nothing from wider arrays.
    """
    return jax.lax.map(body, many) if jax.default_backend() == "cpu" else jax.vmap(body)(many)


@contextlib.contextmanager
def in_background(work: Callable[[], Any]) -> Iterator[None]:
    """Runs `work` in another thread during the block, and raises its exception at the end.

    XLA compiles without blocking other threads.
    """
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        yield
        working.result()


def jit_low_latency(program: Callable) -> Any:
    """Jits a program for one small input.

    On host cores its small operations run one after another: dispatching them to threads would take
    twice as long.
    """
    host = jax.default_backend() == "cpu"
    options = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"} if host else None
    return jax.jit(program, compiler_options=options)


def slices(rows: int) -> int:
    """Returns into how many equal slices to cut rows for fast arithmetic.

    Host cores want many slices, for their caches, and accelerators one.
    """
    if jax.default_backend() != "cpu":
        return 1
    return max(n for n in range(1, max(rows // SLICE, 1) + 1) if rows % n == 0)
