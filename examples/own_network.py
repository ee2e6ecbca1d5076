"""A network of your own: it attends over the hypotheses instead of reading the belief as one flat
vector.

A network is made by a factory (key, inputs, actions, config) -> equinox.Module, and has `policy(x)`
and `value(x)`.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

import seerax
from seerax.gym import layout

WIDTH = 32
maze = seerax.make("maze4")
SLICES = layout(maze)  # where features, belief and advice lie among the inputs


class Attending(eqx.Module):
    """One token per hypothesis, (probability, log-odds) and who it is; the rest of the inputs asks
    the question.
    """

    names: jax.Array  # [hypotheses, WIDTH]
    key: eqx.nn.Linear
    value_of: eqx.nn.Linear
    query: eqx.nn.Linear
    mean: eqx.nn.Linear
    critic: eqx.nn.Linear
    log_std: jax.Array

    def __init__(self, key, inputs, actions, config):
        keys = jax.random.split(key, 6)
        hypotheses = (SLICES["belief"].stop - SLICES["belief"].start) // 2
        rest = inputs - 2 * hypotheses
        self.names = 0.1 * jax.random.normal(keys[0], (hypotheses, WIDTH))
        self.key = eqx.nn.Linear(2 + WIDTH, WIDTH, key=keys[1])
        self.value_of = eqx.nn.Linear(2 + WIDTH, WIDTH, key=keys[2])
        self.query = eqx.nn.Linear(rest, WIDTH, key=keys[3])
        mean = eqx.nn.Linear(2 * WIDTH, actions, key=keys[4])
        self.mean = jax.tree.map(
            jnp.zeros_like, mean
        )  # a zero residual: training starts at the ensemble
        self.critic = eqx.nn.Linear(2 * WIDTH, 1, key=keys[5])
        self.log_std = jnp.full(actions, jnp.log(config.exploration))

    def look(self, x):
        belief = x[SLICES["belief"]].reshape(2, -1).T  # [hypotheses, 2]
        rest = jnp.concatenate([x[SLICES["features"]], x[SLICES["advice"]]])
        tokens = jnp.concatenate([belief, self.names], -1)
        query = self.query(rest)
        weights = jax.nn.softmax(jax.vmap(self.key)(tokens) @ query / WIDTH**0.5)
        return jnp.tanh(jnp.concatenate([weights @ jax.vmap(self.value_of)(tokens), query]))

    def policy(self, x):
        """Returns the mean and the log standard deviation of raw actions, for inputs [..., n]."""
        mean = jnp.vectorize(lambda one: self.mean(self.look(one)), signature="(n)->(a)")(x)
        return mean, self.log_std

    def value(self, x):
        return jnp.vectorize(lambda one: self.critic(self.look(one))[0], signature="(n)->()")(x)


if __name__ == "__main__":
    trainer = seerax.trainer(maze, steps=2e6, network=Attending)
    for progress in trainer.train(seed=0):
        if progress.evaluated:
            print(progress)
    progress.policy().save("attending.safetensors")
    policy = seerax.load("attending.safetensors", network=Attending)
    print("ensemble ", seerax.evaluate(maze, seerax.follow_advice))
    print("attending", seerax.evaluate(maze, policy))
