"""The arm against MuJoCo, which is given the same joints and shapes, and against brute force."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from seerax.experts.arm import (
    FOREARM_RADIUS,
    HAND,
    HAND_RADIUS,
    WAM_ROWS,
    WAM_TOOL,
    Boxes,
    Capsules,
    body,
    gaps,
)
from seerax.problems import shelf
from seerax.problems.shelf import OBJECT_HALF, OBJECT_HIGH, OBJECT_LOW, OBJECT_RADIUS, STRIDE, WAM

MANY = 2000
PARTS = ["forearm", "palm", "upper finger", "lower finger", "thumb"]
THINGS = ["lower plate", "upper plate", "right wall", "left wall", "back", "object"]

frames = jax.jit(jax.vmap(WAM.frames))
points = jax.jit(jax.vmap(lambda joints: WAM.point(WAM.frames(joints))))
moved = jax.jit(jax.vmap(WAM.moved))
clearances = jax.jit(
    jax.vmap(lambda joints, latent: gaps(body(WAM.frames(joints)), shelf.obstacles(latent)))
)


def within_limits(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(WAM.low, WAM.high, (count, 7)).astype(np.float32)


@pytest.fixture(scope="module")
def around_the_shelf() -> tuple[np.ndarray, np.ndarray]:
    """(joints, objects): hands brought into and around the shelf as if nothing were solid, then
    shaken a little.
    """
    rng = np.random.default_rng(1)
    targets = rng.uniform((-0.25, -0.75, 0.0), (0.2, 0.0, 0.6), (MANY, 3)).astype(np.float32)
    joints = np.tile(WAM.rest, (MANY, 1)).astype(np.float32)
    for _ in range(60):
        joints = moved(joints, np.clip(targets - points(joints), -STRIDE, STRIDE))
    shaken = np.clip(joints + rng.normal(0, 0.05, joints.shape), WAM.low, WAM.high).astype(
        np.float32
    )
    places = rng.uniform(OBJECT_LOW, OBJECT_HIGH, (MANY, 2))
    near = np.where(rng.random(MANY) < 0.5, 1, 0)[:, None]
    places = near * (targets[:, :2] + rng.normal(0, 0.08, (MANY, 2))) + (1 - near) * places
    heights = np.where(targets[:, 2] < 0.28, *shelf.OBJECT_HEIGHTS)
    return shaken, np.column_stack([places, heights]).astype(np.float32)


# ---- MuJoCo --------------------------------------------------------------------------------------


def numbers(values: Any) -> str:
    return " ".join(f"{value:.9g}" for value in values)


def capsule(name: str, ends: np.ndarray, radius: float) -> str:
    shape = f'type="capsule" fromto="{numbers(np.ravel(ends))}" size="{radius}"'
    return f'<geom name="{name}" {shape} contype="1" conaffinity="0"/>'


def link(number: int) -> str:
    """Joint `number`, all that it carries, and the links beyond it: a body for every row, hinged
    about its own z.
    """
    a, alpha, d = WAM_ROWS[number]
    geoms = (
        capsule("forearm", np.array([(0, 0, 0), (0, 0, d)]), FOREARM_RADIUS) if number == 4 else ""
    )
    place = (
        f'pos="{numbers((a, 0, d))}" quat="{numbers((np.cos(alpha / 2), np.sin(alpha / 2), 0, 0))}"'
    )
    beyond = link(number + 1) if number < 6 else hand()
    return f'<joint type="hinge" axis="0 0 1"/>{geoms}<body {place}>{beyond}</body>'


def hand() -> str:
    from_flange = HAND - np.array([0, 0, WAM_ROWS[-1, 2]])
    geoms = [
        capsule(name, *part)
        for name, *part in zip(PARTS[1:], from_flange, HAND_RADIUS, strict=True)
    ]
    return "".join(geoms) + f'<site name="grip" pos="0 0 {WAM_TOOL - WAM_ROWS[-1, 2]}"/>'


def plate(name: str, low: np.ndarray, high: np.ndarray) -> str:
    shape = f'type="box" pos="{numbers((low + high) / 2)}" size="{numbers((high - low) / 2)}"'
    return f'<geom name="{name}" {shape} contype="0" conaffinity="1"/>'


def model(thing: str) -> str:
    """The arm, the shelf and the object, whose shape is given.

    Masses do not matter: nothing moves by itself.
    """
    plates = "".join(
        plate(name, *corners) for name, *corners in zip(THINGS, *shelf.shelf(), strict=False)
    )
    axes = f'xyaxes="{numbers(np.ravel(WAM.stand[:2]))}"'
    return f"""<mujoco><compiler angle="radian" boundmass="0.1" boundinertia="0.1"/><worldbody>
        {plates}<body pos="{numbers(WAM.base)}" {axes}>{link(0)}</body>
        <body name="object" mocap="true">
          <geom name="object" {thing} contype="0" conaffinity="1"/>
        </body>
        </worldbody></mujoco>"""


ROUND = f'type="capsule" size="{OBJECT_RADIUS} {OBJECT_HALF - OBJECT_RADIUS}"'
CYLINDER = f'type="cylinder" size="{OBJECT_RADIUS} {OBJECT_HALF}"'


class Simulator:
    """MuJoCo holding the arm still at given joints."""

    def __init__(self, thing: str = ROUND):
        self.mujoco = pytest.importorskip("mujoco")
        self.model = self.mujoco.MjModel.from_xml_string(model(thing))
        self.data = self.mujoco.MjData(self.model)

    def place(self, joints: np.ndarray, latent: np.ndarray) -> None:
        self.data.qpos[:], self.data.mocap_pos[0] = joints, latent
        self.mujoco.mj_forward(self.model, self.data)

    def touching(self) -> np.ndarray:
        """[part, thing]"""
        hits = np.zeros((len(PARTS), len(THINGS)), bool)
        for contact in self.data.contact:
            names = [self.model.geom(number).name for number in contact.geom]
            part, thing = sorted(names, key=lambda name: name in THINGS)
            hits[PARTS.index(part), THINGS.index(thing)] = True
        return hits

    def distances(self) -> np.ndarray:
        def between(part: str, thing: str) -> float:
            pair = self.model.geom(part).id, self.model.geom(thing).id
            return self.mujoco.mj_geomDistance(self.model, self.data, *pair, 10.0, None)

        return np.array([[between(part, thing) for thing in THINGS] for part in PARTS])


def test_the_hand_is_where_mujoco_has_it() -> None:
    simulator, joints = Simulator(), within_limits(MANY)
    ours = points(joints)
    for q, point in zip(joints, ours, strict=True):
        simulator.place(q, np.zeros(3))
        np.testing.assert_allclose(simulator.data.site("grip").xpos, point, atol=1e-5)


def test_every_part_is_where_mujoco_has_it() -> None:
    simulator, joints = Simulator(), within_limits(200, seed=1)
    middles = jax.vmap(lambda q: body(WAM.frames(q)).ends.mean(1))(joints)
    for q, parts in zip(joints, middles, strict=True):
        simulator.place(q, np.zeros(3))
        theirs = [simulator.data.geom(part).xpos for part in PARTS]
        np.testing.assert_allclose(theirs, parts, atol=1e-5)


def test_contacts_are_those_of_mujoco(around_the_shelf: tuple[np.ndarray, np.ndarray]) -> None:
    """Pair by pair, but for fingers that pierce a plate from side to side, which MuJoCo sometimes
    misses.
    """
    simulator, (joints, latents) = Simulator(), around_the_shelf
    apart = np.asarray(clearances(joints, latents))
    theirs = np.zeros(apart.shape, bool)
    for i, (q, latent) in enumerate(zip(joints, latents, strict=True)):
        simulator.place(q, latent)
        theirs[i] = simulator.touching()
    assert 0.2 < theirs.any((1, 2)).mean() < 0.8  # the comparison is about both
    assert (theirs.any(1).sum(0) >= 10).all()  # and about every thing
    assert ((apart < 0).any((1, 2)) == theirs.any((1, 2))).mean() >= 0.99
    through = apart + np.array([FOREARM_RADIUS, *HAND_RADIUS])[:, None] < 1e-6
    clear = (np.abs(apart) > 1e-5) & ~through
    assert ((apart < 0) == theirs)[clear].all()


def test_distances_are_those_of_mujoco(around_the_shelf: tuple[np.ndarray, np.ndarray]) -> None:
    simulator, (joints, latents) = Simulator(), around_the_shelf
    ours = np.asarray(clearances(joints, latents))[:300]
    for q, latent, apart in zip(joints, latents, ours, strict=False):
        simulator.place(q, latent)
        theirs = simulator.distances()
        clear = apart > 1e-3  # once shapes overlap, depth is another notion
        np.testing.assert_allclose(theirs[clear], apart[clear], atol=2e-4)


def test_round_ends_hardly_matter(around_the_shelf: tuple[np.ndarray, np.ndarray]) -> None:
    """The object is a cylinder; ours has round ends.

    So it can only be touched less often, by a little.
    """
    simulator, (joints, latents) = Simulator(CYLINDER), around_the_shelf
    ours = np.asarray(clearances(joints, latents))[..., -1].min(-1) < 0
    theirs = np.zeros_like(ours)
    for i, (q, latent) in enumerate(zip(joints, latents, strict=True)):
        simulator.place(q, latent)
        theirs[i] = simulator.touching()[:, -1].any()
    assert theirs.sum() > 50
    assert not (ours & ~theirs).any()
    assert (ours != theirs).mean() < 0.04


# ---- distances -----------------------------------------------------------------------------------

coordinate = st.floats(-1, 1, width=32).map(lambda x: round(x, 3))
triple = st.tuples(coordinate, coordinate, coordinate).map(np.array)


def to_box(point: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
    return float(np.linalg.norm(point - np.clip(point, low, high)))


@given(triple, triple, triple, triple)
def test_the_gap_is_the_smallest_distance(
    start: np.ndarray, end: np.ndarray, one: np.ndarray, other: np.ndarray
) -> None:
    """Of all points of the segment to the box; segments along an axis, points and plates without
    width included.
    """
    low, high = np.minimum(one, other), np.maximum(one, other)
    found = gaps(
        Capsules(jnp.array([[start, end]]), jnp.array([0.1])),
        Boxes(low[None], high[None], jnp.array([0.02])),
    )
    along = lambda t: to_box(start + t * (end - start), low, high)  # noqa: E731
    inner = minimize_scalar(along, bounds=(0, 1), method="bounded", options={"xatol": 1e-9}).fun
    assert float(found[0, 0]) + 0.12 == pytest.approx(min(inner, along(0), along(1)), abs=2e-5)


# ---- motion --------------------------------------------------------------------------------------


def test_the_jacobian_is_the_derivative() -> None:
    joints = within_limits(200, seed=2)

    def turning(q: jax.Array) -> jax.Array:
        """The rotation vector of a small turn away from here, by its derivative."""
        axes = WAM.frames(q).hand
        rates = jax.jacfwd(lambda q: WAM.frames(q).hand)(q)
        return 0.5 * jnp.cross(axes[:, None], jnp.moveaxis(rates, 2, 1)).sum(0)

    ours = jax.vmap(lambda q: WAM.jacobian(WAM.frames(q)))(joints)
    moving = jax.vmap(jax.jacfwd(lambda q: WAM.point(WAM.frames(q))))(joints)
    np.testing.assert_allclose(ours[..., :3], jnp.swapaxes(moving, 1, 2), atol=1e-5)
    np.testing.assert_allclose(ours[..., 3:], jax.vmap(turning)(joints), atol=1e-5)


def test_the_arm_stands_where_the_authors_put_it() -> None:
    """Their first posture has the grip at (-0.349, -0.207, 0.123); their joint 1 counts from half a
    turn away.
    """
    theirs = np.array([5.65 - np.pi, -1.76, -0.26, 1.96, -1.15, 0.87, -1.43])
    np.testing.assert_allclose(points(theirs[None])[0], (-0.349, -0.207, 0.123), atol=6e-4)
    np.testing.assert_allclose(points(WAM.rest[None])[0], (-0.349, -0.207, 0.123), atol=2e-3)
    elbows = [frames(q[None]).origins[0, 3] for q in (theirs, WAM.rest)]
    np.testing.assert_allclose(*elbows, atol=0.02)


def test_no_joint_leaves_its_limits_nor_turns_too_fast() -> None:
    joints = within_limits(MANY, seed=3)
    by = np.random.default_rng(4).uniform(-0.3, 0.3, (MANY, 3)).astype(np.float32)
    for _ in range(20):
        following = moved(joints, by)
        assert (following >= WAM.low.astype(np.float32)).all() and (
            following <= WAM.high.astype(np.float32)
        ).all()
        assert np.abs(following - joints).max() <= WAM.fastest + 1e-5
        joints = following


def test_one_step_follows_a_move_to_a_fifth_of_a_millimetre() -> None:
    """To the 3 x 3 x 3 corners and middles of where the hand has work to do, there and back, at
    full speed.
    """
    axes = [(-0.2, -0.04, 0.12), (-0.575, -0.375, -0.175), (0.12, 0.3, 0.47)]
    targets = np.stack(np.meshgrid(*axes), -1).reshape(-1, 3).astype(np.float32)
    joints = np.tile(WAM.rest, (len(targets), 1)).astype(np.float32)
    home = points(joints)
    for goal in [targets] * 60 + [home] * 60:
        by = np.clip(goal - points(joints), -STRIDE, STRIDE)
        following = moved(joints, by)
        assert np.linalg.norm(points(following) - points(joints) - by, axis=-1).max() < 2e-4
        tilt = np.arccos(np.clip(frames(following).hand[:, 2, 0], -1, 1))
        assert tilt.max() < 0.3
        joints = following
        if goal is targets:
            reached = points(joints)
    np.testing.assert_allclose(reached, targets, atol=2e-4)
    np.testing.assert_allclose(points(joints), home, atol=2e-4)
