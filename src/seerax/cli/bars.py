"""Progress of long work: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from seerax.ppo import Progress as TrainingProgress
from seerax.ppo import Trainer
from seerax.runs import Run

LINE_EVERY = 10.0  # seconds, where there is no terminal


class _Shown:
    """A bar that is shown within a `with` block."""

    bar: Progress

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()


class TrainingBar(_Shown):
    """Shows the steps of each seed, the held-out return, the rate and the time left.

    The return at the start is shown beside it; for a residual it is the ensemble's. The rate is in
    steps per second of all seeds together.
    """

    def __init__(self, console: Console, run: Run, trainer: Trainer):
        self.console = console
        self.seeds = run.seeds
        self.total = run.total_steps
        self.first_label = "ensemble" if trainer.agent.is_residual else "untrained"
        self.bar = bar_with_eta(console)
        self.task = self.bar.add_task("compiling ...", total=self.total)
        self.first: float | None = None
        self.latest = float("nan")
        self.best = float("nan")
        self.clock: tuple[float, int] | None = None
        self.last_line = time.monotonic()

    def show(self, progress: TrainingProgress) -> None:
        """Shows a progress. Rates count from the second call on: the first includes compilation."""
        if progress.held_out is not None:
            self.latest = float(np.mean(progress.held_out))
            self.best = float(np.mean(progress.best_return))
        if self.first is None:
            self.first = self.latest
        elif self.clock is None:
            self.clock = (time.monotonic(), progress.steps)
        self._tell(progress.steps)

    def _tell(self, steps: int) -> None:
        text = (
            f"{steps / 1e6:.1f}/{self.total / 1e6:.1f}M steps{self._returns()}  {self._rate(steps)}"
        )
        self.bar.update(self.task, completed=steps, description=text)
        due = time.monotonic() - self.last_line > LINE_EVERY or steps >= self.total
        if not self.console.is_terminal and due:
            self.console.print(f"{text}  {self._eta(steps)}", soft_wrap=True)
            self.last_line = time.monotonic()

    def _returns(self) -> str:
        """Returns the returns measured so far; a resumed run does not know how it began."""
        known = {"return": self.latest, "best": self.best, self.first_label: self.first}
        return "".join(
            f"  {name} {value:.1f}"
            for name, value in known.items()
            if value is not None and value == value
        )

    def _rate(self, steps: int) -> str:
        if self.clock is None or steps == self.clock[1]:
            return "-- steps/s"
        return f"{self.seeds * self._speed(steps) / 1e3:.0f}k steps/s"

    def _speed(self, steps: int) -> float:
        assert self.clock is not None
        return (steps - self.clock[1]) / max(time.monotonic() - self.clock[0], 1e-9)

    def _eta(self, steps: int) -> str:
        if self.clock is None or steps == self.clock[1]:
            return "ETA --"
        return f"ETA {(self.total - steps) / self._speed(steps):.0f} s"


def bar_with_eta(console: Console) -> Progress:
    """Creates a bar with description, elapsed time and time left; it is hidden off a terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )


@contextmanager
def episode_bar(console: Console, total: int) -> Iterator[Callable[[int], None]]:
    """Shows a bar of episodes; yields a function that advances it by the number just played."""
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("episodes", total=total)

        def advance(played: int) -> None:
            bar.update(task, advance=played)

        yield advance


class SweepBar(_Shown):
    """Shows how many runs are done, the share of all runs' steps, and the time left."""

    def __init__(self, console: Console, runs: int, steps: int, already: int):
        self.console = console
        self.runs = runs
        self.steps = max(steps, 1)
        self.already = already
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        self.bar = Progress(*columns, console=console, disable=not console.is_terminal)
        self.task = self.bar.add_task("", total=self.steps)
        self.started = time.monotonic()
        self.last_line = time.monotonic()

    def tell(self, line: str) -> None:
        """Prints a line above the bar."""
        self.console.print(line, soft_wrap=True, markup=False)

    def show(self, done: int, failed: int, steps: int, now: str = "") -> None:
        """Shows the progress and what is being done now; the clock starts with the first step."""
        if steps <= self.already:
            self.started = time.monotonic()
        text = f"{done}/{self.runs} runs" + (f", {failed} failed" if failed else "")
        text += f"  {100 * steps / self.steps:.0f} % of all steps  {self._eta(steps)}"
        text += f"  {now}" if now else ""
        self.bar.update(self.task, completed=steps, description=text)
        if not self.console.is_terminal and time.monotonic() - self.last_line > LINE_EVERY:
            self.console.print(text, soft_wrap=True)
            self.last_line = time.monotonic()

    def _eta(self, steps: int) -> str:
        if steps <= self.already:
            return "ETA --"
        left = (self.steps - steps) * (time.monotonic() - self.started) / (steps - self.already)
        return f"ETA {left:.0f} s" if left < 600 else f"ETA {left / 60:.0f} min"


@contextmanager
def steps_bar(console: Console, total: int) -> Iterator[Callable[[str], None]]:
    """Shows a bar of steps; yields a function that announces the next one.

    The time left assumes that all steps take equally long.
    """
    started = time.monotonic()
    taken = 0
    with bar_with_eta(console) as bar:
        task = bar.add_task("", total=total)

        def tell(words: str) -> None:
            nonlocal taken
            bar.update(task, completed=taken, description=words)
            if not console.is_terminal:
                left = (time.monotonic() - started) * (total - taken) / max(taken, 1)
                eta = f"ETA {left:.0f} s" if taken else "ETA --"
                console.print(f"{taken + 1}/{total} {words}  {eta}", soft_wrap=True)
            taken += 1

        yield tell
