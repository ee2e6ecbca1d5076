"""When and where an agent senses, in numbers: a sensing map counted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

from seerax import figures, pictures
from seerax.core import Filter
from seerax.players import find_players
from seerax.problems.doors import WALL_Y, Doors
from seerax.rollout import Episode

NEAR = 0.5  # metres
UNDECIDED = 0.9  # below this probability of the most likely latent
SURE = 0.99  # from this probability of the most likely latent on


def measured(policy: Path) -> dict[str, float]:
    """Returns shares of steps that sense, over the episodes of the sensing map.

    On Door4 it also returns the share of readings, and of steps, near the wall.
    """
    (mdp, player), *_ = find_players(str(policy)).players
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
    """Returns the probability of the most likely latent before each step."""
    beliefs = [jax.vmap(filter.vector)(episode.situation.belief)[:-1] for episode in episodes]
    return np.concatenate([np.asarray(belief).max(-1) for belief in beliefs])


def from_start(episode: Episode) -> np.ndarray:
    """Returns the distance from the start after each step."""
    position = episode.situation.state.position
    return np.linalg.norm(position[1:] - position[0], axis=-1)


def share(flags: np.ndarray) -> float:
    """Returns the share of flags that are true; of no flags it is zero."""
    return float(flags.mean()) if flags.size else 0.0
