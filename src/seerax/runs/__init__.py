"""Training runs that outlive their process: folder, session, checkpoints, metrics and policies.

Import from here; the submodules are internal.
"""

from typing import TYPE_CHECKING

from seerax.lazy import attach

if TYPE_CHECKING:
    from seerax.runs.folder import Run as Run
    from seerax.runs.folder import RunFolder as RunFolder
    from seerax.runs.folder import reopen as reopen
    from seerax.runs.folder import versions as versions
    from seerax.runs.policies import load as load
    from seerax.runs.policies import load_policy as load_policy
    from seerax.runs.training import train as train

__getattr__, __all__ = attach(
    __name__,
    {
        "Run": "folder",
        "RunFolder": "folder",
        "load": "policies",
        "load_policy": "policies",
        "reopen": "folder",
        "train": "training",
        "versions": "folder",
    },
)
