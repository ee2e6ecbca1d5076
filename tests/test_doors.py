"""Door4: motion in float64, flags that no speed can fool, Bayes' rule written out, experts that
know.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest

from seerax import advice, rollout
from seerax.core import BeliefMDP, Situation
from seerax.problems import doors, pointmass
from seerax.problems.doors import Doors, DoorState

matplotlib.use("Agg")

DOORS_X, WALL_Y, CONTACT = np.array([-1.0, -0.4, 0.4, 1.0]), 0.3, 0.0849
PIECES = [(-1.5, -1.2), (-0.8, -0.6), (-0.2, 0.2), (0.6, 0.8), (1.2, 1.5)]
FASTEST = 4.5  # m/s along y; full thrust from the bottom to the wall gives 3.5


@pytest.fixture(scope="module")
def mdp() -> BeliefMDP:
    return doors.door4()


# ---- independent answers -------------------------------------------------------------------------


def walls_of(latent: np.ndarray) -> list[tuple[float, float]]:
    """x-ranges of all that blocks."""
    closed = [(x - 0.2, x + 0.2) for x, is_open in zip(DOORS_X, latent, strict=True) if not is_open]
    return PIECES + closed


def moved(
    position: np.ndarray, velocity: np.ndarray, thrust: np.ndarray, latent: np.ndarray
) -> tuple:
    """Five substeps of 0.01 s: the exact solution, then out of the deepest wall (twice), then into
    the arena.
    """
    for _ in range(5):
        terminal, rate = 20 * thrust, 0.1 / 0.5336
        fade = np.exp(-rate * 0.01)
        position = position + terminal * 0.01 + (velocity - terminal) * (1 - fade) / rate
        velocity = terminal + (velocity - terminal) * fade
        for _ in range(2):
            nearest = [np.array([np.clip(position[0], *ends), WALL_Y]) for ends in walls_of(latent)]
            closest = min(nearest, key=lambda point: np.hypot(*(position - point)))
            away = position - closest
            depth = CONTACT - np.hypot(*away)
            if depth > 0:
                normal = away / np.hypot(*away)
                position = position + depth * normal
                velocity = velocity - min(velocity @ normal, 0) * normal
        velocity = np.where(np.abs(position) > 1.4, 0.0, velocity)
        position = np.clip(position, -1.4, 1.4)
    return position, velocity


def accuracy(position: np.ndarray) -> np.ndarray:
    return 0.5 + 0.5 * np.exp(-np.hypot(DOORS_X - position[0], WALL_Y - position[1]))


def at(x: float, y: float, vx: float = 0.0, vy: float = 0.0, **more: np.ndarray) -> DoorState:
    none = {
        "crashed": np.zeros(4, bool),
        "passed": np.zeros(4, bool),
        "reading": np.zeros(4),
        "sensed": False,
    }
    fields = {name: jnp.asarray(value) for name, value in (none | more).items()}
    return DoorState(jnp.array([x, y]), jnp.array([vx, vy]), **fields)


ALL = np.array([[int(bit) for bit in f"{number:04b}"] for number in range(16)], float)
step_many = jax.jit(jax.vmap(Doors().step))


# ---- problem -------------------------------------------------------------------------------------


def test_motion_equals_float64() -> None:
    rng = np.random.default_rng(0)
    for latent in ALL[[0, 5, 10, 15]]:
        position, velocity = rng.uniform(-1.3, 1.3, (64, 2)), rng.uniform(-3, 3, (64, 2))
        position[np.abs(position[:, 1] - WALL_Y) < 0.1] -= [0, 0.3]
        thrust = rng.uniform(-1, 1, (64, 3))
        start = jax.vmap(lambda p, v: at(0, 0)._replace(position=p, velocity=v))(
            jnp.asarray(position), jnp.asarray(velocity)
        )
        latents = jnp.broadcast_to(jnp.asarray(latent), (64, 4))
        state = step_many(
            jax.random.split(jax.random.key(0), 64), start, jnp.asarray(thrust), latents
        ).state
        expected = [
            moved(*row, latent) for row in zip(position, velocity, thrust[:, :2], strict=True)
        ]
        np.testing.assert_allclose(state.position, [p for p, _ in expected], atol=2e-5)
        np.testing.assert_allclose(state.velocity, [v for _, v in expected], atol=2e-4)


def test_free_motion_reaches_its_terminal_speed() -> None:
    body = pointmass.SPHERE
    far = jnp.array([[(50.0, 50.0), (51.0, 50.0)]])
    motion = pointmass.move(body, far, 1e3, jnp.zeros(2), jnp.zeros(2), jnp.array([1.0, -0.5]))
    t = body.seconds
    speed = 20 * (1 - np.exp(-t * 0.1 / 0.5336))
    np.testing.assert_allclose(motion.velocity, [speed, -speed / 2], rtol=1e-4)
    np.testing.assert_allclose(motion.path[0], 0)
    np.testing.assert_allclose(motion.path[-1], motion.position)
    assert not motion.touched.any()


def test_absent_walls_neither_block_nor_count() -> None:
    walls = jnp.array([[(-1.0, 0.1), (1.0, 0.1)], [(-1.0, 0.12), (1.0, 0.12)]])
    push = partial(
        pointmass.move,
        pointmass.SPHERE,
        walls,
        1.4,
        jnp.zeros(2),
        jnp.array([0.0, 1.0]),
        jnp.zeros(2),
    )
    blocked, free = push(there=jnp.array([False, True])), push(there=jnp.array([False, False]))
    assert blocked.touched.tolist() == [False, True]
    assert blocked.position[1] == pytest.approx(0.12 - CONTACT, abs=1e-6)
    assert free.touched.tolist() == [False, False]
    assert free.position[1] > 0.045


def rushing(key: jax.Array, count: int) -> tuple[DoorState, jax.Array]:
    """Agents just before the wall, above or below, that rush at it at any angle and up to the
    fastest speed.
    """
    x_key, y_key, v_key, u_key = jax.random.split(key, 4)
    side = jnp.where(jnp.arange(count) % 2, 1.0, -1.0)  # of the wall
    x = jax.random.uniform(x_key, (count,), minval=-1.35, maxval=1.35)
    y = WALL_Y + side * jax.random.uniform(y_key, (count,), minval=CONTACT, maxval=0.25)
    velocity = jax.random.uniform(
        v_key, (count, 2), minval=jnp.array([-2, 0.2]), maxval=jnp.array([2, FASTEST])
    )
    start = jax.vmap(lambda x, y: at(0, 0)._replace(position=jnp.stack([x, y])))(x, y)
    thrust = jax.random.uniform(u_key, (count, 3), minval=-1)
    return start._replace(velocity=velocity.at[:, 1].multiply(-side)), thrust


@pytest.mark.parametrize("number", [0, 1, 6, 8, 13, 15])
def test_no_speed_confuses_crash_and_passage(number: int) -> None:
    """Whoever changes sides raises one flag, of an open door; whoever touches a closed door is
    stopped by it.
    """
    count = 20000
    state, action = rushing(jax.random.key(number), count)
    latents = jnp.broadcast_to(jnp.asarray(ALL[number]), (count, 4))
    is_open = ALL[number] == 1
    crossed_ever = np.zeros(count, bool)
    for time in range(3):
        after = step_many(
            jax.random.split(jax.random.key(time), count), state, action, latents
        ).state
        crossed = np.asarray((state.position[:, 1] > WALL_Y) != (after.position[:, 1] > WALL_Y))
        passed, crashed = np.asarray(after.passed), np.asarray(after.crashed)
        np.testing.assert_array_equal(passed.sum(-1), crossed)
        assert not passed[:, ~is_open].any()
        assert not crashed[:, is_open].any()
        door = np.abs(np.asarray(after.position)[:, :1] - DOORS_X).argmin(-1)
        np.testing.assert_array_equal(passed[crossed].argmax(-1), door[crossed])
        state, crossed_ever = after, crossed_ever | crossed
    assert (crossed_ever.mean() > 0.05) == is_open.any()
    assert crossed_ever.any() == is_open.any()


def test_a_head_on_crash_is_felt_and_stops() -> None:
    count = 400
    speeds = jnp.linspace(1.8, FASTEST, count // 4).repeat(4)
    x = jnp.tile(jnp.asarray(DOORS_X), count // 4)
    start = jax.vmap(
        lambda x, v: at(0, 0)._replace(position=jnp.stack([x, 0.14]), velocity=jnp.stack([0.0, v]))
    )(x, speeds)
    keys, up = (
        jax.random.split(jax.random.key(0), count),
        jnp.tile(jnp.array([0.0, 1.0, -1.0]), (count, 1)),
    )
    after, reward, terminated = step_many(keys, start, up, jnp.zeros((count, 4)))
    np.testing.assert_array_equal(after.crashed, np.tile(np.eye(4, dtype=bool), (count // 4, 1)))
    np.testing.assert_allclose(after.position[:, 1], WALL_Y - CONTACT, atol=1e-6)
    np.testing.assert_array_equal(reward, -10)
    assert not terminated.any()
    through = step_many(keys, start, up, jnp.ones((count, 4))).state
    beyond = np.asarray(through.position[:, 1:] > WALL_Y)
    np.testing.assert_array_equal(through.passed, beyond & np.asarray(after.crashed))
    assert beyond.mean() > 0.5


def test_every_step_against_a_closed_door_costs_ten() -> None:
    step, state, rewards, crashes = jax.jit(Doors().step), at(0.4, 0.1), [], 0
    for time in range(20):
        state, reward, _ = step(
            jax.random.key(time), state, jnp.array([0.0, 1.0, 1.0]), jnp.array([1.0, 1.0, 0.0, 1.0])
        )
        rewards.append(float(reward))
        crashes += bool(state.crashed[2])
    assert rewards[-10:] == [-11.0] * 10  # one of it for sensing
    assert crashes == sum(reward == -11.0 for reward in rewards)
    state, reward, _ = step(
        jax.random.key(0), state, jnp.array([0.0, -1.0, -1.0]), jnp.array([1.0, 1.0, 0.0, 1.0])
    )
    assert float(reward) == 0.0


@pytest.mark.parametrize(("x", "inside"), [(0.19, True), (0.21, False)])
def test_target_ends_with_a_hundred(x: float, inside: bool) -> None:
    state, reward, terminated = Doors().step(
        jax.random.key(0), at(x, 1.2), jnp.array([0.0, 0.0, -1.0]), jnp.ones(4)
    )
    assert bool(terminated) is inside
    assert float(reward) == 100.0 * inside
    assert bool(Doors().succeeded(state, jnp.ones(4), terminated)) is inside


def test_each_door_matters() -> None:
    for door, x in enumerate(DOORS_X):
        step = partial(
            Doors().step, jax.random.key(0), at(x, 0.2, 0.0, 1.5), jnp.array([0.0, 1.0, -1.0])
        )
        is_open, closed = step(jnp.ones(4)).state, step(jnp.ones(4).at[door].set(0)).state
        assert is_open.position[1] > closed.position[1] + 0.03


def test_sensor_is_as_accurate_as_it_should_be() -> None:
    count, latent = 20000, jnp.array([1.0, 0.0, 0.0, 1.0])
    for x, y in ((-0.9, 0.1), (0.3, -1.0)):
        sense = partial(
            Doors().step, state=at(x, y), action=jnp.array([0.0, 0.0, 1.0]), latent=latent
        )
        state = jax.jit(jax.vmap(lambda key, sense=sense: sense(key).state))(
            jax.random.split(jax.random.key(1), count)
        )
        right = np.asarray((state.reading == 1) == (latent == 1)).mean(0)
        p = accuracy(np.array([x, y]))
        assert np.abs((right - p) / np.sqrt(p * (1 - p) / count)).max() < 4
    quiet = Doors().step(jax.random.key(2), at(0.0, 0.0), jnp.array([0.0, 0.0, -1.0]), latent).state
    assert not quiet.reading.any()


# ---- belief --------------------------------------------------------------------------------------


def test_prior_is_uniform_over_fifteen(mdp: BeliefMDP) -> None:
    np.testing.assert_allclose(mdp.filter.vector(mdp.filter.init()), [0] + [1 / 15] * 15, atol=1e-7)
    np.testing.assert_array_equal(mdp.filter.support, ALL)  # type: ignore[attr-defined]
    latents = np.asarray(jax.vmap(Doors().prior)(jax.random.split(jax.random.key(3), 15000)))
    counts = np.bincount((latents @ [8, 4, 2, 1]).astype(int), minlength=16)
    assert counts[0] == 0
    assert np.abs((counts[1:] - 1000) / np.sqrt(1000)).max() < 4


def test_belief_equals_brute_force(mdp: BeliefMDP) -> None:
    rng = np.random.default_rng(4)
    update = jax.jit(mdp.filter.update)
    for _ in range(20):
        belief, exact = mdp.filter.init(), np.append(0.0, np.ones(15))
        truth = ALL[rng.integers(1, 16)]
        for _ in range(4):
            position, sensed = rng.uniform(-1.4, 1.4, 2), bool(rng.random() < 0.7)
            right = rng.random(4) < accuracy(position)
            reading = np.where(right == (truth == 1), 1.0, -1.0) * sensed
            hit = (np.arange(4) == rng.integers(12)) & ~truth.astype(bool)
            passed = (np.arange(4) == rng.integers(12)) & truth.astype(bool)
            after = at(
                *position, crashed=hit, passed=passed, reading=reading, sensed=np.bool_(sensed)
            )
            belief = update(belief, at(0, 0), jnp.zeros(3), after)
            for index, latent in enumerate(ALL):
                agrees = (reading == 1) == (latent == 1)
                told = (
                    np.where(agrees, accuracy(position), 1 - accuracy(position))
                    if sensed
                    else np.ones(4)
                )
                exact[index] *= told.prod() * (latent[hit] == 0).all() * (latent[passed] == 1).all()
        np.testing.assert_allclose(mdp.filter.vector(belief), exact / exact.sum(), atol=2e-5)


def test_belief_is_calibrated(mdp: BeliefMDP) -> None:
    """Truth and a posterior sample are exchangeable at a fixed time: before the wall, and at it."""
    count, times = 10000, (8, 30)

    def play(key: jax.Array) -> tuple:
        def body(world, time):  # type: ignore[no-untyped-def]
            world, _ = mdp.step(jax.random.fold_in(key, time), world, world.situation.advice)
            return world, (world.latent, world.situation.belief)

        return jax.lax.scan(body, mdp.reset(key), 1 + jnp.arange(max(times)))[1]

    truths, beliefs = jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(5), count))
    for time in times:
        truth, belief = truths[:, time - 1], beliefs[:, time - 1]
        drawn = jax.vmap(mdp.filter.sample)(jax.random.split(jax.random.key(time), count), belief)
        mode = jax.vmap(mdp.filter.mode)(belief)
        for statistic in (
            lambda latent, mode: (latent == mode).all(-1).astype(jnp.float32),
            lambda latent, mode: jnp.abs(latent - mode).sum(-1),
            lambda latent, mode: latent @ jnp.array([8.0, 4.0, 2.0, 1.0]),
        ):
            gap = np.asarray(statistic(truth, mode) - statistic(drawn, mode), float)
            assert gap.std() > 0.3  # still undecided
            assert abs(gap.mean() / gap.std() * np.sqrt(count)) < 3


def test_belief_survives_absurd_observations(mdp: BeliefMDP) -> None:
    update, everything = jax.jit(mdp.filter.update), np.ones(4, bool)
    absurd = [
        at(np.nan, 0, sensed=np.bool_(True)),
        at(np.inf, -np.inf, reading=np.ones(4), sensed=np.bool_(True)),
        at(-1, 0.3, reading=-np.ones(4), sensed=np.bool_(True)),
        at(0, 0, crashed=everything, passed=everything),
        at(0, 0, crashed=everything),
        at(0, 0, reading=np.full(4, np.nan), sensed=np.bool_(True)),
    ]
    belief = mdp.filter.init()
    for state in absurd:
        belief = update(belief, at(0, 0), jnp.zeros(3), state)
        assert np.isfinite(belief).all()
        assert np.exp(belief).sum() == pytest.approx(1, abs=1e-5)


# ---- expert --------------------------------------------------------------------------------------


def test_expert_takes_the_closest_open_door() -> None:
    rng = np.random.default_rng(6)
    expert = jax.jit(doors.nearest_door_expert().act)
    for latent in ALL[1:]:
        for x, y in rng.uniform([-1.4, -1.4], [1.4, 0.0], (6, 2)):
            closest = min(DOORS_X[latent == 1], key=lambda door: np.hypot(door - x, 0.3 - y))
            sideways, up, senses = expert(at(x, y), jnp.asarray(latent))
            assert up > 0
            assert senses < 0
            if abs(closest - x) > 0.1:
                assert np.sign(sideways) == np.sign(closest - x)


def test_collapsed_belief_is_its_expert(mdp: BeliefMDP) -> None:
    advisor = advice.weighted(mdp.filter, mdp.expert)  # type: ignore[arg-type]
    state = at(0.15, -0.4, 0.5, 0.2)
    advised = jax.jit(lambda belief: advisor(None, state, belief))  # type: ignore[arg-type]
    different = set()
    for index in range(1, 16):
        belief = jax.nn.log_softmax(jnp.where(jnp.arange(16) == index, 0.0, -1e3))
        expected = mdp.expert.act(state, jnp.asarray(ALL[index], jnp.float32))
        np.testing.assert_allclose(advised(belief), expected, atol=1e-6)
        different.add(tuple(np.round(expected, 4).tolist()))
    assert len(different) == 4


def test_clairvoyant_always_arrives_without_a_crash(mdp: BeliefMDP) -> None:
    told = rollout.evaluate(jax.random.key(7), mdp, advice.Clairvoyant(mdp.expert), 2000)
    np.testing.assert_array_equal(told.returns, 100)
    assert told.lengths.max() < 100


def test_ensemble_leaves_room(mdp: BeliefMDP) -> None:
    played = rollout.evaluate(jax.random.key(8), mdp, advice.follow_advice, 1000)
    assert 65 < played.mean < 78
    assert played.success is not None
    assert played.success.mean() > 0.99
    assert abs(played.summary()["sensing"] - 0.5) < 0.02


# ---- drawing -------------------------------------------------------------------------------------


def test_doors_are_as_red_as_they_are_believed_blocked(mdp: BeliefMDP) -> None:
    from matplotlib.figure import Figure

    weights = np.append(0.0, np.arange(1, 16) / 120)
    ax = Figure().add_subplot()
    state = jax.device_get(at(0.3, -0.2, reading=np.array([1, -1, 1, 1.0]), sensed=np.bool_(True)))
    situation = Situation(state, np.log(np.maximum(weights, 1e-30)), np.array([0.1, 0.9, 0.1]))
    mdp.problem.draw(ax, situation, np.array([0.5, 0.5, 0.1]), ALL[9])  # type: ignore[attr-defined]
    shown = [artist.get_alpha() for artist in ax.get_children() if artist.get_gid() == "door"]
    np.testing.assert_allclose(
        shown, [weights[ALL[:, door] == 0].sum() for door in range(4)], atol=1e-6
    )
    assert sum(artist.get_gid() == "truth" for artist in ax.get_children()) == 2
