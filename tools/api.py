"""Writes docs/api.md: every public name with the first sentence of its docstring."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "seerax"
PAGE = ROOT / "docs" / "api.md"

HEAD = """# Every public name

This page is written by `python tools/api.py` from the docstrings.
What is not listed here is internal and may change without notice.
"""
MODULES = {  # in the order of the page
    "": "The face: `import seerax`",
    "core": "The nouns",
    "filters": "Bayes filters",
    "advice": "From belief and experts to one recommendation",
    "experts": "What experts are made of",
    "experts.arm": "",
    "experts.flow": "",
    "experts.lqr": "",
    "experts.shooting": "",
    "agents": "Methods: what a network sees and what its output means",
    "bonuses": "Information bonuses",
    "laws": "The laws every problem must obey",
    "problems": "The problems that come with seerax",
    "ppo": "Training",
    "ppo.networks": "",
    "ppo.trainer": "",
    "experiments": "One method on one problem",
    "settings": "",
    "rollout": "Playing episodes",
    "runs": "Runs on disk",
    "players": "Who can play",
    "gym": "Gymnasium",
    "interop.pilot": "On a robot",
}


def path_of(module: str) -> Path:
    """Returns the file of a module; "" is the package itself."""
    path = SOURCE.joinpath(*module.split(".")) if module else SOURCE
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def definitions(path: Path) -> dict[str, str]:
    """Returns the functions and classes of a file, each with the first sentence of its docstring."""
    found = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            text = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
            found[node.name] = re.split(r"(?<=[.:])\s(?=[A-Z`])", text)[0]
    return found


def exports(path: Path) -> dict[str, tuple[Path, str]]:
    """Returns what a file re-exports from the package: by name, the file it is defined in."""
    found = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("seerax"):
            home = path_of(node.module.removeprefix("seerax").lstrip("."))
            found |= {alias.asname or alias.name: (home, alias.name) for alias in node.names}
    return found


def public_names(module: str) -> dict[str, str]:
    """Returns the public functions and classes of a module, each with a sentence."""
    found = _all_names(module)
    if module in ONLY:
        return {name: found[name] for name in ONLY[module].split()}
    return found


def _all_names(module: str) -> dict[str, str]:
    path = path_of(module)
    own = {name: says for name, says in definitions(path).items() if not name.startswith("_")}
    if path.name != "__init__.py" and module != "gym":
        return own
    named = {}
    for name, (home, original) in exports(path).items():
        onward = exports(home).get(original)
        if original not in definitions(home) and onward:
            home, original = onward
        if original in definitions(home):
            named[name] = definitions(home)[original]
    return dict(sorted((named if module in LISTED else named | own).items()))


LISTED = ("", "filters", "experts", "ppo", "runs", "gym")  # packages that only re-export
ONLY = {  # modules whose other names are internal
    "core": "Ability BeliefMDP Expert Filter Moment Outcome Problem Situation Step World ability",
    "filters": "Categorical ExtendedKalman Factored Gaussian spread",
    "laws": "Finding Law check",
    "problems": "Entry make title",
    "ppo": "Config LearnedPolicy PPO Progress Trainer",
    "ppo.networks": "ActorCritic MLP Network Normaliser actor_critic log_prob",
    "ppo.trainer": "Learner",
    "experiments": "Experiment find_problem",
    "rollout": "Episode Evaluation evaluate play_batch pool_seeds record",
    "runs": "Run RunFolder load load_policy reopen train versions",
    "players": "Player Players baseline find_players",
    "experts.arm": "Arm Boxes Capsules Frames body gaps",
    "experts.flow": "Flow FlowPlanner clearance distance_to_segments",
    "interop.pilot": "Pilot play",
}


def page() -> str:
    """Returns the page."""
    parts = [HEAD]
    for module, title in MODULES.items():
        heading = f"## {title}\n\n" if title else ""
        lines = [f"- `{name}`: {says}" for name, says in public_names(module).items()]
        dotted = f"seerax.{module}".rstrip(".")
        parts.append(f"{heading}`{dotted}`\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
