"""What docs/reliability.md promises, tried hard: every section writes its figures into results/torture.json.

    .venv/bin/python benchmarks/torture.py [kill] [flips] [disk] [filters] [commands] [sigterm]    (all without a name)
    .venv/bin/python benchmarks/torture.py soak                                                    (30 minutes)

Sections do not depend on each other; run two at a time on two cores if you like. A section that fails says how, and the
command ends with 1.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from seerax.checkpoints import Checkpoints, Damage
from seerax.errors import UserError
from seerax.system import files, markdown, pytrees

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
RESULTS = ROOT / "results"
SEERAX = str(Path(sys.executable).parent / "seerax")
LANES = 2  # processes at a time
LIMIT = 300.0  # seconds that a child may take
QUICK = ["--ppo.worlds", "16", "--ppo.rollout-length", "8", "--ppo.minibatches", "2"]
QUICK += ["--ppo.evaluations", "4", "--ppo.evaluation-episodes", "16"]


class Broken(Exception):  # noqa: N818
    """A promise that was not kept."""


def must(kept: bool, otherwise: str) -> None:
    if not kept:
        raise Broken(otherwise)


# ---- a small run, in a process of its own ------------------------------------------------------------------------


def begin_command(folder: Path, iterations: int) -> list[str]:
    steps = ["--steps", str(128 * iterations), "--save.iterations", "1"]
    return [SEERAX, "train", "tree", "--out", str(folder), *QUICK, *steps]


def resume_command(folder: Path) -> list[str]:
    return [SEERAX, "train", "tree", "--out", str(folder), "--resume", "--save.iterations", "1"]


def finished(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)


def undisturbed(folder: Path, iterations: int) -> Path:
    completed = finished(begin_command(folder, iterations))
    must(completed.returncode == 0, f"the undisturbed run failed: {completed.stderr}")
    return folder


def newest(folder: Path) -> int:
    """The newest checkpoint; every one that has a manifest must be whole."""
    checkpoints = Checkpoints(folder / "checkpoints")
    for number in checkpoints.numbers():
        checkpoints.verified(number)
    return max(checkpoints.numbers(), default=0)


def rows(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in lines]


def events(folder: Path) -> list[tuple[int, str, float]]:
    """(step, tag, value) of everything in TensorBoard's files."""
    from tensorboardX.proto.event_pb2 import Event

    found = []
    for path in sorted(folder.glob("tensorboard/*/events*")):
        data, at = path.read_bytes(), 0
        while at < len(data):
            (length,) = struct.unpack("<Q", data[at : at + 8])
            event = Event.FromString(data[at + 12 : at + 12 + length])
            found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
            at += 16 + length
    return found


def must_equal(folder: Path, reference: Path) -> None:
    """In every parameter, state and metric."""
    last = newest(reference)
    must(newest(folder) == last, f"{folder} ended at another iteration")
    names = [
        f"checkpoints/{last:09d}.safetensors",
        *(path.name for path in reference.glob("policy-*")),
    ]
    for name in names:
        must(
            (folder / name).read_bytes() == (reference / name).read_bytes(),
            f"{folder / name} differs",
        )
    must(rows(folder) == rows(reference), f"the metrics of {folder} differ")
    must(events(folder) == events(reference), f"TensorBoard's events of {folder} differ")


class Child:
    """A training process, and what it has said."""

    def __init__(self, folder: Path, iterations: int):
        resumed = (folder / "config.json").exists()
        self.folder, self.expected = folder, newest(folder) if resumed else 0
        self.paper = tempfile.NamedTemporaryFile(suffix=".said")  # noqa: SIM115  (the run's own disk may be full)
        self.said = Path(self.paper.name)
        with open(self.said, "w") as file:
            command = resume_command(folder) if resumed else begin_command(folder, iterations)
            self.process = subprocess.Popen(command, stdout=file, stderr=file)

    def started(self, patience: float = LIMIT) -> bool:
        """Waits until it has trained an iteration; False if it has not after so many seconds, or ended before."""
        began = time.monotonic()
        while self.process.poll() is None and time.monotonic() - began < patience:
            if any(
                number > self.expected
                for number in Checkpoints(self.folder / "checkpoints").numbers()
            ):
                return True
            time.sleep(0.005)
        must(
            patience < LIMIT or self.process.poll() is not None,
            f"{self.folder} did not start within {LIMIT} s",
        )
        return False

    def lost(self) -> int:
        """Iterations between the newest checkpoint there was and what it says it went on from."""
        told = re.search(
            r"Going on from the checkpoint of iteration (\d+)\.", self.said.read_text()
        )
        return self.expected - (int(told[1]) if told else 0)


Strike = Callable[[Child, random.Random], None]


class Blows:
    """How many there are to come, and what became of those that were struck."""

    def __init__(self, planned: int, strike: Strike, hasty: float, seed: int):
        self.planned, self.strike, self.hasty = (
            planned,
            strike,
            hasty,
        )  # the share that does not wait for an iteration
        self.dice, self.counts = random.Random(seed), Counter[str]()
        self.waking = 3.0  # seconds a child takes to train an iteration

    @property
    def left(self) -> bool:
        return self.counts["struck"] < self.planned

    def fall(self, child: Child) -> bool:
        """Whether the child was struck: at a random moment of its training or of its waking up, if a blow is left."""
        hasty = self.left and self.dice.random() < self.hasty
        began = time.monotonic()
        started = child.started(self.dice.random() * self.waking if hasty else LIMIT)
        if started:
            self.waking = time.monotonic() - began
            self.survived(child)
        if not self.left:
            return False
        if not hasty:
            time.sleep(self.dice.random() * 1.5)
        if child.process.poll() is not None:
            return False
        self.strike(child, self.dice)
        self.counts.update(struck=1, open=1, hasty=not started)
        return True

    def survived(self, child: Child) -> None:
        """The child has gone on after all blows since the last that did."""
        self.counts.update(
            resumed=self.counts["open"], lost=child.lost() if self.counts["open"] else 0
        )
        self.counts["open"] = 0


def disturbed(blows: Blows, place: Path, lane: int, length: int) -> Counter[str]:
    """Runs that are struck again and again until they are through, and equal to the undisturbed one."""
    while blows.left:
        folder = place / f"lane{lane}-run{blows.counts['runs']}"
        child = Child(folder, length)
        while blows.fall(child):
            child = Child(folder, length)
        child.process.wait(LIMIT)
        must(
            child.process.returncode == 0,
            f"{folder} ended with {child.process.returncode}: {child.said.read_text()}",
        )
        blows.survived(child)
        must_equal(folder, place / "undisturbed")
        shutil.rmtree(folder)
        blows.counts["runs"] += 1
    return blows.counts


def in_lanes(planned: int, strike: Strike, length: int, hasty: float = 0.0) -> Counter[str]:
    """What became of the blows, all lanes together; every one must have been survived, and nothing lost."""
    counts = Counter[str]()
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(LANES) as pool:
        place = Path(name)
        undisturbed(place / "undisturbed", length)
        shares = [planned // LANES + (lane < planned % LANES) for lane in range(LANES)]
        lanes = [Blows(share, strike, hasty, lane) for lane, share in enumerate(shares)]
        for job in [
            pool.submit(disturbed, blows, place, lane, length) for lane, blows in enumerate(lanes)
        ]:
            counts.update(job.result())
    must(counts["lost"] == 0, f"{counts['lost']} iterations were lost that had been saved")
    must(
        counts["resumed"] == counts["struck"],
        f"{counts['resumed']} of {counts['struck']} blows were survived",
    )
    return counts


# ---- sections ----------------------------------------------------------------------------------------------------


def kill(blows: int = 100, length: int = 300) -> dict[str, Any]:
    """kill -9 at random moments, during saves too, and while starting or loading."""
    within = []

    def strike(child: Child, dice: random.Random) -> None:
        child.process.kill()
        child.process.wait()
        checkpoints = Checkpoints(child.folder / "checkpoints")
        half = list(child.folder.rglob(f"*{files.UNFINISHED}"))
        orphans = {path.stem for path in checkpoints.folder.glob("*.safetensors")}
        orphans -= {f"{n:09d}" for n in checkpoints.numbers()}
        within.append(bool(half or orphans))

    counts = in_lanes(blows, strike, length, hasty=0.2)
    return {
        "kills": counts["struck"],
        "before_an_iteration_was_trained": counts["hasty"],
        "during_saves": sum(within),
        "resumed": counts["resumed"],
        "runs_identical_to_undisturbed": counts["runs"],
        "iterations_lost_beyond_the_last_checkpoint": counts["lost"],
    }


def sigterm(blows: int = 30, length: int = 300) -> dict[str, Any]:
    """SIGTERM and Ctrl-C at random moments: saved, said how to go on, gone on."""

    def strike(child: Child, dice: random.Random) -> None:
        number = dice.choice([signal.SIGTERM, signal.SIGTERM, signal.SIGINT])
        child.process.send_signal(number)
        code, said = child.process.wait(LIMIT), child.said.read_text()
        must(code == 128 + number, f"{number.name} ended {child.folder} with {code}: {said}")
        must(
            "--resume" in said and "Traceback" not in said,
            f"{number.name} was not told well: {said}",
        )
        must(
            rows(child.folder)[-1]["steps"] == 128 * newest(child.folder),
            "the last iteration was not saved",
        )

    counts = in_lanes(blows, strike, length)
    told = {"signals": counts["struck"], "saved_and_resumed": counts["resumed"]}
    return {**told, "runs_identical_to_undisturbed": counts["runs"]}


def flips(bits: int = 200, cuts: int = 100) -> dict[str, Any]:
    """Single flipped bits and truncations in the newest checkpoint's two files."""
    with tempfile.TemporaryDirectory() as name:
        return damaged_and_recovered(undisturbed(Path(name) / "run", 3), bits, cuts)


def damaged_and_recovered(path: Path, bits: int, cuts: int) -> dict[str, Any]:
    """On copies of a run's checkpoints."""
    from seerax import runs

    dice, run, counts = random.Random(0), runs.reopen(path), Counter[str]()
    like = runs.checkpoint_shapes(run, run.experiment.trainer())
    source = run.folder.checkpoints
    last, before = source.numbers()
    expected = pytrees.load_tree(source.arrays(before), like)
    for trial in range(bits + cuts):
        with tempfile.TemporaryDirectory() as place:
            copy = Checkpoints(shutil.copytree(source.folder, Path(place) / "checkpoints"))
            victim = dice.choice([copy.arrays, copy.manifest])(last)
            harm = flipped if trial < bits else cut
            victim.write_bytes(harm(victim.read_bytes(), dice))
            counts.update(**{harm.__name__: 1}, detected=detected(copy, last))
            must_recover(copy, victim, like, expected)
            counts["recovered"] += 1
    must(
        counts["detected"] == bits + cuts,
        f"{counts['detected']} of {bits + cuts} damages were detected",
    )
    told = {"bit_flips": counts["flipped"], "truncations": counts["cut"]}
    return {**told, "detected": counts["detected"], "recovered": counts["recovered"]}


def flipped(content: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(8 * len(content))
    changed = bytearray(content)
    changed[at // 8] ^= 1 << at % 8
    return bytes(changed)


def cut(content: bytes, dice: random.Random) -> bytes:
    return content[: dice.randrange(len(content))]


def detected(checkpoints: Checkpoints, number: int) -> bool:
    try:
        checkpoints.verified(number)
    except Damage:
        return True
    return False


def must_recover(checkpoints: Checkpoints, victim: Path, like: Any, expected: Any) -> None:
    """The checkpoint before it, in every bit; the damaged file is named and kept."""
    import jax

    said: list[str] = []
    damaged = victim.read_bytes()
    found, _ = checkpoints.load(like, said.append) or (None, None)
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    must(
        all(one.tobytes() == other.tobytes() for one, other in map(as_arrays, pairs)),
        "what was recovered differs",
    )
    must(any(victim.stem in line for line in said), "the damaged checkpoint was not named")
    must(
        (checkpoints.folder / "damaged" / victim.name).read_bytes() == damaged,
        "the damaged file was not kept",
    )


def as_arrays(pair: tuple[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Random keys by their bits."""
    import jax

    one, other = (
        jax.random.key_data(x) if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key) else x
        for x in pair
    )
    return np.asarray(one), np.asarray(other)


def disk(length: int = 40) -> dict[str, Any]:
    """A disk that fills up during training, one that is too small from the start, and a read-only one."""
    with tempfile.TemporaryDirectory() as name:
        reference = undisturbed(Path(name) / "undisturbed", length)
        with small_disk(Path(name) / "disk", "4m") as place:
            fills_up(place, reference, length)
        with small_disk(Path(name) / "tiny", "64k") as place:
            completed = finished(begin_command(place / "run", length))
            must_tell(completed, "of disk")
            must(not (place / "run").exists(), "something was written to a disk that is too small")
        with small_disk(Path(name) / "fixed", "4m") as place:
            run = shutil.copytree(reference, place / "run")
            before = sorted(path.name for path in run.rglob("*"))
            subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
            must_tell(finished(resume_command(run)), "Read-only")
            must_tell(finished(begin_command(place / "other", length)), "Read-only")
            must(
                sorted(path.name for path in run.rglob("*")) == before, "a read-only folder changed"
            )
    return {
        "disk_filled_up": "told, last checkpoint intact, resumed identically",
        "disk_too_small": "told at the start",
        "read_only_folder": "told, nothing changed",
    }


def fills_up(place: Path, reference: Path, length: int) -> None:
    folder, ballast = place / "run", place / "ballast"
    child = Child(folder, length)
    must(child.started(), f"{folder} did not start: {child.said.read_text()}")
    with open(ballast, "wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    code, said = child.process.wait(LIMIT), child.said.read_text()
    must(
        code == 2 and "No space left" in said and "Traceback" not in said,
        f"a full disk was not told: {said}",
    )
    kept = newest(folder)
    must(
        kept > 0 and not list(folder.rglob(f"*{files.UNFINISHED}")),
        "half-written files on a full disk",
    )
    ballast.unlink()
    completed = finished(resume_command(folder))
    must(
        completed.returncode == 0 and f"iteration {kept}." in completed.stderr,
        f"could not go on: {completed.stderr}",
    )
    must_equal(folder, reference)


def must_tell(completed: subprocess.CompletedProcess[str], words: str) -> None:
    kept = (
        completed.returncode == 2
        and words in completed.stderr
        and "Traceback" not in completed.stderr
    )
    must(kept, f"expected exit 2 and '{words}', got {completed.returncode}: {completed.stderr}")


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], capture_output=True
    )
    if mounted.returncode:
        raise UserError(
            "This section needs the right to mount a tmpfs (root in a container of its own, say): skipped."
        )
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


def filters(examples: int = 2000) -> dict[str, Any]:
    """Absurd, extreme and contradictory observations, and independent ones in any order."""
    import torture_filters

    counts = torture_filters.run(examples)
    return {"examples": sum(counts.values()), "laws": counts, "broken": 0}


def commands() -> dict[str, Any]:
    """Command lines and files that cannot work: exit 2, one sentence, no traceback."""
    import torture_commands

    with tempfile.TemporaryDirectory() as name:
        told = torture_commands.run(Path(name))
    for case, answer in told.items():
        must(answer.right, f"{case}: exit {answer.code}, said {answer.said!r}")
    return {"cases": len(told), "exit_2_with_one_sentence": len(told)}


# ---- soak --------------------------------------------------------------------------------------------------------


def soak(minutes: float = 30.0) -> dict[str, Any]:
    """Training with evaluation: memory and compilations after the first sixth of the time."""
    import jax

    import seerax
    from seerax import experiments, runs
    from seerax.checkpoints import Schedule
    from seerax.system.signals import Stopped

    seerax.prepare()
    compiled: list[float] = []
    measured: list[tuple[float, float]] = []

    def listen(event: str, seconds: float, **_: Any) -> None:
        if "backend_compile" in event:
            compiled.append(time.monotonic())

    jax.monitoring.register_event_duration_secs_listener(listen)
    ours = experiments.settings("maze4")
    endless = experiments.replace(ours.ppo, steps=ours.ppo.batch * 100_000, evaluations=10_000)
    began = time.monotonic()

    def report(progress: Any) -> None:
        measured.append((time.monotonic() - began, resident()))
        if measured[-1][0] > 60 * minutes:
            signal.raise_signal(signal.SIGTERM)

    with tempfile.TemporaryDirectory() as name:
        run = runs.Run(
            experiments.replace(ours, ppo=endless), 0, 1, runs.RunFolder(Path(name) / "run")
        )
        with suppress(Stopped):
            runs.train(run, report, schedule=Schedule(seconds=30))
    return soaked(np.array(measured), [moment - began for moment in compiled], minutes)


def soaked(measured: np.ndarray, compiled: list[float], minutes: float) -> dict[str, Any]:
    """The slope is the median of those between any two minutes: a kernel may take back idle memory once, in one go."""
    from scipy.stats import theilslopes

    warm = 60 * minutes / 6
    seconds, memory = measured[measured[:, 0] > warm].T
    minute = (seconds / 60).astype(int)
    each = [float(np.median(memory[minute == m]).round(1)) for m in np.unique(minute)]
    slope = float(theilslopes(each, np.unique(minute)).slope)
    late = sum(moment > warm for moment in compiled)
    must(abs(slope) < 1.0, f"memory changes by {slope:.2f} MB per minute: {each}")
    must(late == 0, f"{late} compilations after warm-up")
    told = {"minutes": minutes, "iterations": len(measured), "memory_mb_by_minute": each}
    return {**told, "slope_mb_per_minute": round(slope, 4), "compilations_after_warm_up": late}


def resident() -> float:
    """Megabytes of this process in memory."""
    markdown = int(Path("/proc/self/statm").read_text().split()[1])
    return markdown * os.sysconf("SC_PAGE_SIZE") / 1e6


# ---- figures -----------------------------------------------------------------------------------------------------

SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "kill": kill, "flips": flips, "disk": disk, "filters": filters, "commands": commands, "sigterm": sigterm
}  # fmt: skip


def attempt(name: str, section: Callable[[], dict[str, Any]], path: Path) -> bool:
    began = time.monotonic()
    try:
        figures = {**section(), "seconds": round(time.monotonic() - began, 1)}
    except (Broken, Damage, UserError, AssertionError, subprocess.TimeoutExpired) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return isinstance(error, UserError)
    print(f"{name}: {json.dumps(figures)}")
    known = json.loads(path.read_text()) if path.exists() else {}
    files.write_json(path, {**known, name: figures})
    return True


def write_table() -> None:
    """The figures into docs/reliability.md, between the marks."""
    known: dict[str, Any] = {}
    for path in (RESULTS / "torture.json", RESULTS / "soak.json"):
        known |= json.loads(path.read_text()) if path.exists() else {}
    told = [
        (name, key, value)
        for name, figures in known.items()
        for key, value in figures.items()
        if key != "laws"
    ]
    rows = [(name, key.replace("_", " "), str(value)) for name, key, value in told]
    markdown.write_between(
        ROOT / "docs/reliability.md",
        "torture",
        markdown.table(("section", "figure", "value"), rows),
    )


def main(names: list[str]) -> int:
    known = {**SECTIONS, "soak": soak}
    odd = [name for name in names if name not in known]
    if odd:
        print(f"There is no section '{odd[0]}'. Known: {', '.join(known)}.", file=sys.stderr)
        return 2
    RESULTS.mkdir(exist_ok=True)
    place = {"soak": RESULTS / "soak.json"}
    fine = [
        attempt(name, known[name], place.get(name, RESULTS / "torture.json"))
        for name in names or SECTIONS
    ]
    write_table()
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
