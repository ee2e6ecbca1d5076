"""Plants faults in copies of the code, one at a time, and checks that tests fail on each of them.

The faults are listed in mutants.toml. `python tools/mutants.py` tries all of them, and
`--only NAME ...` some. With `--baseline` every test is run without a fault first.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "seerax"
LIST = ROOT / "tools" / "mutants.toml"
WANTED = 0.95  # share of the faults that must be noticed
PATIENCE = 600.0  # seconds for the tests of one fault
PYTEST = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--tb=no"]

NOTICED, SURVIVED = "noticed", "survived"
MISFIT, SICK = "patch no longer fits", "tests fail without the fault"
LATE, BROKEN = "tests took too long", "tests could not be run"


class Mutant(NamedTuple):
    """A planted fault, and the tests of which at least one must fail on it."""

    name: str
    file: str  # relative to src/seerax
    old: str  # must occur exactly once
    new: str
    tests: tuple[str, ...]  # files, or FILE::FUNCTION


def read_mutants() -> list[Mutant]:
    """Returns every fault of the list."""
    entries = tomllib.loads(LIST.read_text())["mutant"]
    return [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


# ---- the list ----------------------------------------------------------------------------------


def fits(mutant: Mutant, source: Path = SOURCE) -> bool:
    """True if the text to replace occurs exactly once, and the replacement changes it."""
    path = source / mutant.file
    found = path.read_text().count(mutant.old) if path.is_file() else 0
    return found == 1 and mutant.old != mutant.new


def missing_tests(mutant: Mutant) -> list[str]:
    """Returns those of its tests that do not exist."""
    return [test for test in mutant.tests if not is_test(test)]


def is_test(test: str) -> bool:
    """True if FILE, or the function in FILE::FUNCTION, exists."""
    file, colons, function = test.partition("::")
    path = ROOT / file
    if not path.is_file():
        return False
    defined = {
        node.name
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }
    return function.partition("[")[0] in defined if colons else bool(defined)


def chosen(names: list[str] | None) -> list[Mutant]:
    """Returns the faults of these names, or all; ends the program on an unknown or doubled name."""
    mutants = read_mutants()
    known = Counter(mutant.name for mutant in mutants)
    if doubled := [name for name, count in known.items() if count > 1]:
        sys.exit(f"Named twice: {', '.join(doubled)}.")
    if unknown := set(names or ()) - set(known):
        sys.exit(f"There is no fault {', '.join(sorted(unknown))}.")
    return [mutant for mutant in mutants if not names or mutant.name in names]


# ---- a copy of the code ------------------------------------------------------------------------


class Copy(NamedTuple):
    """A copy of src/ in a temporary folder, from which the tests import."""

    source: Path  # .../src

    def environment(self) -> dict[str, str]:
        """Without compiled Python files: two faults of one size and second look alike to Python."""
        return os.environ | {"PYTHONPATH": str(self.source), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        """Runs a command in the repository, importing seerax from the copy."""
        return subprocess.run(
            command,
            cwd=ROOT,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE if "-x" in command else None,
        )

    @contextmanager
    def planted(self, mutant: Mutant) -> Iterator[None]:
        """Holds the fault in the copy for as long as the block lasts."""
        path = self.source / "seerax" / mutant.file
        sound = path.read_text()
        path.write_text(sound.replace(mutant.old, mutant.new))
        try:
            yield
        finally:
            path.write_text(sound)


@contextmanager
def copied() -> Iterator[Copy]:
    """Copies src/, and makes sure that Python imports the copy."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Copy(Path(folder).resolve() / "src")
        shutil.copytree(SOURCE.parent, copy.source, ignore=shutil.ignore_patterns("__pycache__"))
        found = copy.run([sys.executable, "-c", "import seerax; print(seerax.__file__)"]).stdout
        if not found.startswith(str(copy.source)):
            sys.exit(f"Python imports {found.strip() or 'nothing'}, not the copy in {copy.source}.")
        yield copy


# ---- trying ------------------------------------------------------------------------------------


def try_one(copy: Copy, mutant: Mutant) -> str:
    """Plants one fault, runs its tests and returns what became of it."""
    if not fits(mutant, copy.source / "seerax"):
        return MISFIT
    if missing_tests(mutant):
        return BROKEN
    with copy.planted(mutant):
        try:
            code = copy.run([*PYTEST, "-x", *mutant.tests]).returncode
        except subprocess.TimeoutExpired:
            return LATE
    return {0: SURVIVED, 1: NOTICED}.get(code, BROKEN)


def failing(copy: Copy, mutants: list[Mutant]) -> list[str]:
    """Runs all tests of these faults on the sound code, and returns what fails."""
    tests = dict.fromkeys(test for mutant in mutants for test in mutant.tests if is_test(test))
    said = copy.run([*PYTEST, "-rfE", "--continue-on-collection-errors", *tests]).stdout
    lines = [line.split() for line in said.splitlines()]
    return [words[1] for words in lines if len(words) > 1 and words[0] in ("FAILED", "ERROR")]


def is_among(test: str, failed: list[str]) -> bool:
    """True if one of the failed tests is this one, or belongs to this file or function."""
    belongs = (f"{test}::", f"{test}[")
    file = test.partition("::")[0]
    return any(each in (test, file) or each.startswith(belongs) for each in failed)


def in_minutes(seconds: float) -> str:
    """Returns a time that is left, in words."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def try_all(copy: Copy, mutants: list[Mutant], failed: list[str]) -> Counter[str]:
    """Tries one fault after another, and tells what became of each."""
    verdicts: Counter[str] = Counter()
    started = time.monotonic()
    for number, mutant in enumerate(mutants, 1):
        begun = time.monotonic()
        sick = any(is_among(test, failed) for test in mutant.tests)
        verdict = SICK if sick else try_one(copy, mutant)
        verdicts[verdict] += 1
        now = time.monotonic()
        left = (now - started) / number * (len(mutants) - number)
        place = f"[{number:{len(str(len(mutants)))}}/{len(mutants)}]"
        seconds = f"{now - begun:.0f} s"
        print(f"{place} {verdict}: {mutant.name} ({seconds})  ETA {in_minutes(left)}", flush=True)
    return verdicts


def main() -> None:
    """Exits with 1 if too few faults are noticed, or if one cannot be planted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="try these faults alone")
    parser.add_argument(
        "--baseline", action="store_true", help="run all tests without a fault first"
    )
    asked = parser.parse_args()
    # In the background a shell ignores Ctrl-C, and tests of signals would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    mutants = chosen(asked.only)
    with copied() as copy:
        failed: list[str] = []
        if asked.baseline:
            print("Running all tests without a fault ...", flush=True)
            failed = failing(copy, mutants)
            print(*(f"fails without a fault: {test}" for test in failed), sep="\n", flush=True)
        verdicts = try_all(copy, mutants, failed)
    share = verdicts[NOTICED] / len(mutants)
    print(f"{verdicts[NOTICED]} of {len(mutants)} noticed ({100 * share:.0f} %)")
    sys.exit(int(share < WANTED or verdicts[MISFIT] > 0))


if __name__ == "__main__":
    main()
