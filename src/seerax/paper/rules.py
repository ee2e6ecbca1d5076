"""How a claim is judged: each rule returns a judge, and a judge looks at the results alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from seerax.numerics.statistics import student_interval
from seerax.paper.plan import versions
from seerax.paper.results import Measured, NotRun, Result, Results

PAIR = ("brpo", "ensemble")
NO_WORSE = "interval not below, and 90 % of the gain over the ensemble"


class Verdict(NamedTuple):
    """What a judge finds."""

    figure: str  # what was measured, in words
    holds: bool


Judge = Callable[[Results], Verdict]


class Claim(NamedTuple):
    """A claim, and how it is judged."""

    key: str
    where: str  # in the paper, or "ours"
    says: str
    rule: str  # when it holds
    judge: Judge


# ---- intervals -----------------------------------------------------------------------------------


def told(measured: Measured, digits: int = 1) -> str:
    """Returns a mean with its interval, in words."""
    low, high = measured["ci95"]
    return f"{measured['mean']:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def above(one: Measured, other: Measured) -> bool:
    """True if the intervals are apart, the first one above."""
    return one["ci95"][0] > other["ci95"][1]


def overlap(one: Measured, other: Measured) -> bool:
    """True if the intervals meet."""
    return not above(one, other) and not above(other, one)


def over_seeds(values: Iterable[float]) -> Measured:
    """Returns the mean over seeds with its 95 % interval."""
    each = np.array(list(values), float)
    mean = float(each.mean())
    return {"mean": mean, "ci95": student_interval(each) if each.size > 1 else (mean, mean)}


def better(results: Results, problem: str, agent: str) -> Result:
    """Returns the result with or without the paper's bonus, whichever has the higher return."""
    both = [results[name] for name in versions(problem, agent)]
    return max(both, key=lambda result: result["evaluation"]["mean"])


# ---- returns -------------------------------------------------------------------------------------


def beats(one: str, *others: str) -> Judge:
    """Holds if the interval lies above those of all others."""

    def judge(results: Results) -> Verdict:
        mine = results[one]["evaluation"]
        theirs = [results[name]["evaluation"] for name in others]
        figure = f"{told(mine)} against {', '.join(map(told, theirs))}"
        return Verdict(figure, all(above(mine, each) for each in theirs))

    return judge


def not_below(one: str, *others: str, share: float = 0.9) -> Judge:
    """Holds if the interval is not below any other's, and the gain is this share of theirs.

    The second condition keeps a wide interval from excusing a low mean.
    """

    def judge(results: Results) -> Verdict:
        mine = results[one]["evaluation"]
        theirs = [results[name]["evaluation"] for name in others]
        shares = [gain_share(results, one, name) for name in others]
        against = ", ".join(map(told, theirs))
        figure = f"{told(mine)} against {against}; {in_percent(shares)} of the gain"
        below = any(above(each, mine) for each in theirs)
        return Verdict(figure, not below and all(each >= share for each in shares))

    return judge


def keeps(one: str, other: str, share: float) -> Judge:
    """Holds if the gain over the ensemble is at least this share of the other's."""

    def judge(results: Results) -> Verdict:
        kept = gain_share(results, one, other)
        figure = f"{told(results[one]['evaluation'])} against {told(results[other]['evaluation'])}"
        return Verdict(f"{figure}; {in_percent([kept])} of the gain", kept >= share)

    return judge


def gain_share(results: Results, one: str, other: str) -> float:
    """Returns the gain over the problem's ensemble as a share of the other's gain.

    If the other has gained nothing, the share is infinite, or minus infinity for a lower mean.
    """
    start = results[f"{one.partition('-')[0]}-ensemble"]["evaluation"]["mean"]
    mine = results[one]["evaluation"]["mean"] - start
    theirs = results[other]["evaluation"]["mean"] - start
    return mine / theirs if theirs > 0 else float("inf" if mine >= theirs else "-inf")


def in_percent(shares: Iterable[float]) -> str:
    """Returns shares as percentages; beyond 200 % the number says nothing."""
    return ", ".join("over 200 %" if each > 2 else f"{100 * each:.0f} %" for each in shares)


def learned_nothing(names: Iterable[str]) -> Judge:
    """Holds if no interval lies above the return of the untrained policy."""

    def judge(results: Results) -> Verdict:
        found = [results[name] for name in names]
        untrained = [untrained_return(each) for each in found]
        words = [
            f"{told(each['evaluation'])}, untrained {start:.1f}"
            for each, start in zip(found, untrained, strict=True)
        ]
        lows = [each["evaluation"]["ci95"][0] for each in found]
        holds = all(low <= start for low, start in zip(lows, untrained, strict=True))
        return Verdict(", ".join(words), holds)

    return judge


def untrained_return(result: Result) -> float:
    """Returns the mean over seeds of the first held-out return."""
    return float(np.mean([curve["held_out"][0] for curve in result["curves"]]))


def beats_adaptive(problem: str) -> Judge:
    """Holds if BRPO's interval lies above those of BPO and UP-MLE, with or without bonus."""

    def judge(results: Results) -> Verdict:
        mine = results[f"{problem}-brpo"]["evaluation"]
        bpo, upmle = (better(results, problem, agent)["evaluation"] for agent in ("bpo", "upmle"))
        figure = f"{told(mine)} against {told(bpo)} (BPO), {told(upmle)} (UP-MLE)"
        return Verdict(figure, above(mine, bpo) and above(mine, upmle))

    return judge


def returns_at_least(name: str, wanted: float) -> Judge:
    """Holds if the mean return is at least this."""

    def judge(results: Results) -> Verdict:
        mine = results[name]["evaluation"]
        return Verdict(told(mine), mine["mean"] >= wanted)

    return judge


def near(name: str, wanted: float, share: float) -> Judge:
    """Holds if the mean return is at least this share of what is wanted."""

    def judge(results: Results) -> Verdict:
        found = results[name]["evaluation"]
        return Verdict(f"{told(found, 2)} against {wanted:.2f}", found["mean"] >= share * wanted)

    return judge


def agrees(name: str, wanted: float, margin: float) -> Judge:
    """Holds if our mean lies within twice the paper's margin.

    The paper does not say whether its margin is a standard error.
    """

    def judge(results: Results) -> Verdict:
        mine = results[name]["evaluation"]
        return Verdict(told(mine), abs(mine["mean"] - wanted) <= 2 * margin)

    return judge


def matches_brpo(problem: str, share: float = 0.99) -> Judge:
    """Holds if BPO and UP-MLE return at least this share of what BRPO returns."""

    def judge(results: Results) -> Verdict:
        mine = results[f"{problem}-brpo"]["evaluation"]["mean"]
        found = [better(results, problem, agent)["evaluation"] for agent in ("bpo", "upmle")]
        figure = f"BPO {told(found[0])}, UP-MLE {told(found[1])}; BRPO {mine:.1f}"
        return Verdict(figure, all(each["mean"] >= share * mine for each in found))

    return judge


# ---- other counts --------------------------------------------------------------------------------


def succeeds(name: str, least: float) -> Judge:
    """Holds if at least this share of the episodes succeeds."""

    def judge(results: Results) -> Verdict:
        rate = results[name]["evaluation"]["success"]
        return Verdict(f"{100 * rate:.1f} %", rate >= least)

    return judge


def succeeds_more(one: str, other: str) -> Judge:
    """Holds if a larger share of the episodes succeeds than of the other's."""

    def judge(results: Results) -> Verdict:
        a, b = (results[name]["evaluation"]["success"] for name in (one, other))
        return Verdict(f"{100 * a:.1f} % against {100 * b:.1f} %", a > b)

    return judge


def shorter(problems: Iterable[str]) -> Judge:
    """Holds if BRPO's episodes take fewer steps than the ensemble's, on every problem."""

    def judge(results: Results) -> Verdict:
        pairs = {
            problem: [results[f"{problem}-{who}"]["evaluation"]["length"] for who in PAIR]
            for problem in problems
        }
        words = [
            f"{problem} {mine:.1f} against {theirs:.1f} steps"
            for problem, (mine, theirs) in pairs.items()
        ]
        return Verdict("; ".join(words), all(mine < theirs for mine, theirs in pairs.values()))

    return judge


def readings(name: str, least: float, most: float) -> Judge:
    """Holds if the mean number of sensing steps of an episode lies between these."""

    def judge(results: Results) -> Verdict:
        mine = results[name]["evaluation"]
        count = mine["sensing"] * mine["length"]
        return Verdict(f"{count:.1f} readings an episode", least <= count <= most)

    return judge


def crashes_more(one: str, other: str) -> Judge:
    """Holds if the last policies touch closed doors in more steps than the other's."""

    def judge(results: Results) -> Verdict:
        a, b = (at_the_end(results, name)["crashes"] for name in (one, other))
        return Verdict(f"{told(a, 2)} against {told(b, 2)} an episode", above(a, b))

    return judge


def at_the_end(results: Results, name: str) -> Measured:
    """Returns the counts of the last policies, which may be worse than those that are returned."""
    return besides(results, name, "at_the_end", "last policy")


def besides(results: Results, name: str, part: str, words: str) -> Any:
    """Returns what is counted besides the return; older results may lack it."""
    found: Any = results[name]["extra"].get(part)
    if found is None:
        raise NotRun(f"the {words} of {name}")
    return found


def crash_free(name: str, least: float) -> Judge:
    """Holds if at least this share of the episodes has no crash."""

    def judge(results: Results) -> Verdict:
        share = results[name]["extra"]["crash_free"]
        return Verdict(f"{100 * share:.1f} % of the episodes without a crash", share >= least)

    return judge


def senses_more(with_bonus: Iterable[str], without: Iterable[str]) -> Judge:
    """Holds if each last policy senses in a larger share of its steps than its counterpart."""

    def judge(results: Results) -> Verdict:
        pairs = [
            [at_the_end(results, name)["sensing"] for name in pair]
            for pair in zip(with_bonus, without, strict=True)
        ]
        words = [f"{100 * mine:.1f} % against {100 * theirs:.1f} %" for mine, theirs in pairs]
        return Verdict(", ".join(words), all(mine > theirs for mine, theirs in pairs))

    return judge


def senses_rather(name: str, one: str, other: str, times: float = 1.0) -> Judge:
    """Holds if it senses so many times more often in the one kind of step than in the other."""

    def judge(results: Results) -> Verdict:
        found = sensing_of(results, name)
        a = found[one]
        b = found[other]
        return Verdict(f"in {100 * a:.0f} % of the steps against {100 * b:.0f} %", a > times * b)

    return judge


def senses_near_wall(name: str, least: float) -> Judge:
    """Holds if at least this share of the readings is taken near the wall."""

    def judge(results: Results) -> Verdict:
        found = sensing_of(results, name)
        near = found["readings_near"]
        passed = found["steps_near"]
        figure = f"{100 * near:.0f} % of the readings, {100 * passed:.0f} % of the steps"
        return Verdict(figure, near >= least)

    return judge


def sensing_of(results: Results, name: str) -> dict[str, float]:
    """Returns when and where a policy senses, as on its map."""
    return besides(results, name, "sensing", "sensing map")
