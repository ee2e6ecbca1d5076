"""Are beliefs as sure as they are right? z-scores over many episodes, written to
results/calibration.json.

.venv/bin/python benchmarks/calibration.py [EPISODES]

The law is `seerax check`'s: truth and posterior sample lie equally far from the mode. Within +-3 is
chance.
"""

from __future__ import annotations

import sys
from pathlib import Path

import jax

import seerax
from seerax import problems
from seerax.laws.beliefs import guessed, overconfidence
from seerax.laws.observed import Observed
from seerax.system import files

ROOT = Path(__file__).parent.parent
EXACT = (
    "maze4",
    "maze10",
    "door4",
    "crowdnav",
    "tree",
    "tiger",
)  # armshelf's and cartpole's are approximations


def scores(name: str, episodes: int, key: int = 1) -> dict[str, float]:
    """By time."""
    observed = Observed(problems.make(name), jax.random.key(key), episodes)
    return {str(at.time): overconfidence(at.truth, at.sample, at.mode) for at in guessed(observed)}


def main() -> None:
    seerax.prepare()
    episodes = int(sys.argv[1]) if sys.argv[1:] else 10_000
    found = {name: scores(name, episodes) for name in EXACT}
    files.write_json(
        ROOT / "results/calibration.json", {"episodes": episodes, "limit": 3, "z": found}
    )
    for name, by_time in found.items():
        told = ", ".join(f"{z:+.1f} at {time}" for time, z in by_time.items())
        print(
            f"{name:9} {'within' if max(map(abs, by_time.values())) < 3 else 'BEYOND'} +-3: {told}"
        )


if __name__ == "__main__":
    main()
