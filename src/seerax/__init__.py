"""Bayesian reinforcement learning that starts from clairvoyant experts and learns when not to believe them."""

from seerax.advice import Clairvoyant, ensemble
from seerax.core import (
    BeliefMDP,
    Expert,
    Filter,
    Moment,
    Outcome,
    Problem,
    Situation,
    Step,
    World,
    entropy_bonus,
    gain_bonus,
    l1_bonus,
)
from seerax.devices import prepare

__version__ = "0.1.0"
__all__ = [
    "BeliefMDP",
    "Clairvoyant",
    "Expert",
    "Filter",
    "Moment",
    "Outcome",
    "Problem",
    "Situation",
    "Step",
    "World",
    "ensemble",
    "entropy_bonus",
    "gain_bonus",
    "l1_bonus",
    "prepare",
]
