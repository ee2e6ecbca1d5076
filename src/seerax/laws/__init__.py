"""What every problem must obey, told to its author in words: which rule is broken, where, and what to do about it.

Each law is a generator of complaints. All of them look at the same episodes, which are played once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax

from seerax.core import BeliefMDP, Key
from seerax.errors import UserError
from seerax.laws.beliefs import (
    brute_force,
    calibration,
    collapsed_belief,
    has_experts,
    latent_stays,
    starts_at_prior,
)
from seerax.laws.episodes import bounds, dead_step, finite, zero_residual
from seerax.laws.latents import fresh_latent, latent_matters
from seerax.laws.observed import EPISODES, Observed, kind, told
from seerax.laws.structure import accepts, members, shapes


class Finding(NamedTuple):
    law: str
    ok: bool
    says: str


class Law(NamedTuple):
    name: str
    holds: str  # said when there is no complaint
    complaints: Callable[[Observed], Iterator[str]]
    applies: Callable[[Observed], bool] = lambda observed: True
    gate: bool = False  # once broken, nothing after it can be judged


def check(mdp: BeliefMDP, key: Key | None = None, episodes: int = EPISODES) -> list[Finding]:
    """One finding for each law that applies and can be judged, in order; complaints are one to a line."""
    observed = Observed(mdp, jax.random.key(0) if key is None else key, episodes)
    findings = []
    for law in LAWS:
        complaints = judge(law, observed)
        if complaints is None:
            continue
        findings.append(Finding(law.name, not complaints, "\n".join(complaints) or law.holds))
        if law.gate and complaints:
            break
    return findings


def judge(law: Law, observed: Observed) -> list[str] | None:
    """None if the law does not apply. Whatever the user's code raises is a complaint too."""
    complaints: list[str] = []
    try:
        if not law.applies(observed):
            return None
        for complaint in law.complaints(observed):
            complaints.append(complaint)
    except UserError as mistake:
        complaints.append(str(mistake))
    except Exception as error:
        complaints.append(f"This could not be judged, for the problem raised {told(error)}.")
    return complaints


def check_object(thing: Any) -> BeliefMDP:
    """A belief MDP as it is, or as a function without arguments builds it."""
    if isinstance(thing, BeliefMDP):
        return thing
    if not accepts(thing, 0):
        raise UserError(
            f"Give a BeliefMDP or a function without arguments that returns one, not {kind(thing)}."
        )
    try:
        made = thing()
    except Exception as error:
        raise UserError(f"Building the BeliefMDP raised {told(error)}.") from error
    if not isinstance(made, BeliefMDP):
        raise UserError(
            f"The function must return a BeliefMDP(problem, filter, advisor), but it returned {kind(made)}."
        )
    return made


LAWS = (
    Law(
        "members",
        "Problem, filter, advisor and expert have all that is needed.",
        members,
        gate=True,
    ),
    Law("shapes", "Everything traces, and shapes and dtypes agree.", shapes, gate=True),
    Law(
        "finite", "States, rewards, beliefs, likelihoods and advice are finite.", finite, gate=True
    ),
    Law("bounds", "Advice lies within the action bounds.", bounds),
    Law("fresh latent", "Every episode has a latent of its own.", fresh_latent),
    Law("latent matters", "Each coordinate of the latent changes what happens.", latent_matters),
    Law("prior", "The belief starts at the prior.", starts_at_prior),
    Law(
        "calibration",
        "Beliefs are as sure as they are right.",
        calibration,
        lambda seen: bool(seen.still_running),
    ),
    Law("zero residual", "A residual of zero is exactly the ensemble.", zero_residual),
    Law(
        "collapsed belief",
        "Sure of a latent, the advisor says what its expert says.",
        collapsed_belief,
        has_experts,
    ),
    Law("brute force", "The filter is Bayes' rule.", brute_force, latent_stays),
    Law("dead step", "The step after the end earns nothing and starts a fresh episode.", dead_step),
)
