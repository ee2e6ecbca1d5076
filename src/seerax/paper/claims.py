"""What the paper's section V and appendix claim, and the rule by which each claim is judged."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from seerax.paper import exact, rules
from seerax.paper.rules import Judge, NotRun, Results, Verdict
from seerax.problems import PAPER, WITH_SENSING

DEPTH, DEEP = 4, 8  # of the trees
EXPLORED = ("bpo", "upmle")
NO_WORSE = "interval not below, and 90 % of the gain over the ensemble"
VERDICTS = {  # by (it is ours, it holds)
    (False, True): "reproduced",
    (False, False): "**not reproduced**",
    (True, True): "holds",
    (True, False): "**does not hold**",
}
TWICE = "our mean within twice the paper's +-"


class Claim(NamedTuple):
    key: str
    where: str  # in the paper, or "ours"
    says: str
    rule: str  # when it holds
    judge: Judge


class Row(NamedTuple):
    where: str
    says: str
    figure: str
    verdict: str
    rule: str
    remark: str


def claims() -> Iterator[Claim]:
    yield from experts_improved()
    yield from bonus_for_others()
    yield from bonus_for_brpo()
    yield from behaviour()
    yield from posterior_sampling()
    yield from inputs()
    yield from sensing()
    yield from composition()


def experts_improved() -> Iterator[Claim]:
    for p in PAPER:
        says = f"BRPO improves on the ensemble: {p}"
        yield Claim(
            f"improves-{p}",
            "V-B",
            says,
            "intervals apart",
            rules.beats(f"{p}-brpo", f"{p}-ensemble"),
        )
    for p in PAPER:
        if p != "cartpole":
            says, rule = (
                f"BRPO is better than BPO and UP-MLE: {p}",
                "intervals apart, with bonus or without",
            )
            yield Claim(f"adaptive-{p}", "V-B", says, rule, rules.beats_adaptive(p))
    says = "On Cartpole BPO and UP-MLE learn to perform optimally"
    yield Claim(
        "cartpole-optimal",
        "V-B",
        says,
        "both have 99 % of BRPO's return",
        rules.matches_brpo("cartpole"),
    )
    says, rule = (
        "... but need more training than BRPO",
        "more steps to 95 % of their own last return",
    )
    yield Claim("cartpole-slower", "V-B", says, rule, rules.learns_faster("cartpole"))
    judge = rules.learns_faster("cartpole", times=2.0)
    yield Claim("cartpole-time", "V-B", "... much more", "twice the steps", judge)
    says = "BRPO starts at the ensemble; the noise of its initial network may cost it a drop"
    rule = "intervals of the first held-out return and of the ensemble meet"
    yield Claim("start", "V-B", says, rule, rules.starts_at_ensemble())
    says, rule = (
        "Training improves on the initial policy",
        "every seed's last policy at or above the ensemble, held-out episodes",
    )
    yield Claim("held-out", "V-B", says, rule, rules.never_below_ensemble(rules.held_out_gain))
    says, rule = (
        "... and so does the policy that is returned",
        "every seed's at or above the ensemble, fresh episodes",
    )
    yield Claim("fresh", "V-B", says, rule, rules.never_below_ensemble(rules.fresh_gain))


def bonus_for_others() -> Iterator[Claim]:
    for p in WITH_SENSING:
        plain, helped = ([f"{p}-{agent}{bonus}" for agent in EXPLORED] for bonus in ("", "-bonus"))
        says, rule = (
            f"Without a bonus BPO and UP-MLE learn nothing: {p}",
            "intervals not above the untrained return",
        )
        yield Claim(f"unable-{p}", "V-B, V-C", says, rule, rules.learned_nothing(plain))
        says = f"Even with the bonus they solve it at most in part: {p}"
        yield Claim(
            f"partly-{p}",
            "V-B, V-C",
            says,
            "intervals apart from BRPO's",
            rules.beats(f"{p}-brpo", *helped),
        )
        says, rule = (
            f"The bonus makes them learn to sense: {p}",
            "last policies of both: a larger share of steps senses",
        )
        yield Claim(f"helped-{p}", "V-C", says, rule, rules.senses_more(helped, plain))


def bonus_for_brpo() -> Iterator[Claim]:
    for p in WITH_SENSING:
        brpo = f"{p}-brpo"
        says, judge = (
            f"BRPO needs no bonus: {p}, epsilon 0 against 10",
            rules.not_below(brpo, f"{brpo}-bonus10"),
        )
        yield Claim(f"unneeded-{p}", "V-C", says, NO_WORSE, judge)
        yield from bonus_of_form(p, "bonus", "the bonus", ("Figure 6", "V-C"))
        says, judge = (
            f"A potential-based bonus of 100 does no harm: {p}",
            rules.not_below(f"{brpo}-potential100", brpo),
        )
        yield Claim(f"potential-{p}", "ours", says, NO_WORSE, judge)
        yield from bonus_of_form(p, "gain", "the bonus of the authors' code", ("ours", "ours"))
    says, rule = (
        "With epsilon 100 it crashes into doors more often",
        "last policies, intervals apart",
    )
    yield Claim(
        "crashes", "V-C", says, rule, rules.crashes_more("door4-brpo-bonus100", "door4-brpo")
    )
    says = "... with the bonus of the authors' code"
    yield Claim(
        "gain-crashes", "ours", says, rule, rules.crashes_more("door4-brpo-gain100", "door4-brpo")
    )
    says = "Touching a door, one reading moves the belief as much as trying the door, at a tenth of a crash's cost"
    yield Claim("reading-tells", "ours", says, "at least as much, at every door", reading_tells)


def bonus_of_form(problem: str, form: str, words: str, where: tuple[str, str]) -> Iterator[Claim]:
    brpo = f"{problem}-brpo"
    says, rule = (
        f"BRPO is robust to {words}: {problem}, epsilon 10",
        "keeps more than half of its gain over the ensemble",
    )
    yield Claim(
        f"robust-{form}-{problem}", where[0], says, rule, rules.keeps(f"{brpo}-{form}10", brpo, 0.5)
    )
    says = f"Too much of {words} makes it underperform: {problem}, epsilon 0 against 100"
    judge = rules.beats(brpo, f"{brpo}-{form}100")
    yield Claim(f"too-much-{form}-{problem}", where[1], says, "intervals apart", judge)


def reading_tells(results: Results) -> Verdict:
    """Exact: from the prior, as close to a door as one can be."""
    readings, trials = zip(*map(exact.door_changes, range(4)), strict=True)
    figure = f"by {', '.join(f'{each:.2f}' for each in readings)} against {trials[0]:.2f}"
    return Verdict(figure, all(read >= tried for read, tried in zip(readings, trials, strict=True)))


def behaviour() -> Iterator[Claim]:
    says, moving = "BRPO navigates faster than the ensemble", ("crowdnav", "maze4", "maze10")
    yield Claim("faster", "V-D", says, "shorter episodes on all three", rules.shorter(moving))
    for p in ("maze4", "maze10"):
        says, rule = (
            f"It senses when goals must be distinguished: {p}",
            "best seed's map: twice as often below 0.9 as above 0.99",
        )
        yield Claim(
            f"when-{p}",
            "V-D",
            says,
            rule,
            rules.senses_rather(f"{p}-brpo", "undecided", "sure", 2.0),
        )
        says, rule = (
            f"... dense around the start: {p}",
            "best seed's map: more often within 0.5 m of it",
        )
        yield Claim(
            f"start-{p}",
            "Figure 7",
            says,
            rule,
            rules.senses_rather(f"{p}-brpo", "at_start", "elsewhere"),
        )
    says, rule = (
        "On Door4 it senses only when close to the doors",
        "best seed's map: 95 % of the readings within 0.5 m",
    )
    yield Claim("where-door4", "Figure 7", says, rule, rules.senses_near_wall("door4-brpo", 0.95))
    says = "On Door4 it senses only once or twice"
    yield Claim(
        "door-readings",
        "V-D",
        says,
        "1 to 2 readings on average",
        rules.readings("door4-brpo", 1.0, 2.0),
    )
    says = "... and avoids crashing in almost all scenarios"
    yield Claim(
        "door-crashes", "V-D", says, "95 % of the episodes", rules.crash_free("door4-brpo", 0.95)
    )
    says = "... with readings that cost 0.1, as in the authors' code"
    judge = rules.crash_free("door4-brpo-cheap_sensing", 0.95)
    yield Claim("cheap-crashes", "ours", says, "95 % of the episodes", judge)


def posterior_sampling() -> Iterator[Claim]:
    yield Claim(
        "gap",
        "Appendix B",
        "The gap grows exponentially with depth",
        "doubles at least",
        gap_doubles,
    )
    says, rule = (
        "Posterior sampling never senses, and returns less",
        "no sensing; its exact value lies in the interval",
    )
    yield Claim("formula", "Appendix B", says, rule, posterior_sampling_is_exact)
    says, optimum = (
        "Bayes-optimal on the tree is to sense first; BRPO learns it",
        exact.tree_optimum(DEPTH),
    )
    yield Claim(
        "tree",
        "Appendix B",
        says,
        "99 % of the exact value",
        rules.near("tree-brpo", optimum, 0.99),
    )
    says, rule = (
        f"A naive policy gradient (BPO) struggles on the tree: depth {DEPTH}",
        "intervals apart from BRPO's",
    )
    yield Claim("naive", "Appendix B", says, rule, rules.beats("tree-brpo", "tree-bpo"))
    says = f"... depth {DEEP}"
    yield Claim(
        "naive-deep", "Appendix B", says, rule, rules.beats("tree-brpo-deep", "tree-bpo-deep")
    )
    says, optimum = (
        f"... where BRPO still learns to sense first: depth {DEEP}",
        exact.tree_optimum(DEEP),
    )
    judge = rules.near("tree-brpo-deep", optimum, 0.99)
    yield Claim("tree-deep", "Appendix B", says, "99 % of the exact value", judge)
    says, optimum = "BRPO is Bayes-optimal on Tiger", exact.tiger_optimum()
    yield Claim(
        "tiger", "ours", says, "99 % of the exact value", rules.near("tiger-brpo", optimum, 0.99)
    )
    for p in PAPER:
        says = f"BRPO is better than posterior sampling: {p}"
        judge = rules.beats(f"{p}-brpo", f"{p}-posterior_sampling")
        yield Claim(f"psrl-{p}", "ours", says, "intervals apart", judge)


def gap_doubles(results: Results) -> Verdict:
    """Exact, over as many episodes as there are leaves in the deepest tree; `seerax figure tree` simulates it."""
    depths = (2, 3, 4, 5)
    episodes = 2 ** max(depths)
    gaps = [
        exact.tree_optimum(d, episodes) - exact.tree_posterior_sampling(d, episodes) for d in depths
    ]
    told = ", ".join(f"{gap:.0f} (depth {d})" for d, gap in zip(depths, gaps, strict=True))
    return Verdict(
        f"over {episodes} episodes {told}",
        all(after >= 2 * before for before, after in pairwise(gaps)),
    )


def posterior_sampling_is_exact(results: Results) -> Verdict:
    found, wanted = (
        results["tree-posterior_sampling"]["evaluation"],
        exact.tree_posterior_sampling(DEPTH),
    )
    low, high = found["ci95"]
    return Verdict(
        f"{rules.told(found, 2)} against {wanted:.2f}",
        found["sensing"] == 0 and low <= wanted <= high,
    )


def inputs() -> Iterator[Claim]:
    for p in ("maze4", "maze10"):
        says = f"The recommendation alone performs comparably: {p}"
        judge = rules.not_below(f"{p}-brpo_without_belief", f"{p}-brpo")
        yield Claim(f"inputs-{p}", "Appendix D", says, NO_WORSE, judge)
    says, rule = (
        "Belief and recommendation learn faster on Door4",
        "average return over the training, intervals apart",
    )
    judge = rules.higher_while_learning("door4-brpo", "door4-brpo_without_belief")
    yield Claim("inputs-door4", "Appendix D", says, rule, judge)


def sensing() -> Iterator[Claim]:
    table, brpo, better = "Table I", "maze10-brpo", "maze10-better_sensing"
    judge = rules.returns_at_least(brpo, 465.7)
    yield Claim("table-brpo", table, "BRPO on Maze10 returns 465.7", "at least as much", judge)
    judge = rules.succeeds(brpo, 0.995)
    yield Claim("table-success", table, "... with 100 % success", "at least 99.5 %", judge)
    judge = rules.agrees("maze10-ensemble", 409.5, 10.8)
    yield Claim(
        "table-random",
        table,
        "The ensemble with random sensing returns 409.5 +- 10.8",
        TWICE,
        judge,
    )
    judge = rules.agrees(better, 416.3, 9.4)
    yield Claim("table-better", table, "... with better sensing 416.3 +- 9.4", TWICE, judge)
    judge = rules.beats(better, "maze10-ensemble")
    yield Claim(
        "better-sensing",
        "Appendix E",
        "Better sensing is the better ensemble",
        "intervals apart",
        judge,
    )
    judge = rules.beats(brpo, better)
    yield Claim(
        "table-return",
        table,
        "BRPO has a higher return than better sensing",
        "intervals apart",
        judge,
    )
    judge = rules.succeeds_more(brpo, better)
    yield Claim("table-rate", table, "... and a higher success rate", "higher", judge)
    says = "On the better ensemble BRPO continues to improve"
    judge = rules.beats("maze10-brpo-better_sensing", better)
    yield Claim("better-improves", "V-C", says, "intervals apart", judge)


def composition() -> Iterator[Claim]:
    says = "The paper's sum is no worse than the released code's blend (0.1, 0.5) on Maze10"
    judge = rules.not_below("maze10-brpo", "maze10-brpo-blend0.1", "maze10-brpo-blend0.5")
    yield Claim("composition", "ours", says, NO_WORSE, judge)


# ---- rows --------------------------------------------------------------------------------------------------------

# Why it came out as it did, by a claim's key: written by hand.
REMARKS = {
    "fresh": "Algorithm 1 returns the best policy by held-out return, and the first one measured is the ensemble.",
    "start": "Here exactly: the network's mean starts at zero, and the first policy is the ensemble.",
    "adaptive-crowdnav": "Not dramatically in the end, but it gets there in a quarter and a sixth of their steps.",
    "cartpole-time": "Slower, but by less: batches are large and inputs normalised for all three.",
    "unable-maze4": "BPO's best seed reaches two of the four goals nearly always, and the others never.",
    "unable-maze10": "BPO's best seed reaches four of the ten goals nearly always, and the others never.",
    "unable-door4": "Most seeds learn it. No reading is needed to learn: a crash tells the truth for 10, and the "
    "ensemble that never senses has 78 (`docs/problems.md`).",
    "helped-maze4": "The first reading moves the belief by 0.33: epsilon 1 pays 0.33 for it, and it costs 1.",
    "helped-maze10": "Epsilon 100 pays 62 for the first reading, which costs 0.1; they sense and get no further.",
    "helped-door4": "At the start a reading moves the belief by 0.4: epsilon 1 pays 0.4 for it, and it costs 1.",
    "robust-bonus-door4": "At a door a reading moves the belief by 1: epsilon 10 pays 10 for it, the problem takes 1. "
    "Learning goes where sensing never ends, and the best policies on the way are near the ensemble.",
    "crashes": "It earns the bonus with readings: it goes back to the far corners and senses in 98.7 % of the steps: "
    "weak readings move the belief again and again and a crash only once. (The returned policy is the ensemble.)",
    "gain-crashes": "It reads until it knows all four doors: 13 readings, the cheaper way to the same bonus.",
    "reading-tells": "Exact, from the prior. Why no bonus on the belief makes crashes pay here.",
    "cheap-crashes": "There it takes many more readings: few readings and few crashes exclude each other.",
    "faster": "Where the ensemble runs into somebody its episode is short; BRPO waits for a gap.",
    "door-crashes": "It takes the risk: one crash costs as much as ten readings. A rule by hand that crashes in 2.4 % "
    "of the episodes takes 4 readings and returns 95.6 (`docs/problems.md`), less than BRPO.",
    "inputs-maze4": "In the middle of the training its return falls far below the ensemble's and has not recovered at "
    "the end. Opposite advice cancels whether one is sure of nothing or torn between two.",
    "inputs-maze10": "Close in return, for little room is left; of that it fills less.",
    "naive": "At depth 4 the tree is small enough for BPO to find sensing by chance.",
    "table-brpo": "Our ensemble, from which it starts, has that already: see two rows below.",
    "better-sensing": "Here both leave little room: experts that brake seldom enter a wrong goal.",
    "table-random": "Our experts brake. With experts that always push with full thrust, the authors' rule, ours has "
    "408.9 +- 2.0 (`make table1`, `docs/problems.md`).",
    "table-better": "The same rule: with full thrust ours has 406.2 +- 2.0.",
    "gap": "Exact; simulated points lie on the lines (`seerax figure tree`).",
}


def row(claim: Claim, results: Results) -> Row:
    try:
        verdict = claim.judge(results)
    except NotRun as missing:
        return Row(
            claim.where, claim.says, f"{missing} is not run yet", "not run yet", claim.rule, ""
        )
    word = VERDICTS[claim.where == "ours", verdict.holds]
    return Row(
        claim.where, claim.says, verdict.figure, word, claim.rule, REMARKS.get(claim.key, "")
    )


def rows(results: Results) -> list[Row]:
    return [row(claim, results) for claim in claims()]
