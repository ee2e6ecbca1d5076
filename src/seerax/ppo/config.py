"""How to train, in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

MOST = 10**15  # of anything


@dataclass(frozen=True)
class Config:
    """How to train. The defaults suit most problems."""

    steps: int = 10_000_000  # environment steps in all; an episode's fresh start takes one
    worlds: int = 1024  # episodes running side by side
    rollout_length: int = 64  # steps each world plays in one iteration
    epochs: int = 4  # passes over what was played
    minibatches: int = 16  # updates in each pass
    learning_rate: float = 3e-4  # Adam's
    anneal: bool = True  # True: the learning rate falls linearly to zero. False: it stays constant
    discount: float | None = None  # gamma; the problem's own if not given
    gae_lambda: float = 0.95  # lambda of the advantage estimate
    clip_ratio: float = 0.2  # how far a probability ratio may pay off
    value_weight: float = 0.5  # of the value loss
    entropy_weight: float = 0.0  # of the entropy bonus
    max_grad_norm: float = 0.5  # longer gradients are shortened to this
    target_kl: float | None = None  # stop an iteration's updates beyond this divergence
    # initial std of raw actions, one for all or one per dimension
    exploration: float | tuple[float, ...] = 1.0
    exploration_end: float = 1.0  # a ceiling on that std falls linearly to this share of it
    hidden: tuple[int, ...] = (64, 64)  # layers of actor and critic
    # True: inputs are normalised by their running mean and variance. False: they are not
    normalise_inputs: bool = True
    # True: values are normalised by the running mean and variance of their targets. False: they are
    # not
    normalise_values: bool = True
    evaluations: int = 20  # held-out evaluations, evenly over the training
    evaluation_episodes: int = 512  # in each of them

    @property
    def batch(self) -> int:
        return self.worlds * self.rollout_length

    @property
    def iterations(self) -> int:
        return max(1, round(self.steps / max(self.batch, 1)))

    def discount_for(self, problem: Any) -> float:
        """Returns the discount that the learner uses on a problem: its own setting, or else the
        problem's.
        """
        return problem.discount if self.discount is None else self.discount

    def complaints(self) -> Iterator[str]:
        """Yields in words what cannot work."""
        for name in (
            "steps",
            "worlds",
            "rollout_length",
            "epochs",
            "minibatches",
            "evaluations",
            "evaluation_episodes",
        ):
            if not 1 <= getattr(self, name) <= MOST:
                yield f"{name} must be at least 1 and at most {MOST}, not {getattr(self, name)}"
        for name in ("clip_ratio", "value_weight", "entropy_weight", "max_grad_norm", "target_kl"):
            value = getattr(self, name)
            if value is not None and not (
                np.isfinite(value) and (value >= 0 or name == "entropy_weight")
            ):
                yield f"{name} must be finite and not negative, not {value}"
        if self.evaluations > 10_000:
            yield f"evaluations must be at most 10000, not {self.evaluations}"
        if self.minibatches > 0 and self.batch % self.minibatches:
            yield (
                f"worlds x rollout_length = {self.batch} steps cannot be cut into "
                f"{self.minibatches} equal minibatches"
            )
        if not 0 < self.learning_rate < np.inf:
            yield f"learning_rate must be positive, not {self.learning_rate}"
        if self.discount is not None and not 0 <= self.discount <= 1:
            yield f"discount must lie in [0, 1], not {self.discount}"
        if not 0 <= self.gae_lambda <= 1:
            yield f"gae_lambda must lie in [0, 1], not {self.gae_lambda}"
        exploration = np.asarray(self.exploration)
        if exploration.size == 0 or not np.all((exploration > 0) & (exploration < np.inf)):
            yield f"exploration must be positive, not {self.exploration}"
        if not 0 <= self.exploration_end <= 1:
            yield f"exploration_end must lie in [0, 1], not {self.exploration_end}"
        if not all(1 <= size <= MOST for size in self.hidden):
            yield f"hidden layers must have 1 to {MOST} units each, not {self.hidden}"
