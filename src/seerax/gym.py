"""The public path of our Gymnasium environments: importing this module registers them."""

from seerax.interop.gymnasium import (
    BeliefEnv,
    BeliefVectorEnv,
    action_space,
    layout,
    observation_space,
    to_problem_units,
    to_unit_box,
)

__all__ = [
    "BeliefEnv",
    "BeliefVectorEnv",
    "action_space",
    "layout",
    "observation_space",
    "to_problem_units",
    "to_unit_box",
]
