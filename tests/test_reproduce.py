"""The paper, reproduced: what is run, cut, kept, drawn and written."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from seerax import experiments, keys, pictures, problems, rollout, runs, settings
from seerax.advice import follow_advice
from seerax.errors import UserError
from seerax.paper import (
    charts,
    draw,
    plan,
    policies,
    report,
    reproduce,
    rules,
    sensing,
)
from seerax.paper.plan import BUDGETS, PLAN
from seerax.players import find_players
from seerax.ppo.config import Config
from seerax.problems import PAPER, WITH_SENSING, doors
from seerax.runs import training
from seerax.runs.policies import shipped
from seerax.system import pytrees

TINY = Config(
    steps=768, worlds=16, rollout_length=8, minibatches=2, evaluations=3, evaluation_episodes=16
)


# ---- the plan ------------------------------------------------------------------------------------


def test_the_plan_holds_what_the_paper_shows_with_our_settings():
    full = BUDGETS["full"]
    for problem in PAPER:
        agents = ("brpo", "bpo", "upmle", "ensemble", "clairvoyant", "posterior_sampling")
        assert {f"{problem}-{agent}" for agent in agents} <= set(PLAN)
    assert PLAN["maze4-brpo"].experiment(full) == settings.settings("maze4")
    bonuses = {p: PLAN[f"{p}-upmle-bonus"].experiment(full).bonus for p in WITH_SENSING}
    assert bonuses == {"maze4": 1.0, "maze10": 100.0, "door4": 1.0}
    potential = PLAN["door4-brpo-potential100"].experiment(full)
    assert potential == replace(settings.settings("door4"), bonus=100.0, bonus_form="potential")
    released = PLAN["maze4-brpo-gain10"].experiment(full)
    assert released == replace(
        settings.settings("maze4"), bonus=10.0, bonus_form="information_gain"
    )
    on_top = PLAN["maze10-brpo-better_sensing"].experiment(full)
    assert on_top == replace(settings.settings("maze10"), problem=plan.BETTER_SENSING)
    assert [PLAN[f"maze10-brpo-blend{w}"].experiment(full).blend for w in ("0.1", "0.5")] == [
        0.1,
        0.5,
    ]
    assert (
        PLAN["maze4-brpo"].experiment(BUDGETS["quick"]).ppo.steps
        == settings.settings("maze4").ppo.steps // 6
    )
    names = list(PLAN)
    assert (
        names.index("door4-brpo") < names.index("crowdnav-bpo") < names.index("maze4-brpo-bonus10")
    )


def test_entries_and_groups_are_chosen_in_the_plans_order():
    names = [entry.name for entry in plan.chosen(["composition", "maze4-brpo"])]
    assert names == ["maze4-brpo", "maze10-brpo-blend0.1", "maze10-brpo-blend0.5"]
    assert [entry.name for entry in plan.chosen([])] == list(PLAN)


def test_where_seeds_differ_much_there_are_more_of_them():
    asked = {name: reproduce.Task(PLAN[name], BUDGETS["full"]).seeds for name in PLAN}
    assert asked["maze4-bpo"] == asked["maze10-upmle-bonus"] == 5
    assert asked["door4-brpo"] == asked["door4-brpo-bonus100"] == asked["door4-ensemble"] == 10
    assert asked["door4-bpo"] == asked["door4-upmle-bonus"] == 20
    assert reproduce.Task(PLAN["door4-bpo"], BUDGETS["quick"]).seeds == 2


def test_the_deep_tree_has_256_leaves():
    for name in ("tree-brpo-deep", "tree-bpo-deep"):
        assert PLAN[name].experiment(BUDGETS["full"]).mdp().filter.init().shape == (256,)


def test_the_better_sensing_ensemble_senses_at_first_only():
    mdp = experiments.find_problem(plan.BETTER_SENSING)
    episode = rollout.record(jax.random.key(0), mdp, follow_advice)
    sensed = episode.situation.state.sensed[1:]
    np.testing.assert_array_equal(sensed, np.arange(len(sensed)) < 150)


@pytest.mark.parametrize("make", [doors.door4, doors.door4_cheap_sensing])
def test_crashes_are_the_steps_in_touch_with_a_closed_door(make):
    mdp, key = make(), jax.random.key(3)

    def blind(key, situation):
        return situation.advice.at[2].set(-1.0)

    for policy in (follow_advice, blind):
        whole = rollout.evaluate(key, mdp, policy, 8)
        told = reproduce.crashes(mdp.problem, whole)
        states = [
            rollout.record(jax.random.fold_in(key, i), mdp, policy).situation.state
            for i in range(8)
        ]
        counts = np.array([state.crashed.any(-1).sum() for state in states])
        assert told["crashes"]["mean"] == pytest.approx(counts.mean())
        assert told["crash_free"] == (counts == 0).mean()
    assert counts.sum() > 0


def test_when_and_where_it_senses_is_counted_step_by_step(monkeypatch):
    """Against a plain walk through the same episodes."""
    monkeypatch.setattr(pictures, "SENSED_EPISODES", 3)
    for name in ("maze4", "door4"):
        policy = shipped(name, "brpo")
        found = sensing.measured(policy)
        [(mdp, player)] = find_players(str(policy)).players
        kinds: dict[str, list[bool]] = {kind: [] for kind in found if kind != "episodes"}
        for key in jax.random.split(keys.evaluation_key(0), 3):
            episode = rollout.record(key, mdp, player)
            state, beliefs = episode.situation.state, np.exp(episode.situation.belief)
            for now in range(len(state.sensed) - 1):
                sensed, (x, y) = bool(state.sensed[now + 1]), state.position[now + 1]
                sure = beliefs[now].max()
                close = (
                    abs(y - 0.3) < 0.5
                    if name == "door4"
                    else np.hypot(*((x, y) - state.position[0])) < 0.5
                )
                if name == "door4":
                    kinds["steps_near"].append(close)
                    kinds["readings_near"] += [close] * sensed
                else:
                    kinds["at_start" if close else "elsewhere"].append(sensed)
                if sure < 0.9 or sure >= 0.99:
                    kinds["undecided" if sure < 0.9 else "sure"].append(sensed)
        assert found.pop("episodes") == 3
        assert found == pytest.approx(
            {kind: sum(flags) / max(len(flags), 1) for kind, flags in kinds.items()}
        )


# ---- the command ---------------------------------------------------------------------------------


@pytest.fixture
def reproduced(seerax, monkeypatch):
    """Runs `seerax reproduce` in a fresh folder, with Tiger and Tree made tiny."""
    tiny = {name: replace(settings.SETTINGS[name], ppo=TINY) for name in ("tiger", "tree")}
    monkeypatch.setattr(settings, "SETTINGS", {**settings.SETTINGS, **tiny})
    monkeypatch.setattr(plan, "EPISODES", {"tiger": 40, "tree": 40})
    return lambda *arguments: seerax("reproduce", *arguments)


ASKED = ("--only", "tiger-ensemble", "tiger-brpo", "--seeds", "2")


def kept(name: str = "tiger-brpo", folder: str = "results/paper") -> dict[str, Any]:
    return json.loads(Path(folder, f"{name}.json").read_text())


def cut_after(monkeypatch, iterations: int, number: int) -> None:
    """A signal in the middle of the training, as Ctrl-C or a cluster sends it."""
    original = reproduce.shown

    def shown(*arguments: Any) -> Callable[[Any], None]:
        show = original(*arguments)

        def and_stop(progress: Any) -> None:
            show(progress)
            if progress.steps == iterations * TINY.batch:
                os.kill(os.getpid(), number)

        return and_stop

    monkeypatch.setattr(reproduce, "shown", shown)


def test_what_is_cut_goes_on_and_ends_as_if_it_had_not_been(reproduced, monkeypatch, tmp_path):
    with monkeypatch.context() as patched:
        cut_after(patched, 3, signal.SIGINT)
        code, _, err = reproduced(*ASKED)
    assert code == 130
    assert "Go on with: seerax reproduce --only tiger-ensemble tiger-brpo --seeds 2\n" in err
    assert (
        Path("results/paper/tiger-ensemble.json").exists()
        and not Path("results/paper/tiger-brpo.json").exists()
    )
    code, out, err = reproduced(*ASKED)
    assert (
        code == 0
        and "Going on from the checkpoint of iteration 3" in err
        and "results/paper/results.md" in out
    )
    resumed = kept()
    (tmp_path / "whole").mkdir()
    monkeypatch.chdir(tmp_path / "whole")
    assert reproduced(*ASKED)[0] == 0
    for part in ("config", "curves", "per_seed", "evaluation"):
        assert resumed[part] == kept()[part]


def test_a_result_tells_all_that_was_promised(reproduced):
    reproduced(*ASKED)
    learned, baseline = kept(), kept("tiger-ensemble")
    wanted = "name problem agent config seeds episodes curves per_seed evaluation extra training_seconds cores versions"
    assert " ".join(learned) == " ".join(baseline) == f"{wanted} budget"
    assert [curve["seed"] for curve in learned["curves"]] == [0, 1]
    assert learned["curves"][0]["steps"] == [0, 256, 512, 768]
    for curve in learned["curves"]:
        assert curve["held_out"][0] <= curve["returned"] <= max(curve["held_out"])
        assert curve["returned"] in curve["held_out"]
    means = [part["mean"] for part in learned["per_seed"]]
    assert learned["evaluation"]["mean"] == pytest.approx(np.mean(means))
    np.testing.assert_allclose(
        np.diff(learned["evaluation"]["ci95"]), 12.7062 * abs(np.diff(means)), rtol=1e-4
    )
    assert baseline["evaluation"]["episodes"] == 80 and baseline["curves"] == []
    assert (
        learned["training_seconds"] > 0 and learned["cores"] >= 1 and learned["versions"]["seerax"]
    )
    folder = runs.RunFolder(Path("runs/paper/tiger-brpo"))
    assert len(folder.policies()) == 2 and not folder.checkpoints.folder.exists()
    on_its_keys = rollout.evaluate(
        keys.evaluation_key(1), problems.make("tiger"), follow_advice, 40
    )
    assert baseline["per_seed"][1]["mean"] == on_its_keys.mean


def test_what_is_kept_is_only_drawn(reproduced, monkeypatch):
    reproduced(*ASKED)
    Path("results/paper/results.md").unlink()
    before = Path("results/paper/tiger-brpo.json").stat().st_mtime_ns
    with monkeypatch.context() as patched:
        patched.setattr(rollout, "evaluate", None)
        patched.setattr(training, "train", None)
        code, out, err = reproduced(*ASKED)
    assert (code, err) == (0, "") and out.split() == ["results/paper/results.md"]
    assert Path("results/paper/tiger-brpo.json").stat().st_mtime_ns == before
    Path("results/paper/tiger-brpo.json").unlink()
    monkeypatch.setattr(
        training, "train", None
    )  # what was trained is measured again without training
    assert reproduced(*ASKED)[0] == 0 and kept()["training_seconds"] > 0


def test_other_settings_are_told_and_redone_only_if_asked(reproduced, monkeypatch):
    reproduced(*ASKED)
    changed = replace(settings.SETTINGS["tiger"], ppo=replace(TINY, learning_rate=1e-3))
    monkeypatch.setitem(settings.SETTINGS, "tiger", changed)
    code, _, err = reproduced(*ASKED)
    assert code == 0 and kept()["config"]["ppo"]["learning_rate"] == TINY.learning_rate
    assert (
        "tiger-brpo (ppo.learning_rate was 0.0003 and is 0.001). --redo trains it anew"
        in " ".join(err.split())
    )
    assert "tiger-ensemble" not in err
    with monkeypatch.context() as patched:
        cut_after(patched, 3, signal.SIGTERM)
        assert reproduced(*ASKED, "--redo")[0] == 143
    assert kept()["config"]["ppo"]["learning_rate"] == TINY.learning_rate
    code, _, err = reproduced(*ASKED, "--redo")
    assert code == 0 and "iteration 3" in err and kept()["config"]["ppo"]["learning_rate"] == 1e-3


def test_a_training_begun_with_other_settings_is_not_continued_unasked(reproduced, monkeypatch):
    with monkeypatch.context() as patched:
        cut_after(patched, 3, signal.SIGTERM)
        reproduced(*ASKED)
    code, _, err = reproduced("--only", "tiger-brpo", "--seeds", "1")
    assert (
        code == 0
        and "seeds was 2 and is 1" in err
        and not Path("results/paper/tiger-brpo.json").exists()
    )


def test_quick_is_kept_apart_and_never_reaches_the_documents(reproduced):
    for path in (report.README, report.PAGE):
        path.parent.mkdir(exist_ok=True)
        path.write_text("as it was")
    code, out, _ = reproduced("--only", "tiger-ensemble", "--budget", "quick")
    assert code == 0 and out.split() == ["results/paper-quick/results.md"]
    assert kept("tiger-ensemble", "results/paper-quick")["seeds"] == 2
    assert report.README.read_text() == report.PAGE.read_text() == "as it was"


def test_the_documents_and_the_shipped_policies_come_from_the_results(reproduced):
    marks = "".join(
        f"<!-- {name} -->\n\n<!-- end -->\nby hand\n" for name in (*report.PARTS, "figures")
    )
    for path in (report.README, report.PAGE):
        path.parent.mkdir(exist_ok=True)
        path.write_text(marks)
    policies.SHIPPED.mkdir(parents=True)
    assert reproduced("--only", "tiger-clairvoyant", "tiger-brpo", "--seeds", "2")[0] == 0
    mine = kept()
    told = rules.told(mine["evaluation"], 2)
    for path in (report.README, report.PAGE):
        assert f"**{told}** | 10.00 |" in path.read_text() and "by hand" in path.read_text()
    assert "not run yet" in report.PAGE.read_text()
    shipped = pytrees.read_about(policies.SHIPPED / "tiger-brpo.safetensors")
    assert shipped["held_out"] == max(curve["returned"] for curve in mine["curves"])


def test_a_failing_entry_stops_no_other(reproduced, monkeypatch):
    baseline = reproduce.baseline_of

    def broken(entry: plan.Entry) -> Any:
        if entry.name == "tiger-ensemble":
            raise UserError("no such thing")
        return baseline(entry)

    monkeypatch.setattr(reproduce, "baseline_of", broken)
    code, _, err = reproduced("--only", "tiger-ensemble", "tree-ensemble")
    assert (
        code == 2
        and "failed    tiger-ensemble: no such thing" in err
        and "1 of 2 failed, tiger-ensemble" in err
    )
    assert Path("results/paper/tree-ensemble.json").exists()


WRONG = {
    "an entry": ("--only maze4-bropo", "Did you mean 'maze4-brpo'?"),
    "a group": ("--only headlines", "Did you mean 'headline'?"),
    "seeds": ("--seeds 0", "at least 1, not 0"),
    "a budget": ("--budget tiny", "tiny"),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_told_in_one_sentence(reproduced, name):
    words, sentence = WRONG[name]
    code, out, err = reproduced(*words.split())
    assert code == 2 and out == "" and sentence in err and len(err.splitlines()) == 1
    assert not list(Path().iterdir())


# ---- pictures and policies -----------------------------------------------------------------------


@pytest.fixture
def drawn(monkeypatch):
    """Pictures and films by name, with who plays in them, in the order in which they are asked for."""
    asked: dict[str, tuple[str, ...]] = {}

    def chart(path, results=None):
        asked[path.name] = ()

    def scene(path, targets):
        asked[path.name] = targets

    def film(path, target):
        asked[path.name] = (target,)

    monkeypatch.setattr(charts, "CHARTS", dict.fromkeys(charts.CHARTS, chart))
    monkeypatch.setattr(charts, "tree", chart)
    scenes = {name: each._replace(draw=scene) for name, each in draw.SCENES.items()}
    monkeypatch.setattr(draw, "SCENES", scenes)
    monkeypatch.setattr(pictures, "titled", lambda targets, agent, usual: targets)
    monkeypatch.setattr(draw, "find_players", lambda target: target)
    monkeypatch.setattr(pictures, "film", film)
    return asked


def test_charts_are_drawn_from_what_is_there(drawn, tmp_path):
    full = BUDGETS["full"]
    assert list(draw.draw({"maze4-ensemble": {}}, tmp_path, full)) == []
    paths = list(draw.draw({"crowdnav-upmle": {}, "maze10-brpo-blend0.1": {}}, tmp_path, full))
    assert list(drawn) == ["benchmark.png", "composition.png"] == [path.name for path in paths]
    assert list(draw.draw({"tree-posterior_sampling": {}}, tmp_path, full)) == [
        tmp_path / "tree.png"
    ]


def test_the_last_policies_are_kept_beside_the_best(reproduced):
    reproduced(*ASKED)
    task = reproduce.Task(PLAN["tiger-brpo"], replace(BUDGETS["full"], seeds=2))
    last, best = (
        [pytrees.read_about(file(seed)) for seed in (0, 1)]
        for file in (task.last_policy, task.folder.policy)
    )
    assert [each["steps"] for each in last] == [768, 768] and [each["seed"] for each in last] == [
        0,
        1,
    ]
    assert "held_out" in best[0] and "held_out" not in last[0]
    trainer = task.run.experiment.trainer()
    assert len(reproduce.played(task, reproduce.learned(task, trainer, task.last_policy))) == 2


def test_the_best_seed_of_the_budgets_run_plays_in_scenes_and_films(drawn, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    quick, results = BUDGETS["quick"], {"maze4-brpo": {}, "door4-brpo": {}}
    save_policies(quick.runs / "maze4-brpo", [1.0, 3.0, 2.0])
    shipped = policies.SHIPPED / "door4-brpo.safetensors"
    shipped.parent.mkdir(parents=True)
    shipped.touch()
    paths = [*draw.draw(results, Path(), quick), *draw.films(results, Path("films"), quick)]
    assert [str(path) for path in paths] == [
        "benchmark.png",
        "sensing.png",
        "keyframes.png",
        "films/maze4.mp4",
    ]
    best = str(runs.RunFolder(quick.runs / "maze4-brpo").policy(1))
    assert drawn["sensing.png"] == drawn["keyframes.png"] == drawn["maze4.mp4"] == (best,)
    assert draw.filmed(results, BUDGETS["full"]) == {"door4": str(shipped)}  # its run is gone


def save_policies(folder: Path, returned: list[float]) -> None:
    for seed, each in enumerate(returned):
        path = runs.RunFolder(folder).policy(seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        pytrees.save_tree(path, {"w": np.zeros(1)}, {"held_out": each})


def test_the_better_of_two_trainings_is_shipped(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    policies.SHIPPED.mkdir(parents=True)
    results = {}
    for name, returned in (("maze4-bpo", [1.0, 4.0]), ("maze4-bpo-bonus", [3.0, 2.0])):
        results[name] = {"curves": [{"returned": each} for each in returned]}
        save_policies(Path("runs", name), returned)
    policies.ship(results, Path("runs"))
    (shipped,) = policies.SHIPPED.iterdir()
    assert (
        shipped.name == "maze4-bpo.safetensors" and pytrees.read_about(shipped)["held_out"] == 4.0
    )
