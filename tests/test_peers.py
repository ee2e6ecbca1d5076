"""Peers are measured in environments of their own, or skipped with a clear word."""

from __future__ import annotations

import sys

import pytest

from seerax.bench import peers


@pytest.fixture
def stage(tmp_path, monkeypatch):
    """Scripts of our own; the environment, made without pip, holds nothing."""
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "good.py").write_text(
        "import json, sys\nprint('noise')\nprint(json.dumps({'said': sys.argv[1]}))"
    )
    (scripts / "bad.py").write_text("raise ValueError('no such network')")
    (scripts / "slow.py").write_text("import time\ntime.sleep(60)")
    home = tmp_path / "homes" / "here"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python").symlink_to(sys.executable)
    (home / "made.txt").write_text("nothing")
    monkeypatch.setattr(peers, "SCRIPTS", scripts)
    monkeypatch.setattr(peers, "HOMES", {"here": ("nothing",), "nowhere": ("no-such-package",)})
    monkeypatch.setattr(peers, "PATIENCE", (60.0, 1.0))
    return tmp_path / "homes"


def test_a_peer_answers_or_says_why_not(stage, monkeypatch):
    commands = {"good": ("good.py", "42"), "bad": ("bad.py",), "slow": ("slow.py",)}
    monkeypatch.setattr(
        peers, "PEERS", {name: peers.Peer("here", command) for name, command in commands.items()}
    )
    said = []
    assert peers.measure(said.append, stage) == {
        "good": {"said": "42"},
        "bad": {"skipped": "bad.py failed: ValueError: no such network"},
        "slow": {"skipped": "slow.py failed: it took more than 1 s"},
    }
    assert said == ["making the environment of here", *(f"measuring {name}" for name in commands)]


def test_what_cannot_be_installed_is_skipped_and_tried_again_next_time(stage, monkeypatch):
    refusing = "#!/bin/sh\necho 'No matching distribution' >&2; exit 1\n"
    maker = stage / "maker"  # stands for `python -m venv --clear HOME`
    maker.write_text(
        f'#!/bin/sh\nmkdir -p "$4/bin"\ncat > "$4/bin/python" <<END\n{refusing}END\n'
        'chmod +x "$4/bin/python"\n'
    )
    maker.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(maker))
    for _ in range(2):
        assert (
            str(peers.settled("nowhere", stage))
            == "it could not be installed: No matching distribution"
        )
    monkeypatch.setattr(sys, "executable", str(stage / "no-python"))
    assert "no environment could be made" in str(peers.settled("nowhere", stage))


def test_without_a_checkout_there_is_nothing_to_measure(stage, monkeypatch):
    monkeypatch.setattr(peers, "SCRIPTS", stage / "elsewhere")
    monkeypatch.setattr(peers, "PEERS", {"any": peers.Peer("nowhere", ("good.py",))})
    words = "the peers' scripts come only with a checkout of seerax"
    assert peers.measure(folder=stage) == {"any": {"skipped": words}}


def test_every_peer_has_a_script_and_a_home():
    for peer in peers.PEERS.values():
        assert (peers.SCRIPTS / peer.command[0]).exists() and peer.home in peers.HOMES
