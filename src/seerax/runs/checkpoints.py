"""Numbered checkpoints: arrays in a safetensors file, and a manifest that describes them.

The arrays are complete on disk before their manifest appears, and only what has a manifest is a
checkpoint. The manifest carries the arrays' size and sha256 and is sealed with a sha256 of its own,
so that one flipped bit in either is found.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seerax.errors import UserError
from seerax.system import files, pytrees
from seerax.version import __version__

FORMAT = 2
KEPT = 2  # the newest ones; older ones are deleted once a newer one is complete
DAMAGED = "damaged"  # folder for damaged checkpoints


class Damage(Exception):  # noqa: N818
    """The reason why a checkpoint cannot be used."""


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints in a folder."""

    folder: Path

    def arrays(self, number: int) -> Path:
        """Returns the path of a checkpoint's arrays."""
        return self.folder / f"{number:09d}.safetensors"

    def manifest(self, number: int) -> Path:
        """Returns the path of a checkpoint's manifest."""
        return self.folder / f"{number:09d}.json"

    def numbers(self) -> list[int]:
        """Returns the numbers of all checkpoints, newest first; other files are ignored."""
        names = [path.stem for path in self.folder.glob("*.json")]
        return sorted(
            (int(name) for name in names if name.isascii() and name.isdigit() and len(name) == 9),
            reverse=True,
        )

    def save(self, number: int, tree: Any, about: dict[str, Any]) -> None:
        """Saves a checkpoint, which is complete on disk on return; the previous one stays."""
        if not self.folder.exists():
            self.folder.mkdir()
            files.sync_folder(self.folder.parent)
        content = pytrees.to_bytes(tree, {})
        files.write_bytes(self.arrays(number), content)
        told = {"format": FORMAT, "seerax": __version__, "number": number, "about": about}
        told |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        files.write_bytes(self.manifest(number), sealed(told))
        for old in self.numbers()[KEPT:]:
            self.manifest(old).unlink()
            self.arrays(old).unlink(missing_ok=True)

    def load(
        self, like: Any, say: Callable[[str], None] = lambda message: None
    ) -> tuple[Any, dict[str, Any]] | None:
        """Returns the newest good checkpoint as (tree, about), or None if there never was one.

        Damaged ones that are newer are moved aside.
        """
        damaged: dict[int, Damage] = {}
        for number in self.numbers():
            try:
                about = self.verified(number)
            except Damage as damage:
                damaged[number] = damage
                continue
            for bad, why in damaged.items():
                place = self.set_aside(bad)
                say(
                    f"{self.manifest(bad)} is damaged ({why}): "
                    f"set aside in {place}, using {number} instead."
                )
            return pytrees.load_tree(self.arrays(number), like), about
        if damaged:
            found = "; ".join(f"{number}: {why}" for number, why in damaged.items())
            raise UserError(
                f"No checkpoint in {self.folder} is good ({found}); nothing was changed there."
            )
        return None

    def verified(self, number: int) -> dict[str, Any]:
        """Returns the plain data of a checkpoint, after checking every bit of it."""
        told = opened(self.manifest(number))
        if told["format"] != FORMAT:
            raise UserError(
                f"{self.manifest(number)} has format {told['format']}, and this version of seerax "
                f"reads {FORMAT}; it was written by seerax {told.get('seerax')}."
            )
        if told.get("number") != number or not {"size", "sha256", "about"} <= set(told):
            raise Damage("its manifest belongs to another checkpoint")
        content = read(self.arrays(number))
        if len(content) != told["size"]:
            raise Damage(f"{len(content)} bytes where {told['size']} were written")
        if hashlib.sha256(content).hexdigest() != told["sha256"]:
            raise Damage("its checksum is wrong")
        return told["about"]

    def set_aside(self, number: int) -> Path:
        """Moves a damaged checkpoint to its own folder; nothing is deleted."""
        place = self.folder / DAMAGED
        place.mkdir(exist_ok=True)
        for path in (self.manifest(number), self.arrays(number)):
            if path.exists():
                path.rename(free_name(place / path.name))
        return place


def free_name(path: Path) -> Path:
    """Returns the path, numbered if it is taken."""
    count = 1
    while path.exists():
        path = path.with_name(f"{path.name.partition('~')[0]}~{count}")
        count += 1
    return path


def read(path: Path) -> bytes:
    """Reads the bytes of a file."""
    try:
        return files.require_file(path, files.LARGEST_ARRAYS).read_bytes()
    except (UserError, OSError) as error:
        raise Damage(str(error)) from error


def seal(told: dict[str, Any]) -> str:
    """Returns the sha256 of a manifest's content."""
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def sealed(told: dict[str, Any]) -> bytes:
    """Returns a manifest with its seal, as it is written."""
    return (json.dumps({**told, "seal": seal(told)}, indent=2, sort_keys=True) + "\n").encode()


def opened(path: Path) -> dict[str, Any]:
    """Reads a manifest and checks its seal.

    Every format has this seal, so that a newer format can be distinguished from damage.
    """
    try:
        content = files.require_file(path, files.LARGEST_JSON).read_bytes()
        told = files.parse_json(content, path)
    except (UserError, OSError) as error:
        raise Damage("its manifest cannot be read") from error
    told.pop("seal", None)
    if sealed(told) != content or "format" not in told:
        raise Damage("its manifest was changed after it was written")
    return told
