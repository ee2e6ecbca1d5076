"""Flow fields against an exact visibility graph, and their geometry against sampled points."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from seerax.experts.flow import FlowPlanner, clearance, crosses, distance_to_segments, tree_levels
from seerax.problems.maze import MAZE4_GOALS, MAZE4_WALLS, MAZE10_BODY, MAZE10_GOALS, maze10_walls
from seerax.problems.pointmass import SPHERE

STARTS = 100  # in every maze, shared out among its goals
STEP, STEPS = 0.004, 3400

# ---- geometry ------------------------------------------------------------------------------------


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
    before = np.array(
        [2, 0, -9999, 2, 3, 4, -9999]
    )  # 0 and 3 hang on the root 2; 6 is out of reach
    assert [sorted(level.tolist()) for level in tree_levels(before)] == [[0, 3], [1, 4], [5]]


# ---- an independent planner ----------------------------------------------------------------------


class Course(NamedTuple):
    """A maze as its experts' planner sees it."""

    walls: np.ndarray
    goals: np.ndarray
    margin: float
    half: float
    contact: float  # closer to a wall's centre line than this the body cannot be

    def distance(self, points: np.ndarray) -> np.ndarray:
        """To every wall, [..., m] for points [..., 2]."""
        return self.distances(points[..., None, :])

    def distances(self, points: np.ndarray) -> np.ndarray:
        """Of one point for each wall, [..., m, 2]: each offset split into a part along the wall and
        one across.
        """
        start, end = self.walls[:, 0], self.walls[:, 1]
        length = np.linalg.norm(end - start, axis=-1)
        along = (end - start) / length[:, None]
        across = np.stack([-along[:, 1], along[:, 0]], axis=-1)
        offset = points - start
        ahead = np.einsum("...mi,mi->...m", offset, along)
        beyond = np.maximum(np.maximum(-ahead, ahead - length), 0)
        return np.hypot(beyond, np.einsum("...mi,mi->...m", offset, across))

    def clear(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Do the straight ways a-b keep the margin? Distance is convex along a way, so thirds are
        cut off.
        """
        shape = (len(a), len(self.walls))
        low, high = np.zeros(shape), np.ones(shape)

        def at(share: np.ndarray) -> np.ndarray:
            return self.distances(a[:, None] + share[..., None] * (b - a)[:, None])

        for _ in range(25):
            first, second = low + (high - low) / 3, high - (high - low) / 3
            downhill = at(first) > at(second)
            low, high = np.where(downhill, first, low), np.where(downhill, high, second)
        return at((low + high) / 2).min(-1) >= self.margin

    def around_corners(self, count: int = 24) -> np.ndarray:
        """Free points on circles round the walls' ends, so large that a chord between neighbours
        keeps the margin.
        """
        angle = 2 * np.pi * np.arange(count) / count
        circle = (
            1.001
            * self.margin
            / np.cos(np.pi / count)
            * np.stack([np.cos(angle), np.sin(angle)], -1)
        )
        points = (self.walls.reshape(-1, 1, 2) + circle).reshape(-1, 2)
        inside = (np.abs(points) <= self.half).all(-1)
        return points[inside & (self.distance(points).min(-1) >= self.margin)]

    def shortest(self, starts: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Length of the shortest way from each start to its goal that keeps the margin, by a
        visibility graph.
        """
        points = np.concatenate([starts, goals, self.around_corners()])
        i, j = np.triu_indices(len(points), 1)
        blocked = crosses(np.stack([points[i], points[j]], 1), self.walls).any(-1)
        i, j = i[~blocked], j[~blocked]
        clear = self.clear(points[i], points[j])
        i, j = i[clear], j[clear]
        graph = csr_array(
            (np.linalg.norm(points[i] - points[j], axis=1), (i, j)), shape=(len(points),) * 2
        )
        return np.diagonal(
            dijkstra(graph, directed=False, indices=np.arange(len(starts)))[:, len(starts) :]
        )


COURSES = {
    "maze4": Course(MAZE4_WALLS, MAZE4_GOALS, 0.12, 1.4, SPHERE.contact),
    "maze10": Course(maze10_walls(), MAZE10_GOALS, 0.07, 1.434, MAZE10_BODY.contact),
}

# ---- following the flow --------------------------------------------------------------------------


class Followed(NamedTuple):
    course: Course
    planner: FlowPlanner
    goals: np.ndarray  # [STARTS, 2]: of each start
    paths: np.ndarray  # [STARTS, STEPS, 2]: where small steps along the flow lead

    def arrivals(self) -> tuple[np.ndarray, np.ndarray]:
        """The first step within a step's length of the goal, and whether there is one."""
        near = np.linalg.norm(self.paths - self.goals[:, None], axis=-1) < STEP
        return near.argmax(-1), near.any(-1)


@pytest.fixture(scope="module", params=COURSES)
def followed(request: pytest.FixtureRequest) -> Followed:
    """From random free places, to each goal in turn."""
    course = COURSES[request.param]
    planner = FlowPlanner(course.walls, course.margin, course.half)
    points = np.random.default_rng(0).uniform(-course.half, course.half, (400, 2))
    starts = points[course.distance(points).min(-1) >= course.margin][:STARTS]
    which = np.arange(STARTS) % len(course.goals)
    flows = jax.tree.map(
        lambda *each: jnp.stack(each), *[planner.plan(goal) for goal in course.goals]
    )

    @jax.jit
    @jax.vmap
    def follow(start: Any, which: Any) -> Any:
        flow = jax.tree.map(lambda leaf: leaf[which], flows)
        return jax.lax.scan(
            lambda at, _: (at + STEP * planner.towards(at, flow), at), start, length=STEPS
        )[1]

    return Followed(
        course,
        planner,
        course.goals[which],
        np.asarray(follow(jnp.asarray(starts, jnp.float32), which)),
    )


def test_following_the_flow_leads_to_the_goal_from_everywhere(followed: Followed) -> None:
    assert followed.arrivals()[1].all()


def test_following_the_flow_keeps_the_margin_from_every_wall(followed: Followed) -> None:
    """Short of a cell, for tight paths, and of half a cell's diagonal, for positions off a cell's
    centre.
    """
    course, closest = followed.course, followed.course.distance(followed.paths).min()
    assert closest > course.margin - followed.planner.spacing * (1 + 0.5**0.5)
    assert closest > course.contact


def test_paths_along_the_flow_are_within_two_percent_of_the_shortest(followed: Followed) -> None:
    """And none is shorter than what the body can do: it would have gone through a wall."""
    starts, taken = followed.paths[:, 0].astype(float), followed.arrivals()[0] * STEP
    best = followed.course.shortest(starts, followed.goals)
    assert np.isfinite(best).all()
    assert (taken <= 1.02 * best + STEP).all()
    touching = followed.course._replace(margin=followed.course.contact)
    assert (taken >= touching.shortest(starts, followed.goals) - 2 * STEP).all()


def test_the_flow_stands_still_at_the_goal(followed: Followed) -> None:
    goal = followed.course.goals[0]
    towards = followed.planner.towards(jnp.asarray(goal, jnp.float32), followed.planner.plan(goal))
    np.testing.assert_allclose(towards, 0, atol=1e-3)


def test_from_inside_a_walls_margin_the_flow_leads_out_first() -> None:
    """Right of a long vertical wall, one cell inside the margin: the way out is to the right."""
    course, wall_x = COURSES["maze4"], 1.0
    planner, inside = (
        FlowPlanner(course.walls, course.margin, course.half),
        jnp.array([wall_x + 0.05, 0.0]),
    )
    for goal in course.goals:
        direction = planner.towards(inside, planner.plan(goal))
        assert float(direction[0]) > 0.95
