"""The command line: `seerax train maze4`, `seerax evaluate runs/maze4-brpo-seed0`, and so on."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Union

import tyro
from tyro.conf import Positional, UseAppendAction, arg, subcommand

from seerax.checkpoints import Schedule
from seerax.errors import UserError, one_line, unknown
from seerax.ppo.config import Config
from seerax.system import signals


@dataclass(frozen=True)
class Problems:
    """List the problems."""

    def run(self) -> None:
        from seerax import commands

        commands.list_problems(self)


@dataclass(frozen=True)
class Train:
    """Train an agent, then compare it with its experts on fresh episodes.

    The settings shown are those of the problem and agent named on the command line.
    """

    problem: Annotated[Positional[str], arg(metavar="PROBLEM")]
    """A name (see `seerax problems`), or MODULE:OBJECT for a problem of your own."""
    agent: str = "brpo"
    """brpo, brpo_without_belief, bpo or upmle."""
    seed: int = 0
    """The first seed."""
    seeds: int = 1
    """How many seeds to train side by side."""
    steps: Annotated[int | None, arg(metavar="N")] = None
    """Environment steps in all (instead of the setting below)."""
    out: Annotated[Path | None, arg(metavar="PATH")] = None
    """Folder of the run (default: runs/PROBLEM-AGENT-seedN)."""
    resume: bool = False
    """Go on with the run in that folder, exactly from its last checkpoint."""
    overwrite: bool = False
    """Replace the run in that folder."""
    save: Schedule = field(default_factory=Schedule)
    scale: float | tuple[float, ...] = 1.0
    """Of the network's raw output: one for all action dimensions, or one each."""
    blend: Annotated[float | None, arg(metavar="W")] = None
    """Instead of advice + scale * raw, act on (1 - w) * advice + w * raw."""
    bonus: float = 0.0
    """Epsilon of the information bonus while training."""
    bonus_form: Literal["belief_change", "information_gain", "potential"] = "belief_change"
    """belief_change: the paper's. information_gain: the loss of entropy, as in the authors' code. potential: shaping,
    which cannot change what is optimal."""
    devices: Annotated[int | None, arg(metavar="N")] = None
    """Share the worlds among so many cores or accelerators (default: all there are)."""
    distributed: bool = False
    """Train together with other processes, on this host or others, all with the same run folder. SLURM and Open MPI say
    who is who; else the next three do."""
    coordinator: Annotated[str | None, arg(metavar="HOST:PORT")] = None
    """Where process 0 is found by the others."""
    processes: Annotated[int | None, arg(metavar="N")] = None
    """How many processes train together."""
    process_id: Annotated[int | None, arg(metavar="I")] = None
    """Which of them this is, from 0."""
    ppo: Config = field(default_factory=Config)

    def run(self) -> None:
        from seerax import commands

        commands.train(self)


@dataclass(frozen=True)
class Sweep:
    """Train many: problems x agents x seeds x settings, each in a folder of its own, and one table at the end.

    The same command again skips what is finished and continues what was cut.
    """

    problems: Annotated[tuple[str, ...], arg(metavar="PROBLEM ...")]
    """Names, or MODULE:OBJECT for problems of your own."""
    out: Annotated[Path, arg(metavar="PATH")]
    """Folder of all the runs, of their logs and of summary.json and summary.md."""
    agents: Annotated[tuple[str, ...], arg(metavar="AGENT ...")] = ("brpo",)
    """brpo, brpo_without_belief, bpo or upmle."""
    seeds: int = 5
    """How many seeds of each."""
    seed: int = 0
    """The first seed."""
    settings: Annotated[
        tuple[str, ...], arg(name="set", metavar="NAME=VALUE,VALUE"), UseAppendAction
    ] = ()
    """Other settings than ours, each with its alternatives: --set ppo.steps=1e6,2e6 --set "scale=0.5 0.5 0.1,1"."""
    workers: Annotated[int | None, arg(metavar="N")] = None
    """Processes at work at the same time (default: one per accelerator, else one per core)."""
    cluster: Literal["slurm", "local"] | None = None
    """Hand the runs to SLURM through submitit; local does the same on this machine, all runs at once."""
    cluster_set: Annotated[tuple[str, ...], arg(metavar="KEY=VALUE"), UseAppendAction] = ()
    """What submitit tells the cluster: timeout_min=600, slurm_partition=gpu, gpus_per_node=1, ..."""

    def run(self) -> None:
        from seerax import sweep

        sweep.sweep(self)


@dataclass(frozen=True)
class Evaluate:
    """Play fresh episodes and tell how they went: mean return, interval, success, sensing, length."""

    target: Annotated[Positional[str], arg(metavar="RUN|PROBLEM")]
    """A run folder, a policy file, or a problem."""
    agent: Annotated[str | None, arg(metavar="NAME")] = None
    """With a problem: ensemble, clairvoyant, posterior_sampling, or a learned agent (the policy we ship)."""
    problem: Annotated[str | None, arg(metavar="MODULE:OBJECT")] = None
    """Of a run on a problem of your own: its code is only run if you name it."""
    episodes: int = 1000
    seed: int = 0
    json: bool = False
    """Print one JSON object on standard output and nothing else there."""
    devices: Annotated[int | None, arg(metavar="N")] = None
    """Share the episodes among so many cores or accelerators (default: all there are)."""

    def run(self) -> None:
        from seerax import commands

        commands.evaluate(self)


@dataclass(frozen=True)
class Check:
    """Check a problem of your own against the laws every problem must obey."""

    target: Annotated[Positional[str], arg(metavar="MODULE:OBJECT")]
    """A BeliefMDP, or a function without arguments that makes one; a problem's name works too."""

    def run(self) -> None:
        from seerax import commands

        commands.check(self)


@dataclass(frozen=True)
class Film:
    """Film an episode; with a learned agent, beside the ensemble playing the same one."""

    target: Annotated[Positional[str], arg(metavar="RUN|PROBLEM")]
    """A run folder, a policy file, or a problem."""
    agent: Annotated[str | None, arg(metavar="NAME")] = None
    """With a problem: who plays (default: ensemble)."""
    problem: Annotated[str | None, arg(metavar="MODULE:OBJECT")] = None
    """Of a run on a problem of your own: its code is only run if you name it."""
    seed: int = 0
    episode: int = 0
    """Which episode of that seed: the same one as in `seerax evaluate`."""
    out: Annotated[Path | None, arg(metavar="PATH")] = None
    """An .mp4 or .gif file (default: films/PROBLEM-AGENT.mp4, or film.mp4 in the run folder)."""

    def run(self) -> None:
        from seerax import commands

        commands.film(self)


@dataclass(frozen=True)
class Figure:
    """Draw a figure: benchmark, bonus, inputs, composition, sensing, keyframes, curve, setup or tree."""

    name: Annotated[Positional[str], arg(metavar="NAME")]
    """Of the paper's results: benchmark (training curves), bonus, inputs, composition (ablations). Of episodes: sensing
    (where an agent senses), keyframes. curve: training curves of runs. setup: the problems. tree: Bayes-optimal against
    posterior sampling."""
    targets: Annotated[Positional[tuple[str, ...]], arg(metavar="[RUN|PROBLEM ...]")] = ()
    """Run folders of one problem for `curve`; run folders or problems for `sensing` and `keyframes` (default: those
    problems of the paper that a trained policy comes with)."""
    agent: Annotated[str | None, arg(metavar="NAME")] = None
    """For `sensing` and `keyframes`: who plays (default: ensemble on a problem you name, brpo if you name none)."""
    episode: int = 0
    """For `keyframes`: the same one as in `seerax film`."""
    results: Annotated[Path, arg(metavar="PATH")] = Path("results/paper")
    """Folder of the paper's results."""
    out: Annotated[Path | None, arg(metavar="PATH")] = None
    """The picture (default: figures/NAME.png)."""

    def run(self) -> None:
        from seerax import commands

        commands.figure(self)


@dataclass(frozen=True)
class Bench:
    """Measure how fast it is, beside others and in one run; use an idle machine. Writes results and pages."""

    only: Annotated[tuple[str, ...], arg(metavar="SECTION ...")] = ()
    """Of training, peers, devices, simulation, decisions, start and growth (default: all). The others are kept."""
    out: Annotated[Path, arg(metavar="PATH")] = Path("results/bench.json")
    """Raw numbers."""
    docs: Annotated[Path, arg(metavar="PATH")] = Path("docs")
    """Folder of performance.md, its picture and scaling.md."""

    def run(self) -> None:
        from seerax import commands

        commands.bench(self)


@dataclass(frozen=True)
class Reproduce:
    """Run the paper's experiments, and write what came out beside what the paper claims.

    The same command again goes on where it was cut; what is finished is only drawn.
    """

    only: Annotated[tuple[str, ...], arg(metavar="NAME ...")] = ()
    """Entries like maze4-brpo, or the groups headline, small, bonus, inputs, sensing, depth and composition (default:
    all)."""
    seeds: Annotated[int | None, arg(metavar="K")] = None
    """How many seeds of each learned agent (default: 5, on Door4 10 and for its baselines 20, or 2 if quick)."""
    budget: Literal["quick", "full"] = "full"
    """quick: a sixth of the training, kept apart in results/paper-quick. full: our settings, in results/paper."""
    redo: bool = False
    """Train anew what was made with other settings than the present ones; without this it is kept and told."""

    def run(self) -> None:
        from seerax.paper import reproduce

        reproduce.reproduce(self)


@dataclass(frozen=True)
class Replay:
    """Play the iteration again in which a run met numbers that are not finite, and tell where they came from."""

    fault: Annotated[Positional[Path], arg(metavar="FILE")]
    """What the run left in its folder under faults/."""
    problem: Annotated[str | None, arg(metavar="MODULE:OBJECT")] = None
    """Of a run on a problem of your own: its code is only run if you name it."""

    def run(self) -> None:
        from seerax import commands

        commands.replay(self)


COMMANDS = {
    "problems": Problems,
    "train": Train,
    "sweep": Sweep,
    "evaluate": Evaluate,
    "check": Check,
    "film": Film,
    "figure": Figure,
    "reproduce": Reproduce,
    "bench": Bench,
    "replay": Replay,
}


def suggested(arguments: list[str]) -> Train:
    """Our settings for the problem and agent on the command line, as defaults for the rest of it."""
    from seerax.experiments import settings
    from seerax.problems import PROBLEMS

    problem = next((a for a in arguments if a in PROBLEMS), "")
    agents = [after for flag, after in pairwise(arguments) if flag == "--agent"]
    agents += [a.removeprefix("--agent=") for a in arguments if a.startswith("--agent=")]
    ours = settings(problem, agents[-1] if agents else "brpo")
    required = tyro.MISSING
    same: dict[str, Any] = {
        name: getattr(ours, name) for name in ("scale", "blend", "bonus", "bonus_form", "ppo")
    }
    return Train(required, **same)


def command_line(arguments: list[str]) -> Any:
    """Parse; `train` shows and starts from the settings of the problem and agent that are named."""
    if arguments and not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
        raise unknown("command", arguments[0], COMMANDS)
    defaults = (
        {"train": {"default": suggested(arguments[1:])}} if arguments[:1] == ["train"] else {}
    )
    options: list[Any] = [
        Annotated[command, subcommand(name, **defaults.get(name, {}))]  # type: ignore[call-overload, valid-type]
        for name, command in COMMANDS.items()
    ]
    parser: Any = Union[*options]
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(
                parser, prog="seerax", args=arguments, config=(tyro.conf.FlagCreatePairsOff,)
            )
    except SystemExit as ended:
        if ended.code:
            raise UserError(in_short(complaint.getvalue(), arguments)) from ended
        raise


def in_short(boxed: str, arguments: list[str]) -> str:
    """What the parser explains in a box, as one sentence: what is wrong, what may have been meant, where to read on."""
    plain = re.sub("[│|╭╮╰╯]", " ", boxed)
    _, wrong, *rest = [one_line(part) for part in re.split("[─-]{4,}", plain) if part.strip()] + [
        ""
    ]
    meant = re.findall(
        r"--\w[\w.-]*", "".join(part for part in rest if "Perhaps you meant" in part)
    )
    hint = f" Did you mean {meant[0]}?" if meant else ""
    command = f"{arguments[0]} " if arguments and arguments[0] in COMMANDS else ""
    return f"{wrong.rstrip('.')}.{hint} See seerax {command}--help"


def main() -> None:
    """Mistakes are told in one sentence, with exit code 2; a signal ends with 128 and its number: Ctrl-C with 130."""
    try:
        with signals.stop_at_once():
            command_line(sys.argv[1:]).run()
    except UserError as mistake:
        print(f"seerax: {one_line(mistake)}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        os._exit(0)
    except signals.Stopped as stopped:
        sys.exit(stopped.exit_code)
