"""Flow fields from shortest paths around walls: planned once, then looked up."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

# One move in each of 16 directions: to the eight neighbours, and the eight knight's moves.
MOVES = [
    (i, j)
    for i in range(-2, 3)
    for j in range(-2, 3)
    if max(abs(i), abs(j)) == 1 or abs(i * j) == 2
]


def distance_to_segments(points: np.ndarray, segments: np.ndarray) -> np.ndarray:
    """Returns the distances [n, m] of points [n, 2] to segments [m, 2 (ends), 2].

    It computes with components, which is many times as fast as with vectors of two.
    """
    (start_x, start_y), (end_x, end_y) = segments.transpose(1, 2, 0)
    along_x = end_x - start_x
    along_y = end_y - start_y
    x = points[:, :1] - start_x
    y = points[:, 1:] - start_y
    share = np.clip((x * along_x + y * along_y) / (along_x**2 + along_y**2), 0, 1)
    return np.sqrt((x - share * along_x) ** 2 + (y - share * along_y) ** 2)


def clearance(a: np.ndarray, b: np.ndarray, segments: np.ndarray) -> np.ndarray:
    """Returns the distance of each straight way a-b to the segments, [n]: 0 where they cross."""
    ways = np.stack([a, b], axis=1)
    ends = distance_to_segments(ways.reshape(-1, 2), segments).min(-1).reshape(-1, 2).min(-1)
    tips = distance_to_segments(segments.reshape(-1, 2), ways).min(0)
    return np.where(crosses(ways, segments).any(-1), 0.0, np.minimum(ends, tips))


def crosses(ways: np.ndarray, segments: np.ndarray) -> np.ndarray:
    """True, [n, m], where a straight way [n, 2, 2] properly crosses a segment [m, 2, 2]."""

    def side(p: np.ndarray, q: np.ndarray, r: np.ndarray) -> np.ndarray:
        u = q - p
        v = r - p
        return np.sign(u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0])

    a, b = ways[:, None, 0], ways[:, None, 1]
    c, d = segments[None, :, 0], segments[None, :, 1]
    return (side(a, b, c) * side(a, b, d) < 0) & (side(c, d, a) * side(c, d, b) < 0)


class Flow(NamedTuple):
    """The plan of a motion-planning expert: for every cell of a grid, where to head for."""

    # [nx, ny, 2]: the farthest point of the shortest path that a straight line can reach.
    target: Array


@dataclass(frozen=True)
class FlowPlanner:
    """A planner of shortest any-angle paths for a disc among walls, on a grid over [-half, half]^2.

    The disc keeps `margin` from the walls' centre lines; cells closer than that head for the
    nearest free cell.
    """

    walls: np.ndarray  # [m, 2 (ends), 2]
    margin: float
    half: float
    spacing: float = 0.02

    @cached_property
    def axis(self) -> np.ndarray:
        """Returns the coordinates of the cells along one axis."""
        count = round(2 * self.half / self.spacing) + 1
        return np.linspace(-self.half, self.half, count)

    @cached_property
    def cells(self) -> np.ndarray:
        """Returns the centres of all cells, [n, 2]."""
        return np.stack(np.meshgrid(self.axis, self.axis, indexing="ij"), -1).reshape(-1, 2)

    @cached_property
    def room(self) -> np.ndarray:
        """Returns the distance of every cell to the nearest wall."""
        return distance_to_segments(self.cells, self.walls).min(-1)

    def plan(self, goal: np.ndarray) -> Flow:
        """Runs Dijkstra's algorithm from the goal and pulls every path tight.

        A cell heads for the target of its predecessor if it can see that, else for the predecessor.
        """
        goal = np.asarray(goal, float)
        far = np.linalg.norm(self.cells - goal, axis=1)
        source = int(np.argmin(far + 1e3 * (self.room < self.margin)))
        distance, before = dijkstra(self.graph, indices=source, return_predecessors=True)
        target = self.cells.copy()
        target[source] = goal
        for level in tree_levels(before):
            parent = before[level]
            straight = (
                clearance(self.cells[level], target[parent], self.walls) >= self.margin - 1e-9
            )
            target[level] = np.where(straight[:, None], target[parent], self.cells[parent])
        reached = np.isfinite(distance)
        target[~reached] = self._rescued(reached, target)
        side = len(self.axis)
        return Flow(jnp.asarray(target.reshape(side, side, 2).astype(np.float32)))

    def target(self, position: Array, flow: Flow) -> Array:
        """Returns where to head for from a position."""
        side = flow.target.shape[0]
        cell = jnp.clip(jnp.round((position + self.half) / self.spacing).astype(int), 0, side - 1)
        return flow.target[cell[0], cell[1]]

    def towards(self, position: Array, flow: Flow) -> Array:
        """Returns the unit vector from a position along its shortest path (zero at the goal)."""
        offset = self.target(position, flow) - position
        return offset / jnp.maximum(jnp.linalg.norm(offset), 1e-6)

    def _rescued(self, reached: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Returns targets of the cells that no path reached.

        Each takes the target of the nearest reached cell if the straight way there is nearly as
        free as a path, else that cell: a tight path cuts through cells whose centres are off it.
        """
        _, nearest = cKDTree(self.cells[reached]).query(self.cells[~reached])
        there = target[reached][nearest]
        straight = clearance(self.cells[~reached], there, self.walls) >= self.margin - self.spacing
        return np.where(straight[:, None], there, self.cells[reached][nearest])

    @cached_property
    def graph(self) -> csr_array:
        """Returns the edges between free cells, one move apart, whose way keeps the margin."""
        side = len(self.axis)
        count = len(self.cells)
        index = np.arange(count).reshape(side, side)
        starts = []
        ends = []
        for i, j in MOVES:
            a = index[max(0, -i) : side - max(0, i), max(0, -j) : side - max(0, j)].ravel()
            starts.append(a)
            ends.append(a + i * side + j)
        a, b = np.concatenate(starts), np.concatenate(ends)
        a, b = (kept[np.minimum(self.room[a], self.room[b]) >= self.margin] for kept in (a, b))
        length = np.linalg.norm(self.cells[a] - self.cells[b], axis=1)
        clear = np.minimum(self.room[a], self.room[b]) >= self.margin + length / 2
        close = np.flatnonzero(~clear)
        clear[close] = (
            clearance(self.cells[a[close]], self.cells[b[close]], self.walls) >= self.margin - 1e-9
        )
        return coo_array((length[clear], (a[clear], b[clear])), shape=(count, count)).tocsr()


def tree_levels(before: np.ndarray) -> list[np.ndarray]:
    """Groups the nodes of a predecessor tree by their number of hops from the root, without it."""
    hops = (before >= 0).astype(int)
    ancestor = np.where(before >= 0, before, np.arange(before.size))
    while hops[ancestor].any():  # each node knows its ancestor 1, 2, 4, ... hops up
        hops, ancestor = hops + hops[ancestor], ancestor[ancestor]
    _, *levels = np.split(np.argsort(hops, kind="stable"), np.cumsum(np.bincount(hops))[:-1])
    return levels
