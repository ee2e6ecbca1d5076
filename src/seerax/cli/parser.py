"""Reads the words of a command line, and says in one sentence what cannot be read."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable
from typing import Any

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from seerax.errors import UserError, one_line

REGISTRY = ConstructorRegistry()  # how numbers, truths and nothing are written, in every command


def whole_number(text: str) -> int:
    """Reads 1000000, 1_000_000 and 1e6 as the same whole number."""
    try:
        return int(text)
    except ValueError:
        if not number(text).is_integer():
            raise ValueError(f"'{text}' is not a whole number") from None
        return int(number(text))


def number(text: str) -> float:
    """Reads a real number."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a number") from None


def truth(text: str) -> bool:
    """Reads true or false."""
    if text.lower() not in ("true", "false"):
        raise ValueError(f"'{text}' is not a truth value")
    return text.lower() == "true"


def nothing(text: str) -> None:
    """Reads none."""
    if text.lower() != "none":
        raise ValueError(f"'{text}' is not none")


READERS: dict[type, tuple[str, Callable[[str], Any]]] = {
    int: ("INT", whole_number),
    float: ("FLOAT", number),
    bool: ("true|false", truth),
    type(None): ("none", nothing),
}


@REGISTRY.primitive_rule
def _reader(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec | None:
    """Returns how tyro reads and writes a value of one of the types above."""
    kind: Any = info.type
    if kind not in READERS:
        return None
    metavar, read = READERS[kind]
    accepted = (int, float) if kind is float else kind
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda words: read(words[0]),
        is_instance=lambda value: isinstance(value, accepted),
        str_from_instance=lambda value: [_written(value)],
    )


def _written(value: Any) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def parse_words(kind: Any, words: list[str], **options: Any) -> Any:
    """Parses words as a value of some type; a box that tyro would print becomes one sentence."""
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint), REGISTRY:
            config = (tyro.conf.FlagCreatePairsOff,)
            return tyro.cli(kind, prog="seerax", args=words, config=config, **options)
    except SystemExit as ended:
        if ended.code:
            raise UserError(in_short(complaint.getvalue())) from ended
        raise


# ---- what tyro complains of ----------------------------------------------------------------------


def in_short(boxed: str) -> str:
    """Shortens tyro's box to one sentence: what is wrong, and what may have been meant."""
    lines = [line.strip("│|╭╮╰╯+").rstrip() for line in boxed.splitlines()]
    _, wrong, *rest = [*re.split("[─-]{4,}", "\n".join(lines)), ""]
    suggestions = "".join(part for part in rest if "Perhaps you meant" in part)
    meant = re.findall(r"--\w[\w.-]*", suggestions)
    hint = f" Did you mean {meant[0]}?" if meant and meant[0] not in wrong else ""
    return f"{_what_is_wrong(wrong).rstrip('.')}.{hint}"


def _what_is_wrong(wrong: str) -> str:
    plain = one_line(wrong)
    if plain.startswith("Missing from"):
        missing = re.findall(r"^ {5,6}(\S.*)$", wrong, re.MULTILINE)
        return f"Missing: {' and '.join(missing)}"
    if found := re.match(r"Expected one of \{(.*)\}", plain):
        return f"Name a command: {found[1]}"
    if found := re.match(r"Missing value for argument '(.*?)'", plain):
        return f"{found[1]} needs a value"
    if found := re.match(r"invalid choice '(.*?)' for argument '(.*?)'.*\((.*)\)", plain):
        return f"{found[2]} cannot be '{found[1]}': it is one of {found[3].replace(chr(39), '')}"
    if found := re.match(r"Unrecognized or misplaced options: (.*?) \(applied to", plain):
        return f"Unrecognized options: {found[1]}"
    if found := re.match(r"Error parsing (\S+): (.*)", plain):
        return f"{found[1]} cannot be read: {_reason(found[2])}"
    return plain


def _reason(complaint: str) -> str:
    """Returns what is wrong with a value, according to the last attempt to read it."""
    if reasons := re.findall(r"'[^']*' is not an? [a-z]+(?: number| value)?", complaint):
        return reasons[-1]
    values = re.search(r"\[(.*?)\]$", complaint)
    return f"{values[1]} is not a value for it" if values else complaint
