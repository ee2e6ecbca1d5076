"""Section disk: one that fills up during training, one too small from the start, and a read-only
one.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from torture_blows import Child
from torture_small import (
    LIMIT,
    Skipped,
    begin_command,
    finished,
    must,
    must_equal,
    newest,
    resume_command,
    undisturbed,
)

from seerax.system import files


def disk(iterations: int = 40) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        with small_disk(Path(name) / "disk", "4m") as place:
            reference = undisturbed(Path(name) / "undisturbed", iterations)
            fills_up(place, reference, iterations)
        with small_disk(Path(name) / "tiny", "64k") as place:
            must_tell(finished(begin_command(place / "run", iterations)), "of disk")
            written = (place / "run").exists()
            must(not written, "something was written to a disk that is too small")
        with small_disk(Path(name) / "fixed", "4m") as place:
            is_read_only(place, reference, iterations)
    return {
        "disk_filled_up": "told, last checkpoint intact, resumed identically",
        "disk_too_small": "told at the start",
        "read_only_folder": "told, nothing changed",
    }


def fills_up(place: Path, reference: Path, iterations: int) -> None:
    folder = place / "run"
    ballast = place / "ballast"
    child = Child(folder, iterations)
    must(child.started(), f"{folder} did not start: {child.said.read_text()}")
    with open(ballast, "wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    code = child.process.wait(LIMIT)
    said = child.said.read_text()
    told = code == 2 and "No space left" in said and "Traceback" not in said
    must(told, f"a full disk was not told: {said}")
    kept = newest(folder)
    half = list(folder.rglob(f"*{files.UNFINISHED}"))
    must(kept > 0 and not half, "half-written files on a full disk")
    ballast.unlink()
    completed = finished(resume_command(folder))
    went_on = completed.returncode == 0 and f"iteration {kept}." in completed.stderr
    must(went_on, f"could not go on: {completed.stderr}")
    must_equal(folder, reference)


def is_read_only(place: Path, reference: Path, iterations: int) -> None:
    run = shutil.copytree(reference, place / "run")
    before = sorted(path.name for path in run.rglob("*"))
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
    must_tell(finished(resume_command(run)), "Read-only")
    must_tell(finished(begin_command(place / "other", iterations)), "Read-only")
    after = sorted(path.name for path in run.rglob("*"))
    must(after == before, "a read-only folder changed")


def must_tell(completed: subprocess.CompletedProcess[str], words: str) -> None:
    """Demands exit code 2 and these words."""
    said = completed.stderr
    kept = completed.returncode == 2 and words in said and "Traceback" not in said
    must(kept, f"expected exit 2 and '{words}', got {completed.returncode}: {said}")


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True).returncode:
        raise Skipped("it needs the right to mount a tmpfs (root in a container of its own, say)")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)
