"""Laws: each test fails on a fault that others let pass."""

from __future__ import annotations

import jax
import pytest

from seerax import agents, laws
from seerax.problems import tiger


def test_a_residual_of_zero_that_is_not_the_ensemble_breaks_its_law(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (law,) = [law for law in laws.LAWS if law.name == "zero residual"]

    def judged() -> list[str] | None:
        return laws.judge(law, laws.Observed(tiger.tiger(), jax.random.key(0), 256))

    assert judged() == []
    monkeypatch.setattr(agents, "brpo", agents.brpo.with_blend(0.5))  # it shrinks the advice
    (complaint,) = judged() or [""]
    assert complaint.startswith("With a residual of zero, action differs from the ensemble's")
