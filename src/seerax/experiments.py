"""What is trained how: one method on one problem, and the settings we use for each."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from seerax import agents, problems
from seerax.agents import Agent
from seerax.bonuses import belief_change, information_gain, potential
from seerax.core import BeliefMDP, Bonus
from seerax.errors import UserError, one_line, unknown
from seerax.ppo import PPO
from seerax.ppo.config import Config

Scale = float | tuple[float, ...]


@dataclass(frozen=True)
class Experiment:
    """One method on one problem."""

    problem: str  # a name, or MODULE:OBJECT for a problem of your own
    agent: str = "brpo"
    scale: Scale = 1.0  # of the network's raw output, one for all or one per action dimension
    blend: float | None = None  # instead of the sum, (1 - w) * advice + w * raw
    bonus: float = 0.0  # epsilon of the information bonus
    bonus_form: str = (
        "belief_change"  # the paper's; information_gain: its code's; potential: shaping
    )
    ppo: Config = field(default_factory=Config)

    def mdp(self) -> BeliefMDP:
        mdp = find_problem(self.problem)
        return mdp.with_bonus(
            self._bonus(mdp.problem.discount if self.ppo.discount is None else self.ppo.discount)
        )

    def method(self) -> Agent:
        if self.agent not in agents.AGENTS:
            raise unknown("agent", self.agent, agents.AGENTS)
        agent = agents.AGENTS[self.agent]
        learns_residual = self.agent.startswith("brpo")
        if self.blend is not None and learns_residual:
            return agent.with_compose(agents.blend(self.blend))
        return agent.with_compose(
            agents.residual(self.scale) if learns_residual else agents.direct(self.scale)
        )

    def trainer(self) -> PPO:
        for complaint in self.ppo.complaints():
            raise UserError(f"This cannot be trained: {complaint}.")
        mdp = self.mdp()
        for name, value in (("scale", self.scale), ("blend", self.blend), ("bonus", self.bonus)):
            if value is not None and not np.isfinite(value).all():
                raise UserError(f"This cannot be trained: {name} must be finite, not {value}.")
        for name, value in (("scale", self.scale), ("exploration", self.ppo.exploration)):
            if np.ndim(value) and np.size(value) != mdp.action_size:
                raise UserError(
                    f"{name} has {np.size(value)} entries, but actions have {mdp.action_size} dimensions."
                )
        return PPO(mdp, self.method(), self.ppo)

    def _bonus(self, discount: float) -> Bonus | None:
        shaping = partial(potential, discount=discount)
        forms: dict[str, Any] = {
            "belief_change": belief_change,
            "information_gain": information_gain,
            "potential": shaping,
        }
        if self.bonus_form not in forms:
            raise unknown("bonus form", self.bonus_form, forms)
        return forms[self.bonus_form](self.bonus) if self.bonus else None


# ---- settings ----------------------------------------------------------------------------------------------------


def settings(problem: str, agent: str = "brpo") -> Experiment:
    """How we train each agent on each problem. A problem of your own gets the defaults."""
    experiment = replace(SETTINGS.get(problem, Experiment(problem)), agent=agent)
    return experiment if agent.startswith("brpo") else without_advice(experiment)


def without_advice(experiment: Experiment) -> Experiment:
    """For agents with no advice to stay near: the largest scale and exploration of any action dimension, for all."""
    widest = float(np.max(experiment.ppo.exploration))
    scale = max(1.0, float(np.max(experiment.scale)))
    return replace(experiment, scale=scale, ppo=replace(experiment.ppo, exploration=widest))


# Short episodes and crisp choices: few steps an iteration, much noise at first and little in the end.
QUICK = Config(
    steps=6_000_000,
    worlds=2048,
    rollout_length=16,
    minibatches=8,
    learning_rate=3e-3,
    exploration=2.0,
    exploration_end=0.05,
    evaluation_episodes=2048,
)
# Long episodes: far-sighted, larger minibatches, and many held-out episodes where rare accidents decide.
LONG = Config(
    steps=12_000_000,
    minibatches=8,
    learning_rate=2e-3,
    discount=0.998,
    exploration_end=0.2,
    evaluations=12,
    evaluation_episodes=1024,
)
MAZE = replace(LONG, worlds=2048, minibatches=16, discount=0.999, evaluation_episodes=2048)
SETTINGS = {
    "crowdnav": Experiment(
        "crowdnav", ppo=replace(LONG, steps=6_000_000, discount=0.999, evaluation_episodes=2048)
    ),
    "cartpole": Experiment(
        "cartpole", scale=5.0, ppo=replace(LONG, steps=5_000_000, evaluations=20)
    ),
    "armshelf": Experiment(
        "armshelf",
        scale=(1.0, 1.0, 1.0, 0.1),
        ppo=replace(
            LONG,
            steps=20_000_000,
            discount=0.999,
            gae_lambda=0.97,
            exploration=(0.3, 0.3, 0.3, 1.0),
        ),
    ),
    "maze4": Experiment("maze4", scale=(0.5, 0.5, 0.1), ppo=replace(MAZE, steps=20_000_000)),
    "maze10": Experiment("maze10", scale=(0.5, 0.5, 0.1), ppo=replace(MAZE, steps=30_000_000)),
    "door4": Experiment("door4", scale=(0.5, 0.5, 0.1), ppo=LONG),
    "tree": Experiment("tree", ppo=replace(QUICK, steps=1_000_000)),
    "tiger": Experiment("tiger", ppo=QUICK),
}


# ---- from files --------------------------------------------------------------------------------------------------


def experiment_from(fields: Any, path: Path) -> Experiment:
    """An experiment from its JSON form, every field of the type it must have."""
    if (
        not isinstance(fields, dict)
        or not isinstance(fields.get("ppo"), dict)
        or "problem" not in fields
    ):
        raise UserError(f"{path} is not a config of seerax: it does not say how to train.")
    return Experiment(
        **{
            **checked(Experiment, fields, path),
            "ppo": Config(**checked(Config, fields["ppo"], path)),
        }
    )


def checked(kind: Any, fields: dict[str, Any], path: Path) -> dict[str, Any]:
    """The fields of a dataclass; JSON knows lists where we have tuples."""
    hints = get_type_hints(kind)
    for name, value in fields.items():
        if name not in hints:
            raise UserError(
                f"{path} is not a config of seerax: {unknown('setting', one_line(name), hints)}"
            )
        if name != "ppo" and not fits(value, hints[name]):
            raise UserError(
                f"{path} is not a config of seerax: {name} cannot be {one_line(repr(value))[:80]}."
            )
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }


def fits(value: Any, hint: Any) -> bool:
    """Whether a JSON value is of a type made of numbers, strings, tuples and alternatives."""
    if get_origin(hint) in (Union, UnionType):
        return any(fits(value, each) for each in get_args(hint))
    if get_origin(hint) is tuple:
        return isinstance(value, list) and all(fits(entry, get_args(hint)[0]) for entry in value)
    if hint is float:
        return (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and abs(value) <= sys.float_info.max
        )
    return isinstance(value, hint) and (hint is bool or not isinstance(value, bool))


# ---- side by side ------------------------------------------------------------------------------------------------


def flat(config: dict[str, Any]) -> dict[str, Any]:
    """An experiment as plain data, its settings by the names that the command line has for them."""
    inner = {f"ppo.{name}": value for name, value in config.get("ppo", {}).items()}
    return {**{name: value for name, value in config.items() if name != "ppo"}, **inner}


def varied(*configs: dict[str, Any]) -> dict[str, list[Any]]:
    """The settings in which they differ, each with its value in every one of them; None where it has none."""
    every = [flat(config) for config in configs]
    values = {name: [each.get(name) for each in every] for config in every for name in config}
    return {
        name: found for name, found in values.items() if any(value != found[0] for value in found)
    }


def told_apart(several: Sequence[Experiment]) -> list[str]:
    """Each by its agent, and by what differs between those of the same agent: "brpo, ppo.exploration 2.0"."""
    labels = []
    for each in several:
        alike = [other for other in several if other.agent == each.agent]
        mine = {
            name: found[alike.index(each)] for name, found in varied(*map(asdict, alike)).items()
        }
        labels.append(
            ", ".join([each.agent, *(f"{name} {in_words(value)}" for name, value in mine.items())])
        )
    return labels


def in_words(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


# ---- problems ----------------------------------------------------------------------------------------------------


def find_problem(name: str) -> BeliefMDP:
    """By name, or by MODULE:OBJECT."""
    if ":" not in name:
        return problems.make(name)
    from seerax import laws  # only a problem of the user's own needs checking

    return laws.check_object(import_object(name))


def import_object(spec: str) -> Any:
    """`package.module:name`, the current folder included in the search."""
    module_name, _, attribute = spec.partition(":")
    if not module_name or not attribute:
        raise UserError(f"'{spec}' should read MODULE:OBJECT, like wind:mdp.")
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise UserError(f"There is no module '{error.name}' to import for '{spec}'.") from error
    except Exception as error:
        raise UserError(
            f"Importing '{module_name}' failed: {type(error).__name__}: {error}"
        ) from error
    finally:
        sys.path.pop(0)
    if not hasattr(module, attribute):
        raise unknown(
            f"object in {module_name}",
            attribute,
            [n for n in vars(module) if not n.startswith("_")],
        )
    return getattr(module, attribute)
