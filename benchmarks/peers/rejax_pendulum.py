"""rejax's PPO on Pendulum, with the batch and the networks of our default Config.

Prints one line of JSON. Runs in an environment of its own, see seerax.bench.peers.
"""

from __future__ import annotations

import json
import time
from importlib.metadata import version
from statistics import median

import jax
from rejax import PPO

ITERATIONS, WARM_UP = 10, 2
SETTINGS = {"num_envs": 1024, "num_steps": 64, "num_minibatches": 16, "num_epochs": 4}
NETWORK = {"activation": "tanh", "hidden_layer_sizes": (64, 64)}
STEPS = SETTINGS["num_envs"] * SETTINGS["num_steps"]


def create() -> PPO:
    return PPO.create(
        env="Pendulum-v1",
        agent_kwargs=NETWORK,
        learning_rate=3e-4,
        max_grad_norm=0.5,
        gamma=0.99,
        gae_lambda=0.95,
        clip_eps=0.2,
        vf_coef=0.5,
        ent_coef=0.0,
        normalize_observations=False,
        total_timesteps=STEPS * ITERATIONS,
        eval_freq=STEPS * ITERATIONS,
        **SETTINGS,
    )


def rates() -> list[float]:
    """Steps per second of each iteration once everything is compiled."""
    algorithm = create()
    state = algorithm.init_state(jax.random.key(0))
    iterate = jax.jit(algorithm.train_iteration)
    seconds = []
    for _ in range(WARM_UP + ITERATIONS):
        started = time.perf_counter()
        state = jax.block_until_ready(iterate(state))
        seconds.append(time.perf_counter() - started)
    return [STEPS / each for each in seconds[WARM_UP:]]


if __name__ == "__main__":
    measured = rates()
    result = {
        "steps_per_second": median(measured),
        "best": max(measured),
        "settings": {"env": "Pendulum-v1", **SETTINGS, **NETWORK, "iterations": ITERATIONS},
        "versions": {name: version(name) for name in ("rejax", "gymnax", "jax", "flax")},
    }
    print(json.dumps(result))
