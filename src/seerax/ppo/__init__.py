"""Proximal policy optimisation: play, judge, improve. It knows nothing of residuals, experts or problems."""

from seerax.ppo.config import Config
from seerax.ppo.params import LearnedPolicy
from seerax.ppo.trainer import PPO, Progress

__all__ = ["PPO", "Config", "LearnedPolicy", "Progress"]
