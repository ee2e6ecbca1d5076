"""Files that are written atomically, and read without trust in their author."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

from seerax.errors import UserError, writing

LARGEST_JSON = 1 << 20  # bytes; seerax writes a few thousand
LARGEST_ARRAYS = 1 << 34
UNFINISHED = ".unfinished"  # suffix of a file that is still being written


# ---- writing -------------------------------------------------------------------------------------


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a file atomically.

    The content is written under a temporary name, synced and renamed: a reader sees the old file or
    the new one, even after a crash.
    """
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
    """Syncs a folder, so that a rename in it survives a power failure."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def prepare_parent(path: Path) -> None:
    """Creates the parent folder and checks that it is writable.

    So failures surface before the work, not after it.
    """
    with writing(path):
        if path.is_dir():
            raise UserError(f"{path} is a folder, not a file to write.")
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()


def write_json(path: Path, content: Any) -> None:
    """Writes a JSON file atomically."""
    write_bytes(path, (json.dumps(content, indent=2) + "\n").encode())


def is_unfinished(path: Path) -> bool:
    """True for a file left by a process that was killed while writing."""
    return path.name.startswith(".") and path.name.endswith(UNFINISHED)


def remove_unfinished(folder: Path) -> None:
    """Removes what a killed writer left unfinished. The caller must hold the folder's lock."""
    for left in folder.glob(f".*{UNFINISHED}"):
        left.unlink(missing_ok=True)


# ---- reading -------------------------------------------------------------------------------------


def require_file(path: Path, largest: int) -> Path:
    """Refuses what is not a plain file of at most `largest` bytes, and returns the path.

    Reading a pipe could block for ever, and reading a device could never end.
    """
    try:
        about = path.stat()
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}).") from error
    if not stat.S_ISREG(about.st_mode):
        raise UserError(f"{path} is not a plain file.")
    if about.st_size > largest:
        raise UserError(
            f"{path} is too large: {about.st_size} bytes, and seerax reads at most {largest}."
        )
    return path


def refuse_links_out(folder: Path) -> None:
    """Refuses a folder with links that lead out of it, through which writing could go anywhere."""
    home = folder.resolve()
    for path in folder.rglob("*"):
        if path.is_symlink() and not path.resolve().is_relative_to(home):
            raise UserError(
                f"{path} is a link that leads out of {folder}; seerax does not follow it."
            )


def parse_json(text: bytes | str, path: Path) -> dict[str, Any]:
    """Parses a JSON object and refuses everything else."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not valid JSON ({error}).") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} should hold a JSON object, not {type(content).__name__}.")
    return content


def read_json(path: Path) -> dict[str, Any]:
    """Reads a file that holds a JSON object."""
    require_file(path, LARGEST_JSON)
    try:
        return parse_json(path.read_bytes(), path)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}).") from error
