"""Mistakes on the command line are one sentence on standard error and exit code 2, without a
traceback.
"""

from __future__ import annotations

import pytest

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
    "sensing where nobody moves": (
        ["figure", "sensing", "tiger"],
        "Tiger has no draw_place method",
    ),
    "no worlds": (["train", "tiger", "--ppo.worlds", "0"], "worlds must be at least 1"),
    "negative steps": (["train", "tiger", "--steps", "-5"], "steps must be at least 1"),
    "odd minibatches": (["train", "tiger", "--ppo.minibatches", "7"], "equal minibatches"),
    "no seeds": (["train", "tiger", "--seeds", "0"], "number of seeds must be at least 1"),
    "no episodes": (
        ["evaluate", "tiger", "--episodes", "0"],
        "must be at least 1, not 0. (--episodes)",
    ),
    "wrong scale": (["train", "maze4", "--scale", "1", "2"], "3 dimensions"),
    "bad discount": (["train", "tiger", "--ppo.discount", "1.5"], "discount must lie in"),
    "nothing to resume": (["train", "tiger", "--resume", "--out", "nowhere"], "not a run folder"),
    "a blend of what takes no advice": (
        ["train", "tiger", "--agent", "bpo", "--blend", "0.5"],
        "bpo takes no advice, so there is nothing to blend with.",
    ),
    "a blend with the likeliest latent": (
        ["train", "tiger", "--agent", "upmle", "--blend", "0.5"],
        "upmle takes no advice, so there is nothing to blend with.",
    ),
    "a blend beside a scale": (
        ["train", "tiger", "--blend", "0.5", "--scale", "1"],
        "A blend takes no scale: give one or the other. (--blend, --scale)",
    ),
    "a blend beside a scale in a sweep": (
        ["sweep", "--problems", "tiger", "--out", "s", "--set", "blend=0.5", "--set", "scale=1"],
        "A blend takes no scale",
    ),
    "a blend of what takes no advice in a sweep": (
        ["sweep", "--problems", "tiger", "--out", "s", "--agents", "bpo", "--set", "blend=0.5"],
        "bpo takes no advice",
    ),
    "steps by two names": (
        ["train", "tiger", "--steps", "5", "--ppo.steps", "6"],
        "--steps and --ppo.steps set the same number",
    ),
    "a policy file that is not there": (["evaluate", "a.safetensors"], "a.safetensors cannot be"),
    "no fault to replay": (["replay", "nowhere"], "nowhere cannot be read"),
    "a number of another kind": (["train", "tiger", "--seed", "one"], "'one' is not a number"),
    "a number too large": (["train", "tiger", "--seed", "1e30"], "Seeds must lie between"),
    "no devices": (["train", "tiger", "--devices", "0"], "at least 1, not 0. (--devices)"),
    "both at once": (["train", "tiger", "--resume", "--overwrite"], "exclude each other"),
    "unwritable": (["train", "tiger", "--out", "/proc/nothing/here"], "Cannot write to"),
    "a file in the way": (["train", "tiger", "--out", "/etc/hostname"], "not a run folder"),
    "no such module": (["check", "nosuchmodule:mdp"], "no module 'nosuchmodule'"),
    "no such object": (["check", "seerax.core:Sep"], "Did you mean"),
    "not a problem": (
        ["check", "seerax.core:Step"],
        "Give a BeliefMDP or a function without arguments that returns one, not type 'Step'.",
    ),
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
        "The episode must lie between 0 and 2147483647",
    ),
    "a film of no episode": (
        ["film", "tiger", "--episode", str(2**31)],
        "The episode must lie between 0 and 2147483647",
    ),
    "keyframes of no episode": (
        ["figure", "keyframes", "maze4", "--episode", "-1"],
        "The episode must lie between 0 and 2147483647",
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
    "a run drawn twice": (["figure", "curve", "run", "./run"], "of the same run folder twice"),
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
