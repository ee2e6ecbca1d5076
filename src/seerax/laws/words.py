"""Words for what went wrong: exceptions, kinds of objects, shapes."""

from __future__ import annotations

import inspect
import traceback
from pathlib import Path
from typing import Any

import jax


def describe_error(error: Exception) -> str:
    """Returns an exception in one line, with its place in the user's own code if there is one."""
    lines = str(error).strip().splitlines() or [""]
    essence = lines[-1 if "Traceback" in lines[0] else 0][:200].rstrip(".")
    foreign = ("site-packages", str(Path(inspect.__file__).parent), str(Path(__file__).parent))
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not any(path in frame.filename for path in foreign):
            where = f" ({Path(frame.filename).name}, line {frame.lineno})"
            return f"{type(error).__name__}: {essence}{where}"
    return f"{type(error).__name__}: {essence}"


def describe_kind(thing: Any) -> str:
    """Returns what kind of object this is, with its name if it has one."""
    name = type(thing).__name__
    return f"{name} '{thing.__name__}'" if hasattr(thing, "__name__") else f"a {name}"


def describe_shape(tree: Any) -> str:
    """Returns dtypes and shapes of the leaves, such as 'float32[2, 3] and bool[]'."""
    leaves = [f"{leaf.dtype}[{', '.join(map(str, leaf.shape))}]" for leaf in jax.tree.leaves(tree)]
    return " and ".join(leaves) or "empty"
