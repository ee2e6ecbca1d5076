"""A model of an iteration's cost on n devices: arithmetic is shared among them, messages are not.

time(n) = overhead + arithmetic / n
          + messages * (hops(n) * latency + 2 (n - 1) / n * bytes / bandwidth)

The last term is the all-reduce of one vector: a ring passes its n pieces round twice, in 2 (n - 1)
hops one after another; a tree of halving and doubling moves the same bytes in 2 log2(n) hops
(Thakur, Rabenseifner and Gropp, 2005).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from seerax.ppo.config import Config


@dataclass(frozen=True)
class Work:
    """The work of one iteration of training."""

    steps: int  # environment steps, of all devices together
    messages: int  # all-reduces, one after another
    bytes: int  # of each message

    @classmethod
    def of(cls, config: Config, parameters: int) -> Work:
        """Returns the work with a float32 gradient per minibatch and a message with statistics."""
        return cls(config.batch, config.epochs * config.minibatches + 1, 4 * parameters)


@dataclass(frozen=True)
class Machine:
    """The speed of one device and of the links between devices."""

    seconds_per_step: float  # of playing and improving together, on one device
    latency: float  # seconds per hop of a message
    bandwidth: float  # bytes per second of one link
    overhead: float = 0.0  # seconds of an iteration that more devices do not shorten
    network: Literal["ring", "tree"] = "ring"

    def hops(self, devices: int) -> int:
        """Returns the hops of one all-reduce."""
        return 2 * (devices - 1) if self.network == "ring" else 2 * math.ceil(math.log2(devices))


class Cost(NamedTuple):
    """The seconds of one iteration, by what takes them."""

    overhead: float
    arithmetic: float
    latency: float
    transfer: float

    @property
    def total(self) -> float:
        """Returns the seconds of the whole iteration."""
        return sum(self)


def iteration(work: Work, machine: Machine, devices: int) -> Cost:
    """Returns the cost of one iteration on so many devices."""
    return Cost(
        machine.overhead,
        work.steps * machine.seconds_per_step / devices,
        work.messages * machine.hops(devices) * machine.latency,
        work.messages * 2 * (devices - 1) / devices * work.bytes / machine.bandwidth,
    )


def speed_up(work: Work, machine: Machine, devices: int) -> float:
    """Returns the speed-up of so many devices over one, for the same batch."""
    return iteration(work, machine, 1).total / iteration(work, machine, devices).total


def grown_speed_up(work: Work, machine: Machine, devices: int) -> float:
    """Returns the speed-up of so many devices over one, for a batch that grows with them."""
    grown = replace(work, steps=work.steps * devices)
    return devices * iteration(work, machine, 1).total / iteration(grown, machine, devices).total


def calibrated(work: Work, one: float, two: float, bandwidth: float = math.inf) -> Machine:
    """Returns the machine on which an iteration took `one` seconds on one device and `two` on two.

    Two measurements cannot tell latency from bandwidth: the bandwidth is given, and what remains is
    latency.
    """
    arithmetic = Machine(one / work.steps, 0.0, bandwidth)
    missing = two - iteration(work, arithmetic, 2).total
    return replace(arithmetic, latency=max(0.0, missing / (work.messages * arithmetic.hops(2))))


def table(work: Work, machine: Machine, counts: Iterable[int] = (1, 8, 64, 1000)) -> str:
    """Returns the Markdown table of docs/scaling.md."""
    lines = [
        "| devices | same batch: ms an iteration | speed-up | of it messages "
        "| batch x devices: speed-up |"
    ]
    lines.append("|---|---|---|---|---|")
    for count in counts:
        cost = iteration(work, machine, count)
        share = (cost.latency + cost.transfer) / cost.total
        same = speed_up(work, machine, count)
        grown = grown_speed_up(work, machine, count)
        lines.append(
            f"| {count} | {1e3 * cost.total:.3g} | {same:.3g} | {100 * share:.0f} % | {grown:.3g} |"
        )
    return "\n".join(lines)
