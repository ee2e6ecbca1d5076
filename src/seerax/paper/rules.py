"""How a claim is judged: each rule makes a judge, and a judge looks at the results alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from seerax.numerics.statistics import student_interval
from seerax.paper.plan import versions
from seerax.problems import PAPER

Result = dict[str, Any]
Measured = Mapping[str, Any]  # has "mean" and "ci95"


class NotRun(Exception):  # noqa: N818
    """The entry of this name has no result yet."""


class Results(dict[str, Result]):
    """By entry."""

    def __missing__(self, name: str) -> Result:
        raise NotRun(name)


class Verdict(NamedTuple):
    figure: str  # what was measured, in words
    holds: bool


Judge = Callable[[Results], Verdict]


# ---- intervals ---------------------------------------------------------------------------------------------------


def told(measured: Measured, digits: int = 1) -> str:
    low, high = measured["ci95"]
    return f"{measured['mean']:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def above(one: Measured, other: Measured) -> bool:
    """The intervals are apart."""
    return one["ci95"][0] > other["ci95"][1]


def overlap(one: Measured, other: Measured) -> bool:
    return not above(one, other) and not above(other, one)


def over_seeds(values: Iterable[float]) -> Measured:
    each = np.array(list(values), float)
    mean = float(each.mean())
    return {"mean": mean, "ci95": student_interval(each) if each.size > 1 else (mean, mean)}


def better(results: Results, problem: str, agent: str) -> Result:
    """With or without the paper's bonus, whichever returns more."""
    return max(
        (results[name] for name in versions(problem, agent)),
        key=lambda result: result["evaluation"]["mean"],
    )


# ---- returns -----------------------------------------------------------------------------------------------------


def beats(one: str, *others: str) -> Judge:
    """Its interval lies above those of all others."""

    def judge(results: Results) -> Verdict:
        mine, theirs = results[one]["evaluation"], [results[name]["evaluation"] for name in others]
        figure = f"{told(mine)} against {', '.join(map(told, theirs))}"
        return Verdict(figure, all(above(mine, each) for each in theirs))

    return judge


def not_below(one: str, *others: str, share: float = 0.9) -> Judge:
    """Its interval is not entirely below any other's, and it has this share of their gains: noise excuses nothing."""

    def judge(results: Results) -> Verdict:
        mine, theirs = results[one]["evaluation"], [results[name]["evaluation"] for name in others]
        shares = [gain_share(results, one, name) for name in others]
        figure = (
            f"{told(mine)} against {', '.join(map(told, theirs))}; {in_percent(shares)} of the gain"
        )
        return Verdict(
            figure,
            not any(above(each, mine) for each in theirs) and all(each >= share for each in shares),
        )

    return judge


def keeps(one: str, other: str, share: float) -> Judge:
    """At least this share of the other's gain."""

    def judge(results: Results) -> Verdict:
        kept = gain_share(results, one, other)
        figure = f"{told(results[one]['evaluation'])} against {told(results[other]['evaluation'])}"
        return Verdict(f"{figure}; {in_percent([kept])} of the gain", kept >= share)

    return judge


def gain_share(results: Results, one: str, other: str) -> float:
    """What it has gained over the problem's ensemble, in shares of the other's; of nothing, any gain will do."""
    start = results[f"{one.partition('-')[0]}-ensemble"]["evaluation"]["mean"]
    mine, theirs = (results[name]["evaluation"]["mean"] - start for name in (one, other))
    return mine / theirs if theirs > 0 else float("inf" if mine >= theirs else "-inf")


def in_percent(shares: Iterable[float]) -> str:
    return ", ".join("over 200 %" if each > 2 else f"{100 * each:.0f} %" for each in shares)


def learned_nothing(names: Iterable[str]) -> Judge:
    """The interval does not lie above the return of the untrained policy."""

    def judge(results: Results) -> Verdict:
        found = [results[name] for name in names]
        untrained = [
            float(np.mean([curve["held_out"][0] for curve in each["curves"]])) for each in found
        ]
        figure = ", ".join(
            f"{told(each['evaluation'])}, untrained {start:.1f}"
            for each, start in zip(found, untrained, strict=True)
        )
        lows = [each["evaluation"]["ci95"][0] for each in found]
        return Verdict(
            figure, all(low <= start for low, start in zip(lows, untrained, strict=True))
        )

    return judge


def beats_adaptive(problem: str) -> Judge:
    """BRPO's interval lies above those of BPO and UP-MLE, each with or without bonus, whichever is better."""

    def judge(results: Results) -> Verdict:
        mine = results[f"{problem}-brpo"]["evaluation"]
        bpo, upmle = (better(results, problem, agent)["evaluation"] for agent in ("bpo", "upmle"))
        figure = f"{told(mine)} against {told(bpo)} (BPO), {told(upmle)} (UP-MLE)"
        return Verdict(figure, above(mine, bpo) and above(mine, upmle))

    return judge


def returns_at_least(name: str, wanted: float) -> Judge:
    def judge(results: Results) -> Verdict:
        mine = results[name]["evaluation"]
        return Verdict(told(mine), mine["mean"] >= wanted)

    return judge


def near(name: str, wanted: float, share: float) -> Judge:
    """At least this share of what is wanted."""

    def judge(results: Results) -> Verdict:
        found = results[name]["evaluation"]
        return Verdict(f"{told(found, 2)} against {wanted:.2f}", found["mean"] >= share * wanted)

    return judge


def agrees(name: str, wanted: float, margin: float) -> Judge:
    """Our mean lies within twice the paper's margin, of which it does not say whether it is a standard error."""

    def judge(results: Results) -> Verdict:
        mine = results[name]["evaluation"]
        return Verdict(told(mine), abs(mine["mean"] - wanted) <= 2 * margin)

    return judge


def matches_brpo(problem: str, share: float = 0.99) -> Judge:
    """BPO and UP-MLE return at least this share of what BRPO returns."""

    def judge(results: Results) -> Verdict:
        mine = results[f"{problem}-brpo"]["evaluation"]["mean"]
        found = [better(results, problem, agent)["evaluation"] for agent in ("bpo", "upmle")]
        figure = f"BPO {told(found[0])}, UP-MLE {told(found[1])}; BRPO {mine:.1f}"
        return Verdict(figure, all(each["mean"] >= share * mine for each in found))

    return judge


# ---- other counts ------------------------------------------------------------------------------------------------


def succeeds(name: str, least: float) -> Judge:
    def judge(results: Results) -> Verdict:
        rate = results[name]["evaluation"]["success"]
        return Verdict(f"{100 * rate:.1f} %", rate >= least)

    return judge


def succeeds_more(one: str, other: str) -> Judge:
    def judge(results: Results) -> Verdict:
        a, b = (results[name]["evaluation"]["success"] for name in (one, other))
        return Verdict(f"{100 * a:.1f} % against {100 * b:.1f} %", a > b)

    return judge


def shorter(problems: Iterable[str]) -> Judge:
    """BRPO's episodes take fewer steps than the ensemble's."""

    def judge(results: Results) -> Verdict:
        who = ("brpo", "ensemble")
        pairs = {
            p: [results[f"{p}-{each}"]["evaluation"]["length"] for each in who] for p in problems
        }
        figure = "; ".join(
            f"{problem} {mine:.1f} against {theirs:.1f} steps"
            for problem, (mine, theirs) in pairs.items()
        )
        return Verdict(figure, all(mine < theirs for mine, theirs in pairs.values()))

    return judge


def readings(name: str, least: float, most: float) -> Judge:
    """Steps of an episode that sense."""

    def judge(results: Results) -> Verdict:
        mine = results[name]["evaluation"]
        count = mine["sensing"] * mine["length"]
        return Verdict(f"{count:.1f} readings an episode", least <= count <= most)

    return judge


def crashes_more(one: str, other: str) -> Judge:
    """The interval of steps in touch with a closed door lies above the other's, where learning has led both."""

    def judge(results: Results) -> Verdict:
        a, b = (at_the_end(results, name)["crashes"] for name in (one, other))
        return Verdict(f"{told(a, 2)} against {told(b, 2)} an episode", above(a, b))

    return judge


def at_the_end(results: Results, name: str) -> Result:
    """Where learning has led, be it better or worse than the policy that is returned."""
    return besides(results, name, "at_the_end", "last policy")


def besides(results: Results, name: str, part: str, words: str) -> Result:
    """What is counted besides the return; older results may lack it."""
    found = results[name]["extra"].get(part)
    if found is None:
        raise NotRun(f"the {words} of {name}")
    return found


def crash_free(name: str, least: float) -> Judge:
    def judge(results: Results) -> Verdict:
        share = results[name]["extra"]["crash_free"]
        return Verdict(f"{100 * share:.1f} % of the episodes without a crash", share >= least)

    return judge


def senses_more(with_bonus: Iterable[str], without: Iterable[str]) -> Judge:
    """Where learning has led, each senses in a larger share of its steps than its counterpart."""

    def judge(results: Results) -> Verdict:
        pairs = [
            [at_the_end(results, name)["sensing"] for name in pair]
            for pair in zip(with_bonus, without, strict=True)
        ]
        figure = ", ".join(
            f"{100 * mine:.1f} % against {100 * theirs:.1f} %" for mine, theirs in pairs
        )
        return Verdict(figure, all(mine > theirs for mine, theirs in pairs))

    return judge


def senses_rather(name: str, one: str, other: str, times: float = 1.0) -> Judge:
    """It senses more often in the one kind of step than in the other, so many times at least."""

    def judge(results: Results) -> Verdict:
        found = sensing_of(results, name)
        a, b = found[one], found[other]
        return Verdict(f"in {100 * a:.0f} % of the steps against {100 * b:.0f} %", a > times * b)

    return judge


def senses_near_wall(name: str, least: float) -> Judge:
    def judge(results: Results) -> Verdict:
        found = sensing_of(results, name)
        near, passed = found["readings_near"], found["steps_near"]
        return Verdict(
            f"{100 * near:.0f} % of the readings, {100 * passed:.0f} % of the steps", near >= least
        )

    return judge


def sensing_of(results: Results, name: str) -> Result:
    """When and where, as on its map."""
    return besides(results, name, "sensing", "sensing map")


# ---- training curves ---------------------------------------------------------------------------------------------


def steps_to(result: Result, short: float = 0.05) -> float:
    """Mean over seeds of the steps after which a held-out return first is at most this share below the last."""
    return float(np.mean([first_near_last(curve, short) for curve in result["curves"]]))


def first_near_last(curve: Result, short: float) -> int:
    """Also where returns are negative, and a share of the last one would lie above it."""
    last = curve["held_out"][-1]
    level = last - short * abs(last)
    return next(
        steps
        for steps, value in zip(curve["steps"], curve["held_out"], strict=True)
        if value >= level - 1e-9
    )


def learns_faster(problem: str, times: float = 1.0) -> Judge:
    """BPO and UP-MLE need so many times BRPO's steps to 95 % of their own final return."""

    def judge(results: Results) -> Verdict:
        mine, *others = (steps_to(each) for each in contenders(results, problem))
        named = zip(("BRPO", "BPO", "UP-MLE"), (mine, *others), strict=True)
        figure = ", ".join(f"{name} {steps / 1e6:.2f}M" for name, steps in named)
        return Verdict(figure, all(each > mine and each >= times * mine for each in others))

    return judge


def contenders(results: Results, problem: str) -> list[Result]:
    return [
        results[f"{problem}-brpo"],
        *(better(results, problem, agent) for agent in ("bpo", "upmle")),
    ]


def higher_while_learning(one: str, other: str) -> Judge:
    """Held-out return averaged over the training, interval over seeds: apart from the other's and above it."""

    def judge(results: Results) -> Verdict:
        a, b = (over_seeds(map(average, results[name]["curves"])) for name in (one, other))
        return Verdict(f"{told(a)} against {told(b)} on average over the training", above(a, b))

    return judge


def average(curve: Result) -> float:
    steps, held_out = np.array(curve["steps"], float), np.array(curve["held_out"])
    return float(np.trapezoid(held_out, steps) / (steps[-1] - steps[0]))


def starts_at_ensemble() -> Judge:
    """BRPO's first held-out return and the ensemble's on fresh episodes: the intervals overlap."""

    def judge(results: Results) -> Verdict:
        pairs = {
            p: (first_evaluation(results, p), results[f"{p}-ensemble"]["evaluation"]) for p in PAPER
        }
        figure = "; ".join(
            f"{p} {mine['mean']:.1f} against {told(theirs)}" for p, (mine, theirs) in pairs.items()
        )
        return Verdict(figure, all(overlap(*pair) for pair in pairs.values()))

    return judge


def first_evaluation(results: Results, problem: str) -> Measured:
    """All seeds start at the same policy and meet the same held-out episodes: the spread is the ensemble's."""
    brpo, ensemble = results[f"{problem}-brpo"], results[f"{problem}-ensemble"]["evaluation"]
    mean = float(np.mean([curve["held_out"][0] for curve in brpo["curves"]]))
    spread = ensemble["stderr"] * np.sqrt(ensemble["episodes"])
    margin = 1.96 * spread / np.sqrt(brpo["config"]["ppo"]["evaluation_episodes"])
    return {"mean": mean, "ci95": (mean - margin, mean + margin)}


def never_below_ensemble(gain: Callable[[Results, str], list[float]]) -> Judge:
    """No seed has less than the ensemble on the same episodes, on any problem."""

    def judge(results: Results) -> Verdict:
        gains = {p: min(gain(results, p)) for p in PAPER}
        figure = "smallest gain of a seed: " + ", ".join(
            f"{p} {value:+.1f}" for p, value in gains.items()
        )
        return Verdict(figure, all(value >= 0 for value in gains.values()))

    return judge


def held_out_gain(results: Results, problem: str) -> list[float]:
    """Of the last policy on held-out episodes: BRPO's own start is the ensemble there."""
    return [
        curve["held_out"][-1] - curve["held_out"][0]
        for curve in results[f"{problem}-brpo"]["curves"]
    ]


def fresh_gain(results: Results, problem: str) -> list[float]:
    """Of the returned policy on each seed's fresh episodes, as far as the ensemble has played them."""
    mine, theirs = (results[f"{problem}-{who}"]["per_seed"] for who in ("brpo", "ensemble"))
    return [a["mean"] - b["mean"] for a, b in zip(mine, theirs, strict=False)]
