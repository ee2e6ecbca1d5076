"""Rules on training curves: each returns a judge, which looks at the results alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from seerax.paper.results import Curve, Measured, Result, Results
from seerax.paper.rules import (
    PAIR,
    Judge,
    Verdict,
    above,
    better,
    over_seeds,
    overlap,
    told,
    untrained_return,
)
from seerax.problems import PAPER


def steps_to(result: Result, short: float = 0.05) -> float:
    """Returns the mean over seeds of the steps until a held-out return is near the last one.

    Near is at most this share below it.
    """
    return float(np.mean([first_near_last(curve, short) for curve in result["curves"]]))


def first_near_last(curve: Curve, short: float) -> int:
    """Returns the steps until a held-out return is near the last one, which may be negative."""
    last = curve["held_out"][-1]
    level = last - short * abs(last)
    points = zip(curve["steps"], curve["held_out"], strict=True)
    return next(steps for steps, value in points if value >= level - 1e-9)


def learns_faster(problem: str, times: float = 1.0) -> Judge:
    """Holds if BPO and UP-MLE need so many times BRPO's steps to 95 % of their own last return."""

    def judge(results: Results) -> Verdict:
        mine, *others = (steps_to(each) for each in contenders(results, problem))
        named = zip(("BRPO", "BPO", "UP-MLE"), (mine, *others), strict=True)
        figure = ", ".join(f"{name} {steps / 1e6:.2f}M" for name, steps in named)
        return Verdict(figure, all(each > mine and each >= times * mine for each in others))

    return judge


def contenders(results: Results, problem: str) -> list[Result]:
    """Returns the results of BRPO, BPO and UP-MLE, the latter two with or without bonus."""
    others = [better(results, problem, agent) for agent in ("bpo", "upmle")]
    return [results[f"{problem}-brpo"], *others]


def higher_while_learning(one: str, other: str) -> Judge:
    """Holds if the held-out return averaged over the training lies above, intervals apart."""

    def judge(results: Results) -> Verdict:
        a, b = (over_seeds(map(average, results[name]["curves"])) for name in (one, other))
        return Verdict(f"{told(a)} against {told(b)} on average over the training", above(a, b))

    return judge


def average(curve: Curve) -> float:
    """Returns the held-out return averaged over the steps of a training."""
    steps = np.array(curve["steps"], float)
    held_out = np.array(curve["held_out"])
    return float(np.trapezoid(held_out, steps) / (steps[-1] - steps[0]))


def starts_at_ensemble() -> Judge:
    """Holds if the intervals of BRPO's first held-out return and of the ensemble's overlap."""

    def judge(results: Results) -> Verdict:
        pairs = {
            p: (first_evaluation(results, p), results[f"{p}-ensemble"]["evaluation"]) for p in PAPER
        }
        words = [
            f"{p} {mine['mean']:.1f} against {told(theirs)}" for p, (mine, theirs) in pairs.items()
        ]
        return Verdict("; ".join(words), all(overlap(*pair) for pair in pairs.values()))

    return judge


def first_evaluation(results: Results, problem: str) -> Measured:
    """Returns BRPO's first held-out return with an interval.

    All seeds start at the same policy and meet the same episodes, so the spread is the ensemble's.
    """
    brpo = results[f"{problem}-brpo"]
    ensemble = results[f"{problem}-ensemble"]["evaluation"]
    mean = untrained_return(brpo)
    spread = ensemble["stderr"] * np.sqrt(ensemble["episodes"])
    margin = 1.96 * spread / np.sqrt(brpo["config"]["ppo"]["evaluation_episodes"])
    return {"mean": mean, "ci95": (mean - margin, mean + margin)}


def never_below_ensemble(gain: Callable[[Results, str], list[float]]) -> Judge:
    """Holds if no seed returns less than the ensemble on the same episodes, on any problem."""

    def judge(results: Results) -> Verdict:
        gains = {p: min(gain(results, p)) for p in PAPER}
        words = ", ".join(f"{p} {value:+.1f}" for p, value in gains.items())
        return Verdict(
            f"smallest gain of a seed: {words}", all(value >= 0 for value in gains.values())
        )

    return judge


def held_out_gain(results: Results, problem: str) -> list[float]:
    """Returns each seed's gain of the last policy over the first, which is the ensemble."""
    curves = results[f"{problem}-brpo"]["curves"]
    return [curve["held_out"][-1] - curve["held_out"][0] for curve in curves]


def fresh_gain(results: Results, problem: str) -> list[float]:
    """Returns each seed's gain of the returned policy, on fresh episodes the ensemble played."""
    mine, theirs = (results[f"{problem}-{who}"]["per_seed"] for who in PAIR)
    return [a["mean"] - b["mean"] for a, b in zip(mine, theirs, strict=False)]
