"""When and where an agent senses: what its sensing map shows, in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

from seerax import figures, pictures
from seerax.commands import find_players
from seerax.core import Filter
from seerax.problems.doors import WALL_Y, Doors
from seerax.rollout import Episode

NEAR = 0.5  # metres
UNDECIDED, SURE = 0.9, 0.99  # probability of the most likely latent


def measured(policy: Path) -> dict[str, float]:
    """Shares of steps that sense, of the very episodes on the map; for Door4 how much of it happens near the wall."""
    _, _, [(mdp, player), *_] = find_players(str(policy), None)
    episodes = pictures.episodes_to_map(mdp, player)
    _, _, positions, sensed = figures.gather("", mdp.problem, episodes)
    top = most_likely(mdp.filter, episodes)
    told = {
        "episodes": len(episodes),
        "undecided": share(sensed[top < UNDECIDED]),
        "sure": share(sensed[top >= SURE]),
    }
    if isinstance(mdp.problem, Doors):
        near = np.abs(positions[:, 1] - WALL_Y) < NEAR
        return {**told, "readings_near": share(near[sensed]), "steps_near": share(near)}
    near = np.concatenate([from_start(episode) for episode in episodes]) < NEAR
    return {**told, "at_start": share(sensed[near]), "elsewhere": share(sensed[~near])}


def most_likely(filter: Filter, episodes: Sequence[Episode]) -> np.ndarray:
    """Probability of the most likely latent before each step."""
    beliefs = [jax.vmap(filter.vector)(episode.situation.belief)[:-1] for episode in episodes]
    return np.concatenate([np.asarray(belief).max(-1) for belief in beliefs])


def from_start(episode: Episode) -> np.ndarray:
    position = episode.situation.state.position
    return np.linalg.norm(position[1:] - position[0], axis=-1)


def share(flags: np.ndarray) -> float:
    """Of none, zero."""
    return float(flags.mean()) if flags.size else 0.0
