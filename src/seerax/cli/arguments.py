"""The arguments of every command, as dataclasses that tyro turns into a command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Union

import tyro
from tyro.conf import Positional, UseAppendAction, arg, subcommand

from seerax.cli.parser import parse_words
from seerax.errors import UserError, unknown
from seerax.ppo.config import Config
from seerax.runs.schedule import Schedule

Bonus = Literal["belief_change", "information_gain", "potential"]


def optional(metavar: str) -> Any:
    """Describes an option whose help says itself what happens without it."""
    return arg(metavar=metavar, help_behavior_hint="")


@dataclass(frozen=True)
class Problems:
    """List the problems."""


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
    steps: Annotated[int | None, optional("N")] = None
    """Environment steps in all, such as 5e6; short for --ppo.steps."""
    out: Annotated[Path | None, optional("PATH")] = None
    """Folder of the run (default: runs/PROBLEM-AGENT-seedN)."""
    resume: bool = False
    """Continue the run in that folder from its last checkpoint, with its own settings."""
    overwrite: bool = False
    """Replace the run in that folder."""
    save: Schedule = field(default_factory=Schedule)
    scale: float | tuple[float, ...] = 1.0
    """Factor of the network's raw output: one for all action dimensions, or one for each."""
    blend: Annotated[float | None, optional("W")] = None
    """Instead of advice + scale * raw, act on (1 - w) * advice + w * raw."""
    bonus: float = 0.0
    """Epsilon of the information bonus while training."""
    bonus_form: Annotated[
        Bonus,
        arg(
            help="belief_change: the paper's. information_gain: the loss of entropy, as in the "
            "authors' code. potential: shaping, which cannot change what is optimal."
        ),
    ] = "belief_change"
    devices: Annotated[int | None, optional("N")] = None
    """Shard the worlds over this many cores or accelerators (default: all)."""
    distributed: Annotated[
        bool,
        arg(
            help="Train together with other processes, on this host or others, all with the same "
            "run folder. SLURM and Open MPI say which process is which; elsewhere the next three "
            "options do."
        ),
    ] = False
    coordinator: Annotated[str | None, optional("HOST:PORT")] = None
    """Where the others find process 0."""
    processes: Annotated[int | None, optional("N")] = None
    """How many processes train together."""
    process_id: Annotated[int | None, optional("I")] = None
    """Which of them this is, counted from 0."""
    ppo: Config = field(default_factory=Config)


@dataclass(frozen=True)
class Sweep:
    """Train problems x agents x settings x seeds, each in its own folder, and write one table.

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
        tuple[str, ...],
        arg(
            name="set",
            metavar="NAME=VALUE,VALUE",
            help="Settings instead of ours, named as for train and each with its alternatives: "
            '--set ppo.steps=1e6,2e6 --set "scale=0.5 0.5 0.1,1".',
        ),
        UseAppendAction,
    ] = ()
    workers: Annotated[int | None, optional("N")] = None
    """How many processes work at the same time (default: one per accelerator, else per core)."""
    cluster: Literal["slurm", "local"] | None = None
    """Hand the runs to SLURM through submitit; local does the same here, all runs at once."""
    cluster_set: Annotated[tuple[str, ...], arg(metavar="KEY=VALUE"), UseAppendAction] = ()
    """Options for submitit: timeout_min=600, slurm_partition=gpu, gpus_per_node=1, ..."""


@dataclass(frozen=True)
class Evaluate:
    """Play fresh episodes and report mean return, interval, success, sensing and length."""

    target: Annotated[Positional[str], arg(metavar="RUN|PROBLEM")]
    """A run folder, a policy file, or a problem."""
    agent: Annotated[str | None, optional("NAME")] = None
    """With a problem: ensemble, clairvoyant, posterior_sampling, or an agent that seerax ships."""
    problem: Annotated[str | None, optional("MODULE:OBJECT")] = None
    """The problem of the run, if it is your own: its code is run only if you name it."""
    episodes: int = 1000
    """How many episodes; the seeds of a run share them, each playing its own."""
    seed: int = 0
    """The first seed of the episodes."""
    json: bool = False
    """Print one JSON object on standard output and nothing else there."""
    devices: Annotated[int | None, optional("N")] = None
    """Shard the episodes over this many cores or accelerators (default: all)."""


@dataclass(frozen=True)
class Check:
    """Check a problem of your own against the laws that every problem must obey."""

    target: Annotated[Positional[str], arg(metavar="MODULE:OBJECT")]
    """A BeliefMDP, or a function without arguments that returns one; a problem's name works too."""


@dataclass(frozen=True)
class Film:
    """Film an episode; a learned agent is shown beside the ensemble playing the same one."""

    target: Annotated[Positional[str], arg(metavar="RUN|PROBLEM")]
    """A run folder, a policy file, or a problem."""
    agent: Annotated[str | None, optional("NAME")] = None
    """With a problem: who plays (default: ensemble)."""
    problem: Annotated[str | None, optional("MODULE:OBJECT")] = None
    """The problem of the run, if it is your own: its code is run only if you name it."""
    seed: int = 0
    """The seed of the episodes."""
    episode: int = 0
    """Which episode of that seed: the same one as in `seerax evaluate`."""
    out: Annotated[Path | None, optional("PATH")] = None
    """An .mp4 or .gif file (default: films/PROBLEM-AGENT.mp4, or film.mp4 in the run folder)."""


@dataclass(frozen=True)
class Figure:
    """Draw a figure of the paper's results, of runs, of episodes or of the problems."""

    name: Annotated[
        Positional[str],
        arg(
            metavar="NAME",
            help="Of the paper's results: benchmark (training curves), bonus, inputs, composition "
            "(ablations). Of episodes: sensing (where an agent senses), keyframes. "
            "curve: training curves of runs. setup: the problems. tree: Bayes-optimal against "
            "posterior sampling.",
        ),
    ]
    targets: Annotated[
        Positional[tuple[str, ...]],
        arg(
            metavar="[RUN|PROBLEM ...]",
            help_behavior_hint="",
            help="Run folders of one problem for `curve`; run folders or problems for `sensing` "
            "and `keyframes` (default: the problems of the paper for which seerax ships a policy).",
        ),
    ] = ()
    agent: Annotated[
        str | None,
        arg(
            metavar="NAME",
            help_behavior_hint="",
            help="For `sensing` and `keyframes`: who plays (default: ensemble on a problem you "
            "name, brpo if you name none).",
        ),
    ] = None
    episode: int = 0
    """For `keyframes`: the same episode as in `seerax film`."""
    results: Annotated[Path, arg(metavar="PATH")] = Path("results/paper")
    """Folder of the paper's results."""
    out: Annotated[Path | None, optional("PATH")] = None
    """The picture (default: figures/NAME.png)."""


@dataclass(frozen=True)
class Bench:
    """Measure the speed beside other libraries and within one run, on an idle machine.

    Writes the numbers and the pages that show them.
    """

    only: Annotated[
        tuple[str, ...],
        arg(
            metavar="SECTION ...",
            help_behavior_hint="",
            help="Sections to measure: training, peers, devices, simulation, decisions, start and "
            "growth (default: all). The others are kept.",
        ),
    ] = ()
    out: Annotated[Path, arg(metavar="PATH")] = Path("results/bench.json")
    """Raw numbers."""
    docs: Annotated[Path, arg(metavar="PATH")] = Path("docs")
    """Folder of performance.md, its picture and scaling.md."""


@dataclass(frozen=True)
class Reproduce:
    """Run the paper's experiments, and write the results beside what the paper claims.

    The same command again continues where it was cut; what is finished is only drawn.
    """

    only: Annotated[
        tuple[str, ...],
        arg(
            metavar="NAME ...",
            help_behavior_hint="",
            help="Entries like maze4-brpo, or the groups headline, small, bonus, inputs, sensing, "
            "depth and composition (default: all).",
        ),
    ] = ()
    seeds: Annotated[
        int | None,
        arg(
            metavar="K",
            help_behavior_hint="",
            help="How many seeds of each learned agent (default: 5, on Door4 10 and for its "
            "baselines 20, or 2 if quick).",
        ),
    ] = None
    budget: Literal["quick", "full"] = "full"
    """quick: a sixth of the training, kept apart in results/paper-quick. full: our settings."""
    redo: bool = False
    """Train again what was made with other settings; without this it is kept and named."""


@dataclass(frozen=True)
class Replay:
    """Repeat the iteration in which a run met non-finite numbers, and find their source."""

    fault: Annotated[Positional[Path], arg(metavar="FILE")]
    """A file that the run left in its folder under faults/."""
    problem: Annotated[str | None, optional("MODULE:OBJECT")] = None
    """The problem of the run, if it is your own: its code is run only if you name it."""


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
SETTINGS = ("scale", "blend", "bonus", "bonus_form", "ppo")  # of an experiment


def parse(arguments: list[str]) -> Any:
    """Parses a command line.

    `train` is parsed twice: once to find its problem and agent, whose settings are then the
    defaults of the second time.
    """
    if arguments and not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
        raise unknown("command", arguments[0], COMMANDS)
    if arguments[:1] != ["train"]:
        return _parse(arguments)
    asked = [word for word in arguments if word not in ("-h", "--help")]
    try:
        first = _parse(asked)
    except UserError:
        if asked == arguments:
            raise
        return _parse(arguments)
    return _parse(arguments, _suggested(first))


def _suggested(command: Train) -> Train:
    """Returns our settings for a problem and agent, as defaults of the command line."""
    from seerax.settings import settings  # JAX takes a second to import

    ours = settings(command.problem, command.agent)
    same: dict[str, Any] = {name: getattr(ours, name) for name in SETTINGS}
    return Train(tyro.MISSING, **same)


def _parse(arguments: list[str], train: Train | None = None) -> Any:
    """Parses a command line; `train` holds the defaults of the command of that name."""
    defaults = {"train": {"default": train}} if train else {}
    options: list[Any] = [
        Annotated[command, subcommand(name, **defaults.get(name, {}))]  # type: ignore[call-overload, valid-type]
        for name, command in COMMANDS.items()
    ]
    try:
        return parse_words(Union[*options], arguments)
    except UserError as error:
        command = f"{arguments[0]} " if arguments and arguments[0] in COMMANDS else ""
        raise UserError(f"{error} See seerax {command}--help") from error


def given(arguments: list[str]) -> set[str]:
    """Returns the names of the options on a command line, such as ppo.learning_rate."""
    words = [word.partition("=")[0] for word in arguments if word.startswith("--")]
    return {word[2:].replace("-", "_") for word in words}


# ---- settings of a sweep -----------------------------------------------------------------------


def read_setting(spec: str, like: Any) -> tuple[str, list[tuple[str, Any]]]:
    """Reads `NAME=VALUE,VALUE` as (name, [(text, value), ...]), with values as in `train`.

    `like` is an experiment, whose fields say what can be set and of which type it is.
    """
    name, equals, values = spec.partition("=")
    if not equals or not values:
        raise UserError(f"{spec} should read NAME=VALUE or NAME=VALUE,VALUE,...", "settings")
    name = name.strip().replace("-", "_")
    kinds = setting_types(like)
    if name not in kinds:
        raise unknown("setting", name, kinds)
    texts = dict.fromkeys(value.strip() for value in values.split(","))
    return name, [(text, read_value(name, kinds[name], text)) for text in texts]


def setting_types(like: Any) -> dict[str, Any]:
    """Returns what can be set in an experiment, with its type."""
    from typing import get_type_hints

    outer = get_type_hints(type(like))
    inner = {f"ppo.{name}": kind for name, kind in get_type_hints(Config).items()}
    return {name: outer[name] for name in SETTINGS if name != "ppo"} | inner


def read_value(name: str, kind: Any, text: str) -> Any:
    """Reads one value of a setting as `train` would; a tuple is written with spaces."""
    try:
        return parse_words(kind, text.split() or [""], default=tyro.MISSING)
    except UserError as error:
        raise UserError(f"{name}={text}: '{text}' is not a value for it.", "settings") from error
