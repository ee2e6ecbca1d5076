"""The face, the command line and the claims: each test fails on a fault that others let pass."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import seerax
from seerax import rollout
from seerax.cli import bars
from seerax.cli.arguments import given
from seerax.core import BeliefMDP
from seerax.experiments import varied
from seerax.keys import evaluation_key
from seerax.paper import rules
from seerax.paper.results import Results
from seerax.settings import settings


def test_an_evaluation_plays_the_episodes_of_its_seed(tiger_mdp: BeliefMDP) -> None:
    found = {seed: seerax.evaluate(tiger_mdp, seerax.follow_advice, 32, seed) for seed in (3, 4)}
    for seed, evaluation in found.items():
        expected = rollout.evaluate(evaluation_key(seed), tiger_mdp, seerax.follow_advice, 32)
        np.testing.assert_array_equal(evaluation.returns, expected.returns)
    assert not np.array_equal(found[3].returns, found[4].returns)


def test_changes_lie_on_top_of_our_settings() -> None:
    trainer = seerax.trainer("tiger", agent="bpo", steps=2e6, epochs=2, bonus=0.5)
    ours = settings("tiger", "bpo")
    assert trainer.config == replace(ours.ppo, steps=2_000_000, epochs=2)
    assert trainer.about["experiment"]["bonus"] == 0.5
    assert trainer.about["experiment"]["scale"] == ours.scale


def test_a_setting_that_only_the_middle_one_has_differs_too() -> None:
    plain: dict[str, Any] = {"agent": "brpo", "ppo": {"epochs": 4}}
    bold: dict[str, Any] = {"agent": "brpo", "ppo": {"epochs": 8}}
    assert varied(plain, bold, plain) == {"ppo.epochs": [4, 8, 4]}
    assert varied(plain, plain) == {}


@pytest.mark.parametrize("seeds", [1, 3])
def test_the_rate_is_of_all_seeds_and_the_time_left_of_each(
    monkeypatch: pytest.MonkeyPatch, seeds: int
) -> None:
    """Two seconds for the second ten thousand steps of each seed, and eighty thousand to go."""
    clock = [0.0]
    monkeypatch.setattr(bars, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(bars, "LINE_EVERY", 1.0)
    written = StringIO()
    console = Console(file=written, width=200)
    run: Any = SimpleNamespace(seeds=seeds, total_steps=100_000)
    trainer: Any = SimpleNamespace(agent=SimpleNamespace(is_residual=True))
    bar = bars.TrainingBar(console, run, trainer)
    for steps, now in ((0, 0.0), (10_000, 50.0), (20_000, 52.0)):
        clock[0] = now
        progress: Any = SimpleNamespace(steps=steps, held_out=None)
        bar.show(progress)
    said = written.getvalue().splitlines()[-1]
    assert f"  {5 * seeds}k steps/s" in said and said.endswith("ETA 16 s")


def test_an_option_is_seen_however_its_value_is_written() -> None:
    words = ["train", "tiger", "--ppo.rollout-length=8", "--seed", "1", "--overwrite"]
    assert given(words) == {"ppo.rollout_length", "seed", "overwrite"}


@pytest.mark.parametrize(("mean", "holds"), [(8.5, True), (12.0, False)])
def test_who_is_not_below_several_has_gained_as_much_as_each_of_them(
    mean: float, holds: bool
) -> None:
    """All intervals are wide enough to meet; only the gain of the second rival differs."""
    means = {"ensemble": 0.0, "brpo": 8.0, "bpo": 8.0, "upmle": mean}
    results = Results(
        {
            f"maze4-{who}": {"evaluation": {"mean": each, "ci95": [each - 9, each + 9]}}
            for who, each in means.items()
        }
    )
    rivals = ("maze4-bpo", "maze4-upmle")
    assert rules.not_below("maze4-brpo", *rivals)(results).holds is holds
    assert rules.not_below("maze4-brpo", *rivals[::-1])(results).holds is holds
