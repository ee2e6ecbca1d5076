"""The paper's tree (appendix): one leaf holds gold, the others a tiger; sensing at the root tells.

It shows the gap between Bayes-optimality and posterior sampling, in one episode or in several on
the same tree.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from seerax import advice
from seerax.core import Action, BeliefMDP, Expert, Key, Latent, Situation, State, Step
from seerax.filters import Categorical
from seerax.numerics.trees import select

# ---- constants -----------------------------------------------------------------------------------

GO_LEFT, GO_RIGHT, SENSE = 0, 1, 2
GOLD, TIGER, SENSING_COST = 100.0, -10.0, 0.1

# ---- state ---------------------------------------------------------------------------------------


class TreeState(NamedTuple):
    """The walk and what it found; turns are -1 for left, +1 for right, 0 where unknown."""

    path: Array  # [depth]: the turns taken in this round
    level: Array  # number of these turns
    round: Array  # number of rounds completed
    reading: Array  # [depth]: the way to the gold, if just sensed
    leaf: Array  # [depth]: the leaf just reached, if any
    found: Array  # it held the gold


# ---- problem -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tree:
    """A binary tree, where the latent is the way to the gold, [depth] turns.

    The action holds one vote each for left, right and sense. Sensing is possible at the root only;
    elsewhere its votes do not count. `rounds` walks share one latent.
    """

    depth: int = 4
    rounds: int = 1
    discount: float = 1.0
    action_low: tuple[float, ...] = (-10.0,) * 3
    action_high: tuple[float, ...] = (10.0,) * 3

    @property
    def horizon(self) -> int:
        """Returns the steps of all walks with one sensing each, and 5 to spare."""
        return self.rounds * (self.depth + 1) + 5

    def prior(self, key: Key) -> Latent:
        return jax.random.rademacher(key, (self.depth,), jnp.float32)

    def reset(self, key: Key, latent: Latent) -> TreeState:
        nothing = jnp.zeros(self.depth)
        return TreeState(nothing, jnp.int32(0), jnp.int32(0), nothing, nothing, jnp.bool_(False))

    def step(self, key: Key, state: TreeState, action: Action, latent: Latent) -> Step:
        senses = self.senses(state, action)
        nothing = jnp.zeros(self.depth)
        sensed = state._replace(reading=latent, leaf=nothing, found=jnp.bool_(False))
        walked = self._walk(state, jnp.where(action[GO_RIGHT] > action[GO_LEFT], 1.0, -1.0), latent)
        state = select(senses, sensed, walked)
        arrived = (state.leaf != 0).any()
        prize = jnp.where(arrived, jnp.where(state.found, GOLD, TIGER), 0.0)
        return Step(state, prize - senses * SENSING_COST, state.round == self.rounds)

    def features(self, state: TreeState) -> Array:
        scalars = jnp.stack([state.level / self.depth, state.found.astype(jnp.float32)])
        return jnp.concatenate([state.path, state.reading, scalars])

    def senses(self, state: State, action: Action) -> Array:
        return (jnp.argmax(action) == SENSE) & (state.level == 0)

    def with_sensing(self, action: Action, on: Array) -> Action:
        """Returns the action with a vote for sensing just above, or just below, any expert's."""
        return action.at[SENSE].set(jnp.where(on, 1.1, -1.1))

    def succeeded(self, state: TreeState, latent: Latent, terminated: Array) -> Array:
        """True if the last round found the gold."""
        return terminated & state.found

    def log_likelihood(
        self, state: State, action: Action, next_state: TreeState, latent: Latent
    ) -> Array:
        """Returns 0 or -inf: sensing and leaves tell the truth."""
        read = (next_state.reading != 0).any()
        arrived = (next_state.leaf != 0).any()
        contradicts_reading = read & (next_state.reading != latent).any()
        contradicts_leaf = arrived & ((next_state.leaf == latent).all() != next_state.found)
        return jnp.where(contradicts_reading | contradicts_leaf, -jnp.inf, 0.0)

    def _walk(self, state: TreeState, turn: Array, latent: Latent) -> TreeState:
        path = state.path.at[state.level].set(turn)
        level = state.level + 1
        arrived = level == self.depth
        nothing = jnp.zeros(self.depth)
        return TreeState(
            path=jnp.where(arrived, nothing, path),
            level=jnp.where(arrived, 0, level),
            round=state.round + arrived,
            reading=nothing,
            leaf=jnp.where(arrived, path, nothing),
            found=arrived & (path == latent).all(),
        )

    def draw(self, ax: Any, situation: Situation, action: Action, latent: Latent) -> None:
        draw_tree(self, ax, situation, action, latent)


# ---- expert --------------------------------------------------------------------------------------


def walking_expert() -> Expert:
    """Creates the expert that votes for the next turn of the way to the gold and never senses."""

    def act(state: TreeState, way: Latent) -> Action:
        turn = way[state.level]
        return jnp.array([-turn, turn, -1.1])

    return Expert(plan=lambda way: way, act=act)


# ---- builder -------------------------------------------------------------------------------------


def leaves(depth: int) -> Array:
    """Returns all ways, [2^depth, depth], from left to right."""
    return jnp.array(list(itertools.product([-1.0, 1.0], repeat=depth)))


def tree(depth: int = 4, rounds: int = 1) -> BeliefMDP:
    """Builds a belief over the leaves, the belief-weighted sum of experts and random sensing."""
    problem = Tree(depth, rounds)
    filter = Categorical(leaves(depth), problem.log_likelihood)
    ensemble = advice.sense_randomly(problem, advice.weighted(filter, walking_expert()))
    return BeliefMDP(problem, filter, ensemble, walking_expert())


def deep_tree() -> BeliefMDP:
    """Builds the tree of 256 leaves: chance no longer finds both the sensing and the way."""
    return tree(depth=8)


def posterior_sampling(mdp: BeliefMDP) -> BeliefMDP:
    """Returns the tree with the paper's PSRL: one posterior draw per round, kept to its leaf."""
    sampled = advice.posterior_sampling(mdp.filter, walking_expert(), per=lambda state: state.round)
    return mdp.with_advisor(sampled)


# ---- drawing -------------------------------------------------------------------------------------

DROP = 1.5  # from the root to the leaves


def draw_tree(tree: Tree, ax: Any, situation: Situation, action: Action, latent: Latent) -> None:
    """Draws gold at each leaf with its probability as opacity, and the way so far in bold.

    A star marks the leaf that holds the gold.
    """
    from seerax.drawing import Pen, chances  # imports matplotlib, which only drawing needs

    state, belief, advised = situation
    size = min(0.075, 0.8 / 2**tree.depth)
    pen = Pen(ax)
    pen.page(-1.12, 1.12, -DROP - 0.3, 0.44)
    draw_branches(pen, tree, state)
    ways = itertools.product([-1.0, 1.0], repeat=tree.depth)
    for way, chance in zip(ways, chances(belief), strict=True):
        pen.disc(node(tree, way), size, "paper")
        pen.disc(node(tree, way), size, "belief", chance, "leaf")
        pen.ring(node(tree, way), size, "faint", 1)
    draw_arrival(pen, tree, state, size)
    x, y = node(tree, latent)
    pen.star((x, y - size - 0.07), 10)
    draw_walker(pen, tree, state, action, advised)


def draw_branches(pen: Any, tree: Tree, state: TreeState) -> None:
    """Draws all ways, the one just sensed, and the one taken so far."""
    ways = [
        way
        for level in range(tree.depth)
        for way in itertools.product([-1.0, 1.0], repeat=level + 1)
    ]
    pen.lines([[node(tree, way[:-1]), node(tree, way)] for way in ways], "pale", 1.5)
    if state.reading.any():
        sensed = [node(tree, state.reading[:level]) for level in range(tree.depth + 1)]
        pen.lines([sensed], "sensing", 2, (0, (2, 2)))
    taken = state.leaf if state.leaf.any() else state.path[: state.level]
    pen.lines([[node(tree, taken[:level]) for level in range(len(taken) + 1)]], "agent", 3)


def draw_arrival(pen: Any, tree: Tree, state: TreeState, size: float) -> None:
    """Draws what the leaf just reached holds, if a leaf was reached."""
    if not state.leaf.any():
        return
    x, y = node(tree, state.leaf)
    prize = GOLD if state.found else TIGER
    if not state.found:
        pen.tiger((x, y), 1.2 * size)
    colour = "ink" if state.found else "action"
    pen.text((x, y - size - 0.19), f"{prize:+g}", 11, colour, weight="bold")


def draw_walker(pen: Any, tree: Tree, state: TreeState, action: Action, advised: Action) -> None:
    """Draws the agent, the choices of action and advice, and the number of the walk."""
    draw_choice(pen, tree, state, action, "action", 0.03)
    draw_choice(pen, tree, state, advised, "advice", 0.012)
    pen.disc(node(tree, state.path[: state.level]), 0.06, "agent", name="agent")
    if tree.rounds > 1:
        pen.text((0, 0.34), f"walk {min(int(state.round) + 1, tree.rounds)} of {tree.rounds}", 10)


def draw_choice(
    pen: Any, tree: Tree, state: TreeState, votes: Action, colour: str, width: float
) -> None:
    """Draws a ring if the votes are for sensing, else an arrow; nothing without votes."""
    if not votes.any():
        return
    here = state.path[: state.level]
    x, y = node(tree, here)
    if tree.senses(state, votes):
        ring, radius = ("sensing", 0.12) if colour == "action" else ("advice", 0.15)
        pen.ring((x, y), radius, ring, 80 * width)
        return
    to_x, to_y = node(tree, [*here, 1.0 if votes[GO_RIGHT] > votes[GO_LEFT] else -1.0])
    pen.arrow((x, y), (0.5 * (to_x - x), 0.5 * (to_y - y)), width, colour, 0.06)


def node(tree: Tree, way: Any) -> tuple[float, float]:
    """Returns where turns lead from the root at (0, 0); the leaves spread evenly over (-1, 1)."""
    x = sum(float(turn) / 2 ** (level + 1) for level, turn in enumerate(way))
    return x, -DROP * len(way) / tree.depth
