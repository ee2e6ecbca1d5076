"""Which of the authors' rules make the ensembles of the paper's Table I: put back into our Maze10
one by one.

.venv/bin/python benchmarks/table1.py [EPISODES]

Writes the table into docs/problems.md, and the raw numbers to results/table1.json.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import seerax
from seerax import advice, rollout
from seerax.core import Action, Advisor, Belief, BeliefMDP, Expert, Key, Latent, Moment, State, Step
from seerax.experts import Flow, FlowPlanner
from seerax.filters import Categorical
from seerax.keys import evaluation_key
from seerax.problems import maze
from seerax.problems.maze import Maze
from seerax.system import files, markdown

ROOT = Path(__file__).parent.parent
GRID = 0.05  # between the points at which the authors' experts know a direction
SURE = 0.9  # above this belief an expert takes over
JITTER = 0.1  # std of the noise on the authors' actions
PAPER = {"random sensing": "409.5 +- 10.8", "better sensing": "416.3 +- 9.4"}


class Rules(NamedTuple):
    """Of the authors' code, where it differs from ours."""

    takes_over: bool = False
    jitter: bool = False
    deaf_to_arrivals: bool = False
    told_noise: bool = False
    full_thrust: bool = False


OURS = Rules()
ROWS = {
    "nothing: ours": OURS,
    '"take over above 0.9"': Rules(takes_over=True),
    "N(0, 0.1^2) on the actions": Rules(jitter=True),
    "their filter: hears readings only": Rules(deaf_to_arrivals=True),
    "their filter: the true goal's standard deviation for all hypotheses": Rules(told_noise=True),
    "their experts: direction of the nearest point of a 0.05 grid, always full thrust": Rules(
        full_thrust=True
    ),
    "all five": Rules(True, True, True, True, True),
}

# ---- the authors' maze ---------------------------------------------------------------------------


class ToldState(NamedTuple):
    """Ours, and what no agent could know."""

    position: Array
    velocity: Array
    reading: Array
    sensed: Array
    home: Array
    std: Array  # of the reading that was taken


@dataclass(frozen=True, eq=False)
class AuthorsMaze(Maze):
    rules: Rules = OURS

    def reset(self, key: Key, latent: Latent) -> Any:
        return ToldState(*Maze.reset(self, key, latent), jnp.float32(1))

    def step(self, key: Key, state: Any, action: Action, latent: Latent) -> Step:
        reading, shaking = jax.random.split(key)
        shake = JITTER * self.rules.jitter * jax.random.normal(shaking, (2,))
        moved, reward, terminated = Maze.step(
            self, reading, state, jnp.clip(action.at[:2].add(shake), -1, 1), latent
        )
        std = self.noise * jnp.linalg.norm(latent - moved.position)
        return Step(ToldState(*moved, std), reward, terminated)

    def log_likelihood(
        self, state: State, action: Action, next_state: Any, latent: Latent
    ) -> Array:
        distance = jnp.linalg.norm(latent - next_state.position)
        std = next_state.std if self.rules.told_noise else self.noise * distance
        log_pdf = -0.5 * ((next_state.reading - distance) / std) ** 2 - jnp.log(std)
        agrees = (distance < self.right_radius) == next_state.home
        arrived = jnp.where(agrees | self.rules.deaf_to_arrivals, 0.0, -jnp.inf)
        return jnp.where(next_state.sensed, log_pdf, 0.0) + arrived


def full_thrust(problem: Maze) -> Expert:
    """Flies in the direction known at the nearest point, the offset to it added; never brakes."""
    planner = FlowPlanner(np.asarray(problem.walls), 0.07, problem.half)

    def act(state: Any, flow: Flow) -> Action:
        point = GRID * jnp.round(state.position / GRID)
        course = unit(planner.towards(point, flow) + point - state.position)
        return jnp.append(course, -0.1)

    return advice.tabulate(Expert(lambda goal: planner.plan(np.asarray(goal)), act), problem.goals)


def unit(vector: Array) -> Array:
    return vector / jnp.maximum(jnp.linalg.norm(vector), 1e-6)


def taking_over(filter: Categorical, expert: Expert) -> Advisor:
    """The likeliest expert alone, once it is believed enough."""
    fused, alone = advice.weighted(filter, expert), advice.most_likely(filter, expert)

    def advise(moment: Moment, state: State, belief: Belief) -> Action:
        sure = jnp.exp(belief).max() > SURE
        return jnp.where(sure, alone(moment, state, belief), fused(moment, state, belief))

    return advise


def built(rules: Rules, sensing: Callable[[Any, Advisor], Advisor]) -> BeliefMDP:
    ours = maze.maze10()
    problem = AuthorsMaze(**vars(ours.problem), rules=rules)
    filter = Categorical(problem.goals, problem.log_likelihood)
    expert = full_thrust(problem) if rules.full_thrust else ours.expert
    fuse = taking_over if rules.takes_over else advice.weighted
    advisor: Any = sensing(problem, fuse(filter, expert))
    return BeliefMDP(problem, filter, advisor, expert)


SENSING: dict[str, Callable[[Any, Advisor], Advisor]] = {
    "random sensing": advice.sense_randomly,
    "better sensing": lambda problem, advisor: advice.sense_first(problem, advisor, 150),
}

# ---- measure -------------------------------------------------------------------------------------


def measured(rules: Rules, episodes: int) -> dict[str, Any]:
    key = evaluation_key(0)
    return {
        name: rollout.evaluate(key, built(rules, sensing), advice.follow_advice, episodes).summary()
        for name, sensing in SENSING.items()
    }


def table(results: dict[str, Any]) -> str:
    head = (
        "put back",
        *(f"{name} (paper: {PAPER[name]})" for name in SENSING),
        "success",
        "length",
    )
    return markdown.table(head, [row(name, each) for name, each in results.items()])


def row(name: str, each: dict[str, Any]) -> tuple[str, ...]:
    returns = [f"{each[who]['mean']:.1f} +- {each[who]['stderr']:.1f}" for who in SENSING]
    success = ", ".join(f"{100 * each[who]['success']:.1f} %" for who in SENSING)
    length = ", ".join(f"{each[who]['length']:.0f}" for who in SENSING)
    return name, *returns, success, length


def main() -> None:
    seerax.prepare()
    episodes = int(sys.argv[1]) if sys.argv[1:] else 5000
    results = {}
    for name, rules in ROWS.items():
        results[name] = measured(rules, episodes)
        print(row(name, results[name]))
    files.write_json(ROOT / "results/table1.json", {"episodes": episodes, "rows": results})
    markdown.write_between(ROOT / "docs/problems.md", "table1", table(results))


if __name__ == "__main__":
    main()
