"""What experts are made of. The slow part is done once; what is left for the control loop is a look-up."""

from seerax.experts.flow import Flow, FlowPlanner

__all__ = ["Flow", "FlowPlanner"]
