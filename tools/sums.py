"""Records what a move of the code must not change: the trained parameters, bit for bit, and every
shipped policy's numbers.

`python tools/sums.py` compares with results/sums.json and exits with 1 if anything differs;
`--record` writes it anew. Sums hold for one machine, one version of JAX and two devices; take them
before and after a change, on the same machine.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from safetensors import safe_open

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "results" / "sums.json"
SEERAX = Path(sys.executable).parent / "seerax"
TRAINED = ("maze4", "door4", "tiger")
EPISODES = "400"


def run(*words: str) -> str:
    return subprocess.run([str(SEERAX), *words], check=True, capture_output=True, text=True).stdout


def sum_of_policy(path: Path) -> str:
    """Returns the sha256 of a policy's arrays in the order of their names; what the header says
    does not count.
    """
    total = hashlib.sha256()
    with safe_open(path, framework="numpy") as file:
        for name in sorted(file.keys()):
            array = np.ascontiguousarray(file.get_tensor(name))
            total.update(f"{name}{array.shape}{array.dtype}".encode())
            total.update(array.tobytes())
    return total.hexdigest()


def trained(problem: str, folder: Path) -> str:
    out = folder / problem
    run("train", problem, "--steps", "2e6", "--seed", "0", "--devices", "2", "--out", str(out))
    return sum_of_policy(out / "policy-seed0.safetensors")


def shipped(path: Path) -> str:
    said = run("evaluate", str(path), "--episodes", EPISODES, "--devices", "2", "--json")
    return hashlib.sha256(said.encode()).hexdigest()


def measure() -> dict[str, dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        policies = {problem: trained(problem, Path(folder)) for problem in TRAINED}
    files = sorted((ROOT / "src" / "seerax" / "policies").glob("*.safetensors"))
    return {"trained": policies, "evaluated": {path.stem: shipped(path) for path in files}}


def main(record: bool) -> int:
    found = measure()
    if record or not KEPT.exists():
        KEPT.write_text(json.dumps(found, indent=2) + "\n")
        return 0
    before = json.loads(KEPT.read_text())
    changed = [
        f"{kind} {name}"
        for kind, sums in found.items()
        for name, value in sums.items()
        if before[kind].get(name) != value
    ]
    print("\n".join(f"differs: {name}" for name in changed) or "all the same")
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main("--record" in sys.argv[1:]))
