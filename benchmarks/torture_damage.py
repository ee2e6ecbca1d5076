"""Section flips: flipped bits and truncations in the newest checkpoint's two files."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import numpy as np
from torture_small import must, undisturbed

from seerax import runs
from seerax.runs.checkpoints import Checkpoints, Damage
from seerax.runs.training import checkpoint_shapes
from seerax.system import pytrees


def flips(bits: int = 200, cuts: int = 100) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        return damaged_and_recovered(undisturbed(Path(name) / "run", 3), bits, cuts)


def damaged_and_recovered(path: Path, bits: int, cuts: int) -> dict[str, Any]:
    """Damages copies of a run's checkpoints, and loads what is left."""
    dice = random.Random(0)
    counts = Counter[str]()
    run = runs.reopen(path)
    like = checkpoint_shapes(run, run.experiment.trainer())
    source = run.folder.checkpoints
    last, before = source.numbers()
    expected = pytrees.load_tree(source.arrays(before), like)
    for trial in range(bits + cuts):
        with tempfile.TemporaryDirectory() as place:
            copy = Checkpoints(shutil.copytree(source.folder, Path(place) / "checkpoints"))
            victim = dice.choice([copy.arrays, copy.manifest])(last)
            harm = flipped if trial < bits else cut
            victim.write_bytes(harm(victim.read_bytes(), dice))
            counts.update(**{harm.__name__: 1}, detected=detected(copy, last))
            must_recover(copy, victim, like, expected)
            counts["recovered"] += 1
    found = f"{counts['detected']} of {bits + cuts} damages were detected"
    must(counts["detected"] == bits + cuts, found)
    told = {"bit_flips": counts["flipped"], "truncations": counts["cut"]}
    return {**told, "detected": counts["detected"], "recovered": counts["recovered"]}


def flipped(content: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(8 * len(content))
    changed = bytearray(content)
    changed[at // 8] ^= 1 << at % 8
    return bytes(changed)


def cut(content: bytes, dice: random.Random) -> bytes:
    return content[: dice.randrange(len(content))]


def detected(checkpoints: Checkpoints, number: int) -> bool:
    try:
        checkpoints.verified(number)
    except Damage:
        return True
    return False


def must_recover(checkpoints: Checkpoints, victim: Path, like: Any, expected: Any) -> None:
    """Loads the checkpoint before it, in every bit; the damaged file is named and kept."""
    said: list[str] = []
    damaged = victim.read_bytes()
    found, _ = checkpoints.load(like, said.append) or (None, None)
    must(bits_of(found) == bits_of(expected), "what was recovered differs")
    must(any(victim.stem in line for line in said), "the damaged checkpoint was not named")
    kept = checkpoints.folder / "damaged" / victim.name
    must(kept.read_bytes() == damaged, "the damaged file was not kept")


def bits_of(tree: Any) -> list[bytes]:
    """Returns the bytes of every leaf."""
    return [as_array(leaf).tobytes() for leaf in jax.tree.leaves(tree)]


def as_array(leaf: Any) -> np.ndarray:
    """Converts a leaf to an array of the host, a random key to its bits."""
    is_key = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)
