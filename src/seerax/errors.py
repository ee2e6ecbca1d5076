"""A user's mistake, told in one sentence."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class Mistake(Exception):  # noqa: N818
    """Something the user can put right. The command line prints it and exits with 2."""


def unknown(kind: str, name: str, known: Iterable[str]) -> Mistake:
    known = list(known)
    near = difflib.get_close_matches(name.lower(), known, 1, cutoff=0.5)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return Mistake(f"There is no {kind} '{name}'.{hint} Known: {', '.join(known)}.")
