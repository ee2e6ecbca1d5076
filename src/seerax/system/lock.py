"""One writer: two processes cannot work in one folder at once.

The lock is the kernel's (flock), so it ends with its process, even one that was killed. What is written in the file
only tells who holds it.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seerax.errors import UserError, writing
from seerax.system import files

NAME = ".lock"


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """The folder is ours within the block; if it is another's we are told whose."""
    with writing(folder):
        descriptor = os.open(
            folder / NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644
        )
    try:
        _take(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise UserError(
            f"{folder} is in use by {holder(folder)}: wait for it, stop it, or choose another --out."
        ) from error
    except OSError as error:
        raise UserError(
            f"{folder} cannot be locked ({error.strerror}); choose a folder on another disk."
        ) from error
    about = {
        "process": os.getpid(),
        "host": socket.gethostname(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
    }
    with writing(folder):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(about).encode(), 0)


def holder(folder: Path) -> str:
    """In words: which process, where, since when."""
    try:
        about = files.read_json(folder / NAME)
        return f"process {about['process']} on {about['host']} since {about['since']}"
    except (UserError, KeyError):
        return "another process"
