"""The small run that the sections of torture harm, always in a process of its own."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

from seerax.runs.checkpoints import Checkpoints

SEERAX = str(Path(sys.executable).parent / "seerax")
LIMIT = 300.0  # seconds that a child may take
QUICK = ["--ppo.worlds", "16", "--ppo.rollout-length", "8", "--ppo.minibatches", "2"]
QUICK += ["--ppo.evaluations", "4", "--ppo.evaluation-episodes", "16"]
BATCH = 16 * 8  # steps of one iteration


class Broken(Exception):  # noqa: N818
    """A promise that was not kept."""


class Skipped(Exception):  # noqa: N818
    """Why a section cannot be run here."""


def must(kept: bool, otherwise: str) -> None:
    if not kept:
        raise Broken(otherwise)


# ---- commands ------------------------------------------------------------------------------------


def begin_command(folder: Path, iterations: int) -> list[str]:
    steps = ["--steps", str(BATCH * iterations), "--save.iterations", "1"]
    return [SEERAX, "train", "tree", "--out", str(folder), *QUICK, *steps]


def resume_command(folder: Path) -> list[str]:
    return [SEERAX, "train", "tree", "--out", str(folder), "--resume", "--save.iterations", "1"]


def finished(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)


def undisturbed(folder: Path, iterations: int) -> Path:
    """Trains the run that every disturbed one must equal."""
    completed = finished(begin_command(folder, iterations))
    must(completed.returncode == 0, f"the undisturbed run failed: {completed.stderr}")
    return folder


# ---- what a run left -----------------------------------------------------------------------------


def newest(folder: Path) -> int:
    """Returns the number of the newest checkpoint; every one that has a manifest must be whole."""
    checkpoints = Checkpoints(folder / "checkpoints")
    for number in checkpoints.numbers():
        checkpoints.verified(number)
    return max(checkpoints.numbers(), default=0)


def rows(folder: Path) -> list[dict[str, Any]]:
    """Reads the metrics without the clock."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in lines]


def events(folder: Path) -> list[tuple[int, str, float]]:
    """Reads (step, tag, value) of everything in TensorBoard's files."""
    from tensorboardX.proto.event_pb2 import Event

    found = []
    for path in sorted(folder.glob("tensorboard/*/events*")):
        data = path.read_bytes()
        at = 0
        while at < len(data):
            (length,) = struct.unpack("<Q", data[at : at + 8])
            event = Event.FromString(data[at + 12 : at + 12 + length])
            found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
            at += 16 + length
    return found


def must_equal(folder: Path, reference: Path) -> None:
    """Compares every parameter, state and metric of two runs."""
    last = newest(reference)
    must(newest(folder) == last, f"{folder} ended at another iteration")
    policies = sorted(path.name for path in reference.glob("policy-*"))
    must(len(policies) > 0, f"{reference} holds no policy")
    for name in [f"checkpoints/{last:09d}.safetensors", *policies]:
        same = (folder / name).read_bytes() == (reference / name).read_bytes()
        must(same, f"{folder / name} differs")
    must(rows(folder) == rows(reference), f"the metrics of {folder} differ")
    must(events(folder) == events(reference), f"TensorBoard's events of {folder} differ")
