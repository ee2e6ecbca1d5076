"""Several processes, on one host or many, that train one learner through `jax.distributed`.

Each holds its shard of the worlds. Only the main process writes, prints and evaluates; a single
process is the main one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Sharding

from seerax.errors import UserError
from seerax.numerics.trees import is_key
from seerax.system import signals
from seerax.system.signals import Say, Stop, Stopped

HEARTBEAT = 10  # seconds without a sign of life after which a process counts as lost
FAREWELL = 60  # seconds to wait for the others at the end
interrupted = threading.Event()  # this process itself received Ctrl-C


class PeerLost(Exception):  # noqa: N818
    """The error that another process is gone, so that this one cannot go on."""


@dataclass(frozen=True)
class Meeting:
    """Where the processes find each other; if nothing is given, SLURM or Open MPI provides it."""

    coordinator: str | None = None  # HOST:PORT of process 0
    processes: int | None = None
    process_id: int | None = None

    def check(self) -> None:
        """Refuses a meeting that is incomplete or malformed."""
        told = [value is not None for value in (self.coordinator, self.processes, self.process_id)]
        if any(told) and not all(told):
            raise UserError(
                "Coordinator, number of processes and process id belong together: give all three.",
                "coordinator",
                "processes",
                "process_id",
            )
        if self.coordinator is None or self.processes is None or self.process_id is None:
            return
        host, _, port = self.coordinator.rpartition(":")
        if not host or not port.isdigit():
            raise UserError(
                f"The coordinator should read HOST:PORT, not '{self.coordinator}'.", "coordinator"
            )
        if not 0 <= self.process_id < self.processes:
            raise UserError(
                f"The process id must lie in 0 .. {self.processes - 1}, not {self.process_id}.",
                "process_id",
            )


# ---- meeting and parting -------------------------------------------------------------------------


@contextlib.contextmanager
def together(meeting: Meeting | None) -> Iterator[None]:
    """Joins the other processes for the block and leaves them at its end; None stays alone."""
    if meeting is None:
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    join(meeting)
    try:
        yield
    except Exception as error:
        if is_peer_loss(error):
            raise PeerLost(str(error).splitlines()[0]) from error
        if not isinstance(error, UserError):
            sys.excepthook(type(error), error, error.__traceback__)
            signals.exit_at_once(1)
        leave(before)
        raise
    except (KeyboardInterrupt, Stopped):
        leave(before)
        raise
    leave(before)


def join(meeting: Meeting) -> None:
    """Joins the other processes, and from then on treats Ctrl-C like SIGTERM.

    At SIGTERM JAX makes all processes agree on the iteration after which to stop.
    """
    meeting.check()
    try:
        jax.distributed.initialize(
            meeting.coordinator,
            meeting.processes,
            meeting.process_id,
            heartbeat_timeout_seconds=HEARTBEAT,
            shutdown_timeout_seconds=FAREWELL,
        )
    except ValueError as error:
        raise UserError(
            "Neither SLURM nor Open MPI started this process: give the coordinator (HOST:PORT), "
            "the number of processes and the id of this one.",
            "coordinator",
            "processes",
            "process_id",
        ) from error
    except RuntimeError as error:
        raise UserError(
            f"The processes did not find each other: {str(error).splitlines()[0]}"
        ) from error
    interrupted.clear()
    signal.signal(signal.SIGINT, interrupt)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Passes Ctrl-C on as SIGTERM, which JAX handles, and records it for the exit code."""
    interrupted.set()
    os.kill(os.getpid(), signal.SIGTERM)


def leave(handlers: dict[signal.Signals, Any]) -> None:
    """Leaves the other processes and restores the signal handlers."""
    jax.distributed.shutdown()
    for number, handler in handlers.items():
        signal.signal(number, handler)


def is_peer_loss(error: Exception) -> bool:
    """True for an error by which a Gloo or NCCL collective reports that a peer is gone."""
    text = str(error)
    return jax.process_count() > 1 and any(
        sign in text for sign in ("Gloo", "NCCL", "UNAVAILABLE", "heartbeat")
    )


# ---- who does what -------------------------------------------------------------------------------


def is_main() -> bool:
    """True in the one process that writes, prints and evaluates."""
    return jax.process_index() == 0


def on_main(action: Callable[[], None]) -> None:
    """Acts in the main process while the others wait; after a `UserError` all processes stop."""
    mistake = None
    if is_main():
        try:
            action()
        except UserError as error:
            mistake = error
    failed = bool(multihost_utils.broadcast_one_to_all(np.int32(mistake is not None)))
    if failed:
        raise mistake or UserError("Process 0 cannot go on; its own message says why.")


def broadcast_from_main(choice: bool) -> bool:
    """Returns the choice of the main process in all processes."""
    if jax.process_count() == 1:
        return choice
    return bool(multihost_utils.broadcast_one_to_all(np.int32(choice)))


class StopTogether(Stop):
    """A `Stop` by which all processes stop after the same iteration, whichever got the signal.

    JAX receives the signal and finds the iteration. A process that had no Ctrl-C of its own ends as
    if by SIGTERM.
    """

    def asked_after(self, iteration: int) -> bool:
        """True if all processes stop after this iteration."""
        if multihost_utils.reached_preemption_sync_point(iteration):
            self.number = signal.SIGINT if interrupted.is_set() else signal.SIGTERM
        return self.asked


@contextlib.contextmanager
def stop(say: Say) -> Iterator[Stop]:
    """Yields a `Stop` to ask after every iteration."""
    if jax.process_count() > 1:
        yield StopTogether()
        return
    with signals.stop_gracefully(say) as alone:
        yield alone


# ---- who has what --------------------------------------------------------------------------------


def shard(tree: Any, sharding: Sharding) -> Any:
    """Places arrays that every process has whole on the devices, as shards.

    They go through the host, also in a single process: to move them between devices, JAX would
    compile a program for every shape.
    """

    def share(leaf: Any) -> jax.Array:
        if is_key(leaf):
            return jax.random.wrap_key_data(share(jax.random.key_data(leaf)))
        whole = np.asarray(leaf)
        return jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])

    return jax.tree.map(share, tree)


def allgather(tree: Any) -> Any:
    """Gathers sharded arrays whole in every process. All processes must call it together."""

    def whole(leaf: Any) -> Any:
        if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable:
            return leaf
        if is_key(leaf):
            return jax.random.wrap_key_data(whole(jax.random.key_data(leaf)))
        return multihost_utils.process_allgather(leaf, tiled=True)

    return jax.tree.map(whole, tree)
