"""ArmShelf: its physics, its noise, the honesty of its filter, and what its expert is worth."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from seerax import advice, rollout
from seerax.core import BeliefMDP, Situation, World
from seerax.experts.arm import body, gaps
from seerax.filters.gaussian import Gaussian, spread
from seerax.problems import shelf
from seerax.problems.shelf import BLIND, CLOSE, OUTSIDE, STRIDE, THICKNESS, WAM, ShelfState

EPISODES = 1024


class Played(NamedTuple):
    """[time, episode, ...]: before a step, what was done, and what came of it."""

    world: World
    action: Array
    reward: Array
    following: World


def play(
    mdp: BeliefMDP, policy: Callable[[Array, World], Array], episodes: int, seed: int = 0
) -> Played:
    def one(key: Array) -> Played:
        def step(world: World, time: Array) -> tuple[World, Played]:
            policy_key, world_key = rollout.step_keys(key, time)
            action = mdp.clip(policy(policy_key, world))
            following, outcome = mdp.step(world_key, world, action)
            light = [w._replace(episode=None) for w in (world, following)]
            return following, Played(light[0], action, outcome.reward, light[1])

        return jax.lax.scan(step, rollout.start(mdp, key), jnp.arange(mdp.problem.horizon))[1]

    keys = jax.random.split(jax.random.key(seed), episodes)
    return jax.device_get(jax.jit(jax.vmap(one, out_axes=1))(keys))


@pytest.fixture(scope="module")
def mdp() -> BeliefMDP:
    return shelf.armshelf()


@pytest.fixture(scope="module")
def ensemble(mdp: BeliefMDP) -> Played:
    return play(mdp, lambda key, world: world.situation.advice, EPISODES)


@pytest.fixture(scope="module")
def pushing(mdp: BeliefMDP) -> Played:
    """Full speed in a direction that changes every twenty steps, mostly into the shelf: as rough as
    can be.
    """

    def policy(key: Array, world: World) -> Array:
        dice = jax.random.uniform(jax.random.fold_in(world.episode, world.time // 20), (4,))
        push = jnp.where(dice < jnp.array([0.25, 0.5, 0.5, 0.5]), -1.0, 1.0)
        return push + 0.3 * jax.random.normal(key, (4,))

    return play(mdp, policy, 256)


def states(played: Played) -> tuple[ShelfState, ShelfState]:
    return played.world.situation.state, played.following.situation.state


# ---- the object ----------------------------------------------------------------------------------


def test_the_belief_begins_with_the_moments_of_the_prior(mdp: BeliefMDP) -> None:
    drawn = np.asarray(
        jax.vmap(mdp.problem.prior)(jax.random.split(jax.random.key(1), 100_000)), np.float64
    )
    belief = mdp.filter.init()
    error = np.asarray(spread(belief)) / len(drawn) ** 0.5
    assert (np.abs(drawn.mean(0) - belief.mean) < 4 * error).all()
    np.testing.assert_allclose(np.cov(drawn.T), belief.covariance, atol=3e-4)
    assert drawn[:, :2].min(0) == pytest.approx((0, -0.575), abs=1e-4)
    assert drawn[:, :2].max(0) == pytest.approx((0.16, -0.175), abs=1e-4)
    assert set(np.unique(drawn[:, 2].round(4))) == {0.105, 0.455}


def test_the_object_stands_on_its_plate() -> None:
    low, high = shelf.shelf()
    for plate, height in zip((0, 1), shelf.OBJECT_HEIGHTS, strict=True):
        assert height - shelf.OBJECT_HALF == pytest.approx(high[plate, 2])
    assert (low[:, 0] >= shelf.FRONT - 1e-9).all()


# ---- physics -------------------------------------------------------------------------------------


def test_the_hand_is_that_of_the_joints(pushing: Played) -> None:
    _, after = states(pushing)
    hands = jax.vmap(jax.vmap(lambda q: WAM.point(WAM.frames(q))))(after.joints[::20])
    np.testing.assert_allclose(hands, after.hand[::20], atol=1e-6)


@pytest.mark.parametrize("name", ["ensemble", "pushing"])
def test_nothing_passes_through_anything(name: str, request: pytest.FixtureRequest) -> None:
    """No state touches anything, and between two states no part moves by its own width and that of
    a plate.
    """
    played = request.getfixturevalue(name)
    before, after = states(played)

    @jax.jit
    @partial(jax.vmap, in_axes=(0, 0, 0))
    def look(old: Array, new: Array, latent: Array) -> tuple[Array, Array]:
        one, other = body(WAM.frames(old)), body(WAM.frames(new))
        room = 2 * one.radius + THICKNESS
        jump = jnp.linalg.norm(one.ends - other.ends, axis=-1).max(-1)
        return gaps(other, shelf.obstacles(latent)).min(), (jump / room).max()

    some = [leaf[:, :256] for leaf in (before.joints, after.joints, played.world.latent)]
    flat = [leaf.reshape(-1, leaf.shape[-1]) for leaf in some]
    gap, jump = look(*flat)
    assert gap.min() >= -1e-6
    assert jump.max() < 1
    assert (after.touching.sum(-1) > 0).sum() > 50  # there was something to run into


def test_a_blocked_move_is_not_made(pushing: Played) -> None:
    before, after = states(pushing)
    blocked = after.touching.sum(-1) > 0
    assert 0.02 < blocked.mean() < 0.98
    np.testing.assert_array_equal(before.joints[blocked], after.joints[blocked])
    np.testing.assert_array_equal(before.hand[blocked], after.hand[blocked])


def test_both_shelf_and_object_block(pushing: Played) -> None:
    _, after = states(pushing)
    assert ((after.touching > 0).sum((0, 1)) > 20).all()


def test_free_moves_are_made_to_a_millimetre(ensemble: Played) -> None:
    """On the way, in every step of all episodes; one centimetre along each axis is the farthest."""
    before, after = states(ensemble)
    error = np.linalg.norm(after.hand - before.hand - STRIDE * ensemble.action[..., :3], axis=-1)
    free = after.touching.sum(-1) == 0
    assert free.mean() > 0.9
    assert error[free].max() < 1e-3
    assert np.quantile(error[free], 0.999) < 2e-4


def test_the_arm_keeps_its_limits(pushing: Played) -> None:
    _, after = states(pushing)
    assert (after.joints >= WAM.low.astype(np.float32)).all() and (
        after.joints <= WAM.high.astype(np.float32)
    ).all()


# ---- reward --------------------------------------------------------------------------------------


def test_the_reward_is_that_of_the_rules(pushing: Played, ensemble: Played) -> None:
    for played in (pushing, ensemble):
        _, after = states(played)
        distance = np.linalg.norm(after.hand - played.world.latent, axis=-1)
        cost = distance + after.touching.sum(-1) + (played.action[..., 3] > 0)
        expected = np.where(distance < CLOSE, 1.0, -cost)
        sure = np.abs(distance - CLOSE) > 1e-5
        np.testing.assert_allclose(played.reward[sure], expected[sure], atol=1e-5)
        np.testing.assert_array_equal(after.sensed, played.action[..., 3] > 0)
    assert 0.2 < (ensemble.reward == 1).mean() < 0.9  # both cases occur


# ---- noise and belief ----------------------------------------------------------------------------


def test_readings_are_as_noisy_as_they_should_be(ensemble: Played) -> None:
    """Standard normal once divided by the distance if sensed, by 5 if not."""
    _, after = states(ensemble)
    distance = np.linalg.norm(after.hand - ensemble.world.latent, axis=-1)
    for sensed, scale in ((True, distance), (False, np.full_like(distance, BLIND))):
        kind = after.sensed == sensed
        z = ((after.reading - ensemble.world.latent) / scale[..., None])[kind].astype(np.float64)
        count = z.size
        assert count > 50_000
        assert abs(z.mean()) < 4 / count**0.5
        assert abs(z.var() - 1) < 4 * (2 / count) ** 0.5
        assert np.abs(np.corrcoef(z.T) - np.eye(3)).max() < 5 / len(z) ** 0.5


def test_the_state_does_not_tell_the_distance(mdp: BeliefMDP) -> None:
    """But for the reading, a sensing step looks the same wherever the object is."""
    action, key = jnp.array([1.0, -1.0, 0.5, 1.0]), jax.random.key(0)

    def seen(latent: Array) -> Array:
        state = mdp.problem.step(key, mdp.problem.reset(key, latent), action, latent).state
        return mdp.problem.features(state._replace(reading=state.hand))

    features = jax.jit(jax.vmap(seen))(jax.vmap(mdp.problem.prior)(jax.random.split(key, 64)))
    np.testing.assert_array_equal(features, jnp.broadcast_to(features[0], features.shape))


def test_the_filter_is_on_average_as_sure_as_it_may_be(ensemble: Played) -> None:
    """The mean of (phi - m)^T P^-1 (phi - m) is 3, but for 0.2: an expected distance stands for the
    true one.
    """
    belief = ensemble.following.situation.belief
    for time in (1, 3, 10, 30, 60, 100, 200):
        mean, P = (
            belief.mean[time - 1].astype(np.float64),
            belief.covariance[time - 1].astype(np.float64),
        )
        error = ensemble.world.latent[time - 1] - mean
        squares = np.einsum("ni,nij,nj->n", error, np.linalg.inv(P), error)
        chance = 4 * squares.std() / EPISODES**0.5
        assert abs(squares.mean() - 3) < 0.2 + chance, time
    assert (
        np.median(np.sqrt(np.trace(belief.covariance[-1], axis1=-2, axis2=-1))) < 0.03
    )  # and it has learned a lot


def test_the_filter_is_too_sure_of_the_height_for_a_while(ensemble: Played) -> None:
    """A Gaussian cannot say "this shelf or that".

    Late and in height, mean squared errors are up to twice the mean variance; with heights drawn
    from a Gaussian they agree, and knowing the true distance would not help.
    """
    belief = ensemble.following.situation.belief
    squares = np.square(ensemble.world.latent - belief.mean).mean(1)
    ratio = squares / np.diagonal(belief.covariance, axis1=-2, axis2=-1).mean(1)
    assert np.abs(ratio[:20] - 1).max() < 0.2
    assert ratio[:, 0].max() < 1.2 and ratio[:, 1].max() < 1.6
    assert ratio[:, 2].max() < 3


def test_the_belief_stays_sound(pushing: Played, ensemble: Played) -> None:
    for played in (pushing, ensemble):
        belief = played.following.situation.belief
        assert np.isfinite(belief.mean).all()
        assert np.linalg.eigvalsh(belief.covariance[::10].astype(np.float64)).min() > 0


def test_features_are_of_a_size(mdp: BeliefMDP, pushing: Played) -> None:
    _, after = states(pushing)
    seen = jax.jit(jax.vmap(jax.vmap(mdp.problem.features)))(
        jax.tree.map(lambda leaf: leaf[::10], after)
    )
    assert seen.shape[-1] == 23
    assert (np.sqrt(np.square(seen).mean((0, 1))) < 3).all()
    assert (np.std(seen, (0, 1)) > 0.02).all()


# ---- expert --------------------------------------------------------------------------------------


def test_told_the_truth_the_expert_gets_there_untouched(mdp: BeliefMDP) -> None:
    told = play(mdp, lambda key, world: advice.Clairvoyant(mdp.expert)(key, world), 256)
    _, after = states(told)
    assert (after.touching == 0).all()
    assert not after.sensed.any()
    assert (told.reward[-1] == 1).all()
    arrived = (told.reward == 1).argmax(0)
    assert arrived.max() < 90
    stays = np.arange(200)[:, None] >= arrived
    assert (told.reward[stays] == 1).all()
    assert told.reward.sum(0).min() > 100


def test_the_expert_stays_out_while_the_object_seems_between_the_shelves(mdp: BeliefMDP) -> None:
    def policy(key: Array, world: World) -> Array:
        sideways = -0.375 + 0.2 * jnp.sin(0.1 * world.time)
        seems = jnp.array([0.1, sideways, 0.28 + 0.07 * jnp.sin(0.23 * world.time)])
        return mdp.expert.act(world.situation.state, mdp.expert.plan(seems))

    played = play(mdp, policy, 8)
    _, after = states(played)
    assert after.hand[..., 0].max() < OUTSIDE + 1e-3
    assert (after.touching == 0).all()
    assert after.hand[50:, :, 2].min() > 0.19 and after.hand[50:, :, 2].max() < 0.37


def test_from_anywhere_the_expert_finds_its_way(mdp: BeliefMDP, pushing: Played) -> None:
    """Almost: left wherever the rough policy was at its end, also wedged against a plate or beside
    the shelf.
    """
    _, after = states(pushing)
    lost = jax.tree.map(lambda leaf: jnp.asarray(leaf[-1]), after)
    latents = jnp.asarray(pushing.world.latent[-1])

    def one(state: ShelfState, latent: Array) -> tuple[Array, Array]:
        def step(state: ShelfState, _: None) -> tuple[ShelfState, Array]:
            action = mdp.expert.act(state, mdp.expert.plan(latent))
            following, reward, _ = mdp.problem.step(jax.random.key(0), state, action, latent)
            return following, reward

        return jax.lax.scan(step, state, None, 200)

    _, rewards = jax.jit(jax.vmap(one))(lost, latents)
    assert (rewards[:, -1] == 1).mean() > 0.95


def test_the_ensemble_leaves_room(ensemble: Played) -> None:
    """81 with success 0.99; its expert, told the truth, makes 143."""
    returns = ensemble.reward.sum(0)
    assert 72 < returns.mean() < 90
    assert (ensemble.reward[-1] == 1).mean() > 0.97
    assert 0.49 < states(ensemble)[1].sensed.mean() < 0.51


def test_without_sensing_nothing_is_found() -> None:
    blind = play(shelf.armshelf(sensing=0.0), lambda key, world: world.situation.advice, 256)
    assert blind.reward.sum(0).mean() < -55
    assert (blind.reward[-1] == 1).mean() < 0.1
    assert not states(blind)[1].sensed.any()


# ---- drawing -------------------------------------------------------------------------------------


def test_the_belief_is_drawn_to_scale(mdp: BeliefMDP, ensemble: Played) -> None:
    """Two ellipses in each of two views: one and two standard deviations wide, around the mean."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    moment = jax.tree.map(lambda leaf: leaf[12, 0], ensemble.world)
    figure, ax = pyplot.subplots()
    mdp.problem.draw(ax, Situation(*moment.situation), ensemble.action[12, 0], moment.latent)
    outlines = [patch.get_path().vertices for patch in ax.patches if patch.get_gid() == "belief"]
    assert len(outlines) == 4
    belief = Gaussian(*moment.situation.belief)
    deviations = np.asarray(spread(belief))
    for outline, (width, up) in zip(outlines, [(2, 2), (1, 2), (2, 1), (1, 1)], strict=True):
        np.testing.assert_allclose(
            np.ptp(outline, axis=0), 2 * width * deviations[[0, up]], rtol=0.01
        )
        assert outline[:, 0].mean() == pytest.approx(belief.mean[0], abs=0.01)
    pyplot.close(figure)
