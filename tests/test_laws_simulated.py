"""The laws that simulate, the table of optional members, and what may not disturb a law."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from test_laws import (
    EXPERT,
    SIDES,
    Beacon,
    Height,
    Kalman,
    Seen,
    believing,
    broken,
    build,
    judged,
    kalman,
    quick_compile,
)

from seerax import advice, core, problems
from seerax.core import Action, Belief, BeliefMDP, Expert, Key, Latent, Outcome, State, Step, World
from seerax.errors import UserError
from seerax.filters import Categorical, Factored, spread
from seerax.laws.arrays import subtract, z_score
from seerax.laws.beliefs import overconfidence

__all__ = ["quick_compile"]  # a fixture

pytestmark = pytest.mark.usefixtures("quick_compile")


# ---- the table of optional members ---------------------------------------------------------------


def test_docstrings_name_every_optional_member() -> None:
    tables = {
        core.Problem: core.OPTIONAL_PROBLEM | core.OPTIONAL_STATE,
        core.Filter: core.OPTIONAL_FILTER,
    }
    for protocol, table in tables.items():
        for name, (arguments, _) in table.items():
            written = f"{name}({arguments})" if arguments else name
            assert re.search(rf"^ +{re.escape(written)}(\s|$)", protocol.__doc__ or "", re.M), name


def test_ability() -> None:
    assert core.ability(Beacon(), "evolve") is None
    assert callable(core.ability(problems.make("tiger").problem, "senses"))
    with pytest.raises(UserError, match="Did you mean 'senses'"):
        core.ability(Beacon(), "sences")


OPTIONAL = [("problem", name, row.arguments) for name, row in core.OPTIONAL_PROBLEM.items()]
OPTIONAL += [("filter", name, row.arguments) for name, row in core.OPTIONAL_FILTER.items()]
METHODS = [row for row in OPTIONAL if row[2] is not None]


@pytest.mark.parametrize(("owner", "name", "arguments"), METHODS, ids=[row[1] for row in METHODS])
def test_members_reads_the_table(owner: str, name: str, arguments: str) -> None:
    odd = {name: lambda self, one, of, far, too, many, arguments: None}
    if owner == "problem":
        mdp = build(type("Odd", (Beacon,), odd)())
    else:
        mdp = replace(kalman(1.5), filter=type("Odd", (Kalman,), odd)(1.5))
    assert judged("members", mdp) == [
        f"{owner}.{name} cannot be called as {name}({arguments}): "
        "give it these arguments, in this order."
    ]


class Drawn(Beacon):
    def draw(self, ax: Any, situation: Any, action: Action, latent: Latent) -> None:
        ax.plot([float(latent), float(situation.state.reading)], [0.0, float(action[0])])

    def place(self, state: Seen) -> Any:
        return np.array([state.reading, 0.0])


class DrawnBadly(Drawn):
    def draw(self, ax: Any, situation: Any, action: Action, latent: Latent) -> None:
        ax.plot(latent.nothing)


class PlacedBadly(Drawn):
    def place(self, state: Seen) -> Any:
        return state.reading


class Mapped(Drawn):
    def draw_place(self, ax: Any) -> None:
        ax.plot([0.0, 1.0])


class MappedBadly(Mapped):
    half = -1.0

    def draw_place(self, ax: Any) -> None:
        ax.plot([0.0, 1.0], [0.0])


class WideFeatures(Kalman):
    def features(self, belief: Belief) -> Array:
        return belief[0]


class LongMean(Kalman):
    def mean(self, belief: Belief) -> Latent:
        return belief[0][None]


class LongEntropy(Kalman):
    def entropy(self, belief: Belief) -> Array:
        return jnp.stack(belief)


def with_filter(kind: type[Kalman]) -> BeliefMDP:
    return replace(kalman(1.5), filter=kind(1.5))


SHAPES: list[tuple[BeliefMDP, list[str]]] = [
    (build(Drawn()), []),
    (build(DrawnBadly()), ["problem.draw(ax, situation, action, latent) raised AttributeError"]),
    (build(PlacedBadly()), ["problem.place has shape ()"]),
    (
        build(Mapped()),
        ["problem.half is None", "state.position is missing", "state.sensed is missing"],
    ),
    (
        build(MappedBadly()),
        ["problem.draw_place(ax) raised", "problem.half is -1.0", "state.pos", "state.sensed"],
    ),
    (with_filter(WideFeatures), ["filter.features is float32[]"]),
    (with_filter(LongMean), ["filter.mean is float32[1]"]),
    (with_filter(LongEntropy), ["filter.entropy is float32[2]"]),
]


@pytest.mark.parametrize(("mdp", "says"), SHAPES, ids=[" ".join(says[:1]) for _, says in SHAPES])
def test_shapes_of_optional_members(mdp: BeliefMDP, says: list[str]) -> None:
    complaints = judged("shapes", mdp) or []
    assert len(complaints) == len(says), complaints
    for complaint, words in zip(complaints, says, strict=True):
        assert complaint.startswith(words)


# ---- rounding ------------------------------------------------------------------------------------

MEAN, STD = 0.7, 0.03


@dataclass(frozen=True)
class Rounded(Height):
    """Draws what the filter draws, but in another order of operations, and `offset` off."""

    offset: float = 0.0

    def prior(self, key: Key) -> Latent:
        return STD * (jax.random.normal(key) + MEAN / STD) + self.offset


class RoundedKalman(Kalman):
    def init(self) -> Belief:
        return jnp.float32(MEAN), jnp.float32(STD**2)

    def sample(self, key: Key, belief: Belief) -> Latent:
        return belief[0] + jnp.sqrt(belief[1]) * jax.random.normal(key)


def test_rounding_is_no_other_prior() -> None:
    mdp = replace(kalman(1.5), filter=RoundedKalman(1.5))
    for offset, alarms in ((0.0, 0), (1e-3 * MEAN, 1), (-1e-3 * MEAN, 1)):
        complaints = judged("prior", replace(mdp, problem=Rounded(1.5, offset=offset))) or []
        assert len(complaints) == alarms, complaints


def test_rounding_is_no_distance() -> None:
    rng = np.random.default_rng(0)
    numbers = 100 + rng.normal(size=(1000, 1))
    assert not subtract(numbers, numbers * (1 + 1e-6)).any()
    assert subtract(numbers, numbers + 0.1).all()
    assert overconfidence(numbers * (1 + 1e-6), numbers, numbers) == 0
    assert overconfidence(numbers + 0.1, numbers, numbers) > 100


def test_z_score_knows_no_unit() -> None:
    differences = np.random.default_rng(0).normal(0.1, 1, (1000, 1))
    assert z_score(1e-15 * differences) == pytest.approx(z_score(differences))
    assert z_score(np.zeros((10, 1))) == 0
    assert z_score(np.ones((10, 1))) > 1e6


# ---- evidence ------------------------------------------------------------------------------------


def flat(state: State, action: Action, next_state: State, latent: Latent) -> Array:
    return jnp.float32(0)


def test_a_tiger_that_is_never_heard() -> None:
    """It is calibrated and agrees with its own likelihood, so only simulation tells."""
    mdp = problems.make("tiger")
    deaf = Categorical(jnp.array([0.0, 1.0]), flat)
    expert: Any = mdp.expert
    ensemble = advice.sense_randomly(mdp.problem, advice.weighted(deaf, expert))
    mdp = replace(mdp, filter=deaf, advisor=ensemble)
    for law in ("calibration", "brute force"):
        assert judged(law, mdp, episodes=1024) == []
    (says,) = judged("evidence", mdp, episodes=1024) or [""]
    assert says.startswith("The filter ignores next_state.heard: at time ")
    assert "under " in says and "action [" in says
    assert "Let filter.log_likelihood depend on next_state.heard." in says


def test_a_crash_that_teaches_nothing() -> None:
    mdp = problems.make("door4")
    problem, filter = mdp.problem, mdp.filter

    def hard_headed(state: State, action: Action, next_state: Any, latent: Latent) -> Array:
        nothing = jnp.zeros(4, bool)
        felt = next_state._replace(crashed=nothing, passed=nothing)
        return problem.log_likelihood(state, action, felt, latent)  # type: ignore[attr-defined]

    short = replace(problem, horizon=96)  # type: ignore[type-var]
    deaf = replace(filter, log_likelihood=hard_headed)  # type: ignore[type-var]
    mdp = replace(mdp, problem=short, filter=deaf)
    complaints = judged("evidence", mdp, episodes=1024) or []
    assert any("ignores next_state.crashed" in says for says in complaints), complaints


def negative(state: State, action: Action, next_state: Seen, latent: Latent) -> Array:
    return -Beacon(noise=1.5).log_likelihood(state, action, next_state, latent)


@pytest.mark.parametrize(
    ("likelihood", "says"),
    [
        (flat, "The filter ignores next_state.reading"),
        (negative, "The belief moves away from the true latent"),
        (Beacon(noise=0.5).log_likelihood, None),
    ],
)
def test_evidence(likelihood: Callable, says: str | None) -> None:
    mdp = believing(Beacon(noise=0.5), Categorical(SIDES, likelihood))
    complaints = judged("evidence", mdp, episodes=1024) or []
    assert [complaint.startswith(says or "") for complaint in complaints] == [True] * bool(says)


# ---- Bayes' rule by simulation -------------------------------------------------------------------


@dataclass(frozen=True)
class Biased(Kalman):
    """Another gain than Kalman's, with the variance that it leaves: as sure as it is right."""

    factor: float = 1.0

    def update(self, belief: Belief, state: State, action: Action, next_state: Seen) -> Belief:
        mean, variance = belief
        gain = self.factor * variance / (variance + self.noise**2)
        left = (1 - gain) ** 2 * variance + (gain * self.noise) ** 2
        return mean + gain * (next_state.reading - mean), left


@pytest.mark.parametrize(("factor", "word"), [(1.0, None), (0.4, "less"), (1.6, "more")])
def test_gain(factor: float, word: str | None) -> None:
    mdp = replace(kalman(1.5), filter=Biased(1.5, factor))
    complaints = judged("brute force", mdp, episodes=1024) or []
    assert [f"learns {word} than it should" in says for says in complaints] == [True] * bool(word)


# ---- Bayes' rule, factor by factor ---------------------------------------------------------------


class Beacons(Beacon):
    """Three beacons, each with a reading of its own."""

    def prior(self, key: Key) -> Latent:
        return jax.random.rademacher(key, (3,), jnp.float32)

    def reset(self, key: Key, latent: Latent) -> Seen:
        return Seen(jnp.zeros(3))

    def step(self, key: Key, state: Seen, action: Action, latent: Latent) -> Step:
        reading = latent + self.noise * jax.random.normal(key, (3,))
        return Step(Seen(reading), -jnp.square(action[0] - latent[0]), jnp.bool_(False))

    def features(self, state: Seen) -> Array:
        return state.reading


class MixedUpFactors(Factored):
    """The first factor learns at half the rate."""

    def update(self, belief: Array, state: State, action: Action, next_state: State) -> Array:
        right = super().update(belief, state, action, next_state)
        slow = jax.nn.log_softmax((belief + right) / 2, -1)
        return right.at[1].set(slow[1])


@pytest.mark.parametrize(("kind", "alarms"), [(Factored, 0), (MixedUpFactors, 1)])
def test_factors(kind: type[Factored], alarms: int) -> None:
    problem = Beacons()
    filter = kind(spread(SIDES, 3), problem.log_likelihood)
    expert = Expert(plan=lambda latent: latent, act=lambda state, latent: latent[:1])
    mdp = BeliefMDP(problem, filter, advice.at_mean(filter, expert), expert)
    complaints = judged("brute force", mdp, episodes=1024)
    assert complaints is not None and len(complaints) == alarms
    assert all(
        re.search(r"at time \d+ under .* entry \d of filter.support, factor 1, 0\.", says)
        for says in complaints
    )


# ---- keys in beliefs -----------------------------------------------------------------------------


class Particles(NamedTuple):
    mean: Array
    variance: Array
    key: Key


class Keyed(Kalman):
    """Holds a key, as particle filters do."""

    def init(self) -> Belief:
        return Particles(*super().init(), jax.random.key(7))

    def update(self, belief: Belief, state: State, action: Action, next_state: Seen) -> Belief:
        moved = super().update(belief[:2], state, action, next_state)
        return Particles(*moved, jax.random.split(belief.key, 1)[0])

    def vector(self, belief: Belief) -> Array:
        return jnp.stack(belief[:2])


class Nostalgic(BeliefMDP):
    """A fresh start with the old belief."""

    def step(self, key: Key, world: World, action: Action) -> tuple[World, Outcome]:
        following, outcome = super().step(key, world, action)
        old = core.select(world.over, world.situation.belief, following.situation.belief)
        situation = following.situation._replace(belief=old)
        return following._replace(situation=situation), outcome


def keyed(kind: type[BeliefMDP] = BeliefMDP) -> BeliefMDP:
    filter = Keyed(1.5)
    return kind(Height(noise=1.5), filter, advice.most_likely(filter, EXPERT), EXPERT)


def test_a_key_in_the_belief() -> None:
    assert broken(keyed()) == {}
    complaints = judged("dead step", keyed(Nostalgic)) or []
    assert [re.sub(".*old (.*) after.*", r"\1", says) for says in complaints] == [
        "belief.mean",
        "belief.variance",
        "belief.key",
    ]


# ---- when, and why -------------------------------------------------------------------------------


class Touchy(Beacon):
    """NaN if the first action is not the ensemble's."""

    def step(self, key: Key, state: Seen, action: Action, latent: Latent) -> Step:
        step = super().step(key, state, action, latent)
        odd = (state.reading == 0) & (action[0] != 0)
        return step._replace(reward=jnp.where(odd, jnp.nan, step.reward))


def test_findings_name_the_behaviour() -> None:
    (says,) = judged("finite", build(Touchy())) or [""]
    assert "first at time 0 under the ensemble with exploring noise" in says
    mdp = build()
    bold = mdp.with_advisor(lambda moment, state, belief: 3 * mdp.advisor(moment, state, belief))
    (says,) = judged("bounds", bold) or [""]
    assert re.search(r"outside \[-1, 1\], at time \d+ under ", says)
    (says,) = judged("calibration", build(believed=Beacon(noise=1.0))) or [""]
    assert "the ensemble with exploring noise and random actions; most of all under " in says
    assert "evolve" not in says


FLIP = 0.2


class Flipping(Beacon):
    def evolve(
        self, key: Key, state: State, action: Action, next_state: State, latent: Latent
    ) -> Latent:
        return jnp.where(jax.random.bernoulli(key, FLIP), -latent, latent)


def log_transition(state: State, action: Action, next_state: State) -> Array:
    return jnp.log(jnp.array([[1 - FLIP, FLIP], [FLIP, 1 - FLIP]]))


def test_a_latent_that_moves() -> None:
    problem = Flipping(noise=1.0)
    unaware = Categorical(SIDES, problem.log_likelihood)
    (says,) = judged("calibration", believing(problem, unaware)) or [""]
    assert "over-confident" in says
    assert "problem.evolve moves the latent, but the filter has no log_transition" in says
    aware = Categorical(SIDES, problem.log_likelihood, log_transition=log_transition)
    assert broken(believing(problem, aware)) == {}
