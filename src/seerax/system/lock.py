"""A lock that lets one process at a time work in a folder.

It is the kernel's (flock), so it ends with its process, even one that was killed. The content of
the file only names the holder.
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
    """Holds the folder's lock within the block; refuses, naming the holder, if it is taken."""
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
            f"{folder} is in use by {holder(folder)}: "
            "wait for it, stop it, or choose another folder.",
            "out",
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
    """Returns in words which process holds the lock, where, and since when."""
    try:
        about = files.read_json(folder / NAME)
        return f"process {about['process']} on {about['host']} since {about['since']}"
    except (UserError, KeyError):
        return "another process"
