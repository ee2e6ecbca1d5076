"""What an iteration should cost on many devices, on paper: arithmetic that is shared, messages that are not.

time(n) = overhead + arithmetic / n + messages * (hops(n) * latency + 2 (n - 1) / n * bytes / bandwidth)

The last term is the all-reduce of one vector: a ring passes its n pieces round twice, 2 (n - 1) hops one after another;
a tree of halving and doubling moves the same bytes in 2 log2(n) hops (Thakur, Rabenseifner and Gropp, 2005).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from seerax.ppo.config import Config


@dataclass(frozen=True)
class Work:
    """One iteration of training."""

    steps: int  # environment steps, of all devices together
    messages: int  # all-reduces, one after another
    bytes: int  # in each of them

    @classmethod
    def of(cls, config: Config, parameters: int) -> Work:
        """A message per minibatch with the gradient in 32 bits, and one with the statistics."""
        return cls(config.batch, config.epochs * config.minibatches + 1, 4 * parameters)


@dataclass(frozen=True)
class Machine:
    """One device, and what lies between two of them."""

    seconds_per_step: float  # of play and improvement together, on one device
    latency: float  # seconds per hop of a message
    bandwidth: float  # bytes per second of one link
    overhead: float = 0.0  # seconds of an iteration that no number of devices makes shorter
    network: Literal["ring", "tree"] = "ring"

    def hops(self, devices: int) -> int:
        return 2 * (devices - 1) if self.network == "ring" else 2 * math.ceil(math.log2(devices))


class Cost(NamedTuple):
    """Seconds of one iteration."""

    overhead: float
    arithmetic: float
    latency: float
    transfer: float

    @property
    def total(self) -> float:
        return sum(self)


def iteration(work: Work, machine: Machine, devices: int) -> Cost:
    return Cost(
        machine.overhead,
        work.steps * machine.seconds_per_step / devices,
        work.messages * machine.hops(devices) * machine.latency,
        work.messages * 2 * (devices - 1) / devices * work.bytes / machine.bandwidth,
    )


def speed_up(work: Work, machine: Machine, devices: int) -> float:
    """The same batch on so many devices, against one."""
    return iteration(work, machine, 1).total / iteration(work, machine, devices).total


def grown_speed_up(work: Work, machine: Machine, devices: int) -> float:
    """Steps per second with a batch that grows with the devices, against one device with its own."""
    grown = replace(work, steps=work.steps * devices)
    return devices * iteration(work, machine, 1).total / iteration(grown, machine, devices).total


def calibrated(work: Work, one: float, two: float, bandwidth: float = math.inf) -> Machine:
    """The machine on which an iteration took `one` second on one device and `two` on two.

    Two measurements cannot tell latency from bandwidth: the bandwidth is given, and what remains is latency.
    """
    arithmetic = Machine(one / work.steps, 0.0, bandwidth)
    missing = two - iteration(work, arithmetic, 2).total
    return replace(arithmetic, latency=max(0.0, missing / (work.messages * arithmetic.hops(2))))


def table(work: Work, machine: Machine, counts: Iterable[int] = (1, 8, 64, 1000)) -> str:
    """Markdown for docs/scaling.md."""
    lines = [
        "| devices | same batch: ms an iteration | speed-up | of it messages | batch x devices: speed-up |"
    ]
    lines.append("|---|---|---|---|---|")
    for count in counts:
        cost = iteration(work, machine, count)
        share = (cost.latency + cost.transfer) / cost.total
        same, grown = speed_up(work, machine, count), grown_speed_up(work, machine, count)
        lines.append(
            f"| {count} | {1e3 * cost.total:.3g} | {same:.3g} | {100 * share:.0f} % | {grown:.3g} |"
        )
    return "\n".join(lines)
