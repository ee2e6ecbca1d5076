"""The problems as Gymnasium environments, one world at a time or many in one jitted call.

    import gymnasium, seerax.gym
    env = gymnasium.make("seerax/Maze4-v0")
    envs = gymnasium.make_vec("seerax/Maze4-v0", num_envs=1024)

An observation is one float32 vector, [features | belief | advice], exactly what BRPO's network
sees; `layout` gives the slices. Actions lie in [-1, 1] and are scaled to the problem's bounds;
advice stays in the problem's units (see `to_problem_units` and `to_unit_box`). `terminated` says
that the task ended, `truncated` that time ran out. At the end of an episode info has `is_success`
if the problem defines success. The latent is never exposed.

The first episode after `reset(seed=s)` is the one that `rollout.record(jax.random.key(s), ...)`
plays.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from jax import Array

from seerax import agents, problems, rollout
from seerax.core import BeliefMDP, Key, World

FARTHEST = float(np.finfo(np.float32).max)
SIDE, DPI = 480, 100  # of a picture: pixels, and pixels per inch

shared = cache(problems.make)  # environments of one problem share their compiled programs


# ---- one world -----------------------------------------------------------------------------------


class EnvState(NamedTuple):
    """The state of episodes that follow one another, all from one key."""

    key: Key
    clock: Array  # steps since the first reset, fresh starts included
    world: World


class Observed(NamedTuple):
    """The result of a step for Gymnasium."""

    observation: Array
    reward: Array
    terminated: Array
    truncated: Array
    success: Array


def begin(mdp: BeliefMDP, seed: Array) -> tuple[EnvState, Array]:
    """Starts the first episode of a seed."""
    key = jax.random.key(seed)
    world = rollout.start(mdp, key)
    return EnvState(key, jnp.int32(0), world), agents.brpo.inputs(mdp, world.situation)


def advance(mdp: BeliefMDP, env_state: EnvState, action: Array) -> tuple[EnvState, Observed]:
    """Takes one step, or starts a new episode if the last one is over."""
    _, world_key = rollout.step_keys(env_state.key, env_state.clock)
    world, outcome = mdp.step(world_key, env_state.world, to_problem_units(mdp, action))
    observation = agents.brpo.inputs(mdp, world.situation)
    success = rollout.succeeded(mdp, world, outcome.terminated)
    observed = Observed(
        observation, outcome.reward, outcome.terminated, outcome.over & ~outcome.terminated, success
    )
    return EnvState(env_state.key, env_state.clock + 1, world), observed


begin_one, advance_one = (jax.jit(each, static_argnums=0) for each in (begin, advance))


@partial(jax.jit, static_argnums=0)
def begin_many(mdp: BeliefMDP, seeds: Array) -> tuple[EnvState, Array]:
    """Starts one world per seed."""
    return jax.vmap(partial(begin, mdp))(seeds)


@partial(jax.jit, static_argnums=0)
def advance_many(mdp: BeliefMDP, env_states: EnvState, actions: Array) -> tuple[EnvState, Observed]:
    """Takes one step of every world."""
    return jax.vmap(partial(advance, mdp))(env_states, actions)


def words(seeds: Sequence[int | None]) -> np.ndarray:
    """Reduces Gymnasium's seeds, integers of any size, to the 32 bits of JAX's."""
    return np.array([(seed or 0) % 2**32 for seed in seeds], np.uint32)


def cut(env_state: EnvState) -> EnvState:
    """Ends the episode, so that the next step starts a new one."""
    return env_state._replace(
        world=env_state.world._replace(over=jnp.ones_like(env_state.world.over))
    )


# ---- spaces --------------------------------------------------------------------------------------


def layout(mdp: BeliefMDP) -> dict[str, slice]:
    """Returns the slices of features, belief and advice in an observation."""
    situation = jax.eval_shape(mdp.reset, jax.random.key(0)).situation
    views = {"features": agents.state, "belief": agents.belief, "advice": agents.advice}
    sizes = [jax.eval_shape(partial(view, mdp), situation).shape[0] for view in views.values()]
    ends = np.cumsum(sizes).tolist()
    return {
        name: slice(end - size, end) for name, size, end in zip(views, sizes, ends, strict=True)
    }


def observation_space(mdp: BeliefMDP) -> spaces.Box:
    """Returns the space of observations: advice is within the action bounds, the rest unbounded."""
    free = layout(mdp)["belief"].stop
    low = np.concatenate([np.full(free, -FARTHEST), mdp.problem.action_low])
    high = np.concatenate([np.full(free, FARTHEST), mdp.problem.action_high])
    return spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)


def action_space(mdp: BeliefMDP) -> spaces.Box:
    """Returns the space of actions, the box [-1, 1]."""
    return spaces.Box(-1.0, 1.0, (mdp.action_size,), np.float32)


def bounds(mdp: BeliefMDP) -> tuple[np.ndarray, np.ndarray]:
    """Returns centre and half width of the problem's action bounds."""
    low, high = (
        np.asarray(each, np.float32) for each in (mdp.problem.action_low, mdp.problem.action_high)
    )
    return (high + low) / 2, (high - low) / 2


def to_problem_units(mdp: BeliefMDP, action: Any) -> Any:
    """Scales an action from [-1, 1] to the problem's units."""
    centre, half = bounds(mdp)
    return centre + half * action


def to_unit_box(mdp: BeliefMDP, action: Any) -> Any:
    """Scales an action, or advice, from the problem's units to [-1, 1]."""
    centre, half = bounds(mdp)
    return (action - centre) / half


# ---- environments --------------------------------------------------------------------------------


class BeliefEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """An environment of one world; its problem is a name or a belief MDP of your own."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012

    def __init__(self, problem: str | BeliefMDP, render_mode: str | None = None):
        self.mdp = shared(problem) if isinstance(problem, str) else problem
        self.render_mode = render_mode
        self.observation_space = observation_space(self.mdp)
        self.action_space = action_space(self.mdp)
        self.env_state: EnvState | None = None
        self.over = True
        self.last_action = np.zeros(self.mdp.action_size, np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.over = False
        self.last_action = np.zeros_like(self.last_action)
        if seed is None and self.env_state is not None:
            self.env_state, (observation, *_) = advance_one(
                self.mdp, cut(self.env_state), self.last_action
            )
        else:
            self.env_state, observation = begin_one(self.mdp, words([self.np_random_seed])[0])
        return np.array(observation), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self.env_state is None or self.over:
            raise ResetNeeded("The episode is over, or none has begun: call reset() first.")
        self.env_state, observed = advance_one(
            self.mdp, self.env_state, np.asarray(action, np.float32)
        )
        terminated = bool(observed.terminated)
        truncated = bool(observed.truncated)
        self.over = terminated or truncated
        self.last_action = to_problem_units(self.mdp, action)
        tells = self.over and hasattr(self.mdp.problem, "succeeded")
        info = {"is_success": bool(observed.success)} if tells else {}
        return np.array(observed.observation), float(observed.reward), terminated, truncated, info

    def render(self) -> np.ndarray | None:  # type: ignore[override]
        """Returns the problem's own drawing, for human eyes: it shows the latent."""
        if self.render_mode is None or self.env_state is None:
            return None
        return picture(self.mdp, jax.device_get(self.env_state.world), self.last_action)


class BeliefVectorEnv(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """An environment of many worlds, vmapped. World i is `BeliefEnv` seeded with seed + i."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}  # noqa: RUF012

    def __init__(self, problem: str | BeliefMDP, num_envs: int = 1):
        self.mdp = shared(problem) if isinstance(problem, str) else problem
        self.num_envs = num_envs
        self.single_observation_space = observation_space(self.mdp)
        self.single_action_space = action_space(self.mdp)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.env_states: EnvState | None = None

    def reset(  # type: ignore[override]
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts new episodes in all worlds, from one seed for all or one seed each.

        Without a seed, the running episodes end and new ones follow.
        """
        super().reset(seed=seed if isinstance(seed, int) else None)
        if seed is None and self.env_states is not None:
            nothing = np.zeros((self.num_envs, self.mdp.action_size), np.float32)
            self.env_states, (observation, *_) = advance_many(
                self.mdp, cut(self.env_states), nothing
            )
        else:
            self.env_states, observation = begin_many(self.mdp, words(self._seeds(seed)))
        return np.array(observation), {}

    def _seeds(self, seed: int | Sequence[int] | None) -> list[int]:
        if seed is None or isinstance(seed, int):
            return [(self.np_random_seed or 0) + i for i in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ValueError(f"{self.num_envs} environments need as many seeds, not {len(seed)}.")
        return list(seed)

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        if self.env_states is None:
            raise ResetNeeded("No episode has begun: call reset() first.")
        self.env_states, observed = advance_many(
            self.mdp, self.env_states, np.asarray(actions, np.float32)
        )
        observation, reward, terminated, truncated, success = (np.array(each) for each in observed)
        over = terminated | truncated
        tells = over.any() and hasattr(self.mdp.problem, "succeeded")
        info = {"is_success": success & over, "_is_success": over} if tells else {}
        return observation, reward.astype(np.float64), terminated, truncated, info


def picture(mdp: Any, world: World, action: np.ndarray) -> np.ndarray:
    """Draws one moment as an image [height, width, 3]."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # only drawing needs it
    from matplotlib.figure import Figure

    figure = Figure(figsize=(SIDE / DPI, SIDE / DPI), dpi=DPI)
    canvas = FigureCanvasAgg(figure)
    mdp.problem.draw(
        figure.add_axes((0.02, 0.02, 0.96, 0.96)), world.situation, action, world.latent
    )
    canvas.draw()
    return np.array(canvas.buffer_rgba())[..., :3]


for name, entry in problems.PROBLEMS.items():
    gymnasium.register(
        f"seerax/{entry.title}-v0",
        entry_point="seerax.gym:BeliefEnv",
        vector_entry_point="seerax.gym:BeliefVectorEnv",
        kwargs={"problem": name},
    )
