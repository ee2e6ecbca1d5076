"""The devices there are: both cores of a small machine, every GPU of a large one, or those of many hosts."""

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

WORLDS = "worlds"  # the one data-parallel axis
SLICE = 256  # rows of a minibatch whose activations stay in a core's cache


def cores() -> list[int]:
    """The host cores that this process may use."""
    return sorted(os.sched_getaffinity(0))


def prepare(devices: int | None = None, cache: bool = True, alone: bool = True) -> None:
    """Make every host core a device (or this many of them, or of the accelerators) and remember compiled programs.

    Call it first: once JAX has computed something the number of devices is fixed, and stays as it is. A process that is
    not alone takes one core, and leaves the others to its peers.
    """
    if devices is not None and devices < 1:
        raise UserError(f"--devices must be at least 1, not {devices}.")
    # A program runs in the thread that calls it: another one would cost a single decision 30 microseconds to wake up,
    # and training waits for its results anyway.
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
    """Leave all others to other processes. Without accelerators this changes nothing."""
    for kind in ("cuda", "rocm"):
        jax.config.update(f"jax_{kind}_visible_devices", ",".join(map(str, which)))


def accelerators() -> int:
    """How many there are, counted by another process: whoever looks at them takes their memory."""
    if not importlib.metadata.entry_points(group="jax_plugins"):
        return 0
    count = "import jax; print(0 if jax.default_backend() == 'cpu' else jax.local_device_count())"
    return int(
        subprocess.run(
            [sys.executable, "-c", count], capture_output=True, text=True, check=True
        ).stdout
    )


def pin(slot: int, accelerated: bool) -> None:
    """Leave this process one device, the accelerator or the core with this number, before JAX looks."""
    if accelerated:
        see_accelerators([slot])
    else:
        os.sched_setaffinity(0, {cores()[slot % len(cores())]})


def require(asked: int | None) -> None:
    """That this process has as many devices as were asked for."""
    if asked is None:
        return
    there = jax.local_device_count()
    if jax.default_backend() == "cpu" and asked > len(cores()):
        raise UserError(f"--devices {asked} is more than there are cores here ({len(cores())}).")
    if asked != there:
        raise UserError(
            f"--devices {asked} cannot be had: JAX sees {there} here ({jax.devices()[0].device_kind})."
        )


def describe() -> dict[str, Any]:
    """How many there are, in all processes together."""
    kind = jax.devices()[0].device_kind
    return {"devices": jax.device_count(), "device_kind": kind, "processes": jax.process_count()}


def mesh(at_most: int | None = None) -> Mesh:
    """All devices of all processes along the world axis; a lone process may leave some of its own out."""
    if jax.process_count() == 1:
        return local_mesh(at_most)
    count = jax.device_count()
    if at_most and at_most % count:
        raise UserError(
            f"{count} devices cannot share {at_most} worlds or episodes evenly; change one of these numbers."
        )
    return _line(jax.devices())


def local_mesh(at_most: int | None = None) -> Mesh:
    """This process's devices alone, or the largest number of them that divides `at_most`."""
    devices = jax.local_devices()
    count = len(devices)
    while at_most and at_most % count:
        count -= 1
    return _line(devices[:count])


def _line(devices: list[Any]) -> Mesh:
    return jax.make_mesh((len(devices),), (WORLDS,), axis_types=(AxisType.Auto,), devices=devices)


def map_seeds(body: Callable[[Any], Any], many: Any) -> Any:
    """The same for many: all at once on accelerators; in turns on host cores, which gain nothing from wider arrays."""
    return jax.lax.map(body, many) if jax.default_backend() == "cpu" else jax.vmap(body)(many)


@contextlib.contextmanager
def in_background(work: Callable[[], Any]) -> Iterator[None]:
    """Another thread works beside what is done inside; both must end well. The compiler leaves other threads be."""
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        yield
        working.result()


def jit_low_latency(program: Callable) -> Any:
    """Compiled for one small input, not for many: on host cores its little steps come one after another, for to hand
    them to threads takes twice as long as to do them."""
    host = jax.default_backend() == "cpu"
    options = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"} if host else None
    return jax.jit(program, compiler_options=options)


def slices(rows: int) -> int:
    """Into how many equal slices rows are best cut for arithmetic: many on host cores, one on accelerators."""
    if jax.default_backend() != "cpu":
        return 1
    return max(n for n in range(1, max(rows // SLICE, 1) + 1) if rows % n == 0)
