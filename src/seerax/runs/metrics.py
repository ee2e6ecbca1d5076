"""The metrics of a run, as JSON lines and for TensorBoard.

They have no gaps or repeats, however often the run was interrupted.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from pathlib import Path
from typing import Any

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.summary_pb2 import Summary

from seerax.errors import UserError
from seerax.ppo import Progress
from seerax.system import files

LARGEST = 1 << 32  # bytes
PLACE = ("steps", "seed", "seconds")  # the fields that place a row; all others were measured


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Reads every whole line.

    Half a line at the end, left by a killed writer, is ignored.
    """
    lines = files.require_file(path, LARGEST).read_bytes().split(b"\n")[:-1]
    return [_row(line, path) for line in lines]


def _row(line: bytes, path: Path) -> dict[str, Any]:
    row = files.parse_json(line, path)
    numbers = all(value is None or isinstance(value, int | float) for value in row.values())
    if not numbers or not all(row.get(name) is not None for name in PLACE):
        raise UserError(
            f"{path} is not a log of seerax: "
            f"a line should hold numbers, {', '.join(PLACE)} among them."
        )
    return row


def as_line(row: dict[str, Any]) -> str:
    """Returns a row as a line of strict JSON, with null for what is not finite."""
    plain = {
        name: None if value is None or not math.isfinite(value) else value
        for name, value in row.items()
    }
    return json.dumps(plain, allow_nan=False) + "\n"


class Log:
    """The log metrics.jsonl, from which a resumed run rewrites its TensorBoard events."""

    def __init__(self, metrics: Path, boards: Path, seeds: list[int], steps: int):
        """Opens the log and keeps its rows up to `steps`; later ones will be measured again."""
        rows = read_rows(metrics) if metrics.exists() else []
        rows = [row for row in rows if row["steps"] <= steps]
        files.write_bytes(metrics, "".join(map(as_line, rows)).encode())
        shutil.rmtree(boards, ignore_errors=True)
        self.seeds = seeds
        self.boards = {seed: _board(boards / f"seed{seed}") for seed in seeds}
        self.started = time.time() - (rows[-1]["seconds"] if rows else 0.0)
        for row in rows:
            self._draw(row)
        self.lines = open(metrics, "a")  # noqa: SIM115

    def write(self, progress: Progress) -> None:
        """Writes one row per seed."""
        measured = dict(progress.metrics)
        if progress.held_out is not None:
            measured["held_out"] = progress.held_out
        seconds = round(time.time() - self.started, 3)
        for i, seed in enumerate(self.seeds):
            each = {name: float(values[i]) for name, values in measured.items()}
            row = {"steps": progress.steps, "seed": seed, "seconds": seconds, **each}
            self.lines.write(as_line(row))
            self._draw(row)
        self.lines.flush()

    def _draw(self, row: dict[str, Any]) -> None:
        measured = {
            name: value for name, value in row.items() if name not in PLACE and value is not None
        }
        values = [Summary.Value(tag=name, simple_value=value) for name, value in measured.items()]
        when = self.started + row["seconds"]
        if row["seed"] in self.boards:
            self.boards[row["seed"]].write_event(
                Event(wall_time=when, step=row["steps"], summary=Summary(value=values))
            )

    def sync(self) -> None:
        """Syncs the log to disk, so that no checkpoint is ahead of its log."""
        self.lines.flush()
        os.fsync(self.lines.fileno())
        for board in self.boards.values():
            board.flush()

    def close(self) -> None:
        """Closes all files."""
        self.lines.close()
        for board in self.boards.values():
            board.close()


def _board(folder: Path) -> EventsWriter:
    """Creates a writer that writes in this thread.

    tensorboardX's usual writer has its own thread, which hangs when the disk is full.
    """
    folder.mkdir(parents=True)
    return EventsWriter(str(folder / "events"))
