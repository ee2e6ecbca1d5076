"""The command line as a user meets it: results on standard output, mistakes in one sentence with exit code 2."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from seerax import cli

TINY = [
    "--ppo.worlds",
    "16",
    "--ppo.rollout-length",
    "8",
    "--ppo.minibatches",
    "2",
    "--ppo.evaluations",
    "2",
]
TINY += ["--ppo.exploration-end", "1"]


def train_tiny(seerax, *more: str) -> tuple[int, str, str]:
    return seerax(
        "train", "tiger", "--steps", "1024", "--out", "run", *TINY, "--ppo.no-anneal", *more
    )


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory) -> Path:
    """A small run, trained once for all tests that only read it."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    arguments = [
        "train",
        "tiger",
        "--steps",
        "1024",
        "--out",
        str(folder),
        *TINY,
        "--ppo.no-anneal",
    ]
    cli.command_line(arguments).run()
    return folder


@pytest.fixture
def run_folder(finished_run, tmp_path) -> Path:
    return shutil.copytree(finished_run, tmp_path / "run")


def test_an_ensemble_is_told_beside_the_original(seerax):
    _, table, _ = seerax("evaluate", "cartpole", "--episodes", "16")
    assert table.splitlines()[-1].startswith("original: 428.9 +- 13.9 (authors' code): ")
    _, told, _ = seerax("evaluate", "cartpole", "--agent", "clairvoyant", "--episodes", "16")
    assert "original" not in told


def test_problems_are_listed(seerax):
    code, out, _ = seerax("problems")
    assert code == 0
    assert {line.split()[0] for line in out.splitlines()[1:] if line[:1].isalpha()} >= {
        "maze4",
        "tree",
        "tiger",
    }


def test_evaluate_prints_one_json_object_and_nothing_else(seerax):
    code, out, _ = seerax(
        "evaluate", "tiger", "--agent", "ensemble", "--episodes", "300", "--seed", "5", "--json"
    )
    told = json.loads(out)
    assert code == 0
    assert " ".join(told) == "problem agent episodes seed mean stderr ci95 success length sensing"
    assert (told["problem"], told["agent"], told["episodes"], told["seed"]) == (
        "tiger",
        "ensemble",
        300,
        5,
    )
    low, high = told["ci95"]
    assert low < told["mean"] < high
    assert 0 < told["success"] < 1 and 0.4 < told["sensing"] < 0.6


def test_the_clairvoyant_opens_the_right_door(seerax):
    _, out, _ = seerax("evaluate", "tiger", "--agent", "clairvoyant", "--episodes", "50", "--json")
    assert json.loads(out)["mean"] == 10.0


def test_the_same_seed_gives_the_same_numbers(seerax):
    first, second, third = (
        seerax("evaluate", "tree", "--episodes", "200", "--seed", seed, "--json")[1]
        for seed in ("1", "1", "2")
    )
    assert first == second != third


def test_a_run_folder_holds_everything_and_evaluates(seerax, run_folder):
    folder = run_folder
    assert set(json.loads((folder / "evaluation.json").read_text())) == {
        "ensemble",
        "brpo",
        "clairvoyant",
    }
    names = {path.name for path in folder.iterdir()}
    assert names >= {
        "config.json",
        "versions.json",
        "metrics.jsonl",
        "tensorboard",
        "curve.png",
        "policy-seed0.safetensors",
    }
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["steps"] for row in rows] == list(range(0, 1025, 128))
    code, out, _ = seerax("evaluate", "run", "--episodes", "100", "--json")
    assert code == 0 and json.loads(out)["agent"] == "brpo"


def test_an_existing_run_is_never_overwritten_without_being_asked(seerax, run_folder):
    before = (run_folder / "metrics.jsonl").read_bytes()
    code, _, err = train_tiny(seerax)
    assert code == 2 and "--resume" in err and "--overwrite" in err
    assert (run_folder / "metrics.jsonl").read_bytes() == before


def test_an_existing_run_is_replaced_when_asked(seerax, run_folder):
    (run_folder / "metrics.jsonl").write_text("old")
    assert train_tiny(seerax, "--overwrite")[0] == 0
    assert (run_folder / "metrics.jsonl").read_text() != "old"


def test_a_folder_of_something_else_is_never_overwritten(seerax, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("mine")
    code, _, err = train_tiny(seerax, "--overwrite")
    assert code == 2 and "not a run folder" in err
    assert (tmp_path / "run" / "thesis.txt").read_text() == "mine"


def test_resume_continues_exactly(seerax, run_folder, tmp_path):
    """Half of it, then the rest, equals the whole in one go."""
    assert seerax("train", "tiger", "--out", "run", "--steps", "2048", "--resume")[0] == 0
    whole = ("train", "tiger", "--out", "whole", "--steps", "2048", *TINY, "--ppo.no-anneal")
    assert seerax(*whole)[0] == 0
    resumed, straight = (
        [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("run", "whole")
    )
    assert (
        [row["steps"] for row in resumed]
        == [row["steps"] for row in straight]
        == list(range(0, 2049, 128))
    )
    for ours, theirs in zip(resumed, straight, strict=True):
        for name in ("return", "policy_loss", "value_loss", "kl"):
            assert ours.get(name) == theirs.get(name)


WRONG = {
    "unknown problem": (["train", "maze5"], "Did you mean 'maze4'"),
    "unknown agent": (["train", "tiger", "--agent", "brp"], "Did you mean 'brpo'"),
    "unknown command": (["trian", "tiger"], "Did you mean 'train'"),
    "unknown agent to evaluate": (
        ["evaluate", "tiger", "--agent", "ensembel"],
        "Did you mean 'ensemble'",
    ),
    "unknown problem to evaluate": (["evaluate", "tigre"], "Did you mean 'tiger'"),
    "unknown figure": (["figure", "curv"], "Did you mean 'curve'"),
    "a figure of results that are not there": (
        ["figure", "benchmark", "--results", "nowhere"],
        "no folder nowhere",
    ),
    "unknown agent of a figure": (
        ["figure", "keyframes", "--agent", "brpp"],
        "Did you mean 'brpo'",
    ),
    "sensing where nobody senses": (["figure", "sensing", "tiger"], "Maze4, Maze10 and Door4 only"),
    "no worlds": (["train", "tiger", "--ppo.worlds", "0"], "worlds must be at least 1"),
    "negative steps": (["train", "tiger", "--steps", "-5"], "steps must be at least 1"),
    "odd minibatches": (["train", "tiger", "--ppo.minibatches", "7"], "equal minibatches"),
    "no seeds": (["train", "tiger", "--seeds", "0"], "number of seeds must be at least 1"),
    "no episodes": (["evaluate", "tiger", "--episodes", "0"], "--episodes must be at least 1"),
    "wrong scale": (["train", "maze4", "--scale", "1", "2"], "3 dimensions"),
    "bad discount": (["train", "tiger", "--ppo.discount", "1.5"], "discount must lie in"),
    "nothing to resume": (["train", "tiger", "--resume", "--out", "nowhere"], "not a run folder"),
    "both at once": (["train", "tiger", "--resume", "--overwrite"], "exclude each other"),
    "unwritable": (["train", "tiger", "--out", "/proc/nothing/here"], "Cannot write to"),
    "a file in the way": (["train", "tiger", "--out", "/etc/hostname"], "not a run folder"),
    "no such module": (["check", "nosuchmodule:mdp"], "no module 'nosuchmodule'"),
    "no such object": (["check", "seerax.core:Sep"], "Did you mean"),
    "not a problem": (["check", "seerax.core:Step"], ""),
    "no colon": (["train", "os.path"], "no problem 'os.path'"),
    "unknown kind of picture": (["figure", "setup", "--out", "x.foo"], "A picture ends in .png"),
    "a picture that cannot be written": (
        ["figure", "setup", "--out", "/proc/a/b.png"],
        "Cannot write to /proc/a/b.png",
    ),
    "a film that cannot be written": (
        ["film", "tiger", "--out", "/proc/a/b.gif"],
        "Cannot write to /proc/a/b.gif",
    ),
    "a film before the first episode": (
        ["film", "tiger", "--episode", "-1"],
        "--episode must lie between",
    ),
    "a film of no episode": (
        ["film", "tiger", "--episode", str(2**31)],
        "--episode must lie between",
    ),
    "keyframes of no episode": (
        ["figure", "keyframes", "maze4", "--episode", "-1"],
        "--episode must lie between",
    ),
    "a bench that cannot be written": (
        ["bench", "--only", "start", "--out", "/proc/a/b.json"],
        "Cannot write to",
    ),
    "a setup of one problem": (
        ["figure", "setup", "maze4"],
        "figure setup does not take runs or problems",
    ),
    "a tree with an agent": (
        ["figure", "tree", "--agent", "brpo"],
        "figure tree does not take --agent",
    ),
    "a curve of others' episodes": (
        ["figure", "curve", "run", "--agent", "bpo", "--episode", "2"],
        "figure curve does not take --agent or --episode",
    ),
    "results of a single problem": (
        ["figure", "bonus", "maze4"],
        "figure bonus does not take runs or problems",
    ),
    "sensing in one episode": (
        ["figure", "sensing", "--episode", "3"],
        "figure sensing does not take --episode",
    ),
    "a run drawn twice": (["figure", "curve", "run", "./run"], "given a run folder twice"),
    "a curve of nothing": (["figure", "curve"], "at least one run folder"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_one_sentence_and_exit_code_2(seerax, name, tmp_path):
    arguments, sentence = WRONG[name]
    code, out, err = seerax(*arguments)
    assert code == 2 and out == ""
    assert err.startswith("seerax: ") and err.count("\n") == 1
    assert sentence in err
    assert not list(tmp_path.glob("runs/*"))


@pytest.mark.parametrize(
    "arguments", [["figure", "setup"], ["film", "tiger"], ["bench", "--only", "start"]]
)
def test_a_folder_is_not_written_over(seerax, tmp_path, arguments):
    (tmp_path / "folder.gif").mkdir()
    (tmp_path / "folder.png").mkdir()
    place = "folder.gif" if arguments[0] == "film" else "folder.png"
    code, out, err = seerax(*arguments, "--out", place)
    assert (code, out, err) == (2, "", f"seerax: {place} is a folder, not a file to write.\n")


@pytest.mark.parametrize(
    ("content", "sentence"), [("{", "not valid JSON"), ("[1]", "should hold a JSON object")]
)
def test_a_bench_adds_to_results_only(seerax, tmp_path, content, sentence):
    (tmp_path / "bad.json").write_text(content)
    code, out, err = seerax("bench", "--only", "decisions", "--out", "bad.json")
    assert code == 2 and out == "" and err.count("\n") == 1 and sentence in err
    assert (tmp_path / "bad.json").read_text() == content


@pytest.mark.parametrize(
    "arguments",
    [["train"], ["evaluate", "tiger", "--episodes", "many"], ["train", "tiger", "--sed", "1"]],
)
def test_what_cannot_be_parsed_exits_with_2(seerax, arguments):
    code, _, err = seerax(*arguments)
    assert code == 2 and err.startswith("seerax: ") and err.count("\n") == 1


def test_help_shows_the_settings_of_the_named_problem(seerax):
    code, out, _ = seerax("train", "maze4", "--help")
    assert code == 0 and "0.5 0.5 0.1" in out


BROKEN = """
import jax.numpy as jnp
from dataclasses import dataclass, replace
from seerax import Step, problems
from seerax.problems import tiger as t

@dataclass(frozen=True)
class Deaf(t.Tiger):
    def step(self, key, state, action, latent):
        return super().step(key, state, action, jnp.float32(0))

@dataclass(frozen=True)
class Crooked(t.Tiger):
    def step(self, key, state, action, latent):
        step = super().step(key, state, action, latent)
        return step._replace(reward=step.reward[None])

ours = t.tiger()
deaf = replace(ours, problem=Deaf())
crooked = replace(ours, problem=Crooked())
nan = replace(ours, filter=replace(ours.filter, log_likelihood=lambda s, a, n, phi: jnp.nan * phi))
"""


def test_check_is_content_with_our_own_problems(seerax):
    code, out, _ = seerax("check", "tiger")
    assert code == 0 and "BROKEN" not in out


@pytest.mark.parametrize(
    ("object_name", "words"),
    [("deaf", ["latent"]), ("crooked", ["reward", "step"]), ("nan", ["log_likelihood"])],
)
def test_check_says_which_rule_is_broken_and_where(seerax, tmp_path, object_name, words):
    (tmp_path / "theirs.py").write_text(BROKEN)
    code, out, err = seerax("check", f"theirs:{object_name}")
    assert code == 2 and "breaks" in err
    told = " ".join(line for line in out.splitlines())
    for word in words:
        assert word in told[told.index("BROKEN") :]


def test_a_film_is_made(seerax, tmp_path):
    code, _out, _ = seerax("film", "tiger", "--agent", "ensemble", "--out", "film.gif")
    assert code == 0 and (tmp_path / "film.gif").stat().st_size > 1000


def test_keyframes_of_a_policy_that_comes_with_it(seerax, tmp_path):
    path = tmp_path / "deep" / "keyframes.png"
    seerax("figure", "keyframes", "maze4", "--agent", "brpo", "--episode", "2", "--out", str(path))
    assert path.read_bytes()[:4] == b"\x89PNG"


def test_the_installed_command_works():
    completed = subprocess.run(
        [Path(sys.executable).parent / "seerax", "evaluate", "maze6"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert completed.returncode == 2 and completed.stdout == ""
    assert completed.stderr.strip().startswith("seerax: There is no problem 'maze6'.")


def test_the_example_obeys_the_laws(seerax, monkeypatch):
    monkeypatch.chdir(Path(__file__).parent.parent)
    code, out, _ = seerax("check", "examples.wind:mdp")
    assert code == 0 and "BROKEN" not in out


def test_a_problem_of_ones_own_trains_by_its_name(seerax, tmp_path):
    (tmp_path / "theirs.py").write_text(BROKEN)
    code, _, _ = seerax("train", "theirs:ours", "--steps", "256", "--out", "run", *TINY)
    assert code == 0
    code, _, err = seerax("evaluate", "run", "--episodes", "64", "--json")
    assert code == 2 and "--problem theirs:ours" in err
    code, out, _ = seerax(
        "evaluate", "run", "--episodes", "64", "--json", "--problem", "theirs:ours"
    )
    assert code == 0 and json.loads(out)["problem"] == "theirs:ours"
