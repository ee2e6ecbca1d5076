"""What is learned, and the policy that acts by it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from seerax.agents import Agent
from seerax.core import Action, BeliefMDP, Key, Situation
from seerax.errors import UserError, writing
from seerax.numerics.statistics import in_thousands
from seerax.ppo.config import Config
from seerax.ppo.networks import Normaliser, draw_raw
from seerax.system import pytrees

FORMAT = 2  # of policy files


class Params(NamedTuple):
    """All that is learned."""

    network: Any
    inputs: Normaliser
    values: Normaliser


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["params"],
    meta_fields=["mdp", "agent", "noisy"],
    drop_fields=["about"],  # policies that differ in nothing else share one compiled program
)
@dataclass(frozen=True, eq=False, repr=False)
class LearnedPolicy:
    """Learned parameters at work. Without noise the policy answers with the mean action."""

    params: Params
    mdp: BeliefMDP
    agent: Agent
    noisy: bool = False
    about: dict[str, Any] = field(default_factory=dict)  # how it came about, as plain data

    def __call__(self, key: Key, situation: Situation) -> Action:
        network, inputs, _ = self.params
        x = inputs.normalise(self.agent.inputs(self.mdp, situation))
        mean, log_std = network.policy(x)
        raw = draw_raw(key, mean, log_std) if self.noisy else mean
        return self.agent.compose(situation, raw)

    def save(self, path: str | Path) -> None:
        """Writes the parameters and how they came about to a .safetensors file; `seerax.load` reads
        it.
        """
        if "experiment" not in self.about:
            raise UserError(
                "This policy does not know its problem and agent: train it by seerax.trainer()."
            )
        if Path(path).suffix != ".safetensors":
            raise UserError(f"A policy file ends in .safetensors, not like '{Path(path).name}'.")
        with writing(path):
            pytrees.save_tree(Path(path), self.params, {"format": FORMAT, **self.about})

    def __repr__(self) -> str:
        experiment = self.about.get("experiment", {})
        agent = experiment.get("agent", self.agent.name or "own agent")
        words = f"{agent} on {experiment.get('problem') or self.mdp.name or 'an own problem'}"
        if "steps" in self.about:
            words += f", seed {self.about['seed']}, {in_thousands(self.about['steps'])} steps"
        if "held_out" in self.about:
            words += f", held-out {self.about['held_out']:.1f}"
        return f"<LearnedPolicy: {words}>"


def popart(params: Params, values: Normaliser) -> Params:
    """Returns the same value function in new units (PopArt: van Hasselt et al., 2016)."""
    network = params.network
    if hasattr(network, "rescale_value"):
        network = network.rescale_value(params.values, values)
    return Params(network, params.inputs, values)


def cap_exploration(config: Config, params: Params, iteration: Array) -> Params:
    """Holds exploration under its ceiling, so that in the end the trained policy is the deployed
    one: the mean.
    """
    network = params.network
    if config.exploration_end >= 1 or not hasattr(network, "cap_log_std"):
        return params
    share = 1 + (config.exploration_end - 1) * iteration / config.iterations
    ceiling = jnp.log(jnp.asarray(config.exploration) * jnp.maximum(share, 1e-3))
    return params._replace(network=network.cap_log_std(ceiling))
