"""One method on one problem: what is trained, and how it is described in files."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from seerax import agents, problems
from seerax.agents import Agent, Scale
from seerax.bonuses import belief_change, information_gain, potential
from seerax.core import BeliefMDP, Bonus
from seerax.errors import UserError, one_line, unknown
from seerax.ppo import PPO, Config, Trainer
from seerax.ppo.networks import NetworkFactory, actor_critic

BONUS_FORMS: dict[str, Callable[[float, float], Bonus]] = {
    "belief_change": lambda epsilon, discount: belief_change(epsilon),  # the paper's
    "information_gain": lambda epsilon, discount: information_gain(epsilon),  # the authors' code's
    "potential": potential,  # cannot change what is optimal
}


@dataclass(frozen=True)
class Experiment:
    """One method on one problem."""

    problem: str  # a name, or MODULE:OBJECT for a problem of your own
    agent: str = "brpo"
    scale: Scale = 1.0  # of the network's raw output, one for all or one per action dimension
    blend: float | None = None  # instead of the sum, (1 - w) * advice + w * raw
    bonus: float = 0.0  # epsilon of the information bonus
    bonus_form: str = "belief_change"  # or information_gain, potential
    ppo: Config = field(default_factory=Config)

    def mdp(self) -> BeliefMDP:
        return find_problem(self.problem)

    def method(self, agent: Agent | None = None) -> Agent:
        """Returns the agent with its scale or, if asked, its blend; one of one's own is left as it
        is.
        """
        if agent is not None and agent.name not in agents.AGENTS:
            return agent
        agent = agent or agents.find_agent(self.agent)
        if self.blend is None:
            return agent.with_scale(self.scale)
        return agent.with_blend(self.blend)

    def trainer(
        self,
        mdp: BeliefMDP | None = None,
        network: NetworkFactory = actor_critic,
        agent: Agent | None = None,
    ) -> Trainer:
        """Builds what trains it, on the problem of its name or on the one given; so for the agent."""
        for complaint in self.ppo.complaints():
            raise UserError(f"This cannot be trained: {complaint}.")
        method = self.method(agent)
        mdp = self.mdp() if mdp is None else mdp
        self._refuse_misfits(mdp)
        discount = self.ppo.discount_for(mdp.problem)
        learner = PPO(mdp.with_bonus(self._bonus(discount)), method, self.ppo, network)
        return Trainer(learner, {"experiment": asdict(self)})

    def _refuse_misfits(self, mdp: BeliefMDP) -> None:
        for name in ("scale", "blend", "bonus"):
            value = getattr(self, name)
            if value is not None and not np.isfinite(value).all():
                raise UserError(f"This cannot be trained: {name} must be finite, not {value}.")
        for name, value in (("scale", self.scale), ("exploration", self.ppo.exploration)):
            if np.ndim(value) and np.size(value) != mdp.action_size:
                raise UserError(
                    f"{name} has {np.size(value)} entries, but actions have "
                    f"{mdp.action_size} dimensions."
                )

    def _bonus(self, discount: float) -> Bonus | None:
        if self.bonus_form not in BONUS_FORMS:
            raise unknown("bonus form", self.bonus_form, BONUS_FORMS)
        return BONUS_FORMS[self.bonus_form](self.bonus, discount) if self.bonus else None


# ---- from files --------------------------------------------------------------------------------


def experiment_from(fields: Any, path: Path) -> Experiment:
    """Builds an experiment from its JSON form, every field of the type it must have."""
    complaint = f"{path} is not a config of seerax"
    if not isinstance(fields, dict) or not isinstance(fields.get("ppo"), dict):
        raise UserError(f"{complaint}: it does not say how to train.")
    for kind, found in ((Experiment, fields), (Config, fields["ppo"])):
        known = kind.__dataclass_fields__
        for name in found:
            if name not in known:
                raise UserError(f"{complaint}: {unknown('setting', one_line(name), known)}")
    try:
        return msgspec.convert(fields, Experiment)
    except msgspec.ValidationError as error:
        raise UserError(f"{complaint}: {one_line(error)}.") from error


# ---- side by side ------------------------------------------------------------------------------


def flat(config: dict[str, Any]) -> dict[str, Any]:
    """Returns an experiment as plain data, its settings by the names that the command line has for
    them.
    """
    inner = {f"ppo.{name}": value for name, value in config.get("ppo", {}).items()}
    return {**{name: value for name, value in config.items() if name != "ppo"}, **inner}


def varied(*configs: dict[str, Any]) -> dict[str, list[Any]]:
    """Returns the settings in which configs differ, each with its value in every one; None where it
    is missing.
    """
    every = [flat(config) for config in configs]
    values = {name: [each.get(name) for each in every] for config in every for name in config}
    return {
        name: found for name, found in values.items() if any(value != found[0] for value in found)
    }


def labels_of(several: Sequence[Experiment]) -> list[str]:
    """Labels experiments by agent and by what differs within an agent: "brpo, ppo.exploration 2.0"."""
    labels = []
    for each in several:
        alike = [other for other in several if other.agent == each.agent]
        place = alike.index(each)
        differing = varied(*map(asdict, alike))
        words = [f"{name} {in_words(found[place])}" for name, found in differing.items()]
        labels.append(", ".join([each.agent, *words]))
    return labels


def in_words(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


# ---- problems ----------------------------------------------------------------------------------


def find_problem(name: str) -> BeliefMDP:
    """Returns the problem of this name, or of one's own as MODULE:OBJECT."""
    if ":" not in name:
        return problems.make(name)
    from seerax import laws  # only a problem of the user's own needs checking

    return replace(laws.check_object(import_object(name)), name=name)


def import_object(spec: str) -> Any:
    """Imports `package.module:name`, the current folder included in the search."""
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
        public = [name for name in vars(module) if not name.startswith("_")]
        raise unknown(f"object in {module_name}", attribute, public)
    return getattr(module, attribute)
