"""Files that are whole or not there, and pytrees of arrays as safetensors: no pickle, nothing that a file can run."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import Array
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from seerax.errors import Mistake, writing

LARGEST_JSON = 1 << 20  # bytes; ours are a few thousand
LARGEST_ARRAYS = 1 << 34
UNFINISHED = ".unfinished"  # ends the name of what is still being written


# ---- writing -----------------------------------------------------------------------------------------------------


def write_bytes(path: Path, content: bytes) -> None:
    """Under a temporary name, synced, then renamed: a reader sees the old file or the new one, even after a crash."""
    descriptor, temporary = tempfile.mkstemp(UNFINISHED, f".{path.name}.", path.parent)
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
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """So that a rename in it outlives a power failure."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_room(path: Path) -> None:
    """Its folder, for a file yet to come: that it cannot be written is told before the work, not after it."""
    with writing(path):
        if path.is_dir():
            raise Mistake(f"{path} is a folder, not a file to write.")
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()


def write_json(path: Path, content: Any) -> None:
    write_bytes(path, (json.dumps(content, indent=2) + "\n").encode())


def unfinished(path: Path) -> bool:
    """Left by a process that was killed while writing."""
    return path.name.startswith(".") and path.name.endswith(UNFINISHED)


def sweep(folder: Path) -> None:
    """Remove what a killed writer left unfinished. Only for whoever holds the folder's lock."""
    for left in folder.glob(f".*{UNFINISHED}"):
        left.unlink(missing_ok=True)


# ---- reading what anybody may have written -----------------------------------------------------------------------


def checked(path: Path, largest: int) -> Path:
    """A plain file of sensible size: not a pipe to wait at for ever, not a device without end."""
    try:
        about = path.stat()
    except OSError as error:
        raise Mistake(f"{path} cannot be read ({error.strerror}).") from error
    if not stat.S_ISREG(about.st_mode):
        raise Mistake(f"{path} is not a plain file.")
    if about.st_size > largest:
        raise Mistake(
            f"{path} is too large to be ours: {about.st_size} bytes, where {largest} are the most."
        )
    return path


def refuse_links_out(folder: Path) -> None:
    """A link in a stranger's folder could lead our writing anywhere."""
    home = folder.resolve()
    for path in folder.rglob("*"):
        if path.is_symlink() and not path.resolve().is_relative_to(home):
            raise Mistake(
                f"{path} is a link that leads out of {folder}; seerax does not follow it."
            )


def parsed(text: bytes | str, path: Path) -> dict[str, Any]:
    """A JSON object, and nothing that only looks like one."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Mistake(f"{path} is not valid JSON ({error}).") from error
    if not isinstance(content, dict):
        raise Mistake(f"{path} should hold a JSON object, not {type(content).__name__}.")
    return content


def read_json(path: Path) -> dict[str, Any]:
    checked(path, LARGEST_JSON)
    try:
        return parsed(path.read_bytes(), path)
    except OSError as error:
        raise Mistake(f"{path} cannot be read ({error.strerror}).") from error


# ---- pytrees -----------------------------------------------------------------------------------------------------


def is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | jax.ShapeDtypeStruct) and jax.dtypes.issubdtype(
        leaf.dtype, jax.dtypes.prng_key
    )


def named(tree: Any) -> dict[str, Any]:
    """The leaves of a pytree by their path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def to_bytes(tree: Any, about: dict[str, Any]) -> bytes:
    """`about` is plain data kept in the file's header."""
    data = {name: jax.random.key_data(x) if is_key(x) else x for name, x in named(tree).items()}
    arrays = {name: np.asarray(x, order="C") for name, x in data.items()}
    return save(arrays, metadata={"seerax": json.dumps(about)})


def save_tree(path: Path, tree: Any, about: dict[str, Any]) -> None:
    write_bytes(path, to_bytes(tree, about))


def read_about(path: Path) -> dict[str, Any]:
    """The plain data in a file's header."""
    checked(path, LARGEST_ARRAYS)
    try:
        with safe_open(path, framework="numpy") as file:
            return parsed((file.metadata() or {})["seerax"], path)
    except (OSError, SafetensorError, KeyError) as error:
        raise Mistake(
            f"{path} is not a file that seerax wrote ({type(error).__name__})."
        ) from error


def load_tree(path: Path, like: Any) -> Any:
    """Arrays into the structure of `like`, whose names, shapes and types they must have; else none is loaded."""
    checked(path, LARGEST_ARRAYS)
    wanted = {name: _stored(leaf) for name, leaf in named(like).items()}
    try:
        with safe_open(path, framework="numpy") as file:
            _refuse_misfits(path, file, wanted)
            found = {name: file.get_tensor(name) for name in wanted}
    except (OSError, SafetensorError) as error:
        raise Mistake(f"{path} cannot be read ({error}).") from error
    leaves = [_revived(path, name, found[name], leaf) for name, leaf in named(like).items()]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _stored(leaf: Any) -> Any:
    """What a leaf looks like in a file: keys are kept as their numbers."""
    return jax.eval_shape(jax.random.key_data, leaf) if is_key(leaf) else leaf


def _refuse_misfits(path: Path, file: Any, wanted: dict[str, Any]) -> None:
    odd = sorted(set(file.keys()) ^ set(wanted))
    if odd:
        raise Mistake(
            f"{path} does not fit this problem and agent: its arrays differ, {odd[0]} for one."
        )
    for name, like in wanted.items():
        shape = file.get_slice(name).get_shape()
        if shape != list(like.shape):
            raise Mistake(
                f"{path} does not fit this problem and agent: {name} is {shape}, not {list(like.shape)}."
            )


def _revived(path: Path, name: str, array: np.ndarray, like: Any) -> Array:
    if array.dtype != _stored(like).dtype:
        raise Mistake(
            f"{path} does not fit this problem and agent: {name} is {array.dtype}, not {_stored(like).dtype}."
        )
    return (
        jax.random.wrap_key_data(jax.numpy.asarray(array))
        if is_key(like)
        else jax.numpy.asarray(array)
    )
