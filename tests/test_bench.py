"""The bench measures what it says it measures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure

from seerax import experiments
from seerax.bench import programs, report, sections
from seerax.bench.timing import alternated, exponent, timed
from seerax.errors import UserError
from seerax.experiments import Experiment
from seerax.filters import Categorical
from seerax.ppo.config import Config
from seerax.system import markdown

TINY = Experiment(
    "tiger", ppo=Config(steps=4096, worlds=16, rollout_length=8, minibatches=2, hidden=(8,))
)


def some_results(training: float, rejax: float) -> dict[str, Any]:
    """As `seerax bench --only training peers` leaves them."""
    each = {"training": training, "limit": 2 * training, "ratio": 0.5, "compiled_again": 0}
    machine = {"cores": 2, "processor": "a processor", "python": "3.11"}
    peers = {
        report.REJAX: {"steps_per_second": rejax, "settings": {"envs": 1024}},
        report.SB3: {"skipped": "no torch"},
    }
    return {"training": dict.fromkeys(sections.PAPER, each), "peers": peers, "machine": machine}


def test_the_exponent_of_a_power_law_is_found() -> None:
    sizes = [4, 16, 64, 256]
    assert exponent(sizes, [3e-6 * size**0.7 for size in sizes]) == pytest.approx(0.7)


def test_clocks_tell_slow_from_fast() -> None:
    some = jnp.ones((400, 400))
    slow, fast = jax.jit(lambda: some @ some @ some @ some @ some), jax.jit(lambda: some[0, 0])
    times = alternated({"slow": slow, "fast": fast}, seconds=0.2)
    assert times["slow"].median > 3 * times["fast"].median
    assert timed(fast, seconds=0.0, least=7).calls == 7


def test_goals_say_what_is_missed() -> None:
    reached = {what: ok for what, _, _, ok in report.goals(some_results(300e3, 200e3))}
    assert reached["Maze4 training / rejax's PPO on Pendulum"]
    assert (
        not reached["maze4 training / network only"] and reached["armshelf training / network only"]
    )
    assert not any("Stable-Baselines3" in what for what in reached)
    missed = {what: ok for what, _, _, ok in report.goals(some_results(290e3, 200e3))}
    assert not missed["Maze4 training / rejax's PPO on Pendulum"]


def test_the_page_shows_ratios_first_and_what_was_skipped(tmp_path: Path) -> None:
    (tmp_path / "scaling.md").write_text("# Scaling\n<!-- scaling -->\nnothing\n<!-- end -->\n")
    results = some_results(300e3, 200e3)
    one = {"steps_per_second": 1e5, "parameters": 10_000, "worlds": 1024, "peak_memory": 1e9}
    results["devices"] = {"one": one, "all": {**one, "steps_per_second": 1.8e5}, "maze10": one}
    written = report.write(results, tmp_path)
    text = (tmp_path / "performance.md").read_text()
    assert text.index("## Ratios") < text.index("## Others")
    assert "skipped: no torch" in text and "**missed**" in text
    assert "| 1000 |" in (tmp_path / "scaling.md").read_text()
    assert all(path.stat().st_size > 100 for path in written)


def test_a_failed_picture_leaves_the_page_with_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "performance.png").write_text("old")

    def fail(self: Figure, path: Path, **options: Any) -> None:
        Path(path).write_text("half")
        raise ZeroDivisionError

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(ZeroDivisionError):
        report.picture(some_results(300e3, 200e3), tmp_path / "performance.png")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_a_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing to fill")
    with pytest.raises(UserError, match="no place for 'scaling'"):
        markdown.write_between(page, "scaling", "numbers")
    assert page.read_text() == "nothing to fill"


def test_a_simulation_goes_on_from_where_it_was() -> None:
    program, call = programs.simulation(experiments.find_problem("tiger"), 8)
    first, second = (np.asarray(jax.random.key_data(call()[1].episode)) for _ in range(2))
    assert (first != second).any()
    assert program.memory_analysis().argument_size_in_bytes > 0


def test_the_limit_acts_on_what_was_recorded_as_play_did() -> None:
    trainer = TINY.trainer()
    train_state = programs.beginner(trainer)
    one = jax.tree.map(lambda leaf: leaf[0], train_state)
    trajectory, _ = programs.recorded(trainer, one)
    again = programs.acted(trainer, jax.random.key(5), one, trajectory)
    np.testing.assert_allclose(again.value, trajectory.value, rtol=1e-5, atol=1e-5)
    assert again.raw.shape == trajectory.raw.shape
    np.testing.assert_allclose(np.std(again.raw), np.std(trajectory.raw), rtol=0.2)
    following = programs.network_only(trainer, train_state)()
    assert not np.allclose(
        following.params.network.critic.weights[0], one.params.network.critic.weights[0]
    )


def test_a_decision_is_what_the_belief_mdp_would_do() -> None:
    trainer = TINY.trainer()
    mdp = trainer.mdp
    before, after, *_ = programs.recorded_states(mdp)
    pilot, call = programs.decision(trainer)
    expected = mdp.filter.update(mdp.filter.init(), before, pilot.act(), after)
    action = call()
    np.testing.assert_allclose(pilot.situation.belief, expected, rtol=1e-6)
    assert action.shape == (mdp.action_size,) and np.isfinite(action).all()


@pytest.mark.parametrize("hypotheses", [4, 16])
def test_in_the_open_room_the_right_goal_is_found(hypotheses: int) -> None:
    mdp = programs.open_room(hypotheses)
    assert isinstance(mdp.filter, Categorical) and mdp.filter.size == hypotheses
    world = jax.jit(mdp.reset)(jax.random.key(0))
    step = jax.jit(mdp.step)
    for key in jax.random.split(jax.random.key(1), 150):
        before, world = world, step(key, world, world.situation.advice)[0]
        if before.over:
            break
    believed = mdp.filter.mode(before.situation.belief)
    assert np.linalg.norm(believed - before.latent) < 4 * np.pi / hypotheses + 0.2
