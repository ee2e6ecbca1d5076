"""What the paper's section V and appendix claim, and the rule by which each claim is judged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from seerax.paper import curve_rules, exact_rules, rules
from seerax.paper.appendix_claims import (
    composition,
    inputs,
    posterior_sampling,
    sensing,
)
from seerax.paper.remarks import REMARKS
from seerax.paper.results import NotRun, Results
from seerax.paper.rules import NO_WORSE, Claim
from seerax.problems import PAPER, WITH_SENSING

EXPLORED = ("bpo", "upmle")
VERDICTS = {  # by (it is ours, it holds)
    (False, True): "reproduced",
    (False, False): "**not reproduced**",
    (True, True): "holds",
    (True, False): "**does not hold**",
}


class Row(NamedTuple):
    """A claim beside what was measured, as in the table of claims."""

    where: str
    says: str
    figure: str
    verdict: str
    rule: str
    remark: str


def claims() -> Iterator[Claim]:
    """Yields every claim, in the order of the paper."""
    yield from experts_improved()
    yield from training()
    yield from bonus_for_others()
    yield from bonus_for_brpo()
    yield from crashes()
    yield from behaviour()
    yield from posterior_sampling()
    yield from inputs()
    yield from sensing()
    yield from composition()


# ---- section V-B: returns ----------------------------------------------------------------------


def experts_improved() -> Iterator[Claim]:
    """Yields claims on returns: BRPO against its ensemble and against BPO and UP-MLE."""
    for p in PAPER:
        yield Claim(
            f"improves-{p}",
            "V-B",
            f"BRPO improves on the ensemble: {p}",
            "intervals apart",
            rules.beats(f"{p}-brpo", f"{p}-ensemble"),
        )
    for p in PAPER:
        if p != "cartpole":
            yield Claim(
                f"adaptive-{p}",
                "V-B",
                f"BRPO is better than BPO and UP-MLE: {p}",
                "intervals apart, with bonus or without",
                rules.beats_adaptive(p),
            )
    yield Claim(
        "cartpole-optimal",
        "V-B",
        "On Cartpole BPO and UP-MLE learn to perform optimally",
        "both have 99 % of BRPO's return",
        rules.matches_brpo("cartpole"),
    )


def training() -> Iterator[Claim]:
    """Yields claims on training: how long it takes, where it starts and where it leads."""
    yield Claim(
        "cartpole-slower",
        "V-B",
        "... but need more training than BRPO",
        "more steps to 95 % of their own last return",
        curve_rules.learns_faster("cartpole"),
    )
    yield Claim(
        "cartpole-time",
        "V-B",
        "... much more",
        "twice the steps",
        curve_rules.learns_faster("cartpole", times=2.0),
    )
    yield Claim(
        "start",
        "V-B",
        "BRPO starts at the ensemble; the noise of its initial network may cost it a drop",
        "intervals of the first held-out return and of the ensemble meet",
        curve_rules.starts_at_ensemble(),
    )
    yield Claim(
        "held-out",
        "V-B",
        "Training improves on the initial policy",
        "every seed's last policy at or above the ensemble, held-out episodes",
        curve_rules.never_below_ensemble(curve_rules.held_out_gain),
    )
    yield Claim(
        "fresh",
        "V-B",
        "... and so does the policy that is returned",
        "every seed's at or above the ensemble, fresh episodes",
        curve_rules.never_below_ensemble(curve_rules.fresh_gain),
    )


# ---- section V-C: the information bonus --------------------------------------------------------


def bonus_for_others() -> Iterator[Claim]:
    """Yields claims on BPO and UP-MLE without the information bonus and with it."""
    for p in WITH_SENSING:
        plain = [f"{p}-{agent}" for agent in EXPLORED]
        helped = [f"{p}-{agent}-bonus" for agent in EXPLORED]
        yield Claim(
            f"unable-{p}",
            "V-B, V-C",
            f"Without a bonus BPO and UP-MLE learn nothing: {p}",
            "intervals not above the untrained return",
            rules.learned_nothing(plain),
        )
        yield Claim(
            f"partly-{p}",
            "V-B, V-C",
            f"Even with the bonus they solve it at most in part: {p}",
            "intervals apart from BRPO's",
            rules.beats(f"{p}-brpo", *helped),
        )
        yield Claim(
            f"helped-{p}",
            "V-C",
            f"The bonus makes them learn to sense: {p}",
            "last policies of both: a larger share of steps senses",
            rules.senses_more(helped, plain),
        )


def bonus_for_brpo() -> Iterator[Claim]:
    """Yields claims on BRPO with the forms of the information bonus."""
    for p in WITH_SENSING:
        brpo = f"{p}-brpo"
        yield Claim(
            f"unneeded-{p}",
            "V-C",
            f"BRPO needs no bonus: {p}, epsilon 0 against 10",
            NO_WORSE,
            rules.not_below(brpo, f"{brpo}-bonus10"),
        )
        yield from bonus_of_form(p, "bonus", "the bonus", ("Figure 6", "V-C"))
        yield Claim(
            f"potential-{p}",
            "ours",
            f"A potential-based bonus of 100 does no harm: {p}",
            NO_WORSE,
            rules.not_below(f"{brpo}-potential100", brpo),
        )
        yield from bonus_of_form(p, "gain", "the bonus of the authors' code", ("ours", "ours"))


def bonus_of_form(problem: str, form: str, words: str, where: tuple[str, str]) -> Iterator[Claim]:
    """Yields claims on one form of the bonus: a little does no harm, too much does."""
    brpo = f"{problem}-brpo"
    yield Claim(
        f"robust-{form}-{problem}",
        where[0],
        f"BRPO is robust to {words}: {problem}, epsilon 10",
        "keeps more than half of its gain over the ensemble",
        rules.keeps(f"{brpo}-{form}10", brpo, 0.5),
    )
    yield Claim(
        f"too-much-{form}-{problem}",
        where[1],
        f"Too much of {words} makes it underperform: {problem}, epsilon 0 against 100",
        "intervals apart",
        rules.beats(brpo, f"{brpo}-{form}100"),
    )


def crashes() -> Iterator[Claim]:
    """Yields claims on what too much of a bonus does on Door4."""
    rule = "last policies, intervals apart"
    yield Claim(
        "crashes",
        "V-C",
        "With epsilon 100 it crashes into doors more often",
        rule,
        rules.crashes_more("door4-brpo-bonus100", "door4-brpo"),
    )
    yield Claim(
        "gain-crashes",
        "ours",
        "... with the bonus of the authors' code",
        rule,
        rules.crashes_more("door4-brpo-gain100", "door4-brpo"),
    )
    yield Claim(
        "reading-tells",
        "ours",
        "Touching a door, one reading moves the belief as much as trying the door, "
        "at a tenth of a crash's cost",
        "at least as much, at every door",
        exact_rules.reading_tells,
    )


# ---- section V-D: behaviour --------------------------------------------------------------------


def behaviour() -> Iterator[Claim]:
    """Yields claims on how BRPO moves and where it senses."""
    yield Claim(
        "faster",
        "V-D",
        "BRPO navigates faster than the ensemble",
        "shorter episodes on all three",
        rules.shorter(("crowdnav", "maze4", "maze10")),
    )
    for p in ("maze4", "maze10"):
        yield Claim(
            f"when-{p}",
            "V-D",
            f"It senses when goals must be distinguished: {p}",
            "best seed's map: twice as often below 0.9 as above 0.99",
            rules.senses_rather(f"{p}-brpo", "undecided", "sure", 2.0),
        )
        yield Claim(
            f"start-{p}",
            "Figure 7",
            f"... dense around the start: {p}",
            "best seed's map: more often within 0.5 m of it",
            rules.senses_rather(f"{p}-brpo", "at_start", "elsewhere"),
        )
    yield from behaviour_at_doors()


def behaviour_at_doors() -> Iterator[Claim]:
    """Yields claims on how BRPO behaves on Door4."""
    yield Claim(
        "where-door4",
        "Figure 7",
        "On Door4 it senses only when close to the doors",
        "best seed's map: 95 % of the readings within 0.5 m",
        rules.senses_near_wall("door4-brpo", 0.95),
    )
    yield Claim(
        "door-readings",
        "V-D",
        "On Door4 it senses only once or twice",
        "1 to 2 readings on average",
        rules.readings("door4-brpo", 1.0, 2.0),
    )
    yield Claim(
        "door-crashes",
        "V-D",
        "... and avoids crashing in almost all scenarios",
        "95 % of the episodes",
        rules.crash_free("door4-brpo", 0.95),
    )
    yield Claim(
        "cheap-crashes",
        "ours",
        "... with readings that cost 0.1, as in the authors' code",
        "95 % of the episodes",
        rules.crash_free("door4-brpo-cheap_sensing", 0.95),
    )


# ---- rows --------------------------------------------------------------------------------------


def row(claim: Claim, results: Results) -> Row:
    """Judges a claim; one whose entries are not run yet is not judged."""
    try:
        verdict = claim.judge(results)
    except NotRun as missing:
        figure = f"{missing} is not run yet"
        return Row(claim.where, claim.says, figure, "not run yet", claim.rule, "")
    word = VERDICTS[claim.where == "ours", verdict.holds]
    remark = REMARKS.get(claim.key, "")
    return Row(claim.where, claim.says, verdict.figure, word, claim.rule, remark)


def rows(results: Results) -> list[Row]:
    """Judges every claim."""
    return [row(claim, results) for claim in claims()]
