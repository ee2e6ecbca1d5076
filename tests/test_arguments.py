"""The words of a command line: which settings they start from, and how each value is read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from seerax.cli.arguments import given, parse, read_setting
from seerax.errors import UserError
from seerax.settings import settings


def test_the_settings_are_those_of_the_problem_wherever_it_stands():
    command = parse(["train", "--out", "maze4", "door4"])
    ours = settings("door4")
    assert (command.problem, command.out) == ("door4", Path("maze4"))
    assert (command.scale, command.ppo) == (ours.scale, ours.ppo)


def test_the_settings_are_those_of_the_agent_too():
    command = parse(["train", "door4", "--ppo.epochs", "7", "--agent", "bpo"])
    ours = settings("door4", "bpo")
    assert command.scale == ours.scale != settings("door4").scale
    assert command.ppo.epochs == 7 and command.ppo.exploration == ours.ppo.exploration


@pytest.mark.parametrize("text", ["5e6", "5_000_000", "5000000"])
def test_whole_numbers_are_written_in_three_ways_everywhere(text):
    assert parse(["train", "tiger", "--steps", text]).steps == 5_000_000
    assert parse(["train", "tiger", "--ppo.steps", text]).ppo.steps == 5_000_000
    assert parse(["evaluate", "tiger", "--episodes", text]).episodes == 5_000_000
    _, [(_, value)] = read_setting(f"ppo.steps={text}", settings(""))
    assert value == 5_000_000


VALUES = [
    ("ppo.steps=1e6", "ppo.steps", 1_000_000),
    ("ppo.learning-rate=1e-3", "ppo.learning_rate", 1e-3),
    ("ppo.learning_rate=1e-3", "ppo.learning_rate", 1e-3),
    ("ppo.anneal=false", "ppo.anneal", False),
    ("ppo.anneal=True", "ppo.anneal", True),
    ("ppo.discount=none", "ppo.discount", None),
    ("ppo.discount=0.9", "ppo.discount", 0.9),
    ("ppo.hidden=64 32", "ppo.hidden", (64, 32)),
    ("scale=0.5 0.5 0.1", "scale", (0.5, 0.5, 0.1)),
    ("scale=2", "scale", 2.0),
    ("blend=none", "blend", None),
    ("bonus_form=potential", "bonus_form", "potential"),
    ("bonus-form=potential", "bonus_form", "potential"),
]


@pytest.mark.parametrize(("spec", "name", "value"), VALUES)
def test_a_setting_is_read_as_its_field_wants_it(spec, name, value):
    found, [(text, read)] = read_setting(spec, settings(""))
    assert (found, text) == (name, spec.partition("=")[2])
    assert read == value and type(read) is type(value)


@pytest.mark.parametrize(
    ("words", "value"),
    [("none", None), ("0.9", 0.9)],
)
def test_train_reads_values_as_a_sweep_does(words, value):
    assert parse(["train", "tiger", "--ppo.discount", words]).ppo.discount == value


def test_alternatives_are_read_one_by_one():
    assert read_setting("scale=0.5 0.5 0.1, 1", settings("")) == (
        "scale",
        [("0.5 0.5 0.1", (0.5, 0.5, 0.1)), ("1", 1.0)],
    )


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("ppo.stepps=3", "Did you mean 'ppo.steps'"),
        ("agent=bpo", "no setting 'agent'"),
        ("ppo.worlds=1.5", "'1.5' is not a value for it"),
        ("ppo.anneal=maybe", "'maybe' is not a value for it"),
        ("ppo.worlds", "NAME=VALUE"),
    ],
)
def test_a_setting_that_cannot_be_read_is_refused(spec, sentence):
    with pytest.raises(UserError, match=sentence):
        read_setting(spec, settings(""))


UNREADABLE = {
    "": "Name a command: problems, train",
    "train": "Missing: PROBLEM.",
    "evaluate": "Missing: RUN|PROBLEM.",
    "sweep": "Missing: --problems PROBLEM ... and --out PATH.",
    "train tiger --sed 1": "Unrecognized options: --sed, 1. Did you mean --seed?",
    "problems --json": "Unrecognized options: --json. See seerax problems --help",
    "train tiger --steps many": "--steps cannot be read: 'many' is not a number.",
    "train tiger --steps 1.5": "--steps cannot be read: '1.5' is not a whole number.",
    "train tiger --scale wide": "--scale cannot be read: 'wide' is not a number.",
    "train tiger --ppo.hidden big": "--ppo.hidden cannot be read: 'big' is not a value for it.",
    "train tiger --seed": "--seed needs a value.",
    "train tiger --bonus-form x": "--bonus-form cannot be 'x': it is one of belief_change,",
}


@pytest.mark.parametrize("line", UNREADABLE)
def test_what_cannot_be_read_is_told_in_one_sentence(line):
    with pytest.raises(UserError) as told:
        parse(line.split())
    assert str(told.value).startswith(UNREADABLE[line])
    assert str(told.value).endswith("--help") and "\n" not in str(told.value)


def test_given_are_the_options_that_were_written():
    words = ["train", "tiger", "--ppo.no-anneal", "--bonus-form=potential", "--seed", "0"]
    assert given(words) == {"ppo.no_anneal", "bonus_form", "seed"}


def test_help_says_what_a_switch_does(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        parse(["train", "tiger", "--help"])
    out = " ".join(capsys.readouterr().out.replace("│", " ").split())
    switch = "--ppo.no-anneal True: the learning rate falls linearly to zero. False: it stays "
    assert switch in out
    assert "--ppo.exploration FLOAT|{[FLOAT [FLOAT ...]]} initial std of raw actions" in out


def test_help_does_not_wait_for_jax():
    program = (
        "import sys; sys.argv = ['seerax', '--help']\n"
        "from seerax import cli\n"
        "try: cli.main()\n"
        "except SystemExit: pass\n"
        "assert not {'jax', 'matplotlib'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "reproduce" in done.stdout
