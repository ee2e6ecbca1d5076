"""Pytrees of arrays as safetensors files: no pickle, written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import Array
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from seerax.errors import Mistake


def write_bytes(path: Path, content: bytes) -> None:
    """Under a temporary name first, then renamed: a reader sees the old file or the new one."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_json(path: Path, content: Any) -> None:
    write_bytes(path, (json.dumps(content, indent=2) + "\n").encode())


def is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | jax.ShapeDtypeStruct) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def named(tree: Any) -> dict[str, Any]:
    """The leaves of a pytree by their path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def save_tree(path: Path, tree: Any, about: dict[str, Any]) -> None:
    """`about` is plain data kept in the file's header."""
    data = {name: jax.random.key_data(x) if is_key(x) else x for name, x in named(tree).items()}
    arrays = {name: np.asarray(x, order="C") for name, x in data.items()}
    write_bytes(path, save(arrays, metadata={"seerax": json.dumps(about)}))


def read_about(path: Path) -> dict[str, Any]:
    """The plain data in a file's header."""
    try:
        with safe_open(path, framework="numpy") as file:
            return json.loads((file.metadata() or {})["seerax"])
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise Mistake(f"{path} is not a file that seerax wrote ({type(error).__name__}).") from error


def load_tree(path: Path, like: Any) -> Any:
    """Arrays into the structure of `like`, whose names, shapes and types they must have."""
    wanted = named(like)
    try:
        with safe_open(path, framework="numpy") as file:
            found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise Mistake(f"{path} cannot be read ({error}).") from error
    if set(found) != set(wanted):
        odd = sorted(set(found) ^ set(wanted))[0]
        raise Mistake(f"{path} does not fit this problem and agent: its arrays differ, {odd} for one.")
    leaves = [_fitted(path, name, found[name], leaf) for name, leaf in wanted.items()]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _fitted(path: Path, name: str, array: np.ndarray, like: Any) -> Array:
    if is_key(like):
        return jax.random.wrap_key_data(jax.numpy.asarray(array))
    if array.shape != like.shape or array.dtype != like.dtype:
        raise Mistake(
            f"{path} does not fit this problem and agent: {name} is {array.dtype}{list(array.shape)}, "
            f"not {like.dtype}{list(like.shape)}."
        )
    return jax.numpy.asarray(array)
