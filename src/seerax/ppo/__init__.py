"""Proximal policy optimisation: play, judge, improve. It knows nothing of residuals, experts or problems."""

from seerax.ppo.config import Config
from seerax.ppo.improve import Minibatch, first, gradient_of, improve, loss, shuffled
from seerax.ppo.judge import Moments, Summary, advantages, everywhere, summed_up
from seerax.ppo.params import Brain, LearnedPolicy, quietened, rescaled
from seerax.ppo.play import Learner, Played, is_sound, play, staggered, streams
from seerax.ppo.trainer import PPO, Progress, iterate, keep_better, learn

__all__ = [
    "PPO",
    "Brain",
    "Config",
    "LearnedPolicy",
    "Learner",
    "Minibatch",
    "Moments",
    "Played",
    "Progress",
    "Summary",
    "advantages",
    "everywhere",
    "first",
    "gradient_of",
    "improve",
    "is_sound",
    "iterate",
    "keep_better",
    "learn",
    "loss",
    "play",
    "quietened",
    "rescaled",
    "shuffled",
    "staggered",
    "streams",
    "summed_up",
]
