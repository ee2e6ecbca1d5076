"""What every problem must obey, in words for its author: which rule is broken, where, and the cure.

Each law is a generator of complaints. All laws look at the same episodes, which are played once.

Use `seerax.check`; the submodules are internal.
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
    can_compare,
    collapsed_belief,
    has_experts,
    starts_at_prior,
)
from seerax.laws.episodes import bounds, dead_step, finite, zero_residual
from seerax.laws.evidence import evidence
from seerax.laws.latents import fresh_latent, latent_matters
from seerax.laws.observed import EPISODES, Observed
from seerax.laws.structure import accepts, members, shapes
from seerax.laws.words import describe_error, describe_kind


class Finding(NamedTuple):
    """What one law says of one problem."""

    law: str
    ok: bool
    says: str


class Law(NamedTuple):
    """A rule with a name. `complaints` yields nothing where it is obeyed."""

    name: str
    holds: str  # said when there is no complaint
    complaints: Callable[[Observed], Iterator[str]]
    applies: Callable[[Observed], bool] = lambda observed: True
    gate: bool = False  # once broken, nothing after it can be judged


def check(mdp: BeliefMDP, key: Key | None = None, episodes: int = EPISODES) -> list[Finding]:
    """Returns a finding for each law that applies, in order, with one complaint per line."""
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
    """Returns the complaints, None if the law does not apply. An exception is a complaint too."""
    complaints: list[str] = []
    try:
        if not law.applies(observed):
            return None
        for complaint in law.complaints(observed):
            complaints.append(complaint)
    except UserError as mistake:
        complaints.append(str(mistake))
    except Exception as error:
        found = describe_error(error)
        complaints.append(f"This could not be judged, because the problem raised {found}.")
    return complaints


def check_object(thing: Any) -> BeliefMDP:
    """Returns a belief MDP as it is, or as a function without arguments builds it."""
    if isinstance(thing, BeliefMDP):
        return thing
    if not accepts(thing, 0):
        wanted = "a BeliefMDP or a function without arguments that returns one"
        raise UserError(f"Give {wanted}, not {describe_kind(thing)}.")
    try:
        made = thing()
    except Exception as error:
        raise UserError(f"Building the BeliefMDP raised {describe_error(error)}.") from error
    if not isinstance(made, BeliefMDP):
        wanted = "a BeliefMDP(problem, filter, advisor)"
        found = describe_kind(made)
        raise UserError(f"The function must return {wanted}, but it returned {found}.")
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
    Law(
        "evidence", "What next states tell about the latent moves the belief towards it.", evidence
    ),
    Law("zero residual", "A residual of zero is exactly the ensemble.", zero_residual),
    Law(
        "collapsed belief",
        "Sure of a latent, the advisor says what its expert says.",
        collapsed_belief,
        has_experts,
    ),
    Law("brute force", "The filter is Bayes' rule.", brute_force, can_compare),
    Law("dead step", "The step after the end earns nothing and starts a fresh episode.", dead_step),
)
