"""Your own problem: hover in an unknown wind. Try `seerax check examples.wind:mdp`, or run this file."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

import seerax
from seerax import BeliefMDP, Expert, Step, advice, agents, ppo, rollout
from seerax.filters import Categorical

seerax.prepare()
WINDS, NOISE = jnp.array([-0.6, 0.0, 0.6]), 0.5


class State(NamedTuple):
    position: jax.Array
    reading: jax.Array  # 0 if not sensed
    sensed: jax.Array


@dataclass(frozen=True)
class Hover:
    horizon, discount = 40, 0.99
    action_low, action_high = (-1.0, -1.0), (1.0, 1.0)  # thrust; sensing if the second is positive

    def prior(self, key):
        return jax.random.choice(key, WINDS)

    def reset(self, key, wind):
        return State(
            jax.random.uniform(key, minval=-1.0, maxval=1.0), jnp.float32(0), jnp.bool_(False)
        )

    def step(self, key, state, action, wind):
        position, sensed = state.position + 0.3 * (action[0] + wind), action[1] > 0
        reading = jnp.where(sensed, wind + NOISE * jax.random.normal(key), 0.0)
        return Step(
            State(position, reading, sensed),
            -jnp.abs(position) - 0.05 * sensed,
            jnp.abs(position) > 3,
        )

    def features(self, state):
        return jnp.stack([state.position, state.reading])

    def with_sensing(self, action, on):
        return action.at[1].set(jnp.where(on, 0.1, -0.1))

    def log_likelihood(self, state, action, after, wind):
        return jnp.where(after.sensed, -0.5 * ((after.reading - wind) / NOISE) ** 2, 0.0)


hover = Hover()
belief = Categorical(WINDS, hover.log_likelihood)
expert = Expert(
    plan=lambda wind: wind,
    act=lambda s, wind: jnp.array([jnp.clip(-wind - 2 * s.position, -1, 1), -0.1]),
)
mdp = BeliefMDP(
    hover, belief, advice.sense_randomly(hover, advice.weighted(belief, expert)), expert
)

if __name__ == "__main__":
    trainer = ppo.PPO(
        mdp,
        agents.brpo.with_compose(agents.residual(0.3)),
        ppo.Config(steps=1_000_000, learning_rate=1e-3),
    )
    *_, last = trainer.train(jax.random.split(jax.random.key(0), 1))
    policy = trainer.policy(jax.tree.map(lambda leaf: leaf[0], last.best))
    for name, player in {"ensemble": seerax.follow_advice, "BRPO": policy}.items():
        print(name, rollout.evaluate(jax.random.key(1), mdp, player).summary())
