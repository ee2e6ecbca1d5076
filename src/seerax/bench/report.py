"""The report of the bench, in words and one picture: ratios first, then what they consist of."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from seerax import figures
from seerax.bench import cost_model
from seerax.problems import PAPER
from seerax.settings import settings
from seerax.system import files, markdown

# Steps per CPU second of the authors' code: environment, filter and ensemble, the best of several
# runs.
ORIGINAL = {
    "crowdnav": 1450,
    "cartpole": 128,
    "armshelf": 170,
    "maze4": 1180,
    "maze10": 311,
    "door4": 403,
}
REJAX, SB3 = "rejax on Pendulum", "Stable-Baselines3 on Maze4"
QUICK = (
    "maze4",
    "maze10",
    "door4",
    "cartpole",
)  # the problems whose experts only look up their plan
BETWEEN_CORES = 10e9  # bytes per second; assumed, and too fast to matter beside the latency
Row = tuple[str, float | None, str, bool | None]  # what, measured, wanted, reached


def goals(results: dict[str, Any]) -> Iterator[Row]:
    """Yields what was measured beside what was wanted, for the sections and peers there are."""
    training = results.get("training", {})
    found = results.get("simulation", {})
    rejax, sb3 = (
        results.get("peers", {}).get(name, {}).get("steps_per_second") for name in (REJAX, SB3)
    )
    if training and rejax:
        yield at_least(
            "Maze4 training / rejax's PPO on Pendulum", training["maze4"]["training"] / rejax, 1.5
        )
        for name in PAPER:
            wanted = 0.8 if name in QUICK else 0.3
            yield at_least(
                f"{name} training / rejax's PPO on Pendulum",
                training[name]["training"] / rejax,
                wanted,
            )
    if training and sb3:
        yield at_least(
            "Maze4 training / Stable-Baselines3 on the same Maze4",
            training["maze4"]["training"] / sb3,
            50,
        )
    for name in PAPER if training else ():
        yield at_least(
            f"{name} training / network only",
            training[name]["ratio"],
            0.8 if name in QUICK else 0.5,
        )
    ratios = {name: found[name]["one_core"] / ORIGINAL[name] for name in PAPER if found}
    for name, ratio in ratios.items():
        yield at_least(f"{name} simulation per core / the authors' code", ratio, 300)
    if ratios:
        yield at_least(
            "problems simulated 1000 x as fast", sum(ratio >= 1000 for ratio in ratios.values()), 3
        )
    yield from absolute(results)


def absolute(results: dict[str, Any]) -> Iterator[Row]:
    """Yields the goals that are not ratios to other people's code."""
    if here := results.get("devices"):
        yield at_least(
            "two devices / one",
            here["all"]["steps_per_second"] / here["one"]["steps_per_second"],
            1.6,
        )
        maze10 = here["maze10"]
        yield at_most(
            f"Maze10 training, {maze10['worlds']} worlds: peak memory, GB",
            maze10["peak_memory"] / 1e9,
            1.5,
        )
    for name, taken in results.get("decisions", {}).items():
        yield at_most(
            f"{name}: one decision, median microseconds",
            taken["p50"],
            500 if name == "crowdnav" else 100,
        )
    for name, taken in results.get("start", {}).items():
        yield at_most(f"{name}: first iteration, cold, seconds", taken["cold"], 15)
        yield at_most(f"{name}: first iteration, compiled before, seconds", taken["warm"], 4)
    if training := results.get("training"):
        again = sum(each["compiled_again"] for each in training.values())
        yield at_most("programs compiled after the first iteration, all problems", again, 0)


def at_least(what: str, measured: float, wanted: float) -> Row:
    """Returns the row of a goal that is reached from below."""
    return what, measured, f">= {wanted:g}", measured >= wanted


def at_most(what: str, measured: float, wanted: float) -> Row:
    """Returns the row of a goal that is reached from above."""
    return what, measured, f"<= {wanted:g}", measured <= wanted


# ---- the page ------------------------------------------------------------------------------------


def page(results: dict[str, Any]) -> str:
    """Returns docs/performance.md."""
    here = results["machine"]
    parts = [
        "# How fast it is",
        f"Written by `seerax bench` (`make bench`): one run on {here['cores']} cores "
        f"({here['processor']}), every measurement in a process of its own, one after another.\n"
        "The raw numbers are in `results/bench.json`.\n"
        "Rates are environment steps per second, medians.",
        "![Rates and growth](performance.png)",
        "## Ratios",
        markdown.table(
            ("what", "measured", "wanted", ""), [ratio_row(row) for row in goals(results)]
        ),
        *sections(results),
    ]
    return "\n\n".join(parts) + "\n"


def ratio_row(row: Row) -> tuple[str, ...]:
    """Returns a goal as cells of a table."""
    what, measured, wanted, reached = row
    return what, f"{measured:.3g}", wanted, "" if reached else "**missed**"


ABOUT_RATES = """*Simulation* is problem, filter and advice.
*Training* is whole iterations of BRPO with our settings for the problem.
Held-out evaluations, checkpoints and logs come on top of it.
*Network only* is the same acting, judging and improving on recorded data, without a world.
The authors' code: steps per CPU second of environment, filter and ensemble, the best of several
runs."""
ABOUT_PEERS = """Each in an environment of its own (`benchmarks/peers`), same cores, same run.
Pendulum has no belief and no experts: a step of it is cheaper than any of ours."""
ABOUT_DECISIONS = """Filter, experts and residual for one robot (`Pilot.observe` and `act`), in
microseconds."""
ABOUT_GROWTH = """Hypotheses: a step of one world in an open room with so many goals and experts
(256 worlds).
Worlds: one step of all of them, Maze4.
Seeds: an iteration of all of them, Maze4 with 256 worlds each.
Memory: what the compiled program holds at most.
The exponent is of the power law through all points.
In brackets stands that of the last two points, where what is paid once no longer shows."""


def sections(results: dict[str, Any]) -> Iterator[str]:
    """Yields the page's paragraphs about each section that was measured."""
    if "training" in results and "simulation" in results:
        yield from ("## Rates", unwrapped(ABOUT_RATES), rates(results))
    if "peers" in results:
        rows = [peer_row(*item) for item in results["peers"].items()]
        yield from ("## Others", f"{unwrapped(ABOUT_PEERS)}\n{minibatches()}")
        yield markdown.table(("who", "steps/s", "settings"), rows)
    if "decisions" in results:
        rows = [
            (name, f"{taken['p50']:.0f}", f"{taken['p99']:.0f}")
            for name, taken in results["decisions"].items()
        ]
        yield from ("## One decision", unwrapped(ABOUT_DECISIONS))
        yield markdown.table(("problem", "median", "99 %"), rows)
    if "growth" in results:
        yield from ("## Growth", unwrapped(ABOUT_GROWTH), growth(results["growth"]))


def unwrapped(text: str) -> str:
    """Returns a text with one sentence per line."""
    return re.sub(r"(?<![.:])\n", " ", text)


def rates(results: dict[str, Any]) -> str:
    """Returns the table of steps per second of every problem."""
    rows = []
    for name in PAPER:
        found = results["simulation"][name]
        learned = results["training"][name]
        numbers = (
            found["one_core"],
            found["all_cores"],
            ORIGINAL[name],
            learned["training"],
            learned["limit"],
        )
        rows.append((name, *[thousands(number) for number in numbers]))
    head = (
        "problem",
        "simulation, one core",
        "simulation, all cores",
        "authors' code",
        "training",
        "network only",
    )
    return markdown.table(head, rows)


def peer_row(name: str, result: dict[str, Any]) -> tuple[str, str, str]:
    """Returns a peer's result as cells of a table."""
    if "skipped" in result:
        return name, "-", f"skipped: {result['skipped']}"
    settings = result["settings"]
    if isinstance(settings, dict):
        settings = ", ".join(f"{key} {value}" for key, value in settings.items())
    return name, thousands(result["steps_per_second"]), str(settings)


def growth(axes: dict[str, Any]) -> str:
    """Returns the table of time and memory for growing numbers of each axis."""
    rows = []
    for axis, grown in axes.items():
        exponent = f"{grown['exponent']:.2f} ({last_exponent(grown):.2f})"
        for size, seconds, memory in zip(
            grown["sizes"], grown["seconds"], grown["memory"], strict=True
        ):
            rows.append((axis, str(size), f"{1e6 * seconds:.3g}", f"{memory / 1e6:.3g}", exponent))
    return markdown.table(
        ("of", "how many", "microseconds", "memory, MB", "exponent of time"), rows
    )


def last_exponent(grown: dict[str, Any]) -> float:
    """Returns the exponent of the power law through the last two points."""
    (size, larger), (seconds, longer) = grown["sizes"][-2:], grown["seconds"][-2:]
    return math.log(longer / seconds) / math.log(larger / size)


def minibatches() -> str:
    """Returns a sentence on the sizes of minibatches: larger ones mean fewer updates."""
    sizes = {name: (ppo := settings(name).ppo).batch // ppo.minibatches for name in PAPER}
    told = ", ".join(f"{name} {size}" for name, size in sizes.items())
    return f"Steps in a minibatch: rejax 4096; ours {told}."


def thousands(rate: float) -> str:
    """Returns a rate as 640 or 65k."""
    return f"{rate / 1e3:,.0f}k" if rate >= 1e4 else f"{rate:,.0f}"


def scaling_table(here: dict[str, Any]) -> str:
    """Returns the cost model's table, calibrated with what one and two devices took."""
    config = settings("maze4").ppo
    work = cost_model.Work.of(config, here["one"]["parameters"])
    one, two = (config.batch / here[name]["steps_per_second"] for name in ("one", "all"))
    machine = cost_model.calibrated(work, one, two, BETWEEN_CORES)
    said = (
        f"Calibrated by `seerax bench` on Maze4: "
        f"an iteration of {work.steps} steps took {1e3 * one:.0f} ms on one device (a host core) "
        f"and {1e3 * two:.0f} ms on two.\n"
        "What is missing to half is put down to latency, "
        f"{1e6 * machine.latency:.0f} microseconds a hop."
    )
    return f"{said}\n\n{cost_model.table(work, machine)}"


# ---- writing -------------------------------------------------------------------------------------


def write(results: dict[str, Any], docs: Path) -> list[Path]:
    """Writes performance.md and its picture, and the table in scaling.md if that page exists."""
    written = [docs / "performance.md", docs / "performance.png"]
    files.write_bytes(written[0], page(results).encode())
    picture(results, written[1])
    if (docs / "scaling.md").exists() and "devices" in results:
        markdown.write_between(docs / "scaling.md", "scaling", scaling_table(results["devices"]))
        written.append(docs / "scaling.md")
    return written


def picture(results: dict[str, Any], path: Path) -> None:
    """Draws the rates as bars and the growth as lines."""
    from matplotlib.figure import Figure

    sheet = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = sheet.subplots(1, 2, width_ratios=(1.5, 1))
    draw_rates(left, results)
    draw_growth(right, results.get("growth", {}))
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    figures.save(sheet, path, dpi=130)


BARS = {  # label: (section, field, colour)
    "simulation": ("simulation", "all_cores", "belief"),
    "training": ("training", "training", "action"),
    "network only": ("training", "limit", "faint"),
}


def draw_rates(ax: Any, results: dict[str, Any]) -> None:
    """Draws steps per second of every problem as bars, and rejax's as a level."""
    from seerax.drawing import PALETTE

    for offset, (label, (section, field, colour)) in enumerate(BARS.items()):
        if section in results:
            heights = [results[section][name][field] for name in PAPER]
            places = [i + 0.27 * (offset - 1) for i in range(len(PAPER))]
            ax.bar(places, heights, 0.25, label=label, color=PALETTE[colour])
    rejax = results.get("peers", {}).get(REJAX, {}).get("steps_per_second")
    if rejax:
        look = {"color": PALETTE["ink"], "linestyle": "--", "linewidth": 1}
        ax.axhline(rejax, label="rejax, Pendulum (training)", **look)
    ax.set(
        yscale="log",
        ylabel="steps per second, all cores",
        xticks=range(len(PAPER)),
        xticklabels=PAPER,
    )
    ax.legend(frameon=False, ncols=2, loc="upper right")
    ax.set_ylim(top=ax.get_ylim()[1] * 4)


def draw_growth(ax: Any, axes: dict[str, Any]) -> None:
    """Draws how the time of a step or an iteration grows with hypotheses, worlds and seeds."""
    from seerax.drawing import PALETTE

    for (name, grown), colour in zip(axes.items(), ("belief", "agent", "action"), strict=False):
        relative = [second / grown["seconds"][0] for second in grown["seconds"]]
        sizes = [size / grown["sizes"][0] for size in grown["sizes"]]
        label = f"{name} (exponent {grown['exponent']:.2f})"
        ax.loglog(sizes, relative, "o-", color=PALETTE[colour], label=label)
    ax.plot([1, 1000], [1, 1000], ":", color=PALETTE["faint"], label="proportional")
    ax.set(xlabel="how many times as many", ylabel="how many times as long")
    ax.legend(frameon=False)
