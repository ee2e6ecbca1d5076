"""Section commands: lines and files that cannot work get exit code 2 and one sentence, no
traceback.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

from torture_small import must

from seerax import cli
from seerax.agents import AGENTS
from seerax.ppo.config import Config
from seerax.problems import PROBLEMS
from seerax.runs.policies import shipped_names

TINY = ["--ppo.worlds", "16", "--ppo.rollout-length", "8", "--ppo.minibatches", "2"]
TINY += ["--ppo.evaluations", "1", "--ppo.evaluation-episodes", "16"]
ABSURD = ("nan", "inf", "-inf", "-1", "1e400", "many", "")
KINDS = get_type_hints(Config)
INTEGERS = [name for name, kind in KINDS.items() if kind is int]
REALS = [name for name, kind in KINDS.items() if kind is float or float in get_args(kind)]
MISSPELT = ("--sed 1", "--ppo.bogus 3", "tiger tree", "--json yes", "--verbose")  # no such options
SENSIBLE = {("entropy_weight", "-1")}  # of the absurd values, what may be asked for
LINES = """
trian tiger
train
train maze5
train tiger --agent brp
train tiger --agent
train tiger --sed 1
train tiger --seed -1
train tiger --seed 99999999999999999999
train tiger --seed 2147483647 --seeds 2
train tiger --seeds 0
train tiger --seeds 1000000000
train tiger --steps 0
train tiger --steps 1000000000000000000000000
train tiger --ppo.worlds 1000000000
train tiger --ppo.hidden 100000000 100000000
train tiger --ppo.hidden 0
train tiger --ppo.minibatches 7
train tiger --ppo.bogus 3
train tiger --scale nan
train tiger --blend inf
train tiger --bonus nan
train maze4 --scale 1 2
train tiger --bonus-form l2
train tiger --bonus much
train tiger --resume --overwrite
train tiger --resume --out nowhere
train tiger --out /proc/nothing/here
train tiger --out /etc/hostname
train tiger --out /dev/null
train os:system
train os.path
train :mdp
train wind:
train nosuchmodule:mdp
train tiger --save.seconds soon
train tiger tree
evaluate
evaluate tigre
evaluate tiger --agent ensembel
evaluate tiger --episodes 0
evaluate tiger --episodes -3
evaluate tiger --episodes 1.5
evaluate tiger --seed -1
evaluate tiger --seed 4294967296
evaluate nothing.safetensors
evaluate tiger --json yes
check
check nosuchmodule:mdp
check seerax.core:Sep
check seerax.core:Step
check seerax.errors:UserError
film tigre
film tiger --agent nobody
film tiger --out film.doc --agent ensemble
film tiger --seed -2
film tiger --episode -1
film tiger --episode 2147483648
film tiger --out /proc/a/b.mp4
film tiger --out /proc/b.gif
film tiger --out b.png
film tiger --out .
figure
figure curv
figure curve
figure curve nowhere
figure sensing tiger
figure setup maze4
figure setup --agent brpo
figure tree --episode 1
figure curve nowhere --agent brpo
figure benchmark maze4
figure sensing --results nowhere
figure setup --out x.foo
figure setup --out x
figure setup --out .
figure setup --out /proc/a/b.png
figure setup --out /proc/b.png
figure setup --out /etc/hostname/b.png
figure keyframes maze4 --episode -1
figure keyframes maze4 --episode 2147483648
bench --only decisons
bench --only decisions --out .
bench --only decisions --out /proc/a/b.json
bench --only decisions --out b.json --docs /etc/hostname
replay
replay nothing.safetensors
replay /dev/zero
--verbose
evaluate tiger --problem
"""


class Answer(NamedTuple):
    code: int
    said: str
    shown: str

    @property
    def right(self) -> bool:
        odd = [mark for mark in ("Traceback", "----", "────") if mark in self.said]
        one = (
            self.said.startswith("seerax: ") and self.said.count("\n") == 1 and len(self.said) < 600
        )
        return self.code == 2 and one and self.shown == "" and not odd


def asked(arguments: list[str]) -> Answer:
    """The command line as `main` treats it, in this process."""
    out, err, earlier, code = io.StringIO(), io.StringIO(), sys.argv, 0
    sys.argv = ["seerax", *arguments]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException as error:
        return Answer(1, f"{type(error).__name__}: {error}", out.getvalue())
    finally:
        sys.argv = earlier
    return Answer(code, err.getvalue(), out.getvalue())


def asked_aside(arguments: list[str]) -> Answer:
    """The installed command, in a process of its own."""
    command = [str(Path(sys.executable).parent / "seerax"), *arguments]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return Answer(completed.returncode, completed.stderr, completed.stdout)


# ---- files ---------------------------------------------------------------------------------------


def bad_configs(good: dict[str, Any]) -> dict[str, bytes]:
    """A config.json by what is wrong with it."""

    def changed(**fields: Any) -> bytes:
        return json.dumps({**good, **fields}).encode()

    def training(**fields: Any) -> bytes:
        return changed(ppo={**good["ppo"], **fields})

    return {
        "empty": b"",
        "not JSON": b"{",
        "a list": b"[1, 2]",
        "a number": b"1",
        "not text": b"\xff\xfe\x00",
        "too deep": b"[" * 100_000,
        "too large": b" " * (2 << 20),
        "no fields": b"{}",
        "null": b"null",
        "newer": changed(format=99),
        "no format": changed(format=None),
        "odd format": changed(format=[1]),
        "no problem": changed(problem=None),
        "a list of problems": changed(problem=["tiger"]),
        "code": changed(problem="os:system"),
        "escape": changed(problem="../../etc/passwd"),
        "control characters": changed(problem="\x1b[2Jtiger\n\n"),
        "odd agent": changed(agent={"a": 1}),
        "odd seed": changed(seed="0"),
        "half a seed": changed(seed=0.5),
        "no seeds": changed(seeds=0),
        "too many seeds": changed(seeds=10**9),
        "seeds below zero": changed(seeds=-1),
        "true seed": changed(seed=[]),
        "odd scale": changed(scale="big"),
        "NaN scale": changed(scale=float("nan")),
        "unknown field": changed(hello=1),
        "training is a list": changed(ppo=[]),
        "no training": changed(ppo=None),
        "odd worlds": training(worlds="16"),
        "half a world": training(worlds=16.5),
        "no worlds": training(worlds=0),
        "endless": training(steps=10**30),
        "NaN rate": training(learning_rate=float("nan")),
        "odd hidden": training(hidden=64),
        "words hidden": training(hidden=["a"]),
        "huge hidden": training(hidden=[10**12, 10**12]),
        "true epochs": training(epochs=True),
        "unknown setting": training(hello=1),
        "odd bonus": changed(bonus=None),
    }


def bad_policies(good: bytes) -> dict[str, bytes]:
    length = int.from_bytes(good[:8], "little")
    header, data = good[8 : 8 + length], good[8 + length :]

    def with_header(header: bytes) -> bytes:
        return len(header).to_bytes(8, "little") + header + data

    return {
        "empty": b"",
        "a word": b"hello",
        "half": good[: len(good) // 2],
        "one byte short": good[:-1],
        "one byte more": good + b"\0",
        "endless header": b"\xff" * 8 + good[8:],
        "no header": with_header(b""),
        "header is a list": with_header(b"[]"),
        "a pickle": b"\x80\x04cos\nsystem\n(S'true'\ntR.",
        "newer": with_header(re.sub(rb'format\\": \d+', rb'format\\": 99', header)),
        "other problem": with_header(header.replace(b"tiger", b"maze4")),
        "code": with_header(header.replace(b'\\"tiger\\"', b'\\"os:system\\"')),
        "other arrays": with_header(header.replace(b"log_std", b"log_std2")),
        "negative offsets": with_header(
            header.replace(b'"data_offsets":[0,', b'"data_offsets":[-8,')
        ),
        "overflowing shape": with_header(header.replace(b'"shape":[', b'"shape":[9999999999,', 1)),
    }


def file_cases(run: Path, place: Path) -> dict[str, list[str]]:
    """Commands on copies of a good run that were tampered with."""
    cases = {}
    good = json.loads((run / "config.json").read_text())
    for number, (name, content) in enumerate(bad_configs(good).items()):
        folder = shutil.copytree(run, place / f"config{number}")
        (folder / "config.json").write_bytes(content)
        cases[f"config: {name}"] = ["train", "tiger", "--resume", "--out", str(folder)]
    policy = (run / "policy-seed0.safetensors").read_bytes()
    for number, (name, content) in enumerate(bad_policies(policy).items()):
        path = place / f"policy{number}.safetensors"
        path.write_bytes(content)
        must(content != policy, f"the tampering '{name}' changes nothing any more")
        cases[f"policy: {name}"] = ["evaluate", str(path), "--episodes", "4"]
    return cases | link_cases(run, place) | output_cases(place)


def link_cases(run: Path, place: Path) -> dict[str, list[str]]:
    """Links, pipes and logs of another kind."""
    linked = shutil.copytree(run, place / "linked")
    (linked / "metrics.jsonl").unlink()
    (linked / "metrics.jsonl").symlink_to(place / "elsewhere")
    piped = shutil.copytree(run, place / "piped")
    (piped / "config.json").unlink()
    os.mkfifo(piped / "config.json")
    logged = shutil.copytree(run, place / "logged")
    (logged / "metrics.jsonl").write_text('{"steps": "many"}\n')
    empty = place / "empty"
    empty.mkdir()
    return {
        "a link that leads out": ["train", "tiger", "--resume", "--out", str(linked)],
        "a pipe": ["train", "tiger", "--resume", "--out", str(piped)],
        "a log of another kind": ["figure", "curve", str(logged)],
        "an empty folder": ["evaluate", str(empty)],
        "a run that exists": ["train", "tiger", "--out", str(run), *TINY],
    }


def output_cases(place: Path) -> dict[str, list[str]]:
    """Where results were to go there is something else."""
    (place / "folder.png").mkdir()
    (place / "folder.gif").mkdir()
    cases = {
        "a folder for a picture": ["figure", "setup", "--out", "folder.png"],
        "a folder for a film": ["film", "tiger", "--out", "folder.gif"],
    }
    odd = {
        "empty": b"",
        "not JSON": b"{",
        "a list": b"[]",
        "a number": b"1",
        "not text": b"\xff\xfe\x00",
    }
    for number, (name, content) in enumerate(odd.items()):
        (place / f"bench{number}.json").write_bytes(content)
        line = f"bench --only decisions --docs . --out bench{number}.json"
        cases[f"results of a bench: {name}"] = line.split()
    return cases


# ---- all -----------------------------------------------------------------------------------------


def line_cases(every: int = 1) -> dict[str, list[str]]:
    """Lists all lines, and every so many of the absurd values for numbers."""
    cases = {line: line.split() for line in [*LINES.strip().splitlines(), *unshipped()]}
    pairs = [pair for pair in product([*INTEGERS, *REALS], ABSURD) if pair not in SENSIBLE]
    for name, bad in pairs[::every]:
        option = f"--ppo.{name.replace('_', '-')}={bad}"
        cases[f"train tiger {option!r}"] = ["train", "tiger", option]
    return {name: in_a_folder_that_never_comes(line) for name, line in cases.items()}


def unshipped() -> list[str]:
    """Returns a line that asks for a trained policy which does not ship, if there is any."""
    missing = [pair for pair in product(PROBLEMS, AGENTS) if "/".join(pair) not in shipped_names()]
    return [f"evaluate {problem} --agent {agent}" for problem, agent in missing[:1]]


def in_a_folder_that_never_comes(line: list[str]) -> list[str]:
    return [*line, "--out", "never"] if line[:1] == ["train"] and "--out" not in line else line


def answers(place: Path, every: int = 1, aside: int = 6) -> dict[str, Answer]:
    """Tries the cases, a few of them also in processes of their own; files go into `place`."""
    earlier = Path.cwd()
    os.chdir(place)
    try:
        completed = asked(["train", "tiger", "--steps", "256", "--out", "run", *TINY])
        must(completed.code == 0, f"the good run failed: {completed.said}")
        cases = {**line_cases(every), **file_cases(place / "run", place)}
        told = {name: asked(line) for name, line in cases.items()}
        some = list(cases)[:: max(len(cases) // max(aside, 1), 1)][:aside]
        told |= {f"{name} (aside)": asked_aside(cases[name]) for name in some}
        for name in ("never", "elsewhere"):
            must(not (place / name).exists(), f"a command that was refused wrote {name}")
        return told
    finally:
        os.chdir(earlier)


def commands(every: int = 1, aside: int = 6) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        told = answers(Path(name), every, aside)
    wrong = [
        f"{case}: exit {answer.code}, said {answer.said!r}"
        for case, answer in told.items()
        if not answer.right
    ]
    must(not wrong, "; ".join(wrong))
    gone = [case for case, answer in told.items() if is_of_a_former_option(case, answer)]
    must(not gone, f"refused for an option that is no more: {', '.join(gone)}")
    return {"cases": len(told), "exit_2_with_one_sentence": len(told)}


def is_of_a_former_option(case: str, answer: Answer) -> bool:
    """True if a line is refused for the name of an option, though it was to be refused for its
    value.
    """
    return "Unrecognized" in answer.said and not any(words in case for words in MISSPELT)
