"""The paper, reproduced: what is run, cut, kept, judged and written."""

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

from seerax import commands, experiments, pictures, problems, rollout, runs
from seerax.advice import follow_advice
from seerax.errors import UserError
from seerax.paper import claims, draw, places, plan, policies, report, reproduce, rules
from seerax.paper.plan import BUDGETS, PLAN
from seerax.paper.rules import Results
from seerax.ppo.config import Config
from seerax.problems import PAPER, WITH_SENSING, doors
from seerax.system import pytrees

TINY = Config(
    steps=768, worlds=16, rollout_length=8, minibatches=2, evaluations=3, evaluation_episodes=16
)


# ---- the plan ----------------------------------------------------------------------------------------------------


def test_the_plan_holds_what_the_paper_shows_with_our_settings():
    full = BUDGETS["full"]
    for problem in PAPER:
        agents = ("brpo", "bpo", "upmle", "ensemble", "clairvoyant", "posterior_sampling")
        assert {f"{problem}-{agent}" for agent in agents} <= set(PLAN)
    assert PLAN["maze4-brpo"].experiment(full) == experiments.settings("maze4")
    bonuses = {p: PLAN[f"{p}-upmle-bonus"].experiment(full).bonus for p in WITH_SENSING}
    assert bonuses == {"maze4": 1.0, "maze10": 100.0, "door4": 1.0}
    potential = PLAN["door4-brpo-potential100"].experiment(full)
    assert potential == replace(experiments.settings("door4"), bonus=100.0, bonus_form="potential")
    released = PLAN["maze4-brpo-gain10"].experiment(full)
    assert released == replace(
        experiments.settings("maze4"), bonus=10.0, bonus_form="information_gain"
    )
    on_top = PLAN["maze10-brpo-better_sensing"].experiment(full)
    assert on_top == replace(experiments.settings("maze10"), problem=plan.BETTER_SENSING)
    assert [PLAN[f"maze10-brpo-blend{w}"].experiment(full).blend for w in ("0.1", "0.5")] == [
        0.1,
        0.5,
    ]
    assert (
        PLAN["maze4-brpo"].experiment(BUDGETS["quick"]).ppo.steps
        == experiments.settings("maze4").ppo.steps // 6
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
    blind = lambda key, situation: situation.advice.at[2].set(-1.0)  # noqa: E731
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
        policy = runs.shipped_policy(name, "brpo")
        found = places.measured(policy)
        _, _, [(mdp, player), *_] = commands.find_players(str(policy), None)
        kinds: dict[str, list[bool]] = {kind: [] for kind in found if kind != "episodes"}
        for key in jax.random.split(runs.evaluation_key(0), 3):
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


# ---- the command -------------------------------------------------------------------------------------------------


@pytest.fixture
def reproduced(seerax, monkeypatch):
    """Runs `seerax reproduce` in a fresh folder, with Tiger and Tree made tiny."""
    tiny = {name: replace(experiments.SETTINGS[name], ppo=TINY) for name in ("tiger", "tree")}
    monkeypatch.setattr(experiments, "SETTINGS", {**experiments.SETTINGS, **tiny})
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
    assert all(curve["returned"] == max(curve["held_out"]) for curve in learned["curves"])
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
        runs.evaluation_key(1), problems.make("tiger"), follow_advice, 40
    )
    assert baseline["per_seed"][1]["mean"] == on_its_keys.mean


def test_what_is_kept_is_only_drawn(reproduced, monkeypatch):
    reproduced(*ASKED)
    Path("results/paper/results.md").unlink()
    before = Path("results/paper/tiger-brpo.json").stat().st_mtime_ns
    with monkeypatch.context() as patched:
        patched.setattr(rollout, "evaluate", None)
        patched.setattr(runs, "train", None)
        code, out, err = reproduced(*ASKED)
    assert (code, err) == (0, "") and out.split() == ["results/paper/results.md"]
    assert Path("results/paper/tiger-brpo.json").stat().st_mtime_ns == before
    Path("results/paper/tiger-brpo.json").unlink()
    monkeypatch.setattr(runs, "train", None)  # what was trained is measured again without training
    assert reproduced(*ASKED)[0] == 0 and kept()["training_seconds"] > 0


def test_other_settings_are_told_and_redone_only_if_asked(reproduced, monkeypatch):
    reproduced(*ASKED)
    changed = replace(experiments.SETTINGS["tiger"], ppo=replace(TINY, learning_rate=1e-3))
    monkeypatch.setitem(experiments.SETTINGS, "tiger", changed)
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
    baseline = reproduce.baseline

    def broken(entry: plan.Entry) -> Any:
        if entry.name == "tiger-ensemble":
            raise UserError("no such thing")
        return baseline(entry)

    monkeypatch.setattr(reproduce, "baseline", broken)
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


# ---- claims ------------------------------------------------------------------------------------------------------

MEANS = {
    "ensemble": 100.0,
    "clairvoyant": 200.0,
    "posterior_sampling": 50.0,
    "brpo": 150.0,
    "bpo": 90.0,
    "upmle": 90.0,
}
FORMS = ("bonus", "gain")
OTHERS = {
    **{f"cartpole-{agent}": 150.0 for agent in ("bpo", "upmle")},
    **{f"{p}-brpo_without_belief": 150.0 for p in ("maze4", "door4")},
    **{f"{p}-brpo-{form}10": 140.0 for p in WITH_SENSING for form in FORMS},
    **{f"{p}-brpo-{form}100": 120.0 for p in WITH_SENSING for form in FORMS},
    **{f"{p}-brpo-potential100": 150.0 for p in WITH_SENSING},
    "maze10-ensemble": 410.0,
    "maze10-better_sensing": 416.0,
    **{f"maze10-{name}": 470.0 for name in ("brpo", "brpo_without_belief", "brpo-potential100")},
    **{f"maze10-brpo-{name}": 460.0 for name in ("bonus10", "gain10", "blend0.1", "blend0.5")},
    "maze10-brpo-better_sensing": 480.0,
    "tree-brpo": 99.9,
    "tree-brpo-deep": 99.9,
    "tree-posterior_sampling": -3.1,
    "tiger-brpo": 5.15,
}
SENSING_MAP = {
    "undecided": 0.5,
    "sure": 0.1,
    "at_start": 0.6,
    "elsewhere": 0.3,
    "readings_near": 1.0,
    "steps_near": 0.5,
}
TYPICAL = {
    "brpo": {"length": 80.0, "sensing": 0.02},
    "bpo": {"success": 0.2},
    "upmle": {"success": 0.2},
    "posterior_sampling": {"sensing": 0.0},
}


def measured(mean: float, **others: Any) -> dict[str, Any]:
    margin = 1.0 if abs(mean) > 10 else 0.1
    told = {
        "mean": mean,
        "ci95": [mean - margin, mean + margin],
        "stderr": margin / 2,
        "episodes": 5000,
    }
    return {**told, "success": 1.0, "length": 100.0, "sensing": 0.5, **others}


def crashing(often: float) -> dict[str, Any]:
    return {"crashes": {"mean": often, "ci95": [often - 0.05, often + 0.05]}}


def ending(often: float, sensing: float = 0.5) -> dict[str, Any]:
    return {**crashing(often), "sensing": sensing}


def start(problem: str) -> float:
    """The ensemble's return."""
    return OTHERS.get(f"{problem}-ensemble", 100.0)


def learned(name: str) -> dict[str, Any]:
    """It got somewhere, if not far."""
    return with_curves(name, held_out=[50.0, 90.0, 90.0])


def made_up(name: str, mean: float | None = None, **others: Any) -> dict[str, Any]:
    """A result as the paper would have it, but for what is said."""
    entry = PLAN[name]
    mean = OTHERS.get(name, MEANS.get(entry.agent, 100.0)) if mean is None else mean
    evaluation = measured(mean, **{**TYPICAL.get(entry.agent, {}), **others})
    first = start(entry.problem) if entry.agent.startswith("brpo") else 0.0
    first = (
        mean if entry.agent in ("bpo", "upmle") and entry.problem in WITH_SENSING else first
    )  # nothing was learned
    slow = entry.agent != "brpo"
    curve = {
        "steps": [0, 1_000_000, 2_000_000],
        "held_out": [first, first if slow else mean, mean],
        "returned": mean,
    }
    helped = {"sensing": 0.6} if entry.suffix == "bonus" else {}
    often = 5.0 if name.endswith(("bonus100", "gain100")) else 0.1
    return {
        "name": name,
        "evaluation": evaluation,
        "per_seed": [evaluation] * 5,
        "curves": [{"seed": seed, **curve} for seed in range(5)] if entry.learns else [],
        "extra": {
            **crashing(0.1),
            "crash_free": 0.97,
            "at_the_end": ending(often, **helped),
            "sensing": SENSING_MAP,
        },
        "config": {"ppo": {"evaluation_episodes": 1000}},
        "seeds": 5,
        "training_seconds": 60.0,
        "cores": 2,
    }


def as_the_paper_has_it() -> Results:
    world = Results({name: made_up(name) for name in PLAN})
    world["maze10-better_sensing"] = made_up("maze10-better_sensing", success=0.963)
    return world


def with_curves(name: str, **changes: Any) -> dict[str, Any]:
    result = made_up(name)
    return {**result, "curves": [{**curve, **changes} for curve in result["curves"]]}


def with_extra(name: str, **changes: Any) -> dict[str, Any]:
    result = made_up(name)
    return {**result, "extra": {**result["extra"], **changes}}


QUICK = {"held_out": [0.0, 150.0, 150.0]}
AGAINST = {  # by claim: one entry that came out otherwise
    **{f"improves-{p}": made_up(f"{p}-ensemble", 149.0 if p != "maze10" else 469.0) for p in PAPER},
    **{f"adaptive-{p}": made_up(f"{p}-upmle", 500.0) for p in PAPER if p != "cartpole"},
    **{f"psrl-{p}": made_up(f"{p}-posterior_sampling", 500.0) for p in PAPER},
    **{f"unable-{p}": learned(f"{p}-bpo") for p in WITH_SENSING},
    **{f"partly-{p}": made_up(f"{p}-bpo-bonus", 500.0) for p in WITH_SENSING},
    **{f"unneeded-{p}": made_up(f"{p}-brpo-bonus10", 500.0) for p in WITH_SENSING},
    **{
        f"robust-{form}-{p}": made_up(f"{p}-brpo-{form}10", start(p) + 20)
        for p in WITH_SENSING
        for form in FORMS
    },
    **{
        f"too-much-{form}-{p}": made_up(f"{p}-brpo-{form}100", 500.0)
        for p in WITH_SENSING
        for form in FORMS
    },
    **{f"potential-{p}": made_up(f"{p}-brpo-potential100", 120.0) for p in WITH_SENSING},
    **{f"inputs-{p}": made_up(f"{p}-brpo_without_belief", 120.0) for p in ("maze4", "maze10")},
    "inputs-door4": with_curves("door4-brpo_without_belief", held_out=[100.0, 150.0, 150.0]),
    "cartpole-optimal": made_up("cartpole-bpo", 140.0),
    "cartpole-slower": with_curves("cartpole-upmle", **QUICK),
    "cartpole-time": with_curves("cartpole-bpo", **QUICK),
    "start": with_curves("maze4-brpo", held_out=[60.0, 150.0, 150.0]),
    "held-out": with_curves("door4-brpo", held_out=[100.0, 150.0, 99.0]),
    "fresh": {**made_up("door4-brpo"), "per_seed": [measured(150.0)] * 4 + [measured(99.0)]},
    **{
        f"helped-{p}": with_extra(f"{p}-upmle-bonus", at_the_end=ending(0.1, sensing=0.4))
        for p in WITH_SENSING
    },
    **{
        f"when-{p}": with_extra(f"{p}-brpo", sensing={**SENSING_MAP, "sure": 0.3})
        for p in ("maze4", "maze10")
    },
    **{
        f"start-{p}": with_extra(f"{p}-brpo", sensing={**SENSING_MAP, "at_start": 0.2})
        for p in ("maze4", "maze10")
    },
    "where-door4": with_extra("door4-brpo", sensing={**SENSING_MAP, "readings_near": 0.9}),
    "crashes": with_extra("door4-brpo-bonus100", at_the_end=ending(0.1)),
    "gain-crashes": with_extra("door4-brpo-gain100", at_the_end=ending(0.1)),
    "faster": made_up("maze4-brpo", length=101.0),
    "door-readings": made_up("door4-brpo", sensing=0.05),
    "door-crashes": with_extra("door4-brpo", crash_free=0.9),
    "cheap-crashes": with_extra("door4-brpo-cheap_sensing", crash_free=0.9),
    "formula": made_up("tree-posterior_sampling", sensing=0.1),
    "tree": made_up("tree-brpo", 74.0),
    "naive": made_up("tree-bpo", 99.9),
    "naive-deep": made_up("tree-bpo-deep", 99.9),
    "tree-deep": made_up("tree-brpo-deep", 74.0),
    "tiger": made_up("tiger-brpo", 5.0),
    "table-brpo": made_up("maze10-brpo", 465.0),
    "table-success": made_up("maze10-brpo", success=0.99),
    "table-random": made_up("maze10-ensemble", 380.0),
    "table-better": made_up("maze10-better_sensing", 440.0),
    "better-sensing": made_up("maze10-better_sensing", 410.5),
    "table-return": made_up("maze10-better_sensing", 469.0),
    "table-rate": made_up("maze10-better_sensing", success=1.0),
    "better-improves": made_up("maze10-brpo-better_sensing", 416.5),
    "composition": made_up("maze10-brpo-blend0.5", 480.0),
}
EXACT = {"gap", "reading-tells"}  # judged without results
CLAIMS = {claim.key: claim for claim in claims.claims()}


def test_every_claim_has_a_world_that_speaks_against_it():
    assert len(CLAIMS) == len(list(claims.claims()))
    assert set(AGAINST) | EXACT == set(CLAIMS)
    assert set(claims.REMARKS) <= set(CLAIMS)


@pytest.mark.parametrize("key", CLAIMS)
def test_a_claim_holds_where_it_should_and_only_there(key):
    world = as_the_paper_has_it()
    assert claims.row(CLAIMS[key], world).verdict in ("reproduced", "holds")
    if key in AGAINST:
        world[AGAINST[key]["name"]] = AGAINST[key]
        assert claims.row(CLAIMS[key], world).verdict in ("**not reproduced**", "**does not hold**")


def test_what_is_not_run_is_never_judged():
    verdicts = {claim.key: claims.row(claim, Results()).verdict for claim in CLAIMS.values()}
    assert {key for key, verdict in verdicts.items() if verdict != "not run yet"} == EXACT
    for part in report.PARTS.values():
        assert "not run yet" in part(Results())


def test_noise_excuses_nothing():
    """Wide intervals meet everything; a mean far below is still far below."""
    world = as_the_paper_has_it()
    world["maze4-brpo-potential100"]["evaluation"] = {"mean": 120.0, "ci95": [-500.0, 740.0]}
    assert not rules.not_below("maze4-brpo-potential100", "maze4-brpo")(world).holds
    world["maze10-better_sensing"]["evaluation"] = {"mean": 328.0, "ci95": [221.0, 436.0]}
    assert not rules.agrees("maze10-better_sensing", 416.3, 9.4)(world).holds


@pytest.mark.parametrize(
    ("mine", "theirs", "share", "words"),
    [(150.0, 200.0, 0.5, "50 %"), (150.0, 110.0, 5.0, "over 200 %"), (90.0, 200.0, -0.1, "-10 %")],
)
def test_gains_are_counted_from_the_ensemble_on(mine, theirs, share, words):
    world = as_the_paper_has_it()
    world["maze4-brpo"], world["maze4-brpo-gain10"] = (
        made_up("maze4-brpo", theirs),
        made_up("maze4-brpo-gain10", mine),
    )
    assert rules.gain_share(world, "maze4-brpo-gain10", "maze4-brpo") == pytest.approx(share)
    assert rules.in_percent([share]) == words
    world["maze4-brpo"] = made_up("maze4-brpo", 100.0)
    assert rules.gain_share(world, "maze4-brpo-gain10", "maze4-brpo") == (
        np.inf if mine >= 100 else -np.inf
    )


def test_the_better_of_with_and_without_bonus_counts():
    world = as_the_paper_has_it()
    world["maze4-bpo-bonus"] = made_up("maze4-bpo-bonus", 95.0)
    assert rules.better(world, "maze4", "bpo")["name"] == "maze4-bpo-bonus"
    del world["maze4-bpo-bonus"]
    with pytest.raises(rules.NotRun, match="maze4-bpo-bonus"):
        rules.better(world, "maze4", "bpo")


def test_steps_to_the_final_return_are_counted_seed_by_seed():
    curves = [
        {"steps": [0, 10, 20], "held_out": [0.0, 96.0, 100.0]},
        {"steps": [0, 10, 20], "held_out": [0.0, 94.0, 100.0]},
    ]
    assert rules.steps_to({"curves": curves}) == 15


def test_steps_to_a_negative_final_return_are_counted_too():
    curve = {"steps": [0, 10, 20, 30], "held_out": [-200.0, -106.0, -104.0, -100.0]}
    assert rules.steps_to({"curves": [curve]}) == 20


def test_the_tables_say_how_far_brpo_has_gone_and_what_it_cost():
    world = as_the_paper_has_it()
    assert "| **150.0 [149.0, 151.0]** | 200.0 | 50 % | unknown |" in report.headline(world)
    assert "one seed each | 72 s |" in report.cost(world)
    assert f"({len([e for e in PLAN.values() if e.learns])} of " in report.cost(world)


@pytest.fixture
def drawn(monkeypatch):
    """Pictures and films by name, with who plays in them, in the order in which they are asked for."""
    asked: dict[str, tuple[str, ...]] = {}
    fake = {
        name: pictures.Kind(lambda path, figure: asked.update({path.name: figure.targets}))
        for name in pictures.FIGURES
    }
    monkeypatch.setattr(pictures, "FIGURES", fake)
    monkeypatch.setattr(
        pictures, "film", lambda film: asked.update({film.out.name: (film.target,)}) or film.out
    )
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
    assert len(reproduce.played(task, reproduce.learned(task, task.last_policy))) == 2


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
