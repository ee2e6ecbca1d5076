"""Runs `seerax train` as one process of a team.

python member.py TARGET SIGNAL STEPS train ...: at STEPS it sends itself SIGNAL (0 for none); TARGET
is written at the end of training, and holds what was learned.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import jax
import numpy as np

from seerax import cli
from seerax.runs import training


def main(target: str, signal: int, steps: int) -> None:
    train = training.train

    def watched(run, trainer, report, *options):
        def sent(progress):
            report(progress)
            if signal:
                time.sleep(0.02)  # a signal needs a moment to be heard
            if signal and progress.steps == steps:
                os.kill(os.getpid(), signal)

        progress = train(run, trainer, sent, *options)
        np.savez(Path(target), *map(np.asarray, jax.tree.leaves(progress.train_state.params)))
        return progress

    training.train = watched
    cli.main()


if __name__ == "__main__":
    target, signal, steps, *arguments = sys.argv[1:]
    sys.argv = ["seerax", *arguments]
    main(target, int(signal), int(steps))
