"""Pytrees of arrays as safetensors files, which unlike pickles cannot run code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import Array
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from seerax.errors import UserError
from seerax.numerics.trees import is_key
from seerax.system.files import LARGEST_ARRAYS, parse_json, require_file, write_bytes


def leaves_by_path(tree: Any) -> dict[str, Any]:
    """Returns the leaves of a pytree by their path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def to_bytes(tree: Any, about: dict[str, Any]) -> bytes:
    """Serialises a pytree; `about` is plain data that is kept in the file's header."""
    data = {
        name: jax.random.key_data(x) if is_key(x) else x for name, x in leaves_by_path(tree).items()
    }
    arrays = {name: np.asarray(x, order="C") for name, x in data.items()}
    return save(arrays, metadata={"seerax": json.dumps(about)})


def save_tree(path: Path, tree: Any, about: dict[str, Any]) -> None:
    """Writes a pytree and plain data about it to a file, atomically."""
    write_bytes(path, to_bytes(tree, about))


def read_about(path: Path) -> dict[str, Any]:
    """Reads the plain data in a file's header."""
    require_file(path, LARGEST_ARRAYS)
    try:
        with safe_open(path, framework="numpy") as file:
            return parse_json((file.metadata() or {})["seerax"], path)
    except (OSError, SafetensorError, KeyError) as error:
        raise UserError(
            f"{path} is not a file that seerax wrote ({type(error).__name__})."
        ) from error


def load_tree(path: Path, like: Any) -> Any:
    """Loads arrays into the structure of `like`.

    Refuses the file if its names, shapes and dtypes are not those of `like`.
    """
    require_file(path, LARGEST_ARRAYS)
    wanted = {name: _stored(leaf) for name, leaf in leaves_by_path(like).items()}
    try:
        with safe_open(path, framework="numpy") as file:
            _refuse_misfits(path, file, wanted)
            found = {name: file.get_tensor(name) for name in wanted}
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path} cannot be read ({error}).") from error
    leaves = [
        _restore(path, name, found[name], leaf) for name, leaf in leaves_by_path(like).items()
    ]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _stored(leaf: Any) -> Any:
    """Returns the form of a leaf in a file, where keys are stored as their numbers."""
    return jax.eval_shape(jax.random.key_data, leaf) if is_key(leaf) else leaf


def _refuse_misfits(path: Path, file: Any, wanted: dict[str, Any]) -> None:
    odd = sorted(set(file.keys()) ^ set(wanted))
    if odd:
        raise UserError(
            f"{path} does not fit this problem and agent: its arrays differ, {odd[0]} for one."
        )
    for name, like in wanted.items():
        shape = file.get_slice(name).get_shape()
        if shape != list(like.shape):
            raise UserError(
                f"{path} does not fit this problem and agent: "
                f"{name} is {shape}, not {list(like.shape)}."
            )


def _restore(path: Path, name: str, array: np.ndarray, like: Any) -> Array:
    if array.dtype != _stored(like).dtype:
        raise UserError(
            f"{path} does not fit this problem and agent: "
            f"{name} is {array.dtype}, not {_stored(like).dtype}."
        )
    numbers = jax.numpy.asarray(array)
    return jax.random.wrap_key_data(numbers) if is_key(like) else numbers
