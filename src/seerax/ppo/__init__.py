"""Proximal policy optimisation: play, judge, improve.

It knows nothing of residuals, experts or problems.

Import from here; of the submodules only what docs/api.md lists is not internal.
"""

from typing import TYPE_CHECKING

from seerax.lazy import attach

if TYPE_CHECKING:
    from seerax.ppo.config import Config as Config
    from seerax.ppo.iteration import PPO as PPO
    from seerax.ppo.params import LearnedPolicy as LearnedPolicy
    from seerax.ppo.trainer import Progress as Progress
    from seerax.ppo.trainer import Trainer as Trainer

__getattr__, __all__ = attach(
    __name__,
    {
        "PPO": "iteration",
        "Config": "config",
        "LearnedPolicy": "params",
        "Progress": "trainer",
        "Trainer": "trainer",
    },
)
