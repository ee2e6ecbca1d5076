"""Errors that a user can put right.

Internal, except for `seerax.UserError`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class UserError(ValueError):
    """Something the user can put right. The command line prints it and exits with 2.

    `parameters` names the arguments in question; the command line adds the options that set them.
    """

    def __init__(self, message: str, *parameters: str):
        super().__init__(message)
        self.parameters = parameters


def unknown(
    kind: str, name: str, known: Iterable[str], told: Iterable[str] | None = None
) -> UserError:
    """With the nearest of what is known, and all of it, or what is to be told of it."""
    known = list(known)
    near = difflib.get_close_matches(name.lower(), known, 1, cutoff=0.5)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return UserError(f"There is no {kind} '{name}'.{hint} Known: {', '.join(told or known)}.")


@contextmanager
def writing(place: object, otherwise: str = "") -> Iterator[None]:
    """A full disk, a read-only folder and the like are the user's to put right; `otherwise` says
    what is not lost.
    """
    try:
        yield
    except OSError as error:
        raise UserError(
            f"Cannot write to {place}: {error.strerror or error}.{otherwise}"
        ) from error


def one_line(text: object) -> str:
    """On one line and without control characters, for names in a stranger's file may hold any."""
    return "".join(c if c.isprintable() else " " for c in " ".join(str(text).split()))
