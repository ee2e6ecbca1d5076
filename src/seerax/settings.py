"""How we train each agent on each problem, in numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from seerax.agents import find_agent
from seerax.experiments import Experiment
from seerax.ppo import Config

# Short episodes and crisp choices: few steps an iteration, much noise at first and little in the
# end.
QUICK = Config(
    steps=6_000_000,
    worlds=2048,
    rollout_length=16,
    minibatches=8,
    learning_rate=3e-3,
    exploration=2.0,
    exploration_end=0.05,
    evaluation_episodes=2048,
)
# Long episodes: far-sighted, larger minibatches, and many held-out episodes where rare accidents
# decide.
LONG = Config(
    steps=12_000_000,
    minibatches=8,
    learning_rate=2e-3,
    discount=0.998,
    exploration_end=0.2,
    evaluations=12,
    evaluation_episodes=1024,
)
MAZE = replace(LONG, worlds=2048, minibatches=16, discount=0.999, evaluation_episodes=2048)
CROWD = replace(LONG, steps=6_000_000, discount=0.999, evaluation_episodes=2048)
SHELF = replace(
    LONG, steps=20_000_000, discount=0.999, gae_lambda=0.97, exploration=(0.3, 0.3, 0.3, 1.0)
)
PLANAR = (0.5, 0.5, 0.1)  # two thrusts and a vote for sensing

SETTINGS = {
    "crowdnav": Experiment("crowdnav", ppo=CROWD),
    "cartpole": Experiment(
        "cartpole", scale=5.0, ppo=replace(LONG, steps=5_000_000, evaluations=20)
    ),
    "armshelf": Experiment("armshelf", scale=(1.0, 1.0, 1.0, 0.1), ppo=SHELF),
    "maze4": Experiment("maze4", scale=PLANAR, ppo=replace(MAZE, steps=20_000_000)),
    "maze10": Experiment("maze10", scale=PLANAR, ppo=replace(MAZE, steps=30_000_000)),
    "door4": Experiment("door4", scale=PLANAR, ppo=LONG),
    "tree": Experiment("tree", ppo=replace(QUICK, steps=1_000_000)),
    "tiger": Experiment("tiger", ppo=QUICK),
}


def settings(problem: str, agent: str = "brpo") -> Experiment:
    """Returns our settings for an agent on a problem. A problem of your own gets the defaults."""
    experiment = replace(SETTINGS.get(problem, Experiment(problem)), agent=agent)
    return experiment if find_agent(agent).is_residual else _without_advice(experiment)


def _without_advice(experiment: Experiment) -> Experiment:
    """Gives all action dimensions the largest scale and exploration of any: there is no advice to
    stay near.
    """
    widest = float(np.max(experiment.ppo.exploration))
    scale = max(1.0, float(np.max(experiment.scale)))
    return replace(experiment, scale=scale, ppo=replace(experiment.ppo, exploration=widest))
