"""Signals: long work stops between two of its parts, and reports which signal stopped it.

with signals.stop_gracefully(say) as stop:
    for part in work:
        ...
        stop.check()  # raises Stopped here, and only here, after Ctrl-C or SIGTERM
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Say = Callable[[str], None]


class Stopped(BaseException):
    """The exception that ends work after a signal; no `except Exception` catches it."""

    def __init__(self, number: int):
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number  # as in a shell: 130 for Ctrl-C, 143 for SIGTERM


class Stop:
    """The record of a signal that asks the work to stop."""

    number: int | None = None

    @property
    def asked(self) -> bool:
        """True if a signal has arrived."""
        return self.number is not None

    def asked_after(self, iteration: int) -> bool:
        """True if the work should stop after this iteration."""
        return self.asked

    def check(self) -> None:
        """Raises `Stopped` if a signal has arrived."""
        if self.number is not None:
            raise Stopped(self.number)


@contextmanager
def stop_gracefully(say: Say = lambda message: None) -> Iterator[Stop]:
    """Records the first signal for the work to check; a second one stops it at once."""
    stop = Stop()

    def note(number: int, frame: FrameType | None) -> None:
        stop.check()
        stop.number = number
        say("Stopping after this iteration; once more stops at once and loses it.")

    with handle_with(note):
        yield stop


@contextmanager
def stop_at_once() -> Iterator[None]:
    """Ends the work at any signal, by an exception that lets it clean up."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Stopped(number)

    with handle_with(end):
        yield


def exit_at_once(code: int) -> None:
    """Ends the process without the interpreter's farewell.

    XLA may still be compiling in threads of its own, and taking the interpreter down under them
    ends in a native crash; and processes that train together would wait for those that are gone.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@contextmanager
def handle_with(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handles signals by `handler` within the block, in the main thread only.

    Signals that are being ignored (nohup) stay ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    heard = [number for number, earlier in before.items() if earlier is not signal.SIG_IGN]
    try:
        for number in heard:
            signal.signal(number, handler)
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])
