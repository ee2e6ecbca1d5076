"""A learner of your own: the cross-entropy method on a linear residual, trained by seerax's own
trainer.

It meets `seerax.ppo.trainer.Learner`: no base class, only its members. The trainer adds what every
learner needs: held-out episodes, the best policy so far, several seeds side by side, and progress
that prints.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

import seerax
from seerax import agents, rollout


class Search(NamedTuple):
    """What the trainer needs of a state: params, worlds (none here) and iteration."""

    params: jax.Array  # [inputs, actions]: the best guess
    spread: jax.Array
    worlds: tuple
    key: jax.Array
    iteration: jax.Array


@dataclass(frozen=True, eq=False)
class CrossEntropy:
    mdp: seerax.BeliefMDP
    config: seerax.Config  # worlds: candidates in an iteration
    agent: seerax.Agent = agents.brpo
    episodes: int = 16  # each candidate plays
    elite: int = 16  # candidates that the next guess is made of
    shards: int = 1  # this learner does not share its work between devices

    def specs(self, worlds):
        return Search(P(), P(), P(), P(), P())  # the same on every device

    def init(self, key):
        situation = jax.eval_shape(self.mdp.reset, key).situation
        inputs = jax.eval_shape(partial(self.agent.inputs, self.mdp), situation).shape[0]
        nothing = jnp.zeros((inputs, self.mdp.action_size))
        return Search(nothing, nothing + 0.3, (), key, jnp.int32(0))

    def act(self, weights, situation):
        inputs = jnp.clip(self.agent.inputs(self.mdp, situation), -10, 10)
        return self.agent.compose(situation, inputs @ weights)

    def policy(self, params, noisy=False, about=None):
        """What the agent sees, times a matrix, is the residual."""
        return jax.tree_util.Partial(lambda weights, key, seen: self.act(weights, seen), params)

    def iterate(self, state):
        key, draw_key, play_key = jax.random.split(state.key, 3)
        shape = (self.config.worlds, *state.params.shape)
        candidates = state.params + state.spread * jax.random.normal(draw_key, shape)
        candidates = candidates.at[0].set(state.params)  # the guess itself competes
        keys = jax.random.split(play_key, self.episodes)  # the same episodes for all

        def mean_return(weights):
            return rollout.play_batch(self.mdp, self.policy(weights), keys).episode_return.mean()

        returns = jax.lax.map(mean_return, candidates, batch_size=64)
        best = candidates[jnp.argsort(-returns)[: self.elite]]
        after = Search(best.mean(0), best.std(0) + 0.01, (), key, state.iteration + 1)
        return after, {"return": returns.mean()}


if __name__ == "__main__":
    tiger = seerax.make("tiger")
    config = seerax.Config(steps=40 * 256 * 16, worlds=256, rollout_length=16, evaluations=10)
    trainer = seerax.Trainer(CrossEntropy(tiger, config))
    for progress in trainer.train(seed=0):
        if progress.evaluated:
            print(progress)
    print("ensemble     ", seerax.evaluate(tiger, seerax.follow_advice))
    print("cross-entropy", seerax.evaluate(tiger, progress.policy()))
