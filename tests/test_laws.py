"""The laws hold where they should, and the right law tells each planted fault in a sentence that
names the place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from seerax import advice, laws, problems
from seerax.core import Action, Belief, BeliefMDP, Expert, Key, Latent, Outcome, State, Step, World
from seerax.errors import UserError
from seerax.filters import Categorical

ALL = [law.name for law in laws.LAWS]
ALWAYS = [name for name in ALL if name != "collapsed belief"]


# ---- a small problem and its parts ---------------------------------------------------------------


class Seen(NamedTuple):
    reading: Array


@dataclass(frozen=True)
class Beacon:
    """The latent, -1 or 1, shines through noise at every step; the action is a guess of it."""

    noise: float = 1.5
    horizon: Any = 6
    discount: Any = 1.0
    action_low: Any = (-1.0,)
    action_high: Any = (1.0,)

    def prior(self, key: Key) -> Latent:
        return jax.random.rademacher(key, (), jnp.float32)

    def reset(self, key: Key, latent: Latent) -> Seen:
        return Seen(jnp.float32(0))

    def step(self, key: Key, state: Seen, action: Action, latent: Latent) -> Step:
        reading = latent + self.noise * jax.random.normal(key)
        return Step(Seen(reading), -jnp.square(action[0] - latent), jnp.bool_(False))

    def features(self, state: Seen) -> Array:
        return state.reading[None]

    def log_likelihood(
        self, state: State, action: Action, next_state: Seen, latent: Latent
    ) -> Array:
        return -0.5 * jnp.square((next_state.reading - latent) / self.noise)


def guess(state: Seen, latent: Latent) -> Action:
    return latent[None]


EXPERT = Expert(plan=lambda latent: latent, act=guess)
SIDES = jnp.array([-1.0, 1.0])


def believing(
    problem: Beacon, filter: Any, expert: Expert = EXPERT, kind: type[BeliefMDP] = BeliefMDP
) -> BeliefMDP:
    return kind(problem, filter, advice.weighted(filter, expert), expert)


def build(problem: Beacon = Beacon(), believed: Beacon | None = None, **more: Any) -> BeliefMDP:  # noqa: B008
    """The filter sees the problem as it is `believed` to be."""
    return believing(problem, Categorical(SIDES, (believed or problem).log_likelihood), **more)


def broken(mdp: BeliefMDP) -> dict[str, str]:
    return {finding.law: finding.says for finding in laws.check(mdp) if not finding.ok}


@pytest.fixture
def quick_compile() -> Iterator[None]:
    """These programs are short and each is new: compiling them is what takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


# ---- where all is well ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tiger", "tree"])
def test_laws_hold(name: str, quick_compile: None) -> None:
    findings = laws.check(problems.make(name))
    assert [finding for finding in findings if not finding.ok] == []
    assert [finding.law for finding in findings] == ALL


@dataclass(frozen=True)
class Height(Beacon):
    """A beacon whose latent is a standard normal number."""

    action_low: Any = (-9.0,)
    action_high: Any = (9.0,)

    def prior(self, key: Key) -> Latent:
        return jax.random.normal(key)


@dataclass(frozen=True)
class Kalman:
    """(mean, variance) of the height."""

    noise: float

    def init(self) -> Belief:
        return jnp.float32(0), jnp.float32(1)

    def update(self, belief: Belief, state: State, action: Action, next_state: Seen) -> Belief:
        mean, variance = belief
        gain = variance / (variance + self.noise**2)
        return mean + gain * (next_state.reading - mean), (1 - gain) * variance

    def vector(self, belief: Belief) -> Array:
        return jnp.stack(belief)

    def mode(self, belief: Belief) -> Latent:
        return belief[0]

    def sample(self, key: Key, belief: Belief) -> Latent:
        return belief[0] + jnp.sqrt(belief[1]) * jax.random.normal(key)


def kalman(noise: float) -> BeliefMDP:
    filter = Kalman(noise)
    return BeliefMDP(Height(noise=1.5), filter, advice.most_likely(filter, EXPERT), EXPERT)


def test_laws_of_finite_supports_are_absent_for_a_gaussian_filter(quick_compile: None) -> None:
    findings = laws.check(kalman(noise=1.5))
    assert [finding for finding in findings if not finding.ok] == []
    assert [finding.law for finding in findings] == ALWAYS


@dataclass(frozen=True)
class Between(Beacon):
    """The latent lies anywhere in [-1, 1], the filter knows only two places: its grid is coarse."""

    def prior(self, key: Key) -> Latent:
        return jax.random.uniform(key, minval=-1.0)


def test_a_coarse_grid_may_be_unsure(quick_compile: None) -> None:
    problem, filter = (
        Between(noise=1.5),
        Categorical(jnp.array([-0.5, 0.5]), Beacon(noise=3.0).log_likelihood),
    )
    assert broken(believing(problem, filter)) == {}


def test_a_coarse_grid_may_not_be_sure_without_reason(quick_compile: None) -> None:
    problem, filter = (
        Between(noise=1.5),
        Categorical(jnp.array([-0.5, 0.5]), Beacon(noise=0.5).log_likelihood),
    )
    complaints = broken(believing(problem, filter))
    assert list(complaints) == ["calibration"]
    assert (
        "over-confident" in complaints["calibration"]
        and "points more are granted" in complaints["calibration"]
    )


# ---- faults of structure: told without running anything ------------------------------------------


class Deaf(Beacon):
    def features(self) -> Array:  # type: ignore[override]
        return jnp.zeros(1)


class Unhashable(Beacon):
    __hash__ = None  # type: ignore[assignment]


MEMBERS = [
    (build(Beacon(horizon=0)), "problem.horizon is 0"),
    (build(Beacon(horizon=6.0)), "problem.horizon is 6.0"),
    (build(Beacon(discount=1.5)), "problem.discount is 1.5"),
    (build(Beacon(action_low=(-1.0, -1.0))), "shapes (2,) and (1,)"),
    (build(Beacon(action_low=(2.0,))), "low < high"),
    (build(Deaf()), "problem.features cannot be called as features(state)"),
    (build(Unhashable()), "@dataclass(frozen=True, eq=False)"),
    (replace(build(), filter=object()), "filter.update is missing"),
    (replace(build(), problem=object()), "problem.horizon is missing"),
    (replace(build(), advisor=lambda state, belief: state), "advisor(moment, state, belief)"),
    (replace(build(), expert=lambda state: state), "expert.plan is missing"),
]


@pytest.mark.parametrize(("mdp", "says"), MEMBERS, ids=[says for _, says in MEMBERS])
def test_members(mdp: BeliefMDP, says: str) -> None:
    findings = laws.check(mdp)
    assert [(finding.law, finding.ok) for finding in findings] == [("members", False)]
    assert says in findings[0].says


class LongReward(Beacon):
    def step(self, key: Key, state: Seen, action: Action, latent: Latent) -> Step:
        return super().step(key, state, action, latent)._replace(reward=action)


class WholeReading(Beacon):
    def step(self, key: Key, state: Seen, action: Action, latent: Latent) -> Step:
        return super().step(key, state, action, latent)._replace(state=Seen(jnp.int32(1)))


class AnotherState(Beacon):
    def step(self, key: Key, state: Seen, action: Action, latent: Latent) -> Step:
        return super().step(key, state, action, latent)._replace(state=(jnp.float32(0),))


class NumericDone(Beacon):
    def step(self, key: Key, state: Seen, action: Action, latent: Latent) -> Step:
        return super().step(key, state, action, latent)._replace(terminated=jnp.float32(0))


class StateOnly(Beacon):
    def step(self, key: Key, state: Seen, action: Action, latent: Latent) -> Any:
        return state.reading


class Undecided(Beacon):
    def step(self, key: Key, state: Seen, action: Action, latent: Latent) -> Step:
        return super().step(key, state, action if action[0] > 0 else -action, latent)


class Careless(Beacon):
    def step(self, key: Key, state: Seen, action: Action, latent: Latent) -> Step:
        raise KeyError("gravity")


class FlatFeatures(Beacon):
    def features(self, state: Seen) -> Array:
        return state.reading[None, None]


class Wandering(Beacon):
    def evolve(
        self, key: Key, state: Seen, action: Action, next_state: Seen, latent: Latent
    ) -> Latent:
        return latent[None]


class LongLikelihood(Beacon):
    def log_likelihood(
        self, state: State, action: Action, next_state: Seen, latent: Latent
    ) -> Array:
        return super().log_likelihood(state, action, next_state, latent)[None]


class Growing(Categorical):
    def update(self, belief: Array, state: State, action: Action, next_state: State) -> Array:
        return jnp.append(belief, 0.0)


class Index(Categorical):
    def mode(self, belief: Array) -> Latent:
        return jnp.argmax(belief)


LIKELIHOOD = Beacon().log_likelihood
SHAPES = [
    (build(LongReward()), ["problem.step: reward is float32[1]", "shape ()"]),
    (
        build(WholeReading()),
        [
            "problem.step: state.reading is int32[]",
            "problem.reset has float32[]",
            "astype(float32)",
        ],
    ),
    (build(AnotherState()), ["problem.step: state gives", "namedtuple[Seen]"]),
    (build(NumericDone()), ["problem.step: terminated is float32[]", "bool[]"]),
    (build(StateOnly()), ["problem.step returns", "Step(state, reward, terminated)"]),
    (
        build(Undecided()),
        ["problem.step raised TracerBoolConversionError", "test_laws.py, line", "jnp.where"],
    ),
    (build(Careless()), ["problem.step raised KeyError: 'gravity'", "test_laws.py, line"]),
    (build(FlatFeatures()), ["problem.features is float32[1, 1]", "one vector"]),
    (build(Wandering()), ["problem.evolve is float32[1]", "problem.prior has float32[]"]),
    (build(LongLikelihood()), ["filter.log_likelihood is float32[1]", "shape ()"]),
    (
        believing(Beacon(), Growing(SIDES, LIKELIHOOD)),
        ["filter.update is float32[3]", "filter.init has float32[2]"],
    ),
    (
        believing(Beacon(), Index(SIDES, LIKELIHOOD)),
        ["filter.mode is int32[]", "problem.prior has float32[]"],
    ),
    (
        build().with_advisor(lambda moment, state, belief: belief[0]),
        ["advisor is float32[]", "float32[1]"],
    ),
    (
        replace(build(), expert=EXPERT._replace(act=lambda state, latent: latent)),
        ["expert.act", "float32[1]"],
    ),
]


@pytest.mark.parametrize(("mdp", "says"), SHAPES, ids=[says[0] for _, says in SHAPES])
def test_shapes(mdp: BeliefMDP, says: list[str]) -> None:
    findings = laws.check(mdp)
    assert [(finding.law, finding.ok) for finding in findings] == [
        ("members", True),
        ("shapes", False),
    ]
    assert [words for words in says if words not in findings[1].says] == []


# ---- faults of conduct: told from episodes -------------------------------------------------------


class BrokenLogarithm(Beacon):
    """A NaN for the second entry only, and only where the reading is low.

    The filter itself survives it.
    """

    def log_likelihood(
        self, state: State, action: Action, next_state: Seen, latent: Latent
    ) -> Array:
        nothing = 0 * jnp.log(5 + next_state.reading * (latent > 0))
        return super().log_likelihood(state, action, next_state, latent) + nothing


class BrokenReward(Beacon):
    def step(self, key: Key, state: Seen, action: Action, latent: Latent) -> Step:
        step = super().step(key, state, action, latent)
        return step._replace(reward=jnp.sqrt(6 + step.state.reading))


@pytest.mark.usefixtures("quick_compile")
@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (
            BrokenLogarithm(),
            "filter.log_likelihood is NaN or +inf for entry 1 of filter.support, first at time ",
        ),
        (BrokenReward(), "problem.step: reward is NaN or infinite, first at time "),
    ],
)
def test_finite(problem: Beacon, says: str) -> None:
    findings = laws.check(build(problem))
    assert [finding.law for finding in findings if not finding.ok] == ["finite"]
    assert findings[-1].law == "finite"
    assert findings[-1].says.startswith(says)
    assert len(findings[-1].says.splitlines()) == 1


class Decorated(Beacon):
    """A second coordinate that nothing depends on."""

    def prior(self, key: Key) -> Latent:
        return jax.random.rademacher(key, (2,), jnp.float32)

    def step(self, key: Key, state: Seen, action: Action, latent: Latent) -> Step:
        return super().step(key, state, action, latent[0])

    def log_likelihood(
        self, state: State, action: Action, next_state: Seen, latent: Latent
    ) -> Array:
        return super().log_likelihood(state, action, next_state, latent[0])


class Dark(Beacon):
    """Nothing depends on the latent at all, and the filter knows that."""

    def step(self, key: Key, state: Seen, action: Action, latent: Latent) -> Step:
        return super().step(key, state, action, jnp.float32(0))

    def log_likelihood(
        self, state: State, action: Action, next_state: Seen, latent: Latent
    ) -> Array:
        return jnp.float32(0)


class Constant(Beacon):
    def prior(self, key: Key) -> Latent:
        return jnp.float32(1)


class MixedUp(Categorical):
    """Weights that take likelihoods for their logarithms."""

    def update(self, belief: Array, state: State, action: Action, next_state: State) -> Array:
        told = jax.vmap(self.log_likelihood, (None, None, None, 0))(
            state, action, next_state, self.support
        )
        return jax.nn.log_softmax(belief + jnp.exp(told))


class Moody(Beacon):
    """Randomness that no key controls."""

    def step(self, key: Key, state: Seen, action: Action, latent: Latent) -> Step:
        step = super().step(key, state, action, latent)
        mood = lambda reward: np.random.uniform(size=reward.shape).astype(np.float32)  # noqa: E731
        extra = jax.pure_callback(
            mood, jax.ShapeDtypeStruct((), jnp.float32), step.reward, vmap_method="broadcast_all"
        )
        return step._replace(reward=step.reward + extra)


class Clinging(BeliefMDP):
    """A fresh start with the old latent."""

    def step(self, key: Key, world: World, action: Action) -> tuple[World, Outcome]:
        following, outcome = super().step(key, world, action)
        return following._replace(
            latent=jnp.where(world.over, world.latent, following.latent)
        ), outcome


class Paying(BeliefMDP):
    """A reward for the step on which nothing happens."""

    def step(self, key: Key, world: World, action: Action) -> tuple[World, Outcome]:
        following, outcome = super().step(key, world, action)
        return following, outcome._replace(reward=outcome.reward + 7.0 * world.over)


def decorated() -> BeliefMDP:
    problem = Decorated()
    support = jnp.stack(jnp.meshgrid(SIDES, SIDES), -1).reshape(4, 2)
    expert = EXPERT._replace(act=lambda state, latent: latent[:1])
    return believing(problem, Categorical(support, problem.log_likelihood), expert)


def advised(factor: float) -> BeliefMDP:
    mdp = build()
    return mdp.with_advisor(
        lambda moment, state, belief: factor * mdp.advisor(moment, state, belief)
    )


PLANTED = {
    "too little noise in the filter": (
        lambda: build(Beacon(noise=1.5), believed=Beacon(noise=1.0)),
        {"calibration": ["filter is over-confident at time", "z = ", "filter.update"]},
    ),
    "too little noise in a Gaussian filter": (
        lambda: kalman(noise=1.2),
        {"calibration": ["filter is over-confident at time"]},
    ),
    "a filter that mixes up log and probability": (
        lambda: believing(Beacon(), MixedUp(SIDES, LIKELIHOOD)),
        {
            "calibration": ["under-confident at time", "z = -"],
            "brute force": ["filter.update is not Bayes' rule"],
        },
    ),
    "a coordinate without effect": (
        decorated,
        {"latent matters": ["latent[1] never matters", "problem.step"]},
    ),
    "a latent without effect": (
        lambda: build(Dark()),
        {"latent matters": ["latent never matters"]},
    ),
    "a prior that ignores its key": (
        lambda: believing(Constant(), Categorical(SIDES, LIKELIHOOD, jnp.array([-jnp.inf, 0.0]))),
        {"fresh latent": ["problem.prior gives the same latent every time"]},
    ),
    "a latent that outlives its episode": (
        lambda: build(kind=Clinging),
        {"fresh latent": ["BeliefMDP.step keeps latent when an episode is over"]},
    ),
    "a reward after the end": (
        lambda: build(kind=Paying),
        {"dead step": ["BeliefMDP.step gives reward = 7.0"]},
    ),
    "advice out of bounds": (
        lambda: advised(3.0),
        {"bounds": ["advisor gives component 0", "outside [-1, 1]"]},
    ),
    "another expert's advice": (
        lambda: advised(-1.0),
        {"collapsed belief": ["advisor, sure of entry", "but its expert gives"]},
    ),
    "hidden randomness": (
        lambda: build(Moody()),
        {"zero residual": ["outcome.reward differs", "at time 0"]},
    ),
    "another prior in the filter": (
        lambda: believing(Beacon(), Categorical(SIDES, LIKELIHOOD, jnp.log(jnp.array([0.4, 0.6])))),
        {
            "prior": [
                "filter.init is not the prior: the mean of latent is 0.",
                "problem.prior",
                "z = ",
            ]
        },
    ),
}


@pytest.mark.usefixtures("quick_compile")
@pytest.mark.parametrize("fault", PLANTED)
def test_planted_faults(fault: str) -> None:
    make, expected = PLANTED[fault]
    found = broken(make())
    assert set(found) == set(expected), found
    assert [
        words for law, says in expected.items() for words in says if words not in found[law]
    ] == []


def judged(law: str, mdp: BeliefMDP, episodes: int = laws.EPISODES) -> list[str] | None:
    return laws.judge(laws.LAWS[ALL.index(law)], laws.Observed(mdp, jax.random.key(0), episodes))


class Hopeful(Kalman):
    def init(self) -> Belief:
        return jnp.float32(0.3), jnp.float32(1)


def test_wrong_priors(quick_compile: None) -> None:
    """Of a Gaussian; and of an entry that never is, while all means are right."""
    (complaint,) = judged("prior", replace(kalman(1.5), filter=Hopeful(1.5))) or [""]
    assert "the mean of latent is 0.3" in complaint
    three = Categorical(jnp.array([-1.0, 0.0, 1.0]), LIKELIHOOD)
    (complaint,) = judged("prior", believing(Beacon(), three)) or [""]
    assert "the share of entry 1 of filter.support is 0.33" in complaint
    assert "but 0 in problem.prior" in complaint


def test_wrong_noise_in_the_maze(quick_compile: None) -> None:
    mdp = problems.make("maze4")
    unsure = replace(mdp.problem, noise=0.5 * mdp.problem.noise)  # type: ignore[type-var,attr-defined]
    mdp = replace(mdp, filter=Categorical(unsure.goals, unsure.log_likelihood))
    (complaint,) = judged("calibration", mdp, episodes=1024) or [""]
    assert "over-confident" in complaint


# ---- what may be checked -------------------------------------------------------------------------


def test_check_object() -> None:
    mdp = build()
    assert laws.check_object(mdp) is mdp
    assert laws.check_object(lambda: mdp) is mdp


@pytest.mark.parametrize(
    ("thing", "says"),
    [
        (3, "not a int"),
        (lambda size: build(), "without arguments"),
        (Beacon, "it returned a Beacon"),
        (lambda: 1 / 0, "raised ZeroDivisionError: division by zero (test_laws.py, line"),
    ],
    ids=["a number", "with arguments", "a problem", "an exception"],
)
def test_check_object_tells_the_mistake(thing: Any, says: str) -> None:
    with pytest.raises(UserError) as caught:
        laws.check_object(thing)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
