"""How fast other libraries train, each in a virtual environment of its own.

It works only in a checkout, where the scripts of benchmarks/peers print one line of JSON each. The
environments are created once, under .peers, and kept.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[3]
SCRIPTS = ROOT / "benchmarks" / "peers"
PATIENCE = 900.0, 240.0  # seconds for creating an environment, and for one measurement


class Peer(NamedTuple):
    """A measurement of another library."""

    home: str  # the environment it runs in
    command: tuple[str, ...]  # a script and its arguments


HOMES = {  # what pip installs into each
    "rejax": ("rejax==0.1.3", "gymnax<1"),
    "sb3": ("torch==2.13.0", "stable-baselines3==2.9.2", "--editable", str(ROOT)),
}
PEERS = {
    "rejax on Pendulum": Peer("rejax", ("rejax_pendulum.py",)),
    "Stable-Baselines3 on Pendulum": Peer("sb3", ("sb3.py", "Pendulum-v1", "usual")),
    "Stable-Baselines3 on Maze4": Peer("sb3", ("sb3.py", "seerax/Maze4-v0", "usual")),
    "Stable-Baselines3 on Maze4, batched": Peer("sb3", ("sb3.py", "seerax/Maze4-v0", "batched")),
}


class Skipped(Exception):  # noqa: N818
    """The reason why a peer cannot be measured here, in words."""


def measure(
    progress: Callable[[str], None] = lambda words: None, folder: Path = ROOT / ".peers"
) -> dict[str, Any]:
    """Measures all peers.

    Returns for each `steps_per_second`, `best`, `settings` and `versions`, or `skipped` with the
    reason.
    """
    results: dict[str, Any] = {}
    homes: dict[str, Path | Skipped] = {}
    for name, peer in PEERS.items():
        if peer.home not in homes:
            progress(f"making the environment of {peer.home}")
            homes[peer.home] = settled(peer.home, folder)
        progress(f"measuring {name}")
        results[name] = measured(homes[peer.home], peer)
    return results


def measured(home: Path | Skipped, peer: Peer) -> dict[str, Any]:
    """Returns the result of one peer, or why it was skipped."""
    try:
        if isinstance(home, Skipped):
            raise home
        script, *arguments = peer.command
        said = run([python(home), SCRIPTS / script, *arguments], PATIENCE[1], f"{script} failed")
        return json.loads(said.splitlines()[-1])
    except Skipped as reason:
        return {"skipped": str(reason)}


def settled(name: str, folder: Path) -> Path | Skipped:
    """Returns the environment, created if it is missing, incomplete, or out of date."""
    home = folder / name
    wanted = "\n".join(HOMES[name])
    mark = home / "made.txt"
    if mark.exists() and mark.read_text() == wanted:
        return home
    try:
        if not SCRIPTS.exists():
            raise Skipped("the peers' scripts come only with a checkout of seerax")
        run(
            [sys.executable, "-m", "venv", "--clear", home],
            PATIENCE[0],
            "no environment could be made",
        )
        run(
            [python(home), "-m", "pip", "install", "--quiet", *HOMES[name]],
            PATIENCE[0],
            "it could not be installed",
        )
    except Skipped as reason:
        return reason
    mark.write_text(wanted)
    return home


def python(home: Path) -> Path:
    """Returns the interpreter of an environment."""
    return home / "bin" / "python"


def run(command: Sequence[str | Path], seconds: float, complaint: str) -> str:
    """Returns what a command prints; if it fails, raises the complaint and its last line."""
    try:
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        raise Skipped(f"{complaint}: it took more than {seconds:.0f} s") from None
    except OSError as error:
        raise Skipped(f"{complaint}: {error}") from error
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
        raise Skipped(f"{complaint}: {said.splitlines()[-1]}")
    return done.stdout
