"""Learning and its laws: each test fails on a fault that others let pass."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jax.sharding import PartitionSpec as P

from seerax import agents, laws, ppo
from seerax.compute import devices
from seerax.core import BeliefMDP
from seerax.ppo.improve import improve
from seerax.ppo.play import Trajectory
from seerax.problems import tiger

LENGTH, WORLDS, INPUTS = 4, 4, 7  # inputs of bpo on Tiger
TINY = ppo.Config(worlds=WORLDS, rollout_length=LENGTH, epochs=1, minibatches=2, hidden=(4,))


def test_what_a_dead_step_holds_is_not_learned_from(tiger_mdp: BeliefMDP) -> None:
    learner = ppo.PPO(tiger_mdp, agents.bpo, TINY)
    state = jax.jit(learner.init)(jax.random.key(0))
    rng = np.random.default_rng(0)
    live = rng.random((LENGTH, WORLDS)) < 0.6
    assert live.any() and not live.all()

    def random(*shape: int) -> Array:
        return jnp.asarray(rng.normal(size=(LENGTH, WORLDS, *shape)), jnp.float32)

    nothing: Any = jnp.zeros((LENGTH, WORLDS))
    trajectory = Trajectory(
        random(INPUTS), random(3), random(), *[nothing] * 4, jnp.asarray(live), nothing
    )
    whole = partial(improve, TINY, jax.random.key(1), state.params, state.opt_state)
    learn = devices.sharded(whole, devices.local_mesh(1), (P(),) * 3, P())
    advantage, target = random(), random()
    poison = jnp.where(live, 0.0, 5.0)
    learned, _, _ = learn(trajectory, advantage, target)
    poisoned, _, _ = learn(trajectory, advantage + poison, target + poison)
    jax.tree.map(np.testing.assert_array_equal, learned, poisoned)
    otherwise, _, _ = learn(trajectory, -advantage, target)
    assert np.abs(otherwise.network.log_std - learned.network.log_std).max() > 0


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
