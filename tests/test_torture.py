"""Every section of `make torture` in short, so that none can rot between two long runs."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import torture
import torture_commands
import torture_soak
from torture_blows import Plan
from torture_small import Broken, Skipped, undisturbed

from seerax.errors import UserError
from seerax.ppo import Config
from seerax.settings import settings
from seerax.system import files

ITERATIONS = 40
TINY = Config(worlds=16, rollout_length=8, minibatches=2, hidden=(8,), evaluation_episodes=16)
WAITING = ("disk", "kill", "sigterm")
SHORT: dict[str, dict[str, Any]] = {  # what each section is called with
    "kill": {"plan": Plan(1, ITERATIONS, pause=0.2)},
    "sigterm": {"plan": Plan(1, ITERATIONS, pause=0.2)},
    "flips": {"bits": 60, "cuts": 30},
    "disk": {"iterations": ITERATIONS},
    "filters": {"examples": 10},
    "commands": {"every": 5, "aside": 1},
    "soak": {
        "minutes": 0.05,
        "experiment": replace(settings("tree"), ppo=TINY),
        "most": 1000.0,
        "warm": 0.5,
    },
}
FOUND: dict[str, dict[str, Any]] = {  # among its figures
    "kill": {"kills": 1, "resumed": 1, "iterations_lost_beyond_the_last_checkpoint": 0},
    "sigterm": {"signals": 1, "saved_and_resumed": 1},
    "flips": {"bit_flips": 60, "truncations": 30, "detected": 90, "recovered": 90},
    "disk": {"disk_too_small": "told at the start"},
    "filters": {"examples": 10 * 12},
    "commands": {},
    "soak": {"compilations_after_warm_up": 0},
}


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> Path:
    """The undisturbed run, trained once for all sections."""
    return undisturbed(tmp_path_factory.mktemp("torture") / "undisturbed", ITERATIONS)


@pytest.fixture(scope="module")
def struck(reference) -> Iterator[dict[str, Future]]:
    """The sections that wait for processes of their own, two at a time."""
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as pool:
        for name in WAITING:
            use_reference(patch, name, reference)
        yield {name: pool.submit(torture.section(name), **SHORT[name]) for name in WAITING}


def use_reference(patch: pytest.MonkeyPatch, name: str, reference: Path) -> None:
    module = sys.modules[torture.section(name).__module__]
    copy = lambda folder, iterations: shutil.copytree(reference, folder)  # noqa: E731
    patch.setattr(module, "undisturbed", copy)


@pytest.mark.parametrize("name", WAITING)
def test_the_short_form_of_a_section_with_many_processes_passes(name, struck):
    wait(struck.values())  # before any other test: on two cores there is nothing to gain
    try:
        figures = struck[name].result()
    except Skipped as reason:
        pytest.skip(str(reason))
    assert {**figures, **FOUND[name]} == figures


@pytest.mark.parametrize("name", [name for name in torture.MODULES if name not in WAITING])
def test_the_short_form_of_every_other_section_passes(name, reference, monkeypatch):
    if name == "flips":
        use_reference(monkeypatch, name, reference)
    figures = torture.section(name)(**SHORT[name])
    assert {**figures, **FOUND[name]} == figures


def test_every_line_that_cannot_work_is_tried():
    """Of all settings of the learner that are numbers, and no policy that ships is asked for."""
    cases = torture_commands.line_cases()
    assert len(cases) > 180
    numbers = {*torture_commands.INTEGERS, *torture_commands.REALS}
    assert numbers == {*Config.__dataclass_fields__} - {
        "anneal",
        "hidden",
        "normalise_inputs",
        "normalise_values",
    }
    assert torture_commands.unshipped()


# ---- what a section's failure looks like -------------------------------------------------------


def attempted(section, tmp_path: Path) -> tuple[bool, dict[str, Any]]:
    path = tmp_path / "torture.json"
    files.write_json(path, {"other": {"seconds": 1}})
    fine = torture.attempt("this", path, section)
    return fine, json.loads(path.read_text())


@pytest.mark.parametrize(
    "error", [Broken("lost"), UserError("lost"), AssertionError("lost"), KeyError("lost")]
)
def test_a_section_that_fails_says_how_and_leaves_no_figures(error, tmp_path, capsys):
    def section():
        raise error

    assert attempted(section, tmp_path) == (False, {"other": {"seconds": 1}})
    assert "this: " in (said := capsys.readouterr().err) and "lost" in said


def test_a_section_that_cannot_run_here_is_no_failure_and_has_no_figures(tmp_path, capsys):
    def section():
        raise Skipped("no right to mount")

    assert attempted(section, tmp_path) == (True, {"other": {"seconds": 1}})
    assert "this: skipped: no right to mount" in capsys.readouterr().err


def test_figures_are_kept_beside_those_of_other_sections_and_shown_in_the_page(tmp_path):
    fine, known = attempted(lambda: {"kills": 3, "laws": {}}, tmp_path)
    assert fine and known["other"] == {"seconds": 1} and known["this"]["kills"] == 3
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- torture -->\nold\n<!-- end -->\nafter\n")
    torture.write_table(tmp_path, page)
    text = page.read_text()
    assert "| this | kills | 3 |" in text and "laws" not in text and "old" not in text


def test_a_section_that_does_not_exist_is_told(capsys):
    assert torture.main(["kil"]) == 2
    assert "There is no section 'kil'. Known: kill" in capsys.readouterr().err


# ---- the soak's judgement ----------------------------------------------------------------------


def memory(slope: float, minutes: int = 12) -> np.ndarray:
    """Rows of (seconds, megabytes), with a jump once."""
    seconds = np.arange(0.0, 60 * minutes, 5)
    return np.stack([seconds, 500 + slope * seconds / 60 - 30 * (seconds > 200)], -1)


def test_memory_that_grows_and_programs_compiled_late_are_found():
    assert torture_soak.soaked(memory(0.0), [1.0, 100.0], 12)["slope_mb_per_minute"] == 0
    with pytest.raises(Broken, match=r"memory changes by [23]\.\d\d MB per minute"):
        torture_soak.soaked(memory(3.0), [], 12)
    with pytest.raises(Broken, match="1 compilations after warm-up"):
        torture_soak.soaked(memory(0.0), [1.0, 200.0], 12)
