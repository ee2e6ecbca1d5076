"""Stable-Baselines3's PPO on a Gymnasium environment. Prints one line of JSON.

    python sb3.py ENV usual     eight environments one after another, the library's own settings
    python sb3.py ENV batched   1024 worlds of ours in one compiled call, our default Config's batch

Each is tried with one thread and with all, and the faster counts: small networks often suffer from
threads. The first is how the library is mostly used. The second is the fastest we know to offer it:
hardly any time is spent in the simulation, and its networks see large batches. Only our
environments come as a batch.
Runs in an environment of its own, see seerax.bench.peers.
"""

from __future__ import annotations

import json
import os
import sys
import time
from functools import partial
from importlib.metadata import version
from statistics import median
from typing import Any

import gymnasium
import jax
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

import seerax
from seerax.core import BeliefMDP
from seerax.interop.gymnasium import BeliefVectorEnv, EnvState, advance_many
from seerax.numerics.trees import select

SECONDS, WARM_UP = 12.0, 1  # for each number of threads; iterations
NETWORK = {"pi": [64, 64], "vf": [64, 64]}  # tanh
SETTINGS = {
    "usual": {
        "n_envs": 8,
        "n_steps": 256,
        "batch_size": 64,
        "n_epochs": 10,
    },  # 2048 steps an iteration
    "batched": {"n_envs": 1024, "n_steps": 64, "batch_size": 4096, "n_epochs": 4},
}


# ---- our batch as theirs -------------------------------------------------------------------------


@partial(jax.jit, static_argnums=0)
def renewed(mdp: BeliefMDP, env_states: EnvState, nothing: jax.Array) -> tuple[EnvState, jax.Array]:
    """Starts worlds that are over afresh, and returns all first observations; the others stay."""
    fresh, observed = advance_many(mdp, env_states, nothing)
    kept = jax.vmap(select)(env_states.world.over, fresh, env_states)
    return kept, observed.observation


class Batch(VecEnv):
    """Our environments as Stable-Baselines3 wants them.

    It wants the fresh start in the step that ends an episode; ours comes one step later.
    """

    def __init__(self, env: BeliefVectorEnv):
        self.env = env
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)
        self.nothing = np.zeros(env.action_space.shape, np.float32)

    def reset(self) -> np.ndarray:
        return self.env.reset(seed=0)[0]

    def step_async(self, actions: np.ndarray) -> None:
        self.actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        last, reward, terminated, truncated, _ = self.env.step(self.actions)
        over = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in over]
        if not over.any():
            return last, reward, over, infos
        mdp = self.env.mdp
        self.env.env_states, first = renewed(mdp, self.env.env_states, self.nothing)
        for i in np.flatnonzero(over):
            infos[i] = {"terminal_observation": last[i], "TimeLimit.truncated": bool(truncated[i])}
        return np.where(over[:, None], first, last), reward, over, infos

    def close(self) -> None:
        self.env.close()

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self.env, attr_name)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError

    def env_method(
        self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any
    ) -> list[Any]:
        raise NotImplementedError


# ---- measuring -----------------------------------------------------------------------------------


class Watch(BaseCallback):
    """Notes when every iteration begins, and ends the training when the time is up."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[float] = []

    def _on_rollout_start(self) -> None:
        self.begun.append(time.perf_counter())

    def _on_step(self) -> bool:
        return len(self.begun) < WARM_UP + 2 or time.perf_counter() - self.begun[0] < SECONDS


def environment(name: str, form: str) -> VecEnv:
    count = SETTINGS[form]["n_envs"]
    if form == "batched":
        return Batch(gymnasium.make_vec(name, num_envs=count))
    return DummyVecEnv([lambda: gymnasium.make(name)] * count)


def rates(name: str, form: str, threads: int) -> list[float]:
    """Steps per second of each iteration after the first."""
    torch.set_num_threads(threads)
    settings = {key: value for key, value in SETTINGS[form].items() if key != "n_envs"}
    train_state = PPO(
        "MlpPolicy",
        environment(name, form),
        policy_kwargs={"net_arch": NETWORK},
        device="cpu",
        **settings,
    )
    watch = Watch()
    train_state.learn(10**9, callback=watch)
    steps = SETTINGS[form]["n_envs"] * SETTINGS[form]["n_steps"]
    return [steps / seconds for seconds in np.diff(watch.begun)[WARM_UP:].tolist()]


if __name__ == "__main__":
    seerax.prepare(devices=1)
    name, form = sys.argv[1:]
    tried = {
        threads: rates(name, form, threads) for threads in sorted({1, len(os.sched_getaffinity(0))})
    }
    threads, measured = max(tried.items(), key=lambda item: median(item[1]))
    result = {
        "steps_per_second": median(measured),
        "best": max(measured),
        "settings": {
            "env": name,
            "form": form,
            "threads": threads,
            **SETTINGS[form],
            "net_arch": NETWORK,
        },
        "by_threads": {threads: median(each) for threads, each in tried.items()},
        "versions": {
            name: version(name) for name in ("stable-baselines3", "torch", "gymnasium", "seerax")
        },
    }
    print(json.dumps(result))
