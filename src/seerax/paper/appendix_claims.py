"""What the paper claims in its appendix, and what we claim beside it."""

from __future__ import annotations

from collections.abc import Iterator

from seerax.paper import curve_rules, exact, exact_rules, rules
from seerax.paper.exact_rules import DEPTH
from seerax.paper.rules import NO_WORSE, Claim
from seerax.problems import PAPER

DEEP = 8  # the depth of the deep tree
TWICE = "our mean within twice the paper's +-"
OF_EXACT = "99 % of the exact value"


# ---- appendix B: posterior sampling ------------------------------------------------------------


def posterior_sampling() -> Iterator[Claim]:
    """Yields claims on posterior sampling, and on the problems whose optimum is known."""
    yield Claim(
        "gap",
        "Appendix B",
        "The gap grows exponentially with depth",
        "doubles at least",
        exact_rules.gap_doubles,
    )
    yield Claim(
        "formula",
        "Appendix B",
        "Posterior sampling never senses, and returns less",
        "no sensing; its exact value lies in the interval",
        exact_rules.posterior_sampling_is_exact,
    )
    yield from trees()
    yield Claim(
        "tiger",
        "ours",
        "BRPO is Bayes-optimal on Tiger",
        OF_EXACT,
        rules.near("tiger-brpo", exact.tiger_optimum(), 0.99),
    )
    for p in PAPER:
        yield Claim(
            f"psrl-{p}",
            "ours",
            f"BRPO is better than posterior sampling: {p}",
            "intervals apart",
            rules.beats(f"{p}-brpo", f"{p}-posterior_sampling"),
        )


def trees() -> Iterator[Claim]:
    """Yields claims on learning to sense on the trees."""
    yield Claim(
        "tree",
        "Appendix B",
        "Bayes-optimal on the tree is to sense first; BRPO learns it",
        OF_EXACT,
        rules.near("tree-brpo", exact.tree_optimum(DEPTH), 0.99),
    )
    rule = "intervals apart from BRPO's"
    yield Claim(
        "naive",
        "Appendix B",
        f"A naive policy gradient (BPO) struggles on the tree: depth {DEPTH}",
        rule,
        rules.beats("tree-brpo", "tree-bpo"),
    )
    yield Claim(
        "naive-deep",
        "Appendix B",
        f"... depth {DEEP}",
        rule,
        rules.beats("tree-brpo-deep", "tree-bpo-deep"),
    )
    yield Claim(
        "tree-deep",
        "Appendix B",
        f"... where BRPO still learns to sense first: depth {DEEP}",
        OF_EXACT,
        rules.near("tree-brpo-deep", exact.tree_optimum(DEEP), 0.99),
    )


# ---- appendix D: inputs ------------------------------------------------------------------------


def inputs() -> Iterator[Claim]:
    """Yields claims on BRPO without the belief as an input."""
    for p in ("maze4", "maze10"):
        yield Claim(
            f"inputs-{p}",
            "Appendix D",
            f"The recommendation alone performs comparably: {p}",
            NO_WORSE,
            rules.not_below(f"{p}-brpo_without_belief", f"{p}-brpo"),
        )
    yield Claim(
        "inputs-door4",
        "Appendix D",
        "Belief and recommendation learn faster on Door4",
        "average return over the training, intervals apart",
        curve_rules.higher_while_learning("door4-brpo", "door4-brpo_without_belief"),
    )


# ---- table I and appendix E: better sensing ----------------------------------------------------


def sensing() -> Iterator[Claim]:
    """Yields claims on Maze10 with random and with better sensing."""
    table = "Table I"
    brpo = "maze10-brpo"
    better = "maze10-better_sensing"
    says = "BRPO on Maze10 returns 465.7"
    yield Claim("table-brpo", table, says, "at least as much", rules.returns_at_least(brpo, 465.7))
    says = "... with 100 % success"
    yield Claim("table-success", table, says, "at least 99.5 %", rules.succeeds(brpo, 0.995))
    says = "The ensemble with random sensing returns 409.5 +- 10.8"
    judge = rules.agrees("maze10-ensemble", 409.5, 10.8)
    yield Claim("table-random", table, says, TWICE, judge)
    says = "... with better sensing 416.3 +- 9.4"
    yield Claim("table-better", table, says, TWICE, rules.agrees(better, 416.3, 9.4))
    apart = "intervals apart"
    says = "Better sensing is the better ensemble"
    judge = rules.beats(better, "maze10-ensemble")
    yield Claim("better-sensing", "Appendix E", says, apart, judge)
    says = "BRPO has a higher return than better sensing"
    yield Claim("table-return", table, says, apart, rules.beats(brpo, better))
    says = "... and a higher success rate"
    yield Claim("table-rate", table, says, "higher", rules.succeeds_more(brpo, better))
    says = "On the better ensemble BRPO continues to improve"
    judge = rules.beats("maze10-brpo-better_sensing", better)
    yield Claim("better-improves", "V-C", says, apart, judge)


def composition() -> Iterator[Claim]:
    """Yields our claim on the two compositions of advice and correction."""
    says = "The paper's sum is no worse than the released code's blend (0.1, 0.5) on Maze10"
    judge = rules.not_below("maze10-brpo", "maze10-brpo-blend0.1", "maze10-brpo-blend0.5")
    yield Claim("composition", "ours", says, NO_WORSE, judge)
