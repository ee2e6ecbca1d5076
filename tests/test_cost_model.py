"""The cost model at its limits."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from seerax.bench.cost_model import (
    Machine,
    Work,
    calibrated,
    grown_speed_up,
    iteration,
    speed_up,
    table,
)
from seerax.ppo.config import Config

WORK = Work(steps=65536, messages=65, bytes=40_000)
MACHINE = Machine(seconds_per_step=2e-6, latency=5e-6, bandwidth=1e9)
COUNTS = (1, 2, 8, 64, 1000)


def test_an_iteration_is_as_the_config_says():
    work = Work.of(Config(worlds=8, rollout_length=4, epochs=3, minibatches=2), parameters=100)
    assert work == Work(steps=32, messages=7, bytes=400)


def test_one_device_needs_what_was_measured():
    machine = calibrated(WORK, one=0.25, two=0.14, bandwidth=1e9)
    assert iteration(WORK, machine, 1).total == pytest.approx(0.25)
    assert iteration(WORK, machine, 2).total == pytest.approx(0.14)


def test_two_devices_faster_than_possible_mean_no_latency():
    assert calibrated(WORK, one=0.25, two=0.12).latency == 0.0


@pytest.mark.parametrize("devices", COUNTS)
def test_a_perfect_network_gives_linear_speed_up(devices):
    perfect = replace(MACHINE, latency=0.0, bandwidth=math.inf)
    assert speed_up(WORK, perfect, devices) == pytest.approx(devices)
    assert grown_speed_up(WORK, perfect, devices) == pytest.approx(devices)


@pytest.mark.parametrize("network", ["ring", "tree"])
def test_a_real_network_gives_less_and_a_larger_batch_more(network):
    machine = replace(MACHINE, network=network, overhead=1e-3)
    for devices in COUNTS[1:]:
        assert (
            0 < speed_up(WORK, machine, devices) < grown_speed_up(WORK, machine, devices) < devices
        )


def test_the_bytes_of_a_ring_hardly_grow_and_its_hops_do():
    two, many = (iteration(WORK, MACHINE, n) for n in (2, 1000))
    assert many.transfer / two.transfer == pytest.approx(2 * 999 / 1000)
    assert many.latency / two.latency == pytest.approx(999)
    tree = replace(MACHINE, network="tree")
    assert [tree.hops(n) for n in (1, 2, 8, 1000)] == [0, 2, 6, 20]


def test_the_table_says_it():
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table(WORK, MACHINE).splitlines()
    ]
    assert [row[0] for row in rows[2:]] == ["1", "8", "64", "1000"]
    assert rows[2] == ["1", "131", "1", "0 %", "1"]
