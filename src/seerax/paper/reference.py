"""The returns that the authors recorded for their ensembles, and why ours differ."""

from __future__ import annotations

from typing import NamedTuple


class Original(NamedTuple):
    """The mean return of the authors' ensemble in their own simulation; see docs/problems.md."""

    mean: float
    stderr: float
    because: str  # what makes ours different

    def __str__(self) -> str:
        return f"{self.mean:g} +- {self.stderr:g} (authors' code): {self.because}"


ORIGINALS = {
    "crowdnav": Original(
        -177.5, 12.3, "it also pays 4 - y a step, and its controller does not see the road's edge"
    ),
    "cartpole": Original(
        428.9, 13.9, "another filter, and a cart's mass without effect; our experts are as strong"
    ),
    "armshelf": Original(
        45.9, 3.9, "another law of noise, and an expert that heads straight for the object"
    ),
    "maze4": Original(
        229.4, 19.8, "its filter is given the true noise, and its experts never brake"
    ),
    "maze10": Original(398.4, 12.2, "its experts never brake; with such experts ours has 409"),
    "door4": Original(88.8, 2.1, "sensing costs it 0.1 instead of the paper's 1"),
}
