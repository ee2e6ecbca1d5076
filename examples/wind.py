"""Your own problem: hover in an unknown wind; an action is (thrust, sense if positive)."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

import seerax
from seerax import BeliefMDP, Expert, Step, advice, filters

WINDS, NOISE, GUST = jnp.array([-0.6, 0.0, 0.6]), 0.5, 0.2  # std of a reading and of a gust


class State(NamedTuple):
    position: jax.Array
    reading: jax.Array  # 0 if not sensed
    sensed: jax.Array


@dataclass(frozen=True)
class Hover:
    horizon, discount, action_low, action_high = 40, 0.99, (-1.0, -1.0), (1.0, 1.0)

    def prior(self, key):
        return jax.random.choice(key, WINDS)

    def reset(self, key, wind):
        return State(jax.random.uniform(key, (), float, -1, 1), jnp.float32(0), jnp.bool_(False))

    def step(self, key, state, action, wind):
        gust, noise = jax.random.normal(key, (2,))
        position, sensed = self.drift(state, action, wind) + GUST * gust, action[1] > 0
        after = State(position, jnp.where(sensed, wind + NOISE * noise, 0.0), sensed)
        return Step(after, -jnp.abs(position) - 0.05 * sensed, jnp.abs(position) > 3)

    def drift(self, state, action, wind):
        return state.position + 0.3 * (action[0] + wind)

    def features(self, state):
        return jnp.stack([state.position, state.reading])

    def with_sensing(self, action, on):
        return action.at[1].set(jnp.where(on, 0.1, -0.1))

    def log_likelihood(self, state, action, after, wind):
        blown = (after.position - self.drift(state, action, wind)) / GUST
        return -0.5 * (blown**2 + after.sensed * ((after.reading - wind) / NOISE) ** 2)


hover = Hover()
belief = filters.Categorical(WINDS, hover.log_likelihood)
expert = Expert(lambda w: w, lambda s, w: jnp.append(jnp.clip(-w - 2 * s.position, -1, 1), -0.1))
ensemble = advice.sense_randomly(hover, advice.weighted(belief, expert))
mdp = BeliefMDP(hover, belief, ensemble, expert)

if __name__ == "__main__":
    for progress in seerax.trainer(mdp, scale=0.3, steps=1e6, learning_rate=1e-3).train(seed=0):
        print(progress)
    print(seerax.evaluate(mdp, seerax.follow_advice), seerax.evaluate(mdp, progress.policy()))
