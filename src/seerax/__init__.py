"""Bayesian reinforcement learning that starts from clairvoyant experts and learns when not to
believe them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from seerax.version import __version__ as __version__

if TYPE_CHECKING:
    from seerax.advice import Clairvoyant as Clairvoyant
    from seerax.advice import follow_advice as follow_advice
    from seerax.agents import Agent as Agent
    from seerax.api import evaluate as evaluate
    from seerax.api import make as make
    from seerax.api import names as names
    from seerax.api import trainer as trainer
    from seerax.bonuses import belief_change as belief_change
    from seerax.bonuses import information_gain as information_gain
    from seerax.bonuses import potential as potential
    from seerax.compute.devices import prepare as prepare
    from seerax.core import BeliefMDP as BeliefMDP
    from seerax.core import Expert as Expert
    from seerax.core import Filter as Filter
    from seerax.core import Moment as Moment
    from seerax.core import Outcome as Outcome
    from seerax.core import Problem as Problem
    from seerax.core import Situation as Situation
    from seerax.core import Step as Step
    from seerax.core import World as World
    from seerax.errors import UserError as UserError
    from seerax.interop.pilot import Pilot as Pilot
    from seerax.laws import check as check
    from seerax.ppo import PPO as PPO
    from seerax.ppo import Config as Config
    from seerax.ppo import LearnedPolicy as LearnedPolicy
    from seerax.ppo import Progress as Progress
    from seerax.ppo import Trainer as Trainer
    from seerax.rollout import Evaluation as Evaluation
    from seerax.runs.policies import load as load

_HOME = {  # of every public name; found when first asked for, because JAX takes a second to import
    "advice": ("Clairvoyant", "follow_advice"),
    "agents": ("Agent",),
    "api": ("evaluate", "make", "names", "trainer"),
    "bonuses": ("belief_change", "information_gain", "potential"),
    "compute.devices": ("prepare",),
    "core": (
        "BeliefMDP",
        "Expert",
        "Filter",
        "Moment",
        "Outcome",
        "Problem",
        "Situation",
        "Step",
        "World",
    ),
    "errors": ("UserError",),
    "interop.pilot": ("Pilot",),
    "laws": ("check",),
    "ppo": ("PPO", "Config", "LearnedPolicy", "Progress", "Trainer"),
    "rollout": ("Evaluation",),
    "runs.policies": ("load",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
__all__ = [*_MODULE_OF]


def __getattr__(name: str) -> Any:
    """Finds a public name, after every core of this host has been made a device."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'seerax' has no attribute '{name}'")
    if name != "prepare":
        import_module("seerax.compute.devices").prepare_by_default()
    return getattr(import_module(f"seerax.{_MODULE_OF[name]}"), name)
