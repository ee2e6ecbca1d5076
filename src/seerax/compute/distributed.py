"""Several processes, on one host or on many, that train one learner together through `jax.distributed`.

Each holds its share of the worlds; the first alone writes, prints and evaluates. Alone, a process is its own first.
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
FAREWELL = 60  # seconds to wait at the end for the others
interrupted = threading.Event()  # Ctrl-C came to this very process


class PeerLost(Exception):  # noqa: N818
    """Another process of the team is gone, so this one cannot go on."""


@dataclass(frozen=True)
class Meeting:
    """Where the processes find each other. With nothing said, SLURM or Open MPI is asked."""

    coordinator: str | None = None  # HOST:PORT of process 0
    processes: int | None = None
    process_id: int | None = None

    def check(self) -> None:
        told = [value is not None for value in (self.coordinator, self.processes, self.process_id)]
        if any(told) and not all(told):
            raise UserError("--coordinator, --processes and --process-id belong together.")
        if self.coordinator is None or self.processes is None or self.process_id is None:
            return
        host, _, port = self.coordinator.rpartition(":")
        if not host or not port.isdigit():
            raise UserError(f"--coordinator should read HOST:PORT, not '{self.coordinator}'.")
        if not 0 <= self.process_id < self.processes:
            raise UserError(
                f"--process-id must lie in 0 .. {self.processes - 1}, not {self.process_id}."
            )


# ---- meeting and parting -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def together(meeting: Meeting | None) -> Iterator[None]:
    """Meet the other processes first of all, and part from them at the end. Without a meeting, alone."""
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
            abandon(1)
        leave(before)
        raise
    except (KeyboardInterrupt, Stopped):
        leave(before)
        raise
    leave(before)


def join(meeting: Meeting) -> None:
    """Ctrl-C is from now on what SIGTERM is to JAX: all processes agree on the iteration after which to stop."""
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
        how = "name the processes with --coordinator HOST:PORT --processes N --process-id I"
        raise UserError(f"Neither SLURM nor Open MPI started this process; {how}.") from error
    except RuntimeError as error:
        raise UserError(
            f"The processes did not find each other: {str(error).splitlines()[0]}"
        ) from error
    interrupted.clear()
    signal.signal(signal.SIGINT, interrupt)


def interrupt(number: int, frame: FrameType | None) -> None:
    """JAX hears SIGTERM only, in code of its own; that it was Ctrl-C is remembered for the exit code."""
    interrupted.set()
    os.kill(os.getpid(), signal.SIGTERM)


def leave(handlers: dict[signal.Signals, Any]) -> None:
    """Afterwards each process computes alone, and signals mean what they used to."""
    jax.distributed.shutdown()
    for number, handler in handlers.items():
        signal.signal(number, handler)


def abandon(code: int) -> None:
    """End at once: taking leave would wait for those who are gone."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def is_peer_loss(error: Exception) -> bool:
    """Gloo and NCCL tell that a peer is gone by an error of the collective they were in."""
    text = str(error)
    return jax.process_count() > 1 and any(
        sign in text for sign in ("Gloo", "NCCL", "UNAVAILABLE", "heartbeat")
    )


# ---- who does what -----------------------------------------------------------------------------------------------


def is_main() -> bool:
    """The one process that writes, prints and evaluates."""
    return jax.process_index() == 0


def on_main(action: Callable[[], None]) -> None:
    """The first acts while the others wait. If that is a mistake they all stop."""
    mistake = None
    if is_main():
        try:
            action()
        except UserError as error:
            mistake = error
    failed = bool(multihost_utils.broadcast_one_to_all(np.int32(mistake is not None)))
    if failed:
        raise mistake or UserError("Process 0 cannot go on, and says why.")


def broadcast_from_main(choice: bool) -> bool:
    """What the first process chooses, for all of them."""
    return (
        choice
        if jax.process_count() == 1
        else bool(multihost_utils.broadcast_one_to_all(np.int32(choice)))
    )


class StopTogether(Stop):
    """Whoever is told to stop, all do so after the same iteration; JAX hears the signal and finds that iteration.

    Who had no Ctrl-C of its own ends as if by SIGTERM.
    """

    def asked_after(self, iteration: int) -> bool:
        if multihost_utils.reached_preemption_sync_point(iteration):
            self.number = signal.SIGINT if interrupted.is_set() else signal.SIGTERM
        return self.asked


@contextlib.contextmanager
def stop(say: Say) -> Iterator[Stop]:
    """Ask it after every iteration."""
    if jax.process_count() > 1:
        yield StopTogether()
        return
    with signals.stop_gracefully(say) as alone:
        yield alone


# ---- who has what ------------------------------------------------------------------------------------------------


def shard(tree: Any, sharding: Sharding) -> Any:
    """What every process has whole, on the devices: each process keeps its share.

    By way of the host, also for a lone process: between devices JAX would compile a program for every shape.
    """

    def share(leaf: Any) -> jax.Array:
        if is_key(leaf):
            return jax.random.wrap_key_data(share(jax.random.key_data(leaf)))
        whole = np.asarray(leaf)
        return jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])

    return jax.tree.map(share, tree)


def allgather(tree: Any) -> Any:
    """What the processes have together, whole on each of them. All must ask at the same time."""

    def whole(leaf: Any) -> Any:
        if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable:
            return leaf
        if is_key(leaf):
            return jax.random.wrap_key_data(whole(jax.random.key_data(leaf)))
        return multihost_utils.process_allgather(leaf, tiled=True)

    return jax.tree.map(whole, tree)
