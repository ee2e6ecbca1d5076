"""All eight problems obey the laws, those of beliefs included; and all are told of."""

from __future__ import annotations

import pytest

from seerax import laws, problems
from seerax.paper.reference import ORIGINALS

FINITE = (
    "collapsed belief",
    "brute force",
)  # laws of one categorical belief; others have tests of their own


@pytest.mark.parametrize(
    "name", [name for name in problems.PROBLEMS if name not in ("tiger", "tree")]
)
def test_laws_hold(name: str) -> None:
    """Tiger's and the tree's are in test_laws."""
    findings = laws.check(problems.make(name), episodes=1024)
    assert [finding for finding in findings if not finding.ok] == []
    expected = [
        law.name
        for law in laws.LAWS
        if name not in ("crowdnav", "armshelf") or law.name not in FINITE
    ]
    assert [finding.law for finding in findings] == expected


def test_every_problem_is_told_of() -> None:
    assert set(problems.ABOUT) == set(problems.PROBLEMS)
    assert set(ORIGINALS) == set(problems.PROBLEMS) - {"tree", "tiger"}
