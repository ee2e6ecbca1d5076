"""What each command does; the longer ones have a file of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from rich.markup import escape
from rich.table import Table

from seerax import experiments, problems, rollout, runs
from seerax.cli import arguments as args
from seerax.cli.bars import episode_bar, steps_bar
from seerax.cli.draw import FIGURES as FIGURES
from seerax.cli.draw import figure, film
from seerax.cli.reproduce import reproduce_paper
from seerax.cli.sweep import sweep
from seerax.cli.tables import err, out, results_table
from seerax.cli.train import train
from seerax.compute import devices
from seerax.errors import UserError, writing
from seerax.keys import evaluation_key
from seerax.paper.reference import ORIGINALS
from seerax.players import Player, find_players
from seerax.rollout import Evaluation
from seerax.runs import nonfinite, training
from seerax.system import files


def run(command: Any, words: list[str]) -> None:
    """Carries out a command; `words` is the command line it was parsed from."""
    if isinstance(command, args.Train):
        train(command, args.given(words))
    else:
        COMMANDS[type(command)](command)


def list_problems(command: args.Problems) -> None:
    """Prints a table of the problems."""
    table = Table("problem", "what it is", "horizon", "actions", box=None, pad_edge=False)
    for name, entry in problems.PROBLEMS.items():
        mdp = problems.make(name)
        table.add_row(name, entry.about, str(mdp.problem.horizon), str(mdp.action_size))
    out.print(table)


# ---- evaluate ----------------------------------------------------------------------------------


def evaluate(command: args.Evaluate) -> None:
    """Plays fresh episodes, and prints a table or one JSON object."""
    devices.prepare(command.devices)
    devices.require(command.devices)
    if command.episodes < 1:
        raise UserError(
            f"The number of episodes must be at least 1, not {command.episodes}.", "episodes"
        )
    found = find_players(command.target, command.agent, command.problem)
    with episode_bar(err, command.episodes) as advance:
        result = evaluate_players(found.players, command.seed, command.episodes, advance)
    about = {
        "problem": found.problem,
        "agent": found.agent,
        "episodes": int(result.returns.size),
        "seed": command.seed,
    }
    if command.json:
        print(json.dumps({**about, **result.summary()}))
        return
    title = f"{found.problem}, {result.returns.size} episodes"
    out.print(results_table(title, {found.agent: result}))
    if found.agent == "ensemble" and found.problem in ORIGINALS:
        out.print(f"original: {ORIGINALS[found.problem]}", soft_wrap=True)


def evaluate_players(
    players: list[Player],
    seed: int,
    episodes: int,
    advance: Callable[[int], None] = training.ignore,
) -> Evaluation:
    """Shares the episodes evenly between the seeds of a learner; each seed plays its own."""
    each = -(-episodes // len(players))
    parts = [
        rollout.evaluate(evaluation_key(seed + i), mdp, policy, each, advance)
        for i, (mdp, policy) in enumerate(players)
    ]
    return rollout.pool_seeds(parts)


# ---- check and replay --------------------------------------------------------------------------


def check(command: args.Check) -> None:
    """Prints what every law found; a broken one is a mistake."""
    from seerax import laws

    devices.prepare()
    findings = laws.check(experiments.find_problem(command.target))
    for finding in findings:
        mark = "[green]holds [/green]" if finding.ok else "[red]BROKEN[/red]"
        out.print(f"{mark}  [bold]{finding.law}[/bold]  {escape(finding.says)}")
    broken = sum(not finding.ok for finding in findings)
    if broken:
        raise UserError(f"{command.target} breaks {broken} of {len(findings)} laws.")


def replay(command: args.Replay) -> None:
    """Prints where the numbers that are not finite came from."""
    devices.prepare()
    trainer, fault = training.load_fault(command.fault, command.problem)
    lines = nonfinite.described(nonfinite.examine(trainer, fault.train_state))
    for line in lines or ["All is finite now: the fault is gone."]:
        out.print(escape(line), soft_wrap=True)


# ---- bench -------------------------------------------------------------------------------------


def bench(command: args.Bench) -> None:
    """Measures section by section, and saves each as soon as it is measured."""
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


COMMANDS: dict[type, Callable[[Any], None]] = {
    args.Problems: list_problems,
    args.Sweep: sweep,
    args.Evaluate: evaluate,
    args.Check: check,
    args.Film: film,
    args.Figure: figure,
    args.Reproduce: reproduce_paper,
    args.Bench: bench,
    args.Replay: replay,
}
