"""The form of a result, which is kept as JSON for every entry of the plan."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

from seerax.errors import UserError
from seerax.system import files


class Measured(TypedDict, total=False):
    """A summary of fresh episodes, from `Evaluation.summary`; some counts have only an interval."""

    mean: float
    ci95: Any  # (low, high)
    episodes: int
    stderr: float
    success: float
    length: float
    sensing: float
    crashes: Measured
    crash_free: float


class Curve(TypedDict):
    """One seed's held-out returns while learning, and that of the returned policy."""

    seed: int
    steps: list[int]
    held_out: list[float]
    returned: float


class Extra(TypedDict, total=False):
    """What is counted besides the return, on problems with sensing."""

    crashes: Measured  # steps in touch with a closed door, per episode
    crash_free: float  # share of the episodes
    at_the_end: Measured  # of the last policies
    sensing: dict[str, float]  # when and where the best seed senses


class Result(TypedDict):
    """One entry of the plan, measured."""

    name: str
    problem: str
    agent: str
    config: dict[str, Any]
    seeds: int
    episodes: int
    curves: list[Curve]
    per_seed: list[Measured]
    evaluation: Measured
    extra: Extra
    training_seconds: float
    cores: int
    versions: dict[str, Any]
    budget: str


class NotRun(Exception):  # noqa: N818
    """The entry of this name has no result yet."""


class Results(dict[str, Result]):
    """Results by the names of their entries."""

    def __missing__(self, name: str) -> Result:
        raise NotRun(name)


def read_results(folder: Path) -> Mapping[str, Result]:
    """Reads every result in a folder."""
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder} with results of the paper's entries.")
    saved: dict[str, Any] = {
        file.stem: files.read_json(file) for file in sorted(folder.glob("*.json"))
    }
    return {name: result for name, result in saved.items() if "evaluation" in result}
