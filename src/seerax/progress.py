"""How long work is going: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from seerax import ppo
from seerax.runs import Run

LINE_EVERY = 10.0  # seconds, where there is no terminal


class TrainingBar:
    """Steps of each seed, held-out return, the return at the start (for a residual: the ensemble's), steps per second
    of all seeds together, ETA."""

    def __init__(self, console: Console, run: Run):
        self.console = console
        self.seeds = run.seeds
        self.total = run.experiment.ppo.iterations * run.experiment.ppo.batch
        self.first_label = "ensemble" if run.experiment.agent.startswith("brpo") else "untrained"
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("ETA"),
        )
        self.bar = Progress(
            *columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal
        )
        self.task = self.bar.add_task("compiling ...", total=self.total)
        self.first: float | None = None
        self.latest = self.best = float("nan")
        self.clock: tuple[float, int] | None = None
        self.last_line = time.monotonic()

    def __enter__(self) -> TrainingBar:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def show(self, progress: ppo.Progress) -> None:
        """Rates are counted from the second call on: the first includes compilation."""
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
        """What has been measured so far; a resumed run does not know how it began."""
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


@contextmanager
def episode_bar(console: Console, total: int) -> Iterator[Callable[[int], None]]:
    """Advances by the number of episodes just played."""
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("episodes", total=total)
        yield lambda played: bar.update(task, advance=played)


class SweepBar:
    """Runs done, share of all runs' steps, ETA."""

    def __init__(self, console: Console, runs: int, steps: int, already: int):
        self.console = console
        self.runs, self.steps, self.already = runs, max(steps, 1), already
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        self.bar = Progress(*columns, console=console, disable=not console.is_terminal)
        self.task = self.bar.add_task("", total=self.steps)
        self.started = self.last_line = time.monotonic()

    def tell(self, line: str) -> None:
        self.console.print(line, soft_wrap=True, markup=False)

    def show(self, done: int, failed: int, steps: int, now: str = "") -> None:
        """`now` says what is being done. The clock runs from the first step on: what takes none tells nothing."""
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

    def __enter__(self) -> SweepBar:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()


@contextmanager
def steps_bar(console: Console, total: int) -> Iterator[Callable[[str], None]]:
    """Say what comes next; all steps are taken to last equally long."""
    started, taken = time.monotonic(), 0
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("ETA"),
    )
    with Progress(
        *columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal
    ) as bar:
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
