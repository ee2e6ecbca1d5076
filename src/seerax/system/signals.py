"""Signals: long work ends where it is whole, and says with which signal it ended.

with stopping.graceful(say) as stop:
    for part in work:
        ...
        stop.check()  # raises Stopped here, and only here, if Ctrl-C or SIGTERM came in
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Say = Callable[[str], None]


class Stopped(BaseException):
    """Asked to stop by a signal. No `except Exception` may swallow it."""

    def __init__(self, number: int):
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number  # as a shell has it: 130 for Ctrl-C, 143 for SIGTERM


class Stop:
    """Whether a signal has come in."""

    number: int | None = None

    @property
    def asked(self) -> bool:
        return self.number is not None

    def asked_after(self, iteration: int) -> bool:
        """Whether to stop after this iteration."""
        return self.asked

    def check(self) -> None:
        if self.number is not None:
            raise Stopped(self.number)


@contextmanager
def stop_gracefully(say: Say = lambda message: None) -> Iterator[Stop]:
    """The first signal is only noted; a second one stops at once."""
    stop = Stop()

    def note(number: int, frame: FrameType | None) -> None:
        stop.check()
        stop.number = number
        say("Stopping after this iteration; once more stops at once and loses it.")

    with handle_with(note):
        yield stop


@contextmanager
def stop_at_once() -> Iterator[None]:
    """Every signal ends the work where it is, cleaning up on the way out."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Stopped(number)

    with handle_with(end):
        yield


@contextmanager
def handle_with(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Within the block, and only in the main thread; what is being ignored (nohup) stays ignored."""
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
