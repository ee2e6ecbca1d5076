"""Bayesian reinforcement learning that starts from clairvoyant experts and learns when not to believe them."""

from seerax.advice import Clairvoyant, follow_advice
from seerax.bonuses import belief_change, information_gain, potential
from seerax.compute.devices import prepare
from seerax.core import BeliefMDP, Expert, Filter, Moment, Outcome, Problem, Situation, Step, World

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
    "belief_change",
    "follow_advice",
    "information_gain",
    "potential",
    "prepare",
]
