"""All eight problems obey the laws, those of beliefs included; and all are told of."""

from __future__ import annotations

import pytest

from seerax import laws, problems
from seerax.paper.reference import ORIGINALS


@pytest.mark.parametrize(
    "name", [name for name in problems.PROBLEMS if name not in ("tiger", "tree")]
)
def test_laws_hold(name: str) -> None:
    """Tiger's and the tree's are in test_laws.

    A law of collapsed beliefs is for categorical ones, and those of CrowdNav and ArmShelf are not.
    """
    findings = laws.check(problems.make(name), episodes=1024)
    assert [finding for finding in findings if not finding.ok] == []
    unlike = {"collapsed belief"} if name in ("crowdnav", "armshelf") else set()
    expected = [law.name for law in laws.LAWS if law.name not in unlike]
    assert [finding.law for finding in findings] == expected


def test_every_problem_is_told_of() -> None:
    assert all(entry.about and entry.title for entry in problems.PROBLEMS.values())
    assert {entry.title.lower() for entry in problems.PROBLEMS.values()} == set(problems.PROBLEMS)
    assert set(ORIGINALS) == set(problems.PROBLEMS) - {"tree", "tiger"}
