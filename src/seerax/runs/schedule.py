"""When a run saves a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """When to save: whichever comes first. The end of a run and a signal save in any case."""

    seconds: float = 30.0  # since the last checkpoint
    iterations: int = 1000  # since the last checkpoint

    def due(self, seconds: float, iterations: int) -> bool:
        return seconds >= self.seconds or iterations >= self.iterations
