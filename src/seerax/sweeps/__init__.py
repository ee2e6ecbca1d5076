"""Many runs: problems x agents x seeds x settings, each in a folder of its own, and one table at
the end.

Internal: use `seerax sweep`.
"""

from seerax.sweeps.plan import Job, Plan
from seerax.sweeps.summary import Row, summarise, table, write_summary
from seerax.sweeps.workers import start_workers

__all__ = ["Job", "Plan", "Row", "start_workers", "summarise", "table", "write_summary"]
