"""What each command does. Results go to standard output, all else to standard error."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from seerax import experiments, faults, figures, problems, rollout, runs
from seerax.advice import Clairvoyant, follow_advice, posterior_sampling
from seerax.agents import AGENTS
from seerax.checkpoints import Schedule
from seerax.compute import devices, distributed
from seerax.core import BeliefMDP, Policy
from seerax.errors import UserError, unknown, writing
from seerax.experiments import Experiment
from seerax.paper.reference import ORIGINALS
from seerax.ppo import Progress
from seerax.progress import TrainingBar, episode_bar, steps_bar
from seerax.rollout import Evaluation
from seerax.system import files
from seerax.system.signals import Stopped

if TYPE_CHECKING:
    from seerax import cli

BASELINES = ("ensemble", "clairvoyant", "posterior_sampling")  # nothing to learn
FRESH_EPISODES = 1000
err = Console(stderr=True, highlight=False)
out = Console(highlight=False)


def list_problems(command: cli.Problems) -> None:
    table = Table("problem", "what it is", "horizon", "actions", box=None, pad_edge=False)
    for name, about in problems.ABOUT.items():
        mdp = problems.make(name)
        table.add_row(name, about, str(mdp.problem.horizon), str(mdp.action_size))
    out.print(table)


# ---- train -------------------------------------------------------------------------------------------------------


def train(command: cli.Train) -> None:
    meeting = _asked_meeting(command)
    devices.prepare(command.devices, alone=meeting is None)
    run = _asked_run(command)
    try:
        with distributed.together(meeting):
            devices.require(command.devices)
            progress = _train(run, command)
        if distributed.is_main():
            conclude(run, progress.best)
    except distributed.PeerLost as loss:
        say(f"seerax: Another process of this run was lost ({loss}). {how_to_go_on(run)}")
        distributed.abandon(1)
    except Stopped:
        if distributed.is_main():
            say(f"Stopped. {how_to_go_on(run)}")
        raise


def _train(run: runs.Run, command: cli.Train) -> Progress:
    """Mistakes are told before anything is written."""
    trainer = run.experiment.trainer()
    if command.devices and trainer.mesh.size % command.devices:
        raise UserError(
            f"{command.devices} devices cannot share {trainer.config.worlds} worlds evenly."
        )
    trainer.held_out_keys()
    return train_shown(run, command.resume, command.overwrite, command.save)


def train_shown(
    run: runs.Run, resume: bool = False, overwrite: bool = False, schedule: Schedule | None = None
) -> Progress:
    """With a bar, in the process that speaks for all."""
    with TrainingBar(err if distributed.is_main() else Console(quiet=True), run) as bar:
        tell = say if distributed.is_main() else lambda message: None
        return runs.train(run, bar.show, resume, overwrite, schedule or Schedule(), tell)


def how_to_go_on(run: runs.Run) -> str:
    asked = (
        "seerax",
        "train",
        run.experiment.problem,
        "--agent",
        run.experiment.agent,
        "--out",
        run.folder.path,
    )
    others = " --distributed ..." if jax.process_count() > 1 else ""
    return f"Go on with: {shlex.join(map(str, asked))} --resume{others}"


def say(message: str) -> None:
    err.print(escape(message), soft_wrap=True)


def _asked_meeting(command: cli.Train) -> distributed.Meeting | None:
    meeting = distributed.Meeting(command.coordinator, command.processes, command.process_id)
    if not command.distributed and meeting != distributed.Meeting():
        raise UserError("--coordinator, --processes and --process-id need --distributed.")
    meeting.check()
    return meeting if command.distributed else None


def _asked_run(command: cli.Train) -> runs.Run:
    runs.checked_seed(command.seed, command.seeds)
    if command.resume and command.overwrite:
        raise UserError("--resume and --overwrite exclude each other.")
    folder = (
        command.out
        or Path("runs") / f"{command.problem.replace(':', '-')}-{command.agent}-seed{command.seed}"
    )
    if command.resume:
        run = runs.reopen(folder, command.steps)
        if (run.experiment.problem, run.experiment.agent) != (command.problem, command.agent):
            raise UserError(
                f"{folder} holds {run.experiment.agent} on {run.experiment.problem}, not what was asked for."
            )
        return run
    ppo = command.ppo if command.steps is None else replace(command.ppo, steps=command.steps)
    asked = Experiment(
        command.problem,
        command.agent,
        command.scale,
        command.blend,
        command.bonus,
        command.bonus_form,
        ppo,
    )
    return runs.Run(asked, command.seed, command.seeds, runs.RunFolder(folder))


def conclude(run: runs.Run, best: Any) -> None:
    """Fresh episodes for everybody, a table, the curve."""
    trainer = run.experiment.trainer()
    mdp = trainer.mdp
    key = runs.evaluation_key(run.seed)
    many_params = [jax.tree.map(lambda leaf, i=i: leaf[i], best) for i in range(run.seeds)]
    rows = {"ensemble": rollout.evaluate(key, mdp, follow_advice, FRESH_EPISODES)}
    for i, params in enumerate(many_params):
        name = (
            run.experiment.agent
            if run.seeds == 1
            else f"{run.experiment.agent}, seed {run.seed + i}"
        )
        rows[name] = rollout.evaluate(key, mdp, trainer.policy(params), FRESH_EPISODES)
    if mdp.expert is not None:
        rows["clairvoyant"] = rollout.evaluate(key, mdp, Clairvoyant(mdp.expert), FRESH_EPISODES)
    files.write_json(run.folder.evaluation, {name: row.summary() for name, row in rows.items()})
    out.print(results_table(f"{run.experiment.problem}, {FRESH_EPISODES} fresh episodes", rows))
    clairvoyant = rows["clairvoyant"].mean if "clairvoyant" in rows else None
    picture = run.folder.path / "curve.png"
    figures.curve(
        picture, {run.experiment.agent: run.folder.curves()}, rows["ensemble"].mean, clairvoyant
    )
    out.print(f"Run folder: {run.folder.path}  (curve.png, metrics.jsonl, policies)")


def results_table(title: str, rows: dict[str, Evaluation]) -> Table:
    table = Table(
        "agent",
        "mean return",
        "95 % interval",
        "success",
        "sensing",
        "length",
        title=title,
        title_justify="left",
    )
    for name, evaluation in rows.items():
        s = evaluation.summary()
        low, high = s["ci95"]
        measured = (share(s["success"]), share(s["sensing"]), f"{s['length']:.1f}")
        table.add_row(name, f"{s['mean']:.2f}", f"[{low:.2f}, {high:.2f}]", *measured)
    return table


def share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


# ---- evaluate ----------------------------------------------------------------------------------------------------


def evaluate(command: cli.Evaluate) -> None:
    devices.prepare(command.devices)
    devices.require(command.devices)
    if command.episodes < 1:
        raise UserError(f"--episodes must be at least 1, not {command.episodes}.")
    problem, agent, contestants = find_players(command.target, command.agent, command.problem)
    each = -(-command.episodes // len(contestants))
    key = runs.evaluation_key(command.seed)
    with episode_bar(err, each * len(contestants)) as advance:
        played = [rollout.evaluate(key, mdp, policy, each, advance) for mdp, policy in contestants]
    result = rollout.pool_seeds(played)
    about = {
        "problem": problem,
        "agent": agent,
        "episodes": int(result.returns.size),
        "seed": command.seed,
    }
    if command.json:
        print(json.dumps({**about, **result.summary()}))
    else:
        out.print(results_table(f"{problem}, {result.returns.size} episodes", {agent: result}))
        if agent == "ensemble" and problem in ORIGINALS:
            out.print(f"original: {ORIGINALS[problem]}", soft_wrap=True)


def find_players(
    target: str, agent: str | None, problem: str | None = None
) -> tuple[str, str, list[tuple[BeliefMDP, Policy | Clairvoyant]]]:
    """(problem, agent, who plays): a run folder has one player per seed."""
    path = Path(target)
    if path.is_dir() or path.suffix == ".safetensors":
        return _learned_players(path, agent, problem)
    agent = agent or "ensemble"
    if agent in BASELINES:
        mdp = experiments.find_problem(target)
        return target, agent, [baseline(mdp, agent)]
    if agent not in AGENTS:
        raise unknown("agent", agent, [*BASELINES, *AGENTS])
    if target not in problems.PROBLEMS:
        raise unknown("problem or run folder", target, problems.PROBLEMS)
    _, _, players = _learned_players(runs.shipped_policy(target, agent), None)
    return target, agent, players


def _learned_players(
    path: Path, agent: str | None, problem: str | None = None
) -> tuple[str, str, list[tuple[BeliefMDP, Policy | Clairvoyant]]]:
    files = runs.RunFolder(path).policies() if path.is_dir() else [path]
    if not files:
        raise UserError(f"{path} holds no trained policy.")
    loaded = [runs.load_policy(file, problem) for file in files]
    experiment = loaded[0][0]
    if agent in BASELINES:
        return experiment.problem, str(agent), [baseline(loaded[0][1].mdp, str(agent))]
    if agent not in (None, experiment.agent):
        raise UserError(f"{path} holds a policy of {experiment.agent}, not of {agent}.")
    return experiment.problem, experiment.agent, [(policy.mdp, policy) for _, policy in loaded]


def baseline(mdp: BeliefMDP, name: str) -> tuple[BeliefMDP, Policy | Clairvoyant]:
    if name == "ensemble":
        return mdp, follow_advice
    if mdp.expert is None:
        raise UserError(f"{name} needs an expert, and this problem names none.")
    if name == "clairvoyant":
        return mdp, Clairvoyant(mdp.expert)
    return mdp.with_advisor(
        posterior_sampling(mdp.filter, mdp.expert, per="episode")
    ), follow_advice


# ---- check -------------------------------------------------------------------------------------------------------


def check(command: cli.Check) -> None:
    from seerax import laws

    devices.prepare()
    findings = laws.check(experiments.find_problem(command.target))
    for finding in findings:
        mark = "[green]holds [/green]" if finding.ok else "[red]BROKEN[/red]"
        out.print(f"{mark}  [bold]{finding.law}[/bold]  {escape(finding.says)}")
    broken = sum(not finding.ok for finding in findings)
    if broken:
        raise UserError(f"{command.target} breaks {broken} of {len(findings)} laws.")


# ---- replay ------------------------------------------------------------------------------------------------------


def replay(command: cli.Replay) -> None:
    devices.prepare()
    ppo, fault = runs.load_fault(command.fault, command.problem)
    lines = faults.told(faults.examine(ppo, fault.train_state))
    for line in lines or ["All is finite now: the fault is gone."]:
        out.print(escape(line), soft_wrap=True)


# ---- pictures ----------------------------------------------------------------------------------------------------


def film(command: cli.Film) -> None:
    from seerax import pictures

    devices.prepare()
    out.print(f"{pictures.film(command)}")


def figure(command: cli.Figure) -> None:
    from seerax import pictures

    devices.prepare()
    if command.name not in pictures.FIGURES:
        raise unknown("figure", command.name, pictures.FIGURES)
    pictures.refuse_unused(command)
    path = command.out or Path("figures") / f"{command.name}.png"
    figures.check(path, "picture")
    pictures.FIGURES[command.name].draw(path, command)
    out.print(f"{path}")


# ---- bench -------------------------------------------------------------------------------------------------------


def bench(command: cli.Bench) -> None:
    """Every section is kept as soon as it is measured."""
    from seerax.bench import report, sections

    asked = sections.chosen(command.only)
    files.prepare_parent(command.out)
    results = files.read_json(command.out) if command.only and command.out.exists() else {}
    files.prepare_parent(command.docs / "performance.md")
    results |= {"machine": sections.machine(), "versions": runs.versions()}
    with steps_bar(err, sum(section.steps for section in asked.values())) as tell:
        for name, section in asked.items():
            results[name] = section.measure(tell)
            with writing(command.out):
                files.write_json(command.out, results)
    with writing(command.docs):
        written = report.write(results, command.docs)
    table = Table("what", "measured", "wanted", "", box=None, pad_edge=False)
    for row in report.goals(results):
        table.add_row(*report.ratio_row(row))
    out.print(table)
    out.print("\n".join(map(str, [command.out, *written])))
