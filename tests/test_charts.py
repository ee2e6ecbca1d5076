"""Charts show the numbers that were saved: curves, levels, intervals and scales are read back from
them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from panels import SEEDS, STEPS, blank

from seerax import drawing, figures, pictures, runs
from seerax.errors import UserError
from seerax.experiments import Experiment, labels_of
from seerax.figures import yscale
from seerax.paper import charts, exact
from seerax.problems import PAPER, WITH_SENSING
from seerax.runs import metrics
from seerax.settings import settings
from seerax.system import files

# ---- curves --------------------------------------------------------------------------------------


def test_the_curve_shows_means_and_intervals_over_seeds() -> None:
    ax = blank()
    figures.draw_curves(ax, {"BRPO": [(STEPS, seed) for seed in SEEDS]}, 12.5, 40.0)
    line, ensemble, clairvoyant = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), STEPS)
    np.testing.assert_allclose(line.get_ydata(), [3.0, 13.0, 30.0])
    margin = (
        4.302653 * np.array([3.0, np.sqrt(7.0), 0.0]) / np.sqrt(3)
    )  # Student's t, two degrees of freedom
    [band] = ax.collections
    for step, mean, half in zip(STEPS, (3.0, 13.0, 30.0), margin, strict=True):
        heights = [y for x, y in band.get_paths()[0].vertices if x == step]
        assert (min(heights), max(heights)) == pytest.approx((mean - half, mean + half), rel=1e-6)
    assert (
        ensemble.get_ydata()[0] == 12.5
        and ensemble.get_color() == drawing.BLACK
        and ensemble.get_linestyle() == "--"
    )
    assert clairvoyant.get_ydata()[0] == 40.0 and clairvoyant.get_linestyle() == ":"
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["BRPO (3 seeds)", "ensemble of experts", "clairvoyant expert"]
    assert ax.xaxis.get_major_formatter()(1_500_000) == "1.5"


def test_a_long_label_leaves_the_curves_their_room() -> None:
    figure = Figure(figsize=(7.6, 4.0), layout="constrained")
    label = "brpo, bonus 0.5, bonus_form potential, ppo.exploration 2.0 2.0 1.0"
    figures.draw_curves(ax := figure.add_subplot(), {label: [(STEPS, SEEDS[0])]})
    figure.draw_without_rendering()
    assert ax.get_position().width > 0.5
    assert ax.get_legend().get_texts()[0].get_text().replace("\n", " ") == label


def test_one_seed_has_no_interval() -> None:
    ax = blank()
    figures.draw_curves(ax, {"bpo": [(STEPS, SEEDS[0])]})
    assert not ax.collections
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), SEEDS[0])


def test_seeds_count_as_far_as_the_shortest_and_must_agree_on_steps() -> None:
    steps, mean, _ = figures.over_seeds([(STEPS, SEEDS[0]), (STEPS[:2], SEEDS[1][:2])])
    assert (steps.tolist(), mean.tolist()) == ([0, 1_000_000], [1.5, 12.0])
    with pytest.raises(UserError, match="same numbers of steps"):
        figures.over_seeds([(STEPS, SEEDS[0]), (STEPS + 1, SEEDS[1])])
    with pytest.raises(UserError, match="no held-out evaluation"):
        figures.over_seeds([])


def test_the_gap_shows_exact_lines_and_simulated_points() -> None:
    ax = blank()
    point = figures.Point(1, 18.0, 2.0)
    gap = figures.Gap(2, exact.tree_optimum, exact.tree_posterior_sampling, [point])
    figures.draw_gap(ax, gap)
    optimal, sampled, points = ax.lines[:3]
    assert optimal.get_ydata() == pytest.approx([99.9])
    assert sampled.get_ydata() == pytest.approx([100 / 4 - 10 * 3 / 4])
    assert points.get_ydata() == pytest.approx([18.0])
    [bars] = [segment for collection in ax.collections[1:] for segment in collection.get_segments()]
    np.testing.assert_allclose(bars[:, 1], [18.0 - 3.92, 18.0 + 3.92])


def kept_run(folder: Path, experiment: Experiment, seed: int, returns: float) -> str:
    """As much of a run's folder as a curve is drawn from."""
    run = runs.Run(experiment, seed, 1, runs.RunFolder(folder))
    folder.mkdir()
    files.write_json(run.folder.config, run.config())
    rows = [
        {"steps": steps, "seed": seed, "seconds": 1.0, "held_out": returns} for steps in (0, 1000)
    ]
    run.folder.metrics.write_text("".join(metrics.as_line(row) for row in rows))
    return str(folder)


OURS = settings("maze4")
BOLDER = replace(OURS, ppo=replace(OURS.ppo, exploration=(2.0, 2.0, 1.0)))


def curves_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *experiments: Experiment
) -> dict[str, list[float]]:
    """What `seerax figure curve` shows of runs with returns 0, 1, 2, ...: labels, and the first
    return of each seed.
    """
    folders = [kept_run(tmp_path / str(i), each, i, float(i)) for i, each in enumerate(experiments)]
    shown: dict[str, Any] = {}
    monkeypatch.setattr(
        figures, "curve", lambda path, curves, **lines: shown.update(curves), raising=False
    )
    pictures.curve(tmp_path / "curve.png", [Path(folder) for folder in folders])
    return {label: [returns[0] for _, returns in seeds] for label, seeds in shown.items()}


def test_runs_that_differ_only_in_their_seed_are_one_curve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = settings("maze4", "bpo")
    assert curves_of(tmp_path, monkeypatch, OURS, other, OURS) == {"brpo": [0.0, 2.0], "bpo": [1.0]}


def test_runs_with_other_settings_are_curves_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = curves_of(tmp_path, monkeypatch, OURS, BOLDER, settings("maze4", "bpo"), BOLDER)
    assert shown == {
        "brpo, ppo.exploration 1.0": [0.0],
        "brpo, ppo.exploration 2.0 2.0 1.0": [1.0, 3.0],
        "bpo": [2.0],
    }


def test_runs_on_different_problems_are_not_one_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="runs on one problem, not on maze4 and tiger"):
        curves_of(tmp_path, monkeypatch, OURS, settings("tiger"))


def test_labels_name_every_setting_that_differs() -> None:
    others = [BOLDER, replace(OURS, bonus=0.5)]
    told = labels_of([OURS, *others])
    assert told[0] == "brpo, bonus 0.0, ppo.exploration 1.0"
    assert told[1:] == [
        "brpo, bonus 0.0, ppo.exploration 2.0 2.0 1.0",
        "brpo, bonus 0.5, ppo.exploration 1.0",
    ]


# ---- the paper's charts --------------------------------------------------------------------------


def entry(*seeds: Any, mean: float = 0.0, **extra: Any) -> dict[str, Any]:
    curves = [
        {"seed": i, "steps": STEPS.tolist(), "held_out": list(seed)} for i, seed in enumerate(seeds)
    ]
    return {
        "curves": curves,
        "evaluation": {"mean": mean, "ci95": [mean - 2, mean + 3]},
        "extra": extra,
    }


def legend_of(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_the_benchmark_shows_what_was_saved_and_leaves_out_the_rest() -> None:
    results = {
        "maze4-brpo": entry(*SEEDS),
        "maze4-bpo": entry(SEEDS[0] - 5),
        "maze4-ensemble": entry(mean=12.5),
        "door4-brpo": entry(*SEEDS),
        "door4-clairvoyant": entry(mean=40.0),
        "cartpole-ensemble": entry(mean=1.0),
    }
    figure = charts.lay_out_curves(results, PAPER, charts.BENCHMARK, rows=2)
    panels = {ax.get_title(): ax for ax in figure.axes}
    assert list(panels) == ["CrowdNav", "Cartpole", "ArmShelf", "Maze4", "Maze10", "Door4"]
    ours, ensemble, bpo = panels["Maze4"].lines
    np.testing.assert_allclose(ours.get_ydata(), SEEDS.mean(0))
    np.testing.assert_array_equal(bpo.get_ydata(), SEEDS[0] - 5)
    assert ensemble.get_ydata()[0] == 12.5 and ensemble.get_linestyle() == "--"
    assert [line.get_color() for line in (ours, ensemble, bpo)] == [
        drawing.RED,
        drawing.BLACK,
        drawing.PURPLE,
    ]
    assert len(panels["Maze4"].collections) == 1  # an interval needs several seeds
    for empty in ("CrowdNav", "Cartpole", "Maze10"):
        assert [text.get_text() for text in panels[empty].texts] == ["not run yet"] and not panels[
            empty
        ].lines
    assert legend_of(figure) == ["BRPO", "ensemble of experts", "BPO", "clairvoyant expert"]
    assert (
        figure.legends[0].get_title().get_text()
        == "lines: means over 3 seeds, shaded: 95 % intervals"
    )


def test_a_shared_legend_overlaps_nothing(tmp_path: Path) -> None:
    results = {f"{name}-brpo": entry(*SEEDS) for name in PAPER}
    results |= {f"{name}-brpo_without_belief": entry(*SEEDS) for name in PAPER}
    figure = charts.lay_out_curves(results, WITH_SENSING, charts.INPUTS)
    figures.save(figure, tmp_path / "inputs.png")
    legend = figure.legends[0].get_window_extent()
    assert legend.x0 >= 0 and legend.x1 <= figure.bbox.x1
    assert not any(ax.get_tightbbox().overlaps(legend) for ax in figure.axes)


def test_catastrophes_do_not_squash_what_one_came_to_see() -> None:
    ours, theirs = np.array([10.0, 20.0, 30.0]), np.array([-9000.0, -5000.0, -4000.0])
    ax = blank()
    assert yscale.fit(ax, [ours, np.array([40.0])], [ours, np.array([40.0]), theirs])
    place = ax.transData.transform([(0, height) for height in (-5000.0, 20.0, 40.0)])[:, 1]
    low, high = ax.bbox.y0, ax.bbox.y1
    assert low < place[0] < place[1] < place[2] < high
    assert (place[2] - place[1]) / (high - low) > 0.15  # on a straight scale it would be 0.004
    straight = blank()
    assert not yscale.fit(straight, [ours], [ours, ours - 10])
    assert (
        straight.get_yscale() == "linear"
        and straight.get_ylim()[0] < 10 < 30 < straight.get_ylim()[1]
    )


def test_the_beginning_of_what_matters_is_in_sight_unless_it_lies_too_deep() -> None:
    for first, seen in ((5.0, True), (-500.0, False)):
        ax, ours = blank(), np.array([first, 20.0, 20.0, 30.0])
        yscale.fit(ax, [ours], [ours])
        assert (ax.get_ylim()[0] < first) == seen


@pytest.mark.parametrize("height", [-1e4, -3.0, 0.0, 0.999, 1.0, 7.0])
def test_the_bent_scale_can_be_read_back(height: float) -> None:
    bend = yscale.Bend(knee=1.0, unit=2.0)
    assert bend.height(bend.place(height)) == pytest.approx(height)
    assert bend.place(height) == height if height >= 1 else bend.place(height) > height


def test_the_bonus_is_shown_with_intervals_and_crashes() -> None:
    last = {"crashes": {"mean": 9.0, "ci95": [8.0, 10.0]}}
    results = {
        "door4-brpo": entry(mean=80.0, crashes={"mean": 0.5, "ci95": [0.4, 0.7]}),
        "door4-brpo-bonus100": entry(
            mean=70.0, crashes={"mean": 0.2, "ci95": [0.1, 0.4]}, at_the_end=last
        ),
        "door4-ensemble": entry(mean=60.0),
    }
    maze4, _, door4, crashes = charts.lay_out_bonuses(results).axes
    assert [text.get_text() for text in maze4.texts] == ["not run yet"]
    points = door4.lines[0]
    assert points.get_xydata().tolist() == [
        [0, 80],
        [2, 70],
    ]  # 10 was not run, its place stays empty
    [bars] = [collection.get_segments() for collection in door4.collections]
    np.testing.assert_allclose([bar[:, 1] for bar in bars], [(78, 83), (68, 73)])
    returned, last_ones = (points for points in crashes.lines if points.get_marker() == "o")
    assert returned.get_ydata().tolist() == [0.5, 0.2]
    assert (
        last_ones.get_xydata().tolist() == [[2, 9]] and last_ones.get_markerfacecolor() == "white"
    )


def test_other_forms_of_the_bonus_stand_aside() -> None:
    results = {
        f"maze4-brpo-{form}100": entry(mean=height)
        for form, height in (("bonus", 70.0), ("gain", 75.0))
    }
    figure = charts.lay_out_bonuses({**results, "maze4-brpo-gain10": entry(mean=80.0)})
    ours, code = (line.get_xydata() for line in figure.axes[0].lines if line.get_marker() == "o")
    np.testing.assert_allclose(ours, [[2, 70]])
    np.testing.assert_allclose(code, [[0.8, 80], [1.8, 75]])
    assert legend_of(figure) == ["the paper's bonus", "the authors' code's"]


def test_the_composition_compares_sum_and_blends() -> None:
    results = {"maze10-brpo": entry(*SEEDS), "maze10-brpo-blend0.5": entry(SEEDS[1])}
    figure = charts.lay_out_curves(results, ("maze10",), charts.COMPOSITION)
    assert legend_of(figure) == ["BRPO: sum", "blend, w = 0.5"]


@pytest.mark.parametrize(
    "draw", [charts.benchmark, charts.bonus, charts.inputs, charts.composition]
)
def test_nothing_to_draw_is_a_mistake(draw: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="run the paper's entries first"):
        draw(
            tmp_path / "nothing.png",
            {"maze4-ensemble": entry(mean=1.0), "tiger-brpo": entry(*SEEDS)},
        )
    assert not list(tmp_path.iterdir())
