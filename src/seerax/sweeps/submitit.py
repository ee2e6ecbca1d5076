"""submitit, which hands jobs to SLURM: an extra that is imported only when it is asked for."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from seerax.errors import UserError


def executor(kind: str, folder: Path, options: dict[str, Any]) -> Any:
    """Creates submitit's executor for a cluster. `local` runs all jobs at once on this machine."""
    try:
        made = module().AutoExecutor(folder=folder, cluster=kind)
        made.update_parameters(name="seerax", **options)
    except (RuntimeError, NameError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"submitit cannot use the cluster {kind}: {reason}", "cluster") from error
    return made


def module() -> Any:
    try:
        return importlib.import_module("submitit")
    except ModuleNotFoundError as error:
        raise UserError(
            "A cluster needs submitit: install seerax with its extra, seerax[slurm].", "cluster"
        ) from error
