"""The command line as a user meets it: results on standard output, mistakes in one sentence with
exit code 2.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from seerax import cli, problems, rollout
from seerax.cli import commands
from seerax.errors import UserError
from seerax.keys import evaluation_key
from seerax.players import find_players

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
    cli.run(arguments)
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


FIXED = {
    "--ppo.worlds": ("3",),
    "--ppo.no-anneal": (),
    "--scale": ("2",),
    "--seed": ("0",),
    "--seeds": ("1",),
    "--bonus": ("0",),
    "--bonus-form": ("potential",),
    "--blend": ("0.5",),
}


@pytest.mark.parametrize("option", FIXED)
def test_a_run_is_resumed_with_its_own_settings_only(seerax, run_folder, option):
    before = (run_folder / "config.json").read_bytes()
    asked = ("train", "tiger", "--out", "run", "--steps", "2048", "--resume")
    code, out, err = seerax(*asked, option, *FIXED[option])
    assert (code, out) == (2, "")
    assert err == (
        f"seerax: run is resumed with its own settings, so {option} cannot be given with "
        "--resume; only --steps can.\n"
    )
    assert (run_folder / "config.json").read_bytes() == before


def test_each_seed_of_a_run_plays_its_own_episodes(run_folder):
    """Three copies of one policy meet different episodes, and share one compiled program."""
    for seed in (1, 2):
        shutil.copy(
            run_folder / "policy-seed0.safetensors", run_folder / f"policy-seed{seed}.safetensors"
        )
    players = find_players(str(run_folder)).players
    compiled = rollout.play_batch_sharded._cached._cache_size()
    whole = commands.evaluate_players(players, seed=5, episodes=300)
    assert rollout.play_batch_sharded._cached._cache_size() - compiled <= 1
    parts = whole.returns.reshape(3, 100)
    assert len({part.tobytes() for part in parts}) == 3
    assert whole.seeds == 3 and whole.stderr > 0
    for i, (mdp, policy) in enumerate(players):
        alone = rollout.evaluate(evaluation_key(5 + i), mdp, policy, 100)
        assert (parts[i] == alone.returns).all()


def test_a_training_builds_its_problem_once(seerax, monkeypatch):
    built = []
    entry = problems.PROBLEMS["tiger"]

    def build():
        built.append(1)
        return entry.build()

    monkeypatch.setitem(problems.PROBLEMS, "tiger", replace(entry, build=build))
    assert train_tiny(seerax)[0] == 0
    assert len(built) == 1


def test_options_are_named_only_where_they_exist():
    error = UserError("No.", "problem", "devices", "settings")
    assert cli.options(error, ["evaluate", "run"]) == " (--problem, --devices)"
    assert cli.options(error, ["figure", "sensing", "run"]) == ""
    assert cli.options(error, ["sweep"]) == " (--set)"
    assert cli.options(UserError("--seed it.", "seed"), ["train"]) == ""


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
    assert code == 2 and "'theirs:ours'" in err and err.endswith(" (--problem)\n")
    code, out, _ = seerax(
        "evaluate", "run", "--episodes", "64", "--json", "--problem", "theirs:ours"
    )
    assert code == 0 and json.loads(out)["problem"] == "theirs:ours"
