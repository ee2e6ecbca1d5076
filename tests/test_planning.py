"""Flow fields against an exact visibility graph, and their geometry against sampled points."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from seerax.planning.flow import Flow, FlowPlanner, clearance, crosses, distance_to_segments, tree_levels
from seerax.problems.maze import MAZE4_GOALS, MAZE4_WALLS
from seerax.problems.pointmass import SPHERE

MARGIN, HALF = 0.12, 1.4
STARTS = 25  # for every goal
STEP, STEPS = 0.004, 3000

# ---- geometry ----------------------------------------------------------------------------------------------------


def random_segments(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.uniform(-1, 1, (count, 2, 2))


def sampled_distance(a: np.ndarray, b: np.ndarray, count: int = 400) -> np.ndarray:
    """Smallest distance between points sampled densely on segments a, b [n, 2, 2], pair by pair."""
    share = np.linspace(0, 1, count)[:, None]
    on_a, on_b = ((1 - share) * s[:, None, 0] + share * s[:, None, 1] for s in (a, b))
    return np.sqrt(np.square(on_a[:, :, None] - on_b[:, None]).sum(-1).min((1, 2)))


def test_distances_to_segments_are_those_to_their_nearest_points() -> None:
    rng = np.random.default_rng(0)
    points, segments = rng.uniform(-1.5, 1.5, (30, 2)), random_segments(rng, 8)
    share = np.linspace(0, 1, 4001)[:, None]
    sampled = (1 - share) * segments[:, None, 0] + share * segments[:, None, 1]
    expected = np.linalg.norm(points[:, None, None] - sampled, axis=-1).min(-1)
    np.testing.assert_allclose(distance_to_segments(points, segments), expected, atol=1e-3)


def test_clearance_is_the_smallest_distance_between_two_straight_ways() -> None:
    rng = np.random.default_rng(1)
    ways, walls = random_segments(rng, 40), random_segments(rng, 3)
    each = [sampled_distance(ways, np.broadcast_to(wall, ways.shape)) for wall in walls]
    found = clearance(ways[:, 0], ways[:, 1], walls)
    np.testing.assert_allclose(found, np.min(each, 0), atol=8e-3)
    assert (found == 0).sum() > 5 and (found > 0.05).sum() > 5


def test_ways_cross_where_the_line_of_each_parts_the_ends_of_the_other() -> None:
    """Solved as a linear system: both lines meet at shares strictly between 0 and 1."""
    rng = np.random.default_rng(2)
    ways, walls = random_segments(rng, 60), random_segments(rng, 5)
    expected = np.zeros((60, 5), bool)
    for i, j in np.ndindex(60, 5):
        (a, b), (c, d) = ways[i], walls[j]
        shares = np.linalg.solve(np.stack([b - a, c - d], axis=1), c - a)
        expected[i, j] = ((shares > 0) & (shares < 1)).all()
    np.testing.assert_array_equal(crosses(ways, walls), expected)
    assert 0.1 < expected.mean() < 0.9


def test_a_way_that_touches_a_wall_or_runs_along_it_has_no_clearance() -> None:
    wall = np.array([[[0.0, 0.0], [1.0, 0.0]]])
    starts = np.array([[0.5, 1.0], [0.5, 1.0], [-1.0, 0.0], [0.2, 0.0]])
    ends = np.array([[0.5, 0.0], [1.5, -1.0], [2.0, 0.0], [0.8, 0.0]])
    np.testing.assert_allclose(clearance(starts, ends, wall), 0, atol=1e-12)


def test_tree_levels_group_nodes_by_their_hops_from_the_root() -> None:
    before = np.array([2, 0, -9999, 2, 3, 4, -9999])  # 0 and 3 hang on the root 2; 6 is out of reach
    assert [sorted(level.tolist()) for level in tree_levels(before, 2)] == [[0, 3], [1, 4], [5]]


# ---- an independent planner --------------------------------------------------------------------------------------


def distance_to_walls(points: np.ndarray) -> np.ndarray:
    """[..., m] for points [..., 2], by splitting each offset into a part along the wall and a part across."""
    start, end = MAZE4_WALLS[:, 0], MAZE4_WALLS[:, 1]
    length = np.linalg.norm(end - start, axis=-1)
    along = (end - start) / length[:, None]
    across = np.stack([-along[:, 1], along[:, 0]], axis=-1)
    offset = points[..., None, :] - start
    ahead = np.einsum("...mi,mi->...m", offset, along)
    beyond = np.maximum(np.maximum(-ahead, ahead - length), 0)
    return np.hypot(beyond, np.einsum("...mi,mi->...m", offset, across))


def way_to_walls(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Smallest distance of the straight ways a-b to any wall: it is convex along the way, so thirds are cut off."""
    low, high = np.zeros((len(a), len(MAZE4_WALLS))), np.ones((len(a), len(MAZE4_WALLS)))

    def at(share: np.ndarray) -> np.ndarray:
        points = a[:, None] + share[..., None] * (b - a)[:, None]
        return np.diagonal(distance_to_walls(points), axis1=1, axis2=2)

    for _ in range(40):
        first, second = low + (high - low) / 3, high - (high - low) / 3
        downhill = at(first) > at(second)
        low, high = np.where(downhill, first, low), np.where(downhill, high, second)
    return at((low + high) / 2).min(-1)


def around_corners(count: int = 24) -> np.ndarray:
    """Free points on circles round the walls' ends, so large that a chord between neighbours keeps the margin."""
    angle = 2 * np.pi * np.arange(count) / count
    circle = 1.001 * MARGIN / np.cos(np.pi / count) * np.stack([np.cos(angle), np.sin(angle)], -1)
    points = (MAZE4_WALLS.reshape(-1, 1, 2) + circle).reshape(-1, 2)
    inside = (np.abs(points) <= HALF).all(-1)
    return points[inside & (distance_to_walls(points).min(-1) >= MARGIN)]


def shortest(sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Lengths [sources, targets] of the shortest ways that keep the margin, by a visibility graph."""
    points = np.concatenate([sources, targets, around_corners()])
    i, j = np.triu_indices(len(points), 1)
    clear = way_to_walls(points[i], points[j]) >= MARGIN
    i, j = i[clear], j[clear]
    graph = csr_array((np.linalg.norm(points[i] - points[j], axis=1), (i, j)), shape=(len(points),) * 2)
    distance = dijkstra(graph, directed=False, indices=np.arange(len(sources)))
    return distance[:, len(sources) : len(sources) + len(targets)]


# ---- following the flow ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def planner() -> FlowPlanner:
    return FlowPlanner(MAZE4_WALLS, MARGIN, HALF)


@pytest.fixture(scope="module")
def starts() -> np.ndarray:
    """Random free places, [goals, STARTS, 2]."""
    points = np.random.default_rng(0).uniform(-HALF, HALF, (400, 2))
    free = points[distance_to_walls(points).min(-1) >= MARGIN]
    return free[: len(MAZE4_GOALS) * STARTS].reshape(-1, STARTS, 2)


@pytest.fixture(scope="module")
def paths(planner: FlowPlanner, starts: np.ndarray) -> np.ndarray:
    """Where small steps along the flow lead, [goals, STARTS, STEPS + 1, 2]."""

    def step(position: Any, _: None, flow: Flow) -> tuple[Any, Any]:
        return position + STEP * planner.towards(position, flow), position

    @jax.jit
    @partial(jax.vmap, in_axes=(0, None))
    def follow(start: Any, flow: Flow) -> Any:
        return jax.lax.scan(partial(step, flow=flow), start, length=STEPS)[1]

    flows = [planner.plan(goal) for goal in MAZE4_GOALS]
    return np.stack([follow(jnp.asarray(s, jnp.float32), flow) for s, flow in zip(starts, flows, strict=True)])


def arrivals(paths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first step within a step's length of the goal, and whether there is one."""
    near = np.linalg.norm(paths - MAZE4_GOALS[:, None, None], axis=-1) < STEP
    return near.argmax(-1), near.any(-1)


def test_following_the_flow_leads_to_the_goal_from_everywhere(paths: np.ndarray) -> None:
    _, arrived = arrivals(paths)
    assert arrived.all()


def test_following_the_flow_keeps_the_margin_from_every_wall(paths: np.ndarray, planner: FlowPlanner) -> None:
    """Short of a cell, for tight paths, and of half a cell's diagonal, for positions off a cell's centre."""
    closest = distance_to_walls(paths).min()
    assert closest > MARGIN - planner.spacing * (1 + 0.5**0.5)
    assert closest > SPHERE.contact


def test_paths_along_the_flow_are_within_two_percent_of_the_shortest(paths: np.ndarray, starts: np.ndarray) -> None:
    steps, _ = arrivals(paths)
    for goal, start, taken in zip(MAZE4_GOALS, starts, steps, strict=True):
        best = shortest(start, goal[None])[:, 0]
        assert np.isfinite(best).all()
        np.testing.assert_allclose(taken * STEP, best, rtol=0.02, atol=STEP)


def test_the_flow_stands_still_at_the_goal(planner: FlowPlanner) -> None:
    goal = MAZE4_GOALS[0]
    np.testing.assert_allclose(planner.towards(jnp.asarray(goal, jnp.float32), planner.plan(goal)), 0, atol=1e-3)


def test_from_inside_a_walls_margin_the_flow_leads_out_first(planner: FlowPlanner) -> None:
    """Just right of a long vertical wall, one cell inside the margin: the way out is to the right."""
    wall_x = 1.0
    inside = jnp.array([wall_x + 0.05, 0.0])
    for goal in MAZE4_GOALS:
        direction = planner.towards(inside, planner.plan(goal))
        assert float(direction[0]) > 0.95
