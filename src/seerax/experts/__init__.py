"""Building blocks of experts: flow fields, regulators, shooting and an arm.

The slow part runs once, beforehand; the control loop only looks up its result. The submodules
`arm`, `flow`, `lqr` and `shooting` are public too.
"""

from seerax.experts.flow import Flow, FlowPlanner

__all__ = ["Flow", "FlowPlanner"]
